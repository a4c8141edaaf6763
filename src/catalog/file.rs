//! `kind: ReleaseCatalog` documents: strict, because every value here decides whether a step is possible.
//!
//! Invariant: a file with any fault yields no release at all. Half of a catalog would answer
//! "not on this site" for releases that the other half names.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::pullspec::{Digest, Pullspec};
use crate::release::{Component, Release, Source};
use crate::version::Version;

const API_VERSION: &str = "airgate.io/v1alpha1";
const KIND: &str = "ReleaseCatalog";
/// A file with thousands of faults is described well enough by the first few.
const FAULTS_SHOWN: usize = 8;

/// The releases of all catalog documents of one file; none where it holds other things only.
///
/// # Errors
/// Every fault found, with the entry and field it is in.
pub(super) fn read(documents: &[Value], place: &str, now: Timestamp) -> Result<Vec<Release>, String> {
    let source = Source { name: Arc::from(place), read_at: now, verified: false };
    let mut faults = Faults::default();
    let mut releases = vec![];
    for (index, document) in documents.iter().enumerate() {
        faults.place = if documents.len() > 1 { format!("document {}, ", index + 1) } else { String::new() };
        if ours(document, &mut faults)
            && let Some(document) = document.as_object()
        {
            releases.extend(catalog(document, &source, &mut faults));
        }
    }
    faults.finish().map(|()| releases)
}

#[derive(Default)]
struct Faults {
    /// Put before each fault.
    place: String,
    found: Vec<String>,
}

impl Faults {
    fn add(&mut self, what: impl AsRef<str>) {
        self.found.push(format!("{}{}", self.place, what.as_ref()));
    }

    fn finish(self) -> Result<(), String> {
        let total = self.found.len();
        if total == 0 {
            return Ok(());
        }
        let more = if total > FAULTS_SHOWN { format!("; and {} more", total - FAULTS_SHOWN) } else { String::new() };
        Err(format!("is not used: {}{more}", self.found[..total.min(FAULTS_SHOWN)].join("; ")))
    }
}

/// Whether a document is a catalog; one that only claims to be is a fault.
fn ours(document: &Value, faults: &mut Faults) -> bool {
    let text = |key| document.get(key).and_then(Value::as_str).unwrap_or_default();
    match (text("apiVersion"), text("kind")) {
        (API_VERSION, KIND) => return true,
        (version, KIND) => faults.add(format!("a {KIND} has apiVersion {API_VERSION}, not {version:?}")),
        (version, kind) if version.split('/').next() == Some("airgate.io") => {
            faults
                .add(format!("{version} {kind:?} has no meaning in a directory of releases, {API_VERSION} {KIND} has"));
        }
        _ => {
            if let Some(hint) = mistaken(document) {
                faults.add(hint);
            }
        }
    }
    false
}

/// What somebody most likely meant as a catalog; other documents may lie beside one without a word.
fn mistaken(document: &Value) -> Option<String> {
    let head = format!("a catalog begins with apiVersion: {API_VERSION} and kind: {KIND}");
    let has = |pointer: &str| document.pointer(pointer).is_some();
    if !document.is_object() {
        return Some(format!("{} is no document with releases; {head}", show(document)));
    }
    if has("/metadata/previous") || (has("/digest") && has("/references")) {
        return Some(format!(
            "is what oc adm release info prints; {head}, and releases: with digest (listDigest where there is one), version and previous of it"
        ));
    }
    if document.pointer("/data").is_some_and(|data| data.to_string().contains(KIND)) {
        return Some("is a ConfigMap manifest: mount it, or give the file inside it".into());
    }
    has("/releases").then(|| format!("has releases, but {head}"))
}

fn catalog(document: &Map<String, Value>, source: &Source, faults: &mut Faults) -> Vec<Release> {
    unknown_keys(document, &["apiVersion", "kind", "metadata", "releases"], faults);
    let Some(entries) = document.get("releases").and_then(Value::as_array) else {
        faults.add("releases is not a list");
        return vec![];
    };
    let outer = faults.place.clone();
    let mut releases = vec![];
    for (index, entry) in entries.iter().enumerate() {
        faults.place = format!("{outer}entry {}, ", index + 1);
        match entry.as_object() {
            Some(entry) => releases.extend(release(entry, source, faults)),
            None => faults.add(format!("{} is not a release with digest and version", show(entry))),
        }
    }
    faults.place = outer;
    releases
}

