//! The site that both benchmarks judge for, and the reviews they send: made from numbers, so that each run
//! measures the same bytes. Field names, their order and what fills an object up are those of a real API server.

use serde_json::{Value, json};

/// A size of the ClusterVersion, by what makes real ones grow.
#[derive(Clone, Copy)]
pub struct Size {
    pub name: &'static str,
    history: usize,
    available: usize,
    conditional: usize,
}

/// A cluster just installed; one after years of updates; the most that a watched update graph brings along.
pub const SIZES: [Size; 3] = [
    Size { name: "5k", history: 1, available: 0, conditional: 0 },
    Size { name: "51k", history: 60, available: 20, conditional: 2 },
    Size { name: "850k", history: 100, available: 150, conditional: 296 },
];

/// What the request does.
#[derive(Clone, Copy)]
pub struct Change {
    pub name: &'static str,
    from: &'static str,
    to: &'static str,
}

/// The target stays as it is (a GitOps tool applies again); it moves to a release that lists the current version; it
/// moves to one that does not, and the way there leads over others on site.
pub const CHANGES: [Change; 3] = [
    Change { name: "unchanged", from: CURRENT, to: CURRENT },
    Change { name: "allowed", from: CURRENT, to: "4.19.9" },
    Change { name: "denied", from: CURRENT, to: "4.21.14" },
];

const CURRENT: &str = "4.18.12";
/// Releases of each minor version on site: 50 together.
const MINORS: [(u64, u64); 4] = [(18, 12), (19, 12), (20, 12), (21, 14)];

/// UPDATE of the ClusterVersion, as the API server sends it.
pub fn update(size: Size, change: Change) -> String {
    let old = cluster_version(size, change.from);
    let new = cluster_version(size, change.to);
    let user = r#"{"username":"system:admin","groups":["system:masters","system:authenticated"]}"#;
    envelope(CLUSTER_VERSION, "UPDATE", "version", user, &new.to_string(), &old.to_string())
}

/// DELETE of the InternalReleaseImage that holds the running release.
pub fn delete() -> String {
    let user = r#"{"username":"kube:admin","uid":"5b0c6a56-4f0a-4f0e-9d2c-0e6f6d8d0b11","groups":["system:cluster-admins","system:authenticated"],"extra":{"scopes.authorization.openshift.io":["user:full"]}}"#;
    envelope(RELEASE_IMAGE, "DELETE", "cluster", user, "null", &internal_release_image().to_string())
}

/// The cluster as documents, in the form of `oc get -o yaml`.
pub fn cluster() -> Vec<Value> {
    let group = "machineconfiguration.openshift.io/v1";
    let list = |items: Vec<Value>| json!({"apiVersion": "v1", "kind": "List", "items": items});
    let pools = ["master", "worker"];
    let rendered = |pool: &str| format!("rendered-{pool}-7c1d");
    let pool = |pool: &&str| {
        let configuration = json!({"configuration": {"name": rendered(pool)}});
        json!({"apiVersion": group, "kind": "MachineConfigPool", "metadata": {"name": pool}, "spec": configuration, "status": configuration})
    };
    let config = |pool: &&str| {
        let annotations = json!({"machineconfiguration.openshift.io/release-image-version": CURRENT});
        json!({"apiVersion": group, "kind": "MachineConfig", "metadata": {"name": rendered(pool), "annotations": annotations}})
    };
    let node = |number: usize| {
        let status = json!({"internalReleaseImage": {"releases": bundles("localhost:22625")}});
        json!({"apiVersion": group, "kind": "MachineConfigNode", "metadata": {"name": format!("master-{number}")}, "status": status})
    };
    vec![
        cluster_version(SIZES[1], CURRENT),
        internal_release_image(),
        list(pools.iter().map(pool).collect()),
        list(pools.iter().map(config).collect()),
        list((0..3).map(node).collect()),
        json!({"apiVersion": "config.openshift.io/v1", "kind": "Infrastructure", "metadata": {"name": "cluster"},
            "status": {"controlPlaneTopology": "HighlyAvailable", "infrastructureTopology": "HighlyAvailable"}}),
    ]
}

/// The catalog of 50 releases. Each can be reached from every earlier one of its minor version and from the later
/// half of the one before it.
pub fn catalog() -> Value {
    let mut releases = vec![];
    for (minor, count) in MINORS {
        for patch in 1..=count {
            let same = (0..patch).map(|earlier| format!("4.{minor}.{earlier}"));
            let before = (6..patch + 6).map(|late| format!("4.{}.{late}", minor - 1));
            let previous: Vec<String> = same.chain(before).collect();
            let version = format!("4.{minor}.{patch}");
            releases.push(
                json!({"digest": digest(&version), "version": version, "previous": previous, "architecture": "amd64"}),
            );
        }
    }
    json!({"apiVersion": "airgate.io/v1alpha1", "kind": "ReleaseCatalog", "releases": releases})
}

