use std::fs;

use serde_json::json;

use super::*;
use crate::cluster::Fact;
use crate::payload::testing::{Store, V2S2, payload};
use crate::release::tests::digest;
use crate::watch::tests::fake::Fake;
use crate::watch::tests::{quick, until};

fn catalog(version: &str) -> String {
    format!(
        "{{apiVersion: airgate.io/v1alpha1, kind: ReleaseCatalog, releases: [{{digest: '{}', version: {version}}}]}}",
        digest('a')
    )
}

fn cluster_version(version: &str) -> String {
    format!(
        "{{apiVersion: config.openshift.io/v1, kind: ClusterVersion, metadata: {{name: version}}, status: {{desired: {{version: {version}}}}}}}"
    )
}

fn current(facts: &Facts) -> Option<String> {
    facts.snapshot().cluster_version.known().map(|found| found.status.desired.version.to_string())
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(20)
}

#[test]
fn a_layout_that_appears_grows_and_goes_is_followed() {
    let root = tempfile::tempdir().unwrap();
    let layout = root.path().join("layout");
    let facts = Facts::from_state(root.path().join("none"), vec![root.path().to_owned()]);
    let version = |facts: &Facts| facts.catalog().releases().map(|release| release.version.to_string()).max();
    assert_eq!(version(&facts), None);
    let mut store = Store::default();
    let one = store.image(V2S2, "amd64", &[payload("4.19.9", &[], false)]);
    store.layout(&layout, &[(&one, "one")]);
    assert!(facts.reload_if_changed());
    assert_eq!(version(&facts).as_deref(), Some("4.19.9"));
    assert!(!facts.reload_if_changed());

    let two = store.image(V2S2, "amd64", &[payload("4.20.1", &["4.19.9"], false)]);
    store.layout(&layout, &[(&one, "one"), (&two, "two")]);
    assert!(facts.reload_if_changed());
    assert_eq!((version(&facts).as_deref(), facts.catalog().len()), (Some("4.20.1"), 2));
    fs::write(layout.join("blobs/sha256").join(&two[7..]), "cut").unwrap();
    assert!(facts.reload_if_changed());
    assert!(
        facts.problems().iter().any(|problem| problem.message.contains("damaged or forged")),
        "{:?}",
        facts.problems()
    );
    assert_eq!(facts.catalog().len(), 1);
    fs::remove_dir_all(layout).unwrap();
    assert!(facts.reload_if_changed());
    assert!(facts.catalog().is_empty());
}

#[tokio::test]
async fn files_are_followed_through_edits_faults_and_disappearance() {
    let root = tempfile::tempdir().unwrap();
    let (state, releases) = (root.path().join("state"), root.path().join("releases"));
    fs::create_dir_all(&state).unwrap();
    fs::create_dir_all(&releases).unwrap();
    fs::write(state.join("cv.yaml"), cluster_version("4.19.9")).unwrap();
    fs::write(releases.join("a.yaml"), catalog("4.20.0")).unwrap();
    let facts = Facts::from_state(state.clone(), vec![releases.clone()]);
    assert_eq!((current(&facts).as_deref(), facts.catalog().len()), (Some("4.19.9"), 1));
    assert!(facts.ready().ready && facts.problems().is_empty());
    assert!(!facts.reload_if_changed());

    // The same length: only the time differs.
    let before = facts.catalog();
    fs::write(state.join("cv.yaml"), cluster_version("4.19.8")).unwrap();
    assert!(facts.reload_if_changed());
    assert_eq!(current(&facts).as_deref(), Some("4.19.8"));
    assert!(Arc::ptr_eq(&before, &facts.catalog()), "what did not change was not read");

    // A half-written file keeps out itself and nothing else.
    fs::write(releases.join("b.yaml"), "apiVersion: airgate.io/v1alpha1\nkind: ReleaseCatalog\nreleases:\n- dig")
        .unwrap();
    assert!(facts.reload_if_changed());
    assert_eq!((facts.catalog().len(), facts.problems().len()), (1, 1));
    fs::remove_file(releases.join("b.yaml")).unwrap();

    // A directory that vanishes takes its facts along, and brings them back.
    fs::rename(&state, root.path().join("away")).unwrap();
    fs::remove_file(releases.join("a.yaml")).unwrap();
    assert!(facts.reload_if_changed());
    assert_eq!((current(&facts), facts.catalog().len(), facts.problems().len()), (None, 0, 1));
    assert!(matches!(&facts.snapshot().cluster_version, Fact::Unknown(_)));
    fs::rename(root.path().join("away"), &state).unwrap();
    assert!(facts.reload_if_changed());
    assert_eq!((current(&facts).as_deref(), facts.problems().len()), (Some("4.19.8"), 0));

    let id = ResourceId::parse("clusterversion");
    assert!(matches!(facts.object(&id, None, "version", soon()).await, Stored::Found(..)));
    let refreshed = facts.refresh_for_irreversible(soon()).await;
    assert_eq!(&*refreshed.cluster_version.provenance().unwrap().source, "cv.yaml");
}

