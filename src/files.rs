//! Directories of YAML and JSON, as people and kubelet write them: found, fingerprinted, parsed.
//!
//! Used for `--state` and `--releases` alike. Nothing here fails as a whole: what cannot be read is
//! named and the rest is used. Everything is bounded: files, their size, depth, and what a document
//! may unfold to.

pub mod document;
pub mod stamp;

use std::collections::HashSet;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::problem::Problem;

/// How much of a directory is read at most.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub file_bytes: u64,
    pub depth: usize,
    pub files: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { file_bytes: 64 << 20, depth: 32, files: 50_000 }
    }
}

/// Tells by its path and the names in it what a directory is.
pub type Recognise = fn(&Path, &dyn Fn(&str) -> bool) -> bool;

/// What is no document but looked for too.
#[derive(Clone, Copy, Debug)]
pub struct Others {
    /// Whether a directory with these names in it is one thing as a whole; it is not searched then.
    pub directory: Recognise,
    /// Whether a file of this name is.
    pub file: fn(&Path) -> bool,
}

/// The YAML and JSON files below a directory, in a stable order. Their content is not read yet.
#[derive(Debug)]
pub struct Tree {
    root: PathBuf,
    limits: Limits,
    pub files: Vec<File>,
    /// What [`Others`] recognised, in a stable order.
    pub others: Vec<File>,
    /// Every directory that was listed completely, by its path relative to the root.
    pub directories: Vec<String>,
    /// What could not be looked at, by path relative to the root.
    pub faults: Vec<Fault>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Relative to the root, `/` between parts.
    pub name: String,
    pub path: PathBuf,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub name: String,
    pub message: String,
}

impl Tree {
    /// Looks for files; follows links to files and directories, each directory once.
    ///
    /// Names that begin with a dot are skipped. In a ConfigMap or Secret volume that leaves the links
    /// beside `..data`, so each file is found once; elsewhere it leaves out editors' and git's files.
    #[must_use]
    pub fn find(root: &Path, limits: Limits, others: Option<Others>) -> Self {
        let tree =
            Self { root: root.to_owned(), limits, files: vec![], others: vec![], directories: vec![], faults: vec![] };
        let mut search = Search { tree, others, visited: HashSet::new() };
        search.directory(root, "", 0);
        search.tree
    }

    /// The documents of one file, empty ones left out.
    ///
    /// # Errors
    /// What is wrong with the file, for a person.
    pub fn read(&self, file: &File) -> Result<Vec<Value>, String> {
        documents(&file.path, self.limits)
    }

    /// Where a file is, for a person.
    #[must_use]
    pub fn place(&self, name: &str) -> String {
        if name.is_empty() { self.root.display().to_string() } else { self.root.join(name).display().to_string() }
    }

    #[must_use]
    pub fn problem(&self, name: &str, message: impl Into<String>) -> Problem {
        Problem::new(self.place(name), message)
    }

    /// A number that changes when anything that was found does: names, sizes, times, inodes, faults.
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.directories.hash(&mut hasher);
        for fault in &self.faults {
            (&fault.name, &fault.message).hash(&mut hasher);
        }
        for file in &self.files {
            file.name.hash(&mut hasher);
            // The link of a ConfigMap volume stays as it is while what it leads to is exchanged, so
            // it is the file behind the link that counts.
            stamp::of_file(&file.path).hash(&mut hasher);
            fs::read_link(&file.path).ok().hash(&mut hasher);
        }
        for other in &self.others {
            (&other.name, stamp::below(&other.path)).hash(&mut hasher);
        }
        hasher.finish()
    }
}

struct Search {
    tree: Tree,
    others: Option<Others>,
    /// Device and inode of each directory that was entered: no loop, nothing twice.
    visited: HashSet<(u64, u64)>,
}

impl Search {
    fn fault(&mut self, name: &str, message: impl Into<String>) {
        self.tree.faults.push(Fault { name: name.into(), message: message.into() });
    }