struct Kind {
    group: &'static str,
    kind: &'static str,
    resource: &'static str,
}

const CLUSTER_VERSION: Kind =
    Kind { group: "config.openshift.io", kind: "ClusterVersion", resource: "clusterversions" };
const RELEASE_IMAGE: Kind = Kind {
    group: "machineconfiguration.openshift.io",
    kind: "InternalReleaseImage",
    resource: "internalreleaseimages",
};

/// In the API server's own order of fields; within objects its order is the alphabet's, as here.
fn envelope(kind: Kind, operation: &str, name: &str, user: &str, object: &str, old: &str) -> String {
    let Kind { group, kind, resource } = kind;
    let kind = format!(r#"{{"group":"{group}","version":"v1","kind":"{kind}"}}"#);
    let resource = format!(r#"{{"group":"{group}","version":"v1","resource":"{resource}"}}"#);
    let options = r#"{"kind":"PatchOptions","apiVersion":"meta.k8s.io/v1","fieldManager":"oc"}"#;
    format!(
        r#"{{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{{"uid":"3f1f0e9a-6c2e-4d53-8a5e-0c9f4f1f7a10","kind":{kind},"resource":{resource},"requestKind":{kind},"requestResource":{resource},"name":"{name}","operation":"{operation}","userInfo":{user},"object":{object},"oldObject":{old},"dryRun":false,"options":{options}}}}}"#
    )
}

fn cluster_version(size: Size, target: &str) -> Value {
    let mut history: Vec<Value> = (0..size.history).map(history_entry).collect();
    history[0]["version"] = json!(CURRENT);
    history[0]["image"] = json!(image(CURRENT));
    let capabilities = if size.available == 0 { &CAPABILITIES[..3] } else { &CAPABILITIES };
    let status = json!({
        "availableUpdates": some((0..size.available).map(|number| release(&format!("4.18.{}", 13 + number)))),
        "capabilities": {"enabledCapabilities": capabilities, "knownCapabilities": capabilities},
        "conditionalUpdates": some((0..size.conditional).map(conditional_update)),
        "conditions": conditions(),
        "desired": release(CURRENT),
        "history": history,
        "observedGeneration": 61,
        "versionHash": "o1Zr4jXqk3A=",
    });
    json!({
        "apiVersion": "config.openshift.io/v1",
        "kind": "ClusterVersion",
        "metadata": {
            "creationTimestamp": "2021-03-02T06:40:00Z",
            "generation": 61,
            "managedFields": managed_fields(),
            "name": "version",
            "resourceVersion": "184467440",
            "uid": "5e7b0b5c-2f0e-4b8e-9a51-6a4d3f0c8e11",
        },
        "spec": {
            "channel": "stable-4.18",
            "clusterID": "0d5b9f0e-6f6a-4b0e-9a51-6a4d3f0c8e11",
            "desiredUpdate": {"architecture": "", "force": false, "image": image(target), "version": ""},
        },
        "status": status,
    })
}

const CAPABILITIES: [&str; 12] = [
    "Build",
    "CSISnapshot",
    "CloudCredential",
    "Console",
    "DeploymentConfig",
    "ImageRegistry",
    "Ingress",
    "Insights",
    "MachineAPI",
    "NodeTuning",
    "OperatorLifecycleManager",
    "Storage",
];

/// Null where there are none, as the CVO writes it.
fn some(items: impl Iterator<Item = Value>) -> Value {
    let items: Vec<Value> = items.collect();
    if items.is_empty() { Value::Null } else { items.into() }
}

fn history_entry(age: usize) -> Value {
    let (minor, patch) = (18_usize.saturating_sub(age / 12), 12 - age % 12);
    let version = format!("4.{minor}.{patch}");
    json!({
        "completionTime": format!("20{:02}-{:02}-14T10:02:11Z", 26 - age / 12, 12 - age % 12),
        "image": image(&version),
        "startedTime": format!("20{:02}-{:02}-14T08:55:30Z", 26 - age / 12, 12 - age % 12),
        "state": if age % 9 == 4 { "Partial" } else { "Completed" },
        "verified": true,
        "version": version,
    })
}

fn release(version: &str) -> Value {
    json!({
        "channels": ["candidate-4.18", "eus-4.18", "fast-4.18", "stable-4.18"],
        "image": image(version),
        "url": "https://access.redhat.com/errata/RHSA-2026:10815",
        "version": version,
    })
}

fn conditional_update(number: usize) -> Value {
    let promql = "topk(1,\n  group by (type) (cluster_infrastructure_provider{_id=\"\",type=~\"None|VSphere\"})\n  or\n  0 * group by (type) (cluster_infrastructure_provider{_id=\"\"})\n)";
    let message = "Nodes on some platforms can lose their network after the update when a bond is configured with \"fail_over_mac=1\".";
    let name = format!("BondedNetworkLoss{number}");
    let url = "https://issues.redhat.com/browse/SDN-3996";
    let risk = json!({"matchingRules": [{"promql": {"promql": promql}, "type": "PromQL"}], "message": message, "name": name, "url": url});
    json!({
        "conditions": [{
            "lastTransitionTime": "2026-11-02T16:20:00Z",
            "message": format!("Could not evaluate exposure to update risk {name} (Get \"https://thanos-querier\": no route to host)\n  {name} description: {message}\n  {name} URL: {url}"),
            "reason": "EvaluationFailed",
            "status": "Unknown",
            "type": "Recommended",
        }],
        "release": release(&format!("4.19.{}", 20 + number)),
        "risks": [risk],
    })
}

fn conditions() -> Value {
    let rows = [
        ("RetrievedUpdates", "True", "", ""),
        ("Upgradeable", "True", "AsExpected", ""),
        ("ImplicitlyEnabledCapabilities", "False", "AsExpected", "Capabilities match configured spec"),
        ("ReleaseAccepted", "True", "PayloadLoaded", "Payload loaded version=\"4.18.12\" architecture=\"amd64\""),
        ("Available", "True", "", "Done applying 4.18.12"),
        ("Failing", "False", "", ""),
        ("Progressing", "False", "", "Cluster version is 4.18.12"),
    ];
    let condition = |(kind, status, reason, message): &(&str, &str, &str, &str)| json!({"lastTransitionTime": "2026-09-14T10:02:11Z", "message": message, "reason": reason, "status": status, "type": kind});
    rows.iter().map(condition).collect()
}

fn managed_fields() -> Value {
    let spec = json!({"f:spec": {".": {}, "f:channel": {}, "f:clusterID": {}, "f:desiredUpdate": {".": {}, "f:architecture": {}, "f:force": {}, "f:image": {}, "f:version": {}}}});
    let status = json!({"f:status": {".": {}, "f:availableUpdates": {}, "f:capabilities": {".": {}, "f:enabledCapabilities": {}, "f:knownCapabilities": {}}, "f:conditionalUpdates": {}, "f:conditions": {}, "f:desired": {".": {}, "f:channels": {}, "f:image": {}, "f:url": {}, "f:version": {}}, "f:history": {}, "f:observedGeneration": {}, "f:versionHash": {}}});
    json!([
        {"apiVersion": "config.openshift.io/v1", "fieldsType": "FieldsV1", "fieldsV1": spec, "manager": "oc", "operation": "Update", "time": "2026-09-14T08:54:58Z"},
        {"apiVersion": "config.openshift.io/v1", "fieldsType": "FieldsV1", "fieldsV1": status, "manager": "cluster-version-operator", "operation": "Update", "subresource": "status", "time": "2026-09-14T10:02:11Z"},
    ])
}

fn internal_release_image() -> Value {
    let names: Vec<Value> = bundles("").into_iter().map(|bundle| json!({"name": bundle["name"]})).collect();
    json!({
        "apiVersion": "machineconfiguration.openshift.io/v1",
        "kind": "InternalReleaseImage",
        "metadata": {
            "finalizers": ["internalreleaseimage.machineconfiguration.openshift.io"],
            "name": "cluster",
            "resourceVersion": "184467441",
            "uid": "0b1e7f0a-94c1-4d5a-8a0f-3c1b5f2e9d77",
        },
        "spec": {"releases": names},
        "status": {"releases": bundles("api-int.ocp.example:22625")},
    })
}

fn bundles(registry: &str) -> Vec<Value> {
    let bundle = |version: &&str| {
        let image = format!("{registry}/openshift/release-images@{}", digest(version));
        let condition = json!({"lastTransitionTime": "2026-09-14T10:05:00Z", "message": "The specified release image is available", "reason": "ReleaseImageAvailable", "status": "True", "type": "Available"});
        json!({"conditions": [condition], "image": image, "name": format!("ocp-release-bundle-{version}-x86_64")})
    };
    [CURRENT, "4.19.9"].iter().map(bundle).collect()
}

fn image(version: &str) -> String {
    format!("registry.example:5000/ocp/release@{}", digest(version))
}

/// Any digest will do, as long as each version has its own.
fn digest(version: &str) -> String {
    let mut state = version
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    let words = (0..4).map(|_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        format!("{:016x}", state ^ (state >> 29))
    });
    format!("sha256:{}", words.collect::<String>())
}
