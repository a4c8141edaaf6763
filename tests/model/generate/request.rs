//! What is asked of the cluster, in every form of the design.

use serde_json::{Value, json};

mod things;

use super::POLICY_IDS;
use super::cluster::bundle_name;
use super::releases::{Truth, digest, digest_zeros, image, version};
use super::tape::Tape;
use crate::reference::digest_of;
use crate::world::{ClusterVersion, Iri, Request, Target};

pub use things::user;

pub fn request(tape: &mut Tape, releases: &[Truth], cv: &ClusterVersion, iri: &Iri) -> Request {
    // Nothing acts on a ClusterVersion by another name.
    let cv = &ClusterVersion { name: (if tape.chance(2) { "other" } else { "version" }).to_owned(), ..cv.clone() };
    match tape.percent() {
        ..45 => update_cv(tape, releases, cv),
        45..55 => things::request(tape),
        55..60 => {
            let mut new = ClusterVersion { terminating: false, target: target(tape, releases, cv), ..cv.clone() };
            let steps = [&*step(&new.target)];
            new.annotation = annotation(tape, "clusterversion-singleton", "none", &steps);
            Request::CreateCv(new)
        }
        60..65 => {
            let mut old = cv.clone();
            old.annotation = annotation(tape, "clusterversion-singleton", &old.desired.version, &["delete"]);
            Request::DeleteCv(old)
        }
        65..66 => Request::CreateIri(iri.clone()),
        66..82 => {
            let mut old = iri.clone();
            let names: Vec<_> = old.spec.iter().chain(old.status.iter().map(|bundle| &bundle.name)).cloned().collect();
            let mut steps: Vec<_> = names.iter().map(String::as_str).collect();
            if tape.chance(20) {
                steps.push("delete");
            }
            old.annotation = annotation(tape, "release-in-use", "cluster", &steps);
            Request::DeleteIri(old)
        }
        _ => update_iri(tape, releases, iri),
    }
}

fn update_iri(tape: &mut Tape, releases: &[Truth], iri: &Iri) -> Request {
    let mut old = iri.clone();
    let mut new = iri.clone();
    let further = bundle_name(tape, tape_pick(releases, iri.spec.len()));
    let mut dropped = String::new();
    match tape.below(8) {
        0 => {}
        1 => new.spec.push(further),
        2 => {
            // A swap.
            dropped = std::mem::replace(&mut new.spec[0], further);
        }
        3 => new.spec.reverse(),
        _ => dropped = new.spec.remove(tape.below(iri.spec.len())),
    }
    new.annotation = annotation(tape, "release-in-use", "cluster", &[&dropped]);
    if tape.chance(50) {
        old.annotation = new.annotation.clone();
    }
    Request::UpdateIri(old, new)
}

fn tape_pick(releases: &[Truth], index: usize) -> &Truth {
    &releases[index % releases.len()]
}

fn update_cv(tape: &mut Tape, releases: &[Truth], cv: &ClusterVersion) -> Request {
    let mut old = cv.clone();
    let mut new = cv.clone();
    new.target = match tape.percent() {
        ..4 => Target::default(),
        4..6 => Target { accept_risks: true, ..Target::default() },
        6..8 => Target { force: true, ..Target::default() },
        8..12 => cv.target.clone(),
        12..18 => Target { force: !cv.target.force, ..cv.target.clone() },
        18..22 => Target { mode: "Preflight".to_owned(), ..cv.target.clone() },
        22..24 => Target { version: version(tape).to_owned(), ..cv.target.clone() },
        24..26 => Target { image: cv.desired.image.clone(), force: tape.chance(30), ..Target::default() },
        _ => target(tape, releases, cv),
    };
    if tape.chance(20) {
        "eus-4.20".clone_into(&mut new.channel);
    }
    if tape.chance(4) {
        "https://updates.example/graph".clone_into(&mut new.upstream);
    }
    let step = step(&new.target);
    new.annotation = annotation(tape, "upgrade-path", &old.desired.version, &[&step]);
    if tape.chance(50) {
        old.annotation = new.annotation.clone();
    }
    Request::UpdateCv(old, new)
}

