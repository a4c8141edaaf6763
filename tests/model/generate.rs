//! Small but nasty worlds: few versions and few digests, so that they meet; facts that are missing, old or wrong.
//!
//! A world is drawn from a tape of bytes: a tape of zeros is the tamest world, so that shrinking the tape tames the world.

mod cluster;
mod releases;
mod request;
mod tape;

use proptest::prelude::*;

use crate::world::{Mode, OnUnknown, Retain, Seen, Settings, World};
use tape::Tape;

/// The repositories of well-formed pullspecs.
pub const GOOD_REPOSITORIES: [&str; 5] = [
    "quay.io/openshift-release-dev/ocp-release",
    "registry.example:5000/ocp/release",
    "api-int.c.example.com:22625/openshift/release-images",
    "[fd00::1]:5000/ocp/release",
    "MIRROR.Example/ocp",
];

pub const POLICY_IDS: [&str; 7] = [
    "upgrade-path",
    "digest-only",
    "release-in-use",
    "release-identity",
    "clusterversion-singleton",
    "bundle-change",
    "bundle-support",
];

/// Tapes that a world can be drawn from.
pub fn tapes() -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(any::<u8>(), 700)
}

/// Worlds of every kind of request.
pub fn worlds() -> impl Strategy<Value = World> {
    tapes().prop_map(|tape| world_of(&tape))
}

pub fn world_of(tape: &[u8]) -> World {
    world(&mut Tape::new(tape.to_vec()))
}

fn world(tape: &mut Tape) -> World {
    let releases = releases::truth(tape);
    let cluster_version = cluster::cluster_version(tape, &releases);
    let catalog = releases::catalog(tape, &releases, &cluster_version.desired.version);
    let iri = cluster::iri(tape, &releases);
    let nodes = cluster::nodes(tape, &releases, &iri);
    let (pools, rendered) = cluster::pools(tape, &releases);
    let groups = vec![(*tape.pick(&["ops", "devs"])).to_owned(), "system:authenticated".to_owned()];
    let settings = settings(tape);
    let request = request::request(tape, &releases, &cluster_version, &iri);
    let hosted = tape.chance(9);
    let iri_goes = tape.chance(20);
    let user = request::user(tape, &request);
    World {
        cluster_version: seen(tape, cluster_version),
        iri: match tape.percent() {
            ..70 => seen(tape, iri_goes),
            70..82 => Seen::Absent,
            _ => Seen::Unknown,
        },
        nodes: seen(tape, nodes),
        pools: seen(tape, pools),
        rendered: seen(tape, rendered),
        hosted: seen(tape, hosted),
        catalog,
        settings,
        request,
        user,
        groups,
        dry_run: tape.chance(10),
    }
}

fn seen<T>(tape: &mut Tape, value: T) -> Seen<T> {
    match tape.percent() {
        ..90 => Seen::Yes(value),
        90..93 => Seen::Stale(value),
        93..95 => Seen::Absent,
        _ => Seen::Unknown,
    }
}

fn settings(tape: &mut Tape) -> Settings {
    let retain = *tape.pick(&[Retain::History, Retain::InUse, Retain::InUse, Retain::Rollback]);
    let override_groups = if tape.chance(15) { vec!["ops".to_owned()] } else { vec![] };
    let mut settings =
        Settings { audit: tape.chance(5), retain, override_groups, policies: std::collections::BTreeMap::new() };
    for id in POLICY_IDS {
        if tape.chance(9) {
            let mode = *tape.pick(&[None, Some(Mode::Deny), Some(Mode::Warn), Some(Mode::Audit), Some(Mode::Off)]);
            let on_unknown = *tape.pick(&[None, Some(OnUnknown::Deny), Some(OnUnknown::Warn), Some(OnUnknown::Allow)]);
            settings.policies.insert(id, (mode, on_unknown));
        }
    }
    settings
}
