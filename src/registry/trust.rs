//! Whose certificates are believed, host by host.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

use crate::text::shown;
use crate::tls::provider;

/// A bundle with every public CA has a quarter of this.
const BYTES: usize = 4 << 20;

type Certificates = Vec<CertificateDer<'static>>;

/// What an administrator gave, as it was given.
#[derive(Clone, Debug, Default)]
pub(super) struct Anchors {
    pub everywhere: Certificates,
    /// By authority, see [`authority`].
    pub hosts: BTreeMap<String, Certificates>,
    /// Authorities that may present any certificate, or none at all.
    pub insecure: BTreeSet<String>,
}

impl Anchors {
    pub fn merge(&mut self, other: Self) {
        self.everywhere.extend(other.everywhere);
        for (host, certificates) in other.hosts {
            self.hosts.entry(host).or_default().extend(certificates);
        }
        self.insecure.extend(other.insecure);
    }
}

/// The certificates of a PEM bundle.
///
/// # Errors
/// Where there are none, or something between them cannot be read.
pub(super) fn certificates(name: &str, pem: &[u8]) -> Result<Certificates, String> {
    let name = shown(name);
    if pem.len() > BYTES {
        return Err(format!("{name} has {} bytes, more than the {BYTES} that a CA bundle may have", pem.len()));
    }
    let found: Result<Certificates, _> = CertificateDer::pem_slice_iter(pem).collect();
    let found = found.map_err(|_| format!("{name} is not readable PEM: it must hold the certificates of CAs"))?;
    let mut roots = RootCertStore::empty();
    let (usable, _) = roots.add_parsable_certificates(found.iter().cloned());
    if usable == 0 {
        return Err(format!(
            "{name} holds no certificate that can be used: it must hold the certificates of CAs in PEM"
        ));
    }
    Ok(found)
}

/// `HOST[:PORT]` as it is compared: lower-case, the port of https left out.
pub(super) fn authority(host: &str) -> String {
    let host = host.to_ascii_lowercase();
    host.strip_suffix(":443").map_or(host.clone(), str::to_owned)
}

/// A key of the ConfigMap that `additionalTrustedCA` names, where a port is written `host..5000`.
pub(super) fn config_map_key(key: &str) -> String {
    authority(&match key.rsplit_once("..") {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => format!("{host}:{port}"),
        _ => key.to_owned(),
    })
}

/// Anchors and the system's roots, ready to make configurations.
#[derive(Debug)]
pub(super) struct Trust {
    anchors: Anchors,
    roots: RootCertStore,
}

impl Trust {
    /// Reads the system's roots; there may be none.
    pub fn new(anchors: Anchors) -> Self {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        roots.add_parsable_certificates(anchors.everywhere.iter().cloned());
        Self { anchors, roots }
    }

    pub fn insecure(&self, authority: &str) -> bool {
        self.anchors.insecure.contains(authority)
    }

    /// Whether requests to it need a configuration of their own.
    pub fn special(&self, authority: &str) -> bool {
        self.anchors.hosts.contains_key(authority) || self.insecure(authority)
    }

    /// For connections to `authority`, or to any that is not special where it is `None`.
    pub fn config(&self, authority: Option<&str>) -> Result<ClientConfig, String> {
        let mut roots = self.roots.clone();
        let mut own = self.anchors.everywhere.clone();
        if let Some(certificates) = authority.and_then(|authority| self.anchors.hosts.get(authority)) {
            roots.add_parsable_certificates(certificates.iter().cloned());
            own.extend(certificates.iter().cloned());
        }
        let insecure = authority.filter(|authority| self.insecure(authority)).and_then(server_name);
        let provider = provider();
        let verifier = (!roots.is_empty())
            .then(|| WebPkiServerVerifier::builder_with_provider(roots.into(), provider.clone()).build());
        let chain = verifier.transpose().map_err(|error| format!("cannot set up trust in certificates: {error}"))?;
        let verifier = Verifier { chain, own, insecure, provider: provider.clone() };
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| format!("cannot set up TLS: {error}"))?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_no_client_auth();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(config)
    }
}

fn server_name(authority: &str) -> Option<ServerName<'static>> {
    let bracketed = authority.strip_prefix('[').and_then(|rest| rest.split_once(']'));
    let host = bracketed.map_or_else(|| authority.split(':').next().unwrap_or_default(), |(host, _)| host);
    ServerName::try_from(host.to_owned()).ok()
}

/// Web PKI, and two things beside it: a certificate that was itself given as trusted (a registry's self-signed one,
/// which Go takes and webpki refuses as a CA), and one host that may present anything.
#[derive(Debug)]
struct Verifier {
    /// `None`: there is no root at all.
    chain: Option<Arc<WebPkiServerVerifier>>,
    own: Certificates,
    insecure: Option<ServerName<'static>>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if self.insecure.as_ref().is_some_and(|insecure| insecure == server_name) {
            return Ok(ServerCertVerified::assertion());
        }
        if self.own.iter().any(|own| own.as_ref() == end_entity.as_ref()) {
            within_validity(end_entity, now)?;
            rustls::client::verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
            return Ok(ServerCertVerified::assertion());
        }
        let chain = self.chain.as_ref().ok_or(rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer))?;
        chain.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

fn within_validity(certificate: &CertificateDer<'_>, now: UnixTime) -> Result<(), rustls::Error> {
    let bad = rustls::Error::InvalidCertificate;
    let (_, parsed) =
        x509_parser::parse_x509_certificate(certificate).map_err(|_| bad(CertificateError::BadEncoding))?;
    let now = Timestamp::from_second(i64::try_from(now.as_secs()).unwrap_or(i64::MAX))
        .map_err(|_| rustls::Error::FailedToGetCurrentTime)?
        .as_second();
    if now < parsed.validity().not_before.timestamp() {
        return Err(bad(CertificateError::NotValidYet));
    }
    if now > parsed.validity().not_after.timestamp() {
        return Err(bad(CertificateError::Expired));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn authorities_are_compared_as_one_writes_them() {
        for (key, expected) in [
            ("registry.example..5000", "registry.example:5000"),
            ("Registry.Example", "registry.example"),
            ("registry.example..443", "registry.example"),
            ("registry.example:5000", "registry.example:5000"),
            ("a..b", "a..b"),
        ] {
            assert_eq!(config_map_key(key), expected, "{key}");
        }
    }

    #[test]
    fn a_bundle_without_certificates_is_an_error_that_names_it() {
        for pem in [&b""[..], b"text", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
            let error = certificates("ca.crt", pem).unwrap_err();
            assert!(error.contains("ca.crt"), "{error}");
        }
    }
}