fn target(tape: &mut Tape, releases: &[Truth], cv: &ClusterVersion) -> Target {
    let to = tape.pick(releases);
    let rollback = cv.history.iter().find(|entry| entry.version != cv.desired.version);
    let mut target = match tape.percent() {
        ..45 => Target { image: image(tape, &to.digest()), ..Target::default() },
        45..60 => Target { version: to.version.to_owned(), image: image(tape, &to.digest()), ..Target::default() },
        60..63 => Target { version: version(tape).to_owned(), image: image(tape, &to.digest()), ..Target::default() },
        63..70 => {
            rollback.map_or_else(Target::default, |entry| Target { image: entry.image.clone(), ..Target::default() })
        }
        70..81 => Target { version: to.version.to_owned(), ..Target::default() },
        81..84 => {
            let offered = cv.available.first().map_or("4.19.9", |release| &release.version);
            Target { version: offered.to_owned(), ..Target::default() }
        }
        84..90 => {
            let version = if tape.chance(30) { to.version } else { &cv.desired.version };
            let architecture = if version.is_empty() { "" } else { "Multi" };
            Target { version: version.to_owned(), architecture: architecture.to_owned(), ..Target::default() }
        }
        90..92 => Target { image: image(tape, &digest('1')), ..Target::default() },
        92..97 => Target { image: malformed_image(tape, &to.digest()), ..Target::default() },
        97..99 => Target { version: malformed_version(tape), ..Target::default() },
        _ => Target { version: malformed_version(tape), image: image(tape, &to.digest()), ..Target::default() },
    };
    target.force = tape.chance(10);
    target
}

fn malformed_version(tape: &mut Tape) -> String {
    (*tape.pick(&["4.19", "v4.19.9", "latest", "4.19.9 ", "4.019.9"])).to_owned()
}

fn malformed_image(tape: &mut Tape, digest: &str) -> String {
    let hex = &digest[7..];
    match tape.below(9) {
        0 => "quay.io/openshift-release-dev/ocp-release:4.19.9-x86_64".to_owned(),
        1 => format!("registry.example:5000/ocp/release:4.19.9@{digest}"),
        2 => format!("registry.example:5000/ocp/release@{}", digest_zeros()),
        3 => format!("registry.example:5000/ocp/release@sha256:{}", hex.to_uppercase().replace('1', "A")),
        4 => format!("registry.example:5000/ocp/release@sha512:{hex}{hex}"),
        5 => format!("ocp/release@{digest}"),
        6 => format!(" registry.example:5000/ocp/release@{digest}"),
        7 => format!("registry.example:5000/ocp/release@{digest}@{digest}"),
        _ => "bar".to_owned(),
    }
}

/// As a person would name the step in an override.
fn step(target: &Target) -> String {
    match digest_of(&target.image) {
        Some(digest) => digest.to_owned(),
        None if target.architecture.is_empty() => target.version.clone(),
        None => format!("{}/{}", target.version, target.architecture),
    }
}

/// An override for these steps, mostly a right one; mostly there is none.
fn annotation(tape: &mut Tape, policy: &str, from: &str, steps: &[&str]) -> String {
    match tape.percent() {
        ..70 => return String::new(),
        70..75 => return malformed_annotation(tape),
        _ => {}
    }
    let policy = if tape.chance(10) { *tape.pick(&POLICY_IDS) } else { policy };
    let from = if tape.chance(10) { "4.18.1" } else { from };
    let expires = *tape.pick(&[
        "2026-12-01T13:00:00Z",
        "2026-12-01T13:00:00Z",
        "2026-12-01T13:00:00Z",
        "2026-12-01T13:00:00+01:00", // now
        "2026-12-02T12:00:00Z",      // as late as may be
        "2026-12-02T12:00:01Z",
        "2026-12-01T12:00:01Z",
        "2026-11-01T13:00:00Z",
    ]);
    let entry = |policy: &str, step: &str| json!({"policy": policy, "from": from, "target": step, "reason": "INC-7", "expires": expires});
    let mut entries: Vec<Value> = steps.iter().map(|step| entry(policy, step)).collect();
    if policy == "upgrade-path" && tape.chance(50) {
        entries.extend(steps.iter().map(|step| entry("release-identity", step)));
    }
    if tape.chance(10) {
        entries.pop();
    }
    match &entries[..] {
        [only] if !tape.chance(30) => only.to_string(),
        _ => json!(entries).to_string(),
    }
}

fn malformed_annotation(tape: &mut Tape) -> String {
    let good = json!({"policy": "upgrade-path", "from": "4.19.9", "target": "4.19.10", "reason": "INC-7",
        "expires": "2026-12-01T13:00:00Z"});
    let mut bad = good.clone();
    match tape.below(6) {
        0 => return "yes please".to_owned(),
        1 => return "7".to_owned(),
        2 => bad["expires"] = json!("tomorrow"),
        3 => bad["from"] = json!(4),
        4 => {
            bad.as_object_mut().unwrap().remove("target");
        }
        _ => return json!([good, "and more"]).to_string(),
    }
    bad.to_string()
}
