//! One airgate process among several.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use serde_json::Value;

use crate::guard::{AIRGATE, http_get};
use crate::server::{eventually, free_port};
use crate::testbed::Testbed;

pub struct Replica {
    pub port: u16,
    pub health: u16,
    admin: u16,
    log: PathBuf,
    process: Child,
}

/// What its command line says beside the ports.
pub struct Setup<'a> {
    pub kubeconfig: PathBuf,
    pub releases: PathBuf,
    pub tls: &'a Path,
    pub config: PathBuf,
    pub cache: Option<PathBuf>,
    pub environment: Vec<(&'static str, String)>,
    /// A shell script that ends with `exec "$@"`, to be run around it.
    pub around: Option<String>,
}

impl Replica {
    /// Starts it. Whoever needs it to be ready waits.
    pub fn start(testbed: &Testbed, setup: &Setup<'_>) -> Self {
        let [port, health, admin] = [free_port(), free_port(), free_port()];
        let mut command = match &setup.around {
            None => Command::new(AIRGATE),
            Some(script) => {
                let mut command = Command::new("sh");
                command.args(["-c", script, "sh", AIRGATE]);
                command
            }
        };
        command.arg("serve").arg("--kubeconfig").arg(&setup.kubeconfig).arg("--releases").arg(&setup.releases);
        command.arg("--tls-dir").arg(setup.tls).arg("--config").arg(&setup.config);
        if let Some(cache) = &setup.cache {
            command.arg("--cache-dir").arg(cache);
        }
        for (flag, port) in [("listen", port), ("health-listen", health), ("admin-listen", admin)] {
            command.arg(format!("--{flag}=127.0.0.1:{port}"));
        }
        command.envs(setup.environment.iter().map(|(name, value)| (name, value)));
        let log = testbed.dir().join(format!("replica-{port}.log"));
        let process = testbed.spawn(&mut command, &log);
        Self { port, health, admin, log, process }
    }

    pub fn ready(&self) -> bool {
        http_get(self.health, "/readyz").is_some_and(|(code, _)| code == 200)
    }

    pub fn wait_until_ready(&mut self) {
        eventually("the replica is ready", || {
            if let Ok(Some(status)) = self.process.try_wait() {
                panic!("the replica ended with {status}:\n{}", self.log());
            }
            self.ready().then_some(())
        });
    }

    pub fn statusz(&self) -> Value {
        let (_, body) = http_get(self.admin, "/statusz").unwrap_or_default();
        serde_json::from_str(&body).unwrap_or_default()
    }

    /// How many reviews it has judged.
    pub fn reviews(&self) -> u64 {
        let (_, body) = http_get(self.health, "/metrics").unwrap_or_default();
        let counts = body.lines().filter(|line| line.starts_with("airgate_reviews_total"));
        counts.filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok()).sum()
    }

    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// SIGTERM, and waits for the orderly end.
    pub fn terminate(mut self) {
        self.signal("TERM");
        let status = eventually("the replica ended", || self.process.try_wait().expect("wait for airgate"));
        assert!(status.success(), "{status}:\n{}", self.log());
    }

    fn signal(&self, name: &str) {
        let pid = self.process.id().to_string();
        let sent = Command::new("sh").args(["-c", "kill -s \"$0\" \"$1\"", name, &pid]).status().expect("run kill");
        assert!(sent.success());
    }
}

/// Killed: what needs an orderly end asks for it.
impl Drop for Replica {
    fn drop(&mut self) {
        if matches!(self.process.try_wait(), Ok(None)) {
            self.process.kill().expect("kill airgate");
            self.process.wait().expect("wait for airgate");
        }
    }
}
