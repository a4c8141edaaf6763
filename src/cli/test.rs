//! `airgate test [PATH...]`: runs policy cases.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Args;

use super::output::{Colour, line, paint};
use crate::cases::{self, CaseFile, Outcome};

#[derive(Debug, Args)]
pub struct TestArgs {
    /// Case files or directories of them [default: the cases that come with this binary]
    paths: Vec<PathBuf>,
}

pub fn run(args: &TestArgs) -> Result<ExitCode> {
    let (mut files, mut passed, mut failed) = (0, 0, 0);
    let mut add = |name: &str, file: Result<CaseFile, String>| {
        files += 1;
        let file = match file {
            Ok(file) => file,
            Err(fault) => {
                failed += 1;
                return line(&format!("{} {name}: {fault}", paint(Colour::Red, "FAILED")));
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
    };
    if args.paths.is_empty() {
        for (_, name, file) in cases::embedded::files() {
            add(&name, file);
        }
    }
    let mut paths = vec![];
    for path in &args.paths {
        find(path, &mut paths)?;
    }
    for path in &paths {
        add(&path.display().to_string(), CaseFile::load(path));
    }
    if files == 0 {
        bail!("no case files (*.yaml in a folder called cases) below {:?}", args.paths);
    }
    line(&format!("{files} files: {passed} passed, {failed} failed"));
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
