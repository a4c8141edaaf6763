//! The serving certificate and its key, read from a directory as one generation and checked as a pair.
//!
//! Whoever replaces the files (kubelet by moving a symlink, an administrator with two `cp`) does it while we
//! may be reading, so the files are read twice until both readings agree, and a pair that does not fit is
//! looked at again a few times before it is an error. Blocking: call it from a blocking task. The key
//! appears in no message and no debug output.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use jiff::Timestamp;
use rustls::InconsistentKeys;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem};
use rustls::sign::CertifiedKey;
use x509_parser::extensions::GeneralName;

use crate::files::read_regular;

pub const CERTIFICATE: &str = "tls.crt";
pub const KEY: &str = "tls.key";

/// A chain with many alternative names has a few tens of kilobytes.
const MAX_FILE_BYTES: u64 = 1 << 20;
/// How often files that change under our eyes, or do not fit (yet), are looked at again, and how soon.
const ATTEMPTS: usize = 5;
const PAUSE: Duration = Duration::from_millis(20);

/// Why there is no usable pair. Each names the file and what to do.
#[derive(Debug, thiserror::Error)]
pub enum KeyPairError {
    #[error("cannot read {} ({source}): the directory must hold {CERTIFICATE} and {KEY}, readable for this process", .file.display())]
    Unreadable { file: PathBuf, source: io::Error },
    #[error("{} is larger than {MAX_FILE_BYTES} bytes or no regular file: it must be a PEM file", .file.display())]
    NotAFile { file: PathBuf },
    #[error("{CERTIFICATE} and {KEY} in {} kept changing while they were read: replace both at once, as a mounted Secret does", .dir.display())]
    Changing { dir: PathBuf },
    #[error("{} holds no certificate (is it half-written?): write the PEM chain into it, the server's own certificate first", .file.display())]
    NoCertificate { file: PathBuf },
    #[error("{} is not a readable PEM certificate chain ({reason}): write it again, the server's own certificate first", .file.display())]
    BadCertificate { file: PathBuf, reason: String },
    #[error("{} holds no private key (is it half-written, or encrypted?): write the unencrypted PEM key of {CERTIFICATE} into it", .file.display())]
    NoKey { file: PathBuf },
    // Without the parser's reason where that could quote the content.
    #[error("{} is no private key that can be used: write an unencrypted RSA, ECDSA or Ed25519 key in PEM into it", .file.display())]
    BadKey { file: PathBuf },
    #[error("{KEY} does not belong to the first certificate of {CERTIFICATE} in {}: replace both with a pair, the server's own certificate first", .dir.display())]
    Mismatch { dir: PathBuf },
}

/// A certificate chain and its key that fit each other.
#[derive(Clone)]
pub struct KeyPair {
    certified: Arc<CertifiedKey>,
    leaf: Leaf,
}

/// What is worth showing of the server's own certificate.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Leaf {
    /// SHA-256 of the certificate, lower-case hex.
    pub fingerprint: String,
    pub serial: String,
    pub names: Vec<String>,
    pub not_before: Timestamp,
    pub not_after: Timestamp,
}

/// The bytes of both files, of one generation.
#[derive(PartialEq, Eq)]
pub struct Raw {
    certificate: Vec<u8>,
    key: Vec<u8>,
}

impl KeyPair {
    /// Reads and checks the pair in `dir`.
    ///
    /// # Errors
    /// What [`KeyPairError`] lists.
    pub fn load(dir: &Path) -> Result<Self, KeyPairError> {
        let mut attempt = 1;
        loop {
            match Raw::read(dir).and_then(|raw| raw.parse(dir)) {
                Err(_) if attempt < ATTEMPTS => attempt += 1,
                result => return result,
            }
            std::thread::sleep(PAUSE);
        }
    }

    pub fn leaf(&self) -> &Leaf {
        &self.leaf
    }

    pub(crate) fn certified_key(&self) -> Arc<CertifiedKey> {
        self.certified.clone()
    }
}

