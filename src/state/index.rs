//! The objects of a state directory by resource, and what says that a collection of them is whole.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde_json::Value;

use crate::resource::{self, Resource, ResourceId};

/// Namespace (empty for cluster-scoped objects) and name.
pub(super) type Key = (String, String);

#[derive(Debug, Default)]
pub(super) struct Index {
    collections: HashMap<&'static str, Collection>,
    /// Files and directories that could not be read.
    unreadable: Vec<String>,
}

/// What the files say of one resource.
#[derive(Debug, Default)]
pub(super) struct Collection {
    /// Several copies where several files hold an object.
    pub objects: BTreeMap<Key, Vec<Object>>,
    /// Files and directories that count as its List.
    pub lists: Vec<Arc<str>>,
    /// The file that says that the cluster does not have this resource.
    pub absent: Option<Arc<str>>,
    /// Why the files say nothing certain about the resource as a whole.
    pub faults: Vec<String>,
    /// Files that by their place belong to it and could not be read.
    pub unreadable: Vec<String>,
}

#[derive(Debug)]
pub(super) struct Object {
    pub value: Value,
    pub file: Arc<str>,
}

impl Collection {
    /// What says that nothing is missing.
    pub fn complete(&self) -> Option<&Arc<str>> {
        self.absent.as_ref().or(self.lists.first())
    }
}

static NOTHING: Collection =
    Collection { objects: BTreeMap::new(), lists: vec![], absent: None, faults: vec![], unreadable: vec![] };

impl Index {
    pub fn collection(&self, resource: &Resource) -> &Collection {
        self.collections.get(resource.plural).unwrap_or(&NOTHING)
    }

    fn entry(&mut self, resource: &Resource) -> &mut Collection {
        // The key is the static one of the table, whatever the caller's reference lives.
        let plural = resource::ALL.into_iter().find(|known| *known == resource).map_or("", |known| known.plural);
        self.collections.entry(plural).or_default()
    }

    /// Notes a file or directory that could not be read.
    pub fn unreadable(&mut self, name: &str) {
        self.unreadable.push(name.to_owned());
        let directory = name.rsplit_once('/').map_or("", |(directory, _)| directory);
        if let Some(resource) = named_after(name).or_else(|| inspected(directory)).or_else(|| inspected(name)) {
            self.entry(resource).unreadable.push(name.to_owned());
        }
    }

    /// Takes what airgate has a use for; yields what a person should hear about the file.
    pub fn add_file(&mut self, file: &str, documents: Vec<Value>) -> Vec<String> {
        let mut reading = Reading { index: self, file: Arc::from(file), remarks: vec![] };
        let settings = matches!(file, "airgate.yaml" | "airgate.yml" | "airgate.json");
        for document in documents {
            if settings { reading.settings(&document) } else { reading.document(document) }
        }
        reading.remarks
    }

    /// In a must-gather or inspect tree a resource's directory is its List, if all of it was read.
    pub fn add_directories(&mut self, directories: &[String]) {
        for directory in directories {
            let Some(resource) = inspected(directory) else { continue };
            let below = |name: &&String| name.strip_prefix(directory).is_some_and(|rest| rest.starts_with('/'));
            match self.unreadable.iter().find(below).cloned() {
                Some(file) => self.entry(resource).faults.push(format!("{file} could not be read")),
                None => self.entry(resource).lists.push(Arc::from(&**directory)),
            }
        }
    }
}

struct Reading<'a> {
    index: &'a mut Index,
    file: Arc<str>,
    remarks: Vec<String>,
}

