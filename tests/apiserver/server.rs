//! A server process on a loopback port, and the watchdog that ends all of them
//! when the test process is gone, however it went.

use std::collections::hash_map::RandomState;
use std::fs::File;
use std::hash::{BuildHasher, Hasher};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Time for a server to come up; far more than the 3 s it takes, since a
/// machine that runs tests is a busy one.
const START_LIMIT: Duration = Duration::from_mins(1);
const POLL: Duration = Duration::from_millis(50);

/// Asks `probe` until it has an answer. `None` when `limit` passed without one.
pub fn poll<T>(limit: Duration, mut probe: impl FnMut() -> Option<T>) -> Option<T> {
    let end = Instant::now() + limit;
    loop {
        if let Some(answer) = probe() {
            return Some(answer);
        }
        if Instant::now() >= end {
            return None;
        }
        thread::sleep(POLL);
    }
}

/// As `poll`, for what must come true: panics with `what` when it did not.
pub fn eventually<T>(what: &str, probe: impl FnMut() -> Option<T>) -> T {
    let limit = Duration::from_secs(30);
    poll(limit, probe).unwrap_or_else(|| panic!("not within {limit:?}: {what}"))
}

/// By the keys of the standard library's hash maps: no crate needed for it.
pub fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// A free port below the range from which the kernel picks the ports of
/// clients, so that no outgoing connection takes it while its server restarts.
pub fn free_port() -> u16 {
    let listen = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok();
    (0..100)
        .map(|_| 20_000 + (random() % 12_000) as u16)
        .find(|port| listen(*port))
        .expect("a free loopback port between 20000 and 32000")
}

pub fn accepts(port: u16) -> bool {
    TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok()
}

/// Ends its process group and removes a directory once its standard input is
/// closed, which the kernel does for us even when this process is killed. Drop
/// does not run for statics, and not in a process that was killed or aborted.
/// The group is its own, so a process that ends it must leave it first.
const WATCHDOG: &str = r#"
read -r _
setsid sh -c '
  kill -s KILL -- -"$1"
  for attempt in 1 2 3 4 5; do rm -rf "$2" && exit; sleep 0.1; done
' sh $$ "$1"
"#;

pub struct Watchdog {
    process: Child,
    dir: PathBuf,
}

impl Watchdog {
    pub fn over(dir: &Path) -> Self {
        let process = Command::new("sh")
            .args(["-c", WATCHDOG, "sh"])
            .arg(dir)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .expect("start sh as the watchdog");
        Self { process, dir: dir.to_owned() }
    }

    /// Starts a process that ends at the latest with the test process. It must
    /// not inherit our output, or whoever reads that would wait for it too.
    pub fn spawn(&self, command: &mut Command, log: &Path) -> Child {
        let log = File::create(log).expect("create a server's log");
        command
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("clone a file handle"))
            .stderr(log)
            .process_group(self.process.id().cast_signed())
            .spawn()
            .unwrap_or_else(|error| panic!("start {}: {error}", command.get_program().display()))
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        self.process.wait().expect("wait for the watchdog");
        poll(Duration::from_secs(5), || (!self.dir.exists()).then_some(()));
    }
}

/// A server that can be stopped and started again on the same port.
pub struct Server {
    pub port: u16,
    name: &'static str,
    program: PathBuf,
    /// From the next start on.
    pub args: Vec<String>,
    log: PathBuf,
    process: Option<Child>,
}

impl Server {
    pub fn new(name: &'static str, binaries: &Path, dir: &Path, port: u16) -> Self {
        let log = dir.join(format!("{name}.log"));
        Self { port, name, program: binaries.join(name), args: vec![], log, process: None }
    }

    pub fn set_args<I: IntoIterator<Item = String>>(&mut self, args: I) {
        self.args = args.into_iter().collect();
    }

    /// Starts it and waits until `ready`. The error holds the tail of its log.
    pub fn start(&mut self, watchdog: &Watchdog, mut ready: impl FnMut() -> bool) -> Result<(), String> {
        assert!(self.process.is_none(), "{} is running already", self.name);
        let mut command = Command::new(&self.program);
        command.args(&self.args);
        let process = self.process.insert(watchdog.spawn(&mut command, &self.log));
        let port = self.port;
        let outcome = poll(START_LIMIT, || match process.try_wait() {
            Ok(None) => (accepts(port) && ready()).then_some(Ok(())),
            Ok(Some(status)) => Some(Err(format!("ended with {status}"))),
            Err(error) => Some(Err(error.to_string())),
        });
        outcome.unwrap_or_else(|| Err(format!("not ready within {START_LIMIT:?}"))).map_err(|why| {
            self.stop();
            format!("{} on port {port}: {why}; the end of its log:\n{}", self.name, self.log_tail(40))
        })
    }

    /// Kills it: what is tested is what happens when a server is gone.
    pub fn stop(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().unwrap_or_else(|error| panic!("kill {}: {error}", self.name));
            process.wait().unwrap_or_else(|error| panic!("wait for {}: {error}", self.name));
        }
    }

    fn log_tail(&self, count: usize) -> String {
        let log = std::fs::read(&self.log).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(count)..].join("\n")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}
