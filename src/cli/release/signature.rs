//! What release signatures say of a release that was read.

use anyhow::Result;
use jiff::Timestamp;
use serde::Serialize;

use super::Site;
use crate::catalog::{Finding, Outcome, Reader, Standing};
use crate::cli::source;
use crate::cluster::Snapshot;
use crate::settings::Settings;
use crate::signature::statement::SignedRelease;
use crate::signature::{Evidence, Signatures};
use crate::signatures::{FromFiles, Verifier, read_key_file};
use crate::text::{Text, shown};

#[derive(Debug, Serialize)]
pub struct Signature {
    /// `valid`, `invalid`, `missing` or `unknown`.
    pub status: &'static str,
    /// What the signature proves the release to be beside its digest.
    pub release: Option<String>,
    /// The fingerprint of the key.
    pub key: Option<String>,
    pub note: String,
}

/// Everything that could hold a signature: the cluster's files, the release directories, and what was read just now.
pub struct Signed {
    signatures: Signatures,
    settings: Settings,
    now: Timestamp,
}

impl Signed {
    pub fn read(site: &Site<'_>, read: &[(&str, Outcome)], now: Timestamp) -> Result<Self> {
        let config = &site.config;
        let named = source::cluster(config.state.clone(), config.kubeconfig.clone(), vec![], &site.runtime)?;
        let nothing =
            || Snapshot::nothing("no cluster was asked: name it with --state DIR or --kubeconfig FILE").into();
        let cluster = named.map_or_else(nothing, |cluster| cluster.facts.snapshot());
        let mut reader = Reader::default();
        if !config.releases.is_empty() {
            let _ = reader.load(&config.releases, now);
        }
        let here = read.iter().flat_map(|(_, outcome)| outcome.signatures.iter());
        let files = FromFiles {
            found: here.chain(reader.signatures().iter()).cloned().collect(),
            looked: true,
            keys: config.release_keys.as_deref().map(|file| read_key_file(file).into()),
        };
        let signatures = Verifier::default().signatures(&cluster, &files, now);
        Ok(Self { signatures, settings: config.settings(), now })
    }

    pub fn of(&self, finding: &Finding) -> Signature {
        let told = |status, note: String| Signature { status, release: None, key: None, note };
        let (Standing::Named(digest) | Standing::Shard(digest)) = finding.standing else {
            return told(
                "unknown",
                "this copy does not tell the digest of the release, which is what is signed".into(),
            );
        };
        let proof = match self.signatures.evidence(digest, &self.settings.release_repositories(), self.now) {
            Evidence::Proved(proof) => proof,
            Evidence::Invalid(faults) => {
                let faults = faults.iter().map(|(place, why)| format!("{}: {}", shown(place), shown(why)));
                return told("invalid", faults.collect::<Vec<_>>().join("; "));
            }
            Evidence::Missing => return told("missing", format!("none in {}", self.signatures.looked_in())),
            Evidence::Unknown(missing) => {
                return told("unknown", Text::new(missing.why, missing.remedy).line());
            }
        };
        let names = |signed: &&&SignedRelease| {
            signed.version == finding.version
                && finding.architecture.as_deref().is_none_or(|ours| ours == signed.architecture)
        };
        let release = proof.releases.iter().find(names).map(ToString::to_string);
        let note = match (&release, proof.references.first()) {
            (None, Some(reference)) => {
                format!("{}; proves the digest only, it calls the image {}", shown(proof.place), shown(&reference.text))
            }
            _ => shown(proof.place).into_owned(),
        };
        Signature { status: "valid", release, key: Some(proof.signed.by.clone()), note }
    }
}
