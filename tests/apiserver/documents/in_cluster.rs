//! docs/install-openshift.md and docs/install-kubernetes.md

use std::cell::RefCell;
use std::path::Path;
use std::process::Command;

use super::kubelet::Pods;
use super::page::Page;
use super::walk::{Then, Walk};
use super::{cluster, operators, person, release_in};

/// What the site's mirror would call the image, then the next one.
pub const IMAGES: [&str; 2] = [
    "registry.example:5000/airgate/airgate@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "registry.example:5000/airgate/airgate@sha256:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb",
];

#[test]
fn airgate_is_installed_on_openshift_upgraded_and_taken_away() {
    let testbed = cluster();
    let spawn = |command: &mut Command, log: &Path| testbed.spawn(command, log);
    let mut walk = person(&testbed, &spawn);
    release_in(&walk.dir.join("layout"));
    // Who edits a ConfigMap changes a line of it.
    walk.set("KUBE_EDITOR", "sed -i 's/retain: history$/retain: rollback/'");
    let pods = RefCell::new(Pods::of(&testbed, "openshift-airgate"));
    let roll_out = |walk: &Walk| {
        operators::of_openshift(&testbed);
        pods.borrow_mut().roll_out(&walk.environment["IMAGE"]);
    };
    let end = |_: &Walk| operators::end_namespace(&testbed, "openshift-airgate");
    walk.through(
        &Page::read("install-openshift.md"),
        &[
            ("IMAGE=", Then::Set(IMAGES[0].to_owned())),
            ("IMAGE=", Then::Set(IMAGES[1].to_owned())),
            ("ARCHIVE=", Then::Set("layout".to_owned())),
            ("oc rollout status", Then::After(&roll_out)),
            ("oc patch clusterversion", Then::Exits(0)),
            ("oc patch clusterversion", Then::Exits(1)),
            ("airgate manifests | oc delete", Then::After(&end)),
        ],
    );
    nothing_is_left(&walk, "openshift-airgate");
}

#[test]
fn airgate_is_installed_on_kubernetes_upgraded_and_taken_away() {
    let testbed = cluster();
    let spawn = |command: &mut Command, log: &Path| testbed.spawn(command, log);
    let mut walk = person(&testbed, &spawn);
    release_in(&walk.dir.join("layout"));
    let pods = RefCell::new(Pods::of(&testbed, "airgate"));
    let roll_out = |walk: &Walk| pods.borrow_mut().roll_out(&walk.environment["IMAGE"]);
    let end = |_: &Walk| operators::end_namespace(&testbed, "airgate");
    walk.through(
        &Page::read("install-kubernetes.md"),
        &[
            ("IMAGE=", Then::Set(IMAGES[0].to_owned())),
            ("IMAGE=", Then::Set(IMAGES[1].to_owned())),
            ("ARCHIVE=", Then::Set("layout".to_owned())),
            ("kubectl rollout status", Then::After(&roll_out)),
            ("kubectl patch clusterversion", Then::Exits(0)),
            ("kubectl patch clusterversion", Then::Exits(1)),
            ("airgate manifests --flavor kubernetes | kubectl delete", Then::After(&end)),
        ],
    );
    nothing_is_left(&walk, "airgate");
}

/// What could make a call fail, or would still be allowed to read, is gone.
pub fn nothing_is_left(walk: &Walk, namespace: &str) {
    for kind in ["validatingwebhookconfiguration", "clusterrole", "clusterrolebinding", "role -A", "rolebinding -A"] {
        let (_, found, why) = walk.run(&format!("kubectl get {kind} -o name"));
        assert!(!found.contains("airgate"), "{kind}: {found}{why}");
    }
    let (code, found, _) = walk.run(&format!("kubectl get namespace {namespace}"));
    assert_eq!(code, 1, "{found}");
    let (code, _, why) = walk.run("oc adm upgrade --allow-explicit-upgrade --to-image registry.example/a:tag");
    assert_eq!(code, 0, "the cluster takes any step again: {why}");
}
