//! The release catalog from `--releases` directories.
//!
//! Today catalog files only. OCI layouts, oc-mirror archives and registries become further
//! modules beside [`file`], each yielding [`Release`]s with their source; merging them by rank is the
//! core's work ([`Catalog::new`]).

mod file;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use crate::files::{Limits, Prune, Tree};
use crate::problem::Problem;
use crate::release::{Catalog, Release};

/// Reads every directory. Never fails: what cannot be used is a [`Problem`], the rest is used.
#[must_use]
pub fn load(directories: &[PathBuf], now: Timestamp) -> (Catalog, Vec<Problem>) {
    let mut releases: Vec<Release> = vec![];
    let mut problems = vec![];
    for tree in directories.iter().map(|directory| find(directory)) {
        problems.extend(tree.faults.iter().map(|fault| tree.problem(&fault.name, &*fault.message)));
        for entry in &tree.files {
            let place = tree.place(&entry.name);
            match tree.read(entry).and_then(|documents| file::read(&documents, &place, now)) {
                Ok(read) => releases.extend(read),
                Err(message) => problems.push(Problem::new(place, message)),
            }
        }
    }
    let mut sources: Vec<_> = releases.iter().map(|release| release.source.name.clone()).collect();
    sources.sort();
    sources.dedup();
    let catalog = Catalog::new(releases);
    for remark in catalog.remarks() {
        // A remark begins with the source it is about.
        let source = sources.iter().filter(|source| remark.starts_with(&***source)).max_by_key(|source| source.len());
        let source = source.map_or("", |source| source);
        let message = remark.strip_prefix(source).and_then(|rest| rest.strip_prefix(": ")).unwrap_or(remark);
        problems.push(Problem::new(source, message));
    }
    (catalog, problems)
}

/// The releases of documents that are not in a directory of their own, as a catalog file called `name` would give them.
///
/// # Errors
/// What is wrong and where, for a person.
pub fn from_documents(documents: &[serde_json::Value], name: &str, now: Timestamp) -> Result<Vec<Release>, String> {
    file::read(documents, name, now)
}

/// A number that changes when [`load`] could find something else.
#[must_use]
pub fn fingerprint(directories: &[PathBuf]) -> u64 {
    let mut hasher = DefaultHasher::new();
    for directory in directories {
        find(directory).fingerprint().hash(&mut hasher);
    }
    hasher.finish()
}

fn find(directory: &Path) -> Tree {
    let prune = Prune { marker: "oci-layout", message: "is an OCI layout, which is not read by this version" };
    Tree::find(directory, Limits::default(), Some(prune))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::release::Lookup;
    use crate::release::tests::digest;

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    fn write(directory: &Path, name: &str, text: &str) {
        let path = directory.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn catalog_file(version: &str, letter: char, more: &str) -> String {
        format!(
            "apiVersion: airgate.io/v1alpha1\nkind: ReleaseCatalog\nreleases:\n- digest: {}\n  version: {version}\n{more}",
            digest(letter)
        )
    }

    #[test]
    fn a_faulty_file_is_refused_whole_and_the_others_load() {
        let root = tempfile::tempdir().unwrap();
        write(root.path(), "a/good.yaml", &catalog_file("4.2.0", 'a', "  previous: [4.1.1]\n  architecture: x86_64\n"));
        let two = catalog_file("4.3.0", 'b', &format!("- digest: {}\n  version: 4.3\n", digest('c')));
        write(root.path(), "b.yaml", &two);
        write(root.path(), "c.yaml", "releases: [");
        write(root.path(), "d.yaml", "apiVersion: v1\nkind: ConfigMap\n");
        write(root.path(), "layout/oci-layout", "{}");
        write(root.path(), "layout/index.json", "{}");
        let directories = [root.path().to_owned(), root.path().join("missing")];
        let (catalog, problems) = load(&directories, NOW);
        let found = catalog.get(digest('a')).unwrap();
        assert_eq!((catalog.len(), found.architecture.as_deref()), (1, Some("amd64")));
        assert_eq!(&*found.source.name, root.path().join("a/good.yaml").to_str().unwrap());
        let named: Vec<_> = problems
            .iter()
            .map(|problem| Path::new(&problem.file).strip_prefix(root.path()).unwrap().to_str().unwrap())
            .collect();
        assert_eq!(named, ["layout", "b.yaml", "c.yaml", "missing"], "{problems:?}");
        assert!(problems[1].message.contains("entry 2, version"), "{problems:?}");
    }

    #[test]
    fn contradictions_are_problems_of_the_file() {
        let root = tempfile::tempdir().unwrap();
        write(root.path(), "a.yaml", &catalog_file("4.2.0", 'a', ""));
        write(root.path(), "b.yaml", &catalog_file("4.2.1", 'a', ""));
        let (catalog, problems) = load(&[root.path().to_owned()], NOW);
        assert!(matches!(catalog.lookup(digest('a')), Lookup::Contradiction(..)));
        assert!(problems[0].file.ends_with("a.yaml") && problems[0].message.contains("b.yaml"), "{problems:?}");
    }

    #[test]
    fn the_child_of_a_list_is_named_with_its_file() {
        let root = tempfile::tempdir().unwrap();
        let list = format!("  architecture: multi\n  shards: [\"{}\"]\n", digest('b'));
        write(root.path(), "a.yaml", &catalog_file("4.2.0", 'a', &list));
        write(root.path(), "b.yaml", &catalog_file("4.2.0", 'b', "  architecture: arm64\n"));
        let (_, problems) = load(&[root.path().to_owned()], NOW);
        assert!(problems[0].file.ends_with("b.yaml"), "{problems:?}");
        assert!(problems[0].message.starts_with("sha256:bbb"), "{problems:?}");
    }
}
