//! airgate is never the reason that a cluster is stuck: what the generated registration can never match, whoever
//! writes it; and what the engine lets pass without one fact. On a real API server: tests/apiserver/lockout.rs.

use airgate::cluster::Snapshot;
use airgate::engine::{Facts, judge};
use airgate::files::document::from_yaml;
use airgate::platform::{
    CLUSTER_VERSION_OPERATOR, CLUSTER_VERSION_OPERATOR_BEFORE, GARBAGE_COLLECTOR, MACHINE_CONFIG_CONTROLLER,
    MACHINE_CONFIG_OPERATOR, MACHINE_OS_BUILDER, NAMESPACE_CONTROLLER,
};
use airgate::release::Catalog;
use airgate::settings::Settings;
use serde_json::{Value, json};

use super::run::airgate;

const OPERATIONS: [&str; 4] = ["CREATE", "UPDATE", "DELETE", "CONNECT"];

/// What the API server compares with a rule.
struct Request<'a> {
    group: &'a str,
    version: &'a str,
    /// With the subresource, such as `pods/exec`.
    resource: &'a str,
    /// `None`: the object is cluster-scoped.
    namespace: Option<&'a str>,
    operation: &'a str,
}

/// Whether the API server would look at a webhook's conditions at all; as it reads rules and selectors.
fn reached(webhook: &Value, request: &Request<'_>) -> bool {
    let scope = if request.namespace.is_some() { "Namespaced" } else { "Cluster" };
    let rules = webhook["rules"].as_array().unwrap();
    let by_rule = rules.iter().any(|rule| {
        let lists = |field: &str, value: &str| {
            rule[field].as_array().unwrap().iter().any(|listed| listed == value || listed == "*")
        };
        let (resource, sub) = request.resource.split_once('/').unwrap_or((request.resource, ""));
        let resources = rule["resources"].as_array().unwrap().iter().any(|listed| {
            let (of, with) = listed.as_str().unwrap().split_once('/').unwrap_or((listed.as_str().unwrap(), ""));
            // `*/*` is everything, `*` every resource without its subresources.
            [resource, "*"].contains(&of) && (with == sub || with == "*")
        });
        let scoped = [scope, "*"].contains(&rule["scope"].as_str().unwrap_or("*"));
        lists("apiGroups", request.group)
            && lists("apiVersions", request.version)
            && lists("operations", request.operation)
            && resources
            && scoped
    });
    let selector = &webhook["namespaceSelector"];
    // It does not touch what has no namespace.
    let selected = request.namespace.is_none_or(|namespace| {
        assert!(selector["matchLabels"].is_null(), "a selector that this test does not read: {selector}");
        selector["matchExpressions"].as_array().into_iter().flatten().all(|wanted| {
            assert_eq!((&wanted["key"], &wanted["operator"]), (&json!("kubernetes.io/metadata.name"), &json!("In")));
            wanted["values"].as_array().unwrap().contains(&json!(namespace))
        })
    });
    by_rule && selected
}

/// The webhooks of every form in which they are printed, each with its name.
fn registrations() -> Vec<(String, Vec<Value>)> {
    let mut printed = vec![];
    for flavor in ["openshift", "kubernetes"] {
        for mode in ["enforce", "audit"] {
            let output = airgate(&["manifests", "--flavor", flavor, "--mode", mode]);
            let objects = from_yaml(&output.stdout).unwrap();
            let of = |object: &&Value| object["kind"] == "ValidatingWebhookConfiguration";
            let registered: Vec<&Value> = objects.iter().filter(of).collect();
            assert_eq!(registered.len(), 1, "{flavor} {mode}");
            let webhooks = registered[0]["webhooks"].as_array().unwrap().clone();
            assert!(webhooks.len() > 8, "{flavor} {mode}");
            printed.push((format!("{flavor}, {mode}"), webhooks));
        }
    }
    printed
}

