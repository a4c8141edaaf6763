//! Everything below a directory or behind a path that releases can be read from, each read once.
//!
//! Invariant: what did not change is not read again. A reading is kept under path, size, times and
//! identity of the file, or of all files of a directory, and given again while those stay.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;

use super::archive::{Archive, Form};
use super::finding::{Finding, Outcome};
use super::{docker_archive, file, layout, registry, signature_files};
use crate::files::{Limits, Others, Tree, stamp};
use crate::problem::Problem;
use crate::signature::Found;
use crate::signatures;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Layout,
    /// A registry's storage.
    Storage,
    /// A repository that `oc adm release mirror --to-dir` wrote.
    Mirrored,
    /// The files of a release, unpacked: they prove nothing, and the image they come from is what counts.
    Extract,
}

/// What a directory is, by the names in it.
fn kind(path: &Path, has: &dyn Fn(&str) -> bool) -> Option<Kind> {
    if has("oci-layout") {
        Some(Kind::Layout)
    } else if has("repositories") && has("blobs") && path.ends_with("registry/v2") {
        Some(Kind::Storage)
    } else if has("manifests") && has("blobs") && path.components().any(|part| part.as_os_str() == "v2") {
        Some(Kind::Mirrored)
    } else if has("release-metadata") && has("image-references") {
        Some(Kind::Extract)
    } else {
        None
    }
}

fn is_archive(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_ascii_lowercase();
    [".tar", ".tgz", ".tar.gz", ".tar.zst", ".tar.xz", ".tar.bz2"].iter().any(|ending| name.ends_with(ending))
}

/// Finds what there is below a directory.
pub fn find(directory: &Path) -> Tree {
    let others = Others {
        directory: |path, has| kind(path, has).is_some(),
        file: |path| is_archive(path) || signature_files::hint(path).is_some(),
    };
    Tree::find(directory, Limits::default(), Some(others))
}

/// Reads sources, and remembers what it read of each.
#[derive(Debug, Default)]
pub struct Reader {
    known: HashMap<PathBuf, Known>,
    /// What was asked for since the last [`Reader::forget`].
    used: HashSet<PathBuf>,
    /// Those of the last reading, one and the same while none of them changes.
    signatures: Arc<[Found]>,
}

#[derive(Debug)]
struct Known {
    stamp: u64,
    reading: Reading,
}

#[derive(Clone, Debug)]
enum Reading {
    Whole(Arc<Outcome>),
    /// An archive that is read together with those beside it.
    Part,
}

impl Reader {
    /// Everything below a directory: catalog files, layouts, trees, archives.
    pub fn directory(&mut self, directory: &Path, now: Timestamp) -> Outcome {
        self.tree(&find(directory), now)
    }

    pub fn tree(&mut self, tree: &Tree, now: Timestamp) -> Outcome {
        let mut outcome = Outcome::default();
        outcome.problems.extend(tree.faults.iter().map(|fault| tree.problem(&fault.name, &*fault.message)));
        let (directories, files): (Vec<_>, Vec<_>) = tree.others.iter().partition(|other| other.path.is_dir());
        let mut archives = vec![];
        for file in files {
            match signature_files::hint(&file.path).map(|digest| signature_files::read(&file.path, digest)) {
                None => archives.push(file),
                Some(Ok(found)) => outcome.signatures.push(found),
                Some(Err(why)) => outcome.problems.push(Problem::new(tree.place(&file.name), why)),
            }
        }
        for source in directories {
            let read = |path: &Path| read_directory(path, None, now);
            outcome.append(self.kept(&source.path, stamp::below(&source.path), read));
        }
        outcome.append(self.archives(archives.iter().map(|archive| &*archive.path), now));
        for entry in &tree.files {
            let place = tree.place(&entry.name);
            let read = tree.read(entry).and_then(|documents| {
                outcome.signatures.extend(signatures::in_documents(&documents, &place));
                file::read(&documents, &place, now)
            });
            match read {
                Ok(releases) => outcome.findings.extend(releases.into_iter().map(Finding::of_release)),
                Err(message) => outcome.problems.push(Problem::new(place, message)),
            }
        }
        outcome
    }

