//! OCI image layouts, as directories and as tars.

use std::io::Read;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde_json::Value;

use super::archive::Archive;
use super::finding::{Finding, Keeps, Outcome};
use crate::files::{open_regular, unreadable};
use crate::payload::manifest::Manifest;
use crate::payload::{self, Blobs, Fault, MANIFEST_BYTES};
use crate::pullspec::Digest;

/// A directory of blobs, named as a layout or as a mirrored tree names them.
#[derive(Debug)]
pub struct Directory {
    /// Directory and prefix of the names, in the order they are tried.
    pub places: Vec<(PathBuf, &'static str)>,
}

impl Blobs for Directory {
    fn blob(&self, digest: Digest, limit: u64) -> Result<Option<Vec<u8>>, String> {
        for (directory, prefix) in &self.places {
            if let Some(bytes) = read_file(&directory.join(format!("{prefix}{}", digest.hex())), limit)? {
                return Ok(Some(bytes));
            }
        }
        Ok(None)
    }
}

/// A regular file whole; `None` where there is none.
///
/// # Errors
/// Why it cannot be read; the text goes on after the file's name.
pub fn read_file(path: &Path, limit: u64) -> Result<Option<Vec<u8>>, String> {
    let file = match open_regular(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unreadable(&error)),
    };
    let mut bytes = vec![];
    file.take(limit + 1).read_to_end(&mut bytes).map_err(|error| unreadable(&error))?;
    if bytes.len() as u64 > limit {
        return Err(format!("has more than the {limit} bytes that are read"));
    }
    Ok(Some(bytes))
}

/// The releases of a layout directory; only those of one name where one is given.
pub fn read_directory(root: &Path, name: Option<&str>, now: Timestamp) -> Outcome {
    let blobs = Directory { places: vec![(root.join("blobs/sha256"), "")] };
    let file = |file: &str| read_file(&root.join(file), MANIFEST_BYTES);
    read(&blobs, file, &root.display().to_string(), name, now)
}

/// The same of an archive.
pub fn read_archive(archive: &Archive, name: Option<&str>, now: Timestamp) -> Outcome {
    let file = |file: &str| archive.file(file, MANIFEST_BYTES);
    read(archive, file, &archive.path.display().to_string(), name, now)
}

fn read(
    blobs: &dyn Blobs,
    file: impl Fn(&str) -> Result<Option<Vec<u8>>, String>,
    place: &str,
    name: Option<&str>,
    now: Timestamp,
) -> Outcome {
    let entries = match entries(file) {
        Ok(entries) => entries,
        Err(why) => return Outcome::problem(place, why),
    };
    let mut outcome = Outcome::default();
    let (mut seen, mut others) = (vec![], vec![]);
    for (digest, entry) in entries {
        if seen.contains(&digest) || name.is_some_and(|name| entry.as_deref() != Some(name)) {
            continue;
        }
        seen.push(digest);
        let entry = entry.map(|entry| format!("{entry}: ")).unwrap_or_default();
        match payload::read(blobs, digest) {
            Ok(payload) => outcome.findings.push(Finding::of_payload(payload, Keeps::Perhaps, place, now)),
            Err(Fault::NotRelease(why)) => others.push(why),
            Err(fault @ Fault::Missing { .. }) => {
                outcome.append(Outcome::problem(place, format!("{entry}{fault}; copy the whole image again")));
            }
            Err(fault) => outcome.append(Outcome::problem(place, format!("{entry}{fault}"))),
        }
    }
    if outcome == Outcome::default() {
        let why = match (others.first(), name) {
            (Some(why), _) => format!("holds no release image: {why}"),
            (None, Some(name)) => format!("names no image {name:?} in its index.json"),
            (None, None) => "names no image in its index.json".into(),
        };
        outcome.append(Outcome::problem(place, why));
    }
    outcome.drop_children();
    outcome
}

/// Digest and name of each image of `index.json`.
fn entries(file: impl Fn(&str) -> Result<Option<Vec<u8>>, String>) -> Result<Vec<(Digest, Option<String>)>, String> {
    let get = |name: &str| {
        file(name).and_then(|found| found.ok_or("is not there".to_owned())).map_err(|why| format!("its {name} {why}"))
    };
    let marker: Option<Value> = serde_json::from_slice(&get("oci-layout")?).ok();
    let version = marker.as_ref().and_then(|marker| marker.get("imageLayoutVersion")).and_then(Value::as_str);
    if !version.is_some_and(|version| version.starts_with("1.")) {
        return Err("its oci-layout names no version 1 of the image layout: it is not read".into());
    }
    match Manifest::parse(&get("index.json")?).map_err(|why| format!("its index.json {why}"))? {
        Manifest::Index(entries) => Ok(entries.into_iter().map(|entry| (entry.digest, entry.name)).collect()),
        Manifest::Image(_) => Err("its index.json is an image manifest, not an index".into()),
    }
}
