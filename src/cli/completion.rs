//! `airgate completion SHELL`, and man pages, both from the parser.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Args, CommandFactory};
use clap_complete::Shell;

use super::Cli;
use super::output::line;

#[derive(Debug, Args)]
pub struct CompletionArgs {
    /// The shell to complete in, such as: source <(airgate completion bash)
    #[arg(value_enum, required_unless_present = "man")]
    shell: Option<Shell>,
    /// Write man pages into this directory instead
    #[arg(long, value_name = "DIR", conflicts_with = "shell")]
    man: Option<PathBuf>,
}

pub fn run(args: &CompletionArgs) -> Result<ExitCode> {
    let mut command = Cli::command();
    if let Some(dir) = &args.man {
        std::fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
        clap_mangen::generate_to(command, dir).with_context(|| dir.display().to_string())?;
    } else if let Some(shell) = args.shell {
        let mut script = vec![];
        clap_complete::generate(shell, &mut command, "airgate", &mut script);
        line(String::from_utf8_lossy(&script).trim_end());
    }
    Ok(ExitCode::SUCCESS)
}
