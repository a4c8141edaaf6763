//! Releases read from registries: on demand by a review, ahead of any, each once, and remembered.
//!
//! Invariants: no policy and no warm review ever comes here; what is begun is bounded in number, time and bytes;
//! what is read ahead asks mirrors only; nothing is kept on disk or used from there that does not hash to its name.

pub mod access;
pub mod ahead;
pub mod cache;
pub mod components;
pub mod flights;
pub mod limit;
pub mod node_registries;
pub mod registries;
pub mod status;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use kube::Client;

use crate::facts::Facts;

/// Cheap to clone.
pub type Lookups = Arc<flights::Flights<registries::Registries>>;

/// Look-ups begun by reviews: so many at once, and one more each interval. More than people ask for in a day; of
/// registries that the cluster's objects do not name, fewer.
const LIMITS: [(u32, Duration); 2] = [(20, Duration::from_secs(3)), (5, Duration::from_secs(10))];

/// For a cluster that says how its registries are reached.
///
/// # Errors
/// The cache directory cannot be used.
pub fn lookups(client: Client, facts: Facts, cache: Option<&Path>) -> Result<Lookups, String> {
    let counts = status::Counts::default();
    let cache = cache.map(|directory| cache::Cache::open(directory, cache::Bounds::default())).transpose()?;
    let access = access::ClusterAccess::new(client);
    let registries = registries::Registries {
        facts,
        access,
        cache,
        counts: counts.clone(),
        components: components::Components::default(),
        nodes: node_registries::Asker::default(),
    };
    let limits = LIMITS.map(|(most, every)| limit::Limit::new(most, every));
    Ok(Arc::new(flights::Flights::new(registries, limits, flights::Timing::default(), counts)))
}
