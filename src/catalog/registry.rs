//! Copies that keep manifests byte for byte: a registry's storage (the cache and the archives of
//! oc-mirror v2) and the trees of `oc adm release mirror --to-dir`.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use jiff::Timestamp;

use super::archive::{Archive, digest_of_hex};
use super::finding::{Finding, Keeps, Outcome};
use super::layout::{Directory, read_file};
use crate::payload::{self, Blobs, Fault};
use crate::pullspec::Digest;

/// An archive of a later run names everything and holds what is new.
const MISSING: &str = "put the archives of earlier oc-mirror runs beside it, or mirror the release again";
const DEPTH: usize = 16;
/// Images that are looked at in one storage.
const IMAGES: usize = 200_000;

/// Which image a tag stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// `REPOSITORY:TAG`, for a person.
    pub name: String,
    pub digest: Digest,
    /// Whether a release is meant, so that it is missed where it cannot be read.
    release: bool,
}

impl Link {
    /// `sha256:` and 64 digits, perhaps a line end.
    pub const BYTES: u64 = 256;

    /// Repository and tag of `repositories/REPOSITORY/_manifests/tags/TAG/current/link`.
    pub fn of_path(path: &str) -> Option<(&str, &str)> {
        path.strip_prefix("repositories/")?.strip_suffix("/current/link")?.split_once("/_manifests/tags/")
    }

    pub fn new(repository: &str, tag: &str, content: &[u8]) -> Option<Self> {
        let digest = Digest::parse(std::str::from_utf8(content).ok()?.trim())?;
        let release = is_release(tag) || (repository.ends_with("release-images") && digest_of_hex(tag).is_some());
        Some(Self { name: format!("{repository}:{tag}"), digest, release })
    }
}

/// Whether a tag is VERSION-ARCHITECTURE as releases are tagged; components have their name after it.
fn is_release(tag: &str) -> bool {
    let Some((version, architecture)) = tag.rsplit_once('-') else { return false };
    crate::version::Version::parse(version).is_some()
        && ["x86_64", "aarch64", "ppc64le", "s390x", "multi"].contains(&architecture)
}

/// The releases that some archives of oc-mirror name. What these lack, those `beside` them may have.
pub fn read_archives(archives: &[&Archive], beside: &[&Archive], now: Timestamp) -> Outcome {
    struct Pool<'a>(Vec<&'a Archive>);
    impl Blobs for Pool<'_> {
        fn blob(&self, digest: Digest, limit: u64) -> Result<Option<Vec<u8>>, String> {
            let holder = self.0.iter().find(|archive| archive.holds(digest));
            holder.map_or(Ok(None), |archive| archive.blob(digest, limit))
        }
    }
    let pool = Pool(archives.iter().chain(beside).copied().collect());
    let mut outcome = Outcome::default();
    let mut seen = HashSet::new();
    for archive in archives {
        let place = |digest| {
            let holder = pool.0.iter().find(|archive| archive.holds(digest)).unwrap_or(archive);
            holder.path.display().to_string()
        };
        outcome.append(read(&pool, &archive.links, place, &mut seen, now));
    }
    if outcome == Outcome::default()
        && let Some(archive) = archives.first()
    {
        let why = "holds no release image; the first archive of a set names the images of all";
        return Outcome::problem(archive.path.display().to_string(), why);
    }
    outcome.drop_children();
    outcome.signatures.extend(archives.iter().flat_map(|archive| archive.signatures.iter().cloned()));
    outcome
}

/// A registry's storage as a directory, `.../docker/registry/v2`.
pub fn read_storage(root: &Path, now: Timestamp) -> Outcome {
    struct Storage<'a>(&'a Path);
    impl Blobs for Storage<'_> {
        fn blob(&self, digest: Digest, limit: u64) -> Result<Option<Vec<u8>>, String> {
            let hex = digest.hex();
            read_file(&self.0.join("blobs/sha256").join(&hex[..2]).join(&hex).join("data"), limit)
        }
    }
    let mut links = vec![];
    find_links(&root.join("repositories"), "", DEPTH, &mut links);
    let place = root.display().to_string();
    let mut outcome = read(&Storage(root), &links, |_| place.clone(), &mut HashSet::new(), now);
    outcome.drop_children();
    outcome
}

fn find_links(directory: &Path, repository: &str, depth: usize, links: &mut Vec<Link>) {
    let Some(depth) = depth.checked_sub(1) else { return };
    for name in names(directory) {
        let path = directory.join(&name);
        if name == "_manifests" {
            for tag in names(&path.join("tags")) {
                let link = read_file(&path.join("tags").join(&tag).join("current/link"), Link::BYTES);
                links.extend(link.ok().flatten().and_then(|content| Link::new(repository, &tag, &content)));
            }
        } else if !name.starts_with('_') && path.is_dir() && links.len() < IMAGES {
            let below = if repository.is_empty() { name } else { format!("{repository}/{name}") };
            find_links(&path, &below, depth, links);
        }
    }
}

/// One repository of a mirrored tree: `manifests` and `blobs` below it.
pub fn read_tree(root: &Path, now: Timestamp) -> Outcome {
    let blobs = Directory { places: vec![(root.join("blobs"), "sha256:"), (root.join("manifests"), "sha256:")] };
    let links: Vec<Link> = names(&root.join("manifests"))
        .into_iter()
        .filter_map(|name| Digest::parse(&name).map(|digest| Link { name, digest, release: true }))
        .collect();
    let place = root.display().to_string();
    let mut outcome = read(&blobs, &links, |_| place.clone(), &mut HashSet::new(), now);
    outcome.drop_children();
    outcome
}

/// In a stable order.
fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut names: Vec<_> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

fn read(
    blobs: &dyn Blobs,
    links: &[Link],
    place: impl Fn(Digest) -> String,
    seen: &mut HashSet<Digest>,
    now: Timestamp,
) -> Outcome {
    let mut outcome = Outcome::default();
    for link in links {
        if !seen.insert(link.digest) {
            continue;
        }
        match payload::read(blobs, link.digest) {
            Ok(payload) => {
                let place = place(link.digest);
                outcome.findings.push(Finding::of_payload(payload, Keeps::Bytes, &place, now));
            }
            Err(Fault::NotRelease(_)) => {}
            // Charts, signatures and operators in forms of their own.
            Err(_) if !link.release => {}
            Err(fault @ Fault::Missing { .. }) => {
                outcome.append(Outcome::problem(place(link.digest), format!("{}: {fault}; {MISSING}", link.name)));
            }
            Err(fault) => outcome.append(Outcome::problem(place(link.digest), format!("{}: {fault}", link.name))),
        }
    }
    outcome
}
