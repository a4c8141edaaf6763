//! The smallest worlds in which engine and model were once found to differ, each beside the sentence that decides it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use crate::agree::difference;
use crate::bridge::{Situation, answer};
use crate::reference::{Outcome, judge};
use crate::world::{
    Bundle, CatalogEntry, ClusterVersion, HistoryEntry, Iri, Pool, Release, Request, Retain, Seen, Settings, Target,
    World,
};

fn digest(letter: char) -> String {
    format!("sha256:{}", letter.to_string().repeat(64))
}

fn image(letter: char) -> String {
    format!("quay.io/openshift-release-dev/ocp-release@{}", digest(letter))
}

fn completed(version: &str, image: &str) -> HistoryEntry {
    HistoryEntry { state: "Completed".to_owned(), version: version.to_owned(), image: image.to_owned() }
}

fn cluster(version: &str, letter: char) -> ClusterVersion {
    ClusterVersion {
        name: "version".to_owned(),
        desired: Release { version: version.to_owned(), image: image(letter), ..Release::default() },
        history: vec![completed(version, &image(letter))],
        ..ClusterVersion::default()
    }
}

/// A world in which everything is known and nothing is special.
fn world(stored: &ClusterVersion, request: Request) -> World {
    World {
        cluster_version: Seen::Yes(stored.clone()),
        iri: Seen::Absent,
        nodes: Seen::Yes(vec![]),
        pools: Seen::Yes(vec![]),
        rendered: Seen::Yes(BTreeMap::new()),
        hosted: Seen::Yes(false),
        catalog: vec![],
        settings: Settings {
            audit: false,
            retain: Retain::History,
            override_groups: vec![],
            policies: BTreeMap::new(),
        },
        request,
        user: "admin".to_owned(),
        groups: vec![],
        dry_run: false,
    }
}

fn upgrade(stored: &ClusterVersion, target: Target, catalog: Vec<CatalogEntry>) -> World {
    let new = ClusterVersion { target, ..stored.clone() };
    World { catalog, ..world(stored, Request::UpdateCv(stored.clone(), new)) }
}

fn by_image(letter: char) -> Target {
    Target { image: image(letter), ..Target::default() }
}

fn entry(letter: char, version: &str, previous: &[&str], architecture: &str) -> CatalogEntry {
    CatalogEntry {
        digest: digest(letter),
        version: version.to_owned(),
        previous: Some(previous.iter().map(|version| (*version).to_owned()).collect()),
        architecture: Some(architecture.to_owned()),
        shards: vec![],
        verified: true,
    }
}

/// Deletes an IRI of these bundles; '0' is a digest of zeros.
fn delete(stored: &ClusterVersion, bundles: &[(&str, char)], overridden: &[&str]) -> World {
    let bundle = |(name, letter): &(&str, char)| Bundle {
        name: (*name).to_owned(),
        image: image(*letter),
        state: "Available".to_owned(),
    };
    let entry = |name: &&str| {
        json!({"policy": "release-in-use", "from": "cluster", "target": name, "reason": "INC-7",
            "expires": "2026-12-01T13:00:00Z"})
    };
    let annotation: Vec<_> = overridden.iter().map(entry).collect();
    let iri = Iri {
        annotation: if annotation.is_empty() { String::new() } else { json!(annotation).to_string() },
        spec: bundles.iter().map(|(name, _)| (*name).to_owned()).collect(),
        status: bundles.iter().map(bundle).collect(),
        ..Iri::default()
    };
    world(stored, Request::DeleteIri(iri))
}

/// A pool whose nodes run a configuration rendered for this release.
fn with_pool(mut world: World, release: Option<&str>) -> World {
    let name = "rendered-worker-1".to_owned();
    let pool = Pool { name: "worker".to_owned(), spec: name.clone(), status: name.clone() };
    world.pools = Seen::Yes(vec![pool]);
    world.rendered = Seen::Yes(BTreeMap::from([(name, release.map(str::to_owned))]));
    world
}

