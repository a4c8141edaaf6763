//! What `airgate manifests` writes, given to a real API server: it can be applied, again and again, by every way
//! that people use; its pods are let into the namespace; the container starts with the arguments it is given.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use airgate::files::document::from_yaml;
use serde_json::{Value, json};

use crate::crds::CrdSet;
use crate::guard::http_get;
use crate::kubectl::Output;
use crate::server::{eventually, free_port};
use crate::testbed::Testbed;

const AIRGATE: &str = env!("CARGO_BIN_EXE_airgate");
/// The folder of `deploy/`, and what the binary prints for the same.
const FORMS: [(&str, &[&str]); 9] = [
    ("openshift/base", &["--flavor", "openshift"]),
    ("openshift/overlays/audit", &["--flavor", "openshift", "--mode", "audit"]),
    ("openshift/overlays/single-node", &["--flavor", "openshift", "--single-node"]),
    ("kubernetes/base", &["--flavor", "kubernetes"]),
    ("kubernetes/overlays/audit", &["--flavor", "kubernetes", "--mode", "audit"]),
    ("kubernetes/overlays/single-node", &["--flavor", "kubernetes", "--single-node"]),
    ("kubernetes/overlays/cert-manager", &["--flavor", "kubernetes", "--certificates", "cert-manager"]),
    ("kubernetes/overlays/monitoring", &["--flavor", "kubernetes", "--monitoring"]),
    ("payload", &["--flavor", "payload"]),
];
/// OpenShift's own, in which airgate has a role or an object.
const NAMESPACES: [&str; 6] = [
    "openshift-config",
    "openshift-config-managed",
    "openshift-machine-config-operator",
    "openshift-marketplace",
    "openshift-monitoring",
    "openshift-operators",
];

/// An API server with everything that the manifests name, but without airgate.
static CLUSTER: LazyLock<Mutex<Testbed>> = LazyLock::new(|| {
    let testbed = Testbed::start();
    testbed.install_crds(&CrdSet::preferred());
    install_crds_of_others(&testbed);
    for namespace in NAMESPACES {
        testbed.kubectl(["create", "namespace", namespace]).success();
    }
    Mutex::new(testbed)
});

fn cluster() -> MutexGuard<'static, Testbed> {
    CLUSTER.lock().unwrap_or_else(PoisonError::into_inner)
}

/// cert-manager's, the Prometheus operator's and OLM's own.
pub fn install_crds_of_others(testbed: &Testbed) {
    for file in fs::read_dir(crds_of_others()).expect("CRDs") {
        let path = file.expect("a file").path().display().to_string();
        // Over our own, which hold what other tests need.
        testbed.kubectl(["apply", "--server-side", "--force-conflicts", "-f", &path]).success();
    }
    for kind in [
        "certificates.cert-manager.io",
        "issuers.cert-manager.io",
        "servicemonitors.monitoring.coreos.com",
        "clusterserviceversions.operators.coreos.com",
        "installplans.operators.coreos.com",
        "operatorgroups.operators.coreos.com",
        "subscriptions.operators.coreos.com",
    ] {
        eventually(kind, || (testbed.kubectl(["get", kind, "-A"]).code == 0).then_some(()));
    }
}

fn crds_of_others() -> PathBuf {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/testbed/crds/fetch");
    let output = Command::new(script).stderr(Stdio::inherit()).output().expect("run tests/testbed/crds/fetch");
    assert!(output.status.success(), "tests/testbed/crds/fetch failed: what is missing stands above");
    PathBuf::from(String::from_utf8(output.stdout).expect("a path in UTF-8").trim_end())
}

fn directory(form: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy").join(form).display().to_string()
}

/// As a person applies a folder of `deploy/`.
fn apply(testbed: &Testbed, form: &str, more: &[&str]) -> Output {
    let how = if form == "payload" { "-f" } else { "-k" };
    testbed.command(["apply", how, &directory(form)]).args(more.iter().copied()).run()
}

fn printed(args: &[&str]) -> Vec<Value> {
    let output = Command::new(AIRGATE).arg("manifests").args(args).output().expect("run airgate");
    assert!(output.status.success(), "airgate manifests {args:?}: {output:?}");
    from_yaml(&String::from_utf8(output.stdout).expect("UTF-8")).expect("YAML")
}

fn name_of(object: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let metadata = &object["metadata"];
    format!("{} {} {}", text(&object["kind"]), text(&metadata["namespace"]), text(&metadata["name"]))
}

fn by_name(objects: Vec<Value>) -> BTreeMap<String, Value> {
    objects.into_iter().map(|object| (name_of(&object), object)).collect()
}

