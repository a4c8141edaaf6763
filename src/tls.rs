//! How we speak TLS: a pure function from settings and a key pair to a [`ServerConfig`].
//!
//! TLS 1.2 and 1.3 by aws-lc-rs with X25519MLKEM768 preferred, HTTP/2 and HTTP/1.1 by ALPN, and, where a
//! client CA is given, only clients that it vouches for. What changes at run time (the pair, the client CA)
//! changes by building a new configuration and swapping it as a whole, see [`reload`].

pub mod keypair;
pub mod listener;
pub mod reload;
pub mod self_signed;
pub mod vouch;

use std::path::PathBuf;
use std::sync::Arc;

use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::server::WebPkiClientVerifier;
use rustls::sign::SingleCertAndKey;
use rustls::{RootCertStore, ServerConfig, SupportedProtocolVersion, version};

use keypair::KeyPair;

/// The oldest protocol version that is spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MinVersion {
    #[default]
    Tls12,
    Tls13,
}

/// Where the files are, and what is not in them.
#[derive(Debug, Clone)]
pub struct TlsSettings {
    /// Holds `tls.crt` and `tls.key`.
    pub dir: PathBuf,
    /// Certificates of the only CAs whose clients may call. `None`: anybody may.
    pub client_ca: Option<PathBuf>,
    pub min_version: MinVersion,
}

/// A configuration that rustls would not build from files that are each in order.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error(
        "client CA file {} holds no certificate: give a PEM file with at least one CA certificate, or leave out --client-ca",
        .file.display()
    )]
    NoClientCa { file: PathBuf },
    #[error("client CA file {} holds a certificate that cannot be used as a CA ({reason}): replace it", .file.display())]
    BadClientCa { file: PathBuf, reason: String },
    #[error("cannot set up TLS: {0}")]
    Rustls(#[from] rustls::Error),
}

/// Makes aws-lc-rs the provider of the process. First thing in `main`: with more than one provider
/// compiled in, anything that asks rustls for its default before this panics. Calling it again is fine.
pub fn install_provider() {
    // An error only says that one is installed already, by ourselves: nothing else in the program does it.
    let _already_installed = aws_lc_rs::default_provider().install_default();
}

/// Draws the first random bytes of the process: aws-lc gathers entropy from CPU jitter for that, which takes
/// 30 to 60 ms and would otherwise be spent in somebody's first handshake.
pub fn warm_up() {
    let mut bytes = [0_u8; 32];
    // A failure shows itself in the first handshake, where it can be reported.
    let _unspecified = ::aws_lc_rs::rand::fill(&mut bytes);
}

pub(crate) fn provider() -> Arc<CryptoProvider> {
    // Asked for by name and not taken from the process default, so that a test or a library that installed
    // something else cannot change what we speak.
    Arc::new(aws_lc_rs::default_provider())
}

/// The configuration for new connections. `client_ca` is the content of the file that the settings name.
///
/// # Errors
/// When the client CA is of no use.
pub fn server_config(
    settings: &TlsSettings,
    pair: &KeyPair,
    client_ca: Option<&[u8]>,
) -> Result<ServerConfig, TlsError> {
    let builder =
        ServerConfig::builder_with_provider(provider()).with_protocol_versions(versions(settings.min_version))?;
    let builder = match (&settings.client_ca, client_ca) {
        (Some(file), Some(pem)) => {
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(client_roots(file, pem)?), provider())
                .build()
                .map_err(|error| TlsError::BadClientCa { file: file.clone(), reason: error.to_string() })?;
            builder.with_client_cert_verifier(verifier)
        }
        // A file that is named but was not read must never end as "anybody may".
        (Some(file), None) => return Err(TlsError::NoClientCa { file: file.clone() }),
        (None, _) => builder.with_no_client_auth(),
    };
    let mut config = builder.with_cert_resolver(Arc::new(SingleCertAndKey::from(pair.certified_key())));
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

fn versions(min: MinVersion) -> &'static [&'static SupportedProtocolVersion] {
    const BOTH: &[&SupportedProtocolVersion] = &[&version::TLS13, &version::TLS12];
    match min {
        MinVersion::Tls12 => BOTH,
        MinVersion::Tls13 => &BOTH[..1],
    }
}

fn client_roots(file: &std::path::Path, pem: &[u8]) -> Result<RootCertStore, TlsError> {
    let bad = |reason: String| TlsError::BadClientCa { file: file.to_owned(), reason };
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|error| bad(error.to_string()))?;
        roots.add(certificate).map_err(|error| bad(error.to_string()))?;
    }
    if roots.is_empty() {
        return Err(TlsError::NoClientCa { file: file.to_owned() });
    }
    Ok(roots)
}
