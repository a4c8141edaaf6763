//! airgate: the admission guard of air-gapped OpenShift clusters.
#![forbid(unsafe_code)]

pub mod http;
pub mod metrics;
pub mod readiness;
pub mod shutdown;
pub mod tls;
