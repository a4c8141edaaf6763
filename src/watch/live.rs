//! Reads that bypass the watches: before allows that cannot be undone, and for single commands.

use futures::FutureExt;
use futures::future::BoxFuture;
use jiff::Timestamp;
use kube::Client;
use serde_json::Value;
use tokio::time::Instant;

use super::api::{Endpoint, Failure};
use super::kind::{self, Kind, Objects};
use crate::action::Stored;
use crate::cluster::{Fact, Missing, Provenance, RenderedReleases, Snapshot};
use crate::objects::cluster_version::ClusterVersion;
use crate::objects::machine_config::MachineConfigPool;
use crate::resource::{self, Resource, ResourceId};
use crate::saved::{self, Saved};

const SOURCE: &str = "live read";

/// What an allow that cannot be undone rests on.
#[derive(Clone, Debug)]
pub struct LiveFacts {
    pub cluster_version: Fact<ClusterVersion<'static>>,
    pub machine_config_pools: Fact<Vec<MachineConfigPool<'static>>>,
    pub rendered_releases: Fact<RenderedReleases>,
}

/// Reads all three at once; what is not read by the deadline is unknown.
pub async fn live_read(client: &Client, deadline: Instant) -> LiveFacts {
    let (version, pools, releases) = tokio::join!(
        read(client, kind::cluster_version(), deadline),
        read(client, kind::machine_config_pools(), deadline),
        read(client, kind::rendered_releases(), deadline),
    );
    let mut snapshot = Snapshot::nothing("not read");
    version(&mut snapshot);
    pools(&mut snapshot);
    releases(&mut snapshot);
    let Snapshot { cluster_version, machine_config_pools, rendered_releases, .. } = snapshot;
    LiveFacts { cluster_version, machine_config_pools, rendered_releases }
}

/// Reads every fact once, for a command that does not watch.
pub async fn read_once(client: &Client, deadline: Instant) -> Snapshot {
    let (live, image, machine_config_nodes, infrastructure, signatures, verification) = tokio::join!(
        live_read(client, deadline),
        read(client, kind::internal_release_image(), deadline),
        read(client, kind::machine_config_nodes(), deadline),
        read(client, kind::infrastructure(), deadline),
        read(client, kind::release_signatures(), deadline),
        read(client, kind::release_verification(), deadline),
    );
    let (nodes, catalog_sources, cluster_catalogs, digest_mirrors, tag_mirrors, content_sources, image_config) = tokio::join!(
        read(client, kind::control_plane_nodes(), deadline),
        read(client, kind::catalog_sources(), deadline),
        read(client, kind::cluster_catalogs(), deadline),
        read(client, kind::image_digest_mirror_sets(), deadline),
        read(client, kind::image_tag_mirror_sets(), deadline),
        read(client, kind::image_content_source_policies(), deadline),
        read(client, kind::image_config(), deadline),
    );
    let mut snapshot = Snapshot {
        cluster_version: live.cluster_version,
        machine_config_pools: live.machine_config_pools,
        rendered_releases: live.rendered_releases,
        ..Snapshot::nothing("not read")
    };
    image(&mut snapshot);
    machine_config_nodes(&mut snapshot);
    nodes(&mut snapshot);
    catalog_sources(&mut snapshot);
    cluster_catalogs(&mut snapshot);
    infrastructure(&mut snapshot);
    digest_mirrors(&mut snapshot);
    tag_mirrors(&mut snapshot);
    content_sources(&mut snapshot);
    image_config(&mut snapshot);
    signatures(&mut snapshot);
    verification(&mut snapshot);
    snapshot
}

/// Reads one whole object.
pub async fn get(client: &Client, resource: &ResourceId, name: &str, deadline: Instant) -> Stored {
    let Some(known) = resource.find() else {
        return Stored::Unknown(Missing {
            why: format!("airgate does not read {resource}"),
            remedy: "give the request as an AdmissionReview with its oldObject".into(),
        });
    };
    let read = |endpoint: Endpoint| {
        let read = async move {
            let objects = objects_of(known, endpoint.of(name)).await?;
            objects.into_iter().find(|object| object["metadata"]["name"] == name).ok_or(Failure::NotFound)
        };
        read.boxed()
    };
    match in_some_version(client, known, deadline, &read).await {
        Ok(Some(object)) => Stored::Found(object, SOURCE.into()),
        Ok(None) => Stored::KnownAbsent,
        Err(missing) => Stored::Unknown(missing),
    }
}

