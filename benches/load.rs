//! `airgate serve` under load, over TLS on loopback: how long an answer takes, what it costs and what it needs.
//!
//! Prints Markdown for docs/performance.md. With the word `instructions`: how many instructions the server spends on
//! a review, counted by valgrind, the same to a percent however busy the machine is.
#![expect(clippy::print_stdout, reason = "a report")]

#[path = "support/report.rs"]
mod report;
mod support;

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use airgate::tls::{install_provider, self_signed};
use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use report::{machine, median};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use support::{CHANGES, Change, SIZES, Size};
use tempfile::TempDir;
use tokio_rustls::TlsConnector;

const ROUNDS: usize = 3;
const WARM_UP: Duration = Duration::from_millis(200);
const MEASURED: Duration = Duration::from_secs(1);
const STARTS: usize = 9;
/// Nothing here takes longer, under valgrind on a busy machine either.
const LIMIT: Duration = Duration::from_mins(2);

fn main() -> Result<()> {
    install_provider();
    let site = Site::write()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    if std::env::args().any(|argument| argument == "instructions") {
        return runtime.block_on(instructions(&site));
    }
    println!("{}\n", machine()?);
    println!("{}\n", starts(&site)?);
    runtime.block_on(load(&site))
}

/// The directories that the server is started with.
struct Site(TempDir);

impl Site {
    fn write() -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let path = |name: &str| directory.path().join(name);
        for name in ["state", "releases"] {
            fs::create_dir(path(name))?;
        }
        for (number, object) in support::cluster().into_iter().enumerate() {
            fs::write(path("state").join(format!("{number}.json")), object.to_string())?;
        }
        fs::write(path("releases").join("catalog.json"), support::catalog().to_string())?;
        // Made here, so that the server does not make keys when it starts.
        self_signed::ensure(&path("tls"), &[])?;
        Ok(Self(directory))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

/// A running server; ends with its value.
struct Server {
    child: Child,
    webhook: SocketAddr,
    ready_after: Duration,
}

impl Server {
    /// Starts it, below another program where one is named, and waits until it is ready.
    fn start(site: &Site, below: &[&str]) -> Result<Self> {
        let log = site.path("log");
        let words: Vec<&str> = below.iter().copied().chain([env!("CARGO_BIN_EXE_airgate"), "serve"]).collect();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]);
        for (flag, directory) in [("--state", "state"), ("--releases", "releases"), ("--tls-dir", "tls")] {
            command.arg(flag).arg(site.path(directory));
        }
        for flag in ["--listen", "--health-listen", "--admin-listen"] {
            command.args([flag, "127.0.0.1:0"]);
        }
        command.env("AIRGATE_LOG", "info").stdin(Stdio::null()).stdout(Stdio::null()).stderr(fs::File::create(&log)?);
        let start = Instant::now();
        let mut server =
            Self { child: command.spawn()?, webhook: ([0; 4], 0).into(), ready_after: Duration::default() };
        let listening = loop {
            let text = fs::read_to_string(&log)?;
            if let Some(line) =
                text.split_inclusive('\n').find(|line| line.contains("listening") && line.ends_with('\n'))
            {
                break serde_json::from_str::<serde_json::Value>(line)?;
            }
            ensure!(server.child.try_wait()?.is_none() && start.elapsed() < LIMIT, "the server did not start: {text}");
            std::thread::sleep(Duration::from_micros(200));
        };
        let address = |port: &str| -> Result<SocketAddr> {
            Ok(listening[port].as_str().with_context(|| format!("no {port} in {listening}"))?.parse()?)
        };
        server.webhook = address("webhook")?;
        let health = address("health")?;
        while !ready(health)? {
            ensure!(start.elapsed() < LIMIT, "the server did not become ready");
            std::thread::sleep(Duration::from_micros(200));
        }
        server.ready_after = start.elapsed();
        Ok(server)
    }

    /// User and system time so far. Linux counts them in hundredths of a second for every reader.
    fn cpu(&self) -> Result<[Duration; 2]> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        let fields: Vec<&str> = stat.rsplit_once(')').context("no name")?.1.split_whitespace().collect();
        let ticks =
            |field: usize| -> Result<Duration> { Ok(Duration::from_millis(fields[field].parse::<u64>()? * 10)) };
        Ok([ticks(11)?, ticks(12)?])
    }

    /// Resident memory in MiB.
    fn resident(&self) -> Result<f64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
        let kib: f64 = line.trim().trim_end_matches(" kB").parse()?;
        Ok(kib / 1024.0)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Whatever is wrong with it, it is to be gone.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn ready(health: SocketAddr) -> Result<bool> {
    let mut stream = TcpStream::connect(health)?;
    stream.write_all(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer.starts_with("HTTP/1.1 200"))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Protocol {
    Http1,
    Http2,
}

/// What to send, and what must come back.
#[derive(Clone)]
struct Review {
    name: String,
    body: Bytes,
    allowed: &'static str,
}

impl Review {
    fn update(size: Size, change: Change) -> Self {
        let name = format!("{} {}", size.name, change.name);
        let allowed = if change.name == "denied" { "\"allowed\":false" } else { "\"allowed\":true" };
        Self { name, body: support::update(size, change).into(), allowed }
    }

    fn delete() -> Self {
        let name = "InternalReleaseImage deleted".into();
        Self { name, body: support::delete().into(), allowed: "\"allowed\":false" }
    }
}

enum Connection {
    Http1(http1::SendRequest<Full<Bytes>>),
    Http2(http2::SendRequest<Full<Bytes>>),
}

impl Connection {
    async fn open(tls: &Arc<ClientConfig>, server: SocketAddr, protocol: Protocol) -> Result<Self> {
        let mut tls = ClientConfig::clone(tls);
        tls.alpn_protocols = vec![if protocol == Protocol::Http2 { b"h2".to_vec() } else { b"http/1.1".to_vec() }];
        let stream = tokio::net::TcpStream::connect(server).await?;
        stream.set_nodelay(true)?;
        let stream =
            TlsConnector::from(Arc::new(tls)).connect(ServerName::IpAddress(server.ip().into()), stream).await?;
        let io = TokioIo::new(stream);
        Ok(if protocol == Protocol::Http2 {
            let (sender, connection) = http2::handshake(TokioExecutor::new(), io).await?;
            tokio::spawn(connection);
            Self::Http2(sender)
        } else {
            let (sender, connection) = http1::handshake(io).await?;
            tokio::spawn(connection);
            Self::Http1(sender)
        })
    }

    /// One review and its answer.
    async fn send(&mut self, server: SocketAddr, review: &Review) -> Result<Duration> {
        let start = Instant::now();
        let request = Request::post(format!("https://{server}/validate?timeout=10s"))
            .header("host", server.to_string())
            .header("content-type", "application/json")
            .body(Full::new(review.body.clone()))?;
        let response = match self {
            Self::Http1(sender) => {
                sender.ready().await?;
                sender.send_request(request).await?
            }
            Self::Http2(sender) => {
                sender.ready().await?;
                sender.send_request(request).await?
            }
        };
        let answer = response.into_body().collect().await?.to_bytes();
        let took = start.elapsed();
        let answer = str::from_utf8(&answer)?;
        ensure!(answer.contains(review.allowed), "the answer to {} is {answer}", review.name);
        Ok(took)
    }
}

fn client(site: &Site) -> Result<Arc<ClientConfig>> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&fs::read(site.path("tls").join(self_signed::CA))?) {
        roots.add(certificate?)?;
    }
    Ok(Arc::new(ClientConfig::builder().with_root_certificates(roots).with_no_client_auth()))
}