/// Groups with their resources that live in a namespace, airgate's own among them.
const NAMESPACED: &[(&str, &[&str], &[&str])] = &[
    (
        "",
        &["v1"],
        &[
            "pods",
            "pods/status",
            "pods/exec",
            "pods/eviction",
            "pods/binding",
            "pods/ephemeralcontainers",
            "secrets",
            "configmaps",
            "services",
            "services/status",
            "endpoints",
            "events",
            "serviceaccounts",
            "serviceaccounts/token",
            "replicationcontrollers",
            "persistentvolumeclaims",
            "resourcequotas",
            "limitranges",
            "bindings",
        ],
    ),
    (
        "apps",
        &["v1"],
        &[
            "deployments",
            "deployments/status",
            "deployments/scale",
            "replicasets",
            "replicasets/status",
            "replicasets/scale",
            "daemonsets",
            "statefulsets",
            "controllerrevisions",
        ],
    ),
    ("batch", &["v1"], &["jobs", "cronjobs"]),
    ("coordination.k8s.io", &["v1"], &["leases"]),
    ("discovery.k8s.io", &["v1"], &["endpointslices"]),
    ("events.k8s.io", &["v1"], &["events"]),
    ("networking.k8s.io", &["v1"], &["networkpolicies", "ingresses"]),
    ("policy", &["v1"], &["poddisruptionbudgets"]),
    ("rbac.authorization.k8s.io", &["v1"], &["roles", "rolebindings"]),
    ("monitoring.coreos.com", &["v1"], &["servicemonitors", "prometheusrules", "podmonitors"]),
    ("cert-manager.io", &["v1"], &["certificates", "issuers"]),
    ("route.openshift.io", &["v1"], &["routes"]),
    (
        "operators.coreos.com",
        &["v1", "v1alpha1"],
        &["subscriptions", "clusterserviceversions", "installplans", "catalogsources", "operatorgroups"],
    ),
];

/// What repairs a cluster, frees it of a webhook, or lets a node live.
const CLUSTER: &[(&str, &[&str], &[&str])] = &[
    (
        "admissionregistration.k8s.io",
        &["v1", "v1beta1", "v1alpha1"],
        &[
            "validatingwebhookconfigurations",
            "mutatingwebhookconfigurations",
            "validatingadmissionpolicies",
            "validatingadmissionpolicybindings",
            "mutatingadmissionpolicies",
            "mutatingadmissionpolicybindings",
        ],
    ),
    (
        "",
        &["v1"],
        &[
            "nodes",
            "nodes/status",
            "nodes/proxy",
            "namespaces",
            "namespaces/finalize",
            "namespaces/status",
            "persistentvolumes",
        ],
    ),
    ("rbac.authorization.k8s.io", &["v1"], &["clusterroles", "clusterrolebindings"]),
    (
        "certificates.k8s.io",
        &["v1"],
        &["certificatesigningrequests", "certificatesigningrequests/approval", "certificatesigningrequests/status"],
    ),
    ("authentication.k8s.io", &["v1"], &["tokenreviews", "selfsubjectreviews"]),
    ("authorization.k8s.io", &["v1"], &["subjectaccessreviews", "selfsubjectaccessreviews"]),
    ("apiregistration.k8s.io", &["v1"], &["apiservices", "apiservices/status"]),
    ("scheduling.k8s.io", &["v1"], &["priorityclasses"]),
    ("storage.k8s.io", &["v1"], &["storageclasses", "volumeattachments", "csinodes"]),
    (
        "config.openshift.io",
        &["v1"],
        &[
            "clusteroperators",
            "infrastructures",
            "featuregates",
            "apiservers",
            "oauths",
            "proxies",
            "ingresses",
            "networks",
            "dnses",
            "nodes",
        ],
    ),
    (
        "machineconfiguration.openshift.io",
        &["v1", "v1alpha1"],
        &[
            "machineconfigpools",
            "machineconfignodes",
            "controllerconfigs",
            "kubeletconfigs",
            "containerruntimeconfigs",
            "pinnedimagesets",
        ],
    ),
    ("operator.openshift.io", &["v1"], &["etcds", "kubeapiservers", "machineconfigurations", "storages", "networks"]),
];

const NAMESPACES: [&str; 8] = [
    "openshift-airgate",
    "airgate",
    "openshift-cluster-version",
    "openshift-machine-config-operator",
    "openshift-kube-apiserver",
    "openshift-config",
    "kube-system",
    "default",
];