/// Reads the objects of every resource whole, to be saved.
pub async fn save(client: &Client, deadline: Instant) -> saved::Objects {
    let reads = resource::read().map(async |of| {
        let list = |endpoint: Endpoint| objects_of(of, endpoint).boxed();
        let saved = match in_some_version(client, of, deadline, &list).await {
            Ok(Some(objects)) => Saved::Whole(objects),
            Ok(None) => Saved::Absent,
            Err(missing) => Saved::Unknown(missing),
        };
        (of, saved.cleaned(of))
    });
    let read = futures::future::join_all(reads).await;
    let all = resource::ALL.into_iter().map(|of| {
        let selections = read.iter().filter(|(other, _)| other.same_kind(of)).map(|(_, saved)| saved.clone());
        (of, selections.reduce(Saved::with).unwrap_or(Saved::Absent))
    });
    all.collect()
}

async fn objects_of(of: &'static Resource, endpoint: Endpoint) -> Result<Vec<Value>, Failure> {
    let api_version =
        if of.group.is_empty() { endpoint.version.to_owned() } else { format!("{}/{}", of.group, endpoint.version) };
    let mut objects: Result<Vec<Value>, Failure> = Ok(vec![]);
    endpoint
        .list(|text| match (serde_json::from_str::<Value>(text), &mut objects) {
            (Ok(mut object), Ok(read)) if object.is_object() => {
                // A list leaves them out, or says that these are metadata.
                object["apiVersion"] = api_version.as_str().into();
                object["kind"] = of.kind.into();
                read.push(object);
            }
            (_, Err(_)) => {}
            (_, objects) => *objects = Err(Failure::Other("the list holds something that is no object".into())),
        })
        .await?;
    objects
}

/// Reads one fact and yields how to put it into a snapshot.
async fn read<T: Send>(client: &Client, kind: Kind<T>, deadline: Instant) -> impl FnOnce(&mut Snapshot) {
    let provenance = Provenance { source: SOURCE.into(), as_of: Timestamp::now(), watched: false };
    let objects =
        in_some_version(client, kind.resource, deadline, &|endpoint| read_kind(&kind, endpoint).boxed()).await;
    move |snapshot: &mut Snapshot| {
        let fact = match &objects {
            Ok(Some(objects)) => Fact::Known(objects, provenance),
            Ok(None) => Fact::Absent(provenance),
            Err(missing) => Fact::Unknown(missing.clone()),
        };
        (kind.put)(snapshot, fact);
    }
}

async fn read_kind<T: Send>(kind: &Kind<T>, endpoint: Endpoint) -> Result<Objects<T>, Failure> {
    let project = |objects: &mut Objects<T>, name: &str, text: &str| {
        let fault = |fault| Failure::Other(format!("{name}: {fault}"));
        (kind.project)(text).map(|object| drop(objects.insert(name.to_owned(), object))).map_err(fault)
    };
    let mut objects = Objects::new();
    // Listed even where it is one object, by its name: the rights of the watches are enough.
    let mut result = Ok(());
    endpoint
        .list(|text| {
            let head: super::api::Head = serde_json::from_str(text).unwrap_or_default();
            let projected = project(&mut objects, &head.metadata.name, text);
            if result.is_ok() {
                result = projected;
            }
        })
        .await?;
    result.map(|()| objects)
}

/// Boxed rather than an async closure, whose future the compiler cannot show to be `Send` here.
type Read<'f, T> = &'f (dyn Fn(Endpoint) -> BoxFuture<'f, Result<T, Failure>> + Sync);

/// `None` where no version has it: neither the resource nor the object is there.
async fn in_some_version<T>(
    client: &Client,
    resource: &Resource,
    deadline: Instant,
    read: Read<'_, T>,
) -> Result<Option<T>, Missing> {
    let patience = deadline.saturating_duration_since(Instant::now());
    let all = async {
        for version in resource.versions {
            match read(Endpoint::new(client, resource, version, patience)).await {
                Ok(found) => return Ok(Some(found)),
                Err(Failure::NotFound) => {}
                Err(failure) => return Err(missing(&failure, resource)),
            }
        }
        Ok(None)
    };
    let late = || missing(&Failure::Other("the API server did not answer in time".into()), resource);
    tokio::time::timeout_at(deadline, Box::pin(all)).await.unwrap_or_else(|_| Err(late()))
}

/// There is no watch to look at.
fn missing(failure: &Failure, resource: &Resource) -> Missing {
    let missing = failure.missing(resource);
    if matches!(failure, Failure::Denied(_)) {
        return missing;
    }
    Missing { remedy: format!("see whether the API server answers: oc get {}", resource.selected()), ..missing }
}
