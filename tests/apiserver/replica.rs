//! Several `airgate serve --register` beside one API server, with the printed rights and no more.

use std::fs;
use std::process::{Child, Command};

use serde_json::{Value, json};

use crate::api::Answer;
use crate::crds::CrdSet;
use crate::guard::{AIRGATE, Guard, IDENTITY, Site, http_get};
use crate::objects::cluster_version;
use crate::server::{eventually, free_port};
use crate::testbed::Testbed;

pub const CONFIGURATIONS: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
pub const CONFIGURATION: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/airgate";
pub const NAMESPACE: &str = "/api/v1/namespaces/openshift-airgate";
pub const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/openshift-airgate/leases/airgate";
pub const FAILS: [&str; 2] = ["clusterversion.airgate.io", "internalreleaseimage.airgate.io"];

/// A cluster in which airgate may register itself, and does not run yet.
pub struct Cluster {
    pub guard: Guard,
    /// Where the API server is told to call: the first replica's port.
    pub port: u16,
}

/// One running `airgate serve --register`.
pub struct Replica {
    process: Child,
    name: &'static str,
    health: u16,
    admin: u16,
}

impl Cluster {
    pub fn start() -> Self {
        let testbed = Testbed::start();
        testbed.install_crds(&CrdSet::preferred());
        let guard = Guard::install(testbed);
        let printed = guard.airgate(&["manifests", "--register", "--only", "rights"]);
        assert!(!printed.contains("kind: ValidatingWebhookConfiguration"), "it is airgate that registers");
        guard.testbed.command(["apply", "-f", "-"]).stdin(printed).run().success();
        guard.airgate(&["certs", "--dir", guard.certificates().to_str().unwrap()]);
        guard.set_version(&cluster_version(&[Site::new().current.history("Completed")]));
        Self { guard, port: free_port() }
    }

    /// Starts one that serves at `port`; whether it makes the CA itself or leaves it to an injector.
    pub fn replica(&self, name: &'static str, port: u16, own_ca: bool) -> Replica {
        let [health, admin] = [free_port(), free_port()];
        let (guard, dir) = (&self.guard, self.guard.testbed.dir());
        let config = dir.join("register.config");
        let file = json!({"apiVersion": "airgate.io/v1alpha1", "kind": "Config",
            "policies": {"release-signature": {"mode": "off"}}});
        fs::write(&config, file.to_string()).unwrap();
        let mut command = Command::new(AIRGATE);
        command.args(["serve", "--register", "--namespace", "openshift-airgate"]).env("HOSTNAME", name);
        command.arg(format!("--register-url=https://127.0.0.1:{}", self.port));
        command.arg("--kubeconfig").arg(guard.kubeconfig()).arg("--config").arg(config);
        command.arg("--releases").arg(guard.releases());
        command.arg(if own_ca { "--self-signed" } else { "--tls-dir" }).arg(guard.certificates());
        for (flag, port) in [("listen", port), ("health-listen", health), ("admin-listen", admin)] {
            command.arg(format!("--{flag}=127.0.0.1:{port}"));
        }
        let process = guard.testbed.spawn(&mut command, &dir.join(format!("{name}.log")));
        Replica { process, name, health, admin }
    }

    pub fn configuration(&self) -> Option<Value> {
        self.guard.api.get(CONFIGURATION)
    }

    /// The names of the entries that fail closed; none where nothing is registered.
    pub fn failing(&self) -> Vec<String> {
        let stored = self.configuration().unwrap_or_default();
        let entries = stored["webhooks"].as_array().cloned().unwrap_or_default();
        let failing = entries.iter().filter(|entry| entry["failurePolicy"] == "Fail");
        failing.map(|entry| entry["name"].as_str().unwrap().to_owned()).collect()
    }

    pub fn fails_closed(&self, when: &str) {
        eventually(when, || (self.failing() == FAILS).then_some(()));
    }

    /// What an injector of CA bundles does.
    pub fn inject(&self, bundle: &str) {
        let stored = self.configuration().expect("a configuration");
        let count = stored["webhooks"].as_array().unwrap().len();
        let patch: Vec<Value> = (0..count)
            .map(|at| json!({"op": "add", "path": format!("/webhooks/{at}/clientConfig/caBundle"), "value": bundle}))
            .collect();
        let path = format!("{CONFIGURATION}?fieldManager=service-ca");
        self.guard.api.send("PATCH", &path, "application/json-patch+json", Some(&patch.into())).success();
    }

    pub fn ca(&self) -> String {
        use base64::Engine as _;
        let pem = fs::read(self.guard.certificates().join("ca.crt")).unwrap();
        base64::engine::general_purpose::STANDARD.encode(pem)
    }

    /// The answer to a request for an image by tag, which airgate refuses and is not stored.
    pub fn by_tag(&self) -> Answer {
        let tag = json!({"spec": {"desiredUpdate": {"image": "registry.example:5000/ocp/release:4.18.20"}}});
        self.guard.dry_run(&tag)
    }

    /// Audit events of what airgate did to this resource, by verb, but for reads.
    pub fn writes(&self, resource: &str) -> Vec<String> {
        let events = self.guard.testbed.audit_events();
        let own = events.iter().filter(|event| event["user"]["username"] == IDENTITY);
        let of = own.filter(|event| event["objectRef"]["resource"] == resource);
        let verbs = of.filter(|event| event["responseStatus"]["code"].as_u64() < Some(300));
        let verbs = verbs.map(|event| event["verb"].as_str().unwrap_or_default().to_owned());
        verbs.filter(|verb| !["get", "list", "watch"].contains(&&**verb)).collect()
    }

    pub fn no_denials(&self) {
        let events = self.guard.testbed.audit_events();
        let denied = events.iter().filter(|event| event["user"]["username"] == IDENTITY);
        let denied: Vec<_> = denied.filter(|event| event["responseStatus"]["code"] == 403).collect();
        assert!(denied.is_empty(), "{denied:#?}");
    }
}

impl Replica {
    pub fn ready(&self) -> bool {
        http_get(self.health, "/readyz").is_some_and(|(code, _)| code == 200)
    }

    /// What it shows of the registration.
    pub fn shown(&self) -> Value {
        let (_, body) = http_get(self.admin, "/statusz").unwrap_or_default();
        let status: Value = serde_json::from_str(&body).unwrap_or_default();
        status["registration"].clone()
    }

    pub fn shows(&self, state: &str) {
        eventually(&format!("{} shows {state}", self.name), || (self.shown()["state"] == state).then_some(()));
    }

    pub fn leads(&self) -> bool {
        self.shown()["leader"] == true
    }

    pub fn metrics(&self) -> String {
        http_get(self.health, "/metrics").unwrap_or_default().1
    }

    pub fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// As a kubelet ends it; returns once it is gone.
    pub fn terminate(mut self) {
        let pid = self.process.id().to_string();
        assert!(Command::new("sh").args(["-c", "kill -s TERM \"$0\"", &pid]).status().unwrap().success());
        let status = eventually("it has ended", || self.process.try_wait().unwrap());
        assert!(status.success(), "{status}");
    }
}
