//! Who may reach the pods.

use serde_json::json;

use super::service::{HEALTH, WEBHOOK};
use super::{Document, NAME, Options, selector};

const WHY: &str = "\
Reviews from anywhere: the API server runs in the host's network, which no selector names. What /validate tells is
in SECURITY.md. The kubelet of a pod's own node may always probe it.
Nothing limits what airgate may reach: the API server, DNS, the proxy and the site's registries and mirrors, whose
addresses the cluster's settings name and may change.";

pub(super) fn document(options: &Options) -> anyhow::Result<Document> {
    let mut health = json!({"ports": [{"port": HEALTH, "protocol": "TCP"}]});
    if options.flavor.on_openshift() {
        health["from"] =
            json!([{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "openshift-monitoring"}}}]);
    }
    let policy = json!({"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
    "metadata": {"name": NAME, "namespace": options.namespace},
    "spec": {
        "podSelector": {"matchLabels": selector()},
        "policyTypes": ["Ingress"],
        "ingress": [{"ports": [{"port": WEBHOOK, "protocol": "TCP"}]}, health],
    }});
    Ok(Document::new("network", policy)?.saying(WHY))
}
