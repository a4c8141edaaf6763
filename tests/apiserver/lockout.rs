//! A cluster whose airgate is gone can still cancel, clear and repair: who repairs it, by the writes with which they
//! do, while nobody answers. Of each write it is known whether the API server even tried to call.

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use airgate::platform::{
    CLUSTER_VERSION_OPERATOR, CLUSTER_VERSION_OPERATOR_BEFORE, GARBAGE_COLLECTOR, MACHINE_CONFIG_CONTROLLER,
    MACHINE_CONFIG_OPERATOR, MACHINE_OS_BUILDER, NAMESPACE_CONTROLLER,
};
use serde_json::{Value, json};

use crate::api::{Answer, Api, IMAGE, IMAGES, VERSION};
use crate::crds::CrdSet;
use crate::guard::{Guard, NODES, Site};
use crate::objects::{cluster_version, internal_release_image, machine_config_node, rendered_machine_config};
use crate::server::eventually;
use crate::testbed::Testbed;

const ADMIN: &str = "admin";
const MIGRATOR: &str = "system:serviceaccount:openshift-kube-storage-version-migrator:kube-storage-version-migrator-sa";
const GITOPS: &str = "system:serviceaccount:openshift-gitops:openshift-gitops-argocd-application-controller";
const NODE: &str = "system:node:master-0";
const CONTROLLERS: &str = "system:kube-controller-manager";
const ANYBODY: &[&str] = &[
    ADMIN,
    "system:admin",
    GITOPS,
    CLUSTER_VERSION_OPERATOR,
    CLUSTER_VERSION_OPERATOR_BEFORE,
    MACHINE_CONFIG_OPERATOR,
    MACHINE_CONFIG_CONTROLLER,
    MIGRATOR,
    GARBAGE_COLLECTOR,
    NAMESPACE_CONTROLLER,
];
const PEOPLE: &[&str] = &[ADMIN, "system:admin", GITOPS];
const CVO: &[&str] = &[CLUSTER_VERSION_OPERATOR, CLUSTER_VERSION_OPERATOR_BEFORE];
const MCO: &[&str] = &[MACHINE_CONFIG_OPERATOR, MACHINE_CONFIG_CONTROLLER, MACHINE_OS_BUILDER];
const CLEANERS: &[&str] = &[GARBAGE_COLLECTOR, NAMESPACE_CONTROLLER];
const CONFIGS: &str = "/apis/machineconfiguration.openshift.io/v1/machineconfigs";
const SECRETS: &str = "/api/v1/namespaces/openshift-machine-config-operator/secrets";
const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const MIRRORS: &str = "/apis/config.openshift.io/v1/imagedigestmirrorsets";
const REGISTRATIONS: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";

/// Always a dry run, which is admitted like any other write: each begins at the same cluster.
enum Write {
    Merge(String, Value),
    Create(String, Value),
    /// The stored object as it is, as the storage version migrator writes it.
    Again(String),
    Delete(String),
}

impl Write {
    fn by(&self, api: &Api) -> Answer {
        let dry = |path: &str| format!("{path}?dryRun=All");
        match self {
            Self::Merge(path, patch) => api.merge(&dry(path), patch),
            Self::Create(collection, object) => api.create(&dry(collection), object),
            Self::Again(path) => api.replace(&dry(path), &api.get(path).expect("an object")),
            Self::Delete(path) => api.delete(&dry(path)),
        }
    }
}

/// What the API server does about airgate, which is gone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Call {
    /// It does not even try.
    None,
    /// It tries, and lets the write pass: failurePolicy Ignore. The most that this costs is the entry's 5 s.
    Ignored,
}

type Row = (&'static str, Write, &'static [&'static str], Call);

/// Where airgate was: it takes every connection, ends it at once, and counts.
struct Dead {
    port: u16,
    calls: Arc<AtomicU64>,
}

impl Dead {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("its address").port();
        let calls = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&calls);
        thread::spawn(move || {
            for connection in listener.incoming() {
                // Counted before it ends, so before the API server goes on.
                counted.fetch_add(1, Ordering::SeqCst);
                drop(connection);
            }
        });
        Self { port, calls }
    }

    fn tried(&self) -> bool {
        self.calls.swap(0, Ordering::SeqCst) > 0
    }
}

