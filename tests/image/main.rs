//! The image: built as for a release, unpacked, and its binary run from there, with nothing else to find.
#![expect(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test stops where it fails")]

mod archive;
mod contents;
mod names;
mod root;
mod runs;
#[expect(dead_code, reason = "the tests on an API server use the rest")]
#[path = "../apiserver/server.rs"]
mod server;
