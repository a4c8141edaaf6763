//! The namespace: pods in it must be of the most restricted kind.

use serde_json::json;

use super::{Document, Options};

pub(super) fn document(options: &Options) -> anyhow::Result<Document> {
    let mut metadata = json!({"name": options.namespace, "labels": {
        "pod-security.kubernetes.io/enforce": "restricted",
        "pod-security.kubernetes.io/audit": "restricted",
        "pod-security.kubernetes.io/warn": "restricted",
    }});
    if options.flavor.on_openshift() {
        metadata["labels"]["openshift.io/cluster-monitoring"] = json!("true");
        metadata["annotations"] = json!({
            "openshift.io/description": "The admission guard of upgrade steps",
            // Whatever the cluster's default node selector is: airgate runs where the control plane does.
            "openshift.io/node-selector": "",
            "workload.openshift.io/allowed": "management",
        });
    }
    Document::new("namespace", json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}))
}
