//! A directory that is there as a whole or not at all: written beside its place, then moved there.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::replay::{self, Replay};
use super::{Objects, Saved};
use crate::resource::{self, Resource};

/// Why nothing was written.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    #[error("{} is not empty; give another directory, or --force to replace what airgate snapshot wrote there before", .0.display())]
    NotEmpty(PathBuf),
    #[error("{} holds {name}, which airgate snapshot did not write, so it is not replaced; give another directory", .0.display(), name = .1)]
    Foreign(PathBuf, String),
    #[error("{} is no directory", .0.display())]
    NoDirectory(PathBuf),
    #[error("{} has no place in a directory; name one such as ./saved", .0.display())]
    NoName(PathBuf),
    #[error("{}: {reason}", .0.display(), reason = .1)]
    Io(PathBuf, io::Error),
    #[error("it cannot be written as YAML: {0}")]
    Yaml(String),
}

/// Writes everything into `directory`, which is not there, empty, or (with `force`) an earlier result of this.
///
/// # Errors
/// [`Refused`]; then `directory` is as it was.
pub fn write(directory: &Path, force: bool, objects: &Objects, replay: Option<&Replay>) -> Result<(), Refused> {
    let at = |error| Refused::Io(directory.to_owned(), error);
    // A link to a directory stays one.
    let place = if directory.exists() { directory.canonicalize().map_err(at)? } else { directory.to_owned() };
    let occupied = occupied(&place, directory, force)?;
    let name = place.file_name().ok_or_else(|| Refused::NoName(directory.to_owned()))?.to_string_lossy().into_owned();
    let parent = place.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::create_dir_all(parent).map_err(at)?;
    let beside = |what: &str| parent.join(format!(".{name}.airgate-{what}-{}", std::process::id()));

    let new = Temporary::create(beside("new"))?;
    for (file, content) in files(objects, replay)? {
        let path = new.0.join(&file);
        if let Some(below) = path.parent() {
            fs::create_dir_all(below).map_err(|error| Refused::Io(below.to_owned(), error))?;
        }
        fs::write(&path, content).map_err(|error| Refused::Io(path.clone(), error))?;
    }
    if !occupied {
        // Onto an empty directory too.
        return fs::rename(&new.0, &place).map_err(at);
    }
    let old = beside("old");
    fs::rename(&place, &old).map_err(at)?;
    if let Err(error) = fs::rename(&new.0, &place) {
        return Err(at(fs::rename(&old, &place).err().unwrap_or(error)));
    }
    fs::remove_dir_all(&old).map_err(|error| Refused::Io(old, error))
}

/// Whether something is to be replaced.
fn occupied(place: &Path, directory: &Path, force: bool) -> Result<bool, Refused> {
    let entries = match fs::read_dir(place) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
            return Err(Refused::NoDirectory(directory.to_owned()));
        }
        Err(error) => return Err(Refused::Io(directory.to_owned(), error)),
    };
    let mut occupied = false;
    for entry in entries {
        let entry = entry.map_err(|error| Refused::Io(directory.to_owned(), error))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if !force {
            return Err(Refused::NotEmpty(directory.to_owned()));
        }
        let ours = resource::ALL.into_iter().any(|resource| file_of(resource) == name)
            || [SETTINGS, replay::REQUEST, replay::CONFIG, replay::RELEASES, replay::REPLAY].contains(&&*name);
        if !ours {
            return Err(Refused::Foreign(directory.to_owned(), name));
        }
        occupied = true;
    }
    Ok(occupied)
}

/// Removed with everything in it, unless it was moved to its place.
struct Temporary(PathBuf);

impl Temporary {
    fn create(path: PathBuf) -> Result<Self, Refused> {
        // A request or an object may hold what others on this machine should not read.
        let created = fs::DirBuilder::new().mode(0o700).create(&path);
        created.map_err(|error| Refused::Io(path.clone(), error))?;
        Ok(Self(path))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

const SETTINGS: &str = "airgate.yaml";

/// `machineconfigpools.yaml`, with the group where two resources share a plural.
fn file_of(of: &Resource) -> String {
    let same = resource::ALL.into_iter().filter(|other| other.plural == of.plural).count();
    if same > 1 { format!("{}.yaml", of.full_name()) } else { format!("{}.yaml", of.plural) }
}

fn files(objects: &Objects, replay: Option<&Replay>) -> Result<Vec<(String, String)>, Refused> {
    let mut files = vec![];
    let mut absent = vec![];
    for (of, saved) in objects {
        match saved {
            // A List without items does not say of which namespace it is.
            Saved::Whole(objects) if objects.is_empty() && of.namespace.is_some() => absent.push(of.full_name()),
            Saved::Whole(objects) => files.push((file_of(of), yaml(&list(of, objects))?)),
            // Without a List: nothing may say that these are all.
            Saved::Part(objects) => {
                let documents = objects.iter().map(yaml).collect::<Result<Vec<_>, _>>()?;
                files.push((file_of(of), documents.join("---\n")));
            }
            Saved::Absent => absent.push(of.full_name()),
            Saved::Unknown(_) => {}
        }
    }
    files.push((
        SETTINGS.to_owned(),
        yaml(&json!({"apiVersion": "airgate.io/v1alpha1", "kind": "State", "absent": absent}))?,
    ));
    for (file, content) in replay.into_iter().flat_map(Replay::files) {
        files.push((file, if let Value::String(text) = content { text } else { yaml(&content)? }));
    }
    Ok(files)
}

fn list(of: &Resource, objects: &[Value]) -> Value {
    let version = of.versions.first().copied().unwrap_or_default();
    let version = objects.first().and_then(|object| object["apiVersion"].as_str()).map_or_else(
        || if of.group.is_empty() { version.to_owned() } else { format!("{}/{version}", of.group) },
        ToOwned::to_owned,
    );
    json!({"apiVersion": version, "kind": format!("{}List", of.kind), "items": objects})
}

fn yaml(value: &Value) -> Result<String, Refused> {
    serde_saphyr::to_string(value).map_err(|error| Refused::Yaml(error.to_string()))
}
