//! The registry and what can be wrong with it.

use std::convert::Infallible;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use airgate::tls::install_provider;
use axum::body::{Body, Bytes};
use axum::http::{Request, Response};
use futures::stream;
use http_body_util::BodyExt as _;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::testing::Store;

const PAGE: &str = "<html><body>please log in</body></html>";

/// What a registry does instead of answering as it should.
#[derive(Clone)]
pub enum Fault {
    /// Status, headers, body.
    Answer(u16, Vec<(&'static str, String)>, String),
    /// 200 with these bytes.
    Content(Vec<u8>),
    /// The right bytes under this type.
    Type(&'static str),
    /// A page of a login proxy.
    Page,
    /// A piece of the right bytes, then nothing for a long time.
    Stall,
    /// One byte every 200 ms.
    Trickle,
    /// A piece of the right bytes, then the connection breaks.
    Truncate,
    /// Zeros without end and without a length.
    Endless,
    /// No answer.
    Hang,
    /// The connection breaks without an answer.
    Break,
}

/// Where the path contains `on`, so many times.
#[derive(Clone)]
pub struct Rule {
    pub on: String,
    pub times: usize,
    pub fault: Fault,
}

pub fn always(on: impl Into<String>, fault: Fault) -> Rule {
    Rule { on: on.into(), times: usize::MAX, fault }
}

pub fn once(on: impl Into<String>, fault: Fault) -> Rule {
    Rule { on: on.into(), times: 1, fault }
}

pub fn status(code: u16) -> Fault {
    Fault::Answer(code, vec![], String::new())
}

pub fn redirect(code: u16, to: &str) -> Fault {
    Fault::Answer(code, vec![("location", to.to_owned())], String::new())
}

pub fn errors(code: u16, oci: &str, message: &str) -> Fault {
    let body = serde_json::json!({"errors": [{"code": oci, "message": message}]}).to_string();
    Fault::Answer(code, vec![], body)
}

/// Whom it lets in.
#[derive(Clone, Default)]
pub enum Auth {
    #[default]
    Anybody,
    /// These `Authorization` values, else 401 with these `WWW-Authenticate` lines.
    Only(Arc<Mutex<Vec<String>>>, Vec<String>),
    /// The same, but 404 instead, except at `/v2/`.
    Hidden(Arc<Mutex<Vec<String>>>, Vec<String>),
}

/// One request as it came.
#[derive(Clone, Debug)]
pub struct Seen {
    pub method: String,
    pub path: String,
    pub query: String,
    pub authorization: Option<String>,
    pub accept: String,
    pub body: String,
}

#[derive(Default)]
pub struct Setup {
    pub store: Store,
    pub rules: Vec<Rule>,
    pub auth: Auth,
    pub tls: Tls,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub enum Tls {
    /// A certificate of [`ca`] for every name in use.
    #[default]
    Good,
    None,
    /// A certificate of another CA.
    OtherCa,
    /// Of [`ca`], for another name.
    OtherName,
    Expired,
    /// Signed by itself and a CA, as `openssl req -x509` makes them.
    SelfSigned,
    /// The same, past its end.
    SelfSignedExpired,
}

pub struct Fake {
    /// `127.0.0.1:PORT`
    pub host: String,
    pub port: u16,
    /// What makes its certificate trusted: that of its CA, or its own.
    pub pem: String,
    state: Arc<State>,
}

struct State {
    store: Store,
    rules: Mutex<Vec<Rule>>,
    auth: Auth,
    log: Mutex<Vec<Seen>>,
}

impl Fake {
    pub fn log(&self) -> Vec<Seen> {
        self.state.log.lock().unwrap().clone()
    }

    pub fn paths(&self) -> Vec<String> {
        self.log().into_iter().map(|seen| seen.path).collect()
    }

    pub fn set(&self, rules: Vec<Rule>) {
        *self.state.rules.lock().unwrap() = rules;
    }

    /// The same registry by another name of this machine.
    pub fn named(&self, name: &str) -> String {
        format!("{name}:{}", self.port)
    }
}

pub struct Authority {
    pub pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(vec![]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self { pem, issuer: Issuer::new(params, key) }
    }
}

pub fn ca() -> &'static Authority {
    static CA: LazyLock<Authority> = LazyLock::new(|| Authority::new("the CA"));
    &CA
}

pub fn other_ca() -> &'static Authority {
    static CA: LazyLock<Authority> = LazyLock::new(|| Authority::new("another CA"));
    &CA
}

/// The configuration of a server and the PEM that makes it trusted.
pub fn server_config(tls: Tls) -> (ServerConfig, String) {
    install_provider();
    let names = ["127.0.0.1", "localhost", "registry.test", "api-int.test", "proxy.test"].map(str::to_owned);
    let names = if tls == Tls::OtherName { vec!["elsewhere.test".to_owned()] } else { names.to_vec() };
    let mut params = CertificateParams::new(names).unwrap();
    let key = KeyPair::generate().unwrap();
    if matches!(tls, Tls::Expired | Tls::SelfSignedExpired) {
        params.not_before = rcgen::date_time_ymd(2020, 1, 1);
        params.not_after = rcgen::date_time_ymd(2021, 1, 1);
    }
    let (certificate, pem) = match tls {
        Tls::SelfSigned | Tls::SelfSignedExpired => {
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            let certificate = params.self_signed(&key).unwrap();
            let pem = certificate.pem();
            (certificate, pem)
        }
        Tls::OtherCa => (params.signed_by(&key, &other_ca().issuer).unwrap(), other_ca().pem.clone()),
        _ => (params.signed_by(&key, &ca().issuer).unwrap(), ca().pem.clone()),
    };
    let chain = vec![CertificateDer::from(certificate.der().to_vec())];
    let key = PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes()).unwrap();
    let mut config = ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key).unwrap();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    (config, pem)
}

