//! `airgate serve --register` beside a real API server: when it registers, what it mends, who writes, and the ways out.

use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::guard::{AIRGATE, IDENTITY};
use crate::replica::{CONFIGURATION, CONFIGURATIONS, Cluster, FAILS, LEASE, NAMESPACE};
use crate::rights::added_are_used;
use crate::server::{eventually, free_port};

/// A resource that is watched and cannot be listed, as when the webhook that converts it is gone.
fn unreadable_catalogs() -> [Value; 2] {
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let version =
        |name: &str, storage: bool| json!({"name": name, "served": true, "storage": storage, "schema": schema});
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "clustercatalogs.olm.operatorframework.io"},
        "spec": {"group": "olm.operatorframework.io", "scope": "Cluster",
            "names": {"plural": "clustercatalogs", "singular": "clustercatalog", "kind": "ClusterCatalog"},
            "versions": [version("v1", false), version("v9", true)],
            "conversion": {"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"],
                "clientConfig": {"url": "https://127.0.0.1:1/convert"}}}},
    });
    let object =
        json!({"apiVersion": "olm.operatorframework.io/v9", "kind": "ClusterCatalog", "metadata": {"name": "a"}});
    [crd, object]
}

#[test]
fn it_registers_once_ready_softly_and_then_for_good() {
    let cluster = Cluster::start();
    let testbed = &cluster.guard.testbed;
    let [crd, object] = unreadable_catalogs();
    testbed.delete("crd/clustercatalogs.olm.operatorframework.io");
    testbed.put(&crd);
    let objects = "/apis/olm.operatorframework.io/v9/clustercatalogs";
    eventually("the resource is served", || (cluster.guard.api.create(objects, &object).code == 201).then_some(()));

    let replica = cluster.replica("one", cluster.port, false);
    eventually("it waits for a list", || {
        (replica.shown()["waitingFor"][0] == "this replica to be ready").then_some(())
    });
    thread::sleep(Duration::from_secs(3));
    assert!(!replica.ready() && cluster.configuration().is_none());
    assert_eq!(cluster.guard.api.get(LEASE), None, "no say in anything before it can answer");
    testbed.delete("crd/clustercatalogs.olm.operatorframework.io");

    // Ready, and nobody vouches for it yet: nothing fails because of it.
    replica.shows("soft");
    assert!(replica.ready());
    let stored = cluster.configuration().unwrap();
    assert_eq!(cluster.failing(), [""; 0]);
    assert_eq!(stored["metadata"]["ownerReferences"][0]["kind"], "Namespace");
    let shown = replica.shown();
    assert_eq!(shown["soft"], json!(FAILS));
    assert!(shown["waitingFor"][0].as_str().unwrap().ends_with("nobody has injected one yet"), "{shown:#}");
    assert!(replica.metrics().contains("airgate_registration_state{state=\"soft\"} 1"));
    assert_eq!(cluster.by_tag().code, 200, "let through, for now");

    // A stranger's CA is no reason, the right one is.
    let stranger = testbed.dir().join("stranger");
    cluster.guard.airgate(&["certs", "--dir", stranger.to_str().unwrap()]);
    let pem = std::fs::read(stranger.join("ca.crt")).unwrap();
    cluster.inject(&STANDARD.encode(pem));
    eventually("it says what is wrong", || {
        let shown = replica.shown();
        shown["waitingFor"][0].as_str()?.contains("does not vouch for the certificate").then_some(())
    });
    assert_eq!(cluster.failing(), [""; 0]);
    cluster.inject(&cluster.ca());
    cluster.fails_closed("the CA vouches");
    replica.shows("registered");
    assert_eq!(replica.shown()["waitingFor"], json!([]));
    eventually("the API server asks airgate", || (cluster.by_tag().code == 422).then_some(()));
    // Both writes and nothing beside, however long it looks on.
    let writes = cluster.writes("validatingwebhookconfigurations");
    thread::sleep(Duration::from_secs(5));
    assert_eq!((writes.len(), cluster.writes("validatingwebhookconfigurations").len()), (2, 2), "{writes:?}");
    cluster.no_denials();
    drifts(&cluster);
    cluster.no_denials();
}

