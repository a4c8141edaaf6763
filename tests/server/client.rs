//! A client of which the test decides everything: protocol versions, ALPN, certificates, each byte.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use axum::body::Body;
use axum::http::{Request, Response, StatusCode, header};
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ProtocolVersion, RootCertStore, SupportedProtocolVersion};
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::harness::within;

pub const H1: &[u8] = b"http/1.1";
pub const H2: &[u8] = b"h2";
pub const TLS12: &[&SupportedProtocolVersion] = &[&rustls::version::TLS12];
pub const TLS13: &[&SupportedProtocolVersion] = &[&rustls::version::TLS13];
const BOTH: &[&SupportedProtocolVersion] = &[&rustls::version::TLS12, &rustls::version::TLS13];

#[derive(Clone)]
pub struct Client {
    pub roots: RootCertStore,
    pub versions: &'static [&'static SupportedProtocolVersion],
    pub alpn: &'static [u8],
    /// Certificate and key, PEM.
    pub identity: Option<(String, String)>,
    /// Another address of this machine than the usual one.
    pub from: Option<Ipv4Addr>,
}

pub struct Connection {
    sender: Sender,
    pub tls: Option<ProtocolVersion>,
    pub group: Option<rustls::NamedGroup>,
    pub certificate: Vec<u8>,
}

enum Sender {
    H1(http1::SendRequest<Body>),
    H2(http2::SendRequest<Body>),
}

/// What came back.
#[derive(Debug)]
pub struct Got {
    pub status: StatusCode,
    pub text: String,
    pub headers: axum::http::HeaderMap,
}

impl Client {
    pub fn new(ca: &[u8], alpn: &'static [u8]) -> Self {
        let mut client = Self { roots: RootCertStore::empty(), versions: BOTH, alpn, identity: None, from: None };
        client.trust(ca);
        client
    }

    pub fn trust(&mut self, ca: &[u8]) {
        for certificate in CertificateDer::pem_slice_iter(ca) {
            self.roots.add(certificate.unwrap()).unwrap();
        }
    }

    pub async fn tls(&self, address: SocketAddr) -> std::io::Result<TlsStream<TcpStream>> {
        let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_protocol_versions(self.versions)
            .unwrap()
            .with_root_certificates(self.roots.clone());
        let mut config = match &self.identity {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => builder
                .with_client_auth_cert(
                    vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()],
                    PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap(),
                )
                .unwrap(),
        };
        config.alpn_protocols = vec![self.alpn.to_vec()];
        let stream = connect_from(self.from, address).await?;
        stream.set_nodelay(true)?;
        let name = ServerName::IpAddress(address.ip().into());
        TlsConnector::from(Arc::new(config)).connect(name, stream).await
    }

    pub async fn connect(&self, address: SocketAddr) -> std::io::Result<Connection> {
        let stream = self.tls(address).await?;
        let tls = stream.get_ref().1;
        let alpn = tls.alpn_protocol().map(<[u8]>::to_vec);
        let (version, group) =
            (tls.protocol_version(), tls.negotiated_key_exchange_group().map(rustls::crypto::SupportedKxGroup::name));
        let certificate = tls.peer_certificates().unwrap()[0].to_vec();
        assert_eq!(alpn.as_deref(), Some(self.alpn));
        let io = TokioIo::new(stream);
        let sender = if self.alpn == H2 {
            let (sender, connection) =
                http2::handshake(TokioExecutor::new(), io).await.map_err(std::io::Error::other)?;
            tokio::spawn(connection);
            Sender::H2(sender)
        } else {
            let (sender, connection) = http1::handshake(io).await.map_err(std::io::Error::other)?;
            tokio::spawn(connection);
            Sender::H1(sender)
        };
        Ok(Connection { sender, tls: version, group, certificate })
    }

    /// One review on a connection of its own.
    pub async fn review(&self, address: SocketAddr, path: &str, body: &'static str) -> Got {
        let mut connection = within("a connection", self.connect(address)).await.unwrap();
        within("an answer", connection.send(review(address, path, body))).await.unwrap()
    }
}

impl Connection {
    pub async fn send(&mut self, request: Request<Body>) -> hyper::Result<Got> {
        let response = match &mut self.sender {
            Sender::H1(sender) => {
                sender.ready().await?;
                sender.send_request(request).await?
            }
            Sender::H2(sender) => {
                sender.ready().await?;
                sender.send_request(request).await?
            }
        };
        got(response).await
    }

    /// A second handle on the same HTTP/2 connection.
    pub fn another(&self) -> Option<Self> {
        let Sender::H2(sender) = &self.sender else {
            return None;
        };
        let sender = Sender::H2(sender.clone());
        Some(Self { sender, tls: self.tls, group: self.group, certificate: self.certificate.clone() })
    }

    pub fn is_closed(&self) -> bool {
        match &self.sender {
            Sender::H1(sender) => sender.is_closed(),
            Sender::H2(sender) => sender.is_closed(),
        }
    }
}

async fn got(response: Response<hyper::body::Incoming>) -> hyper::Result<Got> {
    let (parts, body) = response.into_parts();
    let body = body.collect().await?.to_bytes();
    Ok(Got { status: parts.status, text: String::from_utf8(body.to_vec()).unwrap(), headers: parts.headers })
}

pub fn request(method: &str, address: SocketAddr, path: &str) -> axum::http::request::Builder {
    Request::builder().method(method).uri(format!("https://{address}{path}")).header(header::HOST, address.to_string())
}

pub fn review(address: SocketAddr, path: &str, body: impl Into<Bytes>) -> Request<Body> {
    request("POST", address, path)
        .header(header::CONTENT_TYPE, "application/json")
        .body(Body::from(body.into()))
        .unwrap()
}

async fn connect_from(from: Option<Ipv4Addr>, address: SocketAddr) -> std::io::Result<TcpStream> {
    let Some(from) = from else { return TcpStream::connect(address).await };
    let socket = TcpSocket::new_v4()?;
    socket.bind((from, 0).into())?;
    socket.connect(address).await
}

/// A plain GET, for the small ports.
pub async fn get(address: SocketAddr, path: &str) -> Got {
    get_from(None, address, path).await
}

pub async fn get_from(from: Option<Ipv4Addr>, address: SocketAddr, path: &str) -> Got {
    let stream = connect_from(from, address).await.unwrap();
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let request = request("GET", address, path).body(Body::empty()).unwrap();
    within("an answer", async { got(sender.send_request(request).await?).await }).await.unwrap()
}
