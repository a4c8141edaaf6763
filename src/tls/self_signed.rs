//! A certificate authority and a serving certificate made on the spot, for development and for sites that
//! bring no certificates of their own.
//!
//! Two certificates and not one self-signed: Rust's webpki refuses a CA certificate as server certificate
//! (Go would accept it). The authority lives ten years, the leaf one; the authority's key is never written
//! anywhere, so nothing else can be signed with it, and renewing means removing the three files and making
//! new ones. Files that are there are never replaced.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair as RcgenKey,
    KeyUsagePurpose,
};
use rustls::RootCertStore;
use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::pki_types::UnixTime;
use rustls::server::ParsedCertificate;

use super::keypair::{CERTIFICATE, KEY, KeyPair, KeyPairError, Leaf, certificates, read_bounded};

pub const CA: &str = "ca.crt";

/// Every certificate is good for these, so that the server can be tried from its own machine.
pub const LOCAL_NAMES: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

const DAY: Duration = Duration::from_hours(24);
const CA_LIFE: Duration = DAY.saturating_mul(3_652);
const LEAF_LIFE: Duration = DAY.saturating_mul(365);
/// The clocks of two machines may differ.
const BACKDATE: Duration = Duration::from_hours(1);

/// What [`ensure`] did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// None of the files was there; all three were written.
    Written(Leaf),
    /// All three were there, fit each other and cover the names; nothing was touched.
    Kept(Leaf),
}

