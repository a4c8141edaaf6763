//! Registries as a node of the cluster would ask them: in the order of its mirror rules.

use std::time::Duration;

use anyhow::Result;
use jiff::Timestamp;
use tokio::runtime::Runtime;
use tokio::time::Instant;

use super::access::AccessArgs;
use crate::catalog::{Finding, Keeps};
use crate::cli::output;
use crate::cli::source::{self, Cluster};
use crate::config::ConfigFile;
use crate::fetch::access::ClusterAccess;
use crate::mirrors::{LeftOut, MirrorRules, Places};
use crate::pullspec::{Digest, Repository};
use crate::registry::{self, Reason, Registry, Unread};
use crate::release::completeness::{Presence, Wanted};

/// For a release, whose last layer may come over a slow line.
const READ_LIMIT: Duration = Duration::from_mins(2);
/// For the question whether an image is there, at all of its places.
const ASK_LIMIT: Duration = Duration::from_secs(30);

/// What a release could not be read for.
#[derive(Debug)]
pub enum Failed {
    /// Every place where nodes look answered that it has it not.
    Absent(String),
    /// Anything else; nobody knows whether it is there.
    Unread(String),
}

pub struct Online {
    registry: Registry,
    /// `None` where no cluster was named: the source alone is asked.
    rules: Option<MirrorRules>,
    /// Credentials that cannot be used, which may be why a registry refuses.
    notes: Vec<String>,
}

impl Online {
    /// # Errors
    /// Credentials or certificates that cannot be used, a cluster whose mirror rules are not known.
    pub fn new(access: &AccessArgs, config: &ConfigFile, runtime: &Runtime) -> Result<Self> {
        let mut access = access.access()?;
        let mut notes: Vec<String> = access.notes().map(str::to_owned).collect();
        // As oc: the cluster that is named, else that of $KUBECONFIG, which only helps where it answers.
        let named = config.state.is_some() || config.kubeconfig.is_some();
        let kubeconfig = config.kubeconfig.clone().or_else(source::default_kubeconfig);
        let alone = |access, notes| {
            let registry = Registry::new(access).map_err(anyhow::Error::msg)?;
            Ok(Self { registry, rules: None, notes })
        };
        let cluster = match source::cluster(config.state.clone(), kubeconfig, vec![], runtime) {
            Err(error) if !named => {
                output::note(&format!("note: {error:#}; registries are asked without the mirrors of a cluster"));
                None
            }
            cluster => cluster?,
        };
        let Some(Cluster { facts, client }) = cluster else { return alone(access, notes) };
        let snapshot = facts.snapshot();
        if let Some(client) = client {
            let (more, unusable) = runtime.block_on(ClusterAccess::new(client).access(&snapshot));
            access = access.merge(more);
            notes.extend(unusable);
        } else if let Some(image) = snapshot.image_config.known() {
            for host in &image.spec.registry_sources.insecure_registries {
                // A scope that is no host is none that a registry is asked by.
                access = access.clone().insecure(host).unwrap_or(access);
            }
        }
        let rules = match MirrorRules::of(&snapshot) {
            Ok(rules) => rules,
            Err(missing) if !named => {
                let why = missing.why;
                output::note(&format!(
                    "note: the mirrors of the cluster of the kubeconfig in use are not known ({why}); registries are asked \
                     without them. Name another with --kubeconfig FILE, or its saved state with --state DIR"
                ));
                return alone(access, notes);
            }
            Err(missing) => anyhow::bail!(
                "the cluster was named so that its mirrors are used, and they are not known: {}; what supplies them: {}",
                missing.why,
                missing.remedy
            ),
        };
        Ok(Self { registry: Registry::new(access).map_err(anyhow::Error::msg)?, rules: Some(rules), notes })
    }

    /// Reads a release, every byte of it hashed.
    pub async fn read(&self, repository: &Repository, digest: Digest, now: Timestamp) -> Result<Finding, Failed> {
        let places = self.places(repository);
        if let Some(why) = none(&places) {
            return Err(if on_nodes(&places).is_some() { Failed::Unread(why) } else { Failed::Absent(why) });
        }
        match self.registry.release(&places.places, digest, Instant::now() + READ_LIMIT).await {
            Ok(read) => Ok(Finding::of_payload(read.payload, Keeps::Bytes, &read.place.to_string(), now)),
            Err(unread @ Unread::Absent(_)) if on_nodes(&places).is_none() => {
                Err(Failed::Absent(format!("{unread}; {}", self.remedy(repository))))
            }
            Err(unread @ Unread::Bad { .. }) => Err(Failed::Unread(unread.to_string())),
            Err(unread) => {
                let mut whole = vec![unread.to_string()];
                whole.extend(on_nodes(&places));
                let has = |reason| unread.attempts().iter().any(|attempt| attempt.reason == reason);
                if has(Reason::Denied) {
                    whole.extend(self.notes.iter().cloned());
                } else if !has(Reason::Untrusted) {
                    // Those two say themselves what helps.
                    whole.push(self.remedy(repository));
                }
                Err(Failed::Unread(whole.join("; ")))
            }
        }
    }

    /// Whether a node would find an image.
    pub async fn ask(&self, image: &Wanted) -> Presence {
        let places = self.places(&image.repository);
        if let Some(why) = none(&places) {
            // What no node gets from anywhere is as good as not there.
            return if on_nodes(&places).is_some() { Presence::Unknown(why) } else { Presence::Absent(why) };
        }
        match self.registry.present(&places.places, image.digest, Instant::now() + ASK_LIMIT).await {
            registry::Presence::Found(_) => Presence::Present,
            registry::Presence::Unknown(why) => Presence::Unknown(why.replace(&image.digest.to_string(), "the image")),
            registry::Presence::Absent => match on_nodes(&places) {
                Some(why) => Presence::Unknown(why),
                None => Presence::Absent(format!("not at {}", listed(&places.places))),
            },
        }
    }

    pub fn uses_mirrors(&self) -> bool {
        self.rules.is_some()
    }

    fn places(&self, repository: &Repository) -> Places {
        match &self.rules {
            Some(rules) => rules.places(repository),
            None => MirrorRules::default().places(repository),
        }
    }

    fn remedy(&self, repository: &Repository) -> String {
        if self.uses_mirrors() {
            format!("mirror it to where the cluster looks for {repository}, or give a copy of it by its path")
        } else {
            "name the cluster with --state DIR or --kubeconfig FILE to have its mirrors asked, or give a copy of it by its path"
                .into()
        }
    }
}

/// Why no place may be asked.
fn none(places: &Places) -> Option<String> {
    if places.refused {
        return Some(format!(
            "allowedRegistries of image.config.openshift.io/cluster does not name {}: nodes refuse its images",
            places.source
        ));
    }
    if !places.places.is_empty() {
        return None;
    }
    Some(on_nodes(places).unwrap_or_else(|| {
        format!(
            "nodes may not contact {}, and no mirror stands in for it: see the IDMS and ICSP of the cluster",
            places.source
        )
    }))
}

/// The mirror that only nodes can ask.
fn on_nodes(places: &Places) -> Option<String> {
    let (mirror, _) = places.left_out.iter().find(|(_, why)| *why == LeftOut::OnNodesOnly)?;
    Some(format!(
        "{mirror} can be asked on nodes only; with the Infrastructure `cluster` known it is asked through api-int"
    ))
}

fn listed(places: &[Repository]) -> String {
    places.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
