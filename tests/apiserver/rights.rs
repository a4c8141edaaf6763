//! airgate runs with the rights that `airgate manifests` prints, in all of these tests.

use std::collections::BTreeSet;

use airgate::files::document::from_yaml;
use serde_json::{Value, json};

use crate::api::{IMAGE, VERSION};
use crate::crds::CrdSet;
use crate::guard::{Guard, IDENTITY, Site};
use crate::objects::internal_release_image;
use crate::server::eventually;
use crate::testbed::Testbed;

const REVIEWS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";

/// Whether airgate may do this: `VERB RESOURCE[.GROUP][/NAME] [-n NAMESPACE]`. The API server is asked itself: kubectl
/// loses the group of a resource that is not there.
fn check(guard: &Guard, question: &str, expected: bool) {
    let words: Vec<&str> = question.split(' ').collect();
    let (resource, name) = words[1].split_once('/').unwrap_or((words[1], ""));
    let (resource, group) = resource.split_once('.').unwrap_or((resource, ""));
    let attributes = json!({"verb": words[0], "resource": resource, "group": group, "name": name,
        "namespace": words.get(3).unwrap_or(&"")});
    let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
        "spec": {"user": IDENTITY, "groups": ["system:serviceaccounts", "system:authenticated"],
            "resourceAttributes": attributes}});
    let answer = guard.api.create(REVIEWS, &review);
    assert_eq!(answer.body["status"]["allowed"], expected, "{question}: {answer:?}");
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

    for verb in ["list", "watch"] {
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
        "get clusterversions.config.openshift.io/version",
        "get machineconfigs.machineconfiguration.openshift.io",
        "patch events -n default",
        "update clusterversions.config.openshift.io",
        "delete internalreleaseimages.machineconfiguration.openshift.io",
        "patch machineconfigpools.machineconfiguration.openshift.io",
        "get secrets -n openshift-machine-config-operator",
        "get secrets/internal-release-image-tls -n openshift-machine-config-operator",
        "list controllerconfigs.machineconfiguration.openshift.io",
        "update nodes",
        "get pods -n openshift-airgate",
        "update validatingwebhookconfigurations.admissionregistration.k8s.io",
        "impersonate users",
    ] {
        check(&guard, question, false);
    }
}

/// One thing that somebody may do, or did: verb, resource with its group, namespace, name.
type Deed = (String, String, String, String);

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn texts(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().map(text).collect()
}

/// Everything that the roles printed for these options allow, one by one; the name is empty where any will do.
fn allowed(guard: &Guard, options: &[&str]) -> Vec<Deed> {
    let printed = from_yaml(&guard.airgate(&[&["manifests", "--only", "rights"], options].concat())).unwrap();
    let mut deeds = vec![];
    for role in printed.iter().filter(|object| ["Role", "ClusterRole"].contains(&object["kind"].as_str().unwrap())) {
        for rule in role["rules"].as_array().unwrap() {
            let names = texts(&rule["resourceNames"]);
            let names = if names.is_empty() { vec![String::new()] } else { names };
            for group in texts(&rule["apiGroups"]) {
                for resource in texts(&rule["resources"]) {
                    for verb in texts(&rule["verbs"]) {
                        for name in &names {
                            let resource = format!("{resource}.{group}");
                            deeds.push((verb.clone(), resource, text(&role["metadata"]["namespace"]), name.clone()));
                        }
                    }
                }
            }
        }
    }
    deeds
}

/// What airgate did, each way of it once.
fn done(guard: &Guard) -> BTreeSet<Deed> {
    let events = guard.testbed.audit_events();
    let ours = events.iter().filter(|event| event["user"]["username"] == IDENTITY);
    let deed = |event: &Value| {
        let object = &event["objectRef"];
        let resource = format!("{}.{}", text(&object["resource"]), text(&object["apiGroup"]));
        // An apply of what was not there is a creation too, and needs the right.
        let verb = if event["responseStatus"]["code"] == 201 { "create".into() } else { text(&event["verb"]) };
        (verb, resource, text(&object["namespace"]), text(&object["name"]))
    };
    ours.filter(|event| event["objectRef"].is_object()).map(deed).collect()
}

