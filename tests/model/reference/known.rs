//! Questions about the stored ClusterVersion that several rules ask.

use super::catalog::{self, Known, Release};
use super::texts::{digest_of, minor, same_version, version};
use crate::world::{CatalogEntry, ClusterVersion, HistoryEntry};

/// Q2: "Current version = status.desired.version of the stored object"
pub fn current_version(stored: &ClusterVersion) -> Option<&str> {
    version(&stored.desired.version).map(|_| &*stored.desired.version)
}

/// Q4: "the cluster is multi when the stored status.desired.architecture is Multi or the catalog says so of its digest"
pub fn cluster_is_multi(stored: &ClusterVersion, catalog: &[CatalogEntry]) -> bool {
    stored.desired.architecture == "Multi" || current_payload(stored, catalog).is_some_and(|release| release.multi())
}

/// What the catalog knows of the running release.
pub fn current_payload(stored: &ClusterVersion, catalog: &[CatalogEntry]) -> Option<Release> {
    match catalog::look_up(catalog, digest_of(&stored.desired.image)?) {
        Known::Release(release) => Some(release),
        _ => None,
    }
}

/// Q4: "the first history entry whose version differs from status.desired, same minor"; "Rollback candidate may be
/// Partial"; "Rollback candidate of another minor: none". An entry without a version differs and has no minor.
pub fn rollback_candidate(stored: &ClusterVersion) -> Option<&HistoryEntry> {
    let current = current_version(stored)?;
    let candidate = stored.history.iter().find(|entry| !same_version(&entry.version, current))?;
    (minor(&candidate.version)? == minor(current)?).then_some(candidate)
}

/// The first Completed entry, newest first.
pub fn newest_completed(stored: &ClusterVersion) -> Option<usize> {
    stored.history.iter().position(|entry| entry.state == "Completed")
}

/// The version that the cluster's own releases, running or past, state of this very digest.
pub fn version_in_history<'a>(stored: &'a ClusterVersion, digest: &str) -> Option<&'a str> {
    let past = stored.history.iter().map(|entry| (&*entry.version, &*entry.image));
    let mut all = std::iter::once((&*stored.desired.version, &*stored.desired.image)).chain(past);
    all.find(|(text, image)| digest_of(image) == Some(digest) && version(text).is_some()).map(|(text, _)| text)
}

/// The version that the update service states of this very digest.
pub fn version_offered<'a>(stored: &'a ClusterVersion, digest: &str) -> Option<&'a str> {
    let mut offered = stored.available.iter().chain(stored.conditional.iter().map(|update| &update.release));
    let found =
        offered.find(|release| digest_of(&release.image) == Some(digest) && version(&release.version).is_some());
    found.map(|release| &*release.version)
}