#[test]
fn nothing_that_brings_a_cluster_or_airgate_back_is_ever_asked_about() {
    let mut looked = 0;
    for (form, webhooks) in registrations() {
        let mut never = |request: &Request<'_>| {
            for webhook in &webhooks {
                looked += 1;
                let Request { group, version, resource, namespace, operation } = request;
                assert!(
                    !reached(webhook, request),
                    "{form}: {operation} {resource}.{version}.{group} in {namespace:?} reaches {}",
                    webhook["name"]
                );
            }
        };
        for operation in OPERATIONS {
            for (group, versions, resources) in CLUSTER {
                for (version, resource) in versions.iter().flat_map(|v| resources.iter().map(move |r| (v, r))) {
                    never(&Request { group, version, resource, namespace: None, operation });
                }
            }
            for (group, versions, resources) in NAMESPACED {
                for (version, resource) in versions.iter().flat_map(|v| resources.iter().map(move |r| (v, r))) {
                    for namespace in NAMESPACES {
                        // The InternalReleaseImage's own Secrets, which are guarded; rotation is not (below).
                        if (*resource, namespace) != ("secrets", "openshift-machine-config-operator") {
                            never(&Request { group, version, resource, namespace: Some(namespace), operation });
                        }
                    }
                }
            }
        }
    }
    assert!(looked > 50_000, "{looked}");
}

/// Of what a rule names, no subresource; and what it names is a resource, a version, a group and never all of them.
#[test]
fn rules_name_what_they_match_and_reach_no_subresource() {
    for (form, webhooks) in registrations() {
        for webhook in &webhooks {
            assert_eq!(webhook["matchConditions"].as_array().map(Vec::len), Some(1), "{form}: {webhook:#}");
            for rule in webhook["rules"].as_array().unwrap() {
                let texts = ["apiGroups", "apiVersions", "operations", "resources"].map(|field| {
                    rule[field].as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect::<Vec<_>>()
                });
                assert!(texts.iter().flatten().all(|text| !text.contains(['*', '/'])), "{form}: {rule}");
                let [group, version, operation, resource] = texts.map(|list| list[0]);
                let namespace = (rule["scope"] == "Namespaced").then_some("openshift-machine-config-operator");
                let of = |resource: &str| reached(webhook, &Request { group, version, resource, namespace, operation });
                // That this test sees a match where there is one.
                assert!(of(resource), "{form}: {rule}");
                for sub in ["status", "scale", "finalizers", "approval", "anything"] {
                    assert!(!of(&format!("{resource}/{sub}")), "{form}: {resource}/{sub}");
                }
            }
        }
    }
}

/// A request as the API server would send it, if a condition let it.
fn review(resource: (&str, &str, &str, &str), by: &str, operation: &str, old: &Value, new: &Value) -> Vec<u8> {
    let (group, version, plural, kind) = resource;
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "1", "operation": operation, "userInfo": {"username": by, "groups": ["system:authenticated"]},
        "kind": {"group": group, "version": version, "kind": kind},
        "resource": {"group": group, "version": version, "resource": plural},
        "name": "x", "oldObject": old, "object": new, "dryRun": false, "options": null}})
    .to_string()
    .into_bytes()
}

const PEOPLE_AND_PLATFORM: [&str; 13] = [
    "admin",
    "system:admin",
    "system:serviceaccount:openshift-gitops:openshift-gitops-argocd-application-controller",
    "system:kube-controller-manager",
    "system:node:master-0",
    "system:serviceaccount:openshift-kube-storage-version-migrator:kube-storage-version-migrator-sa",
    CLUSTER_VERSION_OPERATOR,
    CLUSTER_VERSION_OPERATOR_BEFORE,
    MACHINE_CONFIG_CONTROLLER,
    MACHINE_CONFIG_OPERATOR,
    MACHINE_OS_BUILDER,
    GARBAGE_COLLECTOR,
    NAMESPACE_CONTROLLER,
];

type Step = (&'static str, (&'static str, &'static str, &'static str, &'static str), &'static str, Value, Value);

