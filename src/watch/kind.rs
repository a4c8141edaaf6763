//! What is watched: how an object becomes a projection, and which fact the projections make.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::cluster::{Fact, Snapshot};
use crate::objects::api_server::ApiServer;
use crate::objects::catalog::{CatalogSource, ClusterCatalog};
use crate::objects::cluster_version::ClusterVersion;
use crate::objects::internal_release_image::{InternalReleaseImage, MachineConfigNode};
use crate::objects::machine_config::{Infrastructure, MachineConfig, MachineConfigPool};
use crate::objects::mirrors::{ImageConfig, MirrorSet};
use crate::objects::node::Node;
use crate::objects::release_config_map::{ConfigMap, ReleaseConfigMap};
use crate::projection::from_text;
use crate::resource::{self, Resource};

/// The projections of a resource by name.
pub(super) type Objects<T> = BTreeMap<String, T>;

/// One resource to watch, kept as `T` in an `S`.
pub(super) struct Kind<T, S = Snapshot> {
    pub resource: &'static Resource,
    pub project: fn(&str) -> Result<T, String>,
    pub put: fn(&mut S, Fact<&Objects<T>>),
}

/// No verdict rests on it: it is of the server's own TLS, and no part of the snapshot.
pub(super) fn api_server() -> Kind<ApiServer<'static>, Fact<ApiServer<'static>>> {
    Kind {
        resource: &resource::API_SERVERS,
        project: |text| from_text::<ApiServer<'_>>(text),
        put: |kept, fact| *kept = single(fact, &resource::API_SERVERS),
    }
}

pub(super) fn cluster_version() -> Kind<ClusterVersion<'static>> {
    Kind {
        resource: &resource::CLUSTER_VERSIONS,
        project: |text| from_text::<ClusterVersion<'_>>(text),
        put: |snapshot, fact| snapshot.cluster_version = single(fact, &resource::CLUSTER_VERSIONS),
    }
}

pub(super) fn internal_release_image() -> Kind<InternalReleaseImage<'static>> {
    Kind {
        resource: &resource::INTERNAL_RELEASE_IMAGES,
        project: |text| from_text::<InternalReleaseImage<'_>>(text),
        put: |snapshot, fact| snapshot.internal_release_image = single(fact, &resource::INTERNAL_RELEASE_IMAGES),
    }
}

pub(super) fn infrastructure() -> Kind<Infrastructure<'static>> {
    Kind {
        resource: &resource::INFRASTRUCTURES,
        project: |text| from_text::<Infrastructure<'_>>(text),
        put: |snapshot, fact| snapshot.infrastructure = single(fact, &resource::INFRASTRUCTURES),
    }
}

pub(super) fn machine_config_nodes() -> Kind<MachineConfigNode<'static>> {
    Kind {
        resource: &resource::MACHINE_CONFIG_NODES,
        project: |text| from_text::<MachineConfigNode<'_>>(text),
        put: |snapshot, fact| snapshot.machine_config_nodes = map(fact, |nodes| nodes.values().cloned().collect()),
    }
}

pub(super) fn machine_config_pools() -> Kind<MachineConfigPool<'static>> {
    Kind {
        resource: &resource::MACHINE_CONFIG_POOLS,
        project: |text| from_text::<MachineConfigPool<'_>>(text),
        put: |snapshot, fact| snapshot.machine_config_pools = map(fact, |pools| pools.values().cloned().collect()),
    }
}

pub(super) fn catalog_sources() -> Kind<CatalogSource<'static>> {
    Kind {
        resource: &resource::CATALOG_SOURCES,
        project: |text| from_text::<CatalogSource<'_>>(text),
        put: |snapshot, fact| snapshot.catalog_sources = map(fact, |sources| sources.values().cloned().collect()),
    }
}

pub(super) fn cluster_catalogs() -> Kind<ClusterCatalog<'static>> {
    Kind {
        resource: &resource::CLUSTER_CATALOGS,
        project: |text| from_text::<ClusterCatalog<'_>>(text),
        put: |snapshot, fact| snapshot.cluster_catalogs = map(fact, |catalogs| catalogs.values().cloned().collect()),
    }
}

