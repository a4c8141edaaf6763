//! Image manifests, indexes and configurations of both families, told apart by their shape.
//!
//! Media types of descriptors are not asked for: `oc adm release new` itself mixes them.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::json::{below, exact_keys, list, object, text};
use crate::pullspec::Digest;

const DOCKER_IMAGE: &str = "application/vnd.docker.distribution.manifest.v2+json";
/// More than any builder makes; a release has five to eight.
const LAYERS: usize = 128;
/// Entries of one index, attestations included; an index of a layout may name many images.
const ENTRIES: usize = 4096;
const KEYS: [&str; 5] = ["schemaVersion", "mediaType", "config", "layers", "manifests"];

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Manifest {
    Image(Image),
    Index(Vec<Descriptor>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// Docker's schema 2, as oc writes releases; else OCI.
    pub docker: bool,
    pub config: Descriptor,
    /// The lowest first.
    pub layers: Vec<Descriptor>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Descriptor {
    pub digest: Digest,
    pub size: u64,
    /// `org.opencontainers.image.ref.name`, what people give as the tag in a layout.
    pub name: Option<String>,
    /// Made by builders beside the images of an index; no image itself.
    pub attestation: bool,
}

impl Manifest {
    /// # Errors
    /// What is wrong; the text goes on after the name of the manifest.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        let map = object(bytes)?;
        exact_keys(&map, &KEYS)?;
        if map.get("schemaVersion").and_then(Value::as_u64) != Some(2) {
            return Err(
                "is no manifest of schema version 2; an image of schema 1 must be copied by a newer tool".into()
            );
        }
        let media_type = text(&map, "mediaType")?;
        match (list(&map, "manifests")?, list(&map, "layers")?) {
            (Some(_), Some(_)) => {
                Err("has both manifests and layers, so that tools would read different things".into())
            }
            (None, None) => Err("has neither manifests nor layers".into()),
            (Some(children), None) => descriptors(children, "manifests", ENTRIES).map(Self::Index),
            (None, Some(layers)) => Ok(Self::Image(Image {
                docker: media_type == Some(DOCKER_IMAGE),
                config: descriptor(below(&map, "config")?.ok_or("has no config")?, "config")?,
                layers: descriptors(layers, "layers", LAYERS)?,
            })),
        }
    }
}

fn descriptors(items: &[Value], place: &str, most: usize) -> Result<Vec<Descriptor>, String> {
    if items.len() > most {
        return Err(format!("has {} {place}, more than the {most} that are read", items.len()));
    }
    let read =
        |item: &Value| descriptor(item.as_object().ok_or(format!("has {place} that are no descriptors"))?, place);
    items.iter().map(read).collect()
}

fn descriptor(map: &Map<String, Value>, place: &str) -> Result<Descriptor, String> {
    let inside = |fault: String| format!("in {place} {fault}");
    exact_keys(map, &["digest", "size", "platform", "annotations"]).map_err(inside)?;
    let digest = text(map, "digest").map_err(inside)?.unwrap_or_default();
    let Some(parsed) = Digest::parse(digest) else {
        return Err(inside(format!("has the digest {:?}, which is not sha256: and 64 hex digits", cut(digest))));
    };
    let size = map.get("size").and_then(Value::as_u64);
    let platform = below(map, "platform").map_err(inside)?;
    let os = platform.and_then(|platform| platform.get("os")).and_then(Value::as_str);
    let annotations = below(map, "annotations").map_err(inside)?;
    let name = annotations.and_then(|all| all.get("org.opencontainers.image.ref.name")).and_then(Value::as_str);
    Ok(Descriptor {
        digest: parsed,
        size: size.ok_or_else(|| inside("has no size that is a whole number".into()))?,
        name: name.map(Into::into),
        attestation: os == Some("unknown"),
    })
}

/// The little that is read of an image configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// In Go's names; `None` for one that no release is made for.
    pub architecture: Option<&'static str>,
    pub labels: BTreeMap<String, String>,
    /// Digests of the unpacked layers, the lowest first.
    pub diff_ids: Vec<String>,
}

impl Config {
    /// # Errors
    /// What is wrong; the text goes on after the name of the configuration.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        let map = object(bytes)?;
        exact_keys(&map, &["architecture", "config", "rootfs"])?;
        let mut labels = BTreeMap::new();
        if let Some(config) = below(&map, "config")? {
            exact_keys(config, &["Labels"])?;
            for (key, value) in below(config, "Labels")?.into_iter().flatten() {
                labels.insert(key.clone(), value.as_str().ok_or("has a label that is not a text")?.to_owned());
            }
        }
        let root = below(&map, "rootfs")?;
        let diff_ids = root.map(|root| list(root, "diff_ids")).transpose()?.flatten().unwrap_or_default();
        Ok(Self {
            architecture: text(&map, "architecture")?.and_then(architecture),
            labels,
            diff_ids: diff_ids.iter().map(|id| id.as_str().unwrap_or_default().to_owned()).collect(),
        })
    }
}

fn architecture(name: &str) -> Option<&'static str> {
    ["amd64", "arm64", "ppc64le", "s390x", "riscv64", "loong64"].into_iter().find(|known| *known == name)
}

fn cut(text: &str) -> String {
    text.chars().take(80).collect()
}
