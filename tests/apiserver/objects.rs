//! The objects of a cluster as plain JSON, each in one sentence. A test changes
//! what it is about by index: `version["spec"]["desiredUpdate"] = json!(...)`.

use serde_json::{Value, json};

const TIME: &str = "2026-11-30T12:00:00Z";

/// A release: its version and its pullspec by digest.
pub struct Release {
    pub version: &'static str,
    pub image: String,
}

impl Release {
    /// `digit` fills the digest: a release that tests can tell from others.
    pub fn new(version: &'static str, digit: char) -> Self {
        let digest = digit.to_string().repeat(64);
        Self { version, image: format!("registry.example:5000/ocp/release@sha256:{digest}") }
    }

    /// The name of its release bundle.
    pub fn bundle(&self) -> String {
        format!("ocp-release-bundle-{}-x86_64", self.version)
    }

    /// An entry of status.history, to which the update is finished or not.
    pub fn history(&self, state: &str) -> Value {
        let completed = if state == "Completed" { json!(TIME) } else { Value::Null };
        json!({"state": state, "version": self.version, "image": self.image, "startedTime": TIME,
            "completionTime": completed, "verified": true})
    }

    /// An entry of status.availableUpdates, and the form of status.desired.
    pub fn update(&self) -> Value {
        json!({"version": self.version, "image": self.image})
    }
}

/// A ClusterVersion that runs the first entry of this history.
pub fn cluster_version(history: &[Value]) -> Value {
    let newest = history.first().expect("a history entry");
    json!({
        "apiVersion": "config.openshift.io/v1", "kind": "ClusterVersion", "metadata": {"name": "version"},
        "spec": {"clusterID": "8f4b1d2e-0000-4000-8000-000000000000", "channel": "stable-4.18"},
        "status": {
            "desired": {"version": newest["version"], "image": newest["image"]},
            "history": history, "availableUpdates": null, "observedGeneration": 1, "versionHash": "hash",
        },
    })
}

/// An InternalReleaseImage that holds the bundles of these releases.
pub fn internal_release_image(releases: &[&Release]) -> Value {
    let names: Vec<Value> = releases.iter().map(|release| json!({"name": release.bundle()})).collect();
    json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "InternalReleaseImage",
        "metadata": {"name": "cluster"}, "spec": {"releases": names}, "status": {"releases": bundles(releases)},
    })
}

/// A MachineConfigNode on which the bundles of these releases are available.
pub fn machine_config_node(name: &str, pool: &str, releases: &[&Release]) -> Value {
    let rendered = format!("rendered-{pool}-1");
    json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfigNode", "metadata": {"name": name},
        "spec": {"node": {"name": name}, "pool": {"name": pool}, "configVersion": {"desired": rendered}},
        "status": {"configVersion": {"desired": rendered}, "internalReleaseImage": {"releases": bundles(releases)}},
    })
}

/// A control-plane Node that is Ready and has this address.
pub fn control_plane_node(name: &str, address: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": {"node-role.kubernetes.io/control-plane": "", "node-role.kubernetes.io/master": ""}},
        "status": {
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}],
            "addresses": [{"type": "InternalIP", "address": address}],
        },
    })
}

/// A MachineConfigPool whose nodes run one rendered config and move to another.
pub fn machine_config_pool(name: &str, running: &str, wanted: &str) -> Value {
    json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfigPool", "metadata": {"name": name},
        "spec": {"configuration": {"name": wanted}, "paused": false}, "status": {"configuration": {"name": running}},
    })
}

/// The rendered MachineConfig that belongs to this release.
pub fn rendered_machine_config(name: &str, release: &Release) -> Value {
    json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
        "metadata": {"name": name, "annotations": {
            "machineconfiguration.openshift.io/release-image-version": release.version}},
        "spec": {"osImageURL": release.image},
    })
}

fn bundles(releases: &[&Release]) -> Vec<Value> {
    let bundle = |release: &&Release| {
        json!({"name": release.bundle(), "image": release.image, "conditions": [
            {"type": "Available", "status": "True", "reason": "Installed", "message": "", "lastTransitionTime": TIME},
            {"type": "Degraded", "status": "False", "reason": "AsExpected", "message": "", "lastTransitionTime": TIME}]})
    };
    releases.iter().map(bundle).collect()
}
