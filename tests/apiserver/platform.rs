//! Which identity's writes reach airgate, and which never leave the API server: identities by operations.

use airgate::platform::{
    CLUSTER_VERSION_OPERATOR, CLUSTER_VERSION_OPERATOR_BEFORE, GARBAGE_COLLECTOR, MACHINE_CONFIG_CONTROLLER,
    MACHINE_CONFIG_OPERATOR, MACHINE_OS_BUILDER, NAMESPACE_CONTROLLER,
};
use serde_json::{Value, json};

use crate::api::{Answer, Api, IMAGE, IMAGES};
use crate::conditions::Proof;
use crate::objects::{Release, internal_release_image};

const MIGRATOR: &str = "system:serviceaccount:openshift-kube-storage-version-migrator:kube-storage-version-migrator-sa";
const IDENTITIES: [&str; 11] = [
    "admin",
    "system:admin",
    "system:serviceaccount:openshift-gitops:argocd",
    MACHINE_CONFIG_CONTROLLER,
    MACHINE_CONFIG_OPERATOR,
    MACHINE_OS_BUILDER,
    CLUSTER_VERSION_OPERATOR,
    CLUSTER_VERSION_OPERATOR_BEFORE,
    NAMESPACE_CONTROLLER,
    GARBAGE_COLLECTOR,
    MIGRATOR,
];
const SECRETS: &str = "/api/v1/namespaces/openshift-machine-config-operator/secrets";
const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const CONFIGS: &str = "/apis/machineconfiguration.openshift.io/v1/machineconfigs";
const ELSEWHERE: &str = "/api/v1/namespaces/default/secrets";
const BY_TAG: &str = "registry.example:5000/ocp/rhcos:1";
const OF_SECRETS: &[&str] =
    &[MACHINE_CONFIG_CONTROLLER, MACHINE_CONFIG_OPERATOR, NAMESPACE_CONTROLLER, GARBAGE_COLLECTOR];
const OF_CRDS: &[&str] = &[CLUSTER_VERSION_OPERATOR, CLUSTER_VERSION_OPERATOR_BEFORE, GARBAGE_COLLECTOR];
const OF_CONFIGS: &[&str] = &[MACHINE_CONFIG_CONTROLLER, MACHINE_CONFIG_OPERATOR, MACHINE_OS_BUILDER];

fn secret(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": {"tls.crt": "eA==", "tls.key": "eA=="}})
}

fn machine_config(name: &str, image: &str) -> Value {
    json!({"apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig", "metadata": {"name": name},
        "spec": {"osImageURL": image}})
}

/// What is done, as a dry run.
enum Act {
    Delete(String),
    Merge(String, Value),
    Create(&'static str, Value),
    /// The stored object, as it is: what the storage version migrator does.
    Again(String),
}

impl Act {
    fn by(&self, api: &Api) -> Answer {
        match self {
            Self::Delete(path) => api.delete(&dry(path)),
            Self::Merge(path, patch) => api.merge(&dry(path), patch),
            Self::Create(collection, object) => api.create(&dry(collection), object),
            Self::Again(path) => api.replace(&dry(path), &api.get(path).expect("an object")),
        }
    }
}

fn dry(path: &str) -> String {
    format!("{path}?dryRun=All")
}

/// What is done, the webhook that it reaches, by whose hand it does not.
type Row = (&'static str, Act, Option<&'static str>, &'static [&'static str]);

