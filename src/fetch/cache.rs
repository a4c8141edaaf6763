//! Releases on disk, as the bytes a registry gave: read again, and hashed again, after a restart.
//!
//! A directory a release, named by its digest, holding its manifests, configurations and payload layer by theirs.
//! It is written beside and renamed, so what stands there is whole or was damaged later, which hashing tells.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use crate::catalog::{Finding, Keeps};
use crate::payload::{self, Blobs};
use crate::pullspec::Digest;

/// Beyond either, the releases read longest ago go. One is some 5 MB.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    pub releases: usize,
    pub bytes: u64,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { releases: 128, bytes: 1 << 30 }
    }
}

/// The place that a release was read from, and when, in seconds since 1970.
const ORIGIN: &str = "origin";
const ORIGIN_BYTES: u64 = 4096;

#[derive(Clone, Debug)]
pub struct Cache {
    directory: PathBuf,
    bounds: Bounds,
}

impl Cache {
    /// # Errors
    /// The directory cannot be made.
    pub fn open(directory: &Path, bounds: Bounds) -> Result<Self, String> {
        let fault = |error| format!("cache directory {}: {error}", directory.display());
        fs::create_dir_all(directory).map_err(fault)?;
        let cache = Self { directory: directory.to_owned(), bounds };
        // Of a process that died while it wrote.
        for left in cache.entries().map_err(fault)?.into_iter().filter(|entry| entry.digest.is_none()) {
            if left.path.extension().is_some_and(|extension| extension == "new") {
                let _ = fs::remove_dir_all(left.path);
            }
        }
        Ok(cache)
    }

    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The digests it holds, those read last first.
    #[must_use]
    pub fn digests(&self) -> Vec<Digest> {
        self.entries().unwrap_or_default().into_iter().filter_map(|entry| entry.digest).collect()
    }

    /// A release, hashed whole. What is damaged is taken away, and counts as not there.
    #[must_use]
    pub fn load(&self, digest: Digest) -> Option<Finding> {
        let directory = self.directory.join(digest.hex());
        if !directory.is_dir() {
            return None;
        }
        let origin = read(&directory.join(ORIGIN), ORIGIN_BYTES).ok().flatten().unwrap_or_default();
        let origin = String::from_utf8_lossy(&origin).into_owned();
        let (place, at) = origin.split_once('\n').unwrap_or((&origin, ""));
        let at = at.trim().parse().ok().and_then(|seconds| Timestamp::from_second(seconds).ok());
        match payload::read(&Directory(&directory), digest) {
            Ok(payload) => Some(Finding::of_payload(payload, Keeps::Bytes, place, at.unwrap_or(Timestamp::UNIX_EPOCH))),
            Err(fault) => {
                tracing::warn!(directory = %directory.display(), %fault, "a cached release is damaged and was removed");
                let _ = fs::remove_dir_all(&directory);
                None
            }
        }
    }

    /// Keeps the blobs of a release that was read from `place`.
    ///
    /// # Errors
    /// They cannot be written; nothing is left behind.
    pub fn store(&self, digest: Digest, blobs: &[(Digest, Vec<u8>)], place: &str, at: Timestamp) -> Result<(), String> {
        let entry = self.directory.join(digest.hex());
        let new = self.directory.join(format!("{}-{}.new", digest.hex(), std::process::id()));
        let write = || {
            fs::create_dir_all(&new)?;
            for (digest, bytes) in blobs {
                fs::write(new.join(digest.hex()), bytes)?;
            }
            fs::write(new.join(ORIGIN), format!("{place}\n{}", at.as_second()))?;
            if entry.is_dir() {
                fs::remove_dir_all(&entry)?;
            }
            fs::rename(&new, &entry)
        };
        let written = write().map_err(|error: std::io::Error| format!("{}: {error}", entry.display()));
        if written.is_err() {
            let _ = fs::remove_dir_all(&new);
        }
        self.shrink();
        written
    }

    /// Takes away what is beyond the bounds.
    fn shrink(&self) {
        let (mut releases, mut bytes) = (0, 0);
        for entry in self.entries().unwrap_or_default().into_iter().filter(|entry| entry.digest.is_some()) {
            releases += 1;
            bytes += entry.bytes;
            if releases > self.bounds.releases || bytes > self.bounds.bytes {
                let _ = fs::remove_dir_all(&entry.path);
            }
        }
    }

