//! airgate runs with the rights that `airgate manifests` prints, in all of these tests.

use crate::guard::{Guard, IDENTITY};

/// Whether airgate may do this.
fn check(guard: &Guard, question: &str, expected: bool) {
    let args = ["auth", "can-i"].into_iter().chain(question.split(' '));
    let answer = guard.testbed.command(args).impersonate(IDENTITY, &["system:serviceaccounts"]).run();
    assert_eq!(answer.stdout.trim(), if expected { "yes" } else { "no" }, "{question}: {}", answer.stderr);
}

#[test]
fn the_printed_rights_are_enough_and_no_more() {
    let guard = Guard::shared();
    let status = guard.statusz();
    for watch in status["watches"].as_array().unwrap() {
        assert!(watch["state"] == "watching" && watch["errors"] == 0, "{watch:#}");
    }
    let events = guard.testbed.audit_events();
    let denied = events.iter().filter(|event| event["user"]["username"] == IDENTITY);
    let denied: Vec<_> = denied.filter(|event| event["responseStatus"]["code"] == 403).collect();
    assert!(denied.is_empty(), "{denied:#?}");

    for verb in ["get", "list", "watch"] {
        check(&guard, &format!("{verb} clusterversions.config.openshift.io"), true);
    }
    check(&guard, "create events -n default", true);
    check(&guard, "list nodes", true);
    let of_registries = "secrets/internal-release-image-registry-auth -n openshift-machine-config-operator";
    check(&guard, &format!("get {of_registries}"), true);
    check(&guard, &format!("list {of_registries}"), false);
    check(&guard, "get controllerconfigs.machineconfiguration.openshift.io/machine-config-controller", true);
    for question in [
        "create events -n kube-system",
        "patch events -n default",
        "update clusterversions.config.openshift.io",
        "delete internalreleaseimages.machineconfiguration.openshift.io",
        "patch machineconfigpools.machineconfiguration.openshift.io",
        "get secrets -n openshift-machine-config-operator",
        "get secrets/internal-release-image-tls -n openshift-machine-config-operator",
        "list controllerconfigs.machineconfiguration.openshift.io",
        "update nodes",
        "get pods -n openshift-airgate",
        "update validatingwebhookconfigurations",
        "impersonate users",
    ] {
        check(&guard, question, false);
    }
}
