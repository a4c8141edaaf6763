//! What stands in the Secret, and what of it can be used.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;
use rcgen::KeyPair as RcgenKey;
use rustls::RootCertStore;
use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::ParsedCertificate;
use serde::{Deserialize, Serialize};

use super::issue::{self, Made};
use super::rotation::{Ca, Leaf, Retiring, State};
use super::{AuthorityStatus, Timing};
use crate::tls::keypair::{CERTIFICATE, KEY, KeyPair, Raw};
use crate::tls::self_signed::CA;

/// The annotation with what certificates do not say themselves.
pub(super) const ANNOTATION: &str = "airgate.io/certificates";
const CA_KEY: &str = "ca.key";
const NEXT_KEY: &str = "next-ca.key";
/// What airgate writes. A Secret of a later form is left as it is.
const VERSION: u32 = 1;
/// More than any series of rotations makes.
const CAS: usize = 16;

/// Keys and their content; `None` removes one.
pub(super) type Data = BTreeMap<&'static str, Option<Vec<u8>>>;

/// A new content of the Secret.
#[derive(Clone)]
pub(super) struct Change {
    pub data: Data,
    pub annotation: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
struct Notes {
    version: u32,
    trusted_since: Option<Timestamp>,
    /// By fingerprint of the CA, the end of the last certificate that it signed.
    leaves_until: BTreeMap<String, Timestamp>,
}

/// A CA of the bundle.
#[derive(Clone, Debug)]
struct Authority {
    der: CertificateDer<'static>,
    fingerprint: String,
    common_name: String,
    public_key: Vec<u8>,
    not_before: Timestamp,
    not_after: Timestamp,
}

/// Parsed once a reading.
pub(super) struct Material {
    /// As stored, good or bad; `None` where one of the two is not there.
    pub raw: Option<Arc<Raw>>,
    /// As stored; `None` where it is no bundle of certificates.
    pub bundle: Option<Arc<[u8]>>,
    authorities: Vec<Authority>,
    signer: Option<usize>,
    next: Option<usize>,
    /// What they are signed with, as stored.
    keys: BTreeMap<&'static str, Vec<u8>>,
    issuer: Option<usize>,
    leaf: Option<Leaf>,
    notes: Notes,
    /// Why parts of it are of no use, without their content.
    pub faults: Vec<String>,
    /// Then it may be used and must not be changed.
    pub later: Option<LaterForm>,
}

/// The Secret was written by a later airgate.
#[derive(Debug, thiserror::Error)]
#[error(
    "it has the form {0}, and this airgate writes {VERSION}: a later one keeps it, or remove its annotation {ANNOTATION}"
)]
pub(super) struct LaterForm(u32);

