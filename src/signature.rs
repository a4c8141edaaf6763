//! Release signatures: signed statements that a digest is a release, and which one (settled question 17).
//!
//! The rule is the CVO's, made deterministic: a digest is proved when under each `verifier-public-key-*` one of the
//! signatures found for it verifies and names it. Where airgate is stricter (SHA-1, keys that had expired, bytes after
//! the message) the reason says so. Verification happens once for each signature and set of keys ([`check`], which
//! an edge guards and remembers); a review only looks things up in [`Signatures`].

mod armour;
pub mod keyring;
pub mod message;
mod packet;
pub mod statement;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;

use jiff::Timestamp;

use crate::cluster::Missing;
use crate::pullspec::Digest;
use crate::version::Version;
use keyring::Keyring;
use message::{Message, Signed};
use statement::{Reference, SignedRelease, Statement};

/// Where the releases of OpenShift are published; a tag proves a version only in such a repository.
pub const RELEASE_REPOSITORY: &str = "quay.io/openshift-release-dev/ocp-release";

/// Signatures of one digest that are looked at; the CVO looks at nine.
pub const PER_DIGEST_MAX: usize = 32;
/// Signatures in all: more than OpenShift has releases.
pub const MAX: usize = 10_000;
/// `verifier-public-key-*` entries.
pub const KEYRINGS_MAX: usize = 16;

/// A signature as it was found, unread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The digest that its place says it is of; a hint and no more.
    pub digest: Digest,
    pub bytes: Arc<[u8]>,
    /// For a person: the ConfigMap and key, or the file.
    pub place: Arc<str>,
    /// In a ConfigMap of the cluster, where the CVO looks too.
    pub in_cluster: bool,
}

/// What one signature proves under some keyrings.
#[derive(Debug, PartialEq, Eq)]
pub struct Verified {
    statement: Statement,
    /// By keyring, in their order.
    by: Vec<Result<Signed, String>>,
}

/// The result of [`check`], or why a signature proves nothing under any keyring.
pub type Checked = Result<Arc<Verified>, Arc<str>>;

/// Verifies one signature. Its statement counts for nothing beyond the keyrings that signed it.
///
/// # Errors
/// Why it proves nothing.
pub fn check(bytes: &[u8], keyrings: &[Keyring]) -> Checked {
    let message = Message::parse(bytes)?;
    let by: Vec<_> = keyrings.iter().map(|keyring| message.verify(keyring)).collect();
    if !by.iter().any(Result::is_ok) {
        let fault = by.into_iter().find_map(Result::err);
        return Err(fault.unwrap_or_else(|| "there is no key to verify it with".into()).into());
    }
    Ok(Arc::new(Verified { statement: Statement::parse(&message.literal)?, by }))
}

/// The keys to verify with, and where they come from.
#[derive(Clone, Debug)]
pub struct Keys {
    pub keyrings: Arc<[Keyring]>,
    pub source: Arc<str>,
}

/// Everything known of release signatures. Built when signatures or keys change, then only read.
#[derive(Debug)]
pub struct Signatures {
    keys: Result<Keys, Missing>,
    /// Where signatures were looked for, or why one could not look there.
    places: Vec<Result<String, Missing>>,
    by_digest: HashMap<Digest, Vec<(Found, Checked)>>,
    read_at: Timestamp,
}

