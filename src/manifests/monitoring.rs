//! How a cluster's Prometheus finds airgate, what it raises an alarm for, and what a person looks at then.

pub mod alerts;
mod dashboard;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding, Subject};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::json;

use super::rights::{role_ref, rule};
use super::service::HEALTH;
use super::{Document, Flavor, NAME, Options, named, selector};

pub(super) const FILE: &str = "monitoring";
const API_VERSION: &str = "monitoring.coreos.com/v1";
/// The service account of OpenShift's own Prometheus: its name, its namespace, and that of the rights it is given.
const PROMETHEUS: (&str, &str) = ("prometheus-k8s", "openshift-monitoring");
/// Where OpenShift's console looks for dashboards.
const DASHBOARDS: &str = "openshift-config-managed";

/// # Errors
/// Where an object cannot be written as JSON.
pub(super) fn documents(options: &Options) -> anyhow::Result<Vec<Document>> {
    let metadata = json!({"name": NAME, "namespace": options.namespace});
    let mut documents = vec![
        Document::new(
            FILE,
            json!({
                "apiVersion": API_VERSION, "kind": "ServiceMonitor", "metadata": metadata,
                "spec": {
                    "selector": {"matchLabels": selector()},
                    "endpoints": [{"port": HEALTH, "path": "/metrics", "scheme": "http", "interval": "30s"}],
                },
            }),
        )?,
        Document::new(
            FILE,
            json!({
                "apiVersion": API_VERSION, "kind": "PrometheusRule", "metadata": metadata,
                "spec": {"groups": [alerts::group(&options.namespace)]},
            }),
        )?,
        Document::new(FILE, dashboard(options)?)?,
    ];
    if options.flavor.on_openshift() {
        documents.extend(rights(options)?);
    }
    Ok(documents)
}

/// What Prometheus needs so as to find the pods; the operator of a Kubernetes cluster gives its own such rights.
fn rights(options: &Options) -> anyhow::Result<[Document; 2]> {
    let (account, namespace) = PROMETHEUS;
    let metadata = || named(account, Some(&options.namespace));
    let verbs = &["get", "list", "watch"];
    let resources = [("", "services"), ("", "endpoints"), ("", "pods"), ("discovery.k8s.io", "endpointslices")];
    let rules = resources.map(|(group, resource)| rule(group, resource, verbs)).to_vec();
    let subject = Subject {
        kind: "ServiceAccount".into(),
        name: account.into(),
        namespace: Some(namespace.into()),
        ..Subject::default()
    };
    let role_ref = role_ref("Role", account);
    Ok([
        Document::new(FILE, Role { metadata: metadata(), rules: Some(rules) })?,
        Document::new(FILE, RoleBinding { metadata: metadata(), role_ref, subjects: Some(vec![subject]) })?,
    ])
}

fn dashboard(options: &Options) -> anyhow::Result<ConfigMap> {
    let (name, namespace, label, value) = match options.flavor {
        // Nearly everything in this namespace is somebody else's.
        Flavor::Openshift | Flavor::Payload | Flavor::Olm => {
            ("dashboard-airgate", DASHBOARDS, "console.openshift.io/dashboard", "true")
        }
        Flavor::Kubernetes => ("airgate-dashboard", &*options.namespace, "grafana_dashboard", "1"),
    };
    let text = serde_json::to_string_pretty(&dashboard::dashboard(options.flavor, &options.namespace))?;
    Ok(ConfigMap {
        metadata: ObjectMeta {
            labels: Some(BTreeMap::from([(label.to_owned(), value.to_owned())])),
            ..named(name, Some(namespace))
        },
        data: Some(BTreeMap::from([("airgate.json".to_owned(), text + "\n")])),
        ..ConfigMap::default()
    })
}

/// `$own` in an expression stands for the labels of airgate's own series, `$namespace` for its namespace.
fn of_namespace(text: &str, namespace: &str) -> String {
    text.replace("$own", &format!("job=\"{NAME}\",namespace=\"{namespace}\"")).replace("$namespace", namespace)
}
