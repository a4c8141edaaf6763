//! Which certificate a client is shown.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, ServerConfig, SignatureScheme};

use super::handshake::shake;
use super::keypair;

/// The fingerprint of the certificate that a new connection gets; `None` where it gets none.
pub(super) fn shown(config: &Arc<ServerConfig>) -> Option<String> {
    let client = ClientConfig::builder_with_provider(super::provider()).with_safe_default_protocol_versions().ok()?;
    let client = client.dangerous().with_custom_certificate_verifier(Arc::new(Whoever)).with_no_client_auth();
    let name = ServerName::try_from("airgate").ok()?;
    let client = shake(client, name, config).ok()?;
    client.peer_certificates().and_then(<[_]>::first).map(|certificate| keypair::fingerprint(certificate))
}

/// Takes every certificate: only which one it is is of interest.
#[derive(Debug)]
struct Whoever;

impl ServerCertVerifier for Whoever {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        super::provider().signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls::{Source, TlsSettings, self_signed, server_config};

    #[test]
    fn it_is_the_certificate_of_the_configuration() {
        let dir = tempfile::tempdir().unwrap();
        self_signed::ensure(dir.path(), &[]).unwrap();
        let pair = keypair::KeyPair::load(dir.path()).unwrap();
        let settings = TlsSettings::new(Source::Directory(dir.path().to_owned()), None);
        let ca = std::fs::read(dir.path().join("ca.crt")).unwrap();
        let parameters = settings.profile.get().parameters.clone();
        let config = server_config(&settings, &parameters, &pair, None).unwrap();
        assert_eq!(shown(&Arc::new(config)).unwrap(), pair.leaf().fingerprint);
        // One that wants a client certificate shows its own first.
        let settings = TlsSettings::new(settings.source, Some("ca.crt".into()));
        let config = server_config(&settings, &parameters, &pair, Some(&ca)).unwrap();
        assert_eq!(shown(&Arc::new(config)).unwrap(), pair.leaf().fingerprint);
        assert_eq!(shown(&Arc::new(crate::tls::without_certificate().unwrap())), None);
    }
}
