//! `clusterversion-singleton`: the ClusterVersion is never deleted, and never created with a target.

use crate::breakglass::Step;
use crate::policy::{Context, Guard, Judgement, Policy};
use crate::pullspec::Digest;
use crate::review::{Change, Subject};
use crate::settings::{Mode, OnUnknown};
use crate::text::Text;
use crate::upgrade::from_version;

pub const POLICY: Policy = Policy {
    id: "clusterversion-singleton",
    title: "the ClusterVersion is not deleted, nor created with an update target",
    why: "Deleting ClusterVersion `version` erases status.history, the only record of what the cluster ran and may \
          still need; `oc replace --force` does that and then stores any target unjudged, because a new object has no \
          current version to judge it by.",
    guards: &[Guard::ClusterVersionDelete, Guard::ClusterVersionCreateWithTarget],
    mode: Mode::Deny,
    on_unknown: OnUnknown::Deny,
    facts: &[],
    judge,
};

fn judge(context: &Context<'_>, judgement: &mut Judgement) {
    let Subject::ClusterVersion(change) = &context.review.subject else { return };
    let name = &change.object().metadata.name;
    match change {
        Change::Delete(old) => {
            let text = Text::new(
                format!("ClusterVersion {name} must not be deleted"),
                "its status.history is the only record of the releases that nodes may still run",
            )
            .works("change it in place: oc edit clusterversion version, or oc replace without --force")
            .works("to cancel an update that was asked for: oc adm upgrade --clear");
            let step = Step { from: from_version(&old.status), target: "delete".into() };
            judgement.deny("metadata.name", text, vec![step]);
        }
        Change::Create(new) => {
            let target = &new.spec.desired_update;
            let text = Text::new(
                format!("ClusterVersion {name} must not be created with an update target"),
                "a new object has no status, so no current version to judge the target by",
            )
            .works("drop spec.desiredUpdate from the manifest and try again; once the CVO has written the status,")
            .works("ask for the update: oc adm upgrade --allow-explicit-upgrade --to-image PULLSPEC");
            let digest = Digest::of_image(&target.image).map(|digest| digest.to_string());
            let target = match (&*target.version, &*target.architecture) {
                (version, "") => version.to_owned(),
                (version, architecture) => format!("{version}/{architecture}"),
            };
            let step = Step { from: "none".into(), target: digest.unwrap_or(target) };
            judgement.deny("spec.desiredUpdate", text, vec![step]);
        }
        Change::Update { .. } => {}
    }
}
