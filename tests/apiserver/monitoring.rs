//! What the Prometheus operator reads is what the API server takes, field by field.

use airgate::files::document::from_yaml;
use serde_json::{Value, json};

use crate::guard::Guard;

#[test]
fn monitoring_is_applied_as_it_is_printed() {
    let guard = Guard::shared();
    let printed = from_yaml(&guard.airgate(&["manifests"])).expect("YAML from airgate manifests");
    let of_monitoring = |object: &Value| {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        object["apiVersion"] == "monitoring.coreos.com/v1" || ["dashboard-airgate", "prometheus-k8s"].contains(&name)
    };
    let objects: Vec<Value> = printed.into_iter().filter(of_monitoring).collect();
    let mut kinds: Vec<_> = objects.iter().filter_map(|object| object["kind"].as_str()).collect();
    kinds.sort_unstable();
    assert_eq!(kinds, ["ConfigMap", "PrometheusRule", "Role", "RoleBinding", "ServiceMonitor"]);
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string();
    let apply = ["apply", "--server-side", "--validate=strict", "--dry-run=server", "-f", "-"];
    guard.testbed.command(apply).stdin(list).run().success();
}
