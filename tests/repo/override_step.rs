//! `airgate override` on files: what it shows, what it refuses, and that the printed command is what a shell would run.

use serde_json::Value;

use super::run::airgate;

const SAMPLE: [&str; 4] = ["--state", "policies/sample/state", "--releases", "policies/sample/releases"];
const TARGET: &str =
    "registry.example:5000/ocp/release@sha256:290d50fbfd9114b10d676eec5455daa21fa924f8745dc277a0a8de020406b47c";
const LISTED: &str =
    "registry.example:5000/ocp/release@sha256:00f9c54494b47ae60a081b3f7f81224b988d2d562bbedeee8218fc24e03b8e81";

fn run(args: &[&str]) -> (i32, String) {
    let output = airgate(&["override"].iter().chain(args).copied().collect::<Vec<_>>());
    (output.code, format!("{}{}", output.stdout, output.stderr))
}

fn check(args: &[&str], code: i32, part: &str) {
    let args: Vec<&str> = args.iter().chain(&SAMPLE).copied().collect();
    let (got, text) = run(&args);
    assert_eq!(got, code, "{args:?}: {text}");
    assert!(text.contains(part), "{args:?} lacks {part:?}: {text}");
}

#[test]
fn exit_codes_say_what_happened() {
    let upgrade = |image| ["upgrade", "--to-image", image, "--reason", "a test"];
    let with = |more: &[&'static str]| upgrade(TARGET).into_iter().chain(more.iter().copied()).collect::<Vec<_>>();
    check(&upgrade(TARGET), 0, "4.21.9 cannot go straight to 4.23.1");
    check(&upgrade(TARGET), 0, "upgrade-path: the override opens it");
    check(&with(&["--force"]), 0, "force does not change that");
    check(&upgrade(LISTED), 1, "nothing to override");
    check(&upgrade("registry.example:5000/ocp/release:4.23.1"), 1, "digest-only: stays denied");
    check(&with(&["--policy", "release-identity"]), 1, "denied by: upgrade-path");
    check(&with(&["--policy", "upgrade-path"]), 0, "the override opens it");
    check(&with(&["--policy", "upgrade-paths"]), 2, "there is no policy \"upgrade-paths\"; there are upgrade-path");
    for expires in ["25h", "-1h", "0s", "2020-01-01T00:00:00Z"] {
        check(&[&upgrade(TARGET)[..], &[&*format!("--expires={expires}")]].concat(), 2, "at most 24 hours");
    }
    check(&with(&["--expires", "tomorrow"]), 2, "neither a duration");
    check(&with(&["--now", "2026-12-01T00:00:00.7Z", "--expires", "24h"]), 0, "before 2026-12-02T00:00:00Z");
    check(&with(&["--apply"]), 2, "leave --state out");
    check(&with(&["--apply", "--now", "2026-12-01T00:00:00Z"]), 2, "leave --now out");
    check(&["upgrade", "--to-image", TARGET], 2, "--reason");
    check(&["upgrade", "--to-image", TARGET, "--reason", " "], 2, "--reason is empty");
    check(&["upgrade", "--reason", "a test"], 2, "required");
    check(&["upgrade", "--to-multi-arch", "--reason", "a test"], 0, "4.21.9 -> 4.21.9/Multi");
    check(&["delete", "clusterversion/version", "--reason", "a test"], 0, "oc delete clusterversion/version");
    check(&["delete", "internalreleaseimage/cluster", "--reason", "a test"], 0, "cluster -> ocp-release-bundle-4.21.9");
    check(&["delete", "clusterversion/other", "--reason", "a test"], 3, "does not exist");
    check(&["patch", "clusterversion/version", "-p", "5", "--reason", "a test"], 2, "a merge patch is an object");
    check(&["--clear", "clusterversion/version"], 0, "has no override");
    check(&["--clear", "clusterversion/other"], 3, "does not exist");
    check(&[], 2, "describe the step");
}

#[test]
fn the_printed_command_sets_what_was_judged() {
    let reason = "it's \"urgent\"; $(true)";
    let args = ["override", "upgrade", "--to-image", TARGET, "--reason", reason, "-o", "json"];
    let output = airgate(&args.iter().chain(&SAMPLE).copied().collect::<Vec<_>>());
    let report: Value = serde_json::from_str(&output.stdout).unwrap();
    let command = report["commands"]["set"].as_str().unwrap();
    // As a shell takes it apart, with something else in the place of oc.
    let shell = command.replacen("oc ", "printf '%s\\n' ", 1);
    let words = std::process::Command::new("sh").args(["-c", &shell]).output().unwrap();
    let words = String::from_utf8(words.stdout).unwrap();
    let words: Vec<&str> = words.lines().collect();
    assert_eq!(words[..4], ["annotate", "clusterversion", "version", "--overwrite"]);
    let (key, text) = words[4].split_once('=').unwrap();
    assert_eq!((key, text), ("airgate.io/override", report["annotation"].as_str().unwrap()));
    let entry: Value = serde_json::from_str(text).unwrap();
    assert_eq!((&entry["reason"], &entry["from"]), (&reason.into(), &"4.21.9".into()));
    assert_eq!((&report["opens"], &report["applied"]), (&true.into(), &Value::Null));
}

/// What a denial tells people to run exists.
#[test]
fn the_way_out_that_denials_name_is_explained() {
    let (code, help) = run(&["--help"]);
    assert!(code == 0 && help.contains("airgate override upgrade --to-image"), "{help}");
    let explained = airgate(&["policies", "explain", "upgrade-path"]).stdout;
    assert!(explained.contains("airgate override upgrade --to-image PULLSPEC --policy upgrade-path"), "{explained}");
}

#[test]
fn an_override_that_is_there_is_shown_and_the_command_to_remove_it() {
    let dir = tempfile::tempdir().unwrap();
    let saved = std::fs::read_to_string("policies/sample/state/clusterversion.yaml").unwrap();
    let annotated =
        saved.replace("  name: version\n", "  name: version\n  annotations: {airgate.io/override: \"yes\"}\n");
    std::fs::write(dir.path().join("clusterversion.yaml"), annotated).unwrap();
    let state = dir.path().to_str().unwrap();
    let (code, text) = run(&["--clear", "clusterversion/version", "--state", state]);
    assert!(code == 0 && text.contains("oc annotate clusterversion version airgate.io/override-"), "{text}");
    let denied = airgate(&["check", "upgrade", "--to-image", TARGET, "--state", state]);
    assert!(denied.stdout.contains("airgate override --clear clusterversion/version"), "{}", denied.stdout);
}
