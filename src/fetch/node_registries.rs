//! Asks the registries of the control-plane nodes whether they have a release image.
//!
//! Invariants: one question at a time, and whoever asks the same within some seconds shares the answers, so that a node
//! is asked no more often however many reviews come; only addresses that Nodes have are asked; the certificate must be for
//! the name that stands for all of them; it ends within [`PATIENCE`], and what was not answered by then is unknown.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use jiff::Timestamp;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout_at};

use super::access::ClusterAccess;
use crate::cluster::{NodeRegistries, RegistryAnswer, RegistryQuestion, Snapshot};
use crate::mirrors::IRI_PORT;
use crate::pullspec::{Digest, Repository};
use crate::registry::{Reason, Registry};
use crate::text::shown;

/// Of a review's time, as much as goes to asking.
const PATIENCE: Duration = Duration::from_secs(3);
/// How long answers are good for others that ask the same.
const FRESH: Duration = Duration::from_secs(5);
/// Nodes that are asked at a time.
const AT_ONCE: usize = 8;
/// Where the machine-config-operator's registry keeps release images.
const REPOSITORY: &str = "openshift/release-images";

#[derive(Debug, Default)]
pub struct Asker(Mutex<Option<Last>>);

/// When it was asked, what, and what came of it.
type Last = (Instant, RegistryQuestion, Arc<NodeRegistries>);

impl Asker {
    /// One answer for each node of the question.
    pub async fn ask(
        &self,
        access: &ClusterAccess,
        cluster: &Snapshot,
        question: &RegistryQuestion,
        deadline: Instant,
    ) -> Arc<NodeRegistries> {
        let deadline = deadline.min(Instant::now() + PATIENCE);
        let Ok(mut last) = timeout_at(deadline, self.0.lock()).await else {
            return Arc::new(nobody(question, "other questions were before it, and the time was up"));
        };
        if let Some((at, same, answers)) = &*last
            && same == question
            && at.elapsed() < FRESH
        {
            return Arc::clone(answers);
        }
        let answers = Arc::new(answers(access, cluster, question, deadline).await);
        *last = Some((Instant::now(), question.clone(), Arc::clone(&answers)));
        answers
    }
}

async fn answers(
    access: &ClusterAccess,
    cluster: &Snapshot,
    question: &RegistryQuestion,
    deadline: Instant,
) -> NodeRegistries {
    let Ok(place) = Repository::parse(&format!("{}{IRI_PORT}/{REPOSITORY}", question.host)) else {
        return nobody(question, &format!("{} is no host of a registry", shown(&question.host)));
    };
    let registry = match timeout_at(deadline, access.registry(cluster)).await {
        Ok(Ok(registry)) => registry,
        Ok(Err(why)) => return nobody(question, &why),
        Err(_) => return nobody(question, "the API server did not say in time by which CA"),
    };
    let asked = Timestamp::now();
    let ask = |(node, address): &(String, String)| {
        let (node, address) = (node.clone(), address.clone());
        let (registry, place) = (&registry, &place);
        async move { (node, one(registry, place, question.digest, &address, deadline).await) }
    };
    let answers: BTreeMap<String, RegistryAnswer> =
        futures::stream::iter(question.nodes.iter().map(ask)).buffer_unordered(AT_ONCE).collect().await;
    if answers.values().any(|answer| matches!(answer, RegistryAnswer::Unknown(_))) {
        access.doubt().await;
    }
    NodeRegistries { digest: question.digest, answers, as_of: asked }
}

async fn one(
    registry: &Registry,
    place: &Repository,
    digest: Digest,
    address: &str,
    deadline: Instant,
) -> RegistryAnswer {
    let Ok(address) = address.parse::<IpAddr>() else {
        return RegistryAnswer::Unknown(format!("{} is no IP address", shown(address)));
    };
    match registry.manifest(place, digest, Some(address), deadline).await {
        Ok(_) => RegistryAnswer::Holds,
        Err(attempt) if attempt.reason == Reason::Absent => RegistryAnswer::Absent,
        Err(attempt) if attempt.reason == Reason::Untrusted => RegistryAnswer::Unknown(format!(
            "the certificate of {address}{IRI_PORT} is not for {} by the CA that ControllerConfig \
             machine-config-controller has in spec.rootCAData",
            place.host
        )),
        Err(attempt) => RegistryAnswer::Unknown(format!("{address}{IRI_PORT}: {}", attempt.why)),
    }
}

/// The same reason for every node.
fn nobody(question: &RegistryQuestion, why: &str) -> NodeRegistries {
    let unknown = |(node, _): &(String, String)| (node.clone(), RegistryAnswer::Unknown(why.to_owned()));
    NodeRegistries {
        digest: question.digest,
        answers: question.nodes.iter().map(unknown).collect(),
        as_of: Timestamp::now(),
    }
}
