//! A control plane of etcd and kube-apiserver for tests, and how to act on it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;

use serde_json::{Value, json};

use crate::crds::CrdSet;
use crate::kubectl::{Kubectl, Output};
use crate::server::{Server, Watchdog, accepts, free_port, random};
use crate::services::Services;

const AUDIT_LOG: &str = "audit.log";

/// Where `tests/testbed/build` put kube-apiserver, kubectl and etcd.
static BINARIES: LazyLock<PathBuf> = LazyLock::new(|| {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/testbed/build");
    // Its standard error is ours: a first build takes minutes and says so, and
    // a machine without Go is told there what to install.
    let output = Command::new(script).stderr(Stdio::inherit()).output().expect("run tests/testbed/build");
    assert!(output.status.success(), "tests/testbed/build failed: what is missing stands above");
    PathBuf::from(String::from_utf8(output.stdout).expect("a path in UTF-8").trim_end())
});

static SHARED: LazyLock<Testbed> = LazyLock::new(|| {
    let testbed = Testbed::start();
    testbed.install_crds(&CrdSet::preferred());
    testbed
});

/// Fields are dropped in this order: servers end before their directory goes.
pub struct Testbed {
    pub apiserver: Server,
    pub etcd: Server,
    /// Where the API server reaches Services.
    pub services: Services,
    watchdog: Watchdog,
    dir: PathBuf,
}

