//! `release-in-use`: "no release that is in use, or that status.history still names, leaves the cluster".

use super::catalog::{self, Known};
use super::known::{newest_completed, rollback_candidate, version_in_history};
use super::texts::{digest_of, same_version, version};
use super::upgrade_path::names_a_target;
use super::{Finding, Outcome};
use crate::world::{Bundle, CatalogEntry, ClusterVersion, Iri, Request, Retain, Seen, World};

pub fn judge(world: &World) -> Vec<Finding> {
    let (names, whole) = match &world.request {
        // A terminating object: the platform must be able to finish, and another DELETE changes nothing (case 32).
        Request::DeleteIri(old) | Request::UpdateIri(old, _) if old.terminating => return vec![],
        // "a DELETE takes every bundle that spec, status or any MCN names"
        Request::DeleteIri(old) => (every_name(old, world), true),
        // "IRI UPDATE that drops a release"
        Request::UpdateIri(old, new) => {
            (old.spec.iter().filter(|name| !new.spec.contains(name)).cloned().collect(), false)
        }
        _ => return vec![],
    };
    let (Request::DeleteIri(old) | Request::UpdateIri(old, _)) = &world.request else { return vec![] };
    let mut findings: Vec<Finding> = vec![];
    let mut open = !reliable(&world.nodes); // Without the MCNs nobody knows which further bundles a DELETE takes.
    for name in &names {
        let asks = judge_bundle(name, &images_of(name, old, world), world);
        open |= !asks.contains(&Outcome::Deny);
        findings.extend(asks.into_iter().map(|asks| Finding::new(asks, name)));
    }
    // Q10: "No fact, no guess"; "a missing fact matters only if the verdict would differ with it": not where everything
    // that leaves is held anyway.
    let asked = whole || !names.is_empty();
    if asked && open && !facts(world, names.is_empty()) {
        // silent: a missing fact is about the deletion as a whole, `delete`; of an UPDATE about each bundle it drops.
        let steps = if whole { vec!["delete".to_owned()] } else { names };
        findings.extend(steps.iter().map(|step| Finding::new(Outcome::Unknown, step)));
    }
    findings
}

/// Whether everything is known that decides what is kept. An IRI that names nothing holds nothing, if the MCNs say so too.
fn facts(world: &World, nothing_named: bool) -> bool {
    // "No ClusterVersion at all is Unknown, never nothing in use"
    // clusterversion.md section 3: "status or history empty -> unknown -> deny removals (fail closed)"
    let cluster_version = matches!(&world.cluster_version, Seen::Yes(stored) if !stored.history.is_empty());
    reliable(&world.nodes) && (nothing_named || (cluster_version && pools_reliable(world)))
}

/// Q10: "A watched fact without event for 5 minutes is Unknown for irreversible allows": what it holds against a removal
/// counts all the same.
fn reliable<T>(seen: &Seen<T>) -> bool {
    matches!(seen, Seen::Yes(_) | Seen::Absent)
}

fn node_bundles(world: &World) -> impl Iterator<Item = &Bundle> {
    world.nodes.value().into_iter().flatten().flatten()
}

fn every_name(iri: &Iri, world: &World) -> Vec<String> {
    let named = iri.status.iter().chain(node_bundles(world)).map(|bundle| &bundle.name);
    let mut names: Vec<String> = iri.spec.iter().chain(named).cloned().collect();
    names.sort();
    names.dedup();
    names
}

/// Q8: "digests from IRI status and from every MCN"
fn images_of(name: &str, iri: &Iri, world: &World) -> Vec<String> {
    let all = iri.status.iter().chain(node_bundles(world));
    all.filter(|bundle| bundle.name == name).filter_map(|bundle| digest_of(&bundle.image)).map(str::to_owned).collect()
}

