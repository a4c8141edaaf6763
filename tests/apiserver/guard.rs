//! airgate beside a real API server, as an administrator would install it.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};

use crate::api::{Answer, Api, IMAGE, IMAGES, VERSION};
use crate::crds::CrdSet;
use crate::objects::{
    Release, cluster_version, control_plane_node, internal_release_image, machine_config_node, machine_config_pool,
    rendered_machine_config,
};
use crate::server::{eventually, free_port};
use crate::testbed::Testbed;

/// Who airgate is for the API server, as the printed binding has it.
pub const IDENTITY: &str = "system:serviceaccount:openshift-airgate:airgate";
const POOLS: &str = "/apis/machineconfiguration.openshift.io/v1/machineconfigpools";
pub const NODES: &str = "/apis/machineconfiguration.openshift.io/v1/machineconfignodes";
const INFRASTRUCTURE: &str = "/apis/config.openshift.io/v1/infrastructures/cluster";
const CATALOG_SOURCES: &str = "/apis/operators.coreos.com/v1alpha1/namespaces/openshift-marketplace/catalogsources";
pub const CORE_NODES: &str = "/api/v1/nodes";

static SHARED: LazyLock<Mutex<Guard>> = LazyLock::new(|| {
    let testbed = Testbed::start();
    testbed.install_crds(&CrdSet::preferred());
    Mutex::new(Guard::start(testbed))
});

/// The releases of the site: what runs, what lists it, what does not, what nobody knows, what ran before.
pub struct Site {
    pub current: Release,
    pub listed: Release,
    pub unlisted: Release,
    pub unknown: Release,
    pub before: Release,
}

pub struct Guard {
    pub api: Api,
    airgate: Option<Child>,
    pub webhook_port: u16,
    health_port: u16,
    admin_port: u16,
    pub config: Option<Value>,
    /// Whether it keeps what it reads from registries in a directory.
    pub cache: bool,
    /// A bundle of CAs, given as the pod's environment names the mounted one.
    pub ca_bundle: Option<PathBuf>,
    /// Dropped last: it ends all processes and removes the directory.
    pub testbed: Testbed,
}

impl Site {
    pub fn new() -> Self {
        Self {
            current: Release::new("4.18.12", '1'),
            listed: Release::new("4.18.20", '2'),
            unlisted: Release::new("4.19.9", '3'),
            unknown: Release::new("4.20.1", '9'),
            before: Release::new("4.17.30", '7'),
        }
    }

    /// What the mirror holds, as `oc adm release info` says.
    fn catalog(&self) -> Value {
        let entry = |release: &Release, previous: &[&str]| {
            let (_, digest) = release.image.split_once('@').expect("a pullspec by digest");
            json!({"digest": digest, "version": release.version, "previous": previous, "architecture": "amd64"})
        };
        json!({"apiVersion": "airgate.io/v1alpha1", "kind": "ReleaseCatalog", "releases": [
            entry(&self.current, &["4.18.11", "4.17.30"]),
            entry(&self.listed, &["4.18.11", "4.18.12"]),
            entry(&self.unlisted, &["4.18.19", "4.18.20", "4.19.0"]),
        ]})
    }
}

