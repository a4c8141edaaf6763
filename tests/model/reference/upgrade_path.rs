//! `upgrade-path`: "the current version is in the target's `previous`".

use super::catalog::{self, Known};
use super::known::{cluster_is_multi, current_payload, current_version, newest_completed, rollback_candidate};
use super::texts::{digest_of, same_version, version};
use super::{Finding, Outcome, digest_only};
use crate::world::{CatalogEntry, ClusterVersion, Mode, Request, Target, World};

pub fn judge(world: &World) -> Vec<Finding> {
    let Some((old, new)) = guarded(world) else { return vec![] };
    let step = step(&new.target);
    let finding = |asks| if asks == Outcome::Pass { vec![] } else { vec![Finding::new(asks, &step)] };
    match payload(world, old, new) {
        Payload::Nothing(asks) => finding(asks),
        Payload::Malformed => vec![Finding::malformed()],
        Payload::LeftToOthers => vec![],
        Payload::Digest { digest, warn } => {
            let asks = judge_payload(old, &digest, &world.catalog);
            finding(if warn { asks.max(Outcome::Warn) } else { asks })
        }
    }
}

/// The stored and the submitted object of a request that upgrade-path and release-identity judge:
/// "ClusterVersion UPDATE: version, image, architecture, mode, force false to true".
pub fn guarded(world: &World) -> Option<(&ClusterVersion, &ClusterVersion)> {
    let Request::UpdateCv(old, new) = &world.request else { return None };
    // silent: only `version` means anything to the CVO.
    if new.name != "version" {
        return None;
    }
    let (before, after) = (&old.target, &new.target);
    let same_target = before.version == after.version
        && before.image == after.image
        && before.architecture == after.architecture
        && before.mode == after.mode;
    let forced = after.force && !before.force;
    // Q1: "Clearing it, {}, acceptRisks only, force true to false, or the same target as before is always allowed"
    (names_a_target(after) && (!same_target || forced)).then_some((old, new))
}

pub fn names_a_target(target: &Target) -> bool {
    !target.version.is_empty() || !target.image.is_empty() || !target.architecture.is_empty()
}

/// Q6: "the image's digest, else the version, `VERSION/Multi` for an architecture change"
pub fn step(target: &Target) -> String {
    if let Some(digest) = digest_of(&target.image) {
        digest.to_owned()
    } else if target.architecture.is_empty() {
        target.version.clone()
    } else {
        format!("{}/{}", target.version, target.architecture)
    }
}

/// Which payload a target means.
pub enum Payload {
    Digest {
        digest: String,
        warn: bool,
    },
    /// It is settled, or cannot be settled, without one.
    Nothing(Outcome),
    Malformed,
    /// Another policy says what is wrong with it.
    LeftToOthers,
}

pub fn payload(world: &World, old: &ClusterVersion, new: &ClusterVersion) -> Payload {
    let (target, catalog) = (&new.target, &*world.catalog);
    let digest_only_mode = world.settings.policies.get("digest-only").and_then(|(mode, _)| *mode);
    let digest_only_denies =
        digest_only_mode.is_none_or(|mode| mode == Mode::Deny) && !digest_only::judge(world).is_empty();
    let version_malformed = !target.version.is_empty() && version(&target.version).is_none();
    // "422: version that is not SemVer". silent: whose finding it is.
    if version_malformed {
        return Payload::Malformed;
    }
    if !target.image.is_empty() {
        // silent: an image that is malformed beside its digest is judged by the digest.
        return match digest_of(&target.image) {
            Some(digest) => Payload::Digest { digest: digest.to_owned(), warn: false },
            // "one cause, one denial": where digest-only denies it, that is said.
            None if digest_only_denies => Payload::LeftToOthers,
            None => Payload::Nothing(Outcome::Unknown),
        };
    }
    let Some(current) = current_version(old) else { return Payload::Nothing(Outcome::Unknown) };
    let multi = cluster_is_multi(old, catalog);
    if same_version(&target.version, current) {
        // "Version only, equal to the current version: the same release, allow."
        if target.architecture.is_empty() || multi {
            return Payload::Nothing(Outcome::Pass);
        }
        // Q5: "architecture: Multi at the current version: allow where the catalog or availableUpdates know the multi
        // payload, allow and warn where RetrievedUpdates is True, else Unknown."
        let catalog_knows = catalog::of_version(catalog, current).iter().any(catalog::Release::multi);
        // silent: another payload of the running version can only be that one.
        let running = digest_of(&old.desired.image);
        let offered = old.available.iter().any(|release| {
            let digest = digest_of(&release.image);
            let is_multi = release.architecture == "Multi" || (digest.is_some() && digest != running);
            is_multi && same_version(&release.version, current)
        });
        return Payload::Nothing(if catalog_knows || offered {
            Outcome::Pass
        } else if old.retrieved_updates == "True" {
            Outcome::Warn
        } else {
            Outcome::Unknown
        });
    }
    // Q5: "with another version: on a single-architecture cluster deny (migrate first), on a multi cluster as version
    // only."
    if !target.architecture.is_empty() && !multi {
        return Payload::Nothing(Outcome::Deny);
    }
    // Q5: "Version only: the CVO resolves it through availableUpdates alone. Exactly one entry there: judge that
    // payload. Otherwise deny"
    let offered: Vec<_> =
        old.available.iter().filter(|release| same_version(&release.version, &target.version)).collect();
    if let [only] = &offered[..] {
        return match digest_of(&only.image) {
            Some(digest) => Payload::Digest { digest: digest.to_owned(), warn: false },
            None => Payload::Nothing(Outcome::Unknown),
        };
    }
    // "Exception: the same request changes channel or upstream and the catalog resolves the version to one payload:
    // judge that one and warn"; "A channel change with a version that the catalog lacks: deny."
    // silent: where the service offers several, it will not choose either.
    let moved = (old.channel != new.channel || old.upstream != new.upstream) && offered.is_empty();
    // silent: of the payloads that are known not to be for this cluster none is meant.
    let running = current_payload(old, catalog).and_then(|running| running.architecture);
    let running = if multi { Some("multi".to_owned()) } else { running };
    let fits = |payload: &catalog::Release| match (&payload.architecture, &running) {
        (Some(payload), Some(running)) => payload == running,
        (None, Some(running)) => running != "multi",
        _ => true,
    };
    let mut found = catalog::of_version(catalog, &target.version);
    found.retain(fits);
    match &found[..] {
        [only] if moved => Payload::Digest { digest: only.digest.clone(), warn: true },
        _ => Payload::Nothing(Outcome::Deny),
    }
}

