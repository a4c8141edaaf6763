//! `digest-only`: an image that nodes run is named by digest, so that what was judged is what gets installed.

use crate::objects::cluster_version::DesiredUpdate;
use crate::policy::{Context, Guard, Judgement, Policy};
use crate::pullspec::{Digest, Fault, Pullspec, repository};
use crate::review::{Change, Subject};
use crate::settings::{Mode, OnUnknown};
use crate::text::{Text, shown};

pub const POLICY: Policy = Policy {
    id: "digest-only",
    title: "ClusterVersion and MachineConfigs name their images by digest",
    why: "A tag can be moved to another image between the moment a step is judged and the moment it is installed, \
          and the cluster's mirrors (IDMS) and release signatures work by digest only. The CRDs accept any text, \
          `oc adm upgrade --force` sends a tag without complaint, and of an OS image by tag nodes of one pool may boot \
          different ones.",
    guards: &[
        Guard::ClusterVersionStep,
        Guard::ClusterVersionCreateWithTarget,
        Guard::MachineConfigCreateWithOsImage,
        Guard::MachineConfigOsImageChange,
    ],
    mode: Mode::Deny,
    on_unknown: OnUnknown::Deny,
    facts: &[],
    judge,
};

const FIELD: &str = "spec.desiredUpdate.image";
const OS_IMAGE: &str = "spec.osImageURL";

fn judge(context: &Context<'_>, judgement: &mut Judgement) {
    let none = DesiredUpdate::default();
    let (old, new) = match &context.review.subject {
        Subject::ClusterVersion(Change::Update { old, new }) => (&old.spec.desired_update, &new.spec.desired_update),
        Subject::ClusterVersion(Change::Create(new)) => (&none, &new.spec.desired_update),
        // That it changed is what its guards ask.
        Subject::MachineConfig(Change::Create(new) | Change::Update { new, .. }) => {
            return os_image(&new.spec.os_image_url, judgement);
        }
        _ => return,
    };
    // An old bad value may stay, unless it is now to be forced.
    let asked = new.image != old.image || (new.force && !old.force);
    if new.image.is_empty() || !asked {
        return;
    }
    let upgrade = |pullspec: &str| format!("oc adm upgrade --allow-explicit-upgrade --to-image {pullspec}");
    if let Some(text) = fault(&new.image, upgrade) {
        judgement.malformed(FIELD, text);
    }
}

fn os_image(image: &str, judgement: &mut Judgement) {
    if let Some(text) = fault(image, |pullspec| format!("{OS_IMAGE}: {pullspec}")) {
        judgement.malformed(OS_IMAGE, text);
    }
}

/// What is wrong with a pullspec, and how a right one is `given`.
fn fault(image: &str, given: impl Fn(&str) -> String) -> Option<Text> {
    let fault = Pullspec::parse(image).err()?;
    let text = Text::new(format!("\"{}\" is no pullspec by digest", shown(image)), format!("it {fault}"));
    Some(remedy(text, &fault, image, given))
}

fn remedy(text: Text, fault: &Fault, image: &str, given: impl Fn(&str) -> String) -> Text {
    match fault {
        Fault::TagBesideDigest { without } => text.works("the same pullspec without the tag:").works(given(without)),
        Fault::Tag | Fault::Bare => {
            let repository = repository(image).unwrap_or("HOST/REPOSITORY");
            text.works(format!("find the digest: oc image info {} | grep Digest, then", shown(image)))
                .works(given(&format!("{repository}@sha256:DIGEST")))
        }
        _ => match (Digest::of_image(image), repository(image)) {
            (Some(digest), Some(repository)) => text.works(given(&format!("{repository}@{digest}"))),
            _ => text.works(given("HOST[:PORT]/REPOSITORY@sha256:<64 lower-case hex digits>")),
        },
    }
}
