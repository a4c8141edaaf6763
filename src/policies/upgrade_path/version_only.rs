//! Judging a target that names a version or an architecture but no image: what the CVO would make of it.

use super::{FIELD, PathStep};
use crate::cluster::Missing;
use crate::policy::{Asks, Judgement};
use crate::pullspec::Digest;
use crate::release::{Release, Source};
use crate::text::{Text, counted, shown};
use crate::version::Version;

/// Digests on which sources differ that one text names.
const CONTRADICTIONS_SHOWN: usize = 4;

impl PathStep<'_, '_> {
    /// The CVO resolves a version through availableUpdates alone, now or at any later sync.
    pub(super) fn version_only(&self, judgement: &mut Judgement) {
        let Some(version) = Version::parse(&self.upgrade.to.version).filter(|v| *v != self.current) else { return };
        match &self.upgrade.available_by_version()[..] {
            [only] => match only.digest() {
                Some(digest) => self.payload(digest, judgement),
                None => {
                    let missing = Missing {
                        why: format!(
                            "status.availableUpdates offers {version} as {}, which names no digest",
                            shown(&only.image)
                        ),
                        remedy: "oc adm upgrade --allow-explicit-upgrade --to-image REPOSITORY@sha256:DIGEST".into(),
                    };
                    judgement.unknown(
                        FIELD,
                        format!("whether {} may go to {version} cannot be judged", self.current),
                        &missing,
                        self.upgrade.steps(),
                    );
                }
            },
            [] => self.not_available(&version, judgement),
            several => {
                let why = format!(
                    "status.availableUpdates has {}, and the CVO does not choose",
                    counted(several.len(), "payload")
                );
                let mut text =
                    Text::new(format!("{version} by version alone is ambiguous"), why).works("ask by image:");
                for digest in several.iter().filter_map(|update| update.digest()).take(3) {
                    text = text.works(self.upgrade.command(digest));
                }
                judgement.deny(FIELD, text, self.upgrade.steps());
            }
        }
    }

    fn not_available(&self, version: &Version, judgement: &mut Judgement) {
        let on_site = self.upgrade.one_of_version(version);
        let mut probe = Judgement::default();
        if let Ok(release) = on_site {
            self.payload(release.digest, &mut probe);
        }
        judgement.facts.append(&mut probe.facts);
        if on_site.is_ok() && self.upgrade.source_changed {
            // A fleet tool that sets channel and version in one write: the update service answers only afterwards.
            let what = format!("the update to {version} takes effect when the update service offers it");
            probe.warn(FIELD, Text::new(what, "it is asked for by version together with a new channel or upstream"));
            judgement.outcomes.append(&mut probe.outcomes);
            return;
        }
        let what = format!("{version} is asked for by version alone, and the update service does not offer it here");
        let why = "the CVO looks a version up in status.availableUpdates and nowhere else: it would do nothing now, and start \
                   unasked should the service ever offer it";
        let text = Text::new(what, why);
        let text = match (on_site, probe.outcomes.into_iter().find(|outcome| outcome.asks != Asks::Warn)) {
            (Ok(release), None) => text
                .works(format!("{version} is on this site and {} may go there; ask by image:", self.current))
                .works(self.upgrade.command(release.digest)),
            (Ok(_), Some(refusal)) => {
                let text = text.works(format!("not by image either: {}", refusal.text.line()));
                refusal.text.works.into_iter().fold(text, Text::works)
            }
            (Err(0), _) if !self.signed(version).is_empty() => {
                let text = text.works(format!(
                    "by its release signature this image is {version}; if it was mirrored too, ask for it by image:"
                ));
                self.signed(version).into_iter().take(3).fold(text, Text::works)
            }
            (Err(0), _) => text
                .works(format!("mirror {version} to this site and ask by image{}:", self.contradiction_of(version)))
                .works("oc adm upgrade --allow-explicit-upgrade --to-image REPOSITORY@sha256:DIGEST"),
            (Err(several), _) => {
                let unsure = self.upgrade.current_contradiction().map_or_else(String::new, |why| format!(" ({why})"));
                let text = text.works(format!(
                    "this site has {} of {version}{unsure}; ask for the right one by image:",
                    counted(several, "payload")
                ));
                let payloads = self.context.catalog.of_version(version).into_iter().take(3);
                payloads.fold(text, |text, release| text.works(self.upgrade.command(release.digest)))
            }
        };
        judgement.deny(FIELD, text, self.upgrade.steps());
    }

