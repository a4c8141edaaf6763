//! Tests against a real kube-apiserver and etcd. They share one test binary so
//! that one running API server serves them all and no helper is unused.

// `cfg(test)` changes nothing here but tells clippy that all of it is a test.
#[cfg(test)]
mod api;
#[cfg(test)]
mod availability;
#[cfg(test)]
mod certificates;
#[cfg(test)]
mod check;
#[cfg(test)]
mod conditions;
#[cfg(test)]
mod crds;
#[cfg(test)]
mod deploy;
#[cfg(test)]
mod documents;
#[cfg(test)]
mod edits;
#[cfg(test)]
mod forms;
#[cfg(test)]
mod guard;
#[cfg(test)]
mod harness;
#[cfg(test)]
#[expect(dead_code, reason = "the tests of registries use the rest")]
#[path = "../registry/images.rs"]
mod images;
#[cfg(test)]
mod iri;
#[cfg(test)]
mod killed;
#[cfg(test)]
mod kubectl;
#[cfg(test)]
mod live;
#[cfg(test)]
mod lockout;
#[cfg(test)]
mod lookups;
#[cfg(test)]
mod monitoring;
#[cfg(test)]
mod node_registry;
#[cfg(test)]
mod objects;
#[cfg(test)]
mod oc;
#[cfg(test)]
mod override_step;
#[cfg(test)]
mod platform;
#[cfg(test)]
#[expect(dead_code, reason = "the tests of registries use the rest")]
#[path = "../registry/push.rs"]
mod push;
#[cfg(test)]
mod race;
#[cfg(test)]
mod ready;
#[cfg(test)]
#[expect(dead_code, reason = "the tests of registries use the rest")]
#[path = "../registry/real.rs"]
mod real;
#[cfg(test)]
mod recorder;
#[cfg(test)]
mod register;
#[cfg(test)]
mod replica;
#[cfg(test)]
mod rights;
#[cfg(test)]
mod rollout;
#[cfg(test)]
mod server;
#[cfg(test)]
mod services;
#[cfg(test)]
mod shipped_policy;
#[cfg(test)]
mod signatures;
#[cfg(test)]
#[expect(dead_code, reason = "the tests of registries use the rest")]
#[path = "../registry/skopeo.rs"]
mod skopeo;
#[cfg(test)]
mod status;
#[cfg(test)]
mod step;
#[cfg(test)]
mod support;
#[cfg(test)]
mod testbed;
#[cfg(test)]
#[expect(dead_code, reason = "the library's own tests use the rest")]
#[path = "../../src/payload/testing.rs"]
mod testing;
#[cfg(test)]
mod tls_profile;
#[cfg(test)]
#[path = "../server/volume.rs"]
mod volume;
