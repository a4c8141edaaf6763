//! A server of its own for each test: random ports, its own certificates, a stub that does what the request
//! body says.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use airgate::http::limits::Limits;
use airgate::http::server::{Addresses, Bound, Parts, ServerError, ServerSettings, run};
use airgate::http::tasks::Tasks;
use airgate::http::{Admit, Answer};
use airgate::metrics::Metrics;
use airgate::readiness::{Condition, Readiness};
use airgate::shutdown::{Drain, Signal};
use airgate::tls::{Source, TlsSettings, install_provider, self_signed};

/// Far beyond what anything takes on the slowest machine.
pub const LIMIT: Duration = Duration::from_mins(1);

/// `panic`, `hang`, `gate` (waits until the test opens it), anything else is described back.
#[derive(Clone)]
pub struct Stub {
    pub entered: Arc<Semaphore>,
    pub gate: Arc<Semaphore>,
}

impl Admit for Stub {
    async fn admit(&self, body: Bytes, deadline: Instant) -> Answer {
        match &*body {
            b"panic" => panic!("asked to, by the test"),
            b"hang" => std::future::pending::<()>().await,
            b"gate" => {
                self.entered.add_permits(1);
                self.gate.acquire().await.unwrap().forget();
            }
            _ => {}
        }
        let left = deadline.saturating_duration_since(Instant::now()).as_millis();
        let text = serde_json::json!({"bytes": body.len(), "left_ms": u64::try_from(left).unwrap()}).to_string();
        Answer { status: axum::http::StatusCode::OK, body: text.into() }
    }
}

pub struct Server {
    pub addresses: Addresses,
    pub stub: Stub,
    pub metrics: Metrics,
    pub waits: Condition,
    pub signals: mpsc::Sender<Signal>,
    pub running: JoinHandle<Result<(), ServerError>>,
    pub dir: PathBuf,
    _own: tempfile::TempDir,
}

pub struct Setup {
    pub limits: Limits,
    pub drain: Drain,
    pub client_ca: Option<PathBuf>,
    pub tasks: Tasks,
    own: tempfile::TempDir,
    pub dir: PathBuf,
}

impl Setup {
    pub fn new() -> Self {
        install_provider();
        let own = tempfile::tempdir().unwrap();
        let dir = own.path().join("tls");
        // Long limits: a test that is about one of them sets it.
        let limits = Limits { handshake: LIMIT, header: LIMIT, idle: LIMIT * 2, ..Limits::default() };
        let drain = Drain { keep_serving: Duration::ZERO, finish: LIMIT };
        Self { limits, drain, client_ca: None, tasks: Tasks::new(), own, dir }
    }

    pub fn limits(mut self, change: impl FnOnce(&mut Limits)) -> Self {
        change(&mut self.limits);
        self
    }

    pub fn drain(mut self, drain: Drain) -> Self {
        self.drain = drain;
        self
    }

    pub async fn start(self) -> Server {
        if !self.dir.exists() {
            self_signed::ensure(&self.dir, &[]).unwrap();
        }
        let tls = TlsSettings::new(Source::Directory(self.dir.clone()), self.client_ca.clone());
        let settings = ServerSettings {
            listen: (Ipv6Addr::UNSPECIFIED, 0).into(),
            health_listen: (Ipv4Addr::LOCALHOST, 0).into(),
            admin_listen: (Ipv4Addr::LOCALHOST, 0).into(),
            tls_poll: Duration::from_millis(20),
            limits: self.limits,
            drain: self.drain,
            ..ServerSettings::new(tls)
        };
        let (metrics, readiness) = (Metrics::new(), Readiness::new());
        let waits = readiness.condition("stub", "the test");
        let stub = Stub { entered: Arc::new(Semaphore::new(0)), gate: Arc::new(Semaphore::new(0)) };
        let (signals, receiver) = mpsc::channel(2);
        let bound = Bound::bind(settings, metrics.clone()).await.unwrap();
        let addresses = bound.addresses();
        let parts = Parts {
            admit: stub.clone(),
            readiness,
            statusz: Arc::new(|| serde_json::json!({"engine": "a stub"})),
            tasks: self.tasks,
            signals: receiver,
        };
        let running = tokio::spawn(run(bound, parts));
        Server { addresses, stub, metrics, waits, signals, running, dir: self.dir, _own: self.own }
    }
}

impl Server {
    /// The webhook port by IPv4.
    pub fn v4(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.addresses.webhook.port()).into()
    }

    /// By IPv4, and by IPv6 where the machine has it.
    pub fn all(&self) -> Vec<SocketAddr> {
        let v6 = SocketAddr::from((Ipv6Addr::LOCALHOST, self.addresses.webhook.port()));
        let has_v6 = std::net::TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_ok();
        std::iter::once(self.v4()).chain(has_v6.then_some(v6)).collect()
    }

    pub fn ca(&self) -> Vec<u8> {
        std::fs::read(self.dir.join(self_signed::CA)).unwrap()
    }

    /// Waits until a metric's line stands in the scrape.
    pub async fn metric(&self, line: &str) {
        until(line, async || self.metrics.encode().unwrap().lines().any(|found| found == line)).await;
    }
}

/// Polls until `condition` holds.
pub async fn until(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let start = Instant::now();
    while !condition().await {
        assert!(start.elapsed() < LIMIT, "waited too long for: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Bounds a wait.
pub async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(LIMIT, future).await.unwrap_or_else(|_| panic!("waited too long for: {what}"))
}

pub fn copy(from: &Path, to: &Path, names: &[&str]) {
    for name in names {
        std::fs::copy(from.join(name), to.join(name)).unwrap();
    }
}
