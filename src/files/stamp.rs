//! Numbers that change when files do, without reading them.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// A registry's storage with every image of several releases has less.
const ENTRIES: usize = 500_000;
const DEPTH: usize = 32;

/// Size, times and identity of a file; `None` where there is none.
#[must_use]
pub fn of_file(path: &Path) -> Option<[u64; 5]> {
    let found = fs::metadata(path).ok()?;
    let time = |seconds: i64, nanoseconds: i64| {
        seconds.cast_unsigned().wrapping_mul(1_000_000_000).wrapping_add(nanoseconds.cast_unsigned())
    };
    let modified = time(found.mtime(), found.mtime_nsec());
    Some([found.len(), modified, time(found.ctime(), found.ctime_nsec()), found.dev(), found.ino()])
}

/// Of a file, or of a directory with all files below it.
#[must_use]
pub fn below(path: &Path) -> u64 {
    let mut hasher = DefaultHasher::new();
    let mut left = ENTRIES;
    add(path, DEPTH, &mut left, &mut hasher);
    hasher.finish()
}

fn add(path: &Path, depth: usize, left: &mut usize, hasher: &mut DefaultHasher) {
    if !path.is_dir() {
        return of_file(path).hash(hasher);
    }
    let Some(depth) = depth.checked_sub(1) else { return };
    let mut names: Vec<_> = fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.file_name()).collect();
    names.sort();
    for name in names {
        let Some(fewer) = left.checked_sub(1) else { return };
        *left = fewer;
        name.hash(hasher);
        add(&path.join(&name), depth, left, hasher);
    }
}
