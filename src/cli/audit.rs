//! `airgate audit`: what airgate would have refused of what is stored already.

use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, ValueEnum};
use serde::Serialize;

use super::output::{Colour, line, note, paint};
use super::source::{SourceArgs, Sources, now};
use crate::audit::{Audit, Report, audit};
use crate::engine::Facts;
use crate::problem::Problem;
use crate::text::counted;
use crate::verdict;

#[derive(Debug, Args)]
pub struct AuditArgs {
    #[command(flatten)]
    source: SourceArgs,
    /// Judge as of this moment
    #[arg(long, value_name = "RFC3339")]
    now: Option<String>,
    #[arg(short, long, value_enum, default_value = "text")]
    output: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Json,
    Yaml,
}

const EXIT_FOUND: u8 = 1;
const EXIT_UNKNOWN: u8 = 3;

#[derive(Serialize)]
struct Document<'a> {
    #[serde(flatten)]
    report: &'a Report,
    problems: &'a [Problem],
}

pub fn run(args: &AuditArgs) -> Result<ExitCode> {
    let now = now(args.now.as_deref())?;
    let sources = Sources::read(&args.source)?;
    let (cluster, catalog, problems) = (sources.snapshot(), sources.catalog(), sources.problems());
    let signatures = sources.signatures();
    let facts = Facts { signatures: &signatures, ..Facts::of(&cluster, &catalog, &sources.settings, now) };
    let report = audit(Audit(facts));
    match args.output {
        Format::Json => line(&serde_json::to_string(&Document { report: &report, problems: &problems })?),
        Format::Yaml => {
            line(serde_saphyr::to_string(&Document { report: &report, problems: &problems })?.trim_end());
        }
        Format::Text => {
            for problem in problems.iter() {
                note(&format!("note: {problem}"));
            }
            print(&report);
        }
    }
    let code = match (report.only_unknown(), report.findings.is_empty()) {
        (true, _) => EXIT_UNKNOWN,
        (false, true) => 0,
        (false, false) => EXIT_FOUND,
    };
    Ok(ExitCode::from(code))
}

fn print(report: &Report) {
    if report.findings.is_empty() && report.missing.is_empty() {
        return line("nothing found: airgate would have let pass all that is stored");
    }
    if !report.findings.is_empty() {
        let object = |kind: &str, name: &str| format!("{kind}/{name}");
        let wide = |texts: Vec<usize>| texts.into_iter().max().unwrap_or_default();
        let policies = wide(report.findings.iter().map(|found| found.policy.len()).collect());
        let objects = wide(report.findings.iter().map(|found| object(found.kind, &found.name).len()).collect());
        let head = format!("{:7}  {:policies$}  {:objects$}  FOUND", "OUTCOME", "POLICY", "OBJECT");
        line(&paint(Colour::Bold, &head));
        for found in &report.findings {
            let colour = if found.outcome == verdict::Result::Deny { Colour::Red } else { Colour::Yellow };
            let outcome = paint(colour, &format!("{:7}", found.outcome.as_str()));
            let (policy, object) = (found.policy, object(found.kind, &found.name));
            line(&format!("{outcome}  {policy:policies$}  {object:objects$}  {}", found.what()));
        }
        for found in &report.findings {
            line(&format!("\n{} ({}): {}", found.policy, found.outcome.as_str(), found.message));
        }
    }
    for unread in &report.missing {
        line(&format!("not audited for want of {}: {}; {}", unread.fact, unread.why, unread.remedy));
    }
    line(&format!("{}, {} missing", counted(report.findings.len(), "finding"), counted(report.missing.len(), "fact")));
}
