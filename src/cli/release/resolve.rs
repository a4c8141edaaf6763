//! What a REF names, in this order: a path, a release in the `--releases` directories, an image in a registry.

use std::path::Path;

use anyhow::Result;
use futures::{StreamExt, stream};
use jiff::Timestamp;

use super::Site;
use super::online::Failed;
use crate::catalog::{self, Finding, Outcome};
use crate::cli::progress::Progress;
use crate::pullspec::{Digest, Fault, Pullspec, Repository};
use crate::release::Lookup;
use crate::text;

/// Releases read at a time: each may be 100 MB in memory.
const AT_ONCE: usize = 4;

/// What came of one REF.
pub struct Resolved<'a> {
    pub reference: &'a str,
    pub outcome: Outcome,
    /// Where a cluster would pull it from, when the REF says so.
    pub pullspec: Option<(Repository, Digest)>,
    /// Every place where nodes look for it has it not.
    pub absent: bool,
}

/// Reads all of them, several from registries at a time, and keeps their order.
///
/// # Errors
/// Credentials, certificates or a cluster that cannot be used, where a registry must be asked.
pub fn all<'a>(site: &Site, references: &'a [String], now: Timestamp) -> Result<Vec<Resolved<'a>>> {
    // Files first: reading them would keep the answers of registries waiting beyond their time.
    let local: Vec<_> = references.iter().map(|reference| (reference.as_str(), here(site, reference, now))).collect();
    let remote = local.iter().filter(|(_, here)| matches!(here, Here::Elsewhere(..))).count();
    let online = if remote > 0 { Some(site.online()?) } else { None };
    let progress = Progress::new("releases read", remote);
    let progress = &progress;
    let read = stream::iter(local).map(|(reference, here)| async move {
        let (repository, digest, note) = match (here, online) {
            (Here::Read(outcome, pullspec), _) => return Resolved { reference, outcome, pullspec, absent: false },
            (Here::Elsewhere(repository, digest, note), Some(online)) => {
                let read = online.read(&repository, digest, now).await;
                progress.step();
                match read {
                    Ok(finding) => {
                        let outcome = Outcome { findings: vec![finding], ..Outcome::default() };
                        return Resolved { reference, outcome, pullspec: Some((repository, digest)), absent: false };
                    }
                    Err(failed) => (repository, digest, (note, failed)),
                }
            }
            (Here::Elsewhere(repository, digest, note), None) => {
                (repository, digest, (note, Failed::Unread("no registry can be asked".into())))
            }
        };
        let (note, failed) = note;
        let (why, absent) = match failed {
            Failed::Absent(why) => (why, true),
            Failed::Unread(why) => (why, false),
        };
        let mut outcome = Outcome::problem(reference, format!("{note}{why}"));
        // What could not be read in the directories may be what was looked for.
        outcome.problems.extend(site.catalog().1.iter().cloned());
        Resolved { reference, outcome, pullspec: Some((repository, digest)), absent }
    });
    Ok(site.runtime.block_on(read.buffered(AT_ONCE).collect()))
}

enum Here {
    Read(Outcome, Option<(Repository, Digest)>),
    /// A registry must be asked; the text says what the directories have to do with it.
    Elsewhere(Repository, Digest, String),
}

fn here(site: &Site, reference: &str, now: Timestamp) -> Here {
    match at_path(reference, now) {
        Some(outcome) => Here::Read(outcome, None),
        None => in_catalog(site, reference),
    }
}

/// `None` where the reference is no path.
fn at_path(reference: &str, now: Timestamp) -> Option<Outcome> {
    if Path::new(reference).exists() {
        return Some(catalog::read(Path::new(reference), None, now));
    }
    let rest = reference.strip_prefix("oci:").or_else(|| reference.strip_prefix("oci-archive:"))?;
    if Path::new(rest).exists() {
        return Some(catalog::read(Path::new(rest), None, now));
    }
    match rest.rsplit_once(':').filter(|(path, _)| Path::new(path).exists()) {
        Some((path, name)) => Some(catalog::read(Path::new(path), Some(name), now)),
        None => Some(Outcome::problem(reference, format!("there is no {rest}"))),
    }
}

fn in_catalog(site: &Site, reference: &str) -> Here {
    let problem = |why: String| Here::Read(Outcome::problem(text::shown(reference), why), None);
    let spec = reference.strip_prefix("docker://").unwrap_or(reference);
    let (repository, digest) = match (Pullspec::parse(spec), Digest::parse(spec)) {
        (Ok(spec), _) => (Repository::parse(spec.repository).ok(), spec.digest),
        (Err(_), Some(digest)) => (None, digest),
        (Err(fault), None) => return problem(refusal(spec, &fault)),
    };
    let (catalog, problems) = site.catalog();
    let note = match catalog.lookup(digest) {
        Lookup::Release(release) => {
            let findings = vec![Finding::of_release(release.clone())];
            let pullspec = repository.map(|repository| (repository, digest));
            return Here::Read(Outcome { findings, ..Outcome::default() }, pullspec);
        }
        Lookup::Contradiction(one, other) => {
            format!("{} and {} contradict each other about it: remove one of them; ", one.name, other.name)
        }
        Lookup::Missing if site.config.releases.is_empty() => String::new(),
        Lookup::Missing => {
            let held = text::counted(catalog.len(), "release");
            format!("is in none of the release directories, which hold {held}; ")
        }
    };
    if let Some(list) = catalog.list_of(digest) {
        let repository = repository.map_or_else(|| "REPOSITORY".into(), |repository| repository.to_string());
        return problem(format!("is one image of a multi release: ask for {repository}@{list}"));
    }
    let Some(repository) = repository else {
        let mut outcome = Outcome::problem(
            text::shown(reference),
            format!(
                "{note}a digest alone names no registry: write HOST/PATH@{digest}, or name a directory that holds it with --releases DIR"
            ),
        );
        outcome.problems.extend(problems.iter().cloned());
        return Here::Read(outcome, None);
    };
    Here::Elsewhere(repository, digest, note)
}

/// Why a reference that is no path cannot be used as a pullspec, and what works instead.
fn refusal(spec: &str, fault: &Fault) -> String {
    let why = format!("there is no such path, and as a pullspec it cannot be used because it {fault}");
    match fault {
        Fault::Tag => format!(
            "{why}: ask for the digest that it names now, sha256: and what this prints: skopeo inspect --raw docker://{} | sha256sum",
            text::shown(spec)
        ),
        Fault::TagBesideDigest { without } => format!("{why}: write {}", text::shown(without)),
        _ => why,
    }
}