impl Leaf {
    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.not_after < now
    }

    pub(crate) fn parse(file: &Path, certificate: &CertificateDer<'_>) -> Result<Self, KeyPairError> {
        let bad = |reason: String| KeyPairError::BadCertificate { file: file.to_owned(), reason };
        let (_, parsed) = x509_parser::parse_x509_certificate(certificate).map_err(|error| bad(error.to_string()))?;
        let time = |asn1: x509_parser::time::ASN1Time| {
            Timestamp::from_second(asn1.timestamp()).map_err(|error| bad(error.to_string()))
        };
        let names = parsed.subject_alternative_name().map_err(|error| bad(error.to_string()))?;
        Ok(Self {
            fingerprint: fingerprint(certificate),
            serial: parsed.raw_serial_as_string(),
            names: names.map(|names| names.value.general_names.iter().filter_map(name).collect()).unwrap_or_default(),
            not_before: time(parsed.validity().not_before)?,
            not_after: time(parsed.validity().not_after)?,
        })
    }
}

impl Raw {
    #[must_use]
    pub fn new(certificate: Vec<u8>, key: Vec<u8>) -> Self {
        Self { certificate, key }
    }

    /// Both files, of one generation but not checked.
    ///
    /// # Errors
    /// When one is missing, unreadable, far too large, or they never stood still.
    pub fn read(dir: &Path) -> Result<Self, KeyPairError> {
        let mut before = Self::read_once(dir)?;
        for _ in 1..ATTEMPTS {
            let after = Self::read_once(dir)?;
            if before == after {
                return Ok(after);
            }
            before = after;
        }
        Err(KeyPairError::Changing { dir: dir.to_owned() })
    }

    fn read_once(dir: &Path) -> Result<Self, KeyPairError> {
        Ok(Self { certificate: read_bounded(&dir.join(CERTIFICATE))?, key: read_bounded(&dir.join(KEY))? })
    }

    /// Identifies this content, without keeping it.
    pub fn digest(&self) -> [u8; 32] {
        let mut digests = Vec::with_capacity(64);
        digests.extend_from_slice(digest(&SHA256, &self.certificate).as_ref());
        digests.extend_from_slice(digest(&SHA256, &self.key).as_ref());
        sha256(&digests)
    }

    /// Checks that this is a certificate chain and the key of its first certificate.
    ///
    /// # Errors
    /// When it is not. An expired certificate is none: better an alarm than no server.
    pub fn parse(&self, dir: &Path) -> Result<KeyPair, KeyPairError> {
        let certificate_file = dir.join(CERTIFICATE);
        let chain = certificates(&certificate_file, &self.certificate)?;
        let first = chain.first().ok_or_else(|| KeyPairError::NoCertificate { file: certificate_file.clone() })?;
        let leaf = Leaf::parse(&certificate_file, first)?;
        let key_file = dir.join(KEY);
        let key = PrivateKeyDer::from_pem_slice(&self.key).map_err(|error| match error {
            pem::Error::NoItemsFound => KeyPairError::NoKey { file: key_file.clone() },
            _ => KeyPairError::BadKey { file: key_file.clone() },
        })?;
        let key = super::provider()
            .key_provider
            .load_private_key(key)
            .map_err(|_| KeyPairError::BadKey { file: key_file.clone() })?;
        let certified = CertifiedKey::new(chain, key);
        match certified.keys_match() {
            // `Unknown`: the kind of key cannot tell. Nothing the provider loads is of that kind.
            Ok(()) | Err(rustls::Error::InconsistentKeys(InconsistentKeys::Unknown)) => {
                Ok(KeyPair { certified: Arc::new(certified), leaf })
            }
            Err(rustls::Error::InconsistentKeys(_)) => Err(KeyPairError::Mismatch { dir: dir.to_owned() }),
            Err(error) => Err(KeyPairError::BadCertificate { file: certificate_file, reason: error.to_string() }),
        }
    }
}

impl fmt::Debug for Raw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Raw").finish_non_exhaustive()
    }
}

impl fmt::Debug for KeyPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyPair").field("leaf", &self.leaf).finish_non_exhaustive()
    }
}

pub(crate) fn certificates(file: &Path, text: &[u8]) -> Result<Vec<CertificateDer<'static>>, KeyPairError> {
    CertificateDer::pem_slice_iter(text)
        .collect::<Result<_, _>>()
        .map_err(|error| KeyPairError::BadCertificate { file: file.to_owned(), reason: error.to_string() })
}