/// Writes after which a cluster can go on, as old and new object.
fn recovery() -> Vec<Step> {
    let digest = |digit: &str| format!("registry.example:5000/ocp/release@sha256:{}", digit.repeat(64));
    let version_of = ("config.openshift.io", "v1", "clusterversions", "ClusterVersion");
    let image_of = ("machineconfiguration.openshift.io", "v1", "internalreleaseimages", "InternalReleaseImage");
    let older_image_of =
        ("machineconfiguration.openshift.io", "v1alpha1", "internalreleaseimages", "InternalReleaseImage");
    let version = |target: Value| {
        json!({"apiVersion": "config.openshift.io/v1", "kind": "ClusterVersion", "metadata": {"name": "version"},
            "spec": {"clusterID": "0", "channel": "stable-4.18", "desiredUpdate": target}})
    };
    let target = json!({"image": digest("2"), "version": "4.18.20", "force": true, "acceptRisks": [{"name": "A"}]});
    let stored = version(target.clone());
    let with = |mut object: Value, pointer: &str, value: Value| {
        let (at, field) = pointer.rsplit_once('/').unwrap();
        object.pointer_mut(at).unwrap()[field] = value;
        object
    };
    let metadata = |object: &Value| {
        let labelled = with(object.clone(), "/metadata/labels", json!({"a": "b"}));
        with(labelled, "/metadata/finalizers", json!(["test.example/a"]))
    };
    let holds = |names: &[&str]| {
        let names: Vec<Value> =
            names.iter().map(|name| json!({"name": format!("ocp-release-bundle-{name}-x86_64")})).collect();
        json!({"apiVersion": "machineconfiguration.openshift.io/v1", "kind": "InternalReleaseImage",
            "metadata": {"name": "cluster", "finalizers": ["test.example/b"]}, "spec": {"releases": names}})
    };
    let two = holds(&["4.18.12", "4.18.20"]);
    let leaving = with(two.clone(), "/metadata/deletionTimestamp", json!("2026-12-01T00:00:00Z"));
    let gone = |object: &Value| with(object.clone(), "/metadata/deletionTimestamp", json!("2026-12-01T00:00:00Z"));
    let mut steps: Vec<Step> = vec![
        ("clear", version_of, "UPDATE", stored.clone(), version(Value::Null)),
        ("{}", version_of, "UPDATE", stored.clone(), version(json!({}))),
        ("empties", version_of, "UPDATE", stored.clone(), version(json!({"image": "", "version": "", "force": false}))),
        ("acceptRisks only", version_of, "UPDATE", stored.clone(), version(json!({"acceptRisks": [{"name": "B"}]}))),
        (
            "force taken back",
            version_of,
            "UPDATE",
            stored.clone(),
            with(stored.clone(), "/spec/desiredUpdate/force", json!(false)),
        ),
        ("the same target", version_of, "UPDATE", stored.clone(), stored.clone()),
        ("channel", version_of, "UPDATE", stored.clone(), with(stored.clone(), "/spec/channel", json!("stable-4.19"))),
        ("metadata", version_of, "UPDATE", stored.clone(), metadata(&stored)),
        ("deleted once more", version_of, "DELETE", gone(&stored), Value::Null),
        ("made anew, without a target", version_of, "CREATE", Value::Null, version(Value::Null)),
    ];
    for of in [image_of, older_image_of] {
        steps.extend([
            ("metadata", of, "UPDATE", two.clone(), metadata(&two)),
            ("finalizers", of, "UPDATE", two.clone(), with(two.clone(), "/metadata/finalizers", json!([]))),
            ("stored again", of, "UPDATE", two.clone(), two.clone()),
            ("in another order", of, "UPDATE", two.clone(), holds(&["4.18.20", "4.18.12"])),
            ("deleted once more", of, "DELETE", leaving.clone(), Value::Null),
            (
                "emptied on its way out",
                of,
                "UPDATE",
                leaving.clone(),
                with(leaving.clone(), "/spec/releases", json!([{"name": "ocp-release-bundle-4.18.20-x86_64"}])),
            ),
            (
                "freed on its way out",
                of,
                "UPDATE",
                leaving.clone(),
                with(leaving.clone(), "/metadata/finalizers", json!([])),
            ),
        ]);
    }
    steps
}

/// By nobody is one of these judged by any policy, so no fact can be missing for it.
#[test]
fn writes_that_repair_pass_by_every_hand_and_without_a_single_fact() {
    let (cluster, catalog, settings) = (Snapshot::nothing("a test"), Catalog::new([]), Settings::default());
    let judged = |body: &[u8]| {
        let facts = Facts::of(&cluster, &catalog, &settings, jiff::Timestamp::now());
        judge(body, facts).unwrap().verdict
    };
    for (what, resource, operation, old, new) in recovery() {
        for by in PEOPLE_AND_PLATFORM {
            let verdict = judged(&review(resource, by, operation, &old, &new));
            assert!(
                verdict.allowed() && verdict.audit.is_empty() && verdict.findings.is_empty(),
                "{what} of {}, by {by}: {:?}",
                resource.2,
                verdict.findings
            );
        }
    }
    // That a verdict without facts can be another one.
    let (_, resource, _, old, mut new) = recovery().swap_remove(0);
    new["spec"]["desiredUpdate"] = json!({"image": format!("registry.example:5000/a@sha256:{}", "3".repeat(64))});
    assert!(!judged(&review(resource, "admin", "UPDATE", &old, &new)).allowed());
}
