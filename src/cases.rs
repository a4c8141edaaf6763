//! Policy cases: executable examples that an administrator can read and add without a toolchain.
//!
//! A file describes one situation (cluster, releases, now) and the cases that happen in it (request,
//! expected verdict). policies/README.md documents the format.

pub mod embedded;
mod run;

use std::collections::BTreeMap;
use std::path::Path;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

pub use run::{Outcome, run, situation};

use crate::action::upgrade::UpgradeFlags;
use crate::action::{Action, Patch, Target, User};
use crate::cluster::{NodeRegistries, RegistryAnswer};
use crate::files::document::from_yaml;
use crate::files::read_named_text;
use crate::pullspec::Digest;
use crate::settings::Settings;

/// Far more than a person writes.
const MAX_BYTES: u64 = 16 << 20;

/// One file of cases.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CaseFile {
    /// What the situation is, for a person.
    pub about: String,
    #[serde(default = "default_now")]
    pub now: Timestamp,
    #[serde(default)]
    pub config: Settings,
    /// Objects as `oc get -o yaml` prints them. What is listed of a kind is all there is of it.
    #[serde(default)]
    pub cluster: Vec<Value>,
    /// Resources that are not installed, or of which there are none.
    #[serde(default)]
    pub absent: Vec<String>,
    /// Entries of a ReleaseCatalog.
    #[serde(default)]
    pub releases: Vec<Value>,
    /// What the registries of the control-plane nodes answer; nobody asks them where this is not given.
    #[serde(default)]
    pub node_registries: Option<Registries>,
    pub cases: Vec<Case>,
}

