//! An HTTPS server in the place of airgate that allows everything and keeps what it was asked.

use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::sync::{Arc, Mutex};

use airgate::tls::self_signed;
use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path as UrlPath, State};
use axum::routing::post;
use axum_server::tls_rustls::RustlsConfig;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

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
        airgate::tls::install_provider();
        self_signed::ensure(dir, &[]).expect("make a certificate");
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        listener.set_nonblocking(true).expect("a socket for tokio");
        let port = listener.local_addr().expect("a bound port").port();
        let calls = Arc::new(Mutex::new(vec![]));
        let app = Router::new().route("/{webhook}", post(allow)).with_state(calls.clone());
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (certificate, key) = (dir.join("tls.crt"), dir.join("tls.key"));
        runtime.spawn(async move {
            let tls = RustlsConfig::from_pem_file(certificate, key).await.expect("a TLS configuration");
            let server = axum_server::from_tcp_rustls(listener, tls).expect("an HTTPS server");
            server.serve(app.into_make_service()).await.expect("serve");
        });
        Self { port, calls, _runtime: runtime }
    }

    /// What was asked since the last time, which is complete once the API server has answered.
    pub fn take(&self) -> Vec<Call> {
        std::mem::take(&mut *self.calls.lock().unwrap())
    }
}

async fn allow(State(calls): State<Arc<Mutex<Vec<Call>>>>, UrlPath(webhook): UrlPath<String>, body: Bytes) -> String {
    let review: Value = serde_json::from_slice(&body).expect("an AdmissionReview");
    let response = json!({"uid": review["request"]["uid"], "allowed": true});
    calls.lock().unwrap().push((webhook, review));
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}).to_string()
}