fn release(entry: &Map<String, Value>, source: &Source, faults: &mut Faults) -> Option<Release> {
    unknown_keys(entry, &["digest", "version", "previous", "architecture", "shards", "components"], faults);
    for key in ["digest", "version"] {
        if field(entry, key).is_none() {
            faults.add(format!("{key} is missing"));
        }
    }
    let digest_read = scalar(entry, "digest", digest, faults);
    let version_read = scalar(entry, "version", version, faults);
    let previous = list(entry, "previous", version, faults);
    let architecture = scalar(entry, "architecture", architecture, faults);
    let shards = list(entry, "shards", digest, faults).unwrap_or_default();
    let components = list(entry, "components", component, faults);
    Some(Release {
        digest: digest_read?,
        version: version_read?,
        previous,
        architecture: architecture.map(Into::into),
        shards,
        components: components.map(Into::into),
        source: source.clone(),
    })
}

/// Null and absent alike.
fn field<'a>(entry: &'a Map<String, Value>, key: &str) -> Option<&'a Value> {
    entry.get(key).filter(|value| !value.is_null())
}

type Parse<'a, T> = fn(&'a Value) -> Result<T, String>;

fn scalar<'a, T>(entry: &'a Map<String, Value>, key: &str, parse: Parse<'a, T>, faults: &mut Faults) -> Option<T> {
    parse(field(entry, key)?).map_err(|fault| faults.add(format!("{key}: {fault}"))).ok()
}

fn list<'a, T>(entry: &'a Map<String, Value>, key: &str, parse: Parse<'a, T>, faults: &mut Faults) -> Option<Vec<T>> {
    let value = field(entry, key)?;
    let Some(items) = value.as_array() else {
        faults.add(format!("{key}: {} is not a list", show(value)));
        return None;
    };
    let mut read = vec![];
    for item in items {
        match parse(item) {
            Ok(item) => read.push(item),
            Err(fault) => faults.add(format!("{key}: {fault}")),
        }
    }
    Some(read)
}

fn unknown_keys(map: &Map<String, Value>, known: &[&str], faults: &mut Faults) {
    for key in map.keys().filter(|key| !known.contains(&key.as_str())) {
        faults.add(format!("unknown key {key:?}, known are {}", known.join(", ")));
    }
}

fn digest(value: &Value) -> Result<Digest, String> {
    let fault = || format!("{} is not sha256: and 64 lower-case hex digits (not all zero)", show(value));
    value.as_str().and_then(Digest::parse).ok_or_else(fault)
}

fn version(value: &Value) -> Result<Version, String> {
    let fault = || match value {
        Value::Number(_) => format!("{value} is read as a number, put the whole version in quotes"),
        _ => format!("{} is not a version such as 4.19.9", show(value)),
    };
    value.as_str().and_then(Version::parse).ok_or_else(fault)
}

/// In Go's names; RPM's are translated, as `oc` and release file names use both.
fn architecture(value: &Value) -> Result<&str, String> {
    match value.as_str() {
        Some("x86_64") => Ok("amd64"),
        Some("aarch64") => Ok("arm64"),
        Some(name @ ("amd64" | "arm64" | "ppc64le" | "s390x" | "riscv64" | "loong64" | "multi")) => Ok(name),
        _ => Err(format!("{} is none of amd64, arm64, ppc64le, s390x, riscv64, loong64, multi", show(value))),
    }
}

fn component(value: &Value) -> Result<Component, String> {
    let text = value.as_str().ok_or_else(|| format!("{} is not a pullspec", show(value)))?;
    Pullspec::parse(text)
        .map(|_| Component { name: String::new(), image: text.into() })
        .map_err(|fault| format!("{} is no pullspec by digest, it {fault}", show(value)))
}