impl Reading<'_> {
    fn document(&mut self, document: Value) {
        let text = |key| document.get(key).and_then(Value::as_str).unwrap_or_default();
        let (api_version, kind) = (text("apiVersion").to_owned(), text("kind").to_owned());
        if (&*api_version, &*kind) == ("v1", "List") {
            return self.list(document, None);
        }
        let item_kind = kind.strip_suffix("List").filter(|_| document.get("metadata").is_none_or(no_name));
        if let Some(resource) = item_kind.and_then(|item_kind| find(&api_version, item_kind)) {
            return self.list(document, Some((resource, &api_version)));
        }
        if let Some(resource) = find(&api_version, &kind) {
            self.object(resource, document, &api_version);
        }
    }

    fn list(&mut self, mut document: Value, of: Option<(&'static Resource, &str)>) {
        let partial = document.pointer("/metadata/continue").and_then(Value::as_str).is_some_and(|c| !c.is_empty());
        let items = match document.get_mut("items").map(Value::take) {
            Some(Value::Array(items)) => items,
            // Go writes an empty list as null.
            Some(Value::Null) => vec![],
            _ => return self.fault(of.map(|(resource, _)| resource), "items is not a list"),
        };
        // A List of another namespace says nothing of ours, and one without items does not say of which it is.
        let any = |resource: &&Resource| resource.namespace.is_none();
        let mut resources: Vec<_> = of.iter().map(|(resource, _)| *resource).filter(any).collect();
        if of.is_none() && items.is_empty() {
            resources.extend(named_after(&self.file));
        }
        for item in items {
            let text = |key| item.get(key).and_then(Value::as_str).unwrap_or_default();
            match (of, text("apiVersion"), text("kind")) {
                // The API server leaves the type of an item in a typed List out.
                (Some((resource, api_version)), "", "") => {
                    if self.object(resource, item, api_version) && !resources.contains(&resource) {
                        resources.push(resource);
                    }
                }
                (_, api_version, kind) => {
                    if let Some(resource) = find(api_version, kind) {
                        let api_version = api_version.to_owned();
                        if self.object(resource, item, &api_version) && !resources.contains(&resource) {
                            resources.push(resource);
                        }
                    } else if let Some((resource, _)) = of {
                        self.fault(Some(resource), &format!("a List of {} holds a {kind:?}", resource.kind));
                    }
                }
            }
        }
        for resource in resources {
            if partial {
                self.fault(Some(resource), "is one page of a longer List (metadata.continue is set)");
            } else {
                self.index.entry(resource).lists.push(self.file.clone());
            }
        }
    }

    /// Yields whether the object is where airgate has a use for it.
    fn object(&mut self, resource: &'static Resource, mut object: Value, api_version: &str) -> bool {
        let version = api_version.rsplit('/').next().unwrap_or_default();
        if !resource.versions.contains(&version) {
            let known = resource.versions.join(" and ");
            self.fault(Some(resource), &format!("{api_version} of {} is not known, {known} is", resource.kind));
            return true;
        }
        let text = |key| object.get("metadata").and_then(|metadata| metadata.get(key)).and_then(Value::as_str);
        let key = (text("namespace").unwrap_or_default().to_owned(), text("name").unwrap_or_default().to_owned());
        if resource.namespace.is_some_and(|namespace| namespace != key.0) {
            return false;
        }
        if key.1.is_empty() {
            self.fault(Some(resource), &format!("holds a {} without metadata.name", resource.kind));
            return true;
        }
        if let Some(fields) = object.as_object_mut() {
            fields.entry("apiVersion").or_insert_with(|| api_version.into());
            fields.entry("kind").or_insert_with(|| resource.kind.into());
            if resource.metadata_only {
                fields.retain(|key, _| matches!(key.as_str(), "apiVersion" | "kind" | "metadata"));
            }
        }
        let object = Object { value: object, file: self.file.clone() };
        self.index.entry(resource).objects.entry(key).or_default().push(object);
        true
    }

    /// `airgate.yaml`: what is not installed.
    fn settings(&mut self, document: &Value) {
        let Some(fields) = document.as_object() else {
            self.remarks.push("is not a map with a list `absent`".into());
            return;
        };
        for key in fields.keys().filter(|key| !["apiVersion", "kind", "metadata", "absent"].contains(&key.as_str())) {
            self.remarks.push(format!("unknown key {key:?}, known is absent"));
        }
        let absent = match fields.get("absent") {
            None | Some(Value::Null) => return,
            Some(Value::Array(absent)) => absent,
            Some(_) => {
                self.remarks.push("absent is not a list of resources".into());
                return;
            }
        };
        for entry in absent {
            match entry.as_str().and_then(|name| ResourceId::parse(name).find()) {
                Some(resource) => self.index.entry(resource).absent = Some(self.file.clone()),
                None => self.remarks.push(format!("absent: {entry} is no resource that airgate reads")),
            }
        }
    }

    fn fault(&mut self, resource: Option<&'static Resource>, message: &str) {
        self.remarks.push(message.to_owned());
        if let Some(resource) = resource {
            let fault = format!("{}: {message}", self.file);
            self.index.entry(resource).faults.push(fault);
        }
    }
}

