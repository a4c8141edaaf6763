//! Files into a directory, beside nothing that somebody else wrote.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::File;

/// The first line of each file: what has it may be written anew.
const MARK: &str = "# Written by `airgate manifests`, which writes it anew: put changes into an overlay of your own.\n";

/// Writes them all or, where something in the way is somebody else's, none. Files of an earlier run that are no
/// longer part of it go.
///
/// # Errors
/// Names the file that is in the way or cannot be written.
pub fn write(directory: &Path, files: &[File]) -> Result<()> {
    let mut left_over = vec![];
    for path in existing(directory)? {
        let relative = path.strip_prefix(directory).unwrap_or(&path);
        let planned = files.iter().any(|file| Path::new(&file.path) == relative);
        let ours = begins_with_mark(&path);
        match (planned, ours) {
            (true, false) => bail!(
                "{} was not written by airgate manifests and is left as it is: move it away, or give another --dir",
                path.display()
            ),
            (false, true) => left_over.push(path),
            (true, true) | (false, false) => {}
        }
    }
    for file in files {
        let path = directory.join(&file.path);
        let written = path.parent().map_or(Ok(()), fs::create_dir_all);
        written
            .and_then(|()| fs::write(&path, format!("{MARK}{}", file.text)))
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    for path in left_over {
        fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))?;
    }
    Ok(())
}

fn begins_with_mark(path: &Path) -> bool {
    let mut beginning = vec![0; MARK.len()];
    let read = fs::File::open(path).and_then(|mut file| file.read_exact(&mut beginning));
    read.is_ok() && beginning == MARK.as_bytes()
}

/// The files below it; links are files.
fn existing(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut found = vec![];
    let mut waiting = vec![directory.to_owned()];
    while let Some(directory) = waiting.pop() {
        if !directory.exists() {
            continue;
        }
        let fault = || format!("cannot read the directory {}", directory.display());
        for entry in fs::read_dir(&directory).with_context(fault)? {
            let entry = entry.with_context(fault)?;
            if entry.file_type().with_context(fault)?.is_dir() {
                waiting.push(entry.path());
            } else {
                found.push(entry.path());
            }
        }
    }
    Ok(found)
}