    fn directory(&mut self, path: &Path, name: &str, depth: usize) {
        match fs::metadata(path) {
            Ok(found) if !found.is_dir() => return self.fault(name, "is not a directory"),
            Ok(found) if !self.visited.insert((found.dev(), found.ino())) => return,
            Ok(_) => {}
            Err(error) => return self.fault(name, unreadable(&error)),
        }
        let mut entries = match fs::read_dir(path).and_then(Iterator::collect::<Result<Vec<_>, _>>) {
            Ok(entries) => entries,
            Err(error) => return self.fault(name, unreadable(&error)),
        };
        if let Some(others) = self.others
            && (others.directory)(path, &|wanted| entries.iter().any(|entry| entry.file_name() == wanted))
        {
            return self.tree.others.push(File { name: name.into(), path: path.to_owned() });
        }
        entries.sort_by_key(fs::DirEntry::file_name);
        let mut complete = true;
        for entry in entries {
            let file_name = entry.file_name();
            let file_name = file_name.to_string_lossy();
            if file_name.starts_with('.') {
                continue;
            }
            let path = entry.path();
            let below = if name.is_empty() { file_name.into_owned() } else { format!("{name}/{file_name}") };
            let wanted = path.extension().is_some_and(|e| e == "yaml" || e == "yml" || e == "json");
            match fs::metadata(&path) {
                Ok(found) if found.is_dir() && depth >= self.tree.limits.depth => {
                    self.fault(&below, format!("is more than {depth} directories deep and not read"));
                }
                Ok(found) if found.is_dir() => self.directory(&path, &below, depth + 1),
                Ok(found) if found.is_file() && self.others.is_some_and(|others| (others.file)(&path)) => {
                    self.tree.others.push(File { name: below, path });
                }
                Ok(_) if !wanted => {}
                Ok(_) if self.tree.files.len() >= self.tree.limits.files => {
                    self.fault(name, format!("more than {} files: the others are not read", self.tree.limits.files));
                    complete = false;
                    break;
                }
                Ok(found) if found.is_file() => self.tree.files.push(File { name: below, path }),
                Ok(_) => self.fault(&below, "is not a regular file"),
                // A dangling link without an extension may have led to a directory.
                Err(error) if wanted || path.extension().is_none() => self.fault(&below, unreadable(&error)),
                Err(_) => {}
            }
        }
        if complete {
            self.tree.directories.push(name.into());
        }
    }
}

/// The documents of a file that stands in no tree.
///
/// # Errors
/// What is wrong with the file, for a person.
pub fn read_documents(path: &Path) -> Result<Vec<Value>, String> {
    documents(path, Limits::default())
}

fn documents(path: &Path, limits: Limits) -> Result<Vec<Value>, String> {
    let text = read_text(path, limits.file_bytes)?;
    let json = path.extension().is_some_and(|extension| extension == "json");
    let documents = if json { document::from_json(&text)? } else { document::from_yaml(&text)? };
    // An empty file is most likely one that is being written.
    if documents.is_empty() { Err("holds no document".into()) } else { Ok(documents) }
}

/// A file that somebody may replace at any time: nothing but a regular file, which never blocks. Asked of
/// what was opened and not before, so that it cannot be another one.
///
/// # Errors
/// It cannot be opened, is no regular file, or is larger.
pub fn read_regular(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    read_bounded(open_regular(path)?, limit)
}

/// The same for a file that is read in parts.
///
/// # Errors
/// It cannot be opened or is no regular file.
pub fn open_regular(path: &Path) -> io::Result<fs::File> {
    // Without O_NONBLOCK, opening a named pipe waits for its other end.
    let file = fs::OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(ErrorKind::InvalidInput, "is not a regular file"));
    }
    Ok(file)
}

/// A file that a person names, which may be a pipe, or `-` for stdin.
///
/// # Errors
/// It cannot be read, or is larger.
pub fn read_named(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    if path.as_os_str() == "-" {
        read_bounded(io::stdin().lock(), limit)
    } else {
        read_bounded(fs::File::open(path)?, limit)
    }
}

/// The same, as text.
///
/// # Errors
/// It cannot be read, is larger, or is not UTF-8.
pub fn read_named_text(path: &Path, limit: u64) -> io::Result<String> {
    String::from_utf8(read_named(path, limit)?).map_err(|error| {
        io::Error::new(
            ErrorKind::InvalidData,
            format!("is not UTF-8 from byte {} on", error.utf8_error().valid_up_to()),
        )
    })
}

fn read_bounded(from: impl Read, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![];
    from.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(io::Error::new(
            ErrorKind::FileTooLarge,
            format!("is larger than {} MiB and not read", limit >> 20),
        ));
    }
    Ok(bytes)
}

fn read_text(path: &Path, limit: u64) -> Result<String, String> {
    let bytes = read_regular(path, limit).map_err(|error| match error.kind() {
        ErrorKind::FileTooLarge => error.to_string(),
        _ => unreadable(&error),
    })?;
    String::from_utf8(bytes).map_err(|error| format!("is not UTF-8 from byte {} on", error.utf8_error().valid_up_to()))
}

