//! What a person or tool does to the cluster, turned into the AdmissionReview that the API server would send.
//!
//! Pure: the stored object comes in, the review goes out. Used by `airgate check`, policy cases and the demo.

pub mod apply;
pub mod opening;
pub mod upgrade;

use serde_json::{Value, json};

use crate::cluster::Missing;
use crate::resource::{self, ResourceId};
use crate::text::shell_word;
use upgrade::UpgradeFlags;

/// One action on one object.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// `oc adm upgrade ...`
    Upgrade(UpgradeFlags),
    /// `oc patch RESOURCE NAME --type merge|json -p PATCH`
    Patch { target: Target, patch: Patch, subresource: String },
    /// `oc delete RESOURCE NAME`
    Delete(Target),
    /// `oc apply -f`: a CREATE where the object is known to be absent.
    Apply(Value),
}

#[derive(Clone, Debug, PartialEq)]
pub enum Patch {
    Merge(Value),
    Json(json_patch::Patch),
}

/// The object an action is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    pub resource: ResourceId,
    pub name: String,
}

/// What is known of the stored object.
#[derive(Clone, Debug, PartialEq)]
pub enum Stored {
    /// The object, and where it was read.
    Found(Value, String),
    KnownAbsent,
    Unknown(Missing),
}

/// Why an action has no review.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoReview {
    /// Nothing says what is stored: the verdict is unknown.
    #[error("{0}")]
    Unknown(String),
    /// The action makes no sense.
    #[error("{0}")]
    Bad(String),
}

/// Who acts, as the review's `userInfo`.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct User {
    pub username: String,
    pub groups: Vec<String>,
}

impl Default for User {
    fn default() -> Self {
        Self { username: "airgate-check".into(), groups: vec!["system:authenticated".into()] }
    }
}

impl Target {
    /// From `RESOURCE/NAME`.
    ///
    /// # Errors
    /// Where it has not exactly these two parts.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text.split_once('/') {
            Some((resource, name)) if !resource.is_empty() && !name.is_empty() && !name.contains('/') => {
                Ok(Self { resource: ResourceId::parse(resource), name: name.into() })
            }
            _ => Err(format!("{text:?} is not RESOURCE/NAME, such as clusterversion/version")),
        }
    }

    fn cluster_version() -> Self {
        Self { resource: ResourceId::parse("clusterversions.config.openshift.io"), name: "version".into() }
    }
}

impl Action {
    /// The object whose stored form [`Self::review`] needs.
    ///
    /// # Errors
    /// Where a plain object does not say what it is.
    pub fn target(&self) -> Result<Target, NoReview> {
        match self {
            Self::Upgrade(_) => Ok(Target::cluster_version()),
            Self::Patch { target, .. } | Self::Delete(target) => Ok(target.clone()),
            Self::Apply(object) => target_of(object),
        }
    }

    /// The command that does it, to be pasted into a shell. A plain object's is left to whoever has the file.
    #[must_use]
    pub fn command(&self) -> String {
        let words: Vec<String> = match self {
            Self::Upgrade(flags) => flags.command(),
            Self::Patch { target, patch, subresource } => {
                let (kind, text) = match patch {
                    Patch::Merge(patch) => ("merge", patch.to_string()),
                    Patch::Json(patch) => ("json", serde_json::to_string(patch).unwrap_or_default()),
                };
                let mut words = vec!["oc", "patch", &target.resource.to_string(), &target.name, "--type", kind]
                    .into_iter()
                    .map(str::to_owned)
                    .collect::<Vec<_>>();
                if !subresource.is_empty() {
                    words.extend(["--subresource".to_owned(), subresource.clone()]);
                }
                words.extend(["-p".to_owned(), text]);
                words
            }
            Self::Delete(target) => ["oc", "delete", &target.to_string()].map(str::to_owned).into(),
            Self::Apply(_) => ["oc", "apply", "-f", "FILE"].map(str::to_owned).into(),
        };
        words.iter().map(|word| shell_word(word)).collect::<Vec<_>>().join(" ")
    }

