//! Running one case: through the same bytes, decoder and engine as a request to the server.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{AttemptCase, AttemptEndCase, Case, CaseFile, ComponentsCase, Expect};
use crate::action::{NoReview, Target};
use crate::catalog;
use crate::cluster::{NodeRegistries, Snapshot};
use crate::engine::{self, Facts, Judged};
use crate::pullspec::{Digest, Repository};
use crate::release::completeness::{Checked, Checks, Completeness, Gap, Wanted};
use crate::release::{Attempt, AttemptEnd, Catalog, Source};
use crate::settings::{Mode, PolicySettings, Settings};
use crate::signature::Signatures;
use crate::signatures::{FromFiles, Verifier};
use crate::state::State;
use crate::version::Version;

/// How a case ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Passed,
    /// What differs, line by line.
    Failed(Vec<String>),
}

/// Everything a case happens in, and the review that it sends.
#[derive(Debug)]
pub struct Situation {
    pub state: State,
    pub catalog: Catalog,
    pub attempt: Option<Attempt>,
    pub node_registries: Option<Arc<NodeRegistries>>,
    pub checks: Checks,
    pub signatures: Signatures,
    pub settings: Settings,
    pub now: jiff::Timestamp,
    /// `Err` where the request never becomes a review.
    pub review: Result<Value, NoReview>,
}

/// Puts a case together.
///
/// # Errors
/// What is wrong with the case itself.
pub fn situation(file: &CaseFile, case: &Case) -> Result<Situation, String> {
    let now = case.now.unwrap_or(file.now);
    let mut objects = file.cluster.clone();
    for change in &case.cluster {
        merge_object(&mut objects, change)?;
    }
    // A situation without ConfigMaps leaves open what is signed, and is about something else.
    let signatures_told = objects.iter().any(|object| object["kind"] == "ConfigMap");
    for gone in &case.unknown {
        forget(&mut objects, gone)?;
    }
    let absent: Vec<String> = file.absent.iter().chain(&case.absent).cloned().collect();
    let state = State::from_documents("case.yaml", lists_by_kind(objects)?, &absent, now);
    if let Some(problem) = state.problems().first() {
        return Err(format!("cluster: {}", problem.message));
    }
    let entries = case.releases.as_ref().unwrap_or(&file.releases);
    let document = json!({"apiVersion": "airgate.io/v1alpha1", "kind": "ReleaseCatalog", "releases": entries});
    let catalog = Catalog::new(catalog::from_documents(&[document], "releases.yaml", now)?);
    let review = match case.request.action()? {
        None => Ok(case.request.review.clone().unwrap_or_default()),
        Some(action) => action.target().and_then(|Target { resource, name }| {
            action.review(state.object(&resource, None, &name), &case.request.user)
        }),
    };
    let mut settings = case.config.as_ref().unwrap_or(&file.config).clone();
    if !signatures_told {
        let off = PolicySettings { mode: Some(Mode::Off), ..PolicySettings::default() };
        settings.policies.entry("release-signature".into()).or_insert(off);
    }
    let attempt = case.attempt.as_ref().map(|attempt| attempt.read(now)).transpose()?;
    let checks = case.components.as_ref().map(|components| components.read(now)).transpose()?.into_iter().collect();
    let registries = case.node_registries.as_ref().or(file.node_registries.as_ref());
    let node_registries = registries.map(|registries| registries.at(now)).transpose()?.map(Arc::new);
    let signatures = Verifier::default().signatures(&state.snapshot(), &FromFiles::default(), now);
    Ok(Situation { state, catalog, attempt, node_registries, checks, signatures, settings, now, review })
}