/// Each way in which somebody can change it, and that the CA which somebody else injected survives the mending.
fn drifts(cluster: &Cluster) {
    let good = cluster.configuration().unwrap();
    let same = |stored: &Value| stored["webhooks"] == good["webhooks"];
    let edits = [
        json!([{"op": "replace", "path": "/webhooks/0/failurePolicy", "value": "Ignore"}]),
        json!([{"op": "replace", "path": "/webhooks/0/rules/0/operations", "value": ["CREATE"]}]),
        json!([{"op": "replace", "path": "/webhooks/0/objectSelector", "value": {"matchLabels": {"a": "b"}}}]),
        json!([{"op": "replace", "path": "/webhooks/0/matchConditions/0/expression", "value": "false"}]),
        // What server-side apply would leave alone.
        json!([{"op": "add", "path": "/webhooks/0/matchConditions/-", "value": {"name": "never", "expression": "false"}}]),
        json!([{"op": "replace", "path": "/webhooks/0/clientConfig/url", "value": "https://127.0.0.1:1/validate"}]),
        json!([{"op": "remove", "path": "/metadata/ownerReferences"}]),
    ];
    for edit in edits {
        let changed = cluster.guard.api.send("PATCH", CONFIGURATION, "application/json-patch+json", Some(&edit));
        assert!(!same(&changed.success()) || edit[0]["op"] == "remove", "{edit}");
        eventually(&format!("{edit} is mended"), || {
            let stored = cluster.configuration()?;
            (same(&stored) && stored["metadata"]["ownerReferences"] == good["metadata"]["ownerReferences"])
                .then_some(())
        });
    }
    // An entry or all of it deleted takes its CA along: soft until somebody injects it again.
    let remove = json!([{"op": "remove", "path": "/webhooks/0"}]);
    cluster.guard.api.send("PATCH", CONFIGURATION, "application/json-patch+json", Some(&remove)).success();
    eventually("the entry is back", || {
        let stored = cluster.configuration()?;
        (stored["webhooks"].as_array()?.len() == good["webhooks"].as_array()?.len()).then_some(())
    });
    assert_eq!(cluster.failing(), [FAILS[1]], "never closed before somebody vouches");
    cluster.inject(&cluster.ca());
    cluster.fails_closed("the entry is trusted again");
    cluster.guard.api.delete(CONFIGURATION).success();
    eventually("the configuration is back", || cluster.configuration());
    assert_eq!(cluster.failing(), [""; 0]);
    cluster.inject(&cluster.ca());
    cluster.fails_closed("all of it is trusted again");
}

#[test]
fn two_replicas_agree_and_one_takes_over() {
    let mut cluster = Cluster::start();
    let one = cluster.replica("one", cluster.port, true);
    eventually("one leads", || one.leads().then_some(()));
    cluster.fails_closed("its own CA is registered");
    let two = cluster.replica("two", free_port(), true);
    two.shows("registered");
    thread::sleep(Duration::from_secs(5));
    assert!(one.leads() && !two.leads());
    assert!(two.shown()["holder"].as_str().unwrap().starts_with("one_"), "{:#}", two.shown());
    assert!(two.metrics().lines().any(|line| line == "airgate_registration_leader 0"));
    assert_eq!(cluster.writes("validatingwebhookconfigurations"), ["patch", "patch"], "soft, then closed, by one");

    // Killed, it takes as long as its Lease; then the other one mends.
    one.kill();
    let ignore = json!([{"op": "replace", "path": "/webhooks/0/failurePolicy", "value": "Ignore"}]);
    cluster.guard.api.send("PATCH", CONFIGURATION, "application/json-patch+json", Some(&ignore)).success();
    eventually("two leads", || two.leads().then_some(()));
    cluster.fails_closed("mended by the other one");

    // The Lease lost, to nobody and to somebody: made anew; waited for.
    cluster.guard.api.delete(LEASE).success();
    eventually("two has it again", || {
        cluster.guard.api.get(LEASE)?["spec"]["holderIdentity"].as_str()?.starts_with("two_").then_some(())
    });
    let taken = json!({"spec": {"holderIdentity": "somebody", "leaseDurationSeconds": 15}});
    cluster.guard.api.merge(LEASE, &taken).success();
    eventually("two has seen it", || (!two.leads()).then_some(()));
    assert_eq!(two.shown()["holder"], "somebody");
    cluster.guard.api.send("PATCH", CONFIGURATION, "application/json-patch+json", Some(&ignore)).success();
    thread::sleep(Duration::from_secs(4));
    assert_eq!(cluster.failing(), [FAILS[1]], "who does not lead does not write");
    eventually("two takes over from who never renews", || two.leads().then_some(()));
    cluster.fails_closed("mended");

    // One that has just started denies everything until it has read its rules, so it is looked at before.
    cluster.no_denials();
    // The API server restarts, and is looked after again.
    cluster.guard.testbed.apiserver.stop();
    two.shows("failing");
    cluster.guard.testbed.start_apiserver().unwrap();
    two.shows("registered");
    cluster.guard.api.send("PATCH", CONFIGURATION, "application/json-patch+json", Some(&ignore)).success();
    cluster.fails_closed("mended after the restart");

    // An orderly end leaves the configuration, and the Lease to whoever comes next.
    two.terminate();
    cluster.fails_closed("it stays registered");
    let lease = cluster.guard.api.get(LEASE).unwrap();
    assert_eq!(lease["spec"]["holderIdentity"], "", "{lease:#}");
    let three = cluster.replica("three", cluster.port, true);
    eventually("three need not wait", || three.leads().then_some(()));
}

