//! What the repository promises beside its verdicts: structure, cases, generated files, the command line.

#[cfg(test)]
mod architecture;
#[cfg(test)]
mod audit;
#[cfg(test)]
mod cases;
#[cfg(test)]
mod cli;
#[cfg(test)]
mod demo;
#[cfg(test)]
mod lockout;
#[cfg(test)]
mod manifests;
#[cfg(test)]
mod messages;
#[cfg(test)]
mod monitoring;
#[cfg(test)]
mod olm;
#[cfg(test)]
mod override_step;
#[cfg(test)]
mod releases;
#[cfg(test)]
mod run;
#[cfg(test)]
mod signatures;
#[cfg(test)]
mod snapshot;
#[cfg(test)]
mod status;
#[cfg(test)]
#[expect(dead_code, reason = "the library's own tests use the rest")]
#[path = "../../src/payload/testing.rs"]
mod testing;
