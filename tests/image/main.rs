//! The image: built as for a release, unpacked, and its binary run from there, with nothing else to find.

// `cfg(test)` changes nothing here but tells clippy that all of it is a test.
#[cfg(test)]
mod archive;
#[cfg(test)]
mod contents;
#[cfg(test)]
mod install;
#[cfg(test)]
mod names;
#[cfg(test)]
#[expect(dead_code, reason = "the tests of registries use the rest")]
#[path = "../registry/real.rs"]
mod real;
#[cfg(test)]
mod root;
#[cfg(test)]
mod runs;
#[cfg(test)]
#[path = "../apiserver/server.rs"]
mod server;
