//! The cluster as it stands before the request.

use std::collections::BTreeMap;

use super::releases::{Truth, digest_zeros, image, odd_image, version};
use super::tape::Tape;
use crate::world::{Bundle, ClusterVersion, Conditional, HistoryEntry, Iri, Pool, Release, Target};

pub fn cluster_version(tape: &mut Tape, releases: &[Truth]) -> ClusterVersion {
    let current = tape.pick(&releases[..3]);
    let mut cv = ClusterVersion {
        name: "version".to_owned(),
        terminating: tape.chance(3),
        channel: "stable-4.19".to_owned(),
        desired: release(tape, current),
        ..ClusterVersion::default()
    };
    if current.architecture != "multi" || tape.chance(25) {
        cv.desired.architecture.clear();
    }
    for index in 0..tape.below(7) {
        let of = if index == 0 && !tape.chance(12) { current } else { tape.pick(releases) };
        cv.history.push(history_entry(tape, of, if index == 0 { 40 } else { 30 }));
    }
    for _ in 0..tape.below(4) {
        let of = tape.pick(releases);
        cv.available.push(release(tape, of));
    }
    for _ in 0..tape.below(3) {
        let of = tape.pick(releases);
        let recommended = (*tape.pick(&["False", "Unknown", "True", ""])).to_owned();
        cv.conditional.push(Conditional { release: release(tape, of), recommended });
    }
    cv.release_accepted = (*tape.pick(&["True", "False", "False", "Unknown", ""])).to_owned();
    cv.retrieved_updates = (*tape.pick(&["False", "True", "Unknown", ""])).to_owned();
    let pending = tape.pick(releases);
    cv.target = match tape.below(8) {
        0..3 => Target::default(),
        3 => Target { image: cv.desired.image.clone(), ..Target::default() },
        4 => Target { version: cv.desired.version.clone(), image: cv.desired.image.clone(), ..Target::default() },
        5 => Target { image: image(tape, &pending.digest()), ..Target::default() },
        6 => Target { version: pending.version.to_owned(), ..Target::default() },
        _ => Target {
            version: pending.version.to_owned(),
            image: odd_image(tape, &pending.digest()),
            ..Target::default()
        },
    };
    cv.target.force = cv.target != Target::default() && tape.chance(10);
    cv.target.accept_risks = tape.chance(10);
    cv
}

fn release(tape: &mut Tape, of: &Truth) -> Release {
    let mut release = Release {
        version: of.version.to_owned(),
        image: image(tape, &of.digest()),
        architecture: (if of.architecture == "multi" { "Multi" } else { "" }).to_owned(),
    };
    match tape.percent() {
        ..88 => {}
        88..91 => release.version = version(tape).to_owned(),
        91..94 => release.version.clear(),
        94 => "4.19".clone_into(&mut release.version),
        _ => release.image = odd_image(tape, &of.digest()),
    }
    release
}

fn history_entry(tape: &mut Tape, of: &Truth, partial: u8) -> HistoryEntry {
    let release = release(tape, of);
    let state = if tape.chance(partial) { "Partial" } else { "Completed" };
    HistoryEntry { state: state.to_owned(), version: release.version, image: release.image }
}

/// The name of a release's bundle, or nearly.
pub fn bundle_name(tape: &mut Tape, of: &Truth) -> String {
    let version = of.version.split('+').next().unwrap();
    let suffix = match of.architecture {
        "multi" => "multi",
        "arm64" => "aarch64",
        _ => "x86_64",
    };
    let name = match tape.percent() {
        ..85 => format!("ocp-release-bundle-{version}-{suffix}"),
        85..88 => format!("ocp-release-bundle-{version}-ppc64le"),
        88..92 => format!("ocp-release-bundle-{version}-site"),
        92..94 => format!("ocp-release-bundle-{version}"),
        94..96 => format!("ocp-release-bundle-{version}0-{suffix}"),
        96..98 => format!("ocp-release-bundle-{version}-rc.3-{suffix}"),
        _ => "ocp-release-bundle-site".to_owned(),
    };
    name.chars().take(64).collect()
}

fn bundle(tape: &mut Tape, name: &str, of: &Truth) -> Bundle {
    let image = match tape.percent() {
        ..65 => image(tape, &of.digest()),
        65..85 => image(tape, &digest_zeros()),
        85..90 if !of.shards.is_empty() => image(tape, &of.shards[0]),
        _ => String::new(),
    };
    let state = match tape.percent() {
        ..80 => "Available",
        80..86 => "Mounted",
        86..89 => "Installing",
        89..92 => "Removing",
        92..95 => "Degraded",
        _ => "",
    };
    Bundle { name: name.to_owned(), image, state: state.to_owned() }
}

pub fn iri(tape: &mut Tape, releases: &[Truth]) -> Iri {
    let mut iri = Iri { v1alpha1: tape.chance(20), terminating: tape.chance(5), ..Iri::default() };
    for _ in 0..=tape.below(3) {
        let of = tape.pick(releases);
        let name = bundle_name(tape, of);
        if iri.spec.contains(&name) {
            continue;
        }
        if !tape.chance(10) {
            iri.status.push(bundle(tape, &name, of));
        }
        iri.spec.push(name);
    }
    if tape.chance(10) {
        let of = tape.pick(releases);
        let name = bundle_name(tape, of);
        if !iri.spec.contains(&name) {
            iri.status.push(bundle(tape, &name, of));
        }
    }
    iri
}

/// Mostly what the IRI says; sometimes a further bundle, another digest, none.
pub fn nodes(tape: &mut Tape, releases: &[Truth], iri: &Iri) -> Vec<Vec<Bundle>> {
    let node = |_| {
        let mut held = iri.status.clone();
        if tape.chance(10) {
            held.clear();
        }
        if tape.chance(12) {
            let of = tape.pick(releases);
            let name = bundle_name(tape, of);
            held.retain(|bundle| bundle.name != name);
            held.push(bundle(tape, &name, of));
        }
        held
    };
    (0..3).map(node).collect()
}

pub fn pools(tape: &mut Tape, releases: &[Truth]) -> (Vec<Pool>, BTreeMap<String, Option<String>>) {
    let mut rendered = BTreeMap::new();
    let mut pools = vec![];
    for name in ["master", "worker"] {
        let mut side = |side: &str| {
            let config = format!("rendered-{name}-{side}");
            match tape.percent() {
                ..50 => String::new(),
                50..92 => {
                    let release = tape.pick(&releases[..4]).version;
                    rendered.insert(config.clone(), Some(release.to_owned()));
                    config
                }
                92..95 => {
                    rendered.insert(config.clone(), None);
                    config
                }
                95..97 => config,
                _ => {
                    rendered.insert(config.clone(), Some("latest".to_owned()));
                    config
                }
            }
        };
        pools.push(Pool { name: name.to_owned(), spec: side("spec"), status: side("status") });
    }
    (pools, rendered)
}
