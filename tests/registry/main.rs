//! The registry reader against registries: one that misbehaves on request.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test stops where it fails")]

mod faults;
