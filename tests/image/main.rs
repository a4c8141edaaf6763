//! The image: built as for a release, unpacked, and its binary run from there, with nothing else to find.
#![expect(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test stops where it fails")]

mod archive;
mod contents;
mod install;
mod names;
#[expect(dead_code, reason = "the tests of registries use the rest")]
#[path = "../registry/real.rs"]
mod real;
mod root;
mod runs;
#[path = "../apiserver/server.rs"]
mod server;
