//! `airgate status` as a command: forms, exit codes, and the example of its page.

use serde_json::Value;

use super::run::airgate;

const SAMPLE: [&str; 5] = ["status", "--state", "policies/sample/state", "--releases", "policies/sample/releases"];

#[test]
fn the_three_forms_say_the_same() {
    let run = |more: &[&str]| airgate(&SAMPLE.iter().chain(more).copied().collect::<Vec<_>>());
    let json = run(&["-o", "json", "--now", "2026-12-01T06:00:00Z"]);
    assert_eq!(json.code, 0, "{}", json.stderr);
    let status: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(status["cluster"]["current"]["version"], "4.21.9");
    assert_eq!(status["needed"]["releases"][0]["holders"][0], "running");
    assert_eq!(status["bundles"]["bundles"][0]["inUse"], "yes");
    assert_eq!(status["bundles"]["bundles"][1]["nodes"][2]["state"], "available");
    let target = &status["upgrades"]["targets"][3];
    assert_eq!((&target["kind"], &target["through"][0]["version"]), (&"through".into(), &"4.22.3".into()));
    assert_eq!(
        (&status["facts"][0]["name"], &status["facts"][0]["state"]),
        (&"ClusterVersion".into(), &"known".into())
    );

    let yaml = run(&["-o", "yaml"]);
    let documents = airgate::files::document::from_yaml(&yaml.stdout).unwrap();
    for section in ["cluster", "needed", "bundles", "upgrades"] {
        // But for the reasons that say how long ago something was read.
        let same = documents[0][section] == status[section] || section == "upgrades";
        assert!(same && documents[0][section].is_object(), "{section}: {}", documents[0][section]);
    }
    let text = run(&[]).stdout;
    assert!(!text.contains('\x1b'), "no colour where no terminal is");
    // Every command that it prints for an upgrade is one that airgate allows.
    let commands: Vec<&str> = text.lines().filter_map(|line| line.trim().strip_prefix("oc adm upgrade ")).collect();
    assert_eq!(commands.len(), 4, "{text}");
    for command in commands {
        let image = command.rsplit(' ').next().unwrap();
        let checked = airgate(&[&["check", "upgrade", "--to-image", image], &SAMPLE[1..]].concat());
        assert_eq!(checked.code, 0, "{command}: {}", checked.stdout);
    }
}

#[test]
fn the_example_is_what_is_printed() {
    let example = std::fs::read_to_string("docs/status-sample.txt").unwrap();
    assert!(example == airgate(&SAMPLE).stdout, "docs/status-sample.txt differs: run make generate");
}

#[test]
fn without_a_cluster_it_says_so() {
    let nothing = airgate(&["status"]);
    assert!(nothing.code == 3 && nothing.stdout.contains("name one with --state DIR"), "{}", nothing.stdout);
    assert_eq!(airgate(&["status", "--now", "tomorrow", "--state", "policies/sample/state"]).code, 2);
}
