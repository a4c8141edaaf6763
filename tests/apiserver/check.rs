//! `airgate check` against the live API server: the verdict before anything is sent, with the same rights.

use std::path::PathBuf;
use std::process::Command;

use crate::guard::{Guard, Site};

/// Exit code and what is printed, for a command line that names the guard's own kubeconfig.
fn check(guard: &Guard, args: &[&str]) -> (Option<i32>, String) {
    let (kubeconfig, releases): (PathBuf, PathBuf) = (guard.kubeconfig(), guard.releases());
    let mut command = Command::new(env!("CARGO_BIN_EXE_airgate"));
    command.arg("check").args(args).arg("--kubeconfig").arg(kubeconfig).arg("--releases").arg(releases);
    let output = command.env_remove("AIRGATE_STATE").output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn the_cluster_is_read_through_the_kubeconfig() {
    let (guard, site) = (Guard::shared(), Site::new());
    for (args, code, part) in [
        (&["upgrade", "--to-image", &site.listed.image][..], 0, "allowed"),
        (&["upgrade", "--to-image", &site.unlisted.image], 1, "4.18.12 cannot go straight to 4.19.9"),
        (&["upgrade", "--to-image", &site.unknown.image], 3, "cannot be judged"),
        (&["upgrade", "--clear"], 0, "allowed"),
        (&["delete", "internalreleaseimage/cluster"], 1, "still holds 4.18.12"),
        (&["delete", "clusterversion/other"], 3, "does not exist"),
    ] {
        let (got, text) = check(&guard, args);
        assert_eq!(got, Some(code), "{args:?}: {text}");
        assert!(text.contains(part), "{args:?} lacks {part:?}: {text}");
    }
    // Nothing was asked of the API server but to be read: what is stored is what was.
    assert!(guard.api.get(crate::api::VERSION).unwrap()["spec"]["desiredUpdate"].is_null());
}

/// What a snapshot of the live cluster holds is what the running server judged by: the digests say so.
#[test]
fn a_snapshot_of_the_cluster_gives_the_same_verdict_again() {
    let (guard, site) = (Guard::shared(), Site::new());
    let dir = tempfile::tempdir().unwrap();
    let saved = dir.path().join("saved");
    let saved = saved.to_str().unwrap();
    let run = |args: &[&str]| {
        let output =
            Command::new(env!("CARGO_BIN_EXE_airgate")).args(args).env_remove("AIRGATE_STATE").output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let (kubeconfig, releases) = (guard.kubeconfig(), guard.releases());
    let from = ["--kubeconfig", kubeconfig.to_str().unwrap(), "--releases", releases.to_str().unwrap()];
    let now = "2020-01-01T00:00:00Z";
    let form = ["upgrade", "--to-image", &site.unlisted.image];
    let (code, text) = run(&[&["snapshot", saved, "--now", now][..], &from, &form].concat());
    // 3 where the rights leave something out: that is unknown to the server and to the snapshot alike.
    assert!(matches!(code, Some(0 | 3)), "{code:?}: {text}");
    assert!(text.contains("machineconfigs.machineconfiguration.openshift.io: 2 objects"), "{text}");
    for file in std::fs::read_dir(saved).unwrap() {
        let path = file.unwrap().path();
        let text = if path.is_file() { std::fs::read_to_string(&path).unwrap() } else { String::new() };
        assert!(!text.contains("managedFields") || path.ends_with("request.json"), "{}", path.display());
        assert!(!text.contains("osImageURL"), "{} has a MachineConfig's spec", path.display());
    }
    let response = |args: &[&str]| {
        let (code, text) = run(args);
        assert_eq!(code, Some(1), "{text}");
        text[text.find("\"allowed\"").unwrap()..text.find(",\"problems\":").unwrap()].to_owned()
    };
    let live = response(&[&["check"][..], &form, &from, &["--now", now, "-o", "json"]].concat());
    let again = response(&["check", "--replay", saved, "-o", "json"]);
    assert_eq!(live, again);

    let target = serde_json::json!({"spec": {"desiredUpdate": {"image": site.unlisted.image}}});
    assert_eq!(guard.api.merge(crate::api::VERSION, &target).code, 403);
    let events = guard.testbed.audit_events();
    let inputs =
        events.iter().rev().find_map(|e| e["annotations"]["clusterversion.airgate.io/inputs"].as_str()).unwrap();
    let known = |text: &str| {
        let (_, rest) = text.split_once("facts ").unwrap();
        // The server of these tests has settings of its own.
        rest.split_once(", settings").unwrap().0.to_owned()
    };
    assert_eq!(known(inputs), known(&again[again.find("\"inputs\"").unwrap()..]));
}
