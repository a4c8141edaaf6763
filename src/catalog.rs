//! The release catalog from `--releases` directories: catalog files, OCI layouts, archives, mirrored trees.
//!
//! [`source`] finds and reads them, each form in its own module; what they hold of an image is
//! [`crate::payload`]'s work, merging by rank the core's ([`Catalog::new`]). Registries will be one more module.

mod archive;
mod docker_archive;
mod file;
mod finding;
mod layout;
mod registry;
mod signature_files;
mod source;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;

use jiff::Timestamp;

pub use finding::{Finding, Keeps, Outcome, Standing};
pub use source::{Reader, read};

use crate::problem::Problem;
use crate::release::{Catalog, Release};

/// Reads every directory. Never fails: what cannot be used is a [`Problem`], the rest is used.
#[must_use]
pub fn load(directories: &[PathBuf], now: Timestamp) -> (Catalog, Vec<Problem>) {
    Reader::default().load(directories, now)
}

impl Reader {
    /// As [`load`], reading only what changed since the last time.
    pub fn load(&mut self, directories: &[PathBuf], now: Timestamp) -> (Catalog, Vec<Problem>) {
        let mut outcome = Outcome::default();
        for directory in directories {
            outcome.append(self.directory(directory, now));
        }
        self.forget();
        let Outcome { findings, mut problems, signatures } = outcome;
        self.keep_signatures(signatures);
        let releases: Vec<Release> = findings.iter().filter_map(Finding::release).collect();
        for finding in &findings {
            // A copy that proves nothing is worth a word only where no other one does.
            let known = releases
                .iter()
                .any(|release| release.version == finding.version && release.architecture == finding.architecture);
            if let Some(note) = finding.note().filter(|_| !known) {
                problems.push(Problem::new(&*finding.source.name, note));
            }
        }
        (merge(releases, &mut problems), problems)
    }
}

fn merge(releases: Vec<Release>, problems: &mut Vec<Problem>) -> Catalog {
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
    catalog
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
        source::find(directory).fingerprint().hash(&mut hasher);
    }
    hasher.finish()
}

#[cfg(test)]
#[path = "catalog/tests.rs"]
mod source_tests;

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

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
