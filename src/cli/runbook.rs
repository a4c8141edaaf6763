//! `airgate runbook`: what to do at three in the morning, where no page can be opened.

use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Args;

use super::output::line;
use crate::manifests::monitoring::alerts::{ALERTS, RUNBOOK_TEXT, section};

#[derive(Debug, Args)]
pub struct RunbookArgs {
    /// An alert, such as AirgateDown, or words of another section, such as the error that was printed; without it, all of
    /// the runbook
    words: Vec<String>,
}

pub fn run(args: &RunbookArgs) -> Result<ExitCode> {
    if args.words.is_empty() {
        line(RUNBOOK_TEXT.trim_end());
        return Ok(ExitCode::SUCCESS);
    }
    let name = args.words.join(" ");
    match section(&name) {
        Some(section) if !name.trim().is_empty() => line(section),
        _ => {
            let mut names: Vec<_> = ALERTS.iter().map(|alert| alert.name).collect();
            names.dedup();
            bail!(
                "the runbook has no section {name:?}; there are alerts {}, and airgate runbook prints all of it",
                names.join(", ")
            )
        }
    }
    Ok(ExitCode::SUCCESS)
}