impl Guard {
    /// The one that tests share which neither stop servers nor change CRDs; as new for each.
    pub fn shared() -> MutexGuard<'static, Self> {
        let mut guard = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        guard.configure(None);
        guard.reset();
        guard
    }

    /// Installs airgate as printed, and waits until it has a say.
    pub fn start(testbed: Testbed) -> Self {
        let mut guard = Self::install(testbed);
        guard.run();
        guard.reset();
        guard.register();
        guard
    }

    /// Its identity, rights and releases; not running yet.
    pub fn install(testbed: Testbed) -> Self {
        let api = Api::of(&testbed);
        let [webhook_port, health_port, admin_port] = [free_port(), free_port(), free_port()];
        let guard = Self {
            api,
            airgate: None,
            webhook_port,
            health_port,
            admin_port,
            config: None,
            cache: false,
            ca_bundle: None,
            testbed,
        };
        fs::create_dir(guard.releases()).expect("a directory for releases");
        fs::write(guard.releases().join("catalog.json"), Site::new().catalog().to_string()).expect("write a catalog");
        let namespace = "openshift-airgate";
        // Those of OpenShift in which airgate has a role.
        for namespace in
            [namespace, "openshift-config", "openshift-config-managed", "openshift-machine-config-operator"]
        {
            guard.testbed.kubectl(["create", "namespace", namespace]).success();
        }
        // Nothing answers for the registry that most tests name: it is not to be looked for.
        let blocked = json!({"apiVersion": "config.openshift.io/v1", "kind": "Image", "metadata": {"name": "cluster"},
            "spec": {"registrySources": {"blockedRegistries": ["registry.example:5000"]}}});
        guard.testbed.command(["apply", "-f", "-"]).stdin(blocked.to_string()).run().success();
        guard.testbed.kubectl(["create", "serviceaccount", "airgate", "-n", namespace]).success();
        guard
            .testbed
            .put(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "openshift-marketplace"}}));
        let rights = guard.airgate(&["manifests", "--only", "rights"]);
        guard.testbed.command(["apply", "-f", "-"]).stdin(rights).run().success();
        let token = guard.testbed.kubectl(["create", "token", "airgate", "-n", namespace]).success();
        guard.write_kubeconfig(&format!("https://127.0.0.1:{}", guard.testbed.apiserver.port), token.trim());
        guard
    }

    fn write_kubeconfig(&self, server: &str, token: &str) {
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "airgate",
            "clusters": [{"name": "airgate", "cluster": {"server": server,
                "certificate-authority": self.testbed.dir().join("pki/apiserver.crt")}}],
            "users": [{"name": "airgate", "user": {"token": token}}],
            "contexts": [{"name": "airgate", "context": {"cluster": "airgate", "user": "airgate"}}],
        });
        fs::write(self.kubeconfig(), kubeconfig.to_string()).expect("write airgate's kubeconfig");
    }

    /// Lets airgate reach the API server by another address, such as a proxy's.
    pub fn reach_api_server_by(&self, server: &str) {
        let text = fs::read_to_string(self.kubeconfig()).expect("read airgate's kubeconfig");
        let kubeconfig: Value = serde_json::from_str(&text).expect("a kubeconfig");
        self.write_kubeconfig(server, kubeconfig["users"][0]["user"]["token"].as_str().expect("a token"));
    }

    pub fn kubeconfig(&self) -> PathBuf {
        self.testbed.dir().join("airgate.kubeconfig")
    }

    pub fn releases(&self) -> PathBuf {
        self.testbed.dir().join("releases")
    }

    pub fn certificates(&self) -> PathBuf {
        self.testbed.dir().join("airgate-tls")
    }

    /// What `airgate ARGS` prints.
    pub fn airgate(&self, args: &[&str]) -> String {
        let output = Command::new(AIRGATE).args(args).current_dir(self.testbed.dir()).output().expect("run airgate");
        assert!(output.status.success(), "airgate {args:?}: {output:?}");
        String::from_utf8(output.stdout).expect("airgate prints UTF-8")
    }

    /// `airgate serve`, until it says that it is ready.
    pub fn run(&mut self) {
        assert!(self.airgate.is_none(), "airgate runs already");
        let mut command = Command::new(AIRGATE);
        command.arg("serve").arg("--kubeconfig").arg(self.kubeconfig());
        command.arg("--releases").arg(self.releases()).arg("--self-signed").arg(self.certificates());
        for (flag, port) in
            [("listen", self.webhook_port), ("health-listen", self.health_port), ("admin-listen", self.admin_port)]
        {
            command.arg(format!("--{flag}=127.0.0.1:{port}"));
        }
        if self.cache {
            command.arg("--cache-dir").arg(self.testbed.dir().join("cache"));
        }
        if let Some(bundle) = &self.ca_bundle {
            command.env("SSL_CERT_FILE", bundle);
        }
        let path = self.testbed.dir().join("airgate.config");
        // Nothing is signed here, and most tests are about something else.
        let mut file = json!({"apiVersion": "airgate.io/v1alpha1", "kind": "Config",
            "policies": {"release-signature": {"mode": "off"}}});
        json_patch::merge(&mut file, self.config.as_ref().unwrap_or(&json!({})));
        fs::write(&path, file.to_string()).expect("write airgate's config");
        command.arg("--config").arg(path);
        let log = self.testbed.dir().join("airgate.log");
        self.airgate = Some(self.testbed.spawn(&mut command, &log));
        eventually("airgate is ready", || {
            if let Some(Ok(Some(status))) = self.airgate.as_mut().map(Child::try_wait) {
                panic!("airgate ended with {status}:\n{}", fs::read_to_string(&log).unwrap_or_default());
            }
            self.ready().then_some(())
        });
    }

    /// Ends it without warning.
    pub fn kill(&mut self) {
        let mut airgate = self.airgate.take().expect("airgate runs");
        airgate.kill().expect("kill airgate");
        airgate.wait().expect("wait for airgate");
    }

    /// Asks it to end, as a kubelet does.
    pub fn terminate(&mut self) {
        let pid = self.airgate.as_ref().expect("airgate runs").id().to_string();
        let sent = Command::new("sh").args(["-c", "kill -s TERM \"$0\"", &pid]).status().expect("run kill");
        assert!(sent.success());
    }

    /// How it ended, once it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        let status = self.airgate.as_mut().expect("airgate was told to end").try_wait().expect("wait for airgate");
        if status.is_some() {
            self.airgate = None;
        }
        status
    }

    /// Restarts it with other settings, unless it has them.
    pub fn configure(&mut self, config: Option<Value>) {
        if self.airgate.is_some() && self.config == config {
            return;
        }
        if self.airgate.is_some() {
            self.kill();
        }
        self.config = config;
        self.run();
    }

    /// Applies the printed configuration, and waits until the API server asks airgate.
    pub fn register(&self) {
        let tag = json!({"spec": {"desiredUpdate": {"image": "registry.example:5000/ocp/release:4.18.20"}}});
        self.register_by(|guard| guard.dry_run(&tag).code == 422);
    }

    /// The same, with another sign that the API server does.
    pub fn register_by(&self, effective: impl Fn(&Self) -> bool) {
        let url = format!("https://127.0.0.1:{}", self.webhook_port);
        let ca = self.certificates().join("ca.crt");
        let printed = self.airgate(&["manifests", "--url", &url, "--ca-file", ca.to_str().expect("a path in UTF-8")]);
        self.testbed.command(["apply", "-f", "-"]).stdin(printed).run().success();
        eventually("the API server asks airgate", || effective(self).then_some(()));
    }

    /// Does something that airgate would not let pass, and leaves the API server without its webhooks.
    pub fn without_webhooks(&self, act: impl Fn(&Self)) {
        self.testbed.delete("validatingwebhookconfiguration/airgate");
        let tag = json!({"spec": {"desiredUpdate": {"image": "registry.example:5000/ocp/release:4.18.20"}}});
        eventually("the API server asks nobody", || (self.dry_run(&tag).code == 200).then_some(()));
        act(self);
    }

    /// The answer to a merge patch of the ClusterVersion that is not stored.
    pub fn dry_run(&self, patch: &Value) -> Answer {
        self.api.merge(&format!("{VERSION}?dryRun=All"), patch)
    }

    /// The site as new: on the current release, which came from the one before; an InternalReleaseImage that
    /// holds it and the next one; no update asked for.
    pub fn reset(&self) {
        let site = Site::new();
        self.reset_to(&[&site.current, &site.listed]);
    }

    /// The same with these releases in the InternalReleaseImage.
    pub fn reset_to(&self, held: &[&Release]) {
        let site = Site::new();
        let image = internal_release_image(held);
        let stored = self.api.get(IMAGE);
        let as_new = stored.as_ref().is_some_and(|stored| {
            stored["spec"] == image["spec"]
                && stored["metadata"]["deletionTimestamp"].is_null()
                && stored["metadata"]["annotations"].is_null()
        });
        if !as_new {
            self.drop_image();
            self.set(IMAGES, "cluster", &image);
        }
        for pool in ["master", "worker"] {
            let rendered = format!("rendered-{pool}-1");
            self.set(CONFIGS, &rendered, &rendered_machine_config(&rendered, &site.current));
            self.set(POOLS, pool, &machine_config_pool(pool, &rendered, &rendered));
        }
        self.only_one_node();
        self.set(NODES, "master-0", &machine_config_node("master-0", "master", held));
        self.set(CORE_NODES, "master-0", &control_plane_node("master-0", "127.0.0.1"));
        self.set_version(&cluster_version(&[site.current.history("Completed"), site.before.history("Completed")]));
        self.synced();
    }

    /// Takes away what a test added beside the one node, and the way to the nodes' registries.
    fn only_one_node(&self) {
        for collection in [NODES, CORE_NODES] {
            let nodes = self.api.get(collection).unwrap_or_default();
            for node in nodes["items"].as_array().into_iter().flatten() {
                let name = node["metadata"]["name"].as_str().expect("a name");
                if name != "master-0" {
                    self.api.delete(&format!("{collection}/{name}"));
                }
            }
        }
        self.api.delete(INFRASTRUCTURE);
    }

    /// Takes the InternalReleaseImage away in the only way there is: when nothing needs it.
    fn drop_image(&self) {
        self.set_version(&cluster_version(&[Release::new("4.1.0", 'f').history("Completed")]));
        for pool in ["master", "worker"] {
            self.api.delete(&format!("{POOLS}/{pool}"));
        }
        self.synced();
        if self.api.get(IMAGE).is_none() {
            return;
        }
        self.api.merge(IMAGE, &json!({"metadata": {"finalizers": null}}));
        // That the pools are gone may not have reached airgate yet.
        eventually("nothing holds the InternalReleaseImage", || {
            [200, 404].contains(&self.api.delete(IMAGE).code).then_some(())
        });
    }

    /// Stores the ClusterVersion with its status. A target in it would be judged like any other.
    pub fn set_version(&self, version: &Value) {
        self.set("/apis/config.openshift.io/v1/clusterversions", "version", version);
    }

    /// Stores an object, its status too, in place of what is there.
    pub fn set(&self, collection: &str, name: &str, object: &Value) {
        let path = format!("{collection}/{name}");
        let mut object = object.clone();
        let stored = match self.api.get(&path) {
            None => self.api.create(collection, &object).success(),
            Some(stored) => {
                object["metadata"]["resourceVersion"] = stored["metadata"]["resourceVersion"].clone();
                self.api.replace(&path, &object).success()
            }
        };
        if !object["status"].is_null() {
            object["metadata"]["resourceVersion"] = stored["metadata"]["resourceVersion"].clone();
            self.api.replace(&format!("{path}/status"), &object).success();
        }
    }

    /// Waits until airgate's watches have seen what is stored now.
    pub fn synced(&self) {
        for (path, resource) in [
            (VERSION, "clusterversions"),
            (POOLS, "machineconfigpools"),
            (NODES, "machineconfignodes"),
            (CORE_NODES, "nodes"),
            (CATALOG_SOURCES, "catalogsources"),
        ] {
            let newest = newest(&self.api.get(path).unwrap_or_default());
            eventually(&format!("airgate has seen {resource} {newest}"), || {
                let status = self.statusz();
                let watch = status["watches"].as_array()?.iter().find(|watch| {
                    watch["resource"].as_str().is_some_and(|name| name.split('.').next() == Some(resource))
                })?;
                let seen = watch["resourceVersion"].as_str()?.parse::<u64>().ok()?;
                (seen >= newest).then_some(())
            });
        }
    }

    pub fn ready(&self) -> bool {
        http_get(self.health_port, "/readyz").is_some_and(|(code, _)| code == 200)
    }

    pub fn statusz(&self) -> Value {
        let (_, body) = http_get(self.admin_port, "/statusz").unwrap_or_default();
        serde_json::from_str(&body).unwrap_or_default()
    }

    /// The same of a series that counts from nothing.
    pub fn count(&self, series: &str) -> u64 {
        self.metric(series).unwrap_or_default()
    }

    /// How many reviews airgate has judged.
    pub fn reviews(&self) -> u64 {
        self.counted("airgate_reviews_total")
    }

    /// The sum of all counters whose line begins so.
    pub fn counted(&self, beginning: &str) -> u64 {
        let (_, body) = http_get(self.health_port, "/metrics").expect("airgate's metrics");
        let counts = body.lines().filter(|line| line.starts_with(beginning));
        counts.filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok()).sum()
    }

    /// The value of a metric, with its labels as they are printed.
    pub fn metric(&self, name: &str) -> Option<u64> {
        let (_, body) = http_get(self.health_port, "/metrics").expect("airgate's metrics");
        body.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
    }

    /// A text without what differs from run to run.
    pub fn normal(&self, text: &str) -> String {
        let text = text
            .replace(&self.releases().display().to_string(), "RELEASES")
            .replace(&format!("127.0.0.1:{}", self.webhook_port), "127.0.0.1:PORT");
        let mut words: Vec<&str> = text.split(' ').collect();
        for at in 2..words.len() {
            let age = words[at].trim_end_matches(|c: char| !c.is_alphabetic());
            if (age == "ago" || age.starts_with("old")) && words[at - 2].parse::<u64>().is_ok() {
                words[at - 2] = "N";
                words[at - 1] = "s";
            }
        }
        words.join(" ")
    }
}

pub const AIRGATE: &str = env!("CARGO_BIN_EXE_airgate");
const CONFIGS: &str = "/apis/machineconfiguration.openshift.io/v1/machineconfigs";

/// The newest resourceVersion of an object or of a list's items.
fn newest(object: &Value) -> u64 {
    let version = |object: &Value| object["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok());
    match object["items"].as_array() {
        Some(items) => items.iter().filter_map(version).max().unwrap_or_default(),
        None => version(object).unwrap_or_default(),
    }
}

/// `GET` without encryption on a loopback port.
pub fn http_get(port: u16, path: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n").ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    Some((head.split(' ').nth(1)?.parse().ok()?, body.to_owned()))
}