fn at(collection: &str, name: &str) -> String {
    format!("{collection}/{name}")
}

fn target(image: &str) -> Value {
    json!({"spec": {"desiredUpdate": {"image": image}}})
}

fn secret(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": {"tls.crt": "eA==", "tls.key": "eA=="}})
}

/// The cluster's update and what it rests on.
fn of_the_platform(site: &Site) -> Vec<Row> {
    use Call::{Ignored, None};
    use Write::{Again, Create, Delete, Merge};
    let version = |spec: Value| Merge(VERSION.to_owned(), json!({"spec": spec}));
    let image = |patch: Value| Merge(IMAGE.to_owned(), patch);
    let metadata = || json!({"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}});
    let empties = json!({"version": "", "image": "", "architecture": "", "force": false});
    let more = internal_release_image(&[&site.current, &site.listed, &site.unlisted])["spec"].clone();
    let status = json!({"status": {"observedGeneration": 7}});
    let held = json!({"status": internal_release_image(&[&site.listed])["status"]});
    let tls = || at(SECRETS, "internal-release-image-tls");
    let crd = |name: &str| at(CRDS, &format!("{name}.machineconfiguration.openshift.io"));
    vec![
        ("oc adm upgrade --clear", version(json!({"desiredUpdate": null})), ANYBODY, None),
        ("desiredUpdate: {}", version(json!({"desiredUpdate": {"image": null, "force": null}})), ANYBODY, None),
        ("desiredUpdate of empty strings", version(json!({"desiredUpdate": empties})), ANYBODY, None),
        (
            "acceptRisks only",
            version(json!({"desiredUpdate": {"image": null, "force": null, "acceptRisks": [{"name": "RiskA"}]}})),
            ANYBODY,
            None,
        ),
        ("force: true taken back", version(json!({"desiredUpdate": {"force": false}})), ANYBODY, None),
        ("the same target again", version(json!({"desiredUpdate": {"image": site.listed.image}})), ANYBODY, None),
        ("channel", version(json!({"channel": "stable-4.19"})), ANYBODY, None),
        ("ClusterVersion's metadata", Merge(VERSION.to_owned(), metadata()), ANYBODY, None),
        (
            "ClusterVersion's finalizers",
            Merge(VERSION.to_owned(), json!({"metadata": {"finalizers": ["test.example/a"]}})),
            ANYBODY,
            None,
        ),
        ("ClusterVersion stored again", Again(VERSION.to_owned()), ANYBODY, None),
        ("ClusterVersion's status", Merge(at(VERSION, "status"), status), CVO, None),
        (
            "an override is set",
            Merge(VERSION.to_owned(), json!({"metadata": {"annotations": {"airgate.io/override": "{}"}}})),
            PEOPLE,
            Ignored,
        ),
        ("a release is added", image(json!({"spec": more})), PEOPLE, Ignored),
        ("InternalReleaseImage's metadata", image(metadata()), ANYBODY, None),
        ("a finalizer is set", image(json!({"metadata": {"finalizers": ["test.example/b"]}})), ANYBODY, None),
        ("finalizers are cleared", image(json!({"metadata": {"finalizers": null}})), ANYBODY, None),
        ("InternalReleaseImage stored again", Again(IMAGE.to_owned()), ANYBODY, None),
        ("InternalReleaseImage's status", Merge(at(IMAGE, "status"), held), MCO, None),
        (
            "MachineConfigNode's status",
            Merge(at(NODES, "master-0/status"), json!({"status": {"observedGeneration": 2}})),
            &[NODE, MACHINE_CONFIG_CONTROLLER],
            None,
        ),
        ("a MachineConfigNode is deleted", Delete(at(NODES, "master-0")), &[ADMIN, GARBAGE_COLLECTOR], None),
        (
            "a rendered MachineConfig",
            Create(CONFIGS.to_owned(), rendered_machine_config("rendered-x", &site.listed)),
            MCO,
            None,
        ),
        ("any MachineConfig", Create(CONFIGS.to_owned(), rendered_machine_config("99-x", &site.listed)), MCO, None),
        (
            "the IRI's certificate rotated",
            Merge(tls(), json!({"data": {"tls.crt": "eQ==", "tls.key": "eQ=="}})),
            ANYBODY,
            None,
        ),
        ("the IRI's certificate emptied", Merge(tls(), json!({"data": {"tls.key": null}})), &MCO[..2], None),
        ("the IRI's certificate deleted", Delete(tls()), &MCO[..2], None),
        ("all Secrets of the namespace deleted", Delete(SECRETS.to_owned()), CLEANERS, None),
        ("the IRI's certificate deleted", Delete(tls()), PEOPLE, Ignored),
        ("CRD updated", Merge(crd("internalreleaseimages"), metadata()), ANYBODY, None),
        ("CRD deleted", Delete(crd("internalreleaseimages")), CVO, None),
        ("CRD's own status", Merge(at(&crd("internalreleaseimages"), "status"), json!({})), CVO, None),
        ("mirror set's metadata", Merge(at(MIRRORS, "release"), metadata()), ANYBODY, None),
        ("a mirror set stored again", Again(at(MIRRORS, "release")), ANYBODY, None),
        ("a mirror set deleted", Delete(at(MIRRORS, "release")), PEOPLE, Ignored),
    ]
}

/// What brings airgate itself back, and what a node needs to live.
fn of_airgate_and_nodes() -> Vec<Row> {
    use Write::{Create, Delete, Merge};
    let named = |api: &str, kind: &str, mut object: Value| {
        object["apiVersion"] = api.into();
        object["kind"] = kind.into();
        object["metadata"] = json!({"name": "airgate-new"});
        object
    };
    let pod = || json!({"containers": [{"name": "airgate", "image": "registry.example:5000/airgate@sha256:00"}]});
    let template = || json!({"metadata": {"labels": {"app": "airgate"}}, "spec": pod()});
    let workload = || json!({"spec": {"selector": {"matchLabels": {"app": "airgate"}}, "template": template()}});
    let who: &[&str] = &[ADMIN, GITOPS, CONTROLLERS, CLUSTER_VERSION_OPERATOR];
    let mut rows: Vec<Row> = vec![];
    for namespace in ["openshift-airgate", "airgate"] {
        let core = |resource: &str| format!("/api/v1/namespaces/{namespace}/{resource}");
        let of = |group: &str, resource: &str| format!("/apis/{group}/namespaces/{namespace}/{resource}");
        let involved = json!({"involvedObject": {"kind": "Pod", "name": "airgate", "namespace": namespace}});
        let address = json!({"addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1"]}]});
        for (what, collection, object) in [
            ("its Deployment", of("apps/v1", "deployments"), named("apps/v1", "Deployment", workload())),
            ("its ReplicaSet", of("apps/v1", "replicasets"), named("apps/v1", "ReplicaSet", workload())),
            ("its pod", core("pods"), named("v1", "Pod", json!({"spec": pod()}))),
            ("its Secret", core("secrets"), named("v1", "Secret", json!({}))),
            ("its ConfigMap", core("configmaps"), named("v1", "ConfigMap", json!({}))),
            ("its Service", core("services"), named("v1", "Service", json!({"spec": {"ports": [{"port": 443}]}}))),
            (
                "its EndpointSlice",
                of("discovery.k8s.io/v1", "endpointslices"),
                named("discovery.k8s.io/v1", "EndpointSlice", address),
            ),
            ("its Lease", of("coordination.k8s.io/v1", "leases"), named("coordination.k8s.io/v1", "Lease", json!({}))),
            ("its Event", core("events"), named("v1", "Event", involved)),
            ("its ServiceAccount", core("serviceaccounts"), named("v1", "ServiceAccount", json!({}))),
            (
                "its Role",
                of("rbac.authorization.k8s.io/v1", "roles"),
                named("rbac.authorization.k8s.io/v1", "Role", json!({"rules": []})),
            ),
        ] {
            rows.push((what, Create(collection.clone(), object), who, Call::None));
            if !collection.ends_with("events") {
                rows.push((what, Delete(collection), CLEANERS, Call::None));
            }
        }
        rows.push((
            "its namespace's labels",
            Merge(format!("/api/v1/namespaces/{namespace}"), json!({"metadata": {"labels": {"a": "b"}}})),
            who,
            Call::None,
        ));
        rows.push(("its namespace", Delete(format!("/api/v1/namespaces/{namespace}")), PEOPLE, Call::None));
    }
    let request = json!({"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": "new"},
        "spec": {"request": "", "signerName": "example.com/s", "usages": ["digital signature"]}});
    let request = {
        use base64::Engine as _;
        let key = rcgen::KeyPair::generate().expect("a key");
        let pem = rcgen::CertificateParams::new(vec![]).expect("a request").serialize_request(&key).expect("a request");
        let mut request = request;
        let pem = pem.pem().expect("PEM");
        request["spec"]["request"] = base64::engine::general_purpose::STANDARD.encode(pem).into();
        request
    };
    rows.extend([
        (
            "its registration changed",
            Merge(at(REGISTRATIONS, "airgate"), json!({"metadata": {"labels": {"a": "b"}}})),
            PEOPLE,
            Call::None,
        ),
        ("its registration taken away", Delete(at(REGISTRATIONS, "airgate")), PEOPLE, Call::None),
        ("its rights", Merge(at(ROLES, "airgate"), json!({"metadata": {"labels": {"a": "b"}}})), PEOPLE, Call::None),
        ("its rights taken away", Delete(at(ROLES, "airgate")), PEOPLE, Call::None),
        (
            "a Node",
            Merge("/api/v1/nodes/master-0".to_owned(), json!({"metadata": {"labels": {"a": "b"}}})),
            &[NODE, CONTROLLERS, ADMIN],
            Call::None,
        ),
        (
            "a Node's status",
            Merge("/api/v1/nodes/master-0/status".to_owned(), json!({"status": {"phase": "Running"}})),
            &[NODE],
            Call::None,
        ),
        ("a Node leaves", Delete("/api/v1/nodes/master-0".to_owned()), &[CONTROLLERS, ADMIN], Call::None),
        (
            "a node's certificate",
            Create("/apis/certificates.k8s.io/v1/certificatesigningrequests".to_owned(), request),
            &[NODE],
            Call::None,
        ),
    ]);
    rows
}

