//! `airgate runbook`: what to do at three in the morning, where no page can be opened.

use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Args;

use super::output::line;
use crate::manifests::monitoring::alerts::{ALERTS, RUNBOOK_TEXT, section};

#[derive(Debug, Args)]
pub struct RunbookArgs {
    /// The name of an alert, such as AirgateDown; without it, all of the runbook
    alert: Option<String>,
}

pub fn run(args: &RunbookArgs) -> Result<ExitCode> {
    let Some(name) = &args.alert else {
        line(RUNBOOK_TEXT.trim_end());
        return Ok(ExitCode::SUCCESS);
    };
    let known = ALERTS.iter().find(|alert| alert.name.eq_ignore_ascii_case(name));
    match known.and_then(|alert| section(alert.name)) {
        Some(section) => line(section),
        None => {
            let mut names: Vec<_> = ALERTS.iter().map(|alert| alert.name).collect();
            names.dedup();
            bail!("there is no alert {name:?}; there are {}", names.join(", "))
        }
    }
    Ok(ExitCode::SUCCESS)
}
