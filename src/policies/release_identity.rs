//! `release-identity`: the requested version is the payload's, and its architecture fits the cluster's.

use crate::cluster::Missing;
use crate::policy::{Context, Guard, Judgement, Policy};
use crate::pullspec::Digest;
use crate::release::Release;
use crate::settings::{Mode, OnUnknown};
use crate::text::{Text, shown};
use crate::upgrade::{Requested, Upgrade};
use crate::version::Version;

pub const POLICY: Policy = Policy {
    id: "release-identity",
    title: "the requested version is the payload's, and its architecture fits the cluster's",
    why: "A request may name an image and a version that do not belong together: the CVO refuses it only after the \
          payload was pulled, and a merge patch keeps a version that was stored earlier beside a new image. A payload \
          for another architecture strands every node.",
    guards: &[Guard::ClusterVersionStep],
    mode: Mode::Deny,
    // upgrade-path already says what is missing: one cause, one denial.
    on_unknown: OnUnknown::Allow,
    facts: &[],
    judge,
};

fn judge(context: &Context<'_>, judgement: &mut Judgement) {
    let Some(upgrade) = Upgrade::of(context) else { return };
    let Some(digest) = upgrade.target_digest() else { return };
    // The running version by version alone is the same release, whatever else calls itself that.
    if upgrade.requested() == Requested::VersionOnly && Version::parse(&upgrade.to.version) == upgrade.current {
        return;
    }
    let release = context.catalog.get(digest);
    if let Some(release) = release {
        judgement.used_release(release);
        architecture(&upgrade, release, judgement);
    }
    version(&upgrade, digest, release, judgement);
}

fn version(upgrade: &Upgrade<'_>, digest: Digest, release: Option<&Release>, judgement: &mut Judgement) {
    let Some(requested) = Version::parse(&upgrade.to.version) else { return };
    let Some((actual, source)) = known_version(upgrade, digest, release) else {
        let missing = Missing {
            why: format!("no source says which version {digest} is"),
            remedy: super::upgrade_path::SUPPLY.into(),
        };
        let what = format!("whether {requested} is the version of that image cannot be judged");
        return judgement.unknown("spec.desiredUpdate.version", what, &missing, upgrade.steps());
    };
    if requested == actual {
        return;
    }
    let what = format!("the image is {actual}, not {}", shown(&upgrade.to.version));
    let (to, from) = (upgrade.to, upgrade.from);
    let without_version = |fix: &str, why: String| Text::new(&*what, why).works(fix).works(upgrade.command(digest));
    let of_requested = |why: String| match upgrade.one_of_version(&requested) {
        Ok(release) => Text::new(&*what, why)
            .works(format!("the image of {requested} on this site:"))
            .works(upgrade.command(release.digest)),
        Err(_) => without_version("leave the version out:", why),
    };
    let kept = "is the one stored earlier, and a merge patch that sets only the";
    let text = match (to.version != from.version, to.image != from.image) {
        (false, true) => without_version(
            "drop the stored version in the same step:",
            format!("{source} says so; spec.desiredUpdate.version {requested} {kept} image keeps it"),
        ),
        (true, false) if !to.image.is_empty() => {
            of_requested(format!("{source} says so; spec.desiredUpdate.image {kept} version keeps it"))
        }
        _ => of_requested(format!("{source} says so, and the CVO refuses a payload whose version differs")),
    };
    judgement.deny("spec.desiredUpdate.version", text, upgrade.steps());
}

/// What is known of the version of a digest, and who says so.
fn known_version(upgrade: &Upgrade<'_>, digest: Digest, release: Option<&Release>) -> Option<(Version, String)> {
    let by_release = || release.map(|release| (release.version.clone(), release.source.name.to_string()));
    let status = upgrade.status;
    let desired = [(&status.desired.version, status.desired.digest(), "status.desired")];
    let available = status.available_updates.iter().map(|u| (&u.version, u.digest(), "status.availableUpdates"));
    let conditional = status
        .conditional_updates
        .iter()
        .map(|u| (&u.release.version, u.release.digest(), "status.conditionalUpdates"));
    let history = status.history.iter().map(|entry| (&entry.version, entry.digest(), "status.history"));
    let by_status = || {
        desired
            .into_iter()
            .chain(available)
            .chain(conditional)
            .chain(history)
            .filter(|(_, known, _)| *known == Some(digest))
            .find_map(|(version, _, source)| Some((Version::parse(version)?, source.to_owned())))
    };
    by_release().or_else(by_status)
}

fn architecture(upgrade: &Upgrade<'_>, release: &Release, judgement: &mut Judgement) {
    // From multi to single is upgrade-path's: one cause, one denial.
    if upgrade.multi() || upgrade.current_digest == Some(release.digest) {
        return;
    }
    let Some(ours) = upgrade.current_release().and_then(Release::single_architecture) else { return };
    if upgrade.current.is_none() && release.multi() {
        let missing = Missing {
            why: "status.desired.version is not known, and a cluster moves to multi at its current version only".into(),
            remedy: "oc get clusterversion version -o yaml".into(),
        };
        let what =
            format!("whether a {ours} cluster may go to the multi payload of {} cannot be judged", release.version);
        return judgement.unknown("spec.desiredUpdate.image", what, &missing, upgrade.steps());
    }
    let other_version = upgrade.current.as_ref().is_some_and(|current| *current != release.version);
    let (theirs_by, ours_by) =
        (&release.source.name, upgrade.current_digest.map(|d| d.to_string()).unwrap_or_default());
    let text = match release.single_architecture() {
        Some(theirs) if theirs != ours => Text::new(
            format!("{} is for {theirs}, the cluster is {ours}", release.version),
            format!("{theirs_by} says so; the cluster's own release {ours_by} is for {ours}"),
        )
        .works(format!("name the {ours} payload of {}", release.version)),
        None if release.multi() && other_version => Text::new(
            format!("{} is a multi payload and the cluster is {ours}", release.version),
            format!(
                "the cluster's own release {ours_by} is for {ours}; moving to multi and to another version are two steps, \
                 and the first stays at the current version"
            ),
        )
        .works("migrate first, then upgrade: oc adm upgrade --to-multi-arch"),
        _ => return,
    };
    judgement.deny("spec.desiredUpdate.image", text, upgrade.steps());
}
