//! `release-signature`: a release signature proves the digest, and which release it is.

use crate::cluster::Missing;
use crate::policy::{Context, FactKind, FactUse, Guard, Judgement, Policy};
use crate::pullspec::Digest;
use crate::settings::{Mode, OnUnknown};
use crate::signature::statement::SignedRelease;
use crate::signature::{Evidence, Proof};
use crate::text::{Text, shown};
use crate::upgrade::{Requested, Upgrade};
use crate::version::Version;

pub const POLICY: Policy = Policy {
    id: "release-signature",
    title: "a release signature proves the digest and the version",
    why: "A digest says nothing of who made an image. The CVO therefore wants a signature over it, which on a \
          disconnected site must have been mirrored; without one it refuses the update some minutes after it was asked for. \
          `force` switches that check off, and is what people reach for then: it also installs an image that nobody signed. \
          airgate verifies by the CVO's rule and the CVO's keys before the update is stored.",
    guards: &[Guard::ClusterVersionStep],
    mode: Mode::Deny,
    // Where force is set, a missing fact refuses: see `Asks::UnknownForced`.
    on_unknown: OnUnknown::Warn,
    facts: &[FactKind::ReleaseSignatures, FactKind::ReleaseVerification],
    judge,
};

const FIELD: &str = "spec.desiredUpdate.image";

fn judge(context: &Context<'_>, judgement: &mut Judgement) {
    let Some(upgrade) = Upgrade::of(context) else { return };
    let version = &*upgrade.to.version;
    if !version.is_empty() && Version::parse(version).is_none() {
        return; // Malformed: upgrade-path says so.
    }
    let Some(digest) = upgrade.target_digest() else { return };
    let same_version = upgrade.requested() == Requested::VersionOnly && Version::parse(version) == upgrade.current;
    if upgrade.current_digest == Some(digest) || same_version {
        return;
    }
    let step = Step { context, upgrade, digest };
    let repositories = context.settings.release_repositories();
    match context.signatures.evidence(digest, &repositories, context.now) {
        Evidence::Proved(proof) => step.proved(&proof, judgement),
        Evidence::Invalid(faults) => step.invalid(&faults, judgement),
        Evidence::Missing => step.missing(judgement),
        Evidence::Unknown(missing) => step.unknown(&missing, judgement),
    }
}

struct Step<'c, 'a> {
    context: &'c Context<'a>,
    upgrade: Upgrade<'a>,
    digest: Digest,
}

impl Step<'_, '_> {
    /// The digest is signed; what the signature calls it should be what the payload says.
    fn proved(&self, proof: &Proof<'_>, judgement: &mut Judgement) {
        judgement.facts.push(FactUse {
            name: format!("release signature by {}", proof.signed.by),
            source: proof.place.into(),
            as_of: self.context.signatures.read_at(),
        });
        let cluster_is_known = self.context.cluster.release_signatures.provenance().is_some();
        if !proof.in_cluster && cluster_is_known && !self.upgrade.to.force {
            let what =
                "this image is signed, but the cluster does not hold the signature, and the CVO looks nowhere else";
            let why = format!(
                "it is in {}: oc apply -f working-dir/cluster-resources/signature-configmap.yaml",
                shown(proof.place)
            );
            judgement.warn(FIELD, Text::new(what, why));
        }
        let Some(release) = self.context.catalog.get(self.digest) else { return };
        let says = |signed: &&SignedRelease| {
            signed.version == release.version
                && release.architecture.as_deref().is_none_or(|architecture| architecture == signed.architecture)
        };
        let [first, ..] = &proof.releases[..] else { return elsewhere(proof, judgement) };
        if !proof.releases.iter().any(says) {
            let architecture = release.architecture.as_deref().unwrap_or("unknown architecture");
            let what = format!(
                "the signature calls this image {first}, the payload calls itself {} for {architecture}",
                release.version
            );
            let text = Text::new(what, "so it proves the digest and not the version");
            if self.upgrade.to.force {
                judgement.deny(FIELD, text.works("ask for the release that the signature names"), self.upgrade.steps());
            } else {
                judgement.warn(FIELD, text);
            }
        }
    }

    fn missing(&self, judgement: &mut Judgement) {
        let why = format!("none was found in {}", self.context.signatures.looked_in());
        self.not_proved(why, supply(), judgement);
    }

    fn invalid(&self, faults: &[(&str, String)], judgement: &mut Judgement) {
        let shown_faults = faults.iter().take(3).map(|(place, why)| format!("{}: {}", shown(place), shown(why)));
        let more = if faults.len() > 3 { format!("; and {} more", faults.len() - 3) } else { String::new() };
        let why = format!("found but no proof: {}{more}", shown_faults.collect::<Vec<_>>().join("; "));
        let works = vec![
            "compare the digest with the one that was mirrored, and mirror the signature again:".to_owned(),
            "oc apply -f working-dir/cluster-resources/signature-configmap.yaml".to_owned(),
        ];
        self.not_proved(why, works, judgement);
    }

    fn not_proved(&self, why: String, works: Vec<String>, judgement: &mut Judgement) {
        if !self.upgrade.to.force {
            let what = "no release signature proves this image, and the CVO refuses one without";
            return judgement.warn(FIELD, works.into_iter().fold(Text::new(what, why), Text::works));
        }
        let what = format!(
            "force switches off the CVO's check of signatures, and none proves that {} is a release",
            self.digest
        );
        let text = works.into_iter().fold(Text::new(what, why), Text::works);
        judgement.deny(
            FIELD,
            text.works("then ask without --force: the CVO looks in the same ConfigMaps"),
            self.upgrade.steps(),
        );
    }

    fn unknown(&self, missing: &Missing, judgement: &mut Judgement) {
        let steps = self.upgrade.steps();
        if self.upgrade.to.force {
            let what = format!(
                "force switches off the CVO's check of signatures, and whether {} is signed cannot be judged",
                self.digest
            );
            judgement.unknown_forced(FIELD, what, missing, steps);
        } else {
            judgement.unknown(FIELD, "whether this release is signed cannot be judged", missing, steps);
        }
    }
}

/// No signature names a release of a repository that counts: said where one names another repository.
fn elsewhere(proof: &Proof<'_>, judgement: &mut Judgement) {
    if let Some(reference) = proof.references.iter().find(|reference| reference.release.is_some()) {
        let what = format!("the signature calls this image one of {}", shown(&reference.repository));
        let why = "so it proves the digest and not the version; releaseRepositories in the config names other repositories of releases";
        judgement.warn(FIELD, Text::new(what, why));
    }
}

fn supply() -> Vec<String> {
    vec![
        "apply the signature that was mirrored with the release (oc-mirror writes it, oc adm release mirror too):"
            .into(),
        "oc apply -f working-dir/cluster-resources/signature-configmap.yaml".into(),
    ]
}
