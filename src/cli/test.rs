//! `airgate test [PATH...]`: runs policy cases.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Args;

use super::output::{Colour, line, paint};
use crate::cases::{self, CaseFile, Outcome};

#[derive(Debug, Args)]
pub struct TestArgs {
    /// Case files or directories of them [default: policies]
    paths: Vec<PathBuf>,
}

pub fn run(args: &TestArgs) -> Result<ExitCode> {
    let default = [PathBuf::from("policies")];
    let paths = if args.paths.is_empty() { &default[..] } else { &args.paths[..] };
    let mut files = vec![];
    for path in paths {
        find(path, &mut files)?;
    }
    if files.is_empty() {
        bail!("no case files (*.yaml in a folder called cases) below {paths:?}");
    }
    let (mut passed, mut failed) = (0, 0);
    for path in &files {
        let name = path.display();
        let file = match CaseFile::load(path) {
            Ok(file) => file,
            Err(fault) => {
                failed += 1;
                line(&format!("{} {name}: {fault}", paint(Colour::Red, "FAILED")));
                continue;
            }
        };
        for case in &file.cases {
            match cases::run(&file, case) {
                Outcome::Passed => passed += 1,
                Outcome::Failed(differences) => {
                    failed += 1;
                    line(&format!("{} {name}: {}", paint(Colour::Red, "FAILED"), case.name));
                    for difference in differences {
                        line(&format!("    {}", difference.replace('\n', "\n    ")));
                    }
                }
            }
        }
    }
    line(&format!("{} files: {passed} passed, {failed} failed", files.len()));
    Ok(ExitCode::from(u8::from(failed > 0)))
}

/// Files named directly, and below directories every YAML file in a folder called `cases`.
fn find(path: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    if !path.is_dir() {
        if !path.exists() {
            bail!("{} does not exist", path.display());
        }
        files.push(path.to_owned());
        return Ok(());
    }
    let mut entries = std::fs::read_dir(path)?.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    entries.sort();
    for entry in entries {
        let is_case = entry.extension().is_some_and(|e| e == "yaml" || e == "yml") && path.ends_with("cases");
        if entry.is_dir() {
            find(&entry, files)?;
        } else if is_case {
            files.push(entry);
        }
    }
    Ok(())
}