/// What the signatures say of one digest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Evidence<'s> {
    Proved(Proof<'s>),
    /// What was found, each with the reason why it is no proof.
    Invalid(Vec<(&'s str, String)>),
    /// None was found where signatures are looked for.
    Missing,
    /// There are no keys, or a place could not be looked at.
    Unknown(Missing),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proof<'s> {
    /// Versions and architectures that are proved beside the digest: none where no signature that counts names one.
    pub releases: Vec<&'s SignedRelease>,
    /// What the signatures call the image.
    pub references: Vec<&'s Reference>,
    /// The first signature, by the first keyring.
    pub signed: &'s Signed,
    pub place: &'s str,
    /// What the cluster holds of signatures proves it by itself.
    pub in_cluster: bool,
}

impl Signatures {
    /// Of each digest the first [`PER_DIGEST_MAX`] count, in the order given.
    #[must_use]
    pub fn new(
        keys: Result<Keys, Missing>,
        places: Vec<Result<String, Missing>>,
        found: impl IntoIterator<Item = (Found, Checked)>,
        read_at: Timestamp,
    ) -> Self {
        let mut by_digest: HashMap<Digest, Vec<(Found, Checked)>> = HashMap::new();
        for (found, checked) in found.into_iter().take(MAX) {
            let of_digest = by_digest.entry(found.digest).or_default();
            if of_digest.len() < PER_DIGEST_MAX {
                of_digest.push((found, checked));
            }
        }
        Self { keys, places, by_digest, read_at }
    }

    /// Where nothing of signatures is known, for `why`.
    #[must_use]
    pub fn nothing(why: &str) -> Self {
        let missing = Missing { why: why.into(), remedy: "name a cluster or its files".into() };
        Self::new(Err(missing), vec![], [], Timestamp::UNIX_EPOCH)
    }

    #[must_use]
    pub fn evidence(&self, digest: Digest, repositories: &[&str], now: Timestamp) -> Evidence<'_> {
        let keys = match &self.keys {
            Ok(keys) => keys,
            Err(missing) => return Evidence::Unknown(missing.clone()),
        };
        let judged: Vec<_> =
            self.of(digest).iter().map(|(found, checked)| (found, judge(found, checked, now))).collect();
        let valid: Vec<(&Found, &Verified)> =
            judged.iter().filter_map(|(found, judged)| Some((*found, *judged.as_ref().ok()?))).collect();
        if let Some((found, signed)) = covering(&valid, keys, now) {
            let references = valid.iter().map(|(_, verified)| &verified.statement.reference);
            let mut releases: Vec<&SignedRelease> = references
                .clone()
                .filter(|reference| repositories.contains(&&*reference.repository))
                .filter_map(|reference| reference.release.as_ref())
                .filter(|release| {
                    let same = |reference: &Reference| {
                        repositories.contains(&&*reference.repository) && reference.release.as_ref() == Some(*release)
                    };
                    let naming: Vec<_> =
                        valid.iter().filter(|(_, it)| same(&it.statement.reference)).copied().collect();
                    covering(&naming, keys, now).is_some()
                })
                .collect();
            releases.sort();
            releases.dedup();
            let of_cluster: Vec<_> = valid.iter().filter(|(found, _)| found.in_cluster).copied().collect();
            return Evidence::Proved(Proof {
                releases,
                references: references.collect(),
                signed,
                place: &found.place,
                in_cluster: covering(&of_cluster, keys, now).is_some(),
            });
        }
        let unseen = self.places.iter().find_map(|place| place.as_ref().err());
        match (judged.is_empty(), unseen) {
            (true, None) => Evidence::Missing,
            (true, Some(missing)) => Evidence::Unknown(missing.clone()),
            (false, _) => Evidence::Invalid(
                judged.into_iter().map(|(found, judged)| (&*found.place, reason(judged, keys, now))).collect(),
            ),
        }
    }

    /// The digests that signatures prove to be payloads of a version, each with its architecture, in digest order.
    #[must_use]
    pub fn of_version(&self, version: &Version, repositories: &[&str], now: Timestamp) -> Vec<(Digest, &'static str)> {
        let mut found: Vec<_> = self
            .by_digest
            .keys()
            .flat_map(|digest| {
                let releases = match self.evidence(*digest, repositories, now) {
                    Evidence::Proved(proof) => proof.releases,
                    _ => vec![],
                };
                releases.into_iter().filter(|it| it.version == *version).map(|it| (*digest, it.architecture))
            })
            .collect();
        found.sort();
        found
    }

    fn of(&self, digest: Digest) -> &[(Found, Checked)] {
        self.by_digest.get(&digest).map(Vec::as_slice).unwrap_or_default()
    }

    /// Where signatures were looked for, for a person.
    #[must_use]
    pub fn looked_in(&self) -> String {
        let places: Vec<_> = self.places.iter().filter_map(|place| place.as_deref().ok()).collect();
        if places.is_empty() { "nowhere".into() } else { places.join(", ") }
    }

    /// Where the keys come from, where there are any.
    #[must_use]
    pub fn keys(&self) -> Option<&Keys> {
        self.keys.as_ref().ok()
    }

    #[must_use]
    pub fn read_at(&self) -> Timestamp {
        self.read_at
    }

    /// How many signatures were found, of how many digests.
    #[must_use]
    pub fn counts(&self) -> (usize, usize) {
        (self.by_digest.values().map(Vec::len).sum(), self.by_digest.len())
    }
}

/// A signature found for a digest, if it is of that digest.
fn judge<'s>(found: &Found, checked: &'s Checked, now: Timestamp) -> Result<&'s Verified, String> {
    let verified = checked.as_deref().map_err(ToString::to_string)?;
    if verified.statement.digest != found.digest {
        return Err(format!("it is of {}, another image", verified.statement.digest));
    }
    let ended = |by: &Result<Signed, String>| by.as_ref().is_ok_and(|signed| !signed.lasts(now));
    match verified.by.iter().find(|by| ended(by)) {
        Some(Ok(Signed { until: Some(until), .. })) if !verified.by.iter().flatten().any(|it| it.lasts(now)) => {
            Err(format!("it ended {until}"))
        }
        _ => Ok(verified),
    }
}

/// The first signature, if together they are valid under each keyring.
fn covering<'s>(valid: &[(&'s Found, &'s Verified)], keys: &Keys, now: Timestamp) -> Option<(&'s Found, &'s Signed)> {
    let under = |index: usize| {
        valid.iter().find_map(|(found, verified)| {
            let signed = verified.by.get(index)?.as_ref().ok().filter(|signed| signed.lasts(now))?;
            Some((*found, signed))
        })
    };
    let every: Option<Vec<_>> = (0..keys.keyrings.len()).map(under).collect();
    every?.first().copied()
}

/// Why a signature that may even be valid does not prove a digest.
fn reason(judged: Result<&Verified, String>, keys: &Keys, now: Timestamp) -> String {
    let verified = match judged {
        Ok(verified) => verified,
        Err(why) => return why,
    };
    let lacking = verified.by.iter().zip(&*keys.keyrings).find_map(|(by, keyring)| match by {
        Ok(signed) if signed.lasts(now) => None,
        Ok(_) => Some(format!("it ended, and so proves nothing under {}", keyring.name)),
        Err(why) => Some(format!("each key entry needs a signature, and under {} {why}", keyring.name)),
    });
    lacking.unwrap_or_else(|| "it does not prove the digest".into())
}

impl Signed {
    fn lasts(&self, now: Timestamp) -> bool {
        self.until.is_none_or(|until| now < until)
    }
}
