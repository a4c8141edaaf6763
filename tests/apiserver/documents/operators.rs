//! What operators of the cluster do that are not here: OpenShift's service CA and network operator, and the controller
//! that ends a namespace.

use std::fs;
use std::thread;

use airgate::tls::{install_provider, self_signed};
use base64::Engine as _;
use serde_json::{Value, json};

use crate::kubectl::Kubectl;
use crate::server::poll;
use crate::testbed::Testbed;

const NAMESPACE: &str = "openshift-airgate";

fn object(testbed: &Testbed, kind: &str, name: &str) -> Option<Value> {
    let text = testbed.kubectl(["get", kind, name, "-n", NAMESPACE, "-o", "json", "--ignore-not-found"]).success();
    (!text.trim().is_empty()).then(|| serde_json::from_str(&text).expect("JSON from kubectl"))
}

fn patch(testbed: &Testbed, kind: &str, name: &str, kind_of_patch: &str, patch: &Value) {
    let args = ["patch", kind, name, "-n", NAMESPACE, kind_of_patch, "-p", &patch.to_string()];
    testbed.kubectl(args).success();
}

/// A certificate in the Secret that the Service asks for, and its CA where the webhooks and a ConfigMap ask for it.
pub fn of_openshift(testbed: &Testbed) {
    install_provider();
    let service = object(testbed, "service", "airgate").expect("a Service airgate");
    let annotation = |object: &Value, key: &str| object["metadata"]["annotations"][key].as_str().map(str::to_owned);
    let secret = annotation(&service, "service.beta.openshift.io/serving-cert-secret-name").expect("a Secret's name");
    let dir = testbed.dir().join("service-ca");
    if object(testbed, "secret", &secret).is_none() {
        if dir.exists() {
            fs::remove_dir_all(&dir).expect("forget a certificate");
        }
        fs::create_dir(&dir).expect("a directory for a certificate");
        let names = [format!("airgate.{NAMESPACE}.svc"), format!("airgate.{NAMESPACE}.svc.cluster.local")];
        self_signed::ensure(&dir, &names).expect("a certificate");
        let file = |name: &str| {
            format!("--{name}={}", dir.join(format!("tls.{}", if name == "key" { "key" } else { "crt" })).display())
        };
        testbed.kubectl(["create", "secret", "tls", &secret, "-n", NAMESPACE, &file("cert"), &file("key")]).success();
    }
    let ca = fs::read_to_string(dir.join("ca.crt")).expect("a CA");
    let registered = object(testbed, "validatingwebhookconfiguration", "airgate").expect("the webhooks");
    assert_eq!(annotation(&registered, "service.beta.openshift.io/inject-cabundle").as_deref(), Some("true"));
    let bundle = base64::engine::general_purpose::STANDARD.encode(&ca);
    let count = registered["webhooks"].as_array().expect("webhooks").len();
    let put = |at| json!({"op": "add", "path": format!("/webhooks/{at}/clientConfig/caBundle"), "value": bundle});
    let bundles: Value = (0..count).map(put).collect();
    patch(testbed, "validatingwebhookconfiguration", "airgate", "--type=json", &bundles);
    let trusted = object(testbed, "configmap", "airgate-trusted-ca").expect("a ConfigMap for CAs");
    assert_eq!(trusted["metadata"]["labels"]["config.openshift.io/inject-trusted-cabundle"], "true");
    patch(testbed, "configmap", "airgate-trusted-ca", "--type=merge", &json!({"data": {"ca-bundle.crt": ca}}));
}

/// Ends a namespace once it is deleted, as the controller does whose work is to empty it first.
pub fn end_namespace(testbed: &Testbed, name: &'static str) {
    let (binaries, dir) = (Testbed::binaries(), testbed.dir().to_owned());
    thread::spawn(move || {
        let kubectl = |args: &[&str]| Kubectl::new(binaries, &dir).args(args.iter().copied());
        poll(std::time::Duration::from_mins(1), || {
            let text = kubectl(&["get", "namespace", name, "-o", "json"]).run().stdout;
            let mut namespace: Value = serde_json::from_str(&text).ok()?;
            (namespace["status"]["phase"] == "Terminating").then_some(())?;
            namespace["spec"]["finalizers"] = json!([]);
            let path = format!("/api/v1/namespaces/{name}/finalize");
            let ended = kubectl(&["replace", "--raw", &path, "-f", "-"]).stdin(namespace.to_string()).run();
            (ended.code == 0).then_some(())
        })
    });
}