impl Testbed {
    /// The one with OpenShift's CRDs that all tests of this binary use, unless
    /// they stop servers or change CRDs. It ends with the test process.
    pub fn shared() -> &'static Self {
        &SHARED
    }

    /// A new one, without CRDs.
    pub fn start() -> Self {
        // A port that was free can be taken when its server binds it.
        let mut attempts = (0..5).map(|_| Self::try_start());
        attempts
            .find(|outcome| !matches!(outcome, Err(why) if why.contains("address already in use")))
            .unwrap_or_else(|| Err("no free ports in 5 attempts".to_owned()))
            .unwrap_or_else(|why| panic!("the testbed did not start: {why}"))
    }

    fn try_start() -> Result<Self, String> {
        let dir = tempfile::Builder::new().prefix("airgate-testbed-").tempdir().expect("a temporary directory").keep();
        let watchdog = Watchdog::over(&dir);
        let etcd = Server::new("etcd", &BINARIES, &dir, free_port());
        let apiserver = Server::new("kube-apiserver", &BINARIES, &dir, free_port());
        let services = Services::start(&dir);
        let mut testbed = Self { apiserver, etcd, services, watchdog, dir };
        testbed.configure();
        testbed.start_etcd()?;
        testbed.start_apiserver()?;
        Ok(testbed)
    }

    fn configure(&mut self) {
        let path = |name: &str| self.dir.join(name).display().to_string();
        let write = |name: &str, text: &str| fs::write(path(name), text).expect("write into the testbed's directory");

        // The directory is closed to others, so the token in it is our secret.
        let token = format!("{:016x}{:016x}", random(), random());
        write("tokens.csv", &format!("{token},admin,admin,system:masters\n"));
        let key = rcgen::KeyPair::generate().expect("a key for service account tokens");
        write("service-account.key", &key.serialize_pem());
        write("service-account.pub", &key.public_key_pem());
        let writes = ["create", "update", "patch", "delete", "deletecollection"];
        write(
            "audit-policy",
            &json!({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"],
            "rules": [
                {"level": "Metadata", "verbs": writes},
                // What airgate asks, too: it shows what a verdict rests on.
                {"level": "Metadata", "users": ["system:serviceaccount:openshift-airgate:airgate"]},
            ]})
            .to_string(),
        );
        write(
            "kubeconfig",
            &json!({
                "apiVersion": "v1", "kind": "Config", "current-context": "testbed",
                "clusters": [{"name": "testbed", "cluster": {
                    "server": format!("https://127.0.0.1:{}", self.apiserver.port),
                    // Written by the API server when it starts.
                    "certificate-authority": path("pki/apiserver.crt")}}],
                "users": [{"name": "admin", "user": {"token": token}}],
                "contexts": [{"name": "testbed", "context": {"cluster": "testbed", "user": "admin"}}],
            })
            .to_string(),
        );

        self.services.write_config(Path::new(&path("egress")));

        let client = format!("http://127.0.0.1:{}", self.etcd.port);
        let peer = format!("http://127.0.0.1:{}", free_port());
        self.etcd.set_args([
            "--name=testbed".to_owned(),
            "--unsafe-no-fsync".to_owned(),
            format!("--data-dir={}", path("etcd")),
            format!("--listen-client-urls={client}"),
            format!("--advertise-client-urls={client}"),
            format!("--listen-peer-urls={peer}"),
            format!("--initial-advertise-peer-urls={peer}"),
            format!("--initial-cluster=testbed={peer}"),
        ]);
        self.apiserver.set_args([
            format!("--etcd-servers={client}"),
            format!("--secure-port={}", self.apiserver.port),
            "--bind-address=127.0.0.1".to_owned(),
            // Else it looks for a default route, which an offline machine lacks.
            "--advertise-address=127.0.0.1".to_owned(),
            "--endpoint-reconciler-type=none".to_owned(),
            format!("--cert-dir={}", path("pki")),
            "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
            format!("--service-account-key-file={}", path("service-account.pub")),
            format!("--service-account-signing-key-file={}", path("service-account.key")),
            "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
            "--authorization-mode=RBAC".to_owned(),
            format!("--token-auth-file={}", path("tokens.csv")),
            format!("--audit-policy-file={}", path("audit-policy")),
            format!("--audit-log-path={}", path(AUDIT_LOG)),
            format!("--egress-selector-config-file={}", path("egress")),
            // It waits for tokens that only a controller manager would make.
            "--disable-admission-plugins=ServiceAccount".to_owned(),
        ]);
    }

    pub fn start_etcd(&mut self) -> Result<(), String> {
        let log = self.dir.join("etcd.log");
        // By its own log, lest another one on the same port be taken for it.
        let ready = || fs::read_to_string(&log).is_ok_and(|text| text.contains("ready to serve client requests"));
        self.etcd.start(&self.watchdog, ready)
    }

    /// Starts the API server and waits until it is ready and has made its own
    /// namespaces, which it does shortly after it calls itself ready.
    pub fn start_apiserver(&mut self) -> Result<(), String> {
        let dir = self.dir.clone();
        let ask = |path: &str| Kubectl::new(&BINARIES, &dir).args(["get", "--raw", path]).run().code == 0;
        let etcd = self.etcd.port;
        self.apiserver.start(&self.watchdog, || accepts(etcd) && ask("/readyz") && ask("/api/v1/namespaces/default"))
    }

    /// Starts what deletes namespaces and collects what their end leaves behind.
    pub fn start_controller_manager(&self) -> Child {
        let mut command = Command::new(BINARIES.join("kube-controller-manager"));
        command.arg(format!("--kubeconfig={}", self.kubeconfig().display()));
        let key = self.dir.join("service-account.key");
        command.arg(format!("--service-account-private-key-file={}", key.display()));
        command.args(["--controllers=namespace-controller,garbage-collector-controller", "--leader-elect=false"]);
        command.args(["--secure-port=0"]);
        self.spawn(&mut command, &self.dir.join("kube-controller-manager.log"))
    }

    /// The kubeconfig of an administrator (group system:masters).
    pub fn kubeconfig(&self) -> PathBuf {
        self.dir.join("kubeconfig")
    }

    /// Where its programs are, kubectl among them.
    pub fn binaries() -> &'static Path {
        &BINARIES
    }

    /// A directory that goes away with the testbed.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Starts another process, such as airgate, that ends with this testbed and
    /// at the latest with the test process. Its output goes to the file `log`.
    pub fn spawn(&self, command: &mut Command, log: &Path) -> Child {
        self.watchdog.spawn(command, log)
    }

    /// `kubectl ARGS` as the administrator.
    pub fn kubectl<I: IntoIterator<Item: Into<String>>>(&self, args: I) -> Output {
        self.command(args).run()
    }

    /// The same, to be given a standard input or another identity first.
    pub fn command<I: IntoIterator<Item: Into<String>>>(&self, args: I) -> Kubectl {
        Kubectl::new(&BINARIES, &self.dir).args(args)
    }

    /// The object that is stored, as in `get("clusterversion/version")`.
    pub fn get(&self, object: &str) -> Value {
        let text = self.kubectl(["get", object, "-o", "json"]).success();
        serde_json::from_str(&text).expect("JSON from kubectl")
    }

    /// Stores an object, and its status too where it has one, as the operators
    /// that own it would. What is there already is overwritten.
    pub fn put(&self, object: &Value) {
        let mut main = object.clone();
        let status = main.as_object_mut().expect("an object").remove("status");
        self.command(["apply", "--server-side", "--force-conflicts", "-f", "-"])
            .stdin(main.to_string())
            .run()
            .success();
        if let Some(status) = status {
            self.put_status(&name_of(object), &status);
        }
    }

    /// Replaces the status of an object, as in `put_status("clusterversion/version", ...)`.
    pub fn put_status(&self, object: &str, status: &Value) {
        let patch = json!([{"op": "add", "path": "/status", "value": status}]).to_string();
        self.kubectl(["patch", object, "--subresource=status", "--type=json", "-p", &patch]).success();
    }

    /// The audit events of all writes so far, in which the annotations of a
    /// webhook are found, and of all that airgate asked. An event is there before its request is answered.
    pub fn audit_events(&self) -> Vec<Value> {
        let log = fs::read_to_string(self.dir.join(AUDIT_LOG)).expect("read the audit log");
        // The last line may be half written by another test's request.
        let complete = log.rfind('\n').map_or("", |end| &log[..end]);
        complete.lines().map(|line| serde_json::from_str(line).expect("an audit event")).collect()
    }

    pub fn delete(&self, object: &str) {
        self.kubectl(["delete", object, "--ignore-not-found"]).success();
    }
}

/// `internalreleaseimage.v1.machineconfiguration.openshift.io/cluster`: with
/// the version and the group, for a kind can exist in several of both.
fn name_of(object: &Value) -> String {
    let text = |pointer: &str| {
        object.pointer(pointer).and_then(Value::as_str).unwrap_or_else(|| panic!("no {pointer} in {object}"))
    };
    let kind = text("/kind").to_lowercase();
    let name = text("/metadata/name");
    match text("/apiVersion").split_once('/') {
        Some((group, version)) => format!("{kind}.{version}.{group}/{name}"),
        None => format!("{kind}/{name}"),
    }
}
