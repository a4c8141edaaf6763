//! An HTTPS server in the place of airgate that allows everything and keeps what it was asked.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use airgate::tls::self_signed;
use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path as UrlPath, State};
use axum::routing::post;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// One call: the last part of the URL, which names the webhook, and the review.
pub type Call = (String, Value);

pub struct Recorder {
    pub port: u16,
    calls: Arc<Mutex<Vec<Call>>>,
    _runtime: Runtime,
}

impl Recorder {
    /// Its certificate is made in `dir`, with `ca.crt` beside it.
    pub fn start(dir: &Path) -> Self {
        Self::slow(dir, Duration::ZERO)
    }

    /// The same, which takes its time to answer.
    pub fn slow(dir: &Path, delay: Duration) -> Self {
        airgate::tls::install_provider();
        self_signed::ensure(dir, &[]).expect("make a certificate");
        let calls = Arc::new(Mutex::new(vec![]));
        let app = Router::new().route("/{webhook}", post(allow)).with_state((calls.clone(), delay));
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let tls = acceptor(dir);
        let tcp = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).expect("a free port");
        let port = tcp.local_addr().expect("a bound port").port();
        runtime.spawn(async move { axum::serve(Https { tcp, tls }, app).await.expect("serve") });
        Self { port, calls, _runtime: runtime }
    }

    /// What was asked since the last time, which is complete once the API server has answered.
    pub fn take(&self) -> Vec<Call> {
        std::mem::take(&mut *self.calls.lock().unwrap())
    }
}

struct Https {
    tcp: TcpListener,
    tls: TlsAcceptor,
}

impl axum::serve::Listener for Https {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, SocketAddr) {
        loop {
            let (stream, from) = self.tcp.accept().await.expect("accept");
            if let Ok(stream) = self.tls.accept(stream).await {
                return (stream, from);
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.tcp.local_addr()
    }
}

fn acceptor(dir: &Path) -> TlsAcceptor {
    let certificates = CertificateDer::pem_file_iter(dir.join("tls.crt")).unwrap().map(Result::unwrap).collect();
    let key = PrivateKeyDer::from_pem_file(dir.join("tls.key")).unwrap();
    let config = rustls::ServerConfig::builder().with_no_client_auth().with_single_cert(certificates, key).unwrap();
    TlsAcceptor::from(Arc::new(config))
}

type Shared = (Arc<Mutex<Vec<Call>>>, Duration);

async fn allow(State((calls, delay)): State<Shared>, UrlPath(webhook): UrlPath<String>, body: Bytes) -> String {
    let review: Value = serde_json::from_slice(&body).expect("an AdmissionReview");
    let response = json!({"uid": review["request"]["uid"], "allowed": true});
    calls.lock().unwrap().push((webhook, review));
    tokio::time::sleep(delay).await;
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}).to_string()
}
