//! Files that change, break, contradict each other and vanish while the server runs.

use std::fs;

use serde_json::{Value, json};

use super::running::{Running, V4_22_3, V4_23_1, review, upgrade_to};

fn allowed(response: &Value) -> bool {
    response["allowed"] == true
}

fn says(part: &'static str) -> impl FnMut(&Value) -> bool {
    move |response| response["status"]["message"].as_str().is_some_and(|message| message.contains(part))
}

#[tokio::test]
async fn an_edited_catalog_changes_the_verdict_and_a_broken_one_keeps_only_itself_out() {
    let server = Running::start().await;
    let releases = server.dir.path().join("releases");
    let catalog = releases.join("catalog.yaml");
    let text = fs::read_to_string(&catalog).unwrap();
    server.still_judges().await;

    fs::write(&catalog, text.replace("previous: [4.22.2,", "previous: [4.21.9, 4.22.2,")).unwrap();
    server.eventually("allowed", allowed, &upgrade_to(V4_23_1)).await;

    fs::write(
        releases.join("broken.yaml"),
        "apiVersion: airgate.io/v1alpha1\nkind: ReleaseCatalog\nreleases: [{digest: 1}]\n",
    )
    .unwrap();
    fs::write(&catalog, &text).unwrap();
    server.eventually("denied again", says("cannot go straight"), &upgrade_to(V4_23_1)).await;
    let problems = server.status().await["problems"].to_string();
    assert!(problems.contains("broken.yaml"), "{problems}");

    let other = text.replace("previous: [4.22.2,", "previous: [4.21.9, 4.22.2,");
    fs::write(releases.join("other.yaml"), other).unwrap();
    server.eventually("unknown by contradiction", says("say different things"), &upgrade_to(V4_23_1)).await;

    fs::remove_dir_all(&releases).unwrap();
    server.eventually("unknown", says("holds any release"), &upgrade_to(V4_22_3)).await;
    fs::create_dir(&releases).unwrap();
    fs::write(&catalog, &text).unwrap();
    server.eventually("allowed again", allowed, &upgrade_to(V4_22_3)).await;
}

#[tokio::test]
async fn a_state_directory_that_vanishes_makes_its_facts_unknown() {
    let server = Running::start().await;
    let iri = json!({"apiVersion": "machineconfiguration.openshift.io/v1", "kind": "InternalReleaseImage", "metadata": {"name": "cluster"},
        "spec": {"releases": [{"name": "ocp-release-bundle-4.22.3-x86_64"}]}});
    let delete = review("machineconfiguration.openshift.io", "internalreleaseimages", "DELETE", &iri, &Value::Null);
    // Every node still lists the running release's bundle.
    server.eventually("denied", says("still holds 4.21.9"), &delete).await;
    let state = server.dir.path().join("state");
    let aside = server.dir.path().join("aside");
    fs::rename(&state, &aside).unwrap();
    server.eventually("unknown", says("cannot be judged"), &delete).await;
    // A step of the ClusterVersion brings its own facts along.
    server.still_judges().await;
    assert_eq!(server.health("/readyz").await.0, 200, "one bad source is no reason to be taken out of service");
    fs::rename(&aside, &state).unwrap();
    server.eventually("denied again", says("still holds 4.21.9"), &delete).await;
}
