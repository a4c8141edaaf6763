//! How we speak TLS: a pure function from settings and a key pair to a [`ServerConfig`].
//!
//! TLS 1.2 and 1.3 by aws-lc-rs with X25519MLKEM768 preferred, HTTP/2 and HTTP/1.1 by ALPN, and, where a
//! client CA is given, only clients that it vouches for. What changes at run time (the pair, the client CA,
//! the cluster's TLS profile) changes by building a new configuration and swapping it as a whole, see [`reload`].

mod handshake;
pub mod keypair;
pub mod listener;
mod probe;
pub mod profile;
pub mod reload;
pub mod self_signed;
pub mod vouch;

use std::path::PathBuf;
use std::sync::Arc;

use arc_swap::ArcSwap;

use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::server::WebPkiClientVerifier;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::SingleCertAndKey;
use rustls::{RootCertStore, ServerConfig, SupportedProtocolVersion, version};
use tokio::sync::watch;

use keypair::{KeyPair, Raw};
use profile::{Followed, Parameters};

/// The oldest protocol version that is spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub enum MinVersion {
    #[default]
    #[serde(rename = "TLS 1.2")]
    Tls12,
    #[serde(rename = "TLS 1.3")]
    Tls13,
}

/// Where the serving certificate and its key come from.
#[derive(Debug, Clone)]
pub enum Source {
    /// It holds `tls.crt` and `tls.key`.
    Directory(PathBuf),
    /// The certificate keeper, which publishes what is stored; `None` before there is a pair.
    Kept { name: String, pair: watch::Receiver<Option<Arc<Raw>>> },
}

/// What is negotiated from now on; clones share it.
#[derive(Debug, Clone, Default)]
pub struct LiveProfile(Arc<ArcSwap<Followed>>);

impl LiveProfile {
    #[must_use]
    pub fn get(&self) -> Arc<Followed> {
        self.0.load_full()
    }

    /// Whether it is another one than before.
    pub fn set(&self, followed: Followed) -> bool {
        let changed = *self.0.load_full() != followed;
        if changed {
            self.0.store(Arc::new(followed));
        }
        changed
    }
}

/// Everything that a configuration is made of.
#[derive(Debug, Clone)]
pub struct TlsSettings {
    pub source: Source,
    /// Certificates of the only CAs whose clients may call. `None`: anybody may.
    pub client_ca: Option<PathBuf>,
    pub profile: LiveProfile,
}

impl TlsSettings {
    #[must_use]
    pub fn new(source: Source, client_ca: Option<PathBuf>) -> Self {
        Self { source, client_ca, profile: LiveProfile::default() }
    }
}

impl Source {
    /// As messages name it, in the place of a directory.
    #[must_use]
    pub fn name(&self) -> PathBuf {
        match self {
            Self::Directory(dir) => dir.clone(),
            Self::Kept { name, .. } => name.into(),
        }
    }
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
    parameters: &Parameters,
    pair: &KeyPair,
    client_ca: Option<&[u8]>,
) -> Result<ServerConfig, TlsError> {
    let builder = server_parts(parameters)?;
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

/// A configuration that has no certificate yet: every handshake fails at once, and says why.
///
/// # Errors
/// None that could occur with the defaults.
pub(crate) fn without_certificate() -> Result<ServerConfig, TlsError> {
    #[derive(Debug)]
    struct NoneYet;
    impl ResolvesServerCert for NoneYet {
        fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<rustls::sign::CertifiedKey>> {
            None
        }
    }
    Ok(server_parts(&Parameters::default())?.with_no_client_auth().with_cert_resolver(Arc::new(NoneYet)))
}

/// The provider cut down to these parameters, and the versions.
pub(crate) fn server_parts(
    parameters: &Parameters,
) -> Result<rustls::ConfigBuilder<ServerConfig, rustls::WantsVerifier>, rustls::Error> {
    let provider = CryptoProvider {
        cipher_suites: parameters.cipher_suites.iter().filter_map(|name| profile::suite(name)).collect(),
        kx_groups: parameters.groups.iter().filter_map(|name| profile::group(name)).collect(),
        ..aws_lc_rs::default_provider()
    };
    ServerConfig::builder_with_provider(Arc::new(provider)).with_protocol_versions(versions(parameters.min_version))
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
