//! The ClusterServiceVersion.

use serde_json::{Value, json};

use super::super::{Document, NAME, Options, monitoring};
use super::VERSION;

pub(super) const SUMMARY: &str =
    "Stops unsupported upgrade steps of a disconnected OpenShift cluster, and says what works instead";

const DESCRIPTION: &str = "\
airgate stands between a person or tool that runs `oc adm upgrade` and the API server that would store the request. It
refuses what OpenShift does not support from here, what is not on this site, and what would leave the cluster unable to
go on, and says what works instead. It needs no connection to anything outside the site.

### Install

Into the namespace `openshift-airgate`, which this operator suggests. airgate registers its own
ValidatingWebhookConfiguration `airgate`: at first with failurePolicy Ignore, and with Fail once OpenShift's service CA
has vouched for it there. `oc get validatingwebhookconfiguration airgate -o yaml` shows it.

Settings: a ConfigMap with a `config.yaml`, mounted and named by the Subscription (`spec.config`: `volumes`,
`volumeMounts`, and the variable `AIRGATE_CONFIG`). Releases of the site: a ConfigMap `airgate-releases`.

### Uninstall

Before the Subscription and the ClusterServiceVersion are deleted:

    oc annotate namespace openshift-airgate airgate.io/unregistered=uninstall --overwrite
    oc delete validatingwebhookconfiguration airgate

OLM keeps the namespace, and what the namespace owns. A configuration that is left behind refuses upgrades and removals
of bundles until it is deleted: the second command does that at any time, with no part of airgate running. Deleting the
namespace deletes the configuration too.

### Rights

The same as in airgate's plain manifests, but for this: OLM grants rights in the operator's own namespace or in the
whole cluster, nothing in between. So what airgate lists in `openshift-config-managed`, `openshift-marketplace` and the
like (ConfigMaps, CatalogSources) it may list in every namespace here, and the few Secrets that it reads
by name it may read by these names, and any ConfigMap, in every namespace; Events it may create in every namespace. Where that is too wide,
install the plain manifests.

There is no NetworkPolicy in this bundle, since not every OLM takes one, and no webhook definition, since one cannot
carry the matchConditions that keep everything but guarded steps away from airgate.
";

/// As OLM reads it.
pub(super) fn csv(options: &Options, documents: &[Document]) -> Value {
    let objects =
        || documents.iter().filter(|document| document.file != monitoring::FILE).map(|document| &document.object);
    let of = |kind: &'static str| objects().filter(move |object| object["kind"] == kind);
    let own = of("Role").filter(|role| role["metadata"]["namespace"] == options.namespace.as_str());
    let others = of("Role").filter(|role| role["metadata"]["namespace"] != options.namespace.as_str());
    let deployment = of("Deployment").next().cloned().unwrap_or_default();
    json!({
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "ClusterServiceVersion",
        "metadata": {
            "name": format!("{NAME}.v{VERSION}"),
            "annotations": annotations(options, of("Namespace").next()),
            "labels": {"operatorframework.io/arch.amd64": "supported", "operatorframework.io/os.linux": "supported"},
        },
        "spec": {
            "displayName": NAME,
            "description": DESCRIPTION,
            "version": VERSION,
            "maturity": "alpha",
            "minKubeVersion": "1.30.0",
            "keywords": ["upgrade", "disconnected", "air-gapped", "admission", "mirror"],
            "provider": {"name": NAME},
            "icon": [{"mediatype": "image/svg+xml", "base64data": icon()}],
            // It guards objects of the cluster and has no resources of its own, so there is one for all namespaces;
            // an OperatorGroup of its own namespace serves as well.
            "installModes": modes(&["OwnNamespace", "AllNamespaces"]),
            "install": {"strategy": "deployment", "spec": {
                "deployments": [{"name": NAME, "label": deployment["metadata"]["labels"], "spec": spec(deployment)}],
                "permissions": [{"serviceAccountName": NAME, "rules": rules(own)}],
                "clusterPermissions": [{"serviceAccountName": NAME, "rules": rules(of("ClusterRole").chain(others))}],
            }},
            "relatedImages": [{"name": NAME, "image": options.image}],
        },
    })
}

/// The rules of these roles, each once.
fn rules<'a>(roles: impl Iterator<Item = &'a Value>) -> Vec<Value> {
    let mut rules: Vec<Value> = vec![];
    for rule in roles.flat_map(|role| role["rules"].as_array().into_iter().flatten()) {
        if !rules.contains(rule) {
            rules.push(rule.clone());
        }
    }
    rules
}

fn modes(supported: &[&str]) -> Vec<Value> {
    let all = ["OwnNamespace", "SingleNamespace", "MultiNamespace", "AllNamespaces"];
    all.iter().map(|mode| json!({"type": mode, "supported": supported.contains(mode)})).collect()
}

/// The Deployment's, without the config file: that is the site's, by its Subscription.
fn spec(mut deployment: Value) -> Value {
    let mut spec = deployment["spec"].take();
    let pod = &mut spec["template"]["spec"];
    let without = |list: &mut Value, keep: &dyn Fn(&Value) -> bool| {
        if let Some(list) = list.as_array_mut() {
            list.retain(keep);
        }
    };
    without(&mut pod["volumes"], &|volume| volume["name"] != "config");
    let container = &mut pod["containers"][0];
    without(&mut container["volumeMounts"], &|mount| mount["name"] != "config");
    without(&mut container["args"], &|arg| !arg.as_str().unwrap_or_default().starts_with("--config="));
    if let Some(annotations) = spec["template"]["metadata"]["annotations"].as_object_mut() {
        annotations.remove("airgate.io/config");
    }
    spec
}

fn annotations(options: &Options, namespace: Option<&Value>) -> Value {
    let mut annotations = json!({
        // Without a CustomResourceDefinition there is nothing to give an example of.
        "alm-examples": "[]",
        "capabilities": "Seamless Upgrades",
        "categories": "Security",
        "containerImage": options.image,
        "description": SUMMARY,
        "operatorframework.io/cluster-monitoring": "true",
        "operatorframework.io/suggested-namespace": options.namespace,
        "operators.openshift.io/infrastructure-features": r#"["disconnected", "proxy-aware"]"#,
    });
    if let Some(namespace) = namespace {
        annotations["operatorframework.io/suggested-namespace-template"] = namespace.to_string().into();
    }
    for (feature, has) in [
        ("cnf", false),
        ("cni", false),
        ("csi", false),
        ("disconnected", true),
        ("fips-compliant", false),
        ("proxy-aware", true),
        ("tls-profiles", true),
        ("token-auth-aws", false),
        ("token-auth-azure", false),
        ("token-auth-gcp", false),
    ] {
        annotations[format!("features.operators.openshift.io/{feature}")] = has.to_string().into();
    }
    annotations
}

/// A gate in a wall.
fn icon() -> String {
    use base64::Engine as _;
    let svg = r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 64 64"><rect width="64" height="64" rx="8" fill="#1f2a37"/><path d="M10 54V26a22 22 0 0 1 44 0v28h-8V26a14 14 0 0 0-28 0v28z" fill="#e5e7eb"/><path d="M24 54V34h4v20zm6 0V34h4v20zm6 0V34h4v20z" fill="#f59e0b"/></svg>"##;
    base64::engine::general_purpose::STANDARD.encode(svg)
}
