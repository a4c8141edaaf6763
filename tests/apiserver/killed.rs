//! airgate, the API server and etcd come and go: what is guarded fails closed, everything else goes on.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::api::{Answer, Api, IMAGE, IMAGES, VERSION};
use crate::crds::CrdSet;
use crate::guard::{Guard, Site};
use crate::objects::{cluster_version, internal_release_image};
use crate::server::{eventually, poll};
use crate::testbed::Testbed;

fn target(image: &str) -> Value {
    json!({"spec": {"desiredUpdate": {"image": image}}})
}

/// airgate has a say again: it allows and refuses what it always does.
fn check_verdicts(guard: &Guard) {
    let site = Site::new();
    for (image, code) in [(&site.listed.image, 200), (&site.unlisted.image, 403), (&site.unknown.image, 403)] {
        let answer = guard.dry_run(&target(image));
        assert_eq!(answer.code, code, "{answer:?}");
        let unreachable = answer.body["message"].as_str().is_some_and(|text| text.contains("failed calling webhook"));
        assert!(!unreachable, "{answer:?}");
    }
    let drops = |release| json!({"spec": internal_release_image(&[release])["spec"]});
    let image = format!("{IMAGE}?dryRun=All");
    assert_eq!(guard.api.merge(&image, &drops(&site.current)).code, 200, "an unused release may go");
    assert_eq!(guard.api.merge(&image, &drops(&site.listed)).code, 403, "the running release stays");
}

/// The edits that a cluster must be able to make without airgate.
fn check_way_out(guard: &Guard) {
    let site = Site::new();
    let more = internal_release_image(&[&site.current, &site.listed, &site.unlisted]);
    let annotated = json!({"metadata": {"annotations": {"airgate.io/override": "{}"}}});
    for (path, patch) in [
        (VERSION, json!({"spec": {"desiredUpdate": null}})),
        (VERSION, json!({"spec": {"desiredUpdate": {}}})),
        (VERSION, json!({"spec": {"channel": "stable-4.19", "desiredUpdate": {"acceptRisks": [{"name": "RiskA"}]}}})),
        (VERSION, json!({"metadata": {"labels": {"a": "b"}}})),
        (VERSION, annotated.clone()),
        (IMAGE, annotated),
        (IMAGE, json!({"spec": more["spec"]})),
        (IMAGE, json!({"metadata": {"finalizers": ["test.example/stays"]}})),
        (IMAGE, json!({"metadata": {"finalizers": null}})),
    ] {
        guard.api.merge(path, &patch).success();
    }
    let mut status = guard.api.get(VERSION).expect("a ClusterVersion");
    status["status"]["observedGeneration"] = json!(9);
    guard.api.replace(&format!("{VERSION}/status"), &status).success();
}

