//! `digest-only`: a release is named by digest, so that what was judged is what gets installed.

use crate::objects::cluster_version::DesiredUpdate;
use crate::policy::{Context, Guard, Judgement, Policy};
use crate::pullspec::{Digest, Fault, Pullspec, repository};
use crate::review::{Change, Subject};
use crate::settings::{Mode, OnUnknown};
use crate::text::{Text, shown};

pub const POLICY: Policy = Policy {
    id: "digest-only",
    title: "ClusterVersion names its release image by digest",
    why: "A tag can be moved to another image between the moment a step is judged and the moment it is installed, \
          and the cluster's mirrors (IDMS) and release signatures work by digest only. The CRD accepts any text, and \
          `oc adm upgrade --force` sends a tag without complaint.",
    guards: &[Guard::ClusterVersionStep, Guard::ClusterVersionCreateWithTarget],
    mode: Mode::Deny,
    on_unknown: OnUnknown::Deny,
    facts: &[],
    judge,
};

const FIELD: &str = "spec.desiredUpdate.image";

fn judge(context: &Context<'_>, judgement: &mut Judgement) {
    let none = DesiredUpdate::default();
    let (old, new) = match &context.review.subject {
        Subject::ClusterVersion(Change::Update { old, new }) => (&old.spec.desired_update, &new.spec.desired_update),
        Subject::ClusterVersion(Change::Create(new)) => (&none, &new.spec.desired_update),
        _ => return,
    };
    // An old bad value may stay, unless it is now to be forced.
    let asked = new.image != old.image || (new.force && !old.force);
    if new.image.is_empty() || !asked {
        return;
    }
    let Err(fault) = Pullspec::parse(&new.image) else { return };
    let text = Text::new(format!("\"{}\" is no pullspec by digest", shown(&new.image)), format!("it {fault}"));
    judgement.malformed(FIELD, remedy(text, &fault, &new.image));
}

fn remedy(text: Text, fault: &Fault, image: &str) -> Text {
    let upgrade = |pullspec: &str| format!("oc adm upgrade --allow-explicit-upgrade --to-image {pullspec}");
    match fault {
        Fault::TagBesideDigest { without } => text.works("the same pullspec without the tag:").works(upgrade(without)),
        Fault::Tag | Fault::Bare => {
            let repository = repository(image).unwrap_or("HOST/REPOSITORY");
            text.works(format!("find the digest: oc image info {} | grep Digest, then", shown(image)))
                .works(upgrade(&format!("{repository}@sha256:DIGEST")))
        }
        _ => match (Digest::of_image(image), repository(image)) {
            (Some(digest), Some(repository)) => text.works(upgrade(&format!("{repository}@{digest}"))),
            _ => text.works(upgrade("HOST[:PORT]/REPOSITORY@sha256:<64 lower-case hex digits>")),
        },
    }
}