impl AttemptCase {
    fn read(&self, now: jiff::Timestamp) -> Result<Attempt, String> {
        let digest = Digest::parse(&self.digest).ok_or("attempt: digest is no sha256 digest")?;
        let end = match &self.end {
            AttemptEndCase::Failed(why) => AttemptEnd::Failed(why.as_str().into()),
            AttemptEndCase::Reading(from) => AttemptEnd::Reading(from.as_str().into()),
            AttemptEndCase::Shard(version) => AttemptEnd::Shard {
                version: Version::parse(version).ok_or("attempt: shard is no version")?,
                source: Source { name: "registry.example:5000/ocp/release".into(), read_at: now, verified: true },
            },
        };
        Ok(Attempt { digest, end })
    }
}

impl ComponentsCase {
    fn read(&self, now: jiff::Timestamp) -> Result<(Digest, Arc<Checked>), String> {
        let digest = Digest::parse(&self.digest).ok_or("components: digest is no sha256 digest")?;
        let gap = |(name, why): (&String, &str)| {
            let repository =
                Repository { host: "quay.io".into(), path: "openshift-release-dev/ocp-v4.0-art-dev".into() };
            Gap { image: Wanted { names: vec![name.clone()], repository, digest }, why: why.into() }
        };
        let found = Completeness {
            present: self.present,
            absent: self.absent.iter().map(|name| gap((name, "not found"))).collect(),
            unknown: self.unknown.iter().map(|name| gap((name, "the mirror did not answer"))).collect(),
        };
        Ok((digest, Arc::new(Checked { found, at: now })))
    }
}

/// Runs a case and compares.
#[must_use]
pub fn run(file: &CaseFile, case: &Case) -> Outcome {
    match situation(file, case) {
        Err(fault) => Outcome::Failed(vec![fault]),
        Ok(situation) => {
            let differences = match situation.judge() {
                Ok(judged) => compare(&case.expect, &judged),
                Err(refused) => compare_refused(&case.expect, &refused),
            };
            if differences.is_empty() { Outcome::Passed } else { Outcome::Failed(differences) }
        }
    }
}