fn judge_bundle(name: &str, digests: &[String], world: &World) -> Vec<Outcome> {
    let retain = world.settings.retain;
    let kept = kept(world);
    let held = |level: Retain| {
        kept.iter()
            .filter(move |release| release.level == level)
            .map(|release| matches(name, digests, release, &world.catalog))
    };
    let levels = [Retain::InUse, Retain::Rollback, Retain::History];
    let asked = || levels.into_iter().filter(|level| *level <= retain);
    if asked().any(|level| held(level).any(|holds| holds == Some(true))) {
        return vec![Outcome::Deny];
    }
    let mut asks = vec![];
    if asked().any(|level| held(level).any(|holds| holds.is_none())) {
        asks.push(Outcome::Unknown);
    }
    // Q7: "retain: in-use ...: there such a removal is allowed with a warning"
    if levels.into_iter().any(|level| held(level).any(|holds| holds == Some(true))) {
        asks.push(Outcome::Warn);
    }
    asks
}

/// "A rendered config without the release annotation makes its pool Unknown."
fn pools_reliable(world: &World) -> bool {
    let pools = match &world.pools {
        Seen::Yes(pools) => pools,
        Seen::Absent => return true,
        Seen::Stale(_) | Seen::Unknown => return false,
    };
    let mut names = pools.iter().flat_map(|pool| [&pool.spec, &pool.status]).filter(|name| !name.is_empty());
    names.all(|name| match &world.rendered {
        Seen::Yes(rendered) => matches!(rendered.get(name), Some(Some(_))),
        _ => false,
    })
}

/// A release that is kept, and why.
struct Kept {
    level: Retain,
    version: Option<String>,
    digest: Option<String>,
}

/// Q7, what a release is kept for.
fn kept(world: &World) -> Vec<Kept> {
    let mut all = vec![];
    // "what a MachineConfigPool still runs (spec and status configuration's rendered config, annotation ...)"
    for pool in world.pools.value().into_iter().flatten() {
        for name in [&pool.spec, &pool.status] {
            if let Some(Some(release)) = world.rendered.value().and_then(|rendered| rendered.get(name)) {
                all.push(Kept { level: Retain::InUse, version: version(release).map(str::to_owned), digest: None });
            }
        }
    }
    let Some(stored) = world.cluster_version.value() else { return all };
    let mut keep = |level, version_text: &str, image: &str| {
        let digest = digest_of(image).map(str::to_owned);
        let stated = version(version_text).map(str::to_owned);
        // silent: a digest has the version that the catalog or the history states of it, unless something unreadable stands
        // there.
        let known = digest.as_deref().filter(|_| version_text.is_empty()).and_then(|digest| {
            match catalog::look_up(&world.catalog, digest) {
                Known::Release(release) => Some(release.version),
                _ => version_in_history(stored, digest).map(str::to_owned),
            }
        });
        all.push(Kept { level, version: stated.or(known), digest });
    };
    // "in-use = status.desired"
    keep(Retain::InUse, &stored.desired.version, &stored.desired.image);
    // "the pending spec.desiredUpdate"
    if names_a_target(&stored.target) {
        keep(Retain::InUse, &stored.target.version, &stored.target.image);
    }
    // "history from the newest entry down to and including the newest Completed (none Completed: all)"
    let last = newest_completed(stored).unwrap_or(stored.history.len());
    for (index, entry) in stored.history.iter().enumerate() {
        // "history (the default) adds every entry that status.history still names"
        let level = if index <= last { Retain::InUse } else { Retain::History };
        keep(level, &entry.version, &entry.image);
    }
    // "rollback adds the rollback candidate"
    if let Some(candidate) = rollback_candidate(stored) {
        keep(Retain::Rollback, &candidate.version, &candidate.image);
    }
    // silent: a version without a digest, as every pool's is, has the digest that the history last states of it.
    for release in all.iter_mut().filter(|release| release.digest.is_none()) {
        release.digest = release.version.as_deref().and_then(|version| digest_in_history(stored, version));
    }
    all
}