fn no_name(metadata: &Value) -> bool {
    metadata.get("name").is_none()
}

fn find(api_version: &str, kind: &str) -> Option<&'static Resource> {
    let (group, _) = api_version.rsplit_once('/').unwrap_or_default();
    resource::ALL.into_iter().find(|resource| resource.group == group && resource.kind == kind)
}

/// The resource that a file is named after: `machineconfigpools.yaml`.
fn named_after(file: &str) -> Option<&'static Resource> {
    let name = file.rsplit('/').next()?;
    let (stem, _) = name.rsplit_once('.')?;
    resource::ALL.into_iter().find(|resource| stem == resource.oc_name() || stem == resource.full_name())
}

/// The resource whose directory in a must-gather or inspect tree this is:
/// `.../cluster-scoped-resources/GROUP/PLURAL` or `.../namespaces/NAMESPACE/GROUP/PLURAL`.
fn inspected(directory: &str) -> Option<&'static Resource> {
    let mut parts = directory.rsplit('/');
    let (plural, group, root, above) = (parts.next()?, parts.next()?, parts.next()?, parts.next());
    let place = |known: &&Resource| match known.namespace {
        None => root == INSPECTED && directory_of(known) == group,
        Some(namespace) => above == Some("namespaces") && root == namespace && directory_of(known) == group,
    };
    resource::ALL.into_iter().filter(|known| known.plural == plural).find(place)
}

/// How such trees call the directory of a group.
fn directory_of(resource: &Resource) -> &'static str {
    if resource.group.is_empty() { "core" } else { resource.group }
}

const INSPECTED: &str = "cluster-scoped-resources";

/// What the paths of each must-gather or inspect tree begin with.
pub(super) fn inspected_roots(directories: &[String]) -> Vec<&str> {
    let roots = directories.iter().filter_map(|directory| directory.strip_suffix(INSPECTED));
    roots.filter(|root| root.is_empty() || root.ends_with('/')).collect()
}

/// Whether a file can hold anything airgate reads: a must-gather has thousands of files that cannot.
/// Only by its place in such a tree; elsewhere every file is read, whatever its directories are called.
pub(super) fn worth_reading(file: &str, inspected_roots: &[&str]) -> bool {
    for root in inspected_roots {
        let parts: Vec<_> = file.strip_prefix(root).into_iter().flat_map(|rest| rest.split('/')).collect();
        match parts[..] {
            [INSPECTED, group, plural, _, ..] => {
                return resource::ALL.into_iter().any(|known| directory_of(known) == group && known.plural == plural);
            }
            ["namespaces", namespace, group, file, ..] => {
                let plural = file.split('.').next().unwrap_or_default();
                return resource::ALL.into_iter().any(|known| {
                    known.namespace == Some(namespace) && directory_of(known) == group && known.plural == plural
                });
            }
            _ => {}
        }
    }
    true
}