/// While it is on its way out.
fn of_a_terminating_image(site: &Site) -> Vec<Row> {
    use Write::{Delete, Merge};
    let image = |patch: Value| Merge(IMAGE.to_owned(), patch);
    let fewer = internal_release_image(&[&site.listed])["spec"].clone();
    vec![
        ("deleted once more", Delete(IMAGE.to_owned()), ANYBODY, Call::None),
        ("deleted as a collection", Delete(IMAGES.to_owned()), CLEANERS, Call::None),
        ("its finalizer cleared", image(json!({"metadata": {"finalizers": null}})), ANYBODY, Call::None),
        ("its releases dropped", image(json!({"spec": fewer})), ANYBODY, Call::None),
    ]
}

/// Each row by each of its identities.
fn check(guard: &Guard, dead: &Dead, rows: Vec<Row>) {
    for (what, write, who, call) in rows {
        for identity in who {
            let api = Api::impersonating(&guard.testbed, identity);
            // That is there for `Again`; a GET is reviewed by nobody.
            dead.tried();
            let answer = write.by(&api);
            let tried = if dead.tried() { Call::Ignored } else { Call::None };
            assert!((200..300).contains(&answer.code), "{what}, by {identity}: {answer:?}");
            assert_eq!(tried, call, "{what}, by {identity}");
        }
    }
}

