//! Debian's docker-registry with TLS, on a loopback port and a directory of its own.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use airgate::tls::{install_provider, self_signed};
use serde_json::{Value, json};

use crate::server::{Server, Watchdog, eventually, free_port};

/// What is missing is said once, before any test needs it.
static TOOLS: LazyLock<()> = LazyLock::new(|| {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/registry/tools");
    let status = Command::new(script).status().expect("run tests/registry/tools");
    assert!(status.success(), "programs are missing: which, and how to install them, stands above");
});

/// How a registry is to behave; the default is open to all and takes pushes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// User and password that every request needs.
    pub login: Option<(&'static str, &'static str)>,
    /// As the registries of an InternalReleaseImage: pulls only.
    pub read_only: bool,
}

/// Fields are dropped in this order: the server ends before its directory goes, also when a test panics.
pub struct Registry {
    server: Server,
    watchdog: Watchdog,
    dir: PathBuf,
    options: Options,
}

impl Registry {
    /// An empty one, with a certificate authority that no other registry shares.
    pub fn start(options: Options) -> Self {
        LazyLock::force(&TOOLS);
        install_provider();
        // A port that was free can be taken when the registry binds it.
        let mut attempts = (0..5).map(|_| Self::try_start(options));
        attempts
            .find(|outcome| !matches!(outcome, Err(why) if why.contains("address already in use")))
            .unwrap_or_else(|| Err("no free port in 5 attempts".to_owned()))
            .unwrap_or_else(|why| panic!("the registry did not start: {why}"))
    }

    fn try_start(options: Options) -> Result<Self, String> {
        let dir = tempfile::Builder::new().prefix("airgate-registry-").tempdir().expect("a temporary directory").keep();
        let watchdog = Watchdog::over(&dir);
        self_signed::ensure(&dir, &[]).expect("certificates for a registry");
        // An empty directory leaves the search to the PATH.
        let server = Server::new("docker-registry", Path::new(""), &dir, free_port());
        let mut registry = Self { server, watchdog, dir, options };
        registry.serve()?;
        Ok(registry)
    }

    /// Configures and starts the server, and waits until it answers.
    fn serve(&mut self) -> Result<(), String> {
        let path = |name: &str| self.dir.join(name).display().to_string();
        let mut config = json!({
            "version": 0.1,
            "log": {"level": "info", "accesslog": {"disabled": false}},
            "storage": {
                "filesystem": {"rootdirectory": path("storage")},
                "delete": {"enabled": true},
                "maintenance": {"uploadpurging": {"enabled": false}, "readonly": {"enabled": self.options.read_only}},
            },
            "http": {
                "addr": self.host(),
                "secret": "shared by nobody",
                "tls": {"certificate": path("tls.crt"), "key": path("tls.key")},
            },
        });
        if let Some((user, password)) = self.options.login {
            fs::write(path("htpasswd"), htpasswd(user, password)).expect("write htpasswd");
            config["auth"] = json!({"htpasswd": {"realm": "airgate tests", "path": path("htpasswd")}});
        }
        // JSON is YAML.
        fs::write(path("config.yml"), config.to_string()).expect("write config.yml");
        self.server.set_args(["serve".to_owned(), path("config.yml")]);
        let log = self.log();
        // By its own log, lest another one on the same port be taken for it, and without a request in it.
        let listening = format!("listening on {}", self.host());
        self.server.start(&self.watchdog, || fs::read_to_string(&log).is_ok_and(|text| text.contains(&listening)))
    }

    /// Starts it again on the same port, with what it holds. The access log begins anew.
    pub fn restart(&mut self, options: Options) {
        self.server.stop();
        self.options = options;
        self.serve().unwrap_or_else(|why| panic!("the registry did not start again: {why}"));
    }

    /// It is gone; its port refuses connections.
    pub fn stop(&mut self) {
        self.server.stop();
    }

    /// `127.0.0.1:PORT`, for which its certificate is good.
    pub fn host(&self) -> String {
        format!("127.0.0.1:{}", self.server.port)
    }

    pub fn login(&self) -> Option<(&'static str, &'static str)> {
        self.options.login
    }

    /// The certificate authority that signed its certificate, PEM.
    pub fn ca_file(&self) -> PathBuf {
        self.dir.join("ca.crt")
    }

    /// What it stores, as `--releases` can take it: `docker/registry/v2` below.
    pub fn storage(&self) -> PathBuf {
        self.dir.join("storage")
    }

    fn log(&self) -> PathBuf {
        self.dir.join("docker-registry.log")
    }

    /// Requests it has answered so far, such as `GET /v2/ocp/release/manifests/sha256:... 200`.
    pub fn requests(&self) -> Vec<String> {
        let log = fs::read_to_string(self.log()).expect("read the registry's log");
        // 127.0.0.1 - - [DATE] "GET /v2/ HTTP/1.1" 200 2 "" "agent"
        let request = |line: &str| {
            let mut parts = line.split('"');
            let (address, request, status) = (parts.next()?, parts.next()?, parts.next()?);
            let (method_and_path, _) =
                request.strip_suffix("HTTP/1.1").or(request.strip_suffix("HTTP/2.0"))?.rsplit_once(' ')?;
            let status = status.split_whitespace().next()?;
            address.contains(" - ").then(|| format!("{method_and_path} {status}"))
        };
        log.lines().filter_map(request).collect()
    }

    /// Waits for a request that was answered but may not be logged yet.
    pub fn eventually_asked(&self, part: &str) {
        eventually(&format!("a request with {part} in the access log"), || {
            self.requests().iter().any(|request| request.contains(part)).then_some(())
        });
    }

    /// Credentials for it as podman, skopeo and oc write them, in a file that goes away with it.
    pub fn authfile(&self) -> PathBuf {
        let file = self.dir.join("auth.json");
        let auths: Value = self.login().map_or_else(|| json!({}), |login| json!({self.host(): auth(login)}));
        fs::write(&file, json!({"auths": auths}).to_string()).expect("write auth.json");
        file
    }
}

/// The entry of a registry in a pull secret.
pub fn auth((user, password): (&str, &str)) -> Value {
    use base64::Engine;
    json!({"auth": base64::engine::general_purpose::STANDARD.encode(format!("{user}:{password}"))})
}

/// The file by which docker-registry knows a user; it takes bcrypt only.
fn htpasswd(user: &str, password: &str) -> Vec<u8> {
    let mut child = Command::new("htpasswd")
        .args(["-niBC", "4", user])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("run htpasswd");
    child.stdin.take().expect("its input").write_all(password.as_bytes()).expect("write the password");
    let output = child.wait_with_output().expect("wait for htpasswd");
    assert!(output.status.success(), "htpasswd failed");
    output.stdout
}
