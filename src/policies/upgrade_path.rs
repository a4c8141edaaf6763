//! `upgrade-path`: the current version is in the target's `previous`.

mod payload;
mod unread;
mod version_only;

use crate::cluster::Missing;
use crate::policy::{Context, Guard, Judgement, Policy};
use crate::settings::{Mode, OnUnknown};
use crate::text::{Text, shown};
use crate::upgrade::{Requested, Upgrade};
use crate::version::Version;

pub const POLICY: Policy = Policy {
    id: "upgrade-path",
    title: "the current version is in the target release's metadata.previous",
    why: "Every release says which versions it can be reached from. Connected clusters learn that from the update \
          service; a disconnected request names an image by digest, and the CVO installs it without ever looking at \
          that list. A step that is not listed was never built or tested as an update: it can lose backported fixes, \
          skip a minor, or leave the cluster half-way. `force` does not create an edge.",
    guards: &[Guard::ClusterVersionStep],
    mode: Mode::Deny,
    on_unknown: OnUnknown::Deny,
    facts: &[],
    judge,
};

const FIELD: &str = "spec.desiredUpdate";

/// How a release becomes known to airgate.
pub(super) const SUPPLY: &str = "put what it says below --releases, from where its registry can be reached: \
                                 airgate release export PULLSPEC > DIRECTORY/release.yaml";

fn judge(context: &Context<'_>, judgement: &mut Judgement) {
    let Some(upgrade) = Upgrade::of(context) else { return };
    let version = &*upgrade.to.version;
    if !version.is_empty() && Version::parse(version).is_none() {
        let text = Text::new(
            format!("{} is no version", shown(version)),
            "versions are SemVer, such as 4.19.9 or 4.19.0-rc.3",
        )
        .works("oc adm upgrade --allow-explicit-upgrade --to-image REPOSITORY@sha256:DIGEST");
        return judgement.malformed("spec.desiredUpdate.version", text);
    }
    if upgrade.target_digest().is_some_and(|digest| upgrade.current_digest == Some(digest)) {
        return; // The same release, whatever the registry.
    }
    if upgrade.requested() == Requested::ImageWithoutDigest {
        return image_without_digest(context, &upgrade, judgement);
    }
    let Some(current) = upgrade.current.clone() else {
        if let Requested::Digest(digest) = upgrade.requested()
            && payload::wrong_kind(context, &upgrade, digest, judgement)
        {
            return;
        }
        let stored = &*upgrade.status.desired.version;
        let missing = Missing {
            why: if stored.is_empty() {
                "the stored ClusterVersion has no status.desired.version".into()
            } else {
                format!("the stored status.desired.version {} is not SemVer", shown(stored))
            },
            remedy: "the CVO writes it: oc get clusterversion version -o yaml, oc logs -n openshift-cluster-version \
                     deployment/cluster-version-operator"
                .into(),
        };
        return judgement.unknown(
            FIELD,
            "the current version is not known, so no step can be judged",
            &missing,
            upgrade.steps(),
        );
    };
    let step = PathStep { context, upgrade, current };
    match step.upgrade.requested() {
        Requested::Digest(digest) => step.payload(digest, judgement),
        Requested::ImageWithoutDigest => {}
        Requested::Architecture => step.architecture(judgement),
        Requested::VersionOnly => step.version_only(judgement),
    }
}

/// A step whose current version is known.
struct PathStep<'c, 'a> {
    context: &'c Context<'a>,
    upgrade: Upgrade<'a>,
    current: Version,
}

/// digest-only refuses it with the remedy; a second denial for one cause would only bury that.
fn image_without_digest(context: &Context<'_>, upgrade: &Upgrade<'_>, judgement: &mut Judgement) {
    let digest_only = &super::digest_only::POLICY;
    let (to, from) = (upgrade.to, upgrade.from);
    let judged_there = to.image != from.image || (to.force && !from.force);
    if judged_there && digest_only.mode(context.settings) == Mode::Deny && digest_only.guards(&context.review.subject) {
        return;
    }
    let missing = Missing {
        why: format!("{} names no digest, so which release it is cannot be known", shown(&to.image)),
        remedy: "name the image by digest: oc adm upgrade --allow-explicit-upgrade --to-image REPOSITORY@sha256:DIGEST"
            .into(),
    };
    judgement.unknown(FIELD, "this update cannot be judged", &missing, upgrade.steps());
}
