//! What operators of the cluster do that are not here: OpenShift's service CA and network operator, cert-manager, and the
//! controller that ends a namespace.

use std::fs;
use std::thread;

use airgate::tls::{install_provider, self_signed};
use base64::Engine as _;
use serde_json::{Value, json};

use super::stored;
use crate::kubectl::Kubectl;
use crate::server::poll;
use crate::testbed::Testbed;

const OPENSHIFT: &str = "openshift-airgate";

/// The namespace in which airgate is, with who works there.
struct Site<'a> {
    testbed: &'a Testbed,
    namespace: &'static str,
}

impl Site<'_> {
    fn object(&self, object: &str) -> Option<Value> {
        stored(self.testbed, self.namespace, object)
    }

    fn patch(&self, kind: &str, name: &str, kind_of_patch: &str, patch: &Value) {
        let args = ["patch", kind, name, "-n", self.namespace, kind_of_patch, "-p", &patch.to_string()];
        self.testbed.kubectl(args).success();
    }

    /// A certificate in this Secret, if it is not there, by the CA that is returned.
    fn issue(&self, by: &str, secret: &str) -> String {
        install_provider();
        let dir = self.testbed.dir().join(by);
        if self.object(&format!("secret/{secret}")).is_none() {
            if dir.exists() {
                fs::remove_dir_all(&dir).expect("forget a certificate");
            }
            fs::create_dir(&dir).expect("a directory for a certificate");
            let host = format!("airgate.{}.svc", self.namespace);
            self_signed::ensure(&dir, &[format!("{host}.cluster.local"), host]).expect("a certificate");
            let [certificate, key] =
                [("cert", "crt"), ("key", "key")].map(|(flag, end)| format!("--{flag}={}/tls.{end}", dir.display()));
            let args = ["create", "secret", "tls", secret, "-n", self.namespace, &certificate, &key];
            self.testbed.kubectl(args).success();
        }
        fs::read_to_string(dir.join("ca.crt")).expect("a CA")
    }

    /// The CA into every webhook of the configuration, which asks for it by this annotation.
    fn inject(&self, ca: &str, (annotation, value): (&str, &str)) {
        let registered = self.object("validatingwebhookconfiguration/airgate").expect("the webhooks");
        assert_eq!(registered["metadata"]["annotations"][annotation], value);
        let bundle = base64::engine::general_purpose::STANDARD.encode(ca);
        let count = registered["webhooks"].as_array().expect("webhooks").len();
        let put = |at| json!({"op": "add", "path": format!("/webhooks/{at}/clientConfig/caBundle"), "value": bundle});
        let bundles: Value = (0..count).map(put).collect();
        self.patch("validatingwebhookconfiguration", "airgate", "--type=json", &bundles);
    }
}

/// A certificate in the Secret that the Service asks for; its CA.
pub fn serving_certificate(testbed: &Testbed) -> String {
    let site = Site { testbed, namespace: OPENSHIFT };
    let service = site.object("service/airgate").expect("a Service airgate");
    let secret = &service["metadata"]["annotations"]["service.beta.openshift.io/serving-cert-secret-name"];
    site.issue("service-ca", secret.as_str().expect("a Secret's name"))
}

/// The certificate, and its CA where the webhooks and a ConfigMap ask for it.
pub fn of_openshift(testbed: &Testbed) {
    let site = Site { testbed, namespace: OPENSHIFT };
    let ca = serving_certificate(testbed);
    site.inject(&ca, ("service.beta.openshift.io/inject-cabundle", "true"));
    let trusted = site.object("configmap/airgate-trusted-ca").expect("a ConfigMap for CAs");
    assert_eq!(trusted["metadata"]["labels"]["config.openshift.io/inject-trusted-cabundle"], "true");
    site.patch("configmap", "airgate-trusted-ca", "--type=merge", &json!({"data": {"ca-bundle.crt": ca}}));
}

/// A certificate in the Secret that the Certificate asks for, marked as cert-manager marks it, and its CA in the webhooks.
pub fn of_cert_manager(testbed: &Testbed) {
    let site = Site { testbed, namespace: "airgate" };
    let certificate = site.object("certificate/airgate").expect("a Certificate airgate");
    let secret = certificate["spec"]["secretName"].as_str().expect("a Secret's name");
    let ca = site.issue("cert-manager", secret);
    let marks = json!({"metadata": {"annotations": {"cert-manager.io/certificate-name": "airgate"}},
        "stringData": {"ca.crt": ca}});
    site.patch("secret", secret, "--type=merge", &marks);
    site.inject(&ca, ("cert-manager.io/inject-ca-from", "airgate/airgate"));
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
