//! `airgate release`: what a release image says about itself, wherever a disconnected site keeps it.
//!
//! Reads files only. A registry becomes one more kind of REF in [`resolve`].

mod export;
mod info;

use std::cell::OnceCell;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Subcommand};
use jiff::Timestamp;

use super::output;
use super::source::SourceArgs;
use crate::catalog::{self, Finding, Outcome};
use crate::problem::Problem;
use crate::pullspec::{Digest, Pullspec};
use crate::release::{Catalog, Lookup};
use crate::text;

#[derive(Debug, Args)]
pub struct ReleaseArgs {
    #[command(subcommand)]
    verb: ReleaseVerb,
}

#[derive(Debug, Subcommand)]
enum ReleaseVerb {
    /// Show version, digest, architecture, previous versions and components of releases
    #[command(visible_alias = "inspect")]
    Info(RefArgs),
    /// Print releases as a catalog file, which a --releases directory takes
    Export(RefArgs),
}

#[derive(Debug, Args)]
struct RefArgs {
    /// A path (OCI layout, archive, mirrored tree, catalog file), oci:DIR, oci-archive:FILE, else a pullspec by
    /// digest, which is looked up in the --releases directories
    #[arg(required = true, value_name = "REF")]
    refs: Vec<String>,
    #[command(flatten)]
    sources: SourceArgs,
    /// text is a table; for export it is yaml
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    #[default]
    Text,
    Json,
    Yaml,
}

/// Something could not be read; what could be is printed all the same.
const EXIT_UNREAD: u8 = 1;

pub fn run(args: &ReleaseArgs) -> Result<ExitCode> {
    let (ReleaseVerb::Info(refs) | ReleaseVerb::Export(refs)) = &args.verb;
    let directories = refs.sources.merged_config()?.releases;
    let now = Timestamp::now();
    // Only a pullspec needs them.
    let loaded = OnceCell::new();
    let look_up = |reference: &str| {
        let (catalog, problems) = loaded.get_or_init(|| catalog::load(&directories, now));
        in_catalog(reference, catalog, directories.is_empty(), problems)
    };
    let read = refs.refs.iter().map(|reference| {
        let outcome = at_path(reference, now).unwrap_or_else(|| look_up(reference));
        (reference.as_str(), outcome)
    });
    let read: Vec<_> = read.collect();
    let problems = match &args.verb {
        ReleaseVerb::Info(_) => info::print(read, refs.output)?,
        ReleaseVerb::Export(_) => export::print(read, refs.output)?,
    };
    for problem in &problems {
        output::error(&problem.to_string());
    }
    Ok(ExitCode::from(if problems.is_empty() { 0 } else { EXIT_UNREAD }))
}

/// `None` where the reference is no path.
fn at_path(reference: &str, now: Timestamp) -> Option<Outcome> {
    if Path::new(reference).exists() {
        return Some(catalog::read(Path::new(reference), None, now));
    }
    let rest = reference.strip_prefix("oci:").or_else(|| reference.strip_prefix("oci-archive:"))?;
    if Path::new(rest).exists() {
        return Some(catalog::read(Path::new(rest), None, now));
    }
    match rest.rsplit_once(':').filter(|(path, _)| Path::new(path).exists()) {
        Some((path, name)) => Some(catalog::read(Path::new(path), Some(name), now)),
        None => Some(Outcome::problem(reference, format!("there is no {rest}"))),
    }
}

fn in_catalog(reference: &str, catalog: &Catalog, no_directories: bool, problems: &[Problem]) -> Outcome {
    let spec = reference.strip_prefix("docker://").unwrap_or(reference);
    let (repository, digest) = match (Pullspec::parse(spec), Digest::parse(spec)) {
        (Ok(spec), _) => (spec.repository, spec.digest),
        (Err(_), Some(digest)) => ("REPOSITORY", digest),
        (Err(fault), None) => {
            let why = format!("there is no such path, and as a pullspec it cannot be used because it {fault}");
            return Outcome::problem(text::shown(reference), why);
        }
    };
    let missing = match catalog.lookup(digest) {
        Lookup::Release(release) => {
            let findings = vec![Finding::of_release(release.clone())];
            return Outcome { findings, ..Outcome::default() };
        }
        Lookup::Contradiction(one, other) => {
            format!("{} and {} contradict each other about it: remove one of them", one.name, other.name)
        }
        Lookup::Missing => match catalog.list_of(digest) {
            Some(list) => format!("is one image of a multi release: ask for {repository}@{list}"),
            None if no_directories => {
                "this version of airgate reads no registry: name directories that hold the release with --releases DIR, or a \
                 copy of it by its path (made with skopeo copy --preserve-digests, oc adm release mirror --to-dir or oc-mirror)"
                    .into()
            }
            None => format!(
                "is in none of the release directories, which hold {}, and this version of airgate reads no registry: put a \
                 copy of it (made with skopeo copy --preserve-digests, oc adm release mirror --to-dir or oc-mirror) or a \
                 catalog file there",
                text::counted(catalog.len(), "release"),
            ),
        },
    };
    let mut outcome = Outcome::problem(reference, missing);
    // What could not be read there may be what was looked for.
    outcome.problems.extend(problems.iter().cloned());
    outcome
}
