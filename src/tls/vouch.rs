//! Whether a CA bundle vouches for what is served: a handshake in memory, as the API server would do it.

use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore, ServerConfig};

use super::handshake::shake;

/// Whether a client that trusts `ca` (PEM) alone and calls `host` accepts what `config` serves.
///
/// # Errors
/// Why it would not, as one sentence without a full stop.
pub fn vouches(config: &Arc<ServerConfig>, ca: &[u8], host: &str) -> Result<(), String> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(ca) {
        let certificate = certificate.map_err(|error| format!("it is no PEM ({error})"))?;
        if !counts(&certificate) {
            continue;
        }
        roots.add(certificate).map_err(|error| format!("it holds a certificate that is no CA ({error})"))?;
    }
    if roots.is_empty() {
        return Err("it is empty, or holds no CA that counts now".into());
    }
    let name = ServerName::try_from(host.to_owned()).map_err(|_| format!("{host} is no name of a server"))?;
    let refused =
        |error: &dyn std::fmt::Display| format!("it does not vouch for the certificate that is served ({error})");
    let client = ClientConfig::builder_with_provider(super::provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| refused(&error))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    shake(client, name, config).map(drop).map_err(|error| refused(&error))
}

/// Unlike rustls the API server looks at the dates of a CA, and at what it is limited to.
fn counts(ca: &CertificateDer<'_>) -> bool {
    x509_parser::parse_x509_certificate(ca).is_ok_and(|(_, ca)| {
        let for_servers = |usage: &x509_parser::extensions::ExtendedKeyUsage<'_>| usage.any || usage.server_auth;
        let uses = ca.extended_key_usage();
        ca.validity().is_valid() && uses.is_ok_and(|usage| usage.is_none_or(|usage| for_servers(usage.value)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls::keypair::KeyPair;
    use crate::tls::profile::Parameters;
    use crate::tls::{Source, TlsSettings, self_signed, server_config};
    use std::fs;

    #[test]
    fn only_the_ca_that_signed_for_this_name_vouches() {
        crate::tls::install_provider();
        let [dir, other] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        self_signed::ensure(dir.path(), &["airgate.openshift-airgate.svc".to_owned()]).unwrap();
        self_signed::ensure(other.path(), &[]).unwrap();
        let ca = fs::read(dir.path().join("ca.crt")).unwrap();
        let stranger = fs::read(other.path().join("ca.crt")).unwrap();
        let both = [stranger.as_slice(), ca.as_slice()].concat();
        for client_ca in [None, Some(dir.path().join("ca.crt"))] {
            let settings = TlsSettings::new(Source::Directory(dir.path().to_owned()), client_ca);
            let pair = KeyPair::load(dir.path()).unwrap();
            let config =
                server_config(&settings, &Parameters::default(), &pair, settings.client_ca.as_ref().map(|_| &*ca))
                    .unwrap();
            let config = Arc::new(config);
            let told = |ca: &[u8], host| vouches(&config, ca, host).unwrap_err();
            let host = "airgate.openshift-airgate.svc";
            assert_eq!(vouches(&config, &ca, host), Ok(()));
            assert_eq!(vouches(&config, &both, host), Ok(()));
            assert_eq!(vouches(&config, &ca, "127.0.0.1"), Ok(()));
            assert!(told(&stranger, host).contains("does not vouch for the certificate that is served"));
            assert!(told(&ca, "airgate.elsewhere.svc").contains("not valid for name"));
            assert_eq!(told(b"", host), "it is empty, or holds no CA that counts now");
            assert_eq!(told(b"null", host), "it is empty, or holds no CA that counts now");
            assert!(told(b"-----BEGIN CERTIFICATE-----\nx", host).contains("no PEM"));
        }
    }
}