/// The engine does as the model, and the model as is written here.
fn agree(world: &World, expected: Outcome) {
    assert_eq!(judge(world).result, expected, "the model");
    if let Some((class, text)) = difference(world) {
        panic!("{class}\n{text}");
    }
}

const OLD: &str = "ocp-release-bundle-4.18.20-x86_64";
const RUNNING: &str = "ocp-release-bundle-4.19.9-x86_64";

/// "Same release (same digest, any registry) is not an upgrade: allow." "A missing fact matters only if the verdict would
/// differ with it."
#[test]
fn the_same_digest_needs_no_current_version() {
    let stored =
        ClusterVersion { desired: Release { image: image('a'), ..Release::default() }, ..cluster("4.19.9", 'a') };
    agree(&upgrade(&stored, by_image('a'), vec![]), Outcome::Pass);
}

/// "Multi to single: deny where both sides are known": both are, whatever the version.
#[test]
fn multi_to_single_needs_no_current_version() {
    let desired = Release { image: image('a'), architecture: "Multi".to_owned(), ..Release::default() };
    let stored = ClusterVersion { desired, ..cluster("4.19.9", 'a') };
    agree(&upgrade(&stored, by_image('b'), vec![entry('b', "4.19.10", &["4.19.9"], "amd64")]), Outcome::Deny);
}

/// "No fact, no guess": single to multi is denied at another version only, and the current one is not known.
#[test]
fn another_version_than_an_unknown_one() {
    let stored =
        ClusterVersion { desired: Release { image: image('a'), ..Release::default() }, ..cluster("4.19.9", 'a') };
    let catalog = vec![entry('a', "4.19.9", &[], "amd64"), entry('b', "4.19.9", &["4.19.8"], "multi")];
    agree(&upgrade(&stored, by_image('b'), catalog), Outcome::Unknown);
}

/// "Version only, equal to the current version: the same release, allow."
#[test]
fn the_running_version_by_version_alone() {
    let mut stored = cluster("4.19.9", 'a');
    stored.available = vec![Release { version: "4.19.9".to_owned(), image: image('b'), ..Release::default() }];
    let catalog = vec![entry('a', "4.19.9", &[], "amd64"), entry('b', "4.19.9", &[], "arm64")];
    agree(&upgrade(&stored, Target { version: "4.19.9".to_owned(), ..Target::default() }, catalog), Outcome::Pass);
}

/// "No fact, no guess": a Completed entry without a version is a missing fact, not a version that is not listed.
#[test]
fn a_newest_completed_entry_without_a_version() {
    let mut stored = cluster("4.19.9", 'a');
    let partial = HistoryEntry { state: "Partial".to_owned(), ..completed("4.19.9", &image('a')) };
    stored.history = vec![partial, completed("", &image('b'))];
    stored.release_accepted = "False".to_owned();
    agree(&upgrade(&stored, by_image('c'), vec![entry('c', "4.19.10", &["4.19.9"], "amd64")]), Outcome::Unknown);
}

/// "A rendered config without the release annotation makes its pool Unknown"; one that cannot be read no less.
#[test]
fn a_pool_whose_release_is_no_version() {
    let stored = cluster("4.19.9", 'a');
    agree(&with_pool(delete(&stored, &[(OLD, 'b')], &[]), None), Outcome::Unknown);
    agree(&with_pool(delete(&stored, &[(OLD, 'b')], &[]), Some("latest")), Outcome::Unknown);
}

/// "SemVer equality without build metadata"; "name built from version".
#[test]
fn build_metadata_in_history() {
    let mut stored = cluster("4.19.9", 'a');
    stored.history.push(completed("4.18.20+amd64", ""));
    agree(&delete(&stored, &[(OLD, '0')], &[]), Outcome::Deny);
}

/// "what a MachineConfigPool still runs" is in use, whatever else history says of that version.
#[test]
fn a_pool_beside_a_history_entry_of_its_version() {
    let mut stored = cluster("4.19.9", 'a');
    stored.history.push(completed("4.18.20+amd64", &image('f')));
    let mut world = with_pool(delete(&stored, &[(OLD, '0')], &[]), Some("4.18.20"));
    world.settings.retain = Retain::InUse;
    agree(&world, Outcome::Deny);
}