/// A value as it may stand in a message: short and on one line.
fn show(value: &Value) -> String {
    let text = value.to_string();
    if text.chars().count() <= 100 { text } else { text.chars().take(100).chain("...".chars()).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::document::from_yaml;

    fn check(entry: &str, expected: Result<(), &str>) {
        let hex = "ab".repeat(32);
        let entry = entry.replace("{D}", &format!("sha256:{hex}"));
        let text = format!("apiVersion: {API_VERSION}\nkind: {KIND}\nreleases:\n- {{{entry}}}\n");
        let read = read(&from_yaml(&text).unwrap(), "x.yaml", Timestamp::UNIX_EPOCH);
        match (read, expected) {
            (Ok(releases), Ok(())) => assert_eq!(releases.len(), 1, "{entry}"),
            (Err(message), Err(part)) => {
                assert!(message.contains("entry 1, ") && message.contains(part), "{entry}: {message}");
            }
            (read, expected) => panic!("{entry}: {read:?}, expected {expected:?}"),
        }
    }

    #[test]
    fn every_value_is_checked_and_named() {
        for (entry, expected) in [
            ("digest: '{D}', version: 4.19.9", Ok(())),
            (
                "digest: '{D}', version: 4.19.9+x, previous: null, architecture: null, shards: [], components: []",
                Ok(()),
            ),
            ("digest: '{D}', version: 4.19.9, components: ['quay.io/a/b@{D}']", Ok(())),
            ("digest: '{D}', version: 4.19", Err("version: 4.19 is read as a number")),
            ("digest: '{D}', version: v4.19.1", Err("version: \"v4.19.1\" is not")),
            ("version: 4.19.9", Err("digest is missing")),
            ("digest: '{D}'", Err("version is missing")),
            ("digest: sha256:abc, version: 4.19.9", Err("digest: \"sha256:abc\" is not")),
            ("digest: 5, version: 4.19.9", Err("digest: 5 is not")),
            ("digest: '{D}', version: 4.19.9, previous: [4.19.8, 4.19]", Err("previous: 4.19 is read as")),
            ("digest: '{D}', version: 4.19.9, previous: 4.19.8", Err("previous: \"4.19.8\" is not a list")),
            ("digest: '{D}', version: 4.19.9, architecture: ''", Err("architecture: \"\" is none of")),
            ("digest: '{D}', version: 4.19.9, architecture: amd46", Err("architecture: \"amd46\"")),
            ("digest: '{D}', version: 4.19.9, shards: [x]", Err("shards: \"x\" is not")),
            ("digest: '{D}', version: 4.19.9, components: ['quay.io/a:b']", Err("components: \"quay.io/a:b\" is no")),
            ("digest: '{D}', version: 4.19.9, Previous: []", Err("unknown key \"Previous\"")),
        ] {
            check(entry, expected);
        }
    }

    #[test]
    fn other_documents_are_skipped_unless_they_claim_to_be_ours() {
        for (text, expected) in [
            ("kind: ConfigMap\napiVersion: v1", Ok(())),
            ("- 1", Err("is no document with releases")),
            ("just text", Err("a catalog begins with")),
            ("releases: []", Err("has releases, but a catalog begins with")),
            ("digest: x\nreferences: {}", Err("oc adm release info prints")),
            ("kind: ConfigMap\ndata: {c.yaml: 'kind: ReleaseCatalog'}", Err("is a ConfigMap manifest")),
            ("kind: Config\napiVersion: airgate.io/v1alpha1", Err("no meaning in a directory of releases")),
            ("kind: ReleaseCatalog\napiVersion: airgate.io/v1", Err("has apiVersion airgate.io/v1alpha1")),
            ("kind: ReleaseCatalog", Err("has apiVersion airgate.io/v1alpha1")),
            ("kind: ReleaseCatalog\napiVersion: airgate.io/v1alpha1", Err("releases is not a list")),
            (
                "kind: ReleaseCatalog\napiVersion: airgate.io/v1alpha1\nreleases: [1]",
                Err("entry 1, 1 is not a release"),
            ),
            ("kind: A\n---\nkind: ReleaseCatalog\nreleases: []", Err("document 2, ")),
        ] {
            let read = read(&from_yaml(text).unwrap(), "x.yaml", Timestamp::UNIX_EPOCH);
            match (read, expected) {
                (Ok(releases), Ok(())) => assert!(releases.is_empty(), "{text}"),
                (Err(message), Err(part)) => assert!(message.contains(part), "{text}: {message}"),
                (read, expected) => panic!("{text}: {read:?}, expected {expected:?}"),
            }
        }
    }
}
