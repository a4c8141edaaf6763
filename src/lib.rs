//! airgate: the admission guard of air-gapped OpenShift clusters.
//!
//! ARCHITECTURE.md has the map. The modules up to `policies` are the pure core: no I/O, no clock,
//! no logging, no async. The edges come after it.

#![forbid(unsafe_code)]

// The core.
pub mod answer;
pub mod breakglass;
pub mod bundle;
pub mod cluster;
pub mod objects;
pub mod policies;
pub mod policy;
pub mod pullspec;
pub mod release;
pub mod retain;
pub mod review;
pub mod settings;
pub mod text;
pub mod upgrade;
pub mod verdict;
pub mod version;

// The edges.
pub mod http;
pub mod metrics;
pub mod readiness;
pub mod shutdown;
pub mod tls;
