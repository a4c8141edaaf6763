//! Releases read from registries: on demand by a review, ahead of any, each once, and remembered.
//!
//! Invariants: no policy and no warm review ever comes here; what is begun is bounded in number, time and bytes;
//! what is read ahead asks mirrors only; nothing is kept on disk or used from there that does not hash to its name.

pub mod ahead;
pub mod cache;
pub mod flights;
pub mod limit;
pub mod registries;
pub mod status;

use std::sync::Arc;

/// Cheap to clone.
pub type Lookups = Arc<flights::Flights<registries::Registries>>;