    /// `architecture: Multi`: a migration at the current version, or a version on a cluster that is multi already.
    pub(super) fn architecture(&self, judgement: &mut Judgement) {
        let architecture = &*self.upgrade.to.architecture;
        if architecture != "Multi" {
            let what = format!("{} is no architecture to update to", shown(architecture));
            let text = Text::new(what, "spec.desiredUpdate.architecture is Multi or empty")
                .works("oc adm upgrade --to-multi-arch");
            return judgement.malformed("spec.desiredUpdate.architecture", text);
        }
        let Some(version) = Version::parse(&self.upgrade.to.version) else {
            let text = Text::new(
                "an architecture is asked for without a version",
                "the CVO needs the current version beside it",
            )
            .works("oc adm upgrade --to-multi-arch");
            return judgement.malformed("spec.desiredUpdate.version", text);
        };
        if self.upgrade.multi() {
            return self.version_only(judgement);
        }
        if version != self.current {
            let what = format!("{version} with architecture Multi is two steps at once");
            let why =
                format!("the cluster runs {} for one architecture, and the CVO would ignore the version", self.current);
            let text = Text::new(what, why).works("migrate first, then upgrade: oc adm upgrade --to-multi-arch");
            return judgement.deny(FIELD, text, self.upgrade.steps());
        }
        self.migrate_to_multi(&version, judgement);
    }

    /// The commands for the payloads that a release signature proves to be of this version, and that may fit the cluster.
    fn signed(&self, version: &Version) -> Vec<String> {
        let context = self.context;
        let ours = self.upgrade.current_release().and_then(Release::single_architecture);
        let fits = |architecture: &str| match ours {
            _ if self.upgrade.multi() => architecture == "multi",
            Some(ours) => architecture == ours,
            None => true,
        };
        let signed = context.signatures.of_version(version, &context.settings.release_repositories(), context.now);
        let fitting = signed.into_iter().filter(|(_, architecture)| fits(architecture));
        fitting.map(|(digest, _)| self.upgrade.command(digest)).collect()
    }

    /// What sources disagree about that would be of this version; empty where they do not.
    fn contradiction_of(&self, version: &Version) -> String {
        let contradictions = self.context.catalog.contradictions_of(version);
        let told = |(digest, one, other): &(Digest, &Source, &Source)| {
            format!("; {} and {} say different things about {digest}", shown(&one.name), shown(&other.name))
        };
        // Any of them may be the one that hides what was asked for.
        contradictions.iter().take(CONTRADICTIONS_SHOWN).map(told).collect()
    }

    fn migrate_to_multi(&self, version: &Version, judgement: &mut Judgement) {
        let status = self.upgrade.status;
        let in_catalog = self.context.catalog.of_version(version).into_iter().find(|release| release.multi());
        let offered = status.available_updates.iter().any(|u| {
            Version::parse(&u.version).as_ref() == Some(version)
                && u.digest().is_some()
                && u.digest() != self.upgrade.current_digest
        });
        if let Some(release) = in_catalog {
            judgement.used_release(release);
        }
        if in_catalog.is_some() || offered {
            return;
        }
        if status.condition("RetrievedUpdates").is_some_and(|c| &*c.status == "True") {
            let what = format!("the multi payload of {version} is not known here");
            return judgement.warn(FIELD, Text::new(what, "the update service is asked for it once this is stored"));
        }
        let contradiction = self.contradiction_of(version);
        let missing = Missing {
            why: format!(
                "neither a release source on this site nor status.availableUpdates knows a multi payload of {version}{contradiction}"
            ),
            remedy: format!("mirror the multi payload of {version}, then: {}", super::SUPPLY),
        };
        judgement.unknown(
            FIELD,
            "whether the cluster can move to multi cannot be judged",
            &missing,
            self.upgrade.steps(),
        );
    }
}