/// One row of the table.
#[derive(Clone)]
struct Cell {
    review: Review,
    protocol: Protocol,
    connections: usize,
    /// A new connection for each review.
    fresh: bool,
}

#[derive(Clone, Copy)]
struct Measured {
    per_second: f64,
    p50: f64,
    p99: f64,
    user: f64,
    system: f64,
    resident: f64,
}

async fn load(site: &Site) -> Result<()> {
    let (tls, server) = (client(site)?, Server::start(site, &[])?);
    let cell = |review, protocol, connections, fresh| Cell { review, protocol, connections, fresh };
    let [small, middling, large] = SIZES;
    let mut cells = vec![];
    for change in CHANGES {
        let review = Review::update(middling, change);
        cells.extend([1, 16, 64].map(|connections| cell(review.clone(), Protocol::Http1, connections, false)));
        cells.push(cell(review, Protocol::Http2, 1, false));
    }
    let [_, allowed, _] = CHANGES;
    cells.push(cell(Review::update(middling, allowed), Protocol::Http1, 1, true));
    for review in [Review::update(small, allowed), Review::update(large, allowed), Review::delete()] {
        cells.push(cell(review, Protocol::Http1, 16, false));
    }
    let idle = server.resident()?;
    let mut rounds: Vec<Vec<Measured>> = vec![vec![]; cells.len()];
    for _ in 0..ROUNDS {
        for (cell, measured) in cells.iter().zip(&mut rounds) {
            measured.push(measure(cell, &tls, &server).await?);
        }
    }
    println!(
        "Median of {ROUNDS} rounds of {} s; a 51k review has {} bytes; server CPU as user + system:\n",
        MEASURED.as_secs(),
        cells[0].review.body.len()
    );
    println!("| review | protocol | connections | reviews/s | p50 ms | p99 ms | server CPU us/review | RSS MiB |");
    println!("|---|---|---|---|---|---|---|---|");
    for (cell, measured) in cells.iter().zip(&rounds) {
        let middle = |value: fn(&Measured) -> f64| median(measured.iter().map(value).collect());
        let protocol = match (cell.protocol, cell.fresh) {
            (Protocol::Http2, _) => "HTTP/2",
            (Protocol::Http1, false) => "HTTP/1.1",
            (Protocol::Http1, true) => "HTTP/1.1, a handshake each",
        };
        println!(
            "| {} | {protocol} | {} | {:.0} | {:.2} | {:.2} | {:.0} ({:.0} + {:.0}) | {:.1} |",
            cell.review.name,
            cell.connections,
            middle(|m| m.per_second),
            middle(|m| m.p50),
            middle(|m| m.p99),
            middle(|m| m.user + m.system),
            middle(|m| m.user),
            middle(|m| m.system),
            middle(|m| m.resident),
        );
    }
    println!("\nRSS before the first review: {idle:.1} MiB; after the last: {:.1} MiB.", server.resident()?);
    Ok(())
}

