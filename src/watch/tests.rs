//! The watches against a fake that misbehaves; a real API server has its own tests.

pub(crate) mod fake;

use std::time::Instant;

use serde_json::{Value, json};

use super::*;
use crate::action::Stored;
use crate::cluster::Fact;
use crate::resource::ResourceId;
use fake::Fake;

const CV: &str = "clusterversions";
const NODES: &str = "machineconfignodes";
const IRI: &str = "internalreleaseimages";

pub(crate) fn quick() -> Timing {
    Timing {
        rediscover: Duration::from_millis(20),
        retry_first: Duration::from_millis(5),
        retry_most: Duration::from_millis(20),
        request: Duration::from_secs(20),
        ..Timing::default()
    }
}

pub(crate) async fn until(what: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(20), "never: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

fn desired(version: &str) -> Value {
    json!({"metadata": {"managedFields": [{"manager": "x"}]}, "status": {"desired": {"version": version}}})
}

fn current(watches: &Watches) -> Option<String> {
    watches.snapshot().cluster_version.known().map(|found| found.status.desired.version.to_string())
}

fn status(watches: &Watches, plural: &str) -> Arc<WatchStatus> {
    watches.statuses().into_iter().find(|status| status.resource.starts_with(plural)).unwrap()
}

fn why<T>(fact: &Fact<T>) -> String {
    match fact {
        Fact::Unknown(missing) => format!("{}; {}", missing.why, missing.remedy),
        Fact::Known(..) => "known".into(),
        Fact::Absent(_) => "absent".into(),
    }
}

async fn started() -> (Fake, Watches, WatchTasks) {
    let fake = Fake::start().await;
    fake.put(CV, "version", desired("4.19.9"));
    let (watches, tasks) = Watches::start(&fake.client, quick());
    until("ready", || watches.waiting_for().is_empty()).await;
    until("watching", || fake.watched(CV) == 1 && fake.watched(NODES) == 1).await;
    (fake, watches, tasks)
}

#[tokio::test]
async fn ready_only_after_every_first_list() {
    let fake = Fake::start().await;
    fake.put(
        "machineconfigs",
        "rendered-a",
        json!({"metadata": {"annotations": {"machineconfiguration.openshift.io/release-image-version": "4.19.9"}}}),
    );
    fake.put("machineconfigs", "00-master", json!({}));
    fake.put("infrastructures", "cluster", json!({"status": {"controlPlaneTopology": "External"}}));
    fake.answering(false);
    let (watches, _tasks) = Watches::start(&fake.client, quick());
    assert_eq!(watches.waiting_for().len(), watches.statuses().len());
    assert!(why(&watches.snapshot().cluster_version).contains("not been read yet"));
    fake.answering(true);
    until("ready", || watches.waiting_for().is_empty()).await;
    let snapshot = watches.snapshot();
    assert_eq!(why(&snapshot.cluster_version), "absent", "listed, and there is none");
    assert_eq!(snapshot.machine_config_pools.known().unwrap().len(), 0);
    let releases = snapshot.rendered_releases.known().unwrap();
    assert_eq!((releases["rendered-a"].as_deref(), releases["00-master"].as_deref()), (Some("4.19.9"), None));
    assert!(snapshot.hosted());
    assert!(fake.lock().requests.iter().any(|r| r.contains("clusterversions?") && r.contains("metadata.name")));
}

#[tokio::test]
async fn events_and_bookmarks_keep_facts_fresh() {
    let (fake, watches, _tasks) = started().await;
    assert_eq!(current(&watches).as_deref(), Some("4.19.9"));
    fake.put(CV, "version", desired("4.19.10"));
    until("the change is seen", || current(&watches).as_deref() == Some("4.19.10")).await;
    let as_of = || watches.snapshot().cluster_version.provenance().unwrap().as_of;
    let before = as_of();
    fake.event(CV, &json!({"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "77"}}}));
    until("a bookmark refreshes", || as_of() > before).await;
    fake.delete(CV, "version");
    until("the deletion is seen", || why(&watches.snapshot().cluster_version) == "absent").await;
    let status = status(&watches, CV);
    assert_eq!((status.events, status.bookmarks, status.lists, status.errors), (2, 1, 1, 0));
}

#[tokio::test]
async fn a_bad_object_makes_its_own_fact_unknown_until_it_is_mended() {
    let (fake, watches, _tasks) = started().await;
    fake.put(NODES, "good", json!({}));
    fake.put(NODES, "bad", json!({"status": {"internalReleaseImage": {"releases": [{"name": 5}]}}}));
    let nodes = || why(&watches.snapshot().machine_config_nodes);
    until("the bad one is noticed", || {
        nodes().contains(
            "machineconfignodes.machineconfiguration.openshift.io bad: status.internalReleaseImage.releases[0].name",
        )
    })
    .await;
    assert_eq!(status(&watches, NODES).bad_objects.len(), 1);
    assert_eq!(current(&watches).as_deref(), Some("4.19.9"), "no other fact suffers");
    // Also in a list.
    fake.event(NODES, &json!({"type": "ERROR", "object": {"code": 410, "reason": "Expired"}}));
    until("it was listed again", || status(&watches, NODES).lists == 2).await;
    assert!(nodes().contains(" bad: "), "{}", nodes());
    until("it watches again", || fake.watched(NODES) == 2).await;
    fake.put(NODES, "bad", json!({}));
    until("mended", || watches.snapshot().machine_config_nodes.known().is_some_and(|nodes| nodes.len() == 2)).await;
    assert!(watches.waiting_for().is_empty());
}

#[tokio::test]
async fn a_denied_list_names_the_rule_and_blocks_nothing() {
    let fake = Fake::start().await;
    fake.put(CV, "version", desired("4.19.9"));
    fake.lock().denied.insert(CV.into());
    let (watches, _tasks) = Watches::start(&fake.client, quick());
    until("ready", || watches.waiting_for().is_empty()).await;
    let told = why(&watches.snapshot().cluster_version);
    assert!(told.contains("account list, watch on clusterversions.config.openshift.io"), "{told}");
    assert_eq!(status(&watches, CV).state, State::Denied);
    fake.lock().denied.clear();
    until("granted", || current(&watches).is_some()).await;
    assert_eq!(status(&watches, CV).trouble, None);
}

#[tokio::test]
async fn a_passing_denial_leaves_the_facts_and_a_lasting_one_does_not() {
    let fake = Fake::start().await;
    fake.put(CV, "version", desired("4.19.9"));
    for (grace, kept) in [(Duration::from_mins(1), true), (Duration::ZERO, false)] {
        fake.lock().denied.clear();
        let (watches, _tasks) = Watches::start(&fake.client, Timing { denied_grace: grace, ..quick() });
        until("listed", || current(&watches).is_some()).await;
        fake.lock().denied.insert(CV.into());
        fake.drop_connections(CV);
        until("denied", || status(&watches, CV).state == State::Denied).await;
        assert_eq!(current(&watches).is_some(), kept);
        assert!(status(&watches, CV).trouble.as_ref().unwrap().contains("does not let airgate read"));
    }
}

#[tokio::test]
async fn a_lost_connection_keeps_the_last_facts_and_goes_on_where_it_was() {
    let (fake, watches, _tasks) = started().await;
    fake.put(CV, "version", desired("4.19.10"));
    until("the change is seen", || current(&watches).as_deref() == Some("4.19.10")).await;
    let last = fake.lock().version;
    let as_of = watches.snapshot().cluster_version.provenance().unwrap().as_of;
    fake.answering(false);
    fake.drop_connections(CV);
    until("the loss is noticed", || status(&watches, CV).state == State::Failing).await;
    assert_eq!(current(&watches).as_deref(), Some("4.19.10"));
    assert_eq!(watches.snapshot().cluster_version.provenance().unwrap().as_of, as_of, "with its age");
    assert!(watches.waiting_for().is_empty(), "still ready");
    fake.answering(true);
    until("it watches again", || fake.watched(CV) == 1).await;
    assert!(
        fake.lock()
            .requests
            .iter()
            .rev()
            .any(|r| r.contains("clusterversions") && r.contains(&format!("resourceVersion={last}")))
    );
    fake.put(CV, "version", desired("4.19.11"));
    until("the next change is seen", || current(&watches).as_deref() == Some("4.19.11")).await;
    assert_eq!(status(&watches, CV).lists, 1, "no list was needed");
}

#[tokio::test]
async fn gone_and_silence_are_survived() {
    let (fake, watches, _tasks) = started().await;
    fake.lock().objects.insert(
        CV.into(),
        vec![json!({"metadata": {"name": "version"}, "status": {"desired": {"version": "4.20.0"}}})],
    );
    fake.event(
        CV,
        &json!({"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Gone", "message": "too old"}}),
    );
    until("listed again", || current(&watches).as_deref() == Some("4.20.0")).await;
    assert_eq!(status(&watches, CV).errors, 0, "part of normal life");

    let quiet = Timing { silence: Duration::from_millis(50), ..quick() };
    let (watches, _tasks) = Watches::start(&fake.client, quiet);
    until("silence is listed again", || status(&watches, CV).lists > 2).await;
    assert_eq!(status(&watches, CV).errors, 0);
}

#[tokio::test]
async fn a_watch_that_ends_without_a_sign_of_life_is_listed_again() {
    let (fake, watches, _tasks) = started().await;
    let before = watches.snapshot().cluster_version.provenance().unwrap().as_of;
    fake.end_watches(CV);
    until("listed again", || watches.snapshot().cluster_version.provenance().unwrap().as_of > before).await;
    assert_eq!(status(&watches, CV).lists, 2);
}

#[tokio::test]
async fn a_resource_may_come_and_go() {
    let fake = Fake::start().await;
    let v1 = "machineconfiguration.openshift.io/v1/internalreleaseimages";
    fake.lock().installed.remove(v1);
    let (watches, _tasks) = Watches::start(&fake.client, quick());
    until("ready", || watches.waiting_for().is_empty()).await;
    assert_eq!(why(&watches.snapshot().internal_release_image), "absent");
    fake.put(IRI, "cluster", json!({"spec": {"releases": [{"name": "ocp-release-bundle-4.22.1-x86_64"}]}}));
    let alpha = "machineconfiguration.openshift.io/v1alpha1/internalreleaseimages";
    fake.lock().installed.insert(alpha.into());
    until("noticed", || watches.snapshot().internal_release_image.known().is_some()).await;
    assert_eq!(status(&watches, IRI).version, Some("v1alpha1"));
    fake.lock().installed.remove(alpha);
    fake.end_watches(IRI);
    until("gone", || why(&watches.snapshot().internal_release_image) == "absent").await;
    assert_eq!(status(&watches, IRI).objects, 0);
}

#[tokio::test]
async fn live_reads_are_bounded_and_say_what_is_missing() {
    let fake = Fake::start().await;
    let soon = |ms| tokio::time::Instant::now() + Duration::from_millis(ms);
    let read = live_read(&fake.client, soon(20_000)).await;
    assert_eq!(why(&read.cluster_version), "absent");
    fake.put(CV, "version", desired("4.19.9"));
    fake.put("machineconfigpools", "master", json!({}));
    let read = live_read(&fake.client, soon(20_000)).await;
    let provenance = read.cluster_version.provenance().unwrap();
    assert_eq!((&*provenance.source, provenance.watched), ("live read", false));
    assert_eq!(read.machine_config_pools.known().unwrap().len(), 1);
    assert!(read_once(&fake.client, soon(20_000)).await.machine_config_nodes.known().is_some());

    let id = ResourceId::parse("clusterversion");
    assert!(matches!(get(&fake.client, &id, "version", soon(20_000)).await, Stored::Found(..)));
    assert!(matches!(get(&fake.client, &id, "other", soon(20_000)).await, Stored::KnownAbsent));

    fake.put(CV, "version", json!({"status": []}));
    fake.lock().denied.insert("machineconfigpools".into());
    fake.put(CV, "version", json!({"spec": 5}));
    let read = live_read(&fake.client, soon(20_000)).await;
    assert!(why(&read.machine_config_pools).contains("account list, watch on machineconfigpools"));
    assert!(why(&read.cluster_version).contains("version: spec: "), "{}", why(&read.cluster_version));
    fake.answering(false);
    let read = live_read(&fake.client, soon(30)).await;
    assert!(why(&read.cluster_version).contains("could not be read"));
}

#[tokio::test]
async fn an_unreachable_api_server_is_named() {
    let config = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
    let (watches, _tasks) = Watches::start(&Client::try_from(config).unwrap(), quick());
    until("noticed", || watches.statuses().iter().all(|status| status.errors > 1)).await;
    assert_eq!(watches.waiting_for().len(), watches.statuses().len());
    let told = why(&watches.snapshot().cluster_version);
    assert!(told.contains("refused") && told.contains("/statusz"), "{told}");
}
