//! A cluster read from files: `--state DIR`.
//!
//! Any tree of YAML and JSON: single objects, Lists, a must-gather, an `oc adm inspect`. Reading never
//! fails: what cannot be used is a [`Problem`], the facts that hang on it are unknown, the rest counts.
//! Invariant: a collection is known only where something says that it is whole.

mod facts;
mod index;

use std::collections::BTreeSet;
use std::path::Path;

use jiff::Timestamp;
use serde_json::Value;

use crate::action::Stored;
use crate::cluster::{Missing, Snapshot};
use crate::files::{Limits, Tree};
use crate::problem::Problem;
use crate::resource::{self, Resource, ResourceId};
use crate::saved::{Objects, Saved};
use index::{Index, Key};

/// What the files of one directory say about a cluster, read at one moment.
#[derive(Debug)]
pub struct State {
    directory: String,
    index: Index,
    snapshot: Snapshot,
    conflicts: BTreeSet<(&'static str, Key)>,
    problems: Vec<Problem>,
}

impl State {
    #[must_use]
    pub fn load(directory: &Path, now: Timestamp) -> Self {
        let tree = find(directory);
        let mut index = Index::default();
        let mut problems: Vec<_> = tree.faults.iter().map(|fault| tree.problem(&fault.name, &*fault.message)).collect();
        for fault in &tree.faults {
            index.unreadable(&fault.name);
        }
        let inspected = index::inspected_roots(&tree.directories);
        for file in tree.files.iter().filter(|file| index::worth_reading(&file.name, &inspected)) {
            match tree.read(file) {
                Ok(documents) => {
                    let remarks = index.add_file(&file.name, documents);
                    problems.extend(remarks.into_iter().map(|remark| tree.problem(&file.name, remark)));
                }
                Err(message) => {
                    index.unreadable(&file.name);
                    problems.push(tree.problem(&file.name, message));
                }
            }
        }
        index.add_directories(&tree.directories);
        let place = |name: &str| tree.place(name);
        Self::of(index, problems, &place, now)
    }

    /// A cluster given as documents rather than files, in the place called `name`.
    #[must_use]
    pub fn from_documents(name: &str, documents: Vec<Value>, absent: &[String], now: Timestamp) -> Self {
        let mut index = Index::default();
        let mut remarks = index.add_file("airgate.yaml", vec![serde_json::json!({"absent": absent})]);
        remarks.extend(index.add_file(name, documents));
        let problems = remarks.into_iter().map(|remark| Problem::new(name, remark)).collect();
        Self::of(index, problems, &|_| name.to_owned(), now)
    }

    fn of(index: Index, mut problems: Vec<Problem>, place: &dyn Fn(&str) -> String, now: Timestamp) -> Self {
        let directory = place("");
        let read = facts::read(&index, &directory, now);
        problems.extend(read.remarks.into_iter().map(|(file, remark)| Problem::new(place(&file), remark)));
        problems.dedup();
        Self { directory, index, snapshot: read.snapshot, conflicts: read.conflicts, problems }
    }

    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        self.snapshot.clone()
    }

    #[must_use]
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// Everything that the files hold of each resource, to be saved anew.
    #[must_use]
    pub fn save(&self) -> Objects {
        resource::ALL.into_iter().map(|of| (of, self.saved(of).cleaned(of))).collect()
    }

    fn saved(&self, of: &'static Resource) -> Saved {
        let collection = self.index.collection(of);
        if let Some((_, key)) = self.conflicts.iter().find(|(plural, _)| *plural == of.plural) {
            return Saved::Unknown(facts::conflict(collection, key, of));
        }
        let contradicted = collection.absent.is_some() && !collection.objects.is_empty();
        if contradicted || !collection.faults.is_empty() {
            return Saved::Unknown(facts::missing(collection, of, &self.directory));
        }
        let copies = collection.objects.values().filter_map(|copies| copies.first());
        let objects: Vec<Value> = copies.map(|object| object.value.clone()).collect();
        let only = of.singleton.is_some_and(|name| collection.objects.keys().any(|key| key.1 == name));
        match (collection.absent.is_some(), only || collection.complete().is_some()) {
            (true, _) => Saved::Absent,
            (false, true) => Saved::Whole(objects),
            (false, false) if objects.is_empty() => Saved::Unknown(facts::missing(collection, of, &self.directory)),
            (false, false) => Saved::Part(objects),
        }
    }

    /// The whole object, for requests that change or delete it.
    #[must_use]
    pub fn object(&self, resource: &ResourceId, namespace: Option<&str>, name: &str) -> Stored {
        let Some(known) = resource.find().filter(|known| !known.metadata_only) else {
            return Stored::Unknown(Missing {
                why: format!("airgate does not keep {resource} from {}", self.directory),
                remedy: "give the request as an AdmissionReview with its oldObject".into(),
            });
        };
        let collection = self.index.collection(known);
        let key = (namespace.unwrap_or_default().to_owned(), name.to_owned());
        if self.conflicts.contains(&(known.plural, key.clone())) {
            return Stored::Unknown(facts::conflict(collection, &key, known));
        }
        if let Some(object) = collection.objects.get(&key).and_then(|copies| copies.first()) {
            return Stored::Found(object.value.clone(), object.file.to_string());
        }
        let whole = known.singleton.is_some_and(|name| collection.objects.keys().any(|key| key.1 == name));
        if collection.faults.is_empty() && (whole || collection.complete().is_some()) {
            Stored::KnownAbsent
        } else {
            Stored::Unknown(facts::missing(collection, known, &self.directory))
        }
    }
}

/// A number that changes when [`State::load`] could find something else.
#[must_use]
pub fn fingerprint(directory: &Path) -> u64 {
    find(directory).fingerprint()
}

fn find(directory: &Path) -> Tree {
    Tree::find(directory, Limits::default(), None)
}

#[cfg(test)]
mod tests;
