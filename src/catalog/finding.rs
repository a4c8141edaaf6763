//! What was read of one release, whether or not it can be looked up by digest.

use std::sync::Arc;

use jiff::Timestamp;

use crate::payload::Payload;
use crate::problem::Problem;
use crate::pullspec::Digest;
use crate::release::{Component, Release, Source};
use crate::signature::Found;
use crate::version::Version;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub standing: Standing,
    pub version: Version,
    pub previous: Option<Vec<Version>>,
    pub architecture: Option<String>,
    pub shards: Vec<Digest>,
    pub components: Option<Arc<[Component]>>,
    pub source: Source,
    /// Images of a list that are not in this copy.
    pub unread: usize,
}

/// Whether what was read is known under the digest that a cluster would ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// This is the release's digest.
    Named(Digest),
    /// One image of a multi release whose list is not here.
    Shard(Digest),
    /// The manifest was rewritten on the way: its own digest, given here, is not the release's.
    Converted { own: Digest, list: bool },
    /// The form of the copy keeps no manifest.
    NoManifest,
}

/// How a source keeps manifests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeps {
    /// As the registry had them: a registry's own storage, a mirrored tree.
    Bytes,
    /// Tools convert while they copy to this form.
    Perhaps,
}

/// What was read of one source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    pub findings: Vec<Finding>,
    pub problems: Vec<Problem>,
    /// Release signatures, unread.
    pub signatures: Vec<Found>,
}

impl Outcome {
    #[must_use]
    pub fn problem(file: impl Into<String>, message: impl Into<String>) -> Self {
        Self { problems: vec![Problem::new(file, message)], ..Self::default() }
    }

    pub fn append(&mut self, other: Self) {
        self.findings.extend(other.findings);
        self.problems.extend(other.problems);
        self.signatures.extend(other.signatures);
    }

    /// Leaves out what is below a list that was read too.
    pub fn drop_children(&mut self) {
        let below: Vec<Digest> = self.findings.iter().flat_map(|finding| finding.shards.clone()).collect();
        self.findings.retain(|finding| finding.own_digest().is_none_or(|digest| !below.contains(&digest)));
    }
}

impl Finding {
    #[must_use]
    pub fn of_payload(payload: Payload, keeps: Keeps, place: &str, now: Timestamp) -> Self {
        let list = !payload.shards.is_empty();
        let standing = match keeps {
            Keeps::Perhaps if payload.rewritten => Standing::Converted { own: payload.digest, list },
            _ if payload.lone_shard => Standing::Shard(payload.digest),
            _ => Standing::Named(payload.digest),
        };
        let converted = matches!(standing, Standing::Converted { .. });
        Self {
            version: payload.version,
            previous: Some(payload.previous),
            architecture: Some(payload.architecture),
            // The children of a converted list were converted with it.
            shards: if converted { vec![] } else { payload.shards },
            components: Some(payload.components),
            source: Source { name: place.into(), read_at: now, verified: matches!(standing, Standing::Named(_)) },
            unread: payload.unread.len(),
            standing,
        }
    }

    #[must_use]
    pub fn of_release(release: Release) -> Self {
        Self {
            standing: Standing::Named(release.digest),
            version: release.version,
            previous: release.previous,
            architecture: release.architecture,
            shards: release.shards,
            components: release.components,
            source: release.source,
            unread: 0,
        }
    }

    /// What the catalog may hold of it.
    #[must_use]
    pub fn release(&self) -> Option<Release> {
        let Standing::Named(digest) = self.standing else { return None };
        Some(Release {
            digest,
            version: self.version.clone(),
            previous: self.previous.clone(),
            architecture: self.architecture.clone(),
            shards: self.shards.clone(),
            components: self.components.clone(),
            source: self.source.clone(),
        })
    }

    /// Of the image that was read, whatever it proves.
    #[must_use]
    pub fn own_digest(&self) -> Option<Digest> {
        match self.standing {
            Standing::Named(digest) | Standing::Shard(digest) | Standing::Converted { own: digest, .. } => Some(digest),
            Standing::NoManifest => None,
        }
    }

    /// Why it cannot be looked up by digest, and what works instead.
    #[must_use]
    pub fn note(&self) -> Option<String> {
        let what = format!("{} ({})", self.version, self.architecture.as_deref().unwrap_or("architecture unknown"));
        match self.standing {
            Standing::Named(_) => None,
            Standing::Shard(digest) => Some(format!(
                "{what}: {digest} is one image of a multi release, without the manifest list by whose digest a cluster \
                 names that release; copy the list with all its images (oc adm release mirror, oc-mirror)"
            )),
            Standing::Converted { own, list } => Some(format!(
                "{what} is here as a converted copy: its manifest was rewritten and has the digest {own}, which is not \
                 the release's, so a request by digest cannot be told to mean it; {}, or describe it in a catalog file",
                if list {
                    "copy it with a tool that keeps manifest lists (oc adm release mirror --to-dir, oc-mirror)"
                } else {
                    "copy it again with skopeo copy --preserve-digests"
                }
            )),
            Standing::NoManifest => Some(format!(
                "{what} is here as a docker-archive, which keeps no manifest: its digest is unknown, so a request by \
                 digest cannot be told to mean it; copy it again with skopeo copy --preserve-digests to oci-archive:FILE, \
                 or describe it in a catalog file"
            )),
        }
    }
}