/// The objects as they are stored: what changed since shows in their resourceVersion.
fn versions(testbed: &Testbed, objects: &[Value]) -> BTreeMap<String, String> {
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
    let stored = testbed.command(["get", "-o", "json", "-f", "-"]).stdin(list.to_string()).run().success();
    let stored: Value = serde_json::from_str(&stored).expect("JSON from kubectl");
    let items = stored["items"].as_array().expect("a list");
    items.iter().map(|item| (name_of(item), item["metadata"]["resourceVersion"].to_string())).collect()
}

/// Takes everything away but namespaces, which nobody here would finish.
fn remove(testbed: &Testbed, objects: &[Value]) {
    let items: Vec<_> = objects.iter().filter(|object| object["kind"] != "Namespace").collect();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
    testbed
        .command(["delete", "--ignore-not-found", "--wait=false", "-f", "-"])
        .stdin(list.to_string())
        .run()
        .success();
}

#[test]
fn every_form_is_applied_and_applied_again_without_a_change() {
    let testbed = cluster();
    for (form, args) in FORMS {
        let objects = printed(args);
        for way in [&[][..], &["--server-side"]] {
            let first = apply(&testbed, form, way);
            assert!(!first.stderr.to_lowercase().contains("warning"), "{form}: {}", first.stderr);
            let lines = first.success().lines().count();
            assert_eq!(lines, objects.len(), "{form} {way:?}");
            let before = versions(&testbed, &objects);
            assert_eq!(before.len(), objects.len(), "{form} {way:?}");
            let second = apply(&testbed, form, way).success();
            assert_eq!(versions(&testbed, &objects), before, "{form} {way:?}: {second}");
            if way.is_empty() {
                // kubectl sends a budget's selector each time; that nothing became of it was seen above.
                let told = second.lines().filter(|line| !line.starts_with("poddisruptionbudget."));
                assert!(told.into_iter().all(|line| line.ends_with(" unchanged")), "{form}: {second}");
                // Who goes over to the other way meets no conflict with what the API server filled in.
                apply(&testbed, form, &["--server-side"]).success();
            }
            remove(&testbed, &objects);
        }
        // What the binary prints can be piped as it is.
        let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
        testbed.command(["apply", "-f", "-"]).stdin(list.to_string()).run().success();
        remove(&testbed, &objects);
    }
}

#[test]
fn an_overlay_is_what_the_binary_prints_for_its_options() {
    let testbed = cluster();
    for (form, args) in FORMS.into_iter().filter(|(form, _)| *form != "payload") {
        let built = from_yaml(&testbed.kubectl(["kustomize", &directory(form)]).success()).expect("YAML");
        let order = |objects: &[Value]| {
            let kinds: Vec<_> = objects.iter().map(|object| object["kind"].as_str().unwrap().to_owned()).collect();
            (kinds[0].clone(), kinds[kinds.len() - 1].clone())
        };
        let ends = ("Namespace".to_owned(), "ValidatingWebhookConfiguration".to_owned());
        let expected = printed(args);
        assert_eq!((order(&built), order(&expected)), (ends.clone(), ends), "{form}");
        let (built, expected) = (by_name(built), by_name(expected));
        assert_eq!(built.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>(), "{form}");
        for (name, object) in &expected {
            assert_eq!(built[name], *object, "{form}: {name}");
        }
    }
}

/// A release payload is applied in the order of file names, and everything in it says which clusters it is for.
#[test]
fn a_payload_is_in_order_and_its_image_can_be_replaced() {
    let mut files: Vec<PathBuf> =
        fs::read_dir(directory("payload")).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let (references, manifests) = files.split_last().unwrap();
    assert_eq!(references.file_name().unwrap(), "image-references");
    let read = |path: &PathBuf| from_yaml(&fs::read_to_string(path).unwrap()).unwrap();
    let objects: Vec<Value> = manifests.iter().flat_map(read).collect();
    assert_eq!(objects, printed(&["--flavor", "payload"]));
    for object in &objects {
        for profile in ["self-managed-high-availability", "single-node-developer"] {
            let included = &object["metadata"]["annotations"][format!("include.release.openshift.io/{profile}")];
            assert_eq!(included, "true", "{}", name_of(object));
        }
    }
    let tag = &read(references)[0]["spec"]["tags"][0];
    let deployment = objects.iter().find(|object| object["kind"] == "Deployment").unwrap();
    let image = &deployment["spec"]["template"]["spec"]["containers"][0]["image"];
    assert_eq!(
        (&tag["name"], &tag["from"]["kind"], &tag["from"]["name"]),
        (&json!("airgate"), &json!("DockerImage"), image)
    );
}