pub(crate) fn unreadable(error: &io::Error) -> String {
    if error.kind() == ErrorKind::InvalidInput {
        return error.to_string();
    }
    format!("cannot be read: {error}")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn names(root: &Path) -> (Vec<String>, Vec<Fault>) {
        let tree = Tree::find(root, Limits::default(), None);
        (tree.files.iter().map(|file| file.name.clone()).collect(), tree.faults)
    }

    fn write(root: &Path, name: &str, text: &str) {
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn finds_documents_in_a_stable_order_and_nothing_else() {
        let root = tempfile::tempdir().unwrap();
        for name in ["b.yaml", "a/z.json", "a/y.yml", "c.txt", ".hidden.yaml", ".git/config.yaml", "d.yaml.swp"] {
            write(root.path(), name, "a: 1");
        }
        assert_eq!(names(root.path()), (vec!["a/y.yml".into(), "a/z.json".into(), "b.yaml".into()], vec![]));
    }

    #[test]
    fn a_config_map_volume_is_read_once_and_its_exchange_noticed() {
        let root = tempfile::tempdir().unwrap();
        write(root.path(), "..2026_1/x.yaml", "a: 1");
        write(root.path(), "..2026_1/sub/y.yaml", "a: 1");
        symlink("..2026_1", root.path().join("..data")).unwrap();
        symlink("..data/x.yaml", root.path().join("x.yaml")).unwrap();
        symlink("..data/sub", root.path().join("sub")).unwrap();
        assert_eq!(names(root.path()), (vec!["sub/y.yaml".into(), "x.yaml".into()], vec![]));

        let fingerprint = || Tree::find(root.path(), Limits::default(), None).fingerprint();
        let before = fingerprint();
        assert_eq!(before, fingerprint());
        write(root.path(), "..2026_2/x.yaml", "a: 2");
        symlink("..2026_2", root.path().join("..tmp")).unwrap();
        fs::rename(root.path().join("..tmp"), root.path().join("..data")).unwrap();
        assert_ne!(before, fingerprint());
    }

    #[test]
    fn loops_end_and_broken_things_are_named() {
        let root = tempfile::tempdir().unwrap();
        write(root.path(), "a/x.yaml", "a: 1");
        symlink("..", root.path().join("a/up")).unwrap();
        symlink("self", root.path().join("self")).unwrap();
        symlink("nowhere.yaml", root.path().join("gone.yaml")).unwrap();
        symlink("/dev/null", root.path().join("null.yaml")).unwrap();
        let (files, faults) = names(root.path());
        assert_eq!(files, ["a/x.yaml"]);
        let named: Vec<_> = faults.iter().map(|fault| fault.name.as_str()).collect();
        assert_eq!(named, ["gone.yaml", "null.yaml", "self"]);
    }

    #[test]
    fn everything_is_bounded() {
        let root = tempfile::tempdir().unwrap();
        for name in ["a.yaml", "b.yaml", "c.yaml", "d/e/f/g.yaml"] {
            write(root.path(), name, "text: longer than eight bytes");
        }
        let tree = Tree::find(root.path(), Limits { files: 2, ..Limits::default() }, None);
        assert_eq!((tree.files.len(), tree.faults.len(), tree.directories.len()), (2, 1, 0));
        let tree = Tree::find(root.path(), Limits { depth: 1, ..Limits::default() }, None);
        assert_eq!(tree.faults[0].name, "d/e");
        let tree = Tree::find(root.path(), Limits { file_bytes: 8, ..Limits::default() }, None);
        assert!(tree.read(&tree.files[0]).unwrap_err().contains("larger"));
    }

    #[test]
    fn what_becomes_a_pipe_after_it_was_found_does_not_block() {
        let root = tempfile::tempdir().unwrap();
        write(root.path(), "a.yaml", "a: 1");
        let tree = Tree::find(root.path(), Limits::default(), None);
        let path = root.path().join("a.yaml");
        fs::remove_file(&path).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        assert_eq!(tree.read(&tree.files[0]).unwrap_err(), "is not a regular file");
    }

    #[test]
    fn what_never_ends_is_not_read_to_its_end() {
        for read in [read_named, read_regular] {
            assert!(read(Path::new("/dev/zero"), 1 << 20).is_err());
        }
        let error = read_named_text(Path::new("/dev/zero"), 1 << 20).unwrap_err();
        assert_eq!(error.to_string(), "is larger than 1 MiB and not read");
    }

    #[test]
    fn a_missing_directory_is_a_fault_not_an_error() {
        let root = tempfile::tempdir().unwrap();
        let (files, faults) = names(&root.path().join("missing"));
        assert_eq!((files.len(), faults.len()), (0, 1));
        assert!(faults[0].message.contains("cannot be read"), "{faults:?}");
    }
}
