//! Keyrings: whose signature counts, and until when each of their keys could sign.
//!
//! A key's own signatures may use SHA-1, the published key of the releases once did; revocation, expiry and usage
//! are taken from them, newest first. There is no look-up anywhere: what the ring does not say is not known.

use pgp::composed::{Deserializable, SignedPublicKey, SignedPublicSubKey};
use pgp::packet::{PublicKey, PublicSubkey, Signature, SignatureConfig, SignatureType, SubpacketData};
use pgp::types::{KeyDetails, KeyId, Tag};

use super::armour;

/// As much as a ConfigMap may have.
const BYTES_MAX: usize = 1 << 20;
const KEYS_MAX: usize = 64;
/// Verifications a key may cost: one that hundreds of people certified is not read to its end.
const SELF_SIGNATURES_MAX: usize = 256;

/// The keys of one `verifier-public-key-*`, each of which may sign for all.
#[derive(Clone, Debug)]
pub struct Keyring {
    /// As the ConfigMap's key or the file is called.
    pub name: String,
    pub(super) signers: Vec<Signer>,
}

/// A primary key or a subkey that may sign.
#[derive(Clone, Debug)]
pub(super) struct Signer {
    pub id: KeyId,
    pub fingerprint: String,
    pub key: SigningKey,
    /// Seconds since 1970.
    pub expires: Option<u32>,
    /// Why nothing it signed counts.
    pub barred: Option<&'static str>,
}

#[derive(Clone, Debug)]
pub(super) enum SigningKey {
    Primary(PublicKey),
    Sub(PublicSubkey),
}

impl Keyring {
    /// From armoured or binary keys, several one after the other.
    ///
    /// # Errors
    /// What is wrong with it; a ring with a key that cannot be read is not used at all, as the CVO does.
    pub fn parse(name: &str, file: &[u8]) -> Result<Self, String> {
        if file.len() > BYTES_MAX {
            return Err(format!("{name} has more than {} KiB", BYTES_MAX >> 10));
        }
        let fault = |what: String| format!("{name} cannot be read as a public key: {what}");
        let binary = armour::decode(file).map_err(fault)?;
        let keys = SignedPublicKey::from_bytes_many(&*binary).map_err(|error| fault(error.to_string()))?;
        let mut signers = vec![];
        for (index, key) in keys.enumerate() {
            if index == KEYS_MAX {
                return Err(format!("{name} has more than {KEYS_MAX} keys"));
            }
            signers.extend(signers_of(key.map_err(|error| fault(error.to_string()))?));
        }
        if signers.is_empty() {
            return Err(fault("no key in it may sign".into()));
        }
        Ok(Self { name: name.to_owned(), signers })
    }

    /// Fingerprints of the keys, for a person.
    #[must_use]
    pub fn fingerprints(&self) -> Vec<&str> {
        self.signers.iter().map(|signer| &*signer.fingerprint).collect()
    }
}

fn signers_of(certificate: SignedPublicKey) -> Vec<Signer> {
    let SignedPublicKey { primary_key: primary, details, public_subkeys } = certificate;
    let mut budget = SELF_SIGNATURES_MAX;
    let mut own = vec![];
    for user in &details.users {
        let verified = |signature: &&Signature| {
            take_one(&mut budget) && signature.verify_certification(&primary, Tag::UserId, &user.id).is_ok()
        };
        let (revocations, certifications): (Vec<_>, Vec<_>) = user
            .signatures
            .iter()
            .filter(verified)
            .partition(|signature| signature.typ() == Some(SignatureType::CertRevocation));
        if revocations.is_empty() {
            own.extend(certifications);
        }
    }
    own.extend(details.direct_signatures.iter().filter(|it| take_one(&mut budget) && it.verify_key(&primary).is_ok()));
    let newest = own.into_iter().max_by_key(|signature| signature.created());
    let barred = match newest {
        _ if !details.revocation_signatures.is_empty() => Some("was revoked"),
        None => Some("has no valid signature of its own"),
        Some(_) => None,
    };
    let expires = newest.and_then(|signature| expiry(&primary, signature));
    let may_sign = newest.is_none_or(|signature| !has_flags(signature) || signature.key_flags().sign());
    let subkeys = public_subkeys.iter().filter_map(|sub| subkey(&primary, sub, expires, barred, &mut budget));
    let mut signers: Vec<_> = subkeys.collect();
    if may_sign {
        let (id, fingerprint) = (primary.legacy_key_id(), hex(primary.fingerprint().as_bytes()));
        signers.insert(0, Signer { id, fingerprint, key: SigningKey::Primary(primary), expires, barred });
    }
    signers
}

/// A subkey that was bound for signing, by both keys.
fn subkey(
    primary: &PublicKey,
    sub: &SignedPublicSubKey,
    primary_expires: Option<u32>,
    barred: Option<&'static str>,
    budget: &mut usize,
) -> Option<Signer> {
    let verified =
        |signature: &&Signature| take_one(budget) && signature.verify_subkey_binding(primary, &sub.key).is_ok();
    let (revocations, bindings): (Vec<_>, Vec<_>) = sub
        .signatures
        .iter()
        .filter(verified)
        .partition(|signature| signature.typ() == Some(SignatureType::SubkeyRevocation));
    let newest = bindings.into_iter().max_by_key(|signature| signature.created())?;
    let bound_back = newest
        .embedded_signature()
        .is_some_and(|signature| signature.verify_primary_key_binding(&sub.key, primary).is_ok());
    if !newest.key_flags().sign() || !bound_back {
        return None;
    }
    let expires = [expiry(&sub.key, newest), primary_expires].into_iter().flatten().min();
    Some(Signer {
        id: sub.key.legacy_key_id(),
        fingerprint: hex(sub.key.fingerprint().as_bytes()),
        key: SigningKey::Sub(sub.key.clone()),
        expires,
        barred: barred.or_else(|| (!revocations.is_empty()).then_some("was revoked")),
    })
}

fn take_one(budget: &mut usize) -> bool {
    let left = budget.checked_sub(1);
    *budget = left.unwrap_or_default();
    left.is_some()
}

fn has_flags(signature: &Signature) -> bool {
    let mut subpackets = signature.config().into_iter().flat_map(SignatureConfig::hashed_subpackets);
    subpackets.any(|subpacket| matches!(subpacket.data, SubpacketData::KeyFlags(_)))
}

fn expiry(key: &impl KeyDetails, signature: &Signature) -> Option<u32> {
    let lifetime = signature.key_expiration_time()?.as_secs();
    (lifetime != 0).then(|| key.created_at().as_secs().saturating_add(lifetime))
}

pub(super) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02X}");
        text
    })
}
