//! What a verdict needs beside the cluster's objects, to be the same again byte for byte.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::proofs::Proofs;
use crate::catalog;
use crate::cluster::Snapshot;
use crate::cluster::origin::Origin;
use crate::config::ConfigFile;
use crate::engine::Facts;
use crate::files::{Limits, read_documents, read_named};
use crate::inputs::Known;
use crate::policies::POLICIES;
use crate::problem::Problem;
use crate::pullspec::Digest;
use crate::release::{Attempt, AttemptEnd, Catalog, Component, Release, Source};
use crate::settings::{PolicySettings, Settings};
use crate::signature::Signatures;
use crate::signatures::FromFiles;
use crate::state::State;
use crate::version::Version;

pub(super) const REQUEST: &str = "request.json";
pub(super) const CONFIG: &str = "config.yaml";
/// A directory, so that `--releases` can be given it.
pub(super) const RELEASES: &str = "releases";
pub(super) const REPLAY: &str = "replay.yaml";
const CATALOG: &str = "releases.yaml";
const API_VERSION: &str = "airgate.io/v1alpha1";
const KIND: &str = "Replay";

/// A request as it was or will be judged: an AdmissionReview, byte for byte.
pub type Request = Vec<u8>;

/// Everything that one verdict rests on.
#[derive(Debug)]
pub struct Replay {
    pub request: Request,
    pub snapshot: Snapshot,
    pub catalog: Catalog,
    /// What reading the release that the request wants came to.
    pub attempt: Option<Attempt>,
    pub signatures: Arc<Signatures>,
    /// What of them comes from files.
    pub signature_files: FromFiles,
    pub settings: Settings,
    pub now: Timestamp,
    /// What is not as it was saved, or could not be read.
    pub problems: Vec<Problem>,
}