fn pod(objects: &[Value], namespace: &str) -> Value {
    let deployment = objects.iter().find(|object| object["kind"] == "Deployment").expect("a Deployment");
    let mut pod = deployment["spec"]["template"].clone();
    pod["apiVersion"] = json!("v1");
    pod["kind"] = json!("Pod");
    pod["metadata"]["name"] = json!("airgate-x");
    pod["metadata"]["namespace"] = json!(namespace);
    pod
}

#[test]
fn the_namespace_lets_its_pods_in_and_no_looser_ones() {
    let testbed = cluster();
    for (form, args) in FORMS {
        let objects = printed(args);
        let namespace = objects.iter().find(|object| object["kind"] == "Namespace").unwrap();
        testbed.command(["apply", "-f", "-"]).stdin(namespace.to_string()).run().success();
        let name = namespace["metadata"]["name"].as_str().unwrap();
        let create =
            |pod: &Value| testbed.command(["create", "--dry-run=server", "-f", "-"]).stdin(pod.to_string()).run();
        let ours = create(&pod(&objects, name));
        assert_eq!((ours.code, &*ours.stderr), (0, ""), "{form}: {ours:?}");
        for (field, value) in [
            ("/spec/securityContext/runAsNonRoot", json!(false)),
            ("/spec/securityContext/seccompProfile", Value::Null),
            ("/spec/containers/0/securityContext/allowPrivilegeEscalation", json!(true)),
            ("/spec/containers/0/securityContext/capabilities", Value::Null),
        ] {
            let mut looser = pod(&objects, name);
            *looser.pointer_mut(field).unwrap_or_else(|| panic!("{form}: no {field}")) = value;
            let refused = create(&looser);
            assert!(refused.code != 0 && refused.stderr.contains("PodSecurity"), "{form} {field}: {refused:?}");
        }
    }
}

/// Where the pod's volumes are mounted, with what would be in them here.
fn mounted(testbed: &Testbed, objects: &[Value], args: &mut [String], root: &Path) {
    let config = objects.iter().find(|object| object["kind"] == "ConfigMap" && object["metadata"]["name"] == "airgate");
    let text = config.expect("a ConfigMap")["data"]["config.yaml"].as_str().expect("a config file");
    for directory in ["config", "releases", "tls", "cache"] {
        fs::create_dir_all(root.join(directory)).expect("a directory");
    }
    fs::write(root.join("config/config.yaml"), text).expect("write the config file");
    let made = Command::new(AIRGATE).args(["certs", "--dir"]).arg(root.join("tls")).output().expect("run airgate");
    assert!(made.status.success(), "{made:?}");
    for arg in args {
        *arg = arg.replace("/etc/airgate/", &format!("{}/", root.display()));
        *arg = arg.replace("/var/cache/airgate", &root.join("cache").display().to_string());
    }
    assert!(testbed.dir().exists());
}

#[test]
fn the_container_starts_with_its_arguments() {
    let testbed = cluster();
    for args in
        [&["--flavor", "openshift"][..], &["--flavor", "payload"], &["--flavor", "openshift", "--mode", "audit"]]
    {
        let objects = printed(args);
        let container = pod(&objects, "x")["spec"]["containers"][0].clone();
        let list = container["args"].as_array().expect("arguments");
        let mut args: Vec<String> = list.iter().map(|arg| arg.as_str().expect("a text").to_owned()).collect();
        let root = tempfile::tempdir_in(testbed.dir()).expect("a directory");
        mounted(&testbed, &objects, &mut args, root.path());
        let [webhook, health, admin] = [free_port(), free_port(), free_port()];
        let mut command = Command::new(AIRGATE);
        command.args(&args).arg("--kubeconfig").arg(testbed.kubeconfig()).env("AIRGATE_NAMESPACE", "openshift-airgate");
        for (flag, port) in [("listen", webhook), ("health-listen", health), ("admin-listen", admin)] {
            command.arg(format!("--{flag}=127.0.0.1:{port}"));
        }
        let log = root.path().join("log");
        let mut child = testbed.spawn(&mut command, &log);
        let probe = |name: &str| {
            let path = container[name]["httpGet"]["path"].as_str().expect("a path");
            http_get(health, path).is_some_and(|(code, _)| code == 200)
        };
        eventually(&format!("airgate {args:?} answers its probes: {}", log.display()), || {
            ["startupProbe", "readinessProbe", "livenessProbe"].into_iter().all(probe).then_some(())
        });
        child.kill().expect("kill airgate");
        child.wait().expect("wait for airgate");
    }
}
