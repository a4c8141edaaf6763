//! Reading release images from registries: on a registry that misbehaves on request, and on a real docker-registry with
//! skopeo as the second opinion.
#![expect(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test stops where it fails")]

mod copies;
mod faults;
mod images;
mod info;
mod mirrors;
mod missing;
mod oracle;
mod push;
mod reads;
mod real;
#[expect(dead_code, reason = "the tests of what the repository promises use the rest")]
#[path = "../repo/run.rs"]
mod run;
#[path = "../apiserver/server.rs"]
mod server;
mod skopeo;
#[expect(dead_code, reason = "the library's own tests use the rest")]
#[path = "../../src/payload/testing.rs"]
mod testing;