    /// What there is, the newest first.
    fn entries(&self) -> std::io::Result<Vec<Entry>> {
        let mut entries: Vec<Entry> = fs::read_dir(&self.directory)?
            .flatten()
            .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
            .map(|entry| {
                let files = fs::read_dir(entry.path()).into_iter().flatten().flatten();
                Entry {
                    digest: entry.file_name().to_str().and_then(|hex| Digest::parse(&format!("sha256:{hex}"))),
                    written: entry.metadata().and_then(|metadata| metadata.modified()).ok(),
                    bytes: files.filter_map(|file| file.metadata().ok()).map(|metadata| metadata.len()).sum(),
                    path: entry.path(),
                }
            })
            .collect();
        entries.sort_by(|a, b| (b.written, &b.path).cmp(&(a.written, &a.path)));
        Ok(entries)
    }
}

struct Entry {
    path: PathBuf,
    digest: Option<Digest>,
    written: Option<std::time::SystemTime>,
    bytes: u64,
}

struct Directory<'a>(&'a Path);

impl Blobs for Directory<'_> {
    fn blob(&self, digest: Digest, limit: u64) -> Result<Option<Vec<u8>>, String> {
        read(&self.0.join(digest.hex()), limit)
    }
}

fn read(path: &Path, limit: u64) -> Result<Option<Vec<u8>>, String> {
    let mut file = match fs::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(format!("cannot be read: {error}")),
    };
    let mut bytes = vec![];
    let read =
        file.by_ref().take(limit + 1).read_to_end(&mut bytes).map_err(|error| format!("cannot be read: {error}"))?;
    if read as u64 > limit { Err(format!("has more than {limit} bytes")) } else { Ok(Some(bytes)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::Standing;
    use crate::payload::testing::{Store, V2S2, payload};

    fn release(version: &str) -> (Digest, Vec<(Digest, Vec<u8>)>) {
        let mut store = Store::default();
        let top = store.image(V2S2, "amd64", &[payload(version, &["4.18.1"], false)]);
        let blobs = store.0.into_iter().map(|(digest, bytes)| (Digest::parse(&digest).unwrap(), bytes)).collect();
        (Digest::parse(&top).unwrap(), blobs)
    }

    fn open(root: &tempfile::TempDir, releases: usize) -> Cache {
        Cache::open(&root.path().join("cache"), Bounds { releases, bytes: 1 << 30 }).unwrap()
    }

    #[test]
    fn what_was_stored_is_read_again_with_its_origin() {
        let root = tempfile::tempdir().unwrap();
        let (digest, blobs) = release("4.19.9");
        let at = Timestamp::from_second(1_796_000_000).unwrap();
        open(&root, 8).store(digest, &blobs, "registry.example:5000/ocp/release", at).unwrap();
        let found = open(&root, 8).load(digest).unwrap();
        assert_eq!((found.standing, found.version.to_string()), (Standing::Named(digest), "4.19.9".into()));
        assert_eq!((&*found.source.name, found.source.read_at), ("registry.example:5000/ocp/release", at));
        assert!(found.source.verified);
    }

    #[test]
    fn what_is_damaged_or_half_written_is_not_there_and_goes() {
        let root = tempfile::tempdir().unwrap();
        let (digest, blobs) = release("4.19.9");
        let cache = open(&root, 8);
        for (number, (blob, bytes)) in blobs.iter().enumerate() {
            cache.store(digest, &blobs, "p", Timestamp::UNIX_EPOCH).unwrap();
            let file = root.path().join("cache").join(digest.hex()).join(blob.hex());
            match number % 2 {
                0 => fs::write(&file, &bytes[..bytes.len() - 1]).unwrap(),
                _ => fs::remove_file(&file).unwrap(),
            }
            assert!(cache.load(digest).is_none(), "{blob}");
            assert!(cache.digests().is_empty());
        }
        fs::create_dir_all(root.path().join("cache/abc.new")).unwrap();
        drop(open(&root, 8));
        assert!(!root.path().join("cache/abc.new").exists());
    }

    #[test]
    fn the_oldest_go_when_there_are_too_many() {
        let root = tempfile::tempdir().unwrap();
        let cache = open(&root, 2);
        let releases = ["4.19.1", "4.19.2", "4.19.3"].map(release);
        for (digest, blobs) in &releases {
            cache.store(*digest, blobs, "p", Timestamp::UNIX_EPOCH).unwrap();
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        assert_eq!(cache.digests(), [releases[2].0, releases[1].0]);
    }

    #[test]
    fn a_directory_that_cannot_be_written_is_a_fault_that_names_it() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("file"), "").unwrap();
        let fault = Cache::open(&root.path().join("file"), Bounds::default()).unwrap_err();
        assert!(fault.contains("file"), "{fault}");
    }
}