    /// The review that the API server would send, as one JSON tree.
    ///
    /// # Errors
    /// [`NoReview`] where the stored object is not known or the action does not fit it.
    pub fn review(&self, stored: Stored, user: &User) -> Result<Value, NoReview> {
        let target = self.target()?;
        let what = target.to_string();
        let old = match stored {
            Stored::Found(old, _) => Some(old),
            Stored::KnownAbsent => None,
            Stored::Unknown(_) if target.resource.find().is_none() && !matches!(self, Self::Apply(_)) => {
                let known: Vec<_> = resource::ALL.iter().map(|known| known.plural).collect();
                let known = known.join(", ");
                return Err(NoReview::Bad(format!(
                    "{} is no resource that airgate reads; there are {known}",
                    target.resource
                )));
            }
            Stored::Unknown(Missing { why, remedy }) => {
                return Err(NoReview::Unknown(format!("{what} as it is stored is not known: {why}; {remedy}")));
            }
        };
        let missing = || NoReview::Unknown(format!("{what} does not exist, so the API server would answer NotFound"));
        let (operation, subresource, old, new) = match self {
            Self::Apply(object) => match old {
                None => ("CREATE", "", None, Some(without_status(object.clone()))),
                Some(old) => {
                    let new = apply::apply(&old, object);
                    ("UPDATE", "", Some(old), Some(new))
                }
            },
            Self::Delete(_) => ("DELETE", "", Some(old.ok_or_else(missing)?), None),
            Self::Patch { patch, subresource, .. } => {
                let old = old.ok_or_else(missing)?;
                let new = patch.applied_to(&old, subresource)?;
                ("UPDATE", &**subresource, Some(old), Some(new))
            }
            Self::Upgrade(flags) => {
                let old = old.ok_or_else(missing)?;
                let new = Patch::Merge(flags.body(&old)?).applied_to(&old, "")?;
                ("UPDATE", "", Some(old), Some(new))
            }
        };
        Ok(review(&target, operation, subresource, old, new, user))
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.resource, self.name)
    }
}

impl Patch {
    /// The object after the patch; the API server takes status from the stored object on a main-resource
    /// write, and everything else from it on a status write.
    fn applied_to(&self, old: &Value, subresource: &str) -> Result<Value, NoReview> {
        let mut new = old.clone();
        match self {
            Self::Merge(Value::Array(_)) => {
                return Err(NoReview::Bad("the patch is a list of operations: give --type json".into()));
            }
            Self::Merge(patch) if !patch.is_object() => {
                return Err(NoReview::Bad("a merge patch is an object, such as {\"spec\":{...}}".into()));
            }
            Self::Merge(patch) => json_patch::merge(&mut new, patch),
            Self::Json(patch) => {
                json_patch::patch(&mut new, patch)
                    .map_err(|e| NoReview::Bad(format!("the JSON patch does not apply: {e}")))?;
            }
        }
        if !new.is_object() {
            return Err(NoReview::Bad("the patch replaces the whole object by something that is none".into()));
        }
        let (from_new, from_old) = if subresource == "status" { (&new, old) } else { (old, &new) };
        let mut result = from_old.clone();
        match from_new.get("status") {
            Some(status) => result["status"] = status.clone(),
            None => {
                result.as_object_mut().map(|object| object.remove("status"));
            }
        }
        Ok(result)
    }
}

fn without_status(mut object: Value) -> Value {
    object.as_object_mut().map(|fields| fields.remove("status"));
    object
}

/// Resource and name of a plain object.
fn target_of(object: &Value) -> Result<Target, NoReview> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (api_version, kind) = (text(&object["apiVersion"]), text(&object["kind"]));
    let name = text(&object["metadata"]["name"]);
    if kind.is_empty() || api_version.is_empty() || name.is_empty() {
        return Err(NoReview::Bad("an object needs apiVersion, kind and metadata.name to be checked".into()));
    }
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    Ok(Target { resource: ResourceId::new(&kind, Some(group)), name })
}

fn review(
    target: &Target,
    operation: &str,
    subresource: &str,
    old: Option<Value>,
    new: Option<Value>,
    user: &User,
) -> Value {
    let object = new.as_ref().or(old.as_ref()).unwrap_or(&Value::Null);
    let api_version = object["apiVersion"].as_str().unwrap_or_default();
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let kind = json!({"group": group, "version": version, "kind": object["kind"]});
    let plural =
        target.resource.find().map_or_else(|| target.resource.to_string(), |resource| resource.plural.to_owned());
    let plural = plural.split('.').next().unwrap_or_default();
    let resource = json!({"group": group, "version": version, "resource": plural});
    json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "00000000-0000-4000-8000-000000000000",
            "kind": kind, "requestKind": kind,
            "resource": resource, "requestResource": resource,
            "subResource": subresource, "name": target.name, "operation": operation,
            "userInfo": {"username": user.username, "groups": user.groups},
            "object": new, "oldObject": old, "dryRun": false,
        }
    })
}