/// What the registries of the nodes say of one release image.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Registries {
    pub digest: String,
    /// By node `holds`, `absent`, or why it could not be asked.
    pub nodes: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Case {
    pub name: String,
    /// Why the verdict is what it is, where that is not obvious.
    #[serde(default)]
    pub why: String,
    #[serde(default)]
    pub now: Option<Timestamp>,
    #[serde(default)]
    pub config: Option<Settings>,
    /// Merged over objects of the same kind and name; a new name is added.
    #[serde(default)]
    pub cluster: Vec<Value>,
    #[serde(default)]
    pub absent: Vec<String>,
    /// Objects taken away from the situation, as RESOURCE or RESOURCE/NAME: unknown in this case.
    #[serde(default)]
    pub unknown: Vec<String>,
    #[serde(default)]
    pub releases: Option<Vec<Value>>,
    /// What reading the target from registries came to, where no source on the site has it.
    pub attempt: Option<AttemptCase>,
    /// What looking for the target's components came to.
    pub components: Option<ComponentsCase>,
    #[serde(default)]
    pub node_registries: Option<Registries>,
    pub request: Request,
    pub expect: Expect,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AttemptCase {
    pub digest: String,
    #[serde(flatten)]
    pub end: AttemptEndCase,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ComponentsCase {
    /// The release's.
    pub digest: String,
    #[serde(default)]
    pub present: usize,
    /// Names.
    #[serde(default)]
    pub absent: Vec<String>,
    #[serde(default)]
    pub unknown: Vec<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum AttemptEndCase {
    /// Why no place had it.
    Failed(String),
    /// The place it is still being read from.
    Reading(String),
    /// The version that one image of a multi release says it is.
    Shard(String),
}

/// What happens. Exactly one form.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Request {
    /// `oc adm upgrade`
    pub upgrade: Option<UpgradeFlags>,
    /// `oc patch`
    pub patch: Option<PatchRequest>,
    /// `oc delete`, as RESOURCE/NAME
    pub delete: Option<String>,
    /// `oc apply -f`
    pub apply: Option<Value>,
    /// A whole AdmissionReview
    pub review: Option<Value>,
    #[serde(default)]
    pub user: User,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PatchRequest {
    /// RESOURCE/NAME
    pub target: String,
    #[serde(default)]
    pub subresource: String,
    pub merge: Option<Value>,
    pub json: Option<json_patch::Patch>,
}

/// What must come out.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Expect {
    /// `allow`, `warn`, `deny`, `unknown`, or `bad input` where there is nothing to judge
    pub outcome: String,
    /// `response.status.code`
    pub code: Option<u16>,
    /// Outcome of single policies; a policy not named may say anything, `pass` is nothing found.
    #[serde(default)]
    pub policies: BTreeMap<String, String>,
    /// Texts that the denial contains.
    #[serde(default)]
    pub message: Vec<String>,
    /// Texts that must not be in the denial or a warning.
    #[serde(default)]
    pub not: Vec<String>,
    /// Texts, each in some warning.
    #[serde(default)]
    pub warnings: Vec<String>,
}

fn default_now() -> Timestamp {
    // The day the first case was written; any moment does.
    Timestamp::constant(1_796_040_000, 0)
}

impl CaseFile {
    /// # Errors
    /// What is wrong with the file.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut documents = from_yaml(&expand(text))?;
        let (Some(document), true) = (documents.pop(), documents.is_empty()) else {
            return Err("a case file is one YAML document".into());
        };
        let file: Self =
            serde_path_to_error::deserialize(document).map_err(|e| format!("{}: {}", e.path(), e.inner()))?;
        if file.cases.is_empty() {
            return Err("cases: a case file has at least one case".into());
        }
        let settings = std::iter::once(&file.config).chain(file.cases.iter().filter_map(|case| case.config.as_ref()));
        for settings in settings {
            crate::config::check_policy_ids(&settings.policies)?;
        }
        Ok(file)
    }

    /// # Errors
    /// The file cannot be read or parsed.
    pub fn load(path: &Path) -> Result<Self, String> {
        let text = read_named_text(path, MAX_BYTES).map_err(|error| error.to_string())?;
        Self::parse(&text)
    }
}

/// `sha256:{a}` stands for a digest of 64 letters a, so that a person can tell digests apart.
fn expand(text: &str) -> String {
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("sha256:{") {
        let (before, from) = rest.split_at(at);
        expanded.push_str(before);
        match from.as_bytes() {
            [_, _, _, _, _, _, _, _, letter @ (b'0'..=b'9' | b'a'..=b'f'), b'}', ..] => {
                expanded.push_str("sha256:");
                expanded.extend(std::iter::repeat_n(char::from(*letter), 64));
                rest = &from[10..];
            }
            _ => {
                expanded.push_str(&from[..8]);
                rest = &from[8..];
            }
        }
    }
    expanded.push_str(rest);
    expanded
}

impl Registries {
    /// # Errors
    /// The digest is none.
    fn at(&self, now: Timestamp) -> Result<NodeRegistries, String> {
        let digest =
            Digest::parse(&self.digest).ok_or_else(|| format!("nodeRegistries: {} is no digest", self.digest))?;
        let answer = |(node, text): (&String, &String)| {
            let answer = match &**text {
                "holds" => RegistryAnswer::Holds,
                "absent" => RegistryAnswer::Absent,
                why => RegistryAnswer::Unknown(why.to_owned()),
            };
            (node.clone(), answer)
        };
        Ok(NodeRegistries { digest, answers: self.nodes.iter().map(answer).collect(), as_of: now })
    }
}

impl Request {
    /// The action, or `None` where the request is a whole review.
    ///
    /// # Errors
    /// Where it is not exactly one form.
    pub fn action(&self) -> Result<Option<Action>, String> {
        let forms = [
            self.upgrade.clone().map(|flags| Ok(Some(Action::Upgrade(flags)))),
            self.patch.as_ref().map(|patch| patch.action().map(Some)),
            self.delete.as_ref().map(|target| Target::parse(target).map(|target| Some(Action::Delete(target)))),
            self.apply.clone().map(|object| Ok(Some(Action::Apply(object)))),
            self.review.as_ref().map(|_| Ok(None)),
        ];
        let mut forms = forms.into_iter().flatten();
        match (forms.next(), forms.next()) {
            (Some(form), None) => form,
            _ => Err("a request is exactly one of upgrade, patch, delete, apply and review".into()),
        }
    }
}

impl PatchRequest {
    fn action(&self) -> Result<Action, String> {
        let patch = match (&self.merge, &self.json) {
            (Some(merge), None) => Patch::Merge(merge.clone()),
            (None, Some(json)) => Patch::Json(json.clone()),
            _ => return Err("a patch is exactly one of merge and json".into()),
        };
        Ok(Action::Patch { target: Target::parse(&self.target)?, patch, subresource: self.subresource.clone() })
    }
}