    fn archives<'a>(&mut self, paths: impl Iterator<Item = &'a Path>, now: Timestamp) -> Outcome {
        let mut outcome = Outcome::default();
        let mut opened: HashMap<PathBuf, Archive> = HashMap::new();
        let mut sets: BTreeMap<PathBuf, Vec<(&Path, u64)>> = BTreeMap::new();
        for path in paths {
            let stamp = stamp::below(path);
            self.used.insert(path.to_owned());
            let reading = match self.known.get(path).filter(|known| known.stamp == stamp) {
                Some(known) => known.reading.clone(),
                None => match guarded(path, || Archive::open(path)) {
                    Ok(archive) if archive.form == Form::Mirror => {
                        opened.insert(path.to_owned(), archive);
                        Reading::Part
                    }
                    Ok(archive) => Reading::Whole(Arc::new(outcome_of(path, || read_archive(&archive, None, now)))),
                    Err(why) => Reading::Whole(Arc::new(Outcome::problem(path.display().to_string(), why))),
                },
            };
            self.known.insert(path.to_owned(), Known { stamp, reading: reading.clone() });
            match reading {
                Reading::Whole(read) => outcome.append(Outcome::clone(&read)),
                Reading::Part => sets.entry(path.parent().unwrap_or(path).to_owned()).or_default().push((path, stamp)),
            }
        }
        for (directory, set) in sets {
            let mut hasher = DefaultHasher::new();
            set.hash(&mut hasher);
            // No file is called so: the key stands for all archives of the directory.
            let key = directory.join("*.tar");
            outcome.append(self.kept(&key, hasher.finish(), |_| {
                let mut archives = vec![];
                let mut problems = vec![];
                for (path, _) in &set {
                    match opened.remove(*path).map_or_else(|| guarded(path, || Archive::open(path)), Ok) {
                        Ok(archive) => archives.push(archive),
                        Err(why) => problems.push(Problem::new(path.display().to_string(), why)),
                    }
                }
                let mut read = registry::read_archives(&archives.iter().collect::<Vec<_>>(), &[], now);
                read.problems.extend(problems);
                read
            }));
        }
        outcome
    }

    fn kept(&mut self, path: &Path, stamp: u64, read: impl FnOnce(&Path) -> Outcome) -> Outcome {
        self.used.insert(path.to_owned());
        if let Some(Known { reading: Reading::Whole(read), .. }) =
            self.known.get(path).filter(|known| known.stamp == stamp)
        {
            return Outcome::clone(read);
        }
        let outcome = Arc::new(outcome_of(path, || read(path)));
        self.known.insert(path.to_owned(), Known { stamp, reading: Reading::Whole(outcome.clone()) });
        Outcome::clone(&outcome)
    }

    /// The release signatures of the last reading.
    #[must_use]
    pub fn signatures(&self) -> Arc<[Found]> {
        self.signatures.clone()
    }

    pub(super) fn keep_signatures(&mut self, signatures: Vec<Found>) {
        if *self.signatures != *signatures {
            self.signatures = signatures.into();
        }
    }

    /// Lets go of what was not asked for since this was called last.
    pub fn forget(&mut self) {
        self.known.retain(|path, _| self.used.contains(path));
        self.used.clear();
    }
}

/// The releases at one path, whatever it is; only those of one name where one is given.
#[must_use]
pub fn read(path: &Path, name: Option<&str>, now: Timestamp) -> Outcome {
    let place = path.display().to_string();
    if path.is_dir() {
        return match kind_at(path) {
            Some(Kind::Extract) | None => {
                let outcome = Reader::default().directory(path, now);
                if outcome.findings.is_empty() && outcome.problems.is_empty() {
                    return Outcome::problem(
                        place,
                        "holds no release: no OCI layout, no mirrored tree, no archive (*.tar), no catalog file",
                    );
                }
                outcome
            }
            Some(_) => outcome_of(path, || read_directory(path, name, now)),
        };
    }
    let document =
        path.extension().is_some_and(|extension| extension == "yaml" || extension == "yml" || extension == "json");
    if document {
        let releases = crate::files::read_documents(path).and_then(|documents| file::read(&documents, &place, now));
        return match releases {
            Ok(releases) if releases.is_empty() => Outcome::problem(place, "is no release catalog"),
            Ok(releases) => {
                Outcome { findings: releases.into_iter().map(Finding::of_release).collect(), ..Outcome::default() }
            }
            Err(why) => Outcome::problem(place, why),
        };
    }
    match guarded(path, || Archive::open(path)) {
        Ok(archive) => outcome_of(path, || match archive.form {
            Form::Mirror => {
                let beside = beside(path);
                registry::read_archives(&[&archive], &beside.iter().collect::<Vec<_>>(), now)
            }
            _ => read_archive(&archive, name, now),
        }),
        Err(why) => Outcome::problem(place, why),
    }
}

fn kind_at(path: &Path) -> Option<Kind> {
    kind(path, &|name| path.join(name).exists())
}

fn read_directory(path: &Path, name: Option<&str>, now: Timestamp) -> Outcome {
    match kind_at(path) {
        Some(Kind::Layout) => layout::read_directory(path, name, now),
        Some(Kind::Storage) => registry::read_storage(path, now),
        Some(Kind::Mirrored) => registry::read_tree(path, now),
        Some(Kind::Extract) | None => Outcome::default(),
    }
}

fn read_archive(archive: &Archive, name: Option<&str>, now: Timestamp) -> Outcome {
    match archive.form {
        Form::Layout => layout::read_archive(archive, name, now),
        Form::Docker => docker_archive::read(archive, now),
        Form::Mirror => registry::read_archives(&[archive], &[], now),
    }
}

/// The other archives of the set that oc-mirror numbers, as far as they can be read.
fn beside(path: &Path) -> Vec<Archive> {
    let is_part = |name: &str| name.starts_with("mirror_") && name.strip_suffix(".tar").is_some();
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let mut parts: Vec<_> = entries.filter(|entry| entry.file_name().to_str().is_some_and(is_part)).collect();
    parts.retain(|part| Some(&*part.file_name()) != path.file_name());
    parts.sort_by_key(std::fs::DirEntry::file_name);
    let archives = parts.iter().filter_map(|part| guarded(path, || Archive::open(&part.path())).ok());
    archives.filter(|archive| archive.form == Form::Mirror).collect()
}

fn outcome_of(path: &Path, read: impl FnOnce() -> Outcome) -> Outcome {
    guarded(path, || Ok(read())).unwrap_or_else(|why| Outcome::problem(path.display().to_string(), why))
}

/// A panic of a decoder over hostile bytes is a fault of that file, not the end of the server.
fn guarded<T>(path: &Path, read: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|_| {
        tracing::error!(file = %path.display(), "a reader failed over this file, which is a bug of airgate: please report it");
        Err("could not be read: a decoder failed over it, the log says where".into())
    })
}
