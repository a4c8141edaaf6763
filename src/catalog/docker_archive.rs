//! What `docker save` and skopeo's docker-archive write: layers and configuration, no manifest.
//!
//! So there is no digest to know a release by. What it says is shown, never looked up.

use jiff::Timestamp;
use serde_json::Value;

use super::archive::Archive;
use super::finding::{Finding, Outcome, Standing};
use crate::files::document;
use crate::payload::manifest::Config;
use crate::payload::metadata::Contents;
use crate::payload::{CONFIG_BYTES, LAYER_BYTES, MANIFEST_BYTES, RELEASE_LABEL, digest_of};
use crate::release::Source;

/// Images of one archive.
const IMAGES: usize = 1000;

pub fn read(archive: &Archive, now: Timestamp) -> Outcome {
    let place = archive.path.display().to_string();
    let images = match images(archive) {
        Ok(images) => images,
        Err(why) => return Outcome::problem(place, why),
    };
    let mut outcome = Outcome::default();
    for image in images.iter().take(IMAGES) {
        match read_image(archive, image, &place, now) {
            Ok(Some(finding)) => outcome.findings.push(finding),
            Ok(None) => {}
            Err(why) => outcome.append(Outcome::problem(&*place, why)),
        }
    }
    if outcome == Outcome::default() {
        return Outcome::problem(place, format!("holds no release image: none has the label {RELEASE_LABEL}"));
    }
    outcome
}

fn images(archive: &Archive) -> Result<Vec<Value>, String> {
    let bytes = part(archive, "manifest.json", MANIFEST_BYTES)?;
    let text = String::from_utf8(bytes).map_err(|_| "its manifest.json is not UTF-8")?;
    match document::from_json(&text).map_err(|why| format!("its manifest.json {why}"))?.pop() {
        Some(Value::Array(images)) => Ok(images),
        _ => Err("its manifest.json is not a list of images".into()),
    }
}

fn read_image(archive: &Archive, image: &Value, place: &str, now: Timestamp) -> Result<Option<Finding>, String> {
    let name = image.get("Config").and_then(Value::as_str).ok_or("its manifest.json has an image without Config")?;
    let config = part(archive, name, CONFIG_BYTES)?;
    let digest = digest_of(&config).map(|digest| digest.hex()).unwrap_or_default();
    if !name.contains(&digest) {
        return Err(format!("its {name} is damaged: it has the digest sha256:{digest}; copy the image again"));
    }
    let config = Config::parse(&config).map_err(|why| format!("its {name} {why}"))?;
    if !config.labels.contains_key(RELEASE_LABEL) {
        return Ok(None);
    }
    let layers = image.get("Layers").and_then(Value::as_array);
    let layer = layers.and_then(|layers| layers.last()).and_then(Value::as_str).ok_or("has an image without layers")?;
    let bytes = part(archive, layer, LAYER_BYTES)?;
    let found = digest_of(&bytes).map(|digest| digest.to_string());
    if found.as_ref() != config.diff_ids.last() {
        return Err(format!("its layer {layer} is damaged: it is not the one that {name} names; copy the image again"));
    }
    let contents = Contents::of_layer(&bytes).map_err(|why| format!("its layer {layer} {why}"))?;
    let architecture = if contents.multi { Some("multi") } else { config.architecture };
    Ok(Some(Finding {
        standing: Standing::NoManifest,
        version: contents.version,
        previous: Some(contents.previous),
        architecture: architecture.map(Into::into),
        shards: vec![],
        components: Some(contents.components),
        source: Source { name: place.into(), read_at: now, verified: false },
        unread: 0,
    }))
}

fn part(archive: &Archive, name: &str, limit: u64) -> Result<Vec<u8>, String> {
    let found = archive.file(name, limit).map_err(|why| format!("its {name} {why}"))?;
    found.ok_or_else(|| format!("its {name} is not there as a file"))
}
