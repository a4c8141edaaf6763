//! What airgate is called by, and what it is called.

use serde_json::json;

use super::certificates::{Certificates, SECRET};
use super::{Document, NAME, Options, selector};

const FILE: &str = "service";
/// The ports that `airgate serve` listens on unless it is told others.
pub(super) const WEBHOOK_PORT: u16 = 8443;
pub(super) const HEALTH_PORT: u16 = 8081;
/// Their names, in the Service and in the pod.
pub(super) const WEBHOOK: &str = "webhook";
pub(super) const HEALTH: &str = "health";

/// Its token is mounted by the pod that needs it, and by no other that names it.
pub(super) fn account(options: &Options) -> anyhow::Result<Document> {
    Document::new(
        "rights",
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "automountServiceAccountToken": false,
            "metadata": {"name": NAME, "namespace": options.namespace}}),
    )
}

/// The port of reviews for the API server, the one of `/metrics` for Prometheus.
pub(super) fn document(options: &Options) -> anyhow::Result<Document> {
    let mut metadata = json!({"name": NAME, "namespace": options.namespace});
    if options.certificates == Certificates::ServiceCa {
        metadata["annotations"] = json!({"service.beta.openshift.io/serving-cert-secret-name": SECRET});
    }
    Document::new(
        FILE,
        json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {
            "selector": selector(),
            "ports": [
                {"name": WEBHOOK, "port": 443, "protocol": "TCP", "targetPort": WEBHOOK},
                {"name": HEALTH, "port": HEALTH_PORT, "protocol": "TCP", "targetPort": HEALTH},
            ],
        }}),
    )
}