/// Why the directory does not hold what was asked for.
#[derive(Debug, thiserror::Error)]
pub enum SelfSignedError {
    #[error("{} holds {present} but not {missing}: add what is missing, or remove {present} there to have all three made anew", .dir.display())]
    Half { dir: PathBuf, present: String, missing: String },
    #[error("{reason}; or remove {CA}, {CERTIFICATE} and {KEY} to have them made anew")]
    Pair { reason: KeyPairError },
    #[error("{CERTIFICATE} in {} was not signed by the {CA} beside it ({reason}): put the right {CA} there, or remove all three files to have them made anew", .dir.display())]
    OtherCa { dir: PathBuf, reason: String },
    #[error("{CERTIFICATE} in {} expired on {not_after}: remove {CA}, {CERTIFICATE} and {KEY} to have them made anew, and give the new {CA} to the clients", .dir.display())]
    Expired { dir: PathBuf, not_after: Timestamp },
    #[error("{CERTIFICATE} in {} is not for {missing}: remove {CA}, {CERTIFICATE} and {KEY} to have them made anew, and give the new {CA} to the clients", .dir.display())]
    Names { dir: PathBuf, missing: String },
    #[error("{name:?} cannot stand in a certificate: give a DNS name or an IP address")]
    BadName { name: String },
    #[error("cannot write {} ({source}): give a directory that this process may write to", .file.display())]
    Write { file: PathBuf, source: io::Error },
    #[error("cannot make a certificate: {0}")]
    Make(#[from] rcgen::Error),
}

/// Makes sure that `dir` holds `ca.crt`, `tls.crt` and `tls.key` for [`LOCAL_NAMES`] and `names` (DNS names or
/// IP addresses). Makes all three where none is there; changes nothing where one is.
///
/// # Errors
/// When only some are there, or they do not fit each other or the names, or cannot be written.
pub fn ensure(dir: &Path, names: &[String]) -> Result<Outcome, SelfSignedError> {
    let (present, missing): (Vec<&str>, Vec<&str>) =
        [CA, CERTIFICATE, KEY].into_iter().partition(|name| dir.join(name).symlink_metadata().is_ok());
    match (present.as_slice(), missing.as_slice()) {
        (_, []) => check(dir, names).map(Outcome::Kept),
        ([], _) => {
            write_new(dir, names)?;
            check(dir, names).map(Outcome::Written)
        }
        _ => Err(SelfSignedError::Half {
            dir: dir.to_owned(),
            present: present.join(" and "),
            missing: missing.join(" and "),
        }),
    }
}

fn all_names(names: &[String]) -> impl Iterator<Item = &str> {
    LOCAL_NAMES.into_iter().chain(names.iter().map(String::as_str).filter(|name| !LOCAL_NAMES.contains(name)))
}

/// That the three files are what we would have written.
fn check(dir: &Path, names: &[String]) -> Result<Leaf, SelfSignedError> {
    let pair_error = |reason| SelfSignedError::Pair { reason };
    let pair = KeyPair::load(dir).map_err(pair_error)?;
    let leaf = pair.leaf().clone();
    if leaf.is_expired(Timestamp::now()) {
        return Err(SelfSignedError::Expired { dir: dir.to_owned(), not_after: leaf.not_after });
    }
    let missing: Vec<&str> =
        all_names(names).filter(|name| !leaf.names.iter().any(|has| has.eq_ignore_ascii_case(name))).collect();
    if !missing.is_empty() {
        return Err(SelfSignedError::Names { dir: dir.to_owned(), missing: missing.join(", ") });
    }
    let ca_file = dir.join(CA);
    let ca = certificates(&ca_file, &read_bounded(&ca_file).map_err(pair_error)?).map_err(pair_error)?;
    signed_by(&pair, ca)
        .map_err(|reason| SelfSignedError::OtherCa { dir: dir.to_owned(), reason: reason.to_string() })?;
    Ok(leaf)
}

fn signed_by(pair: &KeyPair, ca: Vec<rustls::pki_types::CertificateDer<'static>>) -> Result<(), rustls::Error> {
    let mut roots = RootCertStore::empty();
    for certificate in ca {
        roots.add(certificate)?;
    }
    let key = pair.certified_key();
    verify_server_cert_signed_by_trust_anchor(
        &ParsedCertificate::try_from(key.end_entity_cert()?)?,
        &roots,
        key.cert.get(1..).unwrap_or_default(),
        UnixTime::now(),
        super::provider().signature_verification_algorithms.all,
    )
}

fn write_new(dir: &Path, names: &[String]) -> Result<(), SelfSignedError> {
    let made = make(names, SystemTime::now())?;
    fs::create_dir_all(dir).map_err(|source| SelfSignedError::Write { file: dir.to_owned(), source })?;
    let texts = [(KEY, &made.key, 0o600), (CA, &made.ca, 0o644), (CERTIFICATE, &made.certificate, 0o644)];
    let mut written = vec![];
    let failed = |file: PathBuf| move |source| SelfSignedError::Write { file, source };
    let mut write = || {
        // All of them beside their places first: a full disk is met here.
        for (name, text, mode) in texts {
            let beside = beside(dir, name);
            written.push(beside.clone());
            write_new_file(&beside, text, mode).map_err(failed(dir.join(name)))?;
        }
        // The key before the certificates, so that nobody who waits for a certificate finds it without its key.
        for (name, ..) in texts {
            let file = dir.join(name);
            fs::rename(beside(dir, name), &file).map_err(failed(file.clone()))?;
            written.push(file);
        }
        Ok(())
    };
    let result = write();
    if result.is_err() {
        // Part of them would keep the next start from making all; the first error is the one to report.
        for file in written {
            let _best_effort = fs::remove_file(file);
        }
    }
    result
}

fn beside(dir: &Path, name: &str) -> PathBuf {
    dir.join(format!(".{name}.{}.tmp", std::process::id()))
}

fn write_new_file(file: &Path, text: &str, mode: u32) -> io::Result<()> {
    // In a container every process has the same number, and one that was killed may have left it.
    let _may_be_none = fs::remove_file(file);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(file)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

struct Made {
    ca: String,
    certificate: String,
    key: String,
}

fn make(names: &[String], now: SystemTime) -> Result<Made, SelfSignedError> {
    let mut ca = CertificateParams::default();
    ca.distinguished_name.push(DnType::CommonName, "airgate self-signed CA");
    ca.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    ca.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    // rcgen's own default ends in the year 4096.
    ca.not_before = (now - BACKDATE).into();
    ca.not_after = (now + CA_LIFE).into();
    let ca_key = RcgenKey::generate()?;
    let ca_certificate = ca.self_signed(&ca_key)?;
    let issuer = Issuer::new(ca, ca_key);

    let key = RcgenKey::generate()?;
    let mut leaf = CertificateParams::new(checked(names)?)?;
    leaf.distinguished_name = rcgen::DistinguishedName::new();
    leaf.distinguished_name.push(DnType::CommonName, "airgate");
    leaf.is_ca = IsCa::ExplicitNoCa;
    leaf.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    leaf.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    leaf.use_authority_key_identifier_extension = true;
    leaf.not_before = (now - BACKDATE).into();
    leaf.not_after = (now + LEAF_LIFE).into();
    let certificate = leaf.signed_by(&key, &issuer)?;
    Ok(Made { ca: ca_certificate.pem(), certificate: certificate.pem(), key: key.serialize_pem() })
}

/// The names as rcgen takes them: it would write anything that is ASCII into the certificate.
fn checked(names: &[String]) -> Result<Vec<String>, SelfSignedError> {
    all_names(names)
        .map(|name| match rustls::pki_types::ServerName::try_from(name.strip_prefix("*.").unwrap_or(name)) {
            Ok(_) => Ok(name.to_owned()),
            Err(_) => Err(SelfSignedError::BadName { name: name.to_owned() }),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn written_once_then_kept() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("new/dir");
        let asked = names(&["airgate.openshift-airgate.svc", "localhost", "10.0.0.7"]);
        let Outcome::Written(leaf) = ensure(&dir, &asked).unwrap() else { panic!("nothing was there") };
        assert_eq!(leaf.names, ["localhost", "127.0.0.1", "::1", "airgate.openshift-airgate.svc", "10.0.0.7"]);
        let days = (leaf.not_after.as_second() - leaf.not_before.as_second()) / 86_400;
        assert_eq!(days, 365);
        let read = |name| fs::read(dir.join(name)).unwrap();
        let before = (read(CA), read(CERTIFICATE), read(KEY));
        assert_eq!(ensure(&dir, &asked).unwrap(), Outcome::Kept(leaf.clone()));
        assert_eq!(ensure(&dir, &[]).unwrap(), Outcome::Kept(leaf), "fewer names than it has");
        assert_eq!((read(CA), read(CERTIFICATE), read(KEY)), before);
        assert_eq!(fs::metadata(dir.join(KEY)).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 3, "no temporary file left");
    }

    #[test]
    fn a_failure_half_way_leaves_nothing_and_the_next_start_succeeds() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(beside(dir.path(), KEY), "left by one that was killed").unwrap();
        // The last of the three cannot be written.
        let obstacle = beside(dir.path(), CERTIFICATE);
        fs::create_dir(&obstacle).unwrap();
        let text = ensure(dir.path(), &[]).unwrap_err().to_string();
        assert!(text.contains("cannot write") && text.contains("tls.crt"), "{text}");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "the obstacle alone");
        fs::remove_dir(obstacle).unwrap();
        assert!(matches!(ensure(dir.path(), &[]), Ok(Outcome::Written(_))));
    }

    #[test]
    fn half_there_names_both_halves() {
        let dir = tempfile::tempdir().unwrap();
        ensure(dir.path(), &[]).unwrap();
        fs::remove_file(dir.path().join(KEY)).unwrap();
        let text = ensure(dir.path(), &[]).unwrap_err().to_string();
        assert!(text.contains("holds ca.crt and tls.crt but not tls.key: add what is missing, or remove"), "{text}");
        assert!(!dir.path().join(KEY).exists(), "nothing was written");
    }

    #[test]
    fn what_does_not_fit_is_refused_and_left_alone() {
        let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        ensure(dir.path(), &[]).unwrap();
        ensure(other.path(), &[]).unwrap();
        let text = ensure(dir.path(), &names(&["new.example"])).unwrap_err().to_string();
        assert!(text.contains("is not for new.example: remove ca.crt"), "{text}");

        fs::copy(other.path().join(CA), dir.path().join(CA)).unwrap();
        let text = ensure(dir.path(), &[]).unwrap_err().to_string();
        assert!(text.contains("was not signed by the ca.crt beside it"), "{text}");

        fs::copy(other.path().join(KEY), dir.path().join(KEY)).unwrap();
        let text = ensure(dir.path(), &[]).unwrap_err().to_string();
        assert!(text.contains("tls.key does not belong to the first certificate"), "{text}");
    }

    #[test]
    fn an_expired_leaf_says_so() {
        let dir = tempfile::tempdir().unwrap();
        let made = make(&[], SystemTime::now() - DAY * 400).unwrap();
        for (name, text) in [(CA, made.ca), (CERTIFICATE, made.certificate), (KEY, made.key)] {
            fs::write(dir.path().join(name), text).unwrap();
        }
        let text = ensure(dir.path(), &[]).unwrap_err().to_string();
        assert!(text.contains("expired on ") && text.contains("made anew"), "{text}");
    }

    #[test]
    fn names_that_are_none() {
        let dir = tempfile::tempdir().unwrap();
        for bad in ["", "a b", "-x.example", "https://x.example", "x.example:8443"] {
            let text = ensure(dir.path(), &names(&[bad])).unwrap_err().to_string();
            assert!(text.contains("give a DNS name or an IP address"), "{bad:?}: {text}");
        }
        ensure(dir.path(), &names(&["*.apps.example"])).unwrap();
    }
}