/// The rights that nothing has used.
fn unused(guard: &Guard, allowed: &[Deed]) -> Vec<Deed> {
    let done = done(guard);
    let fits = |right: &Deed, deed: &Deed| {
        let namespace = right.2.is_empty() || right.2 == deed.2;
        (&right.0, &right.1) == (&deed.0, &deed.1) && namespace && (right.3.is_empty() || right.3 == deed.3)
    };
    allowed.iter().filter(|right| !done.iter().any(|deed| fits(right, deed))).cloned().collect()
}

/// Each right that these options add has been used by now.
pub fn added_are_used(guard: &Guard, options: &[&str]) {
    let plain = allowed(guard, &[]);
    let added: Vec<Deed> = allowed(guard, options).into_iter().filter(|right| !plain.contains(right)).collect();
    assert!(added.len() > 3, "{options:?} adds rights: {added:#?}");
    assert_eq!(unused(guard, &added), [], "granted for {options:?}, and used by nothing");
}

/// Makes airgate use all that it is there for: it follows its facts from the start on; a release that nobody knows is
/// looked for, with what the cluster says of registries; a release leaves, after a live look; an override is used.
fn exercise(guard: &Guard) {
    let site = Site::new();
    let image = json!({"apiVersion": "config.openshift.io/v1", "kind": "Image", "metadata": {"name": "cluster"},
        "spec": {"additionalTrustedCA": {"name": "registry-cas"}}});
    guard.testbed.put(&image);
    let unknown =
        json!({"spec": {"desiredUpdate": {"image": format!("127.0.0.1:1/ocp/release@sha256:{}", "5".repeat(64))}}});
    eventually("the CAs that the image configuration names are read", || {
        assert_eq!(guard.dry_run(&unknown).code, 403, "nothing is known of the release");
        done(guard).iter().any(|(_, _, _, name)| name == "registry-cas").then_some(())
    });
    let soon = jiff::Timestamp::now() + jiff::SignedDuration::from_hours(1);
    let (_, digest) = site.unlisted.image.split_once('@').unwrap();
    let entry =
        json!({"policy": "upgrade-path", "from": "4.18.12", "target": digest, "reason": "a test", "expires": soon});
    let annotations = json!({"airgate.io/override": entry.to_string()});
    let step =
        json!({"metadata": {"annotations": annotations}, "spec": {"desiredUpdate": {"image": site.unlisted.image}}});
    guard.api.merge(VERSION, &step).success();
    guard.reset();
    let drop = json!({"spec": internal_release_image(&[&site.current])["spec"]});
    guard.api.merge(IMAGE, &drop).success();
}

#[test]
fn every_printed_right_is_used_and_none_is_missing() {
    let testbed = Testbed::start();
    testbed.install_crds(&CrdSet::preferred());
    let guard = Guard::start(testbed);
    exercise(&guard);
    let mut allowed = allowed(&guard, &[]);
    assert!(allowed.len() > 30, "{allowed:#?}");
    // One that is not granted, as nothing uses it: were it found to be used, this test would see nothing.
    let control = ["get", "machineconfigpools.machineconfiguration.openshift.io", "", ""].map(str::to_owned).into();
    allowed.push(control);
    // An Event is written after the answer.
    let mut left = vec![];
    for _ in 0..100 {
        left = unused(&guard, &allowed);
        if left.len() == 1 {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    assert_eq!(left, allowed[allowed.len() - 1..], "granted, and used by nothing");
    let events = guard.testbed.audit_events();
    let refused: Vec<_> = events
        .iter()
        .filter(|event| event["user"]["username"] == IDENTITY && event["responseStatus"]["code"] == 403)
        .collect();
    assert!(refused.is_empty(), "needed, and not granted: {refused:#?}");
}