impl Material {
    pub fn parse(mut data: BTreeMap<String, Vec<u8>>, annotation: Option<&str>, names: &[String]) -> Self {
        let mut faults = vec![];
        let (notes, later) = match notes(annotation, &mut faults) {
            Ok(notes) => (notes, None),
            Err(later) => (Notes::default(), Some(later)),
        };
        let mut keys = BTreeMap::new();
        for name in [CERTIFICATE, KEY, CA, CA_KEY, NEXT_KEY] {
            if let Some(content) = data.remove(name).filter(|content| !content.is_empty()) {
                keys.insert(name, content);
            }
        }
        let raw = match (keys.get(CERTIFICATE), keys.get(KEY)) {
            (Some(certificate), Some(key)) => Some(Arc::new(Raw::new(certificate.clone(), key.clone()))),
            _ => None,
        };
        let mut authorities = vec![];
        if let Some(text) = keys.get(CA) {
            match bundle(text) {
                Ok(found) => authorities = found,
                Err(why) => faults.push(format!("{CA} {why}")),
            }
        }
        let of_key = |name: &'static str, faults: &mut Vec<String>| {
            let key = key(keys.get(name)?);
            let at = key.and_then(|key| {
                let public = rcgen::PublicKeyData::subject_public_key_info(&key);
                authorities.iter().position(|ca| ca.public_key == public)
            });
            if at.is_none() {
                faults.push(format!("{name} is the key of no certificate in {CA}"));
            }
            at
        };
        let (signer, next) = (of_key(CA_KEY, &mut faults), of_key(NEXT_KEY, &mut faults));
        let mut material = Self {
            raw,
            bundle: (!authorities.is_empty()).then(|| keys.get(CA).map(|text| text.as_slice().into())).flatten(),
            authorities,
            signer,
            next: next.filter(|next| Some(*next) != signer),
            keys,
            issuer: None,
            leaf: None,
            notes,
            faults,
            later,
        };
        material.judge_leaf(names);
        material
    }

    /// No CA more can be added.
    pub fn is_full(&self) -> bool {
        self.authorities.len() >= CAS
    }

    /// Nothing of it was ever written.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    fn judge_leaf(&mut self, names: &[String]) {
        let Some(raw) = &self.raw else { return };
        let pair = match raw.parse(Path::new(super::SECRET)) {
            Ok(pair) => pair,
            Err(error) => return self.faults.push(error.to_string()),
        };
        let leaf = pair.leaf();
        let missing: Vec<&str> =
            names.iter().map(String::as_str).filter(|name| !leaf.names.iter().any(|has| has == name)).collect();
        self.issuer = self.authorities.iter().position(|ca| ca.signed(&pair, leaf.not_after));
        if !missing.is_empty() {
            self.faults.push(format!("{CERTIFICATE} is not for {}", missing.join(", ")));
        } else if self.issuer.is_none() {
            self.faults.push(format!("{CERTIFICATE} is by no CA of {CA}"));
        } else {
            self.leaf = Some(Leaf { not_before: leaf.not_before, not_after: leaf.not_after });
        }
    }

    pub fn state(&self) -> State {
        let ca = |at: usize| {
            let ca = self.authorities.get(at)?;
            Some(Ca { not_before: ca.not_before, not_after: ca.not_after })
        };
        State {
            signer: self.signer.and_then(ca),
            next: self.next.and_then(ca),
            trusted_since: self.notes.trusted_since,
            leaf: self.leaf.clone(),
            retiring: self.retiring().map(|ca| Retiring { leaves_until: self.leaves_until(ca) }).collect(),
        }
    }

    /// CAs that have no key any more and did not sign what is stored.
    fn retiring(&self) -> impl Iterator<Item = &Authority> {
        let stay = [self.signer, self.next, self.issuer];
        self.authorities.iter().enumerate().filter(move |(at, _)| !stay.contains(&Some(*at))).map(|(_, ca)| ca)
    }

    /// Where nobody noted it, as long as the CA itself.
    fn leaves_until(&self, ca: &Authority) -> Timestamp {
        self.notes.leaves_until.get(&ca.fingerprint).copied().unwrap_or(ca.not_after).min(ca.not_after)
    }

    pub fn shown(&self) -> Shown {
        let status = |ca: &Authority| AuthorityStatus {
            fingerprint: ca.fingerprint.clone(),
            not_after: ca.not_after,
            leaves_until: self.notes.leaves_until.get(&ca.fingerprint).copied(),
        };
        let at = |at: Option<usize>| at.and_then(|at| self.authorities.get(at)).map(status);
        Shown {
            signer: at(self.signer),
            next: at(self.next),
            retiring: self.retiring().map(status).collect(),
            trusted_since: self.notes.trusted_since,
        }
    }

    /// A new CA and a certificate of it in the place of everything.
    pub fn start_over(names: &[String], timing: &Timing, now: Timestamp) -> Result<Change, rcgen::Error> {
        let ca = issue::authority(timing.ca_life, now)?;
        let authority = parsed(&ca.certificate)?;
        let leaf = issue::leaf(
            (&authority.common_name, RcgenKey::from_pem(&ca.key)?, ca.not_after),
            names,
            timing.leaf_life,
            now,
        )?;
        let mut notes = Notes { version: VERSION, ..Notes::default() };
        notes.leaves_until.insert(authority.fingerprint, leaf.not_after);
        let mut data = pair(leaf);
        data.extend([(CA, Some(ca.certificate.into_bytes())), (CA_KEY, Some(ca.key.into_bytes())), (NEXT_KEY, None)]);
        Ok(Change { data, annotation: notes.text() })
    }

    /// Another CA into the bundle, with its key; one that was to be the next goes, for it never signed.
    pub fn add_next(&self, timing: &Timing, now: Timestamp) -> Result<Change, rcgen::Error> {
        let ca = issue::authority(timing.ca_life, now)?;
        let mut bundle = self.pem(|at| Some(at) != self.next);
        bundle.push_str(&ca.certificate);
        let data = Data::from([(CA, Some(bundle.into_bytes())), (NEXT_KEY, Some(ca.key.into_bytes()))]);
        Ok(Change { data, annotation: Notes { trusted_since: None, ..self.notes.clone() }.text() })
    }

    pub fn note_trusted(&self, since: Option<Timestamp>) -> Change {
        Change { data: Data::new(), annotation: Notes { trusted_since: since, ..self.notes.clone() }.text() }
    }

    /// A certificate of the CA that signs, or of the next one, which then is the one that signs.
    pub fn issue(
        &self,
        by_next: bool,
        names: &[String],
        timing: &Timing,
        now: Timestamp,
    ) -> Result<Change, rcgen::Error> {
        let (at, name) = if by_next { (self.next, NEXT_KEY) } else { (self.signer, CA_KEY) };
        let ca = at.and_then(|at| self.authorities.get(at)).ok_or(rcgen::Error::CouldNotParseKeyPair)?;
        let stored = self.keys.get(name).ok_or(rcgen::Error::CouldNotParseKeyPair)?;
        let key = key(stored).ok_or(rcgen::Error::CouldNotParseKeyPair)?;
        let leaf = issue::leaf((&ca.common_name, key, ca.not_after), names, timing.leaf_life, now)?;
        let mut notes = self.notes.clone();
        let until = notes.leaves_until.entry(ca.fingerprint.clone()).or_insert(leaf.not_after);
        *until = leaf.not_after.max(*until);
        let mut data = pair(leaf);
        if by_next {
            data.extend([(CA_KEY, Some(stored.clone())), (NEXT_KEY, None)]);
            notes.trusted_since = None;
        }
        Ok(Change { data, annotation: notes.text() })
    }

    /// Without the retired CAs whose certificates had all expired at `end`.
    pub fn drop_retired(&self, end: Timestamp) -> Change {
        let gone: Vec<&str> =
            self.retiring().filter(|ca| self.leaves_until(ca) <= end).map(|ca| &*ca.fingerprint).collect();
        let kept = |at: usize| self.authorities.get(at).is_some_and(|ca| !gone.contains(&&*ca.fingerprint));
        let mut notes = self.notes.clone();
        notes.leaves_until.retain(|ca, _| !gone.contains(&&**ca));
        Change { data: Data::from([(CA, Some(self.pem(kept).into_bytes()))]), annotation: notes.text() }
    }

    /// All of it, to be put back.
    pub fn restore(&self) -> Change {
        let all = [CERTIFICATE, KEY, CA, CA_KEY, NEXT_KEY];
        let data = all.into_iter().map(|name| (name, self.keys.get(name).cloned())).collect();
        Change { data, annotation: self.notes.clone().text() }
    }

    fn pem(&self, keep: impl Fn(usize) -> bool) -> String {
        let kept = self.authorities.iter().enumerate().filter(|(at, _)| keep(*at));
        let certificates: Vec<_> = kept.map(|(_, ca)| pem::Pem::new("CERTIFICATE", ca.der.as_ref())).collect();
        let unix = pem::EncodeConfig::new().set_line_ending(pem::LineEnding::LF);
        pem::encode_many_config(&certificates, unix)
    }
}