/// A request that was not judged: `unknown` or bad input, its code, and the text.
pub type Refused = (&'static str, u16, String);

impl Situation {
    /// # Errors
    /// Where the request is not judged at all.
    pub fn judge(&self) -> Result<Judged, Refused> {
        let review = self.review.as_ref().map_err(|no_review| match no_review {
            NoReview::Unknown(text) => ("unknown", 0, text.clone()),
            NoReview::Bad(text) => ("bad input", 0, text.clone()),
        })?;
        let cluster = Snapshot { node_registries: self.node_registries.clone(), ..self.state.snapshot() };
        let facts = Facts {
            cluster: &cluster,
            catalog: &self.catalog,
            attempt: self.attempt.as_ref(),
            checks: &self.checks,
            signatures: &self.signatures,
            settings: &self.settings,
            now: self.now,
        };
        engine::judge(review.to_string().as_bytes(), facts)
            .map_err(|bad| ("bad input", if bad.malformed_object { 422 } else { 400 }, bad.message))
    }
}

fn compare_refused(expect: &Expect, (outcome, code, text): &Refused) -> Vec<String> {
    let mut differences = vec![];
    if expect.outcome != *outcome || expect.code.is_some_and(|expected| expected != *code) {
        let code = if *code == 0 { String::new() } else { format!(" {code}") };
        differences.push(format!("expected {}, got {outcome}{code}: {text}", expect.outcome));
    }
    if !(expect.policies.is_empty() && expect.warnings.is_empty()) {
        differences.push("it was not judged, so no policy and no warning can be expected of it".into());
    }
    differences.extend(
        expect.not.iter().filter(|part| text.contains(&**part)).map(|part| format!("should not say {part:?}: {text}")),
    );
    let missing = expect.message.iter().filter(|part| !text.contains(&**part));
    differences.extend(missing.map(|part| format!("message lacks {part:?}: {text}")));
    differences
}

fn compare(expect: &Expect, judged: &Judged) -> Vec<String> {
    let mut differences = vec![];
    let status = judged.response.status.as_ref();
    let message = status.map_or("", |status| &*status.message);
    let warnings = &judged.response.warnings;
    let got = judged.verdict.result.as_str();
    if got != expect.outcome {
        let findings: Vec<_> = judged.verdict.findings.iter().map(|f| format!("{}: {}", f.policy, f.message)).collect();
        differences.push(format!("expected {}, got {got}\n{}", expect.outcome, findings.join("\n")));
    }
    let code = status.map(|status| status.code);
    if expect.code.is_some() && expect.code != code {
        let shown = |code: Option<u16>| code.map_or("none".to_owned(), |code| code.to_string());
        differences.push(format!("expected code {}, got {}", shown(expect.code), shown(code)));
    }
    for (policy, expected) in &expect.policies {
        if crate::policies::by_id(policy).is_none() {
            differences.push(format!("policies: there is no policy {policy}"));
        }
        let found: Vec<_> = judged
            .verdict
            .findings
            .iter()
            .filter(|f| f.policy == policy)
            .map(|f| f.outcome.as_str().to_owned())
            .collect();
        let matches = if expected == "pass" { found.is_empty() } else { found.contains(expected) };
        if !matches {
            let found = if found.is_empty() { "pass".to_owned() } else { found.join(", ") };
            differences.push(format!("{policy}: expected {expected}, got {found}"));
        }
    }
    let everything = warnings.iter().map(String::as_str).chain([message]).collect::<Vec<_>>().join("\n");
    differences.extend(
        expect
            .message
            .iter()
            .filter(|part| !message.contains(&**part))
            .map(|part| format!("message lacks {part:?}:\n{message}")),
    );
    differences.extend(
        expect
            .not
            .iter()
            .filter(|part| everything.contains(&**part))
            .map(|part| format!("should not say {part:?}:\n{everything}")),
    );
    let lacking = expect.warnings.iter().filter(|part| !warnings.iter().any(|w| w.contains(&**part)));
    differences.extend(lacking.map(|part| format!("no warning says {part:?}: {warnings:?}")));
    differences
}

fn identity(object: &Value) -> Result<(&str, &str), String> {
    let kind = object["kind"].as_str().ok_or("an object in cluster has no kind")?;
    Ok((kind, object["metadata"]["name"].as_str().unwrap_or_default()))
}

fn merge_object(objects: &mut Vec<Value>, change: &Value) -> Result<(), String> {
    let wanted = identity(change)?;
    match objects.iter_mut().find(|object| identity(object) == Ok(wanted)) {
        Some(object) => json_patch::merge(object, change),
        None => objects.push(change.clone()),
    }
    Ok(())
}

fn forget(objects: &mut Vec<Value>, gone: &str) -> Result<(), String> {
    let (resource, name) = gone.split_once('/').map_or((gone, None), |(resource, name)| (resource, Some(name)));
    let known = crate::resource::ResourceId::parse(resource)
        .find()
        .ok_or_else(|| format!("unknown: {resource} is no resource airgate reads"))?;
    let before = objects.len();
    objects.retain(|object| {
        let (kind, object_name) = identity(object).unwrap_or_default();
        kind != known.kind || name.is_some_and(|name| name != object_name)
    });
    if objects.len() == before { Err(format!("unknown: {gone} is not in this situation anyway")) } else { Ok(()) }
}

/// What a case lists of a kind is all there is of it: a List says so to the state reader.
fn lists_by_kind(objects: Vec<Value>) -> Result<Vec<Value>, String> {
    let mut lists: Vec<Value> = vec![];
    for object in objects {
        let kind = format!("{}List", identity(&object)?.0);
        if identity(&object)?.0.ends_with("List") {
            lists.push(object);
            continue;
        }
        match lists.iter_mut().find(|list| list["kind"] == *kind && list["apiVersion"] == object["apiVersion"]) {
            Some(list) => list["items"].as_array_mut().into_iter().for_each(|items| items.push(object.clone())),
            None => lists.push(json!({"apiVersion": object["apiVersion"], "kind": kind, "items": [object]})),
        }
    }
    Ok(lists)
}
