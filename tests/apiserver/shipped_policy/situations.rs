//! The situations, row by row, and what is right in each.

use std::collections::BTreeMap;
use std::path::Path;

use airgate::cases::{Case, CaseFile};
use airgate::files::document::from_yaml;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::api::Answer;
use crate::conditions::complete;
use crate::objects::{machine_config_node, machine_config_pool};

const ROWS: &str = include_str!("rows.yaml");

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Row {
    pub row: String,
    /// The case whose situation and request it is.
    pub case: String,
    /// What it is about, where the case's name does not say that.
    pub text: Option<String>,
    /// The right answer, with `retain: in-use`.
    pub right: Verdict,
    /// The right answer of the default, where it is another.
    pub default: Option<Verdict>,
    #[serde(default)]
    pub crd: Crd,
    #[serde(default)]
    pub shipped: Shipped,
    #[serde(default)]
    pub request: Request,
    pub note: Option<String>,
}

/// In the order in which the API server gets them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Crd {
    #[default]
    Shipped,
    /// With a status that the API server does not look at.
    Open,
    V1alpha1,
}

/// How the shipped policy is installed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Shipped {
    None,
    #[default]
    Bound,
    Audit,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Request {
    /// The case's, as a dry run.
    #[default]
    Dry,
    /// The case's.
    Real,
    /// Deletion of the InternalReleaseImage's CRD, as a dry run.
    Crd,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    Allow,
    Warn,
    Deny,
}

impl Verdict {
    pub fn of(answer: &Answer) -> Self {
        match answer.code {
            200 if answer.warnings.is_empty() => Self::Allow,
            200 => Self::Warn,
            403 | 422 => Self::Deny,
            _ => panic!("neither allowed nor denied: {answer:?}"),
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Warn => "warn",
            Self::Deny => "deny",
        }
    }
}

/// What the three say, row by row.
#[derive(Default)]
pub struct Answers {
    pub shipped: BTreeMap<String, Answer>,
    pub in_use: BTreeMap<String, Answer>,
    pub default: BTreeMap<String, Answer>,
}

pub struct Situations {
    pub file: CaseFile,
    pub rows: Vec<Row>,
}

impl Situations {
    pub fn load() -> Self {
        let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("policies/release-in-use/cases/guard-cases.yaml");
        let file = CaseFile::load(&cases).expect("the guard cases");
        let rows = from_yaml(ROWS).expect("YAML").remove(0);
        Self { file, rows: serde_json::from_value(rows).expect("rows") }
    }

    pub fn of(&self, crd: Crd) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(move |row| row.crd == crd)
    }

    pub fn case(&self, row: &Row) -> &Case {
        let named = self.file.cases.iter().find(|case| case.name == row.case);
        named.unwrap_or_else(|| panic!("row {}: there is no case {:?}", row.row, row.case))
    }

    /// The objects of a row, as they are to be stored; the ClusterVersion last.
    pub fn objects(&self, row: &Row) -> Vec<Value> {
        let case = self.case(row);
        let mut objects = self.file.cluster.clone();
        let mut changes = case.cluster.clone();
        changes.extend(case.request.review.as_ref().map(|review| review["request"]["oldObject"].clone()));
        for change in &changes {
            let same = |object: &&mut Value| {
                object["kind"] == change["kind"] && object["metadata"]["name"] == change["metadata"]["name"]
            };
            match objects.iter_mut().find(same) {
                Some(object) => json_patch::merge(object, change),
                None => objects.push(change.clone()),
            }
        }
        objects.retain(|object| !case.absent.iter().any(|absent| collection(object).ends_with(&format!("/{absent}"))));
        objects.sort_by_key(|object| object["kind"] == "ClusterVersion");
        objects.iter().map(storable).collect()
    }

    /// All releases that some row knows.
    pub fn catalog(&self) -> Value {
        let cases = self.rows.iter().map(|row| self.case(row));
        let releases = cases.filter_map(|case| case.releases.as_ref()).flatten().chain(&self.file.releases);
        let by_digest: BTreeMap<String, &Value> =
            releases.map(|release| (release["digest"].to_string(), release)).collect();
        json!({"apiVersion": "airgate.io/v1alpha1", "kind": "ReleaseCatalog",
            "releases": by_digest.values().collect::<Vec<_>>()})
    }
}

/// `/apis/GROUP/VERSION/RESOURCE`, with the namespace where there is one.
pub fn collection(object: &Value) -> String {
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let namespace = object["metadata"]["namespace"].as_str().map(|name| format!("namespaces/{name}/"));
    let namespace = namespace.unwrap_or_default();
    format!("/apis/{}/{namespace}{}s", text(&object["apiVersion"]), text(&object["kind"]).to_lowercase())
}

pub fn path(object: &Value) -> String {
    format!("{}/{}", collection(object), object["metadata"]["name"].as_str().expect("a name"))
}

/// With what the CRDs demand and a case leaves out.
pub fn storable(object: &Value) -> Value {
    let name = object["metadata"]["name"].as_str().expect("a name");
    let mut whole = match object["kind"].as_str() {
        Some("MachineConfigNode") => {
            let mut node = machine_config_node(name, "master", &[]);
            node["status"].as_object_mut().expect("a status").remove("internalReleaseImage");
            node
        }
        Some("MachineConfigPool") => machine_config_pool(name, "", ""),
        Some("MachineConfig") => json!({"spec": {}}),
        _ => return complete(object),
    };
    json_patch::merge(&mut whole, object);
    whole
}
