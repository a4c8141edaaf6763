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
