//! `airgate status`: where the cluster stands and where it can go, on one screen.

mod text;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::Args;

use super::check::EXIT_UNKNOWN;
use super::output::{line, note};
use super::release::Format;
use super::source::{SourceArgs, Sources, now};
use crate::engine::Facts;
use crate::policy::Want;
use crate::problem::Problem;
use crate::release::AttemptEnd;
use crate::status::{Presence, Status, wanted};

#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct StatusArgs {
    #[command(flatten)]
    source: SourceArgs,
    /// Judge as of this moment
    #[arg(long, value_name = "RFC3339")]
    now: Option<String>,
    /// text is one screen; json and yaml have every fact, source and verdict
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

const HELP: &str = "It exits 0, or 3 where the ClusterVersion is not known, so that little can be said.";

pub fn run(args: &StatusArgs) -> Result<ExitCode> {
    let now = now(args.now.as_deref())?;
    let sources = Sources::read(&args.source)?;
    let snapshot = sources.snapshot();
    let mut problems = sources.problems().to_vec();
    let named = wanted(Facts::of(&snapshot, &sources.catalog(), &sources.settings, now));
    problems.extend(look_up(&named, &sources));
    let (catalog, signatures) = (sources.catalog(), sources.signatures());
    let facts = Facts { signatures: &signatures, ..Facts::of(&snapshot, &catalog, &sources.settings, now) };
    let status = Status { registration: sources.registration(), ..Status::of(facts, &problems) };
    match args.output {
        Format::Json => line(&serde_json::to_string_pretty(&status)?),
        Format::Yaml => line(serde_saphyr::to_string(&status)?.trim_end()),
        Format::Text => {
            line(&text::screen(&status));
            if status.cluster.state == Presence::Unknown {
                note("note: without the ClusterVersion hardly anything can be said");
            }
        }
    }
    Ok(ExitCode::from(if status.cluster.state == Presence::Unknown { EXIT_UNKNOWN } else { 0 }))
}

/// For all releases that are read from registries: a screen that comes late is of no use.
const PATIENCE: Duration = Duration::from_secs(30);

/// Reads what the cluster names, where there are registries to ask; yields what could not be read.
fn look_up(named: &[Want], sources: &Sources) -> Vec<Problem> {
    let started = Instant::now();
    let mut problems = vec![];
    for (index, want) in named.iter().enumerate() {
        if started.elapsed() > PATIENCE {
            let left = named.len() - index;
            problems.push(Problem::new("registries", format!("{left} releases were not read within {PATIENCE:?}")));
            break;
        }
        let why = match sources.look_up(want).map(|attempt| attempt.end) {
            Some(AttemptEnd::Failed(why)) => format!("could not be read: {why}"),
            Some(AttemptEnd::Reading(place)) => format!("is still being read from {place}"),
            Some(AttemptEnd::Shard { version, .. }) => format!("is one image of the multi release {version}"),
            None => continue,
        };
        problems.push(Problem::new(want.digest.to_string(), why));
    }
    problems
}
