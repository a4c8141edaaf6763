//! docs/runbook.md, on a cluster whose airgate is gone.

use std::cell::RefCell;
use std::path::Path;
use std::process::Command;

use super::in_cluster::IMAGES;
use super::kubelet::Pods;
use super::page::Page;
use super::walk::{Then, Walk};
use super::{cluster, operators, person, release_in};
use crate::objects::Release;
use crate::server::eventually;

#[test]
fn a_cluster_is_freed_repaired_and_guarded_again() {
    let testbed = cluster();
    let spawn = |command: &mut Command, log: &Path| testbed.spawn(command, log);
    let mut walk = person(&testbed, &spawn);
    release_in(&walk.dir.join("layout"));
    let target = Release::new("4.18.20", '2').image;
    let pods = RefCell::new(Pods::of(&testbed, "openshift-airgate"));
    let roll_out = |_: &Walk| {
        operators::of_openshift(&testbed);
        pods.borrow_mut().roll_out(IMAGES[0]);
    };
    let (code, _, why) = walk.run(&format!("airgate manifests --image {} | oc apply -f -", IMAGES[0]));
    assert_eq!(code, 0, "{why}");
    roll_out(&walk);
    let step = format!("oc adm upgrade --allow-explicit-upgrade --to-image {target}");
    eventually("a step without facts is refused", || {
        let (_, _, why) = walk.run(&step);
        why.contains("admission webhook \"clusterversion.airgate.io\" denied the request").then_some(())
    });
    pods.borrow_mut().stop();
    let (code, _, why) = walk.run(&step);
    assert!(code == 1 && why.contains("failed calling webhook \"clusterversion.airgate.io\""), "{why}");

    let freed = |walk: &Walk| {
        eventually("the API server asks nobody", || (walk.run(&format!("{step} --dry-run")).0 == 0).then_some(()));
    };
    let renewed = |_: &Walk| {
        operators::of_openshift(&testbed);
        pods.borrow().sync();
    };
    let by_kubelet = "a kubelet answers it, and none is here";
    walk.through(
        &Page::read("runbook.md"),
        &[
            ("TARGET=", Then::Set(target.clone())),
            ("IMAGE=", Then::Set(IMAGES[0].to_owned())),
            ("ARCHIVE=", Then::Set("layout".to_owned())),
            ("oc adm upgrade --allow-explicit-upgrade", Then::After(&freed)),
            ("oc rollout status", Then::After(&roll_out)),
            ("oc port-forward", Then::NotRun(by_kubelet)),
            ("oc -n openshift-airgate port-forward", Then::NotRun(by_kubelet)),
            ("curl -s http://127.0.0.1:808", Then::NotRun("it goes through the forwarded port")),
            ("oc logs", Then::NotRun(by_kubelet)),
            ("oc -n openshift-airgate logs", Then::NotRun(by_kubelet)),
            ("kubectl -n airgate logs", Then::NotRun(by_kubelet)),
            ("oc adm top", Then::NotRun("it reads metrics of pods, which kubelets measure")),
            ("oc -n openshift-airgate rollout status", Then::After(&roll_out)),
            // No, on OpenShift: the service CA keeps that Secret.
            ("kubectl auth can-i patch secrets/airgate-tls", Then::Exits(1)),
            ("airgate release info FILE", Then::As("airgate release info layout".to_owned(), 0)),
            ("airgate release info PULLSPEC", Then::As(format!("airgate release info {target}"), 1)),
            ("oc get secret airgate-tls", Then::After(&renewed)),
            // Denied, and so it says.
            ("airgate check patch", Then::Exits(1)),
            // Nobody answers for that registry, and the answer says so.
            ("airgate release info", Then::Exits(1)),
        ],
    );
    eventually("it is guarded again, by the new certificate", || {
        let (code, _, why) = walk.run(&step);
        (code == 1 && why.contains("denied the request")).then_some(())
    });
}