fn check_fails_closed(guard: &Guard) {
    let site = Site::new();
    let patch =
        |object: &str, patch: Value| guard.testbed.command(["patch", object, "--type=merge", "-p", &patch.to_string()]);
    let step = guard.step(VERSION, patch("clusterversion/version", target(&site.listed.image)));
    assert_snapshot!(step.transcript(), @r##"
    exit 1, HTTP 500, nothing stored
    Error from server (InternalError): Internal error occurred: failed calling webhook "clusterversion.airgate.io": failed to call webhook: Post "https://127.0.0.1:PORT/validate?timeout=10s": dial tcp 127.0.0.1:PORT: connect: connection refused
    "##);
    let drops = json!({"spec": internal_release_image(&[&site.current])["spec"]});
    let step = guard.step(IMAGE, patch("internalreleaseimage/cluster", drops));
    assert_snapshot!(step.transcript(), @r##"
    exit 1, HTTP 500, nothing stored
    Error from server (InternalError): Internal error occurred: failed calling webhook "internalreleaseimage.airgate.io": failed to call webhook: Post "https://127.0.0.1:PORT/validate?timeout=10s": dial tcp 127.0.0.1:PORT: connect: connection refused
    "##);
    for object in ["clusterversion/version", "internalreleaseimage/cluster"] {
        let path = if object.starts_with("cluster") { VERSION } else { IMAGE };
        let step = guard.step(path, guard.testbed.command(["delete", object]));
        assert_eq!((step.code, step.changed), (Some(500), false), "{}", step.transcript());
    }
}

fn start() -> Guard {
    let testbed = Testbed::start();
    testbed.install_crds(&CrdSet::preferred());
    Guard::start(testbed)
}

#[test]
fn guarded_steps_fail_closed_without_airgate_and_its_return_is_the_end_of_it() {
    let mut guard = start();
    guard.api.merge(VERSION, &target(&Site::new().listed.image)).success();
    guard.kill();
    check_way_out(&guard);
    check_fails_closed(&guard);
    check_alert_series(&guard);
    guard.run();
    guard.reset();
    check_verdicts(&guard);

    // The API server restarts below a running airgate, which was and stays ready.
    guard.testbed.apiserver.stop();
    assert!(guard.ready(), "airgate needs no API server to be ready once it was");
    guard.testbed.start_apiserver().unwrap();
    assert!(guard.ready());
    check_verdicts(&guard);
    moves_on(&guard);

    guard.testbed.etcd.stop();
    let lost = guard.api.merge(&format!("{VERSION}?timeout=2s"), &target(&Site::new().listed.image));
    assert!(lost.code >= 500, "{lost:?}");
    assert!(guard.ready());
    guard.testbed.start_etcd().unwrap();
    eventually("the API server is ready again", || {
        (guard.api.send("GET", "/readyz", "", None).code == 200).then_some(())
    });
    guard.reset();
    check_verdicts(&guard);
    moves_on(&guard);

    ends_without_a_failed_call(&mut guard);
}

/// The watches follow the cluster again: what an update is asked for is kept from then on.
fn moves_on(guard: &Guard) {
    guard.api.merge(VERSION, &target(&Site::new().listed.image)).success();
    guard.synced();
    let drops = json!({"spec": internal_release_image(&[&Site::new().current])["spec"]});
    assert_eq!(guard.api.merge(IMAGE, &drops).code, 403);
    guard.reset();
}

/// SIGTERM while requests trickle in: each is judged until airgate is gone, and refused from then on.
fn ends_without_a_failed_call(guard: &mut Guard) {
    let stop = AtomicBool::new(false);
    let before = failed_calls(guard);
    let unlisted = target(&Site::new().unlisted.image);
    let testbed_api = Api::of(&guard.testbed);
    let answers: Vec<Answer> = thread::scope(|scope| {
        let trickle = scope.spawn(|| {
            let mut answers = vec![];
            while !stop.load(Ordering::Relaxed) {
                answers.push(testbed_api.merge(&format!("{VERSION}?dryRun=All"), &unlisted));
                // The pace of many who keep trying.
                poll(Duration::from_millis(1), || None::<()>);
            }
            answers
        });
        guard.terminate();
        eventually("airgate is draining", || (!guard.ready()).then_some(()));
        let status = eventually("airgate ended", || guard.ended());
        assert!(status.success(), "{status}");
        let refused = guard.dry_run(&unlisted);
        assert_eq!(refused.code, 500, "{refused:?}");
        stop.store(true, Ordering::Relaxed);
        trickle.join().unwrap()
    });
    let gone = answers.iter().position(|answer| answer.code == 500).unwrap_or(answers.len());
    let (judged, refused) = answers.split_at(gone);
    assert!(judged.len() > 10 && judged.iter().all(|answer| answer.code == 403), "{judged:?}");
    for answer in refused {
        let message = answer.body["message"].as_str().unwrap_or_default();
        assert!(answer.code == 500 && message.ends_with("connect: connection refused"), "{answer:?}");
    }
    // Ours, too.
    assert_eq!(failed_calls(guard) - before, refused.len() as u64 + 1, "of {} calls", answers.len());
    guard.run();
    check_verdicts(guard);
}

/// Calls of a webhook that the API server counts as failed.
fn failed_calls(guard: &Guard) -> u64 {
    let metrics = guard.api.send("GET", "/metrics", "", None).body;
    let failed = metrics.as_str().unwrap_or_default().lines().filter(|line| {
        line.starts_with("apiserver_admission_webhook_rejection_count{") && line.contains("calling_webhook_error")
            || line.starts_with("apiserver_admission_webhook_fail_open_count{")
    });
    failed.filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok()).sum()
}

/// The shipped alerts on failing calls ask for these series.
fn check_alert_series(guard: &Guard) {
    let metrics = guard.api.send("GET", "/metrics", "", None).body;
    let lines: Vec<&str> = metrics.as_str().unwrap_or_default().lines().collect();
    for (name, labels) in [
        ("request_total", vec![r#"name="clusterversion.airgate.io""#]),
        ("rejection_count", vec![r#"name="clusterversion.airgate.io""#, r#"error_type="calling_webhook_error""#]),
        ("fail_open_count", vec![r#"name="override.airgate.io""#]),
    ] {
        let family = format!("apiserver_admission_webhook_{name}{{");
        let there = |line: &&&str| line.starts_with(&family) && labels.iter().all(|label| line.contains(label));
        assert!(lines.iter().any(|line| there(&line)), "{family} with {labels:?}");
    }
}

/// airgate sees this many InternalReleaseImages, in this version of the API.
fn sees_images(guard: &Guard, version: &Value, objects: usize) {
    eventually(&format!("airgate sees {objects} InternalReleaseImages in version {version}"), || {
        let status = guard.statusz();
        let watch = status["watches"].as_array()?.iter().find(|watch| {
            watch["resource"].as_str().is_some_and(|resource| resource.starts_with("internalreleaseimages."))
        })?;
        (watch["version"] == *version && watch["objects"] == objects && watch["ready"] == true).then_some(())
    });
}

#[test]
fn a_crd_that_is_installed_later_is_noticed_in_whatever_version() {
    let set = CrdSet::preferred();
    let testbed = Testbed::start();
    testbed.install_crds(&set);
    testbed.delete("crd/internalreleaseimages.machineconfiguration.openshift.io");
    let mut guard = Guard::install(testbed);
    guard.run();
    sees_images(&guard, &Value::Null, 0);
    guard.set_version(&cluster_version(&[Site::new().current.history("Completed")]));
    guard.register();

    guard.testbed.install_iri_v1alpha1(&set);
    let (site, older) = (Site::new(), IMAGES.replace("/v1/", "/v1alpha1/"));
    let mut image = internal_release_image(&[&site.current, &site.listed]);
    image["apiVersion"] = json!("machineconfiguration.openshift.io/v1alpha1");
    guard.set(&older, "cluster", &image);
    let older = format!("{older}/cluster");
    let keep = |release| json!({"spec": internal_release_image(&[release])["spec"]});
    let refused = guard.api.merge(&older, &keep(&site.listed));
    assert_eq!((refused.code, &refused.body["reason"]), (403, &json!("Forbidden")), "{refused:?}");
    assert_eq!(guard.api.delete(&older).code, 403);
    assert_eq!(guard.api.merge(&older, &keep(&site.current)).code, 200);
    sees_images(&guard, &json!("v1alpha1"), 1);
}