fn judge_payload(old: &ClusterVersion, digest: &str, catalog: &[CatalogEntry]) -> Outcome {
    let running = digest_of(&old.desired.image);
    // Q4: "Same release (same digest, any registry) is not an upgrade: allow."
    if running == Some(digest) {
        return Outcome::Pass;
    }
    // Q4: "A single-architecture child of a manifest list as target is denied"
    if catalog::list_of(catalog, digest).is_some() {
        return Outcome::Deny;
    }
    let known = catalog::look_up(catalog, digest);
    let multi = cluster_is_multi(old, catalog);
    // Q4: "Multi to single: deny where both sides are known"; "multi to single wins over rollback"
    if let Known::Release(release) = &known
        && multi
        && release.architecture.is_some()
        && !release.multi()
    {
        return Outcome::Deny;
    }
    // Q4: "z-rollback: the first history entry whose version differs from status.desired, same minor, same digest:
    // allow and warn; it needs no payload."
    // Where the payload lists the current version (forward again after a rollback) it is an upgrade like any other,
    // so there is nothing to warn of but known risks.
    if rollback_candidate(old).is_some_and(|entry| digest_of(&entry.image) == Some(digest)) {
        let current = current_version(old).unwrap_or_default();
        let listed = matches!(&known, Known::Release(release)
            if release.previous.iter().flatten().any(|version| same_version(version, current)));
        let risk = old.conditional.iter().find(|update| digest_of(&update.release.image) == Some(digest));
        let risky = risk.is_some_and(|update| update.recommended != "True");
        return if listed && !risky { Outcome::Pass } else { Outcome::Warn };
    }
    // silent: without a current version nothing can be listed, whoever offers it.
    let Some(current) = current_version(old) else { return Outcome::Unknown };
    // Q10: evidence by rank: a read payload; else an edge in the stored status.availableUpdates or conditionalUpdates
    // for exactly this digest: pass with a warning; else Unknown.
    let by_edge = || {
        let offered = old.available.iter().chain(old.conditional.iter().map(|update| &update.release));
        let edge = offered.into_iter().any(|release| digest_of(&release.image) == Some(digest));
        if edge { Outcome::Warn } else { Outcome::Unknown }
    };
    let Known::Release(release) = known else { return by_edge() };
    // Q4: "Same version, other digest: deny, except single to multi."
    if same_version(&release.version, current) {
        return if release.multi() && !multi { Outcome::Pass } else { Outcome::Deny };
    }
    let Some(previous) = release.previous else { return by_edge() };
    let lists = |wanted: &str| previous.iter().any(|version| same_version(version, wanted));
    if !lists(current) {
        return Outcome::Deny;
    }
    let known_risk = old.conditional.iter().find(|update| digest_of(&update.release.image) == Some(digest));
    let risky = known_risk.is_some_and(|update| update.recommended != "True");
    // Q13: "warn when graph data or conditionalUpdates know a risk"
    let listed = if risky { Outcome::Warn } else { Outcome::Pass };
    // Q2: while the newest entry is Partial, the newest Completed version has a say too.
    let underway = old.history.first().is_some_and(|entry| entry.state == "Partial");
    let Some(completed) = newest_completed(old).filter(|_| underway) else { return listed };
    let completed = &old.history[completed].version;
    if lists(completed) {
        return listed;
    }
    // Q2: "the newest Completed version must be listed too when ReleaseAccepted is False, the newest entry is Partial, and
    // the stored desiredUpdate is unset or is status.desired itself"
    if old.release_accepted == "False" && (!names_a_target(&old.target) || is_desired(old)) {
        // Q10: no fact, no guess. silent: what is there and no version is on no list.
        return if completed.is_empty() { Outcome::Unknown } else { Outcome::Deny };
    }
    // Q2: "When a mid-update retarget lists desired but not the newest Completed, allow and warn."
    Outcome::Warn
}

/// Whether the stored target is status.desired: by digest where it has an image, else by version.
fn is_desired(stored: &ClusterVersion) -> bool {
    if stored.target.image.is_empty() {
        same_version(&stored.target.version, &stored.desired.version)
    } else {
        stored.target.image == stored.desired.image
            || digest_of(&stored.target.image).is_some_and(|digest| digest_of(&stored.desired.image) == Some(digest))
    }
}
