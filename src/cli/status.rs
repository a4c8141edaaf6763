//! `airgate status`: where the cluster stands and where it can go, on one screen.

mod text;

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;

use super::check::EXIT_UNKNOWN;
use super::output::{line, note};
use super::release::Format;
use super::source::{SourceArgs, Sources, now};
use crate::engine::Facts;
use crate::status::{Presence, Status};

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
    let (snapshot, catalog, problems) = (sources.snapshot(), sources.catalog(), sources.problems());
    let facts = Facts { cluster: &snapshot, catalog: &catalog, settings: &sources.settings, now };
    let status = Status::of(facts, &problems);
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