pub(super) fn control_plane_nodes() -> Kind<Node<'static>> {
    Kind {
        resource: &resource::NODES,
        project: |text| from_text::<Node<'_>>(text),
        put: |snapshot, fact| {
            let of_control_plane =
                |nodes: &Objects<Node<'static>>| nodes.values().filter(|node| node.control_plane()).cloned().collect();
            snapshot.control_plane_nodes = map(fact, of_control_plane);
        },
    }
}

/// Kept of each MachineConfig: the release it was rendered for.
pub(super) fn rendered_releases() -> Kind<Option<String>> {
    Kind {
        resource: &resource::MACHINE_CONFIGS,
        project: |text| {
            let object = from_text::<MachineConfig<'_>>(text)?;
            let release = object.metadata.annotations.release_image_version;
            Ok((!release.is_empty()).then(|| release.to_string()))
        },
        put: |snapshot, fact| snapshot.rendered_releases = map(fact, Clone::clone),
    }
}

pub(super) fn image_digest_mirror_sets() -> Kind<MirrorSet<'static>> {
    Kind {
        resource: &resource::IMAGE_DIGEST_MIRROR_SETS,
        project: |text| from_text::<MirrorSet<'_>>(text),
        put: |snapshot, fact| snapshot.image_digest_mirror_sets = map(fact, |sets| sets.values().cloned().collect()),
    }
}

pub(super) fn image_tag_mirror_sets() -> Kind<MirrorSet<'static>> {
    Kind {
        resource: &resource::IMAGE_TAG_MIRROR_SETS,
        project: |text| from_text::<MirrorSet<'_>>(text),
        put: |snapshot, fact| snapshot.image_tag_mirror_sets = map(fact, |sets| sets.values().cloned().collect()),
    }
}

pub(super) fn image_content_source_policies() -> Kind<MirrorSet<'static>> {
    Kind {
        resource: &resource::IMAGE_CONTENT_SOURCE_POLICIES,
        project: |text| from_text::<MirrorSet<'_>>(text),
        put: |snapshot, fact| {
            snapshot.image_content_source_policies = map(fact, |sets| sets.values().cloned().collect());
        },
    }
}

pub(super) fn image_config() -> Kind<ImageConfig<'static>> {
    Kind {
        resource: &resource::IMAGE_CONFIGS,
        project: |text| from_text::<ImageConfig<'_>>(text),
        put: |snapshot, fact| snapshot.image_config = single(fact, &resource::IMAGE_CONFIGS),
    }
}

pub(super) fn release_signatures() -> Kind<Arc<ReleaseConfigMap>> {
    Kind {
        resource: &resource::RELEASE_SIGNATURES,
        project: |text| from_text::<ConfigMap<'_>>(text).map(Arc::new),
        // No such object and no such list look alike in files, so they are alike here.
        put: |snapshot, fact| {
            snapshot.release_signatures = match fact {
                Fact::Known(maps, provenance) if maps.is_empty() => Fact::Absent(provenance),
                fact => map(fact, |maps| maps.values().cloned().collect()),
            };
        },
    }
}

pub(super) fn release_verification() -> Kind<Arc<ReleaseConfigMap>> {
    Kind {
        resource: &resource::RELEASE_VERIFICATION,
        project: |text| from_text::<ConfigMap<'_>>(text).map(Arc::new),
        put: |snapshot, fact| snapshot.release_verification = single(fact, &resource::RELEASE_VERIFICATION),
    }
}

fn map<A, B>(fact: Fact<&A>, known: impl FnOnce(&A) -> B) -> Fact<B> {
    match fact {
        Fact::Known(value, provenance) => Fact::Known(known(value), provenance),
        Fact::Absent(provenance) => Fact::Absent(provenance),
        Fact::Unknown(missing) => Fact::Unknown(missing),
    }
}

/// The one object of a singleton; a list without it says that it is not there.
fn single<T: Clone>(fact: Fact<&Objects<T>>, of: &Resource) -> Fact<T> {
    match map(fact, |objects| objects.get(of.singleton.unwrap_or_default()).cloned()) {
        Fact::Known(Some(object), provenance) => Fact::Known(object, provenance),
        Fact::Known(None, provenance) | Fact::Absent(provenance) => Fact::Absent(provenance),
        Fact::Unknown(missing) => Fact::Unknown(missing),
    }
}