/// What of it is worth showing.
pub(super) struct Shown {
    pub signer: Option<AuthorityStatus>,
    pub next: Option<AuthorityStatus>,
    pub retiring: Vec<AuthorityStatus>,
    pub trusted_since: Option<Timestamp>,
}

impl Notes {
    fn text(self) -> String {
        // It holds nothing that could not be written.
        serde_json::to_string(&Self { version: VERSION, ..self }).unwrap_or_default()
    }
}

/// Notes that cannot be read are forgotten: CAs are then kept as long as they live.
fn notes(annotation: Option<&str>, faults: &mut Vec<String>) -> Result<Notes, LaterForm> {
    let Some(text) = annotation else { return Ok(Notes::default()) };
    match serde_json::from_str::<Notes>(text) {
        Ok(notes) if notes.version > VERSION => Err(LaterForm(notes.version)),
        Ok(notes) => Ok(notes),
        Err(_) => {
            faults.push(format!("the annotation {ANNOTATION} is not what airgate wrote"));
            Ok(Notes::default())
        }
    }
}

fn pair(leaf: Made) -> Data {
    Data::from([(CERTIFICATE, Some(leaf.certificate.into_bytes())), (KEY, Some(leaf.key.into_bytes()))])
}

fn key(text: &[u8]) -> Option<RcgenKey> {
    RcgenKey::from_pem(std::str::from_utf8(text).ok()?).ok()
}

