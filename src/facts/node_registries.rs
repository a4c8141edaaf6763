//! Asks the registries of the control-plane nodes whether they have a release image.
//!
//! Invariants: one question at a time, and whoever asks the same within some seconds shares the answers, so that a node
//! is asked no more often however many reviews come; only addresses that Nodes have are asked; the certificate must be for
//! the name that stands for all of them; it ends within [`PATIENCE`], and what was not answered by then is unknown.

pub(crate) mod access;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use jiff::Timestamp;
use kube::Client;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout_at};

use crate::cluster::{NodeRegistries, RegistryAnswer, RegistryQuestion};
use crate::pullspec::Repository;
use crate::registry::{Reason, Registry};
use crate::text::shown;

/// Of a review's time, as much as goes to asking.
const PATIENCE: Duration = Duration::from_secs(3);
/// How long answers are good for others that ask the same.
const FRESH: Duration = Duration::from_secs(5);
/// How long credentials and CA are used before they are read again; at once, where a registry wants others.
const ACCESS: Duration = Duration::from_mins(1);
/// Nodes that are asked at a time.
const AT_ONCE: usize = 8;
/// Where the machine-config-operator's registry listens, and where it keeps release images.
const PLACE: &str = "22625/openshift/release-images";

#[derive(Debug, Default)]
pub(super) struct Asker(Mutex<Last>);

#[derive(Debug, Default)]
struct Last {
    asked: Option<(Instant, RegistryQuestion, Arc<NodeRegistries>)>,
    registry: Option<(Instant, String, Registry)>,
}

impl Asker {
    /// One answer for each node of the question.
    pub async fn ask(&self, client: &Client, question: &RegistryQuestion, deadline: Instant) -> Arc<NodeRegistries> {
        let deadline = deadline.min(Instant::now() + PATIENCE);
        let Ok(mut last) = timeout_at(deadline, self.0.lock()).await else {
            return Arc::new(nobody(question, "other questions were before it, and the time was up"));
        };
        if let Some((at, same, answers)) = &last.asked
            && same == question
            && at.elapsed() < FRESH
        {
            return Arc::clone(answers);
        }
        let answers = Arc::new(last.answers(client, question, deadline).await);
        last.asked = Some((Instant::now(), question.clone(), Arc::clone(&answers)));
        answers
    }
}

impl Last {
    async fn answers(&mut self, client: &Client, question: &RegistryQuestion, deadline: Instant) -> NodeRegistries {
        let place = format!("{}:{PLACE}", question.host);
        let Ok(place) = Repository::parse(&place) else {
            return nobody(question, &format!("{} is no host of a registry", shown(&question.host)));
        };
        let registry = match self.registry(client, &question.host, deadline).await {
            Ok(registry) => registry,
            Err(why) => return nobody(question, &why),
        };
        let ask = |(node, address): &(String, String)| {
            let (node, address) = (node.clone(), address.parse::<IpAddr>().map_err(|_| shown(address).into_owned()));
            let (registry, place) = (registry.clone(), place.clone());
            async move {
                let address = match address {
                    Ok(address) => address,
                    Err(text) => return (node, RegistryAnswer::Unknown(format!("{text} is no IP address")), false),
                };
                match registry.manifest(&place, question.digest, Some(address), deadline).await {
                    Ok(_) => (node, RegistryAnswer::Holds, false),
                    Err(attempt) if attempt.reason == Reason::Absent => (node, RegistryAnswer::Absent, false),
                    Err(attempt) => {
                        let renew = matches!(attempt.reason, Reason::Denied | Reason::Untrusted);
                        let why = match attempt.reason {
                            Reason::Untrusted => format!(
                                "the certificate at {address} port 22625 is not for {} by the CA that spec.rootCAData of \
                                 ControllerConfig {} has",
                                place.host,
                                access::CONTROLLER_CONFIG
                            ),
                            _ => format!("{address} port 22625: {}", attempt.why),
                        };
                        (node, RegistryAnswer::Unknown(why), renew)
                    }
                }
            }
        };
        let asked = Timestamp::now();
        let all: Vec<_> =
            futures::stream::iter(question.nodes.iter().map(ask)).buffer_unordered(AT_ONCE).collect().await;
        if all.iter().any(|(_, _, renew)| *renew) {
            self.registry = None;
        }
        let answers = all.into_iter().map(|(node, answer, _)| (node, answer)).collect();
        NodeRegistries { digest: question.digest, answers, as_of: asked }
    }

    async fn registry(&mut self, client: &Client, host: &str, deadline: Instant) -> Result<Registry, String> {
        if let Some((at, of, registry)) = &self.registry
            && of == host
            && at.elapsed() < ACCESS
        {
            return Ok(registry.clone());
        }
        let read = timeout_at(deadline, access::read(client, &format!("{host}:22625"))).await;
        let access = read.map_err(|_| "the API server did not say in time with which CA".to_owned())??;
        let registry = Registry::new(access)?;
        self.registry = Some((Instant::now(), host.to_owned(), registry.clone()));
        Ok(registry)
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