fn rows(held: &Release, more: &Release) -> Vec<Row> {
    let secret_at = |name: &str| format!("{SECRETS}/{name}");
    let tls = || secret_at("internal-release-image-tls");
    let crd = |name: &str| format!("{CRDS}/{name}.machineconfiguration.openshift.io");
    let config = |name: &str| format!("{CONFIGS}/{name}");
    let labels = || json!({"metadata": {"labels": {"a": "b"}}});
    let data = |data: Value| json!({"data": data});
    let os = |image: &str| json!({"spec": {"osImageURL": image}});
    let releases = internal_release_image(&[held, more])["spec"].clone();
    let status = internal_release_image(&[more])["status"].clone();

    let (hook, but) = (Some("secret.airgate.io"), OF_SECRETS);
    let mut rows: Vec<Row> = vec![
        ("the certificate is deleted", Act::Delete(tls()), hook, but),
        ("the credentials are deleted", Act::Delete(secret_at("internal-release-image-registry-auth")), hook, but),
        ("the Secrets are deleted as a collection", Act::Delete(SECRETS.to_owned()), hook, but),
        ("a key is dropped", Act::Merge(tls(), data(json!({"tls.key": null}))), hook, but),
        ("a key is emptied", Act::Merge(tls(), data(json!({"tls.key": ""}))), hook, but),
        ("keys are rotated", Act::Merge(tls(), data(json!({"tls.crt": "eQ==", "tls.key": "eQ=="}))), None, &[]),
        ("a key is rotated as text", Act::Merge(tls(), json!({"stringData": {"tls.key": "new"}})), None, &[]),
        ("a Secret's labels", Act::Merge(tls(), labels()), None, &[]),
        ("a Secret stored again", Act::Again(tls()), None, &[]),
        ("another Secret is deleted", Act::Delete(secret_at("other")), None, &[]),
        (
            "one of that name elsewhere is deleted",
            Act::Delete(format!("{ELSEWHERE}/internal-release-image-tls")),
            None,
            &[],
        ),
        ("a Secret is created", Act::Create(SECRETS, secret("third")), None, &[]),
    ];
    let (hook, but) = (Some("customresourcedefinition.airgate.io"), OF_CRDS);
    rows.extend([
        ("the IRI's CRD is deleted", Act::Delete(crd("internalreleaseimages")), hook, but),
        ("the MCN's CRD is deleted", Act::Delete(crd("machineconfignodes")), hook, but),
        ("another CRD is deleted", Act::Delete(crd("machineconfigpools")), None, &[]),
        ("the IRI's CRD is updated", Act::Merge(crd("internalreleaseimages"), labels()), None, &[]),
        ("the IRI's CRD is stored again", Act::Again(crd("internalreleaseimages")), None, &[]),
    ]);
    let (hook, but) = (Some("machineconfig.airgate.io"), OF_CONFIGS);
    rows.extend([
        ("a MachineConfig with an OS image", Act::Create(CONFIGS, machine_config("99-new", BY_TAG)), hook, but),
        ("a MachineConfig without one", Act::Create(CONFIGS, machine_config("99-new", "")), None, &[]),
        ("a rendered MachineConfig", Act::Create(CONFIGS, machine_config("rendered-worker-2", BY_TAG)), None, &[]),
        ("another OS image", Act::Merge(config("99-site"), os("registry.example:5000/ocp/rhcos:2")), hook, but),
        (
            "another one of a rendered one",
            Act::Merge(config("rendered-worker-1"), os("registry.example:5000/ocp/rhcos:2")),
            None,
            &[],
        ),
        ("labels beside a tag", Act::Merge(config("99-site"), labels()), None, &[]),
        (
            "kernel arguments beside a tag",
            Act::Merge(config("99-site"), json!({"spec": {"kernelArguments": ["quiet"]}})),
            None,
            &[],
        ),
        ("the OS image is taken away", Act::Merge(config("99-site"), os("")), None, &[]),
        ("a MachineConfig stored again", Act::Again(config("99-site")), None, &[]),
        ("a MachineConfig is deleted", Act::Delete(config("99-site")), None, &[]),
    ]);
    let image = || IMAGE.to_owned();
    let finalizers = json!({"metadata": {"finalizers": ["test.example/stays"]}});
    rows.extend([
        (
            "a release is added",
            Act::Merge(image(), json!({"spec": releases})),
            Some("internalreleaseimage-additions.airgate.io"),
            &[][..],
        ),
        ("the IRI's finalizer", Act::Merge(image(), finalizers), None, &[]),
        ("the IRI's status", Act::Merge(format!("{IMAGE}/status"), json!({"status": status})), None, &[]),
        ("the IRI stored again", Act::Again(image()), None, &[]),
    ]);
    rows
}

#[test]
fn the_platforms_own_writes_never_leave_the_api_server() {
    let proof = Proof::start();
    for name in ["internal-release-image-tls", "internal-release-image-registry-auth", "other"] {
        proof.api.create(SECRETS, &secret(name)).success();
    }
    proof.api.create(ELSEWHERE, &secret("internal-release-image-tls")).success();
    for name in ["99-site", "rendered-worker-1"] {
        proof.api.create(CONFIGS, &machine_config(name, BY_TAG)).success();
    }
    let (held, more) = (Release::new("4.22.1", 'a'), Release::new("4.22.2", 'b'));
    proof.api.create(IMAGES, &internal_release_image(&[&held])).success();
    for identity in IDENTITIES {
        let api = Api::impersonating(&proof.testbed, identity);
        for (what, act, webhook, exempt) in rows(&held, &more) {
            proof.recorder.take();
            act.by(&api).success();
            let mut asked: Vec<String> = proof.recorder.take().into_iter().map(|(webhook, _)| webhook).collect();
            // A collection is reviewed object by object.
            asked.dedup();
            let expected: Vec<&str> = webhook.into_iter().filter(|_| !exempt.contains(&identity)).collect();
            assert_eq!(asked, expected, "{what}, by {identity}");
        }
    }
}