/// Has the API server call where nobody answers, and waits until it does.
fn register(guard: &Guard, dead: &Dead) {
    let url = format!("https://127.0.0.1:{}", dead.port);
    let dir = guard.testbed.dir().join("dead-tls");
    airgate::tls::self_signed::ensure(&dir, &[]).expect("a CA");
    let ca = dir.join("ca.crt");
    let printed = guard.airgate(&["manifests", "--url", &url, "--ca-file", ca.to_str().expect("a path in UTF-8")]);
    guard.testbed.command(["apply", "-f", "-"]).stdin(printed).run().success();
    let unlisted = target(&Site::new().unlisted.image);
    eventually("a guarded step fails", || (guard.dry_run(&unlisted).code == 500).then_some(()));
    assert!(dead.tried());
}

#[test]
fn whoever_repairs_a_cluster_is_not_kept_from_it_by_an_airgate_that_is_gone() {
    let testbed = Testbed::start();
    testbed.install_crds(&CrdSet::preferred());
    let (guard, site, dead) = (Guard::install(testbed), Site::new(), Dead::start());
    // Half-way to the next release, by force.
    let mut version = cluster_version(&[site.listed.history("Partial"), site.current.history("Completed")]);
    version["spec"]["desiredUpdate"] = json!({"image": site.listed.image, "force": true});
    guard.set_version(&version);
    guard.set(IMAGES, "cluster", &internal_release_image(&[&site.current, &site.listed]));
    guard.set(NODES, "master-0", &machine_config_node("master-0", "master", &[&site.current]));
    guard.set(crate::guard::CORE_NODES, "master-0", &crate::objects::control_plane_node("master-0", "127.0.0.1"));
    guard.api.create(SECRETS, &secret("internal-release-image-tls")).success();
    guard.testbed.kubectl(["create", "namespace", "airgate"]).success();
    let mirrors = json!({"apiVersion": "config.openshift.io/v1", "kind": "ImageDigestMirrorSet", "metadata": {"name": "release"},
        "spec": {"imageDigestMirrors": [{"source": "quay.example/a", "mirrors": ["registry.example:5000/a"]}]}});
    guard.set(MIRRORS, "release", &mirrors);
    register(&guard, &dead);
    check(&guard, &dead, of_the_platform(&site));
    check(&guard, &dead, of_airgate_and_nodes());

    // What is guarded is not done meanwhile, by whom it may be.
    let drops = json!({"spec": internal_release_image(&[&site.listed])["spec"]});
    for (write, who) in [
        (Write::Merge(VERSION.to_owned(), target(&site.unlisted.image)), PEOPLE),
        (Write::Delete(VERSION.to_owned()), PEOPLE),
        (Write::Merge(IMAGE.to_owned(), drops), PEOPLE),
        (Write::Delete(IMAGE.to_owned()), PEOPLE),
    ] {
        for identity in who {
            let answer = write.by(&Api::impersonating(&guard.testbed, identity));
            assert_eq!(answer.code, 500, "by {identity}: {answer:?}");
            assert!(dead.tried());
        }
    }

    // The way out of the runbook, as the administrator takes it; and what it frees.
    guard.testbed.kubectl(["delete", "validatingwebhookconfiguration", "airgate"]).success();
    eventually("nobody is asked any more", || (guard.dry_run(&target(&site.unlisted.image)).code == 200).then_some(()));
    guard.api.merge(IMAGE, &json!({"metadata": {"finalizers": ["test.example/stays"]}})).success();
    guard.api.delete(IMAGE).success();
    register(&guard, &dead);
    check(&guard, &dead, of_a_terminating_image(&site));
    guard.api.merge(IMAGE, &json!({"metadata": {"finalizers": null}})).success();
    assert_eq!(guard.api.get(IMAGE), None, "and it is gone");
}