impl Setup {
    pub async fn start(self) -> Fake {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (config, pem) = server_config(self.tls);
        let acceptor = (self.tls != Tls::None).then(|| TlsAcceptor::from(Arc::new(config)));
        let state =
            Arc::new(State { store: self.store, rules: self.rules.into(), auth: self.auth, log: Mutex::default() });
        let serving = state.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, state) = (acceptor.clone(), serving.clone());
                tokio::spawn(async move {
                    let service = service_fn(move |request| answer(state.clone(), request));
                    let builder = Builder::new(TokioExecutor::new());
                    // An error is the client's doing or a fault that was asked for.
                    match acceptor {
                        None => drop(builder.serve_connection(TokioIo::new(stream), service).await),
                        Some(acceptor) => {
                            let Ok(stream) = acceptor.accept(stream).await else { return };
                            drop(builder.serve_connection(TokioIo::new(stream), service).await);
                        }
                    }
                });
            }
        });
        Fake { host: format!("127.0.0.1:{port}"), port, pem, state }
    }
}

async fn answer(state: Arc<State>, request: Request<hyper::body::Incoming>) -> Result<Response<Body>, std::io::Error> {
    let (parts, body) = request.into_parts();
    let header = |name: &str| parts.headers.get(name).map(|value| value.to_str().unwrap().to_owned());
    let path = parts.uri.path().to_owned();
    let seen = Seen {
        method: parts.method.to_string(),
        path: path.clone(),
        query: parts.uri.query().unwrap_or_default().to_owned(),
        authorization: header("authorization"),
        accept: header("accept").unwrap_or_default(),
        body: String::from_utf8(body.collect().await.map_err(std::io::Error::other)?.to_bytes().to_vec()).unwrap(),
    };
    state.log.lock().unwrap().push(seen.clone());
    let fault = {
        let mut rules = state.rules.lock().unwrap();
        let rule = rules.iter_mut().find(|rule| rule.times > 0 && path.contains(&rule.on));
        rule.map(|rule| {
            rule.times = rule.times.saturating_sub(usize::from(rule.times != usize::MAX));
            rule.fault.clone()
        })
    };
    let right = right(&state, &seen);
    let Some(fault) = fault else { return Ok(right) };
    faulty(fault, right).await
}

