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
pub mod mirrors;
pub mod objects;
pub mod platform;
pub mod policies;
pub mod policy;
pub mod pullspec;
pub mod release;
pub mod resource;
pub mod retain;
pub mod review;
pub mod settings;
pub mod signature;
pub mod text;
pub mod upgrade;
pub mod verdict;
pub mod version;

// Pure too, beside the core: what people do, turned into reviews.
pub mod action;
pub mod audit;
pub mod engine;
pub mod inputs;
pub mod problem;
pub mod status;

// The edges.
pub mod cases;
pub mod catalog;
pub mod certificates;
pub mod cli;
pub mod config;
pub mod events;
pub mod facts;
pub mod fetch;
pub mod files;
pub mod http;
pub mod manifests;
pub mod metrics;
pub mod patrol;
pub mod payload;
pub mod projection;
pub mod readiness;
pub mod register;
pub mod registry;
pub mod saved;
pub mod serve;
pub mod shutdown;
pub mod signatures;
pub mod state;
pub mod tls;
pub mod watch;
