//! What a command is asked to judge: a file, or the flags of `oc adm upgrade`, `oc patch` and `oc delete`.

use std::path::Path;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use serde_json::Value;

use super::source::Sources;
use crate::action::upgrade::UpgradeFlags;
use crate::action::{Action, NoReview, Patch, Target, User};
use crate::files::document::{from_json, from_yaml};
use crate::files::{Limits, read_named};
use crate::text::shown;

#[derive(Debug, Args)]
#[group(required = true, multiple = false, id = "what")]
struct UpgradeTarget {
    /// Upgrade to this release image, by digest
    #[arg(long, value_name = "PULLSPEC")]
    to_image: Option<String>,
    /// Upgrade to this version
    #[arg(long, value_name = "VERSION")]
    to: Option<String>,
    /// Migrate to the multi-architecture payload of the current version
    #[arg(long)]
    to_multi_arch: bool,
    /// Cancel the requested upgrade
    #[arg(long)]
    clear: bool,
}

#[derive(Debug, Args)]
pub struct UpgradeArgs {
    #[command(flatten)]
    target: UpgradeTarget,
    /// Set force: true
    #[arg(long)]
    force: bool,
}

#[derive(Debug, Args)]
pub struct PatchArgs {
    /// RESOURCE/NAME
    #[arg(value_parser = Target::parse)]
    target: Target,
    /// The patch, as JSON or YAML
    #[arg(short, long, value_name = "PATCH")]
    patch: String,
    #[arg(long = "type", value_enum, default_value = "merge")]
    kind: PatchKind,
    /// Patch this subresource
    #[arg(long, value_name = "S", default_value = "")]
    subresource: String,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum PatchKind {
    Merge,
    Json,
}

/// One thing to judge.
pub enum Input {
    Review(Vec<u8>),
    Action(Action),
}

impl Input {
    /// The object it is about, as RESOURCE/NAME.
    pub fn about(&self) -> String {
        match self {
            Self::Action(action) => {
                action.target().map(|target| format!("{}/{}", target.resource, target.name)).unwrap_or_default()
            }
            Self::Review(body) => {
                let review: Value = serde_json::from_slice(body).unwrap_or_default();
                let request = &review["request"];
                let name = [
                    &request["name"],
                    &request["object"]["metadata"]["name"],
                    &request["oldObject"]["metadata"]["name"],
                ];
                let name = name.into_iter().find_map(Value::as_str).unwrap_or_default();
                format!("{}/{}", request["resource"]["resource"].as_str().unwrap_or_default(), shown(name))
            }
        }
    }

    /// The AdmissionReview that would be sent.
    ///
    /// # Errors
    /// Why there is none.
    pub fn body(self, sources: &Sources) -> Result<Vec<u8>, NoReview> {
        match self {
            Self::Review(body) => Ok(body),
            Self::Action(action) => {
                let review = action.target().and_then(|t| action.review(sources.stored(&t), &User::default()))?;
                Ok(review.to_string().into_bytes())
            }
        }
    }
}

impl From<UpgradeArgs> for UpgradeFlags {
    fn from(args: UpgradeArgs) -> Self {
        let UpgradeTarget { to_image, to, to_multi_arch, clear } = args.target;
        Self { to_image, to, to_multi_arch, clear, force: args.force }
    }
}

impl PatchArgs {
    pub fn action(self) -> Result<Action> {
        let mut documents = from_yaml(&self.patch).map_err(|error| anyhow::anyhow!("the patch {error}"))?;
        let (Some(value), true) = (documents.pop(), documents.is_empty()) else { bail!("the patch is empty") };
        let patch = match self.kind {
            PatchKind::Merge => Patch::Merge(value),
            PatchKind::Json => {
                Patch::Json(serde_json::from_value(value).context("the patch is no JSON patch: a list of operations")?)
            }
        };
        Ok(Action::Patch { target: self.target, patch, subresource: self.subresource })
    }
}

/// Every review and object of a file; a List is its items.
pub fn read(path: &Path) -> Result<Vec<Input>> {
    let place = if path.as_os_str() == "-" { "stdin".to_owned() } else { path.display().to_string() };
    let bytes = read_named(path, Limits::default().file_bytes).context(place)?;
    // A review goes to the engine byte for byte, faults included: the server would meet the same.
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let Ok(documents) = from_json(&text).or_else(|_| from_yaml(&text)) else {
        if text.trim_start().starts_with('{') && text.contains("AdmissionReview") {
            return Ok(vec![Input::Review(bytes)]);
        }
        let fault = from_yaml(&text).err().unwrap_or_default();
        bail!("{}: {fault}", path.display());
    };
    let [document] = &documents[..] else { return inputs(documents, path) };
    if document["kind"] == "AdmissionReview" && text.trim_start().starts_with('{') {
        return Ok(vec![Input::Review(bytes)]);
    }
    inputs(documents, path)
}

fn inputs(documents: Vec<Value>, path: &Path) -> Result<Vec<Input>> {
    let mut inputs = vec![];
    for document in documents {
        let kind = document["kind"].as_str().unwrap_or_default().to_owned();
        match &document["items"] {
            Value::Array(items) if kind.ends_with("List") => {
                inputs.extend(items.iter().cloned().map(|item| Input::Action(Action::Apply(item))));
            }
            _ if kind == "AdmissionReview" => inputs.push(Input::Review(document.to_string().into_bytes())),
            _ => inputs.push(Input::Action(Action::Apply(document))),
        }
    }
    if inputs.is_empty() {
        bail!("{}: nothing to check in it", path.display());
    }
    Ok(inputs)
}