/// Keeps all connections busy; counts once they are warm.
async fn measure(cell: &Cell, tls: &Arc<ClientConfig>, server: &Server) -> Result<Measured> {
    let (counting, stop) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..cell.connections {
        let (cell, tls, address) = (cell.clone(), tls.clone(), server.webhook);
        let (counting, stop) = (counting.clone(), stop.clone());
        tasks.spawn(async move {
            let mut times = vec![];
            let mut connection = Connection::open(&tls, address, cell.protocol).await?;
            while !stop.load(Ordering::Relaxed) {
                let start = Instant::now();
                if cell.fresh {
                    connection = Connection::open(&tls, address, cell.protocol).await?;
                }
                connection.send(address, &cell.review).await?;
                if counting.load(Ordering::Relaxed) {
                    times.push(start.elapsed());
                }
            }
            anyhow::Ok(times)
        });
    }
    tokio::time::sleep(WARM_UP).await;
    let (start, before) = (Instant::now(), server.cpu()?);
    counting.store(true, Ordering::Relaxed);
    tokio::time::sleep(MEASURED).await;
    counting.store(false, Ordering::Relaxed);
    let (took, after, resident) = (start.elapsed(), server.cpu()?, server.resident()?);
    stop.store(true, Ordering::Relaxed);
    let mut times = vec![];
    while let Some(of_task) = tokio::time::timeout(LIMIT, tasks.join_next()).await? {
        times.extend(of_task??);
    }
    if times.is_empty() {
        bail!("no answer within {} s", MEASURED.as_secs());
    }
    times.sort_unstable();
    let part = |hundredths: usize| times[(times.len() * hundredths / 100).min(times.len() - 1)].as_secs_f64() * 1e3;
    #[expect(clippy::cast_precision_loss, reason = "some thousands")]
    let count = times.len() as f64;
    let micros = |part: usize| after[part].saturating_sub(before[part]).as_secs_f64() * 1e6 / count;
    Ok(Measured {
        per_second: count / took.as_secs_f64(),
        p50: part(50),
        p99: part(99),
        user: micros(0),
        system: micros(1),
        resident,
    })
}

fn starts(site: &Site) -> Result<String> {
    let mut times = vec![];
    for _ in 0..STARTS {
        times.push(Server::start(site, &[])?.ready_after.as_secs_f64() * 1e3);
    }
    times.sort_by(f64::total_cmp);
    let (least, most) = (times[0], times[STARTS - 1]);
    Ok(format!("Start to ready: {:.1} ms (median of {STARTS}, {least:.1} to {most:.1}).", median(times)))
}

/// The difference between a short and a long run, so that start and end do not count.
async fn instructions(site: &Site) -> Result<()> {
    const FEW: u64 = 100;
    const MANY: u64 = 600;
    println!("| review | instructions of the server per review |\n|---|---|");
    let updates = CHANGES.map(|change| Review::update(SIZES[1], change));
    for review in updates.into_iter().chain([Review::delete()]) {
        let few = counted(site, &review, FEW).await?;
        let many = counted(site, &review, MANY).await?;
        println!("| {} | {} |", review.name, (many - few) / (MANY - FEW));
    }
    Ok(())
}

async fn counted(site: &Site, review: &Review, requests: u64) -> Result<u64> {
    let output = site.path("callgrind");
    let option = format!("--callgrind-out-file={}", output.display());
    let mut server = Server::start(site, &["valgrind", "--quiet", "--tool=callgrind", &option])?;
    let mut connection = Connection::open(&client(site)?, server.webhook, Protocol::Http1).await?;
    for _ in 0..requests {
        connection.send(server.webhook, review).await?;
    }
    // Twice: the second signal ends the drain, and with it the process.
    let (pid, start) = (server.child.id().to_string(), Instant::now());
    while server.child.try_wait()?.is_none() {
        ensure!(start.elapsed() < LIMIT, "the server does not end");
        Command::new("kill").arg(&pid).stderr(Stdio::null()).status()?;
        std::thread::sleep(Duration::from_millis(200));
    }
    total(&output)
}

fn total(output: &Path) -> Result<u64> {
    let text = fs::read_to_string(output)?;
    let line = text.lines().find_map(|line| line.strip_prefix("totals:")).context("no totals from valgrind")?;
    Ok(line.trim().parse()?)
}
