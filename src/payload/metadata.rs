//! `release-metadata` and `image-references`, strictly.

use std::collections::HashSet;
use std::sync::Arc;

use serde_json::Value;

use super::json::{below, exact_keys, list, object, text};
use super::layer::{self, METADATA, REFERENCES};
use crate::pullspec::Pullspec;
use crate::release::Component;
use crate::version::Version;

/// What the CVO accepts, and nothing else.
const KIND: &str = "cincinnati-metadata-v0";
const ARCHITECTURE: &str = "release.openshift.io/architecture";

/// What the payload says, the same for all images of a multi release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contents {
    pub version: Version,
    pub previous: Vec<Version>,
    pub multi: bool,
    /// In the order of image-references.
    pub components: Arc<[Component]>,
}

impl Contents {
    /// # Errors
    /// What is wrong; the text goes on after the name of the layer.
    pub fn of_layer(bytes: &[u8]) -> Result<Self, String> {
        let files = layer::read(bytes)?;
        let (version, previous, multi) =
            metadata(&files.metadata).map_err(|fault| format!("holds a {METADATA} that {fault}"))?;
        let components =
            references(&files.references, &version).map_err(|fault| format!("holds an {REFERENCES} that {fault}"))?;
        Ok(Self { version, previous, multi, components: components.into() })
    }
}

fn metadata(bytes: &[u8]) -> Result<(Version, Vec<Version>, bool), String> {
    let map = object(bytes)?;
    exact_keys(&map, &["kind", "version", "previous", "next", "metadata"])?;
    let kind = text(&map, "kind")?.unwrap_or_default();
    if kind != KIND {
        return Err(format!("is of kind {:?}, where the cluster version operator takes {KIND} only", cut(kind)));
    }
    let version = version(text(&map, "version")?.unwrap_or_default(), "version")?;
    let mut previous = vec![];
    for item in list(&map, "previous")?.unwrap_or_default() {
        previous.push(self::version(item.as_str().unwrap_or_default(), "previous")?);
    }
    let multi = match below(&map, "metadata")?.and_then(|more| more.get(ARCHITECTURE)) {
        None | Some(Value::Null) => false,
        Some(Value::String(name)) => name == "multi",
        Some(_) => return Err(format!("has a {ARCHITECTURE} that is not a text")),
    };
    Ok((version, previous, multi))
}

fn references(bytes: &[u8], version: &Version) -> Result<Vec<Component>, String> {
    let map = object(bytes)?;
    exact_keys(&map, &["kind", "apiVersion", "metadata", "spec"])?;
    if text(&map, "kind")? != Some("ImageStream") {
        return Err("is no ImageStream".into());
    }
    let name =
        below(&map, "metadata")?.map(|metadata| text(metadata, "name")).transpose()?.flatten().unwrap_or_default();
    if Version::parse(name).as_ref() != Some(version) {
        return Err(format!(
            "is of version {:?} while release-metadata says {version}; the cluster refuses that too",
            cut(name)
        ));
    }
    let spec = below(&map, "spec")?.ok_or("has no spec")?;
    let (mut components, mut names) = (vec![], HashSet::new());
    for tag in list(spec, "tags")?.unwrap_or_default() {
        let tag = tag.as_object().ok_or("has a tag that is no object")?;
        exact_keys(tag, &["name", "from"])?;
        let name = text(tag, "name")?.filter(|name| !name.is_empty()).ok_or("has a component without a name")?;
        let from = below(tag, "from")?.ok_or_else(|| format!("does not say which image {:?} is", cut(name)))?;
        exact_keys(from, &["kind", "name"])?;
        let image = text(from, "name")?.unwrap_or_default();
        Pullspec::parse(image).map_err(|fault| {
            format!("names the image {:?} for {:?}, which no node can be held to: it {fault}", cut(image), cut(name))
        })?;
        if !names.insert(name) {
            return Err(format!("has the component {:?} twice", cut(name)));
        }
        components.push(Component { name: name.into(), image: image.into() });
    }
    Ok(components)
}

fn version(text: &str, place: &str) -> Result<Version, String> {
    Version::parse(text).ok_or_else(|| format!("has {:?} in {place}, which is no version such as 4.19.9", cut(text)))
}

fn cut(text: &str) -> String {
    text.chars().take(80).collect()
}