/// `replay.yaml`: what the other files do not say.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Document {
    api_version: String,
    kind: String,
    /// When it is to be judged.
    now: Timestamp,
    /// Of facts, releases and settings together: whoever edits a file sees that it is another case.
    inputs: String,
    facts: BTreeMap<String, Origin>,
    /// Of the entries in the catalog, one by one.
    releases: Vec<ReleaseOrigin>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    attempt: Option<SavedAttempt>,
    signatures: Proofs,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ReleaseOrigin {
    source: String,
    read_at: Timestamp,
    verified: bool,
    /// The names of its components, which a catalog file leaves out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    components: Vec<String>,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct SavedAttempt {
    digest: String,
    end: SavedEnd,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
enum SavedEnd {
    Failed(String),
    Reading(String),
    Shard { version: String, origin: ReleaseOrigin },
}

impl From<&Source> for ReleaseOrigin {
    fn from(source: &Source) -> Self {
        let Source { name, read_at, verified } = source;
        Self { source: name.to_string(), read_at: *read_at, verified: *verified, components: vec![] }
    }
}

impl From<&ReleaseOrigin> for Source {
    fn from(origin: &ReleaseOrigin) -> Self {
        Self { name: Arc::from(&*origin.source), read_at: origin.read_at, verified: origin.verified }
    }
}

impl From<&Attempt> for SavedAttempt {
    fn from(attempt: &Attempt) -> Self {
        let end = match &attempt.end {
            AttemptEnd::Failed(why) => SavedEnd::Failed(why.to_string()),
            AttemptEnd::Reading(from) => SavedEnd::Reading(from.to_string()),
            AttemptEnd::Shard { version, source } => {
                SavedEnd::Shard { version: version.to_string(), origin: source.into() }
            }
        };
        Self { digest: attempt.digest.to_string(), end }
    }
}

impl SavedAttempt {
    /// `None` where somebody has edited it into what it cannot be.
    fn attempt(&self) -> Option<Attempt> {
        let end = match &self.end {
            SavedEnd::Failed(why) => AttemptEnd::Failed(Arc::from(&**why)),
            SavedEnd::Reading(from) => AttemptEnd::Reading(Arc::from(&**from)),
            SavedEnd::Shard { version, origin } => {
                AttemptEnd::Shard { version: Version::parse(version)?, source: origin.into() }
            }
        };
        Some(Attempt { digest: Digest::parse(&self.digest)?, end })
    }
}

impl Replay {
    fn inputs(&self) -> String {
        let Known { facts, releases, settings } = Known::of(&self.snapshot, &self.catalog, &self.settings);
        format!("facts {facts}, releases {releases}, settings {settings}")
    }

    #[must_use]
    pub fn facts(&self) -> Facts<'_> {
        let facts = Facts::of(&self.snapshot, &self.catalog, &self.settings, self.now);
        Facts { attempt: self.attempt.as_ref(), signatures: &self.signatures, ..facts }
    }

    /// Files by name; a text is written as it is.
    pub(super) fn files(&self) -> Vec<(String, Value)> {
        let releases: Vec<&Release> = self.catalog.entries().collect();
        let origin = |release: &&Release| ReleaseOrigin {
            components: release.components.iter().flat_map(|all| all.iter()).map(|one| one.name.clone()).collect(),
            ..ReleaseOrigin::from(&release.source)
        };
        let document = Document {
            api_version: API_VERSION.into(),
            kind: KIND.into(),
            now: self.now,
            inputs: self.inputs(),
            facts: self.snapshot.origins(),
            releases: releases.iter().map(origin).collect(),
            attempt: self.attempt.as_ref().map(SavedAttempt::from),
            signatures: Proofs::of(&self.signature_files, self.signatures.read_at()),
        };
        let entries: Vec<Value> = releases.into_iter().map(entry).collect();
        let request = String::from_utf8_lossy(&self.request).into_owned();
        vec![
            (REQUEST.into(), request.into()),
            (CONFIG.into(), config(&self.settings)),
            (
                format!("{RELEASES}/{CATALOG}"),
                json!({"apiVersion": API_VERSION, "kind": "ReleaseCatalog", "releases": entries}),
            ),
            (REPLAY.into(), json!(document)),
        ]
    }

    /// Reads what was written.
    ///
    /// # Errors
    /// The file that is missing or cannot be read, for a person.
    pub fn load(directory: &Path) -> Result<Self, String> {
        let path = |name: &str| directory.join(name);
        let place = |name: &str| path(name).display().to_string();
        let document: Document = match read_documents(&path(REPLAY)) {
            Ok(mut documents) if documents.len() == 1 => {
                serde_json::from_value(documents.remove(0)).map_err(|error| format!("{}: {error}", place(REPLAY)))?
            }
            Ok(_) => return Err(format!("{} is not one document", place(REPLAY))),
            Err(fault) => {
                return Err(format!("{} {fault}; airgate snapshot DIR --request FILE writes it", place(REPLAY)));
            }
        };
        if document.api_version != API_VERSION || document.kind != KIND {
            return Err(format!("{} must begin with apiVersion: {API_VERSION} and kind: {KIND}", place(REPLAY)));
        }
        let request = read_named(&path(REQUEST), Limits::default().file_bytes)
            .map_err(|error| format!("{}: {error}", place(REQUEST)))?;
        let settings = ConfigFile::load(&path(CONFIG)).map_err(|error| error.to_string())?.settings();
        let state = State::load(directory, document.now);
        let mut snapshot = state.snapshot();
        snapshot.restate(&document.facts);

        let name = format!("{RELEASES}/{CATALOG}");
        let releases = read_documents(&path(&name))
            .and_then(|documents| catalog::from_documents(&documents, &place(&name), document.now))
            .map_err(|fault| format!("{} {fault}", place(&name)))?;
        let mut problems = state.problems().to_vec();
        let catalog = if releases.len() == document.releases.len() {
            let both = releases.into_iter().zip(&document.releases);
            Catalog::new(both.map(|(release, origin)| Release {
                source: origin.into(),
                components: named(release.components.as_deref(), &origin.components),
                ..release
            }))
        } else {
            problems
                .push(Problem::new(place(&name), "has other releases than were saved; they count as this file's word"));
            Catalog::new(releases)
        };
        let attempt = document.attempt.as_ref().and_then(SavedAttempt::attempt);
        let mut replay = Self {
            request,
            signatures: Arc::new(document.signatures.signatures(&snapshot)),
            signature_files: document.signatures.files(),
            snapshot,
            catalog,
            attempt,
            settings,
            now: document.now,
            problems,
        };
        let inputs = replay.inputs();
        if inputs != document.inputs {
            let what = format!("the inputs are not those that were saved: {inputs}, were {}", document.inputs);
            replay.problems.push(Problem::new(place(REPLAY), what));
        }
        Ok(replay)
    }
}

fn named(components: Option<&[Component]>, names: &[String]) -> Option<Arc<[Component]>> {
    let names = names.iter().cloned().chain(std::iter::repeat(String::new()));
    let named =
        components?.iter().zip(names).map(|(component, name)| Component { name, image: component.image.clone() });
    Some(named.collect())
}

fn entry(release: &Release) -> Value {
    let texts = |list: &[Digest]| list.iter().map(ToString::to_string).collect::<Vec<_>>();
    let mut entry = json!({"digest": release.digest.to_string(), "version": release.version.to_string()});
    if let Some(previous) = &release.previous {
        entry["previous"] = previous.iter().map(ToString::to_string).collect();
    }
    if let Some(architecture) = &release.architecture {
        entry["architecture"] = json!(architecture);
    }
    if !release.shards.is_empty() {
        entry["shards"] = json!(texts(&release.shards));
    }
    if let Some(components) = &release.components {
        entry["components"] = components.iter().map(|component| component.image.clone()).collect();
    }
    entry
}

/// The settings with every mode written out: a later version may have other defaults.
fn config(settings: &Settings) -> Value {
    let mut written = settings.clone();
    for policy in POLICIES {
        let as_they_are =
            PolicySettings { mode: Some(policy.mode(settings)), on_unknown: Some(policy.on_unknown(settings)) };
        written.policies.insert(policy.id.to_owned(), as_they_are);
    }
    let mut config = json!(written);
    config["apiVersion"] = json!(API_VERSION);
    config["kind"] = json!("Config");
    config
}