/// "A bundle matches a release when the digest or the version matches": each entry's own, also where two entries have one
/// digest and not one version.
#[test]
fn two_versions_of_one_digest_in_history() {
    let mut stored = cluster("4.18.20", 'b');
    stored.history = vec![completed("4.19.9", &image('b'))];
    agree(&delete(&stored, &[(RUNNING, 'a')], &[]), Outcome::Deny);
}

/// A version without a digest has the one that history states of it: this bundle is another release.
#[test]
fn a_running_release_without_a_digest() {
    let mut stored = cluster("4.19.9", 'a');
    stored.desired.image.clear();
    agree(&delete(&stored, &[("ocp-release-bundle-4.19.9-site", 'e')], &[]), Outcome::Pass);
    let pool = |letter| {
        with_pool(delete(&cluster("4.19.9", 'a'), &[("ocp-release-bundle-site", letter)], &[]), Some("4.19.9"))
    };
    agree(&pool('e'), Outcome::Pass);
    agree(&pool('a'), Outcome::Deny);
    agree(&pool('0'), Outcome::Unknown);
}

/// "A missing fact matters only if the verdict would differ with it": no pool names a rendered configuration yet.
#[test]
fn rendered_configurations_that_no_pool_names() {
    let mut world = delete(&cluster("4.19.9", 'a'), &[(OLD, 'b')], &[]);
    world.pools = Seen::Yes(vec![Pool { name: "worker".to_owned(), ..Pool::default() }]);
    for unread in [Seen::Unknown, Seen::Stale(BTreeMap::new())] {
        world.rendered = unread;
        agree(&world, Outcome::Pass);
    }
}

/// "A DELETE of an IRI needs one entry per release held": all are held and all have one; no pool could add to that.
#[test]
fn an_override_of_everything_that_leaves() {
    let mut world = delete(&cluster("4.19.9", 'a'), &[(RUNNING, 'a')], &[RUNNING]);
    agree(&world, Outcome::Warn);
    world.pools = Seen::Unknown;
    agree(&world, Outcome::Warn);
}

/// "The pair is the one step": the override of one unclear bundle does not open that nobody knows what the cluster runs.
#[test]
fn an_override_of_one_bundle_opens_no_missing_fact() {
    let unclear = "ocp-release-bundle-site";
    let bundles = [(unclear, '0'), (OLD, 'b')];
    let mut world = with_pool(delete(&cluster("4.19.9", 'a'), &bundles, &[unclear]), Some("4.19.9"));
    world.cluster_version = Seen::Unknown;
    agree(&world, Outcome::Unknown);
}

/// "A watched fact is Unknown for irreversible allows": what it holds against a removal stands, as it does for a stale
/// ClusterVersion.
#[test]
fn a_stale_pool_that_runs_it() {
    let mut world = with_pool(delete(&cluster("4.19.9", 'a'), &[(OLD, 'b')], &[]), Some("4.18.20"));
    if let Seen::Yes(pools) = world.pools {
        world.pools = Seen::Stale(pools);
    }
    agree(&world, Outcome::Deny);
}

/// A world has one verdict, however often it is asked for.
#[test]
fn a_child_of_two_lists() {
    let list = |letter| CatalogEntry { shards: vec![digest('1')], ..entry(letter, "4.19.9", &[], "multi") };
    let mut world = delete(&cluster("4.19.9", 'a'), &[("ocp-release-bundle-site", '1')], &[]);
    world.catalog = vec![list('a'), CatalogEntry { version: "4.18.20".to_owned(), ..list('b') }];
    let verdicts: BTreeSet<_> = (0..40).map(|_| format!("{:?}", answer(&Situation::of(&world).judge()))).collect();
    assert_eq!(verdicts.len(), 1, "{verdicts:#?}");
}