async fn faulty(fault: Fault, right: Response<Body>) -> Result<Response<Body>, std::io::Error> {
    let head = Response::builder();
    let body = async |right: Response<Body>| right.into_body().collect().await.unwrap().to_bytes();
    let piece = |bytes: &Bytes| Ok::<_, std::io::Error>(bytes.slice(..bytes.len() / 2));
    Ok(match fault {
        Fault::Answer(code, headers, text) => {
            let head = headers.into_iter().fold(head.status(code), |head, (name, value)| head.header(name, value));
            head.body(Body::from(text)).unwrap()
        }
        Fault::Content(bytes) => head.body(Body::from(bytes)).unwrap(),
        Fault::Type(kind) => head.header("content-type", kind).body(Body::from(body(right).await)).unwrap(),
        Fault::Page => head.header("content-type", "text/html; charset=utf-8").body(Body::from(PAGE)).unwrap(),
        Fault::Stall => {
            let bytes = body(right).await;
            let pieces = stream::iter([piece(&bytes)]);
            head.body(Body::from_stream(futures::StreamExt::chain(pieces, stream::pending()))).unwrap()
        }
        Fault::Trickle => {
            let bytes = body(right).await;
            let pieces = stream::unfold(0, move |index| {
                let byte = bytes.slice(index..=index);
                async move {
                    tokio::time::sleep(Duration::from_millis(200)).await;
                    Some((Ok::<_, Infallible>(byte), index + 1))
                }
            });
            head.body(Body::from_stream(pieces)).unwrap()
        }
        Fault::Truncate => {
            let bytes = body(right).await;
            let pieces = stream::iter([piece(&bytes), Err(std::io::ErrorKind::BrokenPipe.into())]);
            head.body(Body::from_stream(pieces)).unwrap()
        }
        Fault::Endless => {
            let zeros = Bytes::from(vec![0; 64 << 10]);
            head.body(Body::from_stream(stream::repeat_with(move || Ok::<_, Infallible>(zeros.clone())))).unwrap()
        }
        Fault::Hang => std::future::pending().await,
        Fault::Break => return Err(std::io::ErrorKind::BrokenPipe.into()),
    })
}

fn right(state: &State, seen: &Seen) -> Response<Body> {
    let head = Response::builder();
    let (allowed, challenges, hides) = match &state.auth {
        Auth::Anybody => (None, &vec![], false),
        Auth::Only(allowed, challenges) => (Some(allowed), challenges, false),
        Auth::Hidden(allowed, challenges) => (Some(allowed), challenges, true),
    };
    if let Some(allowed) = allowed
        && !seen.authorization.as_ref().is_some_and(|shown| allowed.lock().unwrap().contains(shown))
    {
        if hides && seen.path != "/v2/" {
            return head.status(404).body(Body::from(r#"{"errors": [{"code": "NAME_UNKNOWN"}]}"#)).unwrap();
        }
        let head = challenges.iter().fold(head.status(401), |head, line| head.header("www-authenticate", line));
        return head.body(Body::from(r#"{"errors": [{"code": "UNAUTHORIZED", "message": "who?"}]}"#)).unwrap();
    }
    let digest = seen.path.rsplit('/').next().unwrap_or_default();
    let manifest = seen.path.contains("/manifests/");
    let found = state.store.0.get(digest).filter(|_| !manifest || seen.accept.matches("application/vnd.").count() == 4);
    match found {
        None => {
            let body = r#"{"errors": [{"code": "MANIFEST_UNKNOWN", "message": "manifest unknown"}]}"#;
            head.status(404).body(Body::from(body)).unwrap()
        }
        Some(bytes) => head.header("docker-content-digest", digest).body(Body::from(bytes.clone())).unwrap(),
    }
}
