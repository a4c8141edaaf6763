//! Reading release images from registries, on a real docker-registry with skopeo as the second opinion.

#[cfg(test)]
mod copies;
#[cfg(test)]
mod faults;
#[cfg(test)]
mod images;
#[cfg(test)]
mod push;
#[cfg(test)]
mod real;
#[cfg(test)]
#[path = "../repo/run.rs"]
mod run;
#[cfg(test)]
#[path = "../apiserver/server.rs"]
mod server;
#[cfg(test)]
mod skopeo;
#[cfg(test)]
#[expect(dead_code, reason = "the library's own tests use the rest")]
#[path = "../../src/payload/testing.rs"]
mod testing;
