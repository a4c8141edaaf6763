//! `airgate check` and its neighbours: exit codes, forms, JSON.

use serde_json::{Value, json};

use super::run::{airgate, airgate_with_stdin};

const SAMPLE: [&str; 4] = ["--state", "policies/sample/state", "--releases", "policies/sample/releases"];
const R: &str = "registry.example:5000/ocp/release";
const V4_22_3: &str = "sha256:00f9c54494b47ae60a081b3f7f81224b988d2d562bbedeee8218fc24e03b8e81";
const V4_22_0: &str = "sha256:bb88f6236b1b6dabafe87c6868013212108dc6c04e940782e44c6fa62fd7f36e";

fn check(args: &[&str], code: i32, part: &str) {
    let args: Vec<&str> = ["check"].iter().chain(args).chain(&SAMPLE).copied().collect();
    let output = airgate(&args);
    let all = format!("{}{}", output.stdout, output.stderr);
    assert_eq!(output.code, code, "{args:?}: {all}");
    assert!(all.contains(part), "{args:?} lacks {part:?}: {all}");
}

#[test]
fn exit_codes_say_what_happened() {
    let good = format!("{R}@{V4_22_3}");
    let old = format!("{R}@{V4_22_0}");
    let unknown = format!("{R}@sha256:{}", "9".repeat(64));
    check(&["upgrade", "--to-image", &good], 0, "allowed");
    check(&["upgrade", "--to-image", &old], 1, "4.21.9 cannot go straight to 4.22.0");
    check(&["upgrade", "--to-image", &old, "--force"], 1, "force does not change that");
    check(&["upgrade", "--to-image", &unknown], 3, "no release source on this site knows");
    check(&["upgrade", "--to", "4.22.3"], 1, "ask by image");
    check(&["upgrade", "--to-multi-arch"], 3, "multi payload of 4.21.9");
    check(&["upgrade", "--clear"], 0, "allowed");
    check(&["upgrade", "--clear", "--to", "4.22.3"], 2, "cannot be used with");
    check(&["upgrade"], 2, "required");
    check(&["delete", "internalreleaseimage/cluster"], 1, "still holds 4.21.9");
    check(&["delete", "clusterversion/version"], 1, "must not be deleted");
    check(&["delete", "clusterversion/other"], 3, "does not exist");
    check(&["delete", "clusterversion"], 2, "RESOURCE/NAME");
    check(&["patch", "clusterversion/version", "-p", r#"{"spec":{"channel":"stable-4.22"}}"#], 0, "allowed");
    check(&["patch", "clusterversion/version", "-p", "spec: {channel: stable-4.22}"], 0, "allowed");
    check(&["patch", "clusterversion/version", "-p", r#"{"spec":{"desiredUpdate":{"image":5}}}"#], 1, "cannot be read");
    let json_patch = format!(r#"[{{"op":"add","path":"/spec/desiredUpdate","value":{{"image":"{old}"}}}}]"#);
    check(&["patch", "clusterversion/version", "--type", "json", "-p", &json_patch], 1, "4.22.0");
    check(
        &["patch", "clusterversion/version", "--type", "json", "-p", r#"[{"op":"remove","path":"/nope"}]"#],
        2,
        "does not apply",
    );
    check(
        &[
            "patch",
            "clusterversion/version",
            "--subresource",
            "status",
            "-p",
            r#"{"status":{"desired":{"version":"1.0.0"}}}"#,
        ],
        0,
        "allowed",
    );
    check(&["patch", "clusterversion/version", "-p", r#"[{"op":"remove","path":"/spec"}]"#], 2, "give --type json");
    check(&["patch", "clusterversion/version", "-p", "5"], 2, "a merge patch is an object");
    check(
        &["patch", "clusterversion/version", "--type", "json", "-p", r#"[{"op":"replace","path":"","value":5}]"#],
        2,
        "whole object",
    );
    check(&["upgrade", "--to-image="], 2, "names nothing");
    check(&["upgrade", "--to="], 2, "names nothing");
    check(&["delete", "clusterversio/version"], 2, "there are clusterversions");
    check(&["-f", "/does/not/exist.yaml"], 2, "/does/not/exist.yaml");
    check(&["upgrade", "--to-image", &good, "--now", "tomorrow"], 2, "--now tomorrow");
}

#[test]
fn objects_reviews_and_lists_from_stdin() {
    let args = ["check", "-", "-o", "json"].iter().chain(&SAMPLE).copied().collect::<Vec<_>>();
    let object = |image: &str| json!({"apiVersion": "config.openshift.io/v1", "kind": "ClusterVersion", "metadata": {"name": "version"}, "spec": {"desiredUpdate": {"image": image}}});
    let list = json!({"apiVersion": "v1", "kind": "List", "items": [object(&format!("{R}@{V4_22_3}")), object(&format!("{R}:4.22.3"))]});
    let output = airgate_with_stdin(&args, &list.to_string());
    let lines: Vec<Value> = output.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((output.code, lines.len()), (1, 2), "{}", output.stdout);
    assert_eq!((&lines[0]["allowed"], &lines[0]["outcome"]), (&json!(true), &json!("allow")));
    assert_eq!((&lines[1]["outcome"], &lines[1]["response"]["status"]["code"]), (&json!("deny"), &json!(422)));
    assert_eq!(lines[1]["findings"][0]["policy"], "digest-only");
    assert_eq!(lines[1]["problems"], json!([]));

    let kept = ["check", "-"].iter().chain(&SAMPLE).copied().collect::<Vec<_>>();
    for (stdin, code, part) in [
        (
            "{\"kind\":\"AdmissionReview\",\"apiVersion\":\"admission.k8s.io/v1\",\"request\":{\"uid\":\"u\"",
            2,
            "bad input",
        ),
        (
            "{\"kind\":\"AdmissionReview\",\"apiVersion\":\"admission.k8s.io/v1beta1\",\"request\":{\"uid\":\"u\"}}",
            2,
            "admissionReviewVersions",
        ),
        ("kind: ConfigMap\n", 2, "apiVersion, kind and metadata.name"),
        ("a: [", 2, "YAML"),
        ("", 2, "nothing to check"),
        ("apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n", 3, "not known"),
    ] {
        let output = airgate_with_stdin(&kept, stdin);
        let all = format!("{}{}", output.stdout, output.stderr);
        assert_eq!(output.code, code, "{stdin:?}: {all}");
        assert!(all.contains(part), "{stdin:?} lacks {part:?}: {all}");
    }
}

#[test]
fn a_delete_review_without_its_object_is_completed_from_the_state() {
    let request = |name: &str| {
        json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
            "uid": "u", "operation": "DELETE", "name": name,
            "resource": {"group": "config.openshift.io", "version": "v1", "resource": "clusterversions"}}})
        .to_string()
    };
    let args = ["check", "-"].iter().chain(&SAMPLE).copied().collect::<Vec<_>>();
    let known = airgate_with_stdin(&args, &request("version"));
    assert_eq!(known.code, 1, "{}", known.stdout);
    let unknown = airgate_with_stdin(&args, &request("other"));
    assert!(unknown.code == 2 && unknown.stdout.contains("without oldObject"), "{}", unknown.stdout);
}

#[test]
fn without_a_cluster_it_says_what_to_give() {
    let output = airgate(&["check", "upgrade", "--clear"]);
    assert!(output.code == 3 && output.stdout.contains("--state DIR or --kubeconfig FILE"), "{}", output.stdout);
}

#[test]
fn what_cannot_be_read_is_named_and_the_rest_is_used() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(
        dir.path().join("broken.yaml"),
        "apiVersion: airgate.io/v1alpha1\nkind: ReleaseCatalog\nreleases: [{digest: x}]\n",
    )
    .unwrap();
    let broken = dir.path().to_str().unwrap();
    let good = format!("{R}@{V4_22_3}");
    let args =
        ["check", "upgrade", "--to-image", &good, "--releases", broken, "-o", "json", "--releases", "/does/not/exist"];
    let output = airgate(&args.iter().chain(&SAMPLE).copied().collect::<Vec<_>>());
    let report: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(output.code, 0, "{report}");
    let problems = report["problems"].as_array().unwrap();
    assert!(problems.len() == 2 && problems[0]["file"].as_str().unwrap().ends_with("broken.yaml"), "{report}");
}

#[test]
fn serve_refuses_to_start_and_says_why() {
    for (args, part) in [
        (&["serve", "--state", "policies/sample/state"][..], "--tls-dir DIR"),
        (&["serve", "--self-signed", "target/refused", "--listen", "nonsense"], "--listen nonsense"),
        (&["serve", "--tls-dir", "a", "--self-signed", "b"], "exclude each other"),
        (&["serve", "--config", "/does/not/exist"], "/does/not/exist"),
        (&["serve", "--flavor", "olm", "--self-signed", "target/refused"], "openshift or on kubernetes"),
    ] {
        let output = airgate(args);
        assert!(output.code == 2 && output.stderr.contains(part), "{args:?}: {} {}", output.code, output.stderr);
    }
    let dir = tempfile::tempdir().unwrap();
    let certs = dir.path().to_str().unwrap();
    let loopback = "127.0.0.1:0";
    let nowhere = airgate(&[
        "serve",
        "--self-signed",
        certs,
        "--listen",
        loopback,
        "--health-listen",
        loopback,
        "--admin-listen",
        loopback,
    ]);
    assert!(nowhere.code == 2, "{}", nowhere.stderr);
    assert!(nowhere.stderr.contains("--kubeconfig") && nowhere.stderr.contains("--state"), "{}", nowhere.stderr);
}

#[test]
fn policies_are_listed_and_explained() {
    let list = airgate(&["policies"]);
    let ids: Vec<_> = list.stdout.lines().filter_map(|line| line.split_whitespace().next()).collect();
    let known: Vec<_> = airgate::policies::POLICIES.iter().map(|policy| policy.id).collect();
    assert_eq!(ids, known);
    assert!(ids.starts_with(&["upgrade-path", "digest-only", "release-in-use"]), "in the order of findings: {ids:?}");
    for id in ids {
        let explained = airgate(&["policies", "explain", id]);
        assert!(explained.code == 0 && explained.stdout.contains("guards:"), "{}", explained.stdout);
    }
    let unknown = airgate(&["policies", "explain", "nope"]);
    assert!(unknown.code == 2 && unknown.stderr.contains("there are upgrade-path"), "{}", unknown.stderr);
}

#[test]
fn flag_beats_environment_beats_file() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("config.yaml");
    std::fs::write(&config, "apiVersion: airgate.io/v1alpha1\nkind: Config\nstate: /file\nreleases: [/file]\n")
        .unwrap();
    let config = config.to_str().unwrap();
    let image = format!("{R}@{V4_22_3}");
    let run = |flags: &[&str], env: &[(&str, &str)]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_airgate"));
        command.current_dir(env!("CARGO_MANIFEST_DIR")).env_clear().envs(env.iter().copied());
        let output =
            command.args(["check", "upgrade", "--to-image", &image, "--config", config]).args(flags).output().unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    assert!(run(&[], &[]).1.contains("/file"), "the file's directory does not exist and is named");
    let env = [("AIRGATE_STATE", "/environment"), ("AIRGATE_RELEASES", "policies/sample/releases")];
    let (_, stderr) = run(&[], &env);
    assert!(stderr.contains("/environment") && !stderr.contains("/file"), "{stderr}");
    let (code, stderr) = run(&["--state", "policies/sample/state"], &env);
    assert!(code == 0 && stderr.is_empty(), "{stderr}");
    // Also where two exclude each other: the flag decides; and what is empty is not set.
    let env = [("AIRGATE_KUBECONFIG", "/environment"), ("AIRGATE_RELEASES", ""), ("AIRGATE_CONFIG", "")];
    let (_, stderr) = run(&["--state", "policies/sample/state"], &env);
    assert!(!stderr.contains("/environment") && stderr.contains("/file"), "{stderr}");
    let (code, stderr) = run(&["--state", "a", "--kubeconfig", "b"], &[]);
    assert!(code == 2 && stderr.contains("exclude each other"), "{stderr}");
}

#[test]
fn output_that_cannot_be_written_is_a_failure_and_a_closed_pipe_is_none() {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_airgate"));
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = command.arg("policies").stdout(full).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(2) && stderr.contains("could not be written"), "{stderr}");

    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_airgate"));
    let mut child = command.args(["policies", "reference"]).stdout(std::process::Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn every_flag_of_a_deployment_is_documented() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/configuration.md")).unwrap();
    for verb in ["serve", "manifests"] {
        let help = airgate(&[verb, "--help"]).stdout;
        let flags: Vec<&str> =
            help.lines().filter_map(|line| line.trim_start().strip_prefix("--")?.split([' ', '=']).next()).collect();
        assert!(flags.len() > 10, "{verb}: {flags:?}");
        for flag in flags {
            assert!(page.contains(&format!("`--{flag}")), "docs/configuration.md does not have --{flag} of {verb}");
        }
    }
}