/// As the administrator.
fn unregister(cluster: &Cluster, args: &[&str]) -> (i32, String) {
    unregister_with(&cluster.guard.testbed.kubeconfig(), args)
}

fn unregister_with(kubeconfig: &Path, args: &[&str]) -> (i32, String) {
    let mut command = Command::new(AIRGATE);
    command.arg("unregister").args(args).arg("--kubeconfig");
    let output = command.arg(kubeconfig).env_remove("AIRGATE_NAMESPACE").output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code().unwrap(), String::from_utf8(text).unwrap())
}

#[test]
fn the_ways_out() {
    let cluster = Cluster::start();
    let one = cluster.replica("one", cluster.port, true);
    cluster.fails_closed("registered");

    // Who may delete it and not annotate the namespace is told that this does not stick.
    let (code, text) = unregister_with(&cluster.guard.kubeconfig(), &[]);
    assert!([1, 2].contains(&code) && text.contains("could not be annotated"), "{code} {text}");
    cluster.fails_closed("registered again");

    // Taken away while it runs, and it stays away.
    let (code, text) = unregister(&cluster, &["--reason", "case 7"]);
    assert_eq!(code, 0, "{text}");
    for part in [
        "namespace/openshift-airgate annotated",
        "validatingwebhookconfiguration/airgate deleted",
        "airgate unregister --undo",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    one.shows("unregistered");
    assert!(one.shown()["waitingFor"][0].as_str().unwrap().contains("airgate.io/unregistered (case 7)"));
    thread::sleep(Duration::from_secs(3));
    assert_eq!(cluster.configuration(), None);
    eventually("nobody is asked", || (cluster.by_tag().code == 200).then_some(()));
    // Somebody applies one all the same: it goes.
    let named = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "airgate"}});
    cluster.guard.api.create(CONFIGURATIONS, &named).success();
    eventually("it goes", || cluster.configuration().is_none().then_some(()));
    let (code, text) = unregister(&cluster, &[]);
    assert!(code == 0 && text.contains("is not there: the API server asks airgate nothing"), "{text}");

    // Held by a finalizer of somebody else, it is still asked.
    let held = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "airgate", "finalizers": ["example.com/held"]}});
    cluster.guard.api.create(CONFIGURATIONS, &held).success();
    let (code, text) = unregister(&cluster, &[]);
    let command =
        "oc patch validatingwebhookconfiguration airgate --type=merge -p '{\"metadata\":{\"finalizers\":null}}'";
    assert!(code == 2 && text.contains("example.com/held") && text.contains(command), "{code} {text}");
    let free = ["patch", "validatingwebhookconfiguration", "airgate", "--type=merge"];
    cluster.guard.testbed.kubectl(free.into_iter().chain(["-p", r#"{"metadata":{"finalizers":null}}"#])).success();
    assert_eq!(cluster.configuration(), None);

    let (code, text) = unregister(&cluster, &["--undo"]);
    assert!(code == 0 && text.contains("airgate.io/unregistered (airgate unregister) removed"), "{text}");
    cluster.fails_closed("registered again");
    let (code, text) = unregister(&cluster, &["--undo"]);
    assert!(code == 2 && text.contains("is not set on openshift-airgate or airgate"), "{text}");
    let (code, text) = unregister(&cluster, &["--undo", "--namespace", "typo"]);
    assert!(code == 2 && text.contains("there is no namespace typo"), "{code} {text}");
    for other in ["typo", "default"] {
        let (code, text) = unregister(&cluster, &["--namespace", other]);
        assert!(code == 2 && text.contains("the configuration is of openshift-airgate"), "{code} {text}");
    }
    cluster.fails_closed("registered still");

    // With oc alone: without the annotation it comes back, with it it does not.
    cluster.guard.testbed.kubectl(["delete", "validatingwebhookconfiguration", "airgate"]).success();
    cluster.fails_closed("drift is mended");
    let annotate = ["annotate", "namespace", "openshift-airgate", "airgate.io/unregistered=true"];
    cluster.guard.testbed.kubectl(annotate).success();
    eventually("it goes by itself", || cluster.configuration().is_none().then_some(()));
    cluster.guard.testbed.kubectl(["annotate", "namespace", "openshift-airgate", "airgate.io/unregistered-"]).success();
    cluster.fails_closed("registered again");

    added_are_used(&cluster.guard, &["--register"]);
    let binding = ["delete", "rolebinding", "airgate-registration", "-n", "openshift-airgate"];
    cluster.guard.testbed.kubectl(binding).success();
    one.shows("failing");
    let shown = one.shown();
    let trouble = shown["trouble"].as_str().unwrap();
    assert!(trouble.contains("is forbidden") && trouble.contains("manifests --register --only rights"), "{trouble}");
    assert_eq!(shown["waitingFor"], json!([]));
    one.terminate();
    cluster.fails_closed("an orderly end does not open the cluster");
    uninstalled(&cluster);
}

/// As OLM uninstalls: the Deployment goes first, and its namespace stays.
fn uninstalled(cluster: &Cluster) {
    let answer = cluster.by_tag();
    let text = answer.body["message"].as_str().unwrap_or_default().to_owned();
    assert!(answer.code == 500 && text.contains("failed calling webhook \"clusterversion.airgate.io\""), "{text}");
    assert_eq!(cluster.guard.api.merge(crate::api::VERSION, &json!({"spec": {"desiredUpdate": null}})).code, 200);
    let status = {
        let mut command = Command::new(AIRGATE);
        let output =
            command.arg("status").arg("--kubeconfig").arg(cluster.guard.testbed.kubeconfig()).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let command = "oc delete validatingwebhookconfiguration airgate";
    assert!(status.contains(command), "{status}");
    let words = command.split(' ').skip(1);
    cluster.guard.testbed.kubectl(words).success();
    eventually("the cluster is free", || (cluster.by_tag().code == 200).then_some(()));
}

#[test]
fn the_configuration_goes_with_its_namespace() {
    let cluster = Cluster::start();
    let one = cluster.replica("one", cluster.port, true);
    cluster.fails_closed("registered");
    cluster.no_denials();
    rights(&cluster);
    // What owns nothing is left behind: the contrast.
    let orphan = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "orphan"}});
    cluster.guard.api.create(CONFIGURATIONS, &orphan).success();
    // Its pods go with the namespace.
    one.kill();
    cluster.guard.api.delete(NAMESPACE).success();
    thread::sleep(Duration::from_secs(2));
    cluster.fails_closed("nothing collects it without a controller manager");
    let mut manager = cluster.guard.testbed.start_controller_manager();
    eventually("the namespace is gone", || cluster.guard.api.get(NAMESPACE).is_none().then_some(()));
    eventually("the configuration went with it", || cluster.configuration().is_none().then_some(()));
    assert!(cluster.guard.api.get(&format!("{CONFIGURATIONS}/orphan")).is_some());
    eventually("the cluster is free", || (cluster.by_tag().code == 200).then_some(()));
    manager.kill().unwrap();
    manager.wait().unwrap();
}

/// Those beyond what every server has.
fn rights(cluster: &Cluster) {
    let configuration = "validatingwebhookconfigurations.admissionregistration.k8s.io";
    for (question, expected) in [
        (format!("patch {configuration}/airgate"), "yes"),
        (format!("delete {configuration}/airgate"), "yes"),
        (format!("update {configuration}/airgate"), "no"),
        (format!("list {configuration}"), "no"),
        (format!("create {configuration}"), "no"),
        (format!("patch {configuration}/other"), "no"),
        (format!("delete {configuration}/other"), "no"),
        ("update leases.coordination.k8s.io/other -n openshift-airgate".into(), "no"),
        ("update leases.coordination.k8s.io/airgate -n default".into(), "no"),
        ("get namespaces/default -n default".into(), "no"),
        ("patch namespaces/openshift-airgate -n openshift-airgate".into(), "no"),
    ] {
        let args = ["auth", "can-i"].into_iter().chain(question.split(' '));
        let answer = cluster.guard.testbed.command(args).impersonate(IDENTITY, &["system:serviceaccounts"]).run();
        assert_eq!(answer.stdout.trim(), expected, "{question}: {}", answer.stderr);
    }
}
