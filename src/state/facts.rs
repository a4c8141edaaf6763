//! From the objects of a state directory to the facts of the core.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use super::index::{Collection, Index, Key};
use crate::cluster::{Fact, Missing, Provenance, Snapshot};
use crate::objects::catalog::{CatalogSource, ClusterCatalog};
use crate::objects::cluster_version::ClusterVersion;
use crate::objects::internal_release_image::{InternalReleaseImage, MachineConfigNode};
use crate::objects::machine_config::{Infrastructure, MachineConfig, MachineConfigPool};
use crate::objects::mirrors::{ImageConfig, MirrorSet};
use crate::objects::node::Node;
use crate::objects::release_config_map::{ConfigMap, ReleaseConfigMap};
use crate::projection::from_value;
use crate::resource::{self, Resource};

pub(super) struct Read {
    pub snapshot: Snapshot,
    /// Objects of which two files say different things.
    pub conflicts: BTreeSet<(&'static str, Key)>,
    /// What a person should hear, by file.
    pub remarks: Vec<(String, String)>,
}

pub(super) fn read(index: &Index, directory: &str, now: Timestamp) -> Read {
    let mut reader = Reader { index, directory, now, conflicts: BTreeSet::new(), remarks: vec![] };
    let snapshot = Snapshot {
        cluster_version: reader.singleton(&resource::CLUSTER_VERSIONS, from_value::<ClusterVersion<'_>>),
        internal_release_image: reader
            .singleton(&resource::INTERNAL_RELEASE_IMAGES, from_value::<InternalReleaseImage<'_>>),
        machine_config_nodes: reader.collection(&resource::MACHINE_CONFIG_NODES, from_value::<MachineConfigNode<'_>>),
        machine_config_pools: reader.collection(&resource::MACHINE_CONFIG_POOLS, from_value::<MachineConfigPool<'_>>),
        rendered_releases: reader.rendered_releases(),
        infrastructure: reader.singleton(&resource::INFRASTRUCTURES, from_value::<Infrastructure<'_>>),
        image_digest_mirror_sets: reader.collection(&resource::IMAGE_DIGEST_MIRROR_SETS, from_value::<MirrorSet<'_>>),
        image_tag_mirror_sets: reader.collection(&resource::IMAGE_TAG_MIRROR_SETS, from_value::<MirrorSet<'_>>),
        image_content_source_policies: reader
            .collection(&resource::IMAGE_CONTENT_SOURCE_POLICIES, from_value::<MirrorSet<'_>>),
        image_config: reader.singleton(&resource::IMAGE_CONFIGS, from_value::<ImageConfig<'_>>),
        release_signatures: reader.release_signatures(),
        release_verification: reader.singleton(&resource::RELEASE_VERIFICATION, shared_config_map),
        control_plane_nodes: match reader.collection(&resource::NODES, from_value::<Node<'_>>) {
            Fact::Known(nodes, provenance) => {
                Fact::Known(nodes.into_iter().filter(Node::control_plane).collect(), provenance)
            }
            fact => fact,
        },
        catalog_sources: reader.collection(&resource::CATALOG_SOURCES, from_value::<CatalogSource<'_>>),
        cluster_catalogs: reader.collection(&resource::CLUSTER_CATALOGS, from_value::<ClusterCatalog<'_>>),
        node_registries: None,
    };
    Read { snapshot, conflicts: reader.conflicts, remarks: reader.remarks }
}

struct Reader<'a> {
    index: &'a Index,
    directory: &'a str,
    now: Timestamp,
    conflicts: BTreeSet<(&'static str, Key)>,
    remarks: Vec<(String, String)>,
}

/// The objects of a resource by name, each with its file.
type Objects<T> = BTreeMap<String, (T, Arc<str>)>;

impl<'a> Reader<'a> {
    fn provenance(&self, source: &str) -> Provenance {
        Provenance { source: source.into(), as_of: self.now, watched: false }
    }

    fn singleton<T: PartialEq>(&mut self, of: &Resource, project: fn(&'a Value) -> Result<T, String>) -> Fact<T> {
        let collection = self.index.collection(of);
        let name = of.singleton.unwrap_or_default();
        match self.objects(of, project, |key| key.1 == name) {
            Err(missing) => Fact::Unknown(missing),
            Ok(objects) => match (objects.into_values().next(), collection.complete()) {
                (Some((object, file)), _) => Fact::Known(object, self.provenance(&file)),
                (None, Some(source)) => Fact::Absent(self.provenance(source)),
                (None, None) => Fact::Unknown(missing(collection, of, self.directory)),
            },
        }
    }

    fn collection<T: PartialEq>(&mut self, of: &Resource, project: fn(&'a Value) -> Result<T, String>) -> Fact<Vec<T>> {
        let collection = self.index.collection(of);
        match (self.objects(of, project, |_| true), collection.complete()) {
            (Err(missing), _) => Fact::Unknown(missing),
            (Ok(_), None) => Fact::Unknown(missing(collection, of, self.directory)),
            (Ok(_), Some(source)) if collection.absent.is_some() => Fact::Absent(self.provenance(source)),
            (Ok(objects), Some(source)) => {
                Fact::Known(objects.into_values().map(|(object, _)| object).collect(), self.provenance(source))
            }
        }
    }

    /// Some MachineConfigs are enough: that a pool names one which is not there is for the core to judge.
    fn rendered_releases(&mut self) -> Fact<BTreeMap<String, Option<String>>> {
        let of = &resource::MACHINE_CONFIGS;
        let collection = self.index.collection(of);
        let objects = match self.objects(of, from_value::<MachineConfig<'_>>, |_| true) {
            Err(missing) => return Fact::Unknown(missing),
            Ok(objects) => objects,
        };
        let files: BTreeSet<_> = objects.values().map(|(_, file)| file.clone()).collect();
        let source = match (collection.complete(), files.first()) {
            (Some(source), _) if collection.absent.is_some() => return Fact::Absent(self.provenance(source)),
            (Some(source), _) => source.to_string(),
            (None, Some(file)) if files.len() == 1 => file.to_string(),
            (None, Some(file)) => format!("{file} and {} more", files.len() - 1),
            (None, None) => return Fact::Unknown(missing(collection, of, self.directory)),
        };
        let release = |object: MachineConfig<'_>| {
            let release = object.metadata.annotations.release_image_version;
            (!release.is_empty()).then(|| release.to_string())
        };
        let releases = objects.into_iter().map(|(name, (object, _))| (name, release(object))).collect();
        Fact::Known(releases, self.provenance(&source))
    }

    /// What is there is enough to prove something: a site keeps its signatures in files of their own.
    fn release_signatures(&mut self) -> Fact<Arc<[Arc<ReleaseConfigMap>]>> {
        let of = &resource::RELEASE_SIGNATURES;
        let collection = self.index.collection(of);
        let maps = match self.objects(of, shared_config_map, |_| true) {
            Err(missing) => return Fact::Unknown(missing),
            Ok(maps) => maps,
        };
        let labelled: Vec<_> = maps.into_values().filter(|(map, _)| map.labelled).collect();
        match (labelled.first(), collection.complete()) {
            (Some((_, file)), _) => {
                let provenance = self.provenance(file);
                Fact::Known(labelled.into_iter().map(|(map, _)| map).collect(), provenance)
            }
            (None, Some(source)) => Fact::Absent(self.provenance(source)),
            (None, None) => Fact::Unknown(missing(collection, of, self.directory)),
        }
    }

    /// The projected objects that `wanted` asks for, or why they cannot be relied on.
    fn objects<T: PartialEq>(
        &mut self,
        of: &Resource,
        project: fn(&'a Value) -> Result<T, String>,
        wanted: impl Fn(&Key) -> bool,
    ) -> Result<Objects<T>, Missing> {
        let index = self.index;
        let collection = index.collection(of);
        let mut fault = collection.faults.first().map(|why| Missing {
            why: why.clone(),
            remedy: format!("mend or replace it: {}", save(of, self.directory)),
        });
        if let (Some(settings), Some(copies)) = (&collection.absent, collection.objects.values().next()) {
            let why = format!("{settings} says that there are no {}, but {} holds one", of.plural, copies[0].file);
            self.remarks.push((settings.to_string(), why.clone()));
            fault.get_or_insert(Missing { why, remedy: format!("correct {}/{settings}", self.directory) });
        }
        let mut objects = Objects::new();
        for (key, copies) in collection.objects.iter().filter(|(key, _)| wanted(key)) {
            let mut read: Vec<(T, Arc<str>)> = vec![];
            for copy in copies {
                match project(&copy.value) {
                    Ok(object) => read.push((object, copy.file.clone())),
                    Err(what) => {
                        let what = format!("{} {}: {what}", of.kind, key.1);
                        self.remarks.push((copy.file.to_string(), what.clone()));
                        fault.get_or_insert(Missing {
                            why: format!("{}: {what}", copy.file),
                            remedy: format!("mend or replace it: {}", save(of, self.directory)),
                        });
                    }
                }
            }
            let mut read = read.into_iter();
            let Some(first) = read.next() else { continue };
            if let Some(other) = read.find(|other| other.0 != first.0) {
                let what = format!("{} {} is another one in {}; remove one of them", of.kind, key.1, other.1);
                self.remarks.push((first.1.to_string(), what));
                if let Some(known) = resource::ALL.into_iter().find(|known| *known == of) {
                    self.conflicts.insert((known.plural, key.clone()));
                }
                fault.get_or_insert_with(|| conflict(collection, key, of));
            }
            objects.insert(key.1.clone(), first);
        }
        fault.map_or(Ok(objects), Err)
    }
}

/// Why an object of which the files say different things is unknown.
pub(super) fn conflict(collection: &Collection, key: &Key, of: &Resource) -> Missing {
    let copies = collection.objects.get(key).map(Vec::as_slice).unwrap_or_default();
    let files: Vec<&str> = copies.iter().map(|copy| &*copy.file).collect();
    Missing {
        why: format!("{} {} is not the same in {}", of.kind, key.1, files.join(" and ")),
        remedy: "remove all but one of them".into(),
    }
}

/// Why a resource is not known, and which command would save it.
pub(super) fn missing(collection: &Collection, of: &Resource, directory: &str) -> Missing {
    let why = match (collection.faults.first(), collection.unreadable.first(), collection.objects.len()) {
        (Some(fault), ..) => fault.clone(),
        (None, Some(file), _) => format!("{file} could not be read"),
        (None, None, 0) => format!("{directory} has no {}", of.plural),
        (None, None, count) => {
            format!("{directory} has {count} of the {}, but no List of them: there may be more", of.plural)
        }
    };
    let save = save(of, directory);
    let remedy = if of == &resource::CLUSTER_VERSIONS {
        save
    } else {
        format!("{save} (or, if the cluster has none, `absent: [{}]` in {directory}/airgate.yaml)", of.oc_name())
    };
    Missing { why, remedy }
}

fn save(of: &Resource, directory: &str) -> String {
    let namespace = of.namespace.map(|namespace| format!(" -n {namespace}")).unwrap_or_default();
    format!("oc get {name}{namespace} -o yaml > {directory}/{name}.yaml", name = of.oc_name())
}

fn shared_config_map(value: &Value) -> Result<Arc<ReleaseConfigMap>, String> {
    from_value::<ConfigMap<'_>>(value).map(Arc::new)
}