/// A small regular file. Anything else could block or never end.
pub(crate) fn read_bounded(file: &Path) -> Result<Vec<u8>, KeyPairError> {
    read_regular(file, MAX_FILE_BYTES).map_err(|source| match source.kind() {
        io::ErrorKind::FileTooLarge | io::ErrorKind::InvalidInput => KeyPairError::NotAFile { file: file.to_owned() },
        _ => KeyPairError::Unreadable { file: file.to_owned(), source },
    })
}

/// SHA-256 of a certificate, lower-case hex.
pub(crate) fn fingerprint(certificate: &CertificateDer<'_>) -> String {
    hex(&sha256(certificate))
}

pub(crate) fn sha256(bytes: &[u8]) -> [u8; 32] {
    let mut sum = [0; 32];
    sum.copy_from_slice(digest(&SHA256, bytes).as_ref());
    sum
}

fn name(name: &GeneralName<'_>) -> Option<String> {
    match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        GeneralName::IPAddress(bytes) => match **bytes {
            [a, b, c, d] => Some(std::net::Ipv4Addr::new(a, b, c, d).to_string()),
            _ => <[u8; 16]>::try_from(*bytes).ok().map(|bytes| std::net::Ipv6Addr::from(bytes).to_string()),
        },
        _ => None,
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    use fmt::Write;
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a String cannot fail.
        let _infallible = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls::self_signed;

    fn pair(dir: &Path) -> PathBuf {
        self_signed::ensure(dir, &[]).unwrap();
        dir.to_owned()
    }

    #[test]
    fn a_pipe_in_the_place_of_a_file_does_not_block() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join(KEY);
        assert!(std::process::Command::new("mkfifo").arg(&file).status().unwrap().success());
        assert!(matches!(read_bounded(&file), Err(KeyPairError::NotAFile { .. })));
    }

    #[test]
    fn a_good_pair() {
        let dir = tempfile::tempdir().unwrap();
        let pair = KeyPair::load(&pair(dir.path())).unwrap();
        assert_eq!(pair.leaf().names, ["localhost", "127.0.0.1", "::1"]);
        assert_eq!(pair.leaf().fingerprint.len(), 64);
        assert!(!pair.leaf().is_expired(Timestamp::now()));
        assert!(pair.leaf().is_expired(pair.leaf().not_after + jiff::SignedDuration::from_secs(1)));
        assert!(!format!("{pair:?}").contains("PRIVATE"));
    }

    #[test]
    fn each_fault_names_its_file_and_what_to_do() {
        let (good, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (good, other) = (pair(good.path()), pair(other.path()));
        let read = |dir: &Path, name| std::fs::read(dir.join(name)).unwrap();
        let (certificate, key) = (read(&good, CERTIFICATE), read(&good, KEY));
        let half = |bytes: &[u8]| bytes[..bytes.len() / 2].to_vec();
        let flipped = String::from_utf8(key.clone()).unwrap().replacen("MIG", "AAA", 1).into_bytes();
        for (name, certificate, key, expected, file) in [
            ("other key", certificate.clone(), read(&other, KEY), "does not belong to", KEY),
            ("empty certificate", vec![], key.clone(), "holds no certificate", CERTIFICATE),
            ("half certificate", half(&certificate), key.clone(), "", CERTIFICATE),
            ("key as certificate", key.clone(), key.clone(), "holds no certificate", CERTIFICATE),
            ("empty key", certificate.clone(), vec![], "holds no private key", KEY),
            ("half key", certificate.clone(), half(&key), "", KEY),
            ("broken key", certificate.clone(), flipped, "no private key that can be used", KEY),
            ("large", vec![b'x'; (1 << 20) + 1], key.clone(), "larger than", CERTIFICATE),
        ] {
            std::fs::write(good.join(CERTIFICATE), certificate).unwrap();
            std::fs::write(good.join(KEY), key).unwrap();
            let text = KeyPair::load(&good).unwrap_err().to_string();
            assert!(text.contains(expected) && text.contains(file), "{name}: {text}");
        }
        std::fs::write(good.join(CERTIFICATE), certificate).unwrap();
        std::fs::remove_file(good.join(KEY)).unwrap();
        let text = KeyPair::load(&good).unwrap_err().to_string();
        assert!(text.contains("cannot read") && text.contains(KEY), "{text}");
    }
}
