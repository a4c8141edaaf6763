//! `airgate policies list|explain`: the catalogue as its records say it.

use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::{Args, Subcommand};

use super::output::{Colour, line, paint};
use crate::policies::{POLICIES, by_id};
use crate::policy::Policy;

#[derive(Debug, Args)]
pub struct PoliciesArgs {
    #[command(subcommand)]
    verb: Option<PoliciesVerb>,
}

#[derive(Debug, Subcommand)]
enum PoliciesVerb {
    /// One line a policy
    List,
    /// What a policy guards, why, and the way out in an emergency
    Explain {
        /// The policy's id, as a denial names it
        id: String,
    },
}

pub fn run(args: &PoliciesArgs) -> Result<ExitCode> {
    match &args.verb {
        None | Some(PoliciesVerb::List) => {
            let width = POLICIES.iter().map(|policy| policy.id.len()).max().unwrap_or_default();
            for policy in POLICIES {
                line(&format!("{:width$}  {}", policy.id, policy.title));
            }
        }
        Some(PoliciesVerb::Explain { id }) => match by_id(id) {
            Some(policy) => line(&explain(policy)),
            None => {
                let known: Vec<_> = POLICIES.iter().map(|policy| policy.id).collect();
                bail!("there is no policy {id:?}; there are {}", known.join(", "))
            }
        },
    }
    Ok(ExitCode::SUCCESS)
}

fn explain(policy: &Policy) -> String {
    let guards: Vec<_> = policy.guards.iter().map(|guard| format!("  - {}", guard.describe())).collect();
    format!(
        "{}: {}\n\n{}\n\nguards:\n{}\nby default: mode {}, on a missing fact {}\n{}",
        paint(Colour::Bold, policy.id),
        policy.title,
        wrapped(policy.why),
        guards.join("\n"),
        policy.mode.as_str(),
        policy.on_unknown.as_str(),
        policy.emergency(),
    )
}

fn wrapped(text: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let last = lines.len() - 1;
        if lines[last].len() + word.len() >= 100 {
            lines.push(word.to_owned());
        } else {
            if !lines[last].is_empty() {
                lines[last].push(' ');
            }
            lines[last].push_str(word);
        }
    }
    lines.join("\n")
}