fn digest_in_history(stored: &ClusterVersion, wanted: &str) -> Option<String> {
    let past = stored.history.iter().map(|entry| (&entry.version, &entry.image));
    let mut all = std::iter::once((&stored.desired.version, &stored.desired.image)).chain(past);
    let found = all.find(|(version, image)| same_version(version, wanted) && digest_of(image).is_some());
    found.and_then(|(_, image)| digest_of(image)).map(str::to_owned)
}

/// Whether a bundle is a kept release; `None` where that is not known. Q8: "A bundle matches a release when the digest
/// or the version matches".
fn matches(name: &str, digests: &[String], kept: &Kept, catalog: &[CatalogEntry]) -> Option<bool> {
    if let Some(kept) = &kept.digest
        && digests.iter().any(|digest| catalog::one_release(catalog, digest, kept))
    {
        return Some(true);
    }
    // silent: a payload of which the catalog knows the version has that version, whatever its bundle is called.
    let known_version = |digest: &String| match catalog::look_up(catalog, digest) {
        Known::Release(release) => Some(release.version),
        _ => None,
    };
    if let Some(kept) = &kept.version
        && digests.iter().filter_map(known_version).any(|version| same_version(&version, kept))
    {
        return Some(true);
    }
    let by_name = kept.version.as_ref().map_or(ByName::Unclear, |version| by_name(name, version));
    if by_name == ByName::Same {
        return Some(true);
    }
    // "An all-zero or missing digest is unknown, never different: then the name decides"
    let digests_differ = kept.digest.is_some() && !digests.is_empty();
    if digests_differ || by_name == ByName::Other { Some(false) } else { None }
}

#[derive(PartialEq, Eq)]
enum ByName {
    Same,
    Other,
    Unclear,
}

/// "name built from version and known architecture suffixes, cut at 64 characters, never by prefix"; "a name without a
/// version, or one that continues a kept version by neither a known suffix nor an OpenShift prerelease (ec., rc., 0.),
/// is Unknown".
fn by_name(name: &str, kept: &str) -> ByName {
    let kept = version(kept).unwrap_or_default();
    let cut = |text: String| text.chars().take(64).collect::<String>();
    let bare = format!("ocp-release-bundle-{kept}");
    for suffix in ["", "-x86_64", "-aarch64", "-s390x", "-ppc64le", "-multi"] {
        if name == cut(format!("{bare}{suffix}")) {
            return ByName::Same;
        }
    }
    if let Some(rest) = name.strip_prefix(&format!("{bare}-")) {
        let prerelease = ["ec.", "rc.", "0."].iter().any(|start| rest.starts_with(start));
        return if prerelease { ByName::Other } else { ByName::Unclear };
    }
    let rest = name.strip_prefix("ocp-release-bundle-").unwrap_or_default();
    let numbers: Vec<_> = rest.split('-').next().unwrap_or_default().split('.').collect();
    let number = |part: &&str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    if numbers.len() == 3 && numbers.iter().all(number) { ByName::Other } else { ByName::Unclear }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_built_and_never_cut_apart() {
        for (name, kept, same) in [
            ("ocp-release-bundle-4.19.9-x86_64", "4.19.9", Some(true)),
            ("ocp-release-bundle-4.19.9-x86_64", "4.19.9+build", Some(true)),
            ("ocp-release-bundle-4.19.90-x86_64", "4.19.9", Some(false)),
            ("ocp-release-bundle-4.19.0-rc.3-x86_64", "4.19.0", Some(false)),
            ("ocp-release-bundle-4.19.0-rc.3-x86_64", "4.19.0-rc.3", Some(true)),
            ("ocp-release-bundle-4.19.0-rc.30-x86_64", "4.19.0-rc.3", Some(false)),
            ("ocp-release-bundle-4.19.9-site", "4.19.9", None),
            ("ocp-release-bundle-site", "4.19.9", None),
        ] {
            let kept = Kept { level: Retain::InUse, version: Some(kept.to_owned()), digest: None };
            assert_eq!(matches(name, &[], &kept, &[]), same, "{name}");
        }
    }
}
