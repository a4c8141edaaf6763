//! What a verdict needs beside the cluster's objects, to be the same again byte for byte.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::catalog;
use crate::cluster::Snapshot;
use crate::cluster::origin::Origin;
use crate::config::ConfigFile;
use crate::engine::Facts;
use crate::files::{Limits, read_documents, read_named};
use crate::inputs::Known;
use crate::policies::POLICIES;
use crate::problem::Problem;
use crate::release::{Catalog, Release, Source};
use crate::settings::{PolicySettings, Settings};
use crate::state::State;

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
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ReleaseOrigin {
    source: String,
    read_at: Timestamp,
    verified: bool,
}

impl Replay {
    fn inputs(&self) -> String {
        let Known { facts, releases, settings } = Known::of(&self.snapshot, &self.catalog, &self.settings);
        format!("facts {facts}, releases {releases}, settings {settings}")
    }

    #[must_use]
    pub fn facts(&self) -> Facts<'_> {
        Facts { cluster: &self.snapshot, catalog: &self.catalog, settings: &self.settings, now: self.now }
    }

    /// Files by name; a text is written as it is.
    pub(super) fn files(&self) -> Vec<(String, Value)> {
        let releases: Vec<&Release> = self.catalog.entries().collect();
        let origin = |release: &&Release| ReleaseOrigin {
            source: release.source.name.to_string(),
            read_at: release.source.read_at,
            verified: release.source.verified,
        };
        let document = Document {
            api_version: API_VERSION.into(),
            kind: KIND.into(),
            now: self.now,
            inputs: self.inputs(),
            facts: self.snapshot.origins(),
            releases: releases.iter().map(origin).collect(),
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
            Catalog::new(releases.into_iter().zip(document.releases).map(|(release, origin)| {
                let ReleaseOrigin { source, read_at, verified } = origin;
                Release { source: Source { name: Arc::from(source), read_at, verified }, ..release }
            }))
        } else {
            problems
                .push(Problem::new(place(&name), "has other releases than were saved; they count as this file's word"));
            Catalog::new(releases)
        };
        let mut replay = Self { request, snapshot, catalog, settings, now: document.now, problems };
        let inputs = replay.inputs();
        if inputs != document.inputs {
            let what = format!("the inputs are not those that were saved: {inputs}, were {}", document.inputs);
            replay.problems.push(Problem::new(place(REPLAY), what));
        }
        Ok(replay)
    }
}

fn entry(release: &Release) -> Value {
    let texts = |list: &[crate::pullspec::Digest]| list.iter().map(ToString::to_string).collect::<Vec<_>>();
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
        entry["components"] = components.iter().map(ToString::to_string).collect();
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
