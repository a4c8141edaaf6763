//! Judging a target whose payload was not read, or turned out to be none of a whole release.

use super::{FIELD, PathStep, SUPPLY};
use crate::cluster::Missing;
use crate::policy::{Judgement, Want};
use crate::pullspec::Digest;
use crate::release::{Attempt, AttemptEnd, Lookup};
use crate::text::{Text, shown};

impl PathStep<'_, '_> {
    /// A payload that was read and is one image of a multi release; yields whether it is.
    pub(super) fn lone_shard(&self, digest: Digest, judgement: &mut Judgement) -> bool {
        let Some(Attempt { digest: of, end: AttemptEnd::Shard { version, source } }) = self.context.attempt else {
            return false;
        };
        if *of != digest {
            return false;
        }
        let what = format!("{digest} is the payload of one architecture, not the release {version}");
        let why = format!(
            "its metadata says that {version} is multi ({}, digest verified), and a cluster names such a release by the digest \
             of its manifest list; installed by itself it strands nodes of the other architectures",
            source.name
        );
        let text = Text::new(what, why)
            .works("use the list digest, the one that skopeo and podman print for the tag and oc as listDigest:")
            .works("oc adm release info --filter-by-os=linux/amd64 -o jsonpath='{.listDigest}' PULLSPEC-BY-TAG");
        judgement.deny(FIELD, text, self.upgrade.steps());
        true
    }

    /// No payload was read: an edge that the update service offers for exactly this digest is evidence too.
    pub(super) fn by_offer(&self, digest: Digest, lookup: Lookup<'_>, judgement: &mut Judgement) {
        if !matches!(lookup, Lookup::Contradiction(..)) {
            judgement.wants.push(Want { digest, repository: self.upgrade.repository_of(digest) });
        }
        let attempt = self.context.attempt.filter(|attempt| attempt.digest == digest).map(|attempt| &attempt.end);
        let why_missing = match (lookup, attempt) {
            (Lookup::Contradiction(one, other), _) => {
                format!("{} and {} say different things about {digest}", one.name, other.name)
            }
            (Lookup::Release(release), _) => {
                format!("{} does not say which versions {} can be reached from", release.source.name, release.version)
            }
            (Lookup::Missing, Some(AttemptEnd::Reading(from))) => format!("it is still being read from {from}"),
            (Lookup::Missing, Some(AttemptEnd::Failed(why))) => {
                format!("no release source on this site knows that digest and it could not be read: {why}")
            }
            (Lookup::Missing, _) if self.context.catalog.is_empty() => {
                "no release source on this site holds any release that is known by its digest (--releases)".into()
            }
            (Lookup::Missing, _) if self.upgrade.to.image.is_empty() => {
                format!("no release source on this site knows {digest}")
            }
            (Lookup::Missing, _) => "no release source on this site knows that digest".into(),
        };
        let offer =
            self.upgrade.available(digest).map(|update| (&*update.version, "status.availableUpdates")).or_else(|| {
                self.upgrade.conditional(digest).map(|u| (&*u.release.version, "status.conditionalUpdates"))
            });
        if let Some((version, source)) = offer {
            let what = format!("judged by {source} alone, which offers {} for this digest", shown(version));
            judgement.warn(FIELD, Text::new(what, why_missing));
            return self.known_risks(digest, &shown(version), judgement);
        }
        let missing = Missing {
            why: format!("{why_missing}, so which versions it can be reached from is not known"),
            remedy: match (lookup, attempt) {
                (Lookup::Contradiction(..), _) => {
                    "remove the wrong one; oc adm release info -o json PULLSPEC tells which".into()
                }
                (_, Some(AttemptEnd::Reading(_))) => "ask again in a few seconds".into(),
                (_, Some(AttemptEnd::Failed(_))) => format!(
                    "mend what those places answer (airgate release info PULLSPEC asks them again); or {SUPPLY}"
                ),
                _ => SUPPLY.into(),
            },
        };
        let target = if self.upgrade.to.image.is_empty() { &self.upgrade.to.version } else { &self.upgrade.to.image };
        let what = format!("whether {} may go to {} cannot be judged", self.current, shown(target));
        judgement.unknown(FIELD, what, &missing, self.upgrade.steps());
    }
}
