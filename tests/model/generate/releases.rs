//! The releases that a world has, and what its catalog says of them.

use super::GOOD_REPOSITORIES;
use super::tape::Tape;
use crate::world::CatalogEntry;

/// The more usual ones stand first and more than once.
const VERSIONS: [&str; 20] = [
    "4.19.9",
    "4.19.9",
    "4.19.9",
    "4.19.10",
    "4.19.10",
    "4.19.10",
    "4.19.8",
    "4.19.8",
    "4.19.8",
    "4.18.20",
    "4.18.20",
    "4.20.0",
    "4.20.0",
    "4.19.0",
    "4.19.0-rc.3",
    "4.9.0",
    "4.10.0",
    "5.0.0",
    "4.19.9+amd64",
    "4.21.0-0.nightly-multi-2025-11-23-025204",
];

/// What is so, whatever anybody says of it.
#[derive(Clone, Debug)]
pub struct Truth {
    pub letter: char,
    pub version: &'static str,
    pub architecture: &'static str,
    pub shards: Vec<String>,
}

pub fn digest(letter: char) -> String {
    format!("sha256:{}", letter.to_string().repeat(64))
}

impl Truth {
    pub fn digest(&self) -> String {
        digest(self.letter)
    }
}

pub fn version(tape: &mut Tape) -> &'static str {
    VERSIONS[tape.below(VERSIONS.len())]
}

/// An image by digest, anywhere.
pub fn image(tape: &mut Tape, digest: &str) -> String {
    format!("{}@{digest}", tape.pick(&GOOD_REPOSITORIES))
}

/// What stored objects hold beside that.
pub fn odd_image(tape: &mut Tape, digest: &str) -> String {
    let zeros = digest_zeros();
    match tape.below(5) {
        0 => String::new(),
        1 => "quay.io/openshift-release-dev/ocp-release:4.19.9-x86_64".to_owned(),
        2 => format!("quay.io/openshift-release-dev/ocp-release:4.19.9@{digest}"),
        3 => format!("quay.io/openshift-release-dev/ocp-release@{zeros}"),
        _ => format!("quay.io/openshift-release-dev/ocp-release@sha512:{}", "ab".repeat(64)),
    }
}

pub fn digest_zeros() -> String {
    digest('0')
}

/// Some releases, whose digests no two share; versions they may share.
pub fn truth(tape: &mut Tape) -> Vec<Truth> {
    let letters = ['a', 'b', 'c', 'd', 'e', 'f'];
    let children = ['1', '2', '3', '4', '5', '6'];
    let release = |(letter, child)| {
        let architecture = *tape.pick(&["amd64", "amd64", "amd64", "multi", "multi", "arm64"]);
        let shards = if architecture == "multi" && !tape.chance(20) { vec![digest(child)] } else { vec![] };
        Truth { letter, version: version(tape), architecture, shards }
    };
    let mut releases: Vec<_> = letters.into_iter().zip(children).map(release).collect();
    // One version as a single-architecture payload and as a multi one.
    if tape.chance(30) {
        let other = &mut releases[3];
        (other.architecture, other.shards) = ("multi", vec![digest('4')]);
        releases[0] =
            Truth { version: releases[3].version, architecture: "amd64", shards: vec![], ..releases[0].clone() };
    }
    releases
}

pub fn catalog(tape: &mut Tape, releases: &[Truth], current: &str) -> Vec<CatalogEntry> {
    let mut entries = vec![];
    for release in releases {
        if tape.chance(15) {
            continue;
        }
        let mut previous = vec![];
        if !tape.chance(35) && crate::reference::same_version(current, current) {
            previous.push(current.to_owned());
        }
        for version in ["4.18.20", "4.19.9", "4.19.8", "4.20.0", "4.10.0", "4.19.0-rc.3"] {
            if tape.chance(30) {
                previous.push(version.to_owned());
            }
        }
        let entry = CatalogEntry {
            digest: release.digest(),
            version: release.version.to_owned(),
            previous: Some(previous),
            architecture: Some(release.architecture.to_owned()),
            shards: release.shards.clone(),
            verified: tape.chance(40),
        };
        if tape.chance(12) {
            entries.push(contradiction(tape, &entry));
        }
        if tape.chance(7)
            && let Some(child) = release.shards.first()
        {
            // People paste the child's digest.
            let child = CatalogEntry { digest: child.clone(), shards: vec![], verified: false, ..entry.clone() };
            entries.push(CatalogEntry { architecture: Some("amd64".to_owned()), ..child });
        }
        entries.push(entry);
        let last = entries.len() - 1;
        if !entries[last].verified && tape.chance(20) {
            entries[last].previous = None;
        }
        if !entries[last].verified && tape.chance(20) {
            entries[last].architecture = None;
        }
    }
    entries
}

/// Another source that says something else, or only less, of the same digest.
fn contradiction(tape: &mut Tape, entry: &CatalogEntry) -> CatalogEntry {
    let mut other = CatalogEntry { verified: entry.verified && tape.chance(50), ..entry.clone() };
    match tape.below(5) {
        0 => other.version = version(tape).to_owned(),
        1 => other.previous = Some(vec!["4.19.9".to_owned(), version(tape).to_owned()]),
        2 => other.architecture = Some("arm64".to_owned()),
        3 if !other.verified => other.previous = None,
        _ => other.previous.iter_mut().for_each(|previous| previous.reverse()),
    }
    other
}