fn bundle(text: &[u8]) -> Result<Vec<Authority>, String> {
    let mut found: Vec<Authority> = vec![];
    for certificate in CertificateDer::pem_slice_iter(text) {
        let certificate = certificate.map_err(|error| format!("is no PEM ({error})"))?;
        let ca = Authority::parse(certificate).ok_or("holds something that is no CA certificate of airgate's")?;
        if !found.iter().any(|known| known.fingerprint == ca.fingerprint) {
            found.push(ca);
        }
        if found.len() > CAS {
            return Err(format!("holds more than {CAS} certificates"));
        }
    }
    if found.is_empty() { Err("holds no certificate".to_owned()) } else { Ok(found) }
}

fn parsed(pem: &str) -> Result<Authority, rcgen::Error> {
    let der = CertificateDer::from_pem_slice(pem.as_bytes()).ok();
    der.and_then(Authority::parse).ok_or(rcgen::Error::CouldNotParseCertificate)
}

impl Authority {
    fn parse(der: CertificateDer<'static>) -> Option<Self> {
        let (_, certificate) = x509_parser::parse_x509_certificate(&der).ok()?;
        let time = |time: x509_parser::time::ASN1Time| Timestamp::from_second(time.timestamp()).ok();
        let common_name = certificate.subject().iter_common_name().next()?.as_str().ok()?.to_owned();
        // One that is limited to a use, such as clients, is none that the API server would take.
        if !certificate.is_ca() || certificate.extended_key_usage().ok()?.is_some() {
            return None;
        }
        Some(Self {
            fingerprint: crate::tls::keypair::fingerprint(&der),
            common_name,
            public_key: certificate.public_key().raw.to_vec(),
            not_before: time(certificate.validity().not_before)?,
            not_after: time(certificate.validity().not_after)?,
            der: der.clone(),
        })
    }

    fn signed(&self, pair: &KeyPair, at: Timestamp) -> bool {
        let mut roots = RootCertStore::empty();
        let at = u64::try_from(at.as_second()).unwrap_or_default();
        let check = || {
            roots.add(self.der.clone()).ok()?;
            let key = pair.certified_key();
            let certificate = ParsedCertificate::try_from(key.end_entity_cert().ok()?).ok()?;
            verify_server_cert_signed_by_trust_anchor(
                &certificate,
                &roots,
                &[],
                UnixTime::since_unix_epoch(std::time::Duration::from_secs(at)),
                crate::tls::provider().signature_verification_algorithms.all,
            )
            .ok()
        };
        let mut check = check;
        check().is_some()
    }
}

#[cfg(test)]
mod tests;
