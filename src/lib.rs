//! airgate: the admission guard of air-gapped OpenShift clusters.
//!
//! ARCHITECTURE.md has the map. The modules up to `policies` are the pure core: no I/O, no clock,
//! no logging, no async. The edges come after it.

#![forbid(unsafe_code)]

// The core.
pub mod cluster;
pub mod objects;
pub mod pullspec;
pub mod release;
pub mod version;

// The edges.
pub mod catalog;
pub mod facts;
pub mod files;
pub mod problem;
pub mod projection;
pub mod resource;
pub mod state;
pub mod watch;