#[tokio::test]
async fn the_poller_notices() {
    let root = tempfile::tempdir().unwrap();
    let facts = Facts::from_state(root.path().into(), vec![]);
    let poller = facts.clone();
    let task = tokio::spawn(async move { poller.poll_files(Duration::from_millis(5)).await });
    fs::write(root.path().join("cv.yaml"), cluster_version("4.19.9")).unwrap();
    until("noticed", || current(&facts).is_some()).await;
    task.abort();
}

#[tokio::test]
async fn live_facts_are_read_again_before_what_cannot_be_undone() {
    let fake = Fake::start().await;
    fake.put("clusterversions", "version", json!({"status": {"desired": {"version": "4.19.9"}}}));
    fake.answering(false);
    let (facts, _tasks) = Facts::live(fake.client.clone(), vec![], quick());
    assert_eq!(facts.ready().waiting_for.len(), facts.watches().map_or(0, |watches| watches.statuses().len()));
    fake.answering(true);
    until("ready", || facts.ready().ready).await;
    let refreshed = facts.refresh_for_irreversible(soon()).await;
    assert_eq!(&*refreshed.cluster_version.provenance().unwrap().source, "live read");
    assert_eq!(&*refreshed.machine_config_nodes.provenance().unwrap().source, "watch");

    let status = facts.status(Timestamp::now());
    assert_eq!(status["facts"]["clusterVersion"]["state"], "known");
    assert_eq!(status["watches"].as_array().map(Vec::len), facts.watches().map(|watches| watches.statuses().len()));
    assert_eq!(status["watches"][0]["state"], "watching");

    fake.answering(false);
    let refreshed = facts.refresh_for_irreversible(Instant::now() + Duration::from_millis(20)).await;
    assert!(matches!(refreshed.cluster_version, Fact::Unknown(_)), "a watch's word is not enough");
    assert_eq!(current(&facts).as_deref(), Some("4.19.9"));
}

#[tokio::test]
async fn a_command_reads_once_and_a_case_is_given() {
    let fake = Fake::start().await;
    fake.put("clusterversions", "version", json!({"status": {"desired": {"version": "4.19.9"}}}));
    let facts = Facts::once(fake.client.clone(), vec![PathBuf::from("/nowhere")], soon()).await;
    assert_eq!((current(&facts).as_deref(), facts.problems().len()), (Some("4.19.9"), 1));
    let id = ResourceId::parse("clusterversion");
    assert!(matches!(facts.object(&id, None, "version", soon()).await, Stored::Found(..)));
    let given = Facts::given(Snapshot::nothing("a case"), Catalog::default());
    assert!(matches!(given.object(&id, None, "version", soon()).await, Stored::Unknown(_)));
    assert!(!given.reload_if_changed() && given.ready().ready);
}
