//! The registry of one node, as the machine-config-operator runs it: on port 22625, by a certificate for a name that
//! stands for all nodes.

use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex};

use axum::body::Body;
use axum::http::{Request, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio_rustls::TlsAcceptor;

use crate::server::random;

pub const HOST: &str = "api-int.c.example.test";
const PASSWORD: &str = "openshift:s3cret";
const PORT: u16 = 22625;

/// The manifest of a release image, and its digest.
#[derive(Clone)]
pub struct Manifest {
    pub digest: String,
    bytes: String,
}

impl Manifest {
    pub fn new(version: &str) -> Self {
        let bytes = format!(
            r#"{{"schemaVersion":2,"mediaType":"application/vnd.docker.distribution.manifest.v2+json","annotations":{{"version":"{version}"}}}}"#
        );
        Self { digest: crate::testing::sha256(bytes.as_bytes()), bytes }
    }
}

/// Whose certificates the nodes' registries have.
pub struct Ca {
    pub pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Ca {
    pub fn new() -> Self {
        let mut params = CertificateParams::new(vec![]).expect("parameters");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let pem = params.self_signed(&key).expect("a certificate").pem();
        Self { pem, issuer: Issuer::new(params, key) }
    }

    fn server(&self, host: &str) -> ServerConfig {
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(vec![host.to_owned()]).expect("parameters");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        let chain = vec![CertificateDer::from(certificate.der().to_vec())];
        let key = PrivateKeyDer::try_from(key.serialize_der()).expect("a key");
        airgate::tls::install_provider();
        ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key).expect("a configuration")
    }
}

pub struct NodeRegistry {
    pub address: IpAddr,
    held: Arc<Mutex<Vec<Manifest>>>,
    /// `METHOD PATH` of what was asked by somebody whose password was right.
    asked: Arc<Mutex<Vec<String>>>,
    _runtime: Runtime,
}

impl NodeRegistry {
    /// On a loopback address of its own.
    pub fn start(ca: &Ca, host: &str) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
        let tls = TlsAcceptor::from(Arc::new(ca.server(host)));
        let (listener, address) = runtime.block_on(async {
            loop {
                let [_, second, third, fourth, ..] = random().to_be_bytes();
                let address = Ipv4Addr::new(127, second, third, fourth.clamp(1, 254));
                if let Ok(listener) = TcpListener::bind((address, PORT)).await {
                    return (listener, IpAddr::from(address));
                }
            }
        });
        let (held, asked) = (Arc::<Mutex<Vec<Manifest>>>::default(), Arc::<Mutex<Vec<String>>>::default());
        let (has, log) = (Arc::clone(&held), Arc::clone(&asked));
        runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (tls, has, log) = (tls.clone(), Arc::clone(&has), Arc::clone(&log));
                tokio::spawn(async move {
                    let Ok(stream) = tls.accept(stream).await else { return };
                    let answer = service_fn(move |request| {
                        let response = respond(&request, &has, &log);
                        async move { Ok::<_, Infallible>(response) }
                    });
                    // A client that hangs up is no fault here.
                    drop(Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), answer).await);
                });
            }
        });
        Self { address, held, asked, _runtime: runtime }
    }

    pub fn hold(&self, manifests: &[Manifest]) {
        *self.held.lock().expect("a lock") = manifests.to_vec();
    }

    pub fn asked(&self) -> Vec<String> {
        self.asked.lock().expect("a lock").clone()
    }
}

fn respond<B>(request: &Request<B>, held: &Mutex<Vec<Manifest>>, asked: &Mutex<Vec<String>>) -> Response<Body> {
    let answer = |code: u16, kind: &str, body: String| {
        let response = Response::builder().status(code).header("content-type", kind);
        response.header("www-authenticate", "Basic realm=\"registry\"").body(Body::from(body)).expect("a response")
    };
    let expected = format!("Basic {}", STANDARD.encode(PASSWORD));
    if request.headers().get("authorization").is_none_or(|got| got.as_bytes() != expected.as_bytes()) {
        return answer(401, "application/json", r#"{"errors":[{"code":"UNAUTHORIZED"}]}"#.to_owned());
    }
    let path = request.uri().path();
    asked.lock().expect("a lock").push(format!("{} {path}", request.method()));
    let digest = path.strip_prefix("/v2/openshift/release-images/manifests/");
    let held = held.lock().expect("a lock");
    match held.iter().find(|manifest| Some(&*manifest.digest) == digest) {
        Some(manifest) => answer(200, "application/vnd.docker.distribution.manifest.v2+json", manifest.bytes.clone()),
        None => answer(404, "application/json", r#"{"errors":[{"code":"MANIFEST_UNKNOWN"}]}"#.to_owned()),
    }
}
