//! The proof of the generated matchConditions: what they keep from airgate it would have allowed anyway, with
//! no facts at all. On the API server itself, since it alone says what a condition means.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use airgate::cases::{Case, CaseFile, situation};
use airgate::cluster::Snapshot;
use airgate::engine::{Facts, judge};
use airgate::policies::POLICIES;
use airgate::release::Catalog;
use airgate::review::{BadInput, Review};
use airgate::settings::Settings;
use airgate::verdict::Result as Outcome;
use serde_json::{Value, json};

use crate::api::{Answer, Api};
use crate::crds::CrdSet;
use crate::recorder::{Call, Recorder};
use crate::server::eventually;
use crate::testbed::Testbed;

pub const OVERRIDE: &str = "override.airgate.io";

/// An API server that asks the recorder by airgate's own rules.
pub struct Proof {
    pub api: Api,
    pub recorder: Recorder,
    stored: Option<Value>,
    pub testbed: Testbed,
}

/// What became of a review on the API server.
enum Fate {
    /// By what it was called, by webhook.
    Answered(Vec<Call>),
    /// The API server refuses the object or the request before it asks anybody.
    Refused(String),
}

impl Proof {
    pub fn start() -> Self {
        let testbed = Testbed::start();
        testbed.install_crds(&CrdSet::preferred());
        testbed.serve_iri_v1alpha1_too(&CrdSet::preferred());
        testbed.kubectl(["create", "namespace", "openshift-machine-config-operator"]).success();
        let dir = testbed.dir().join("recorder");
        let recorder = Recorder::start(&dir);
        let url = format!("https://127.0.0.1:{}", recorder.port);
        let ca = dir.join("ca.crt");
        let airgate = Command::new(env!("CARGO_BIN_EXE_airgate"));
        let printed = { airgate }
            .args(["manifests", "--url", &url, "--ca-file", ca.to_str().unwrap()])
            .output()
            .expect("run airgate manifests");
        let mut webhooks = airgate::files::document::from_yaml(&String::from_utf8(printed.stdout).unwrap()).unwrap();
        for webhook in webhooks[0]["webhooks"].as_array_mut().unwrap() {
            webhook["clientConfig"]["url"] = format!("{url}/{}", webhook["name"].as_str().unwrap()).into();
            // A call that fails must be seen here, also where airgate would have it ignored.
            webhook["failurePolicy"] = "Fail".into();
        }
        testbed.put(&webhooks[0]);
        let proof = Self { api: Api::of(&testbed), recorder, stored: None, testbed };
        let create = json!({"apiVersion": "config.openshift.io/v1", "kind": "ClusterVersion",
            "metadata": {"name": "version"}, "spec": {"clusterID": "0", "desiredUpdate": {"version": "4.1.0"}}});
        eventually("the API server asks the recorder", || {
            proof.api.create("/apis/config.openshift.io/v1/clusterversions?dryRun=All", &create).success();
            (!proof.recorder.take().is_empty()).then_some(())
        });
        proof
    }

    /// Sends what the review's request would have been, over the review's old object; nothing is changed by it.
    fn replay(&mut self, review: &Value) -> Fate {
        let request = &review["request"];
        let text = |pointer: &str| request.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (group, version) = (text("/resource/group"), text("/resource/version"));
        let (old, new) = (&request["oldObject"], &request["object"]);
        let metadata = |field: &str| {
            let found = [new, old].iter().find_map(|object| object["metadata"][field].as_str());
            found.unwrap_or_default().to_owned()
        };
        let (name, namespace) = (metadata("name"), metadata("namespace"));
        let api = if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
        let within = if namespace.is_empty() { String::new() } else { format!("/namespaces/{namespace}") };
        let collection = format!("{api}{within}/{}", text("/resource/resource"));
        let mut path = format!("{collection}/{name}");
        if name.is_empty() || (old.is_null() && request["operation"] != "CREATE") {
            return Fate::Refused("no API server sends such a review".to_owned());
        }
        if let Err(refused) = self.store(&collection, &path, old) {
            return Fate::Refused(format!("the old object: {refused}"));
        }
        if !request["subResource"].as_str().unwrap_or_default().is_empty() {
            path = format!("{path}/{}", text("/subResource"));
        }
        self.recorder.take();
        let answer = match &*text("/operation") {
            "CREATE" => self.api.create(&format!("{collection}?dryRun=All"), &complete(new)),
            "UPDATE" => {
                let mut new = complete(new);
                let stored = self.stored.as_ref().expect("an old object");
                if collection == CRDS {
                    new["spec"] = stored["spec"].clone();
                }
                for field in ["resourceVersion", "uid", "creationTimestamp", "deletionTimestamp"] {
                    new["metadata"][field] = stored["metadata"][field].clone();
                }
                self.api.replace(&format!("{path}?dryRun=All"), &new)
            }
            "DELETE" => self.api.delete(&format!("{path}?dryRun=All")),
            other => return Fate::Refused(format!("operation {other:?}")),
        };
        match answer {
            Answer { code: 200..300, .. } => Fate::Answered(self.recorder.take()),
            Answer { body, .. } => Fate::Refused(body["message"].to_string()),
        }
    }

    /// Puts the old object there with its status, on its way out if it is; or nothing.
    pub fn store(&mut self, collection: &str, path: &str, old: &Value) -> Result<(), String> {
        let going = old.pointer("/metadata/deletionTimestamp").is_some();
        if collection == CRDS {
            return self.annotate_crd(path, old);
        }
        let old = &if old.is_null() { Value::Null } else { complete(old) };
        let same = |stored: &Value| {
            ["spec", "status", "data"].iter().all(|part| stored[part] == old[part])
                && ["name", "annotations", "labels", "finalizers"]
                    .iter()
                    .all(|field| stored["metadata"][field] == old["metadata"][field])
                && stored["metadata"]["deletionTimestamp"].is_null()
                && !going
                && collection.ends_with(&format!("/{}s", stored["kind"].as_str().unwrap_or_default().to_lowercase()))
        };
        if self.stored.as_ref().is_some_and(same) {
            return Ok(());
        }
        for collection in [collection, "/apis/config.openshift.io/v1/clusterversions"] {
            let left = self.api.get(collection).unwrap_or_default();
            for item in left["items"].as_array().into_iter().flatten() {
                let path = format!("{collection}/{}", item["metadata"]["name"].as_str().unwrap_or_default());
                self.api.delete(&path);
                self.api.merge(&path, &json!({"metadata": {"finalizers": null}}));
            }
        }
        self.stored = None;
        if old.is_null() {
            return Ok(());
        }
        let mut object = old.clone();
        let metadata = object["metadata"].as_object_mut().ok_or("it has no metadata")?;
        metadata.retain(|field, _| ["name", "annotations", "labels", "finalizers"].contains(&&**field));
        if going && metadata.get("finalizers").is_none_or(|list| list.as_array().is_none_or(Vec::is_empty)) {
            metadata.insert("finalizers".to_owned(), json!(["test.example/stays"]));
        }
        let refused = |answer: Answer| match answer {
            Answer { code: 200..300, body, .. } => Ok(body),
            Answer { body, .. } => Err(body["message"].to_string()),
        };
        let mut stored = refused(self.api.create(collection, &object))?;
        if !old["status"].is_null() {
            object["metadata"]["resourceVersion"] = stored["metadata"]["resourceVersion"].clone();
            stored = refused(self.api.replace(&format!("{path}/status"), &object))?;
        }
        if going {
            refused(self.api.delete(path))?;
            stored = self.api.get(path).ok_or("it is gone already")?;
        }
        self.stored = Some(stored);
        Ok(())
    }

    /// The CRDs are there already, and everything else would go with them: only their annotation changes.
    fn annotate_crd(&mut self, path: &str, old: &Value) -> Result<(), String> {
        if old["metadata"]["deletionTimestamp"].is_string() {
            return Err("a CRD on its way out takes its objects along".to_owned());
        }
        let annotation = &old["metadata"]["annotations"]["airgate.io/override"];
        let patch = json!({"metadata": {"annotations": {"airgate.io/override": annotation}}});
        match self.api.merge(path, &patch) {
            Answer { code: 200..300, body, .. } => self.stored = Some(body),
            Answer { body, .. } => return Err(body["message"].to_string()),
        }
        Ok(())
    }
}

const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// A case leaves out what no verdict rests on; the CRDs demand it.
pub fn complete(object: &Value) -> Value {
    let mut object = object.clone();
    let fill = |value: &mut Value, field: &str, default: Value| {
        if let Some(fields) = value.as_object_mut() {
            fields.entry(field).or_insert(default);
        }
    };
    let conditions = |value: &mut Value| {
        for condition in value["conditions"].as_array_mut().into_iter().flatten() {
            fill(condition, "lastTransitionTime", json!("2026-01-01T00:00:00Z"));
            fill(condition, "reason", json!("Given"));
            fill(condition, "message", json!(""));
        }
    };
    if !object["status"].is_object() && object["kind"] != "ClusterVersion" {
        return object;
    }
    if object["kind"] == "ClusterVersion" {
        fill(&mut object, "spec", json!({}));
        fill(&mut object["spec"], "clusterID", json!("8f4b1d2e-0000-4000-8000-000000000000"));
    }
    let Some(status) = object.get_mut("status").filter(|status| status.is_object()) else { return object };
    conditions(status);
    for list in ["releases", "conditionalUpdates"] {
        // Not by index, which would add a null where there is none.
        status.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten().for_each(conditions);
    }
    if object["kind"] == "ClusterVersion" {
        let status = &mut object["status"];
        fill(status, "availableUpdates", Value::Null);
        fill(status, "observedGeneration", json!(1));
        fill(status, "versionHash", json!("hash"));
        for entry in status["history"].as_array_mut().into_iter().flatten() {
            fill(entry, "startedTime", json!("2026-01-01T00:00:00Z"));
            let completed = entry["state"] == "Completed";
            fill(entry, "completionTime", if completed { json!("2026-01-01T01:00:00Z") } else { Value::Null });
            fill(entry, "verified", json!(false));
        }
        for update in status["conditionalUpdates"].as_array_mut().into_iter().flatten() {
            for risk in update["risks"].as_array_mut().into_iter().flatten() {
                fill(risk, "url", json!("https://risk.example"));
                fill(risk, "message", json!("It is known."));
                fill(risk, "matchingRules", json!([{"type": "Always"}]));
            }
        }
    }
    object
}

/// What an airgate says that knows nothing of cluster and releases: allowed or not, or that it cannot read it.
fn allowed_without_facts(review: &Value) -> Result<bool, BadInput> {
    let (cluster, catalog) = (Snapshot::nothing("not asked"), Catalog::new([]));
    let (settings, now) = (&Settings::default(), jiff::Timestamp::now());
    let judged = judge(review.to_string().as_bytes(), Facts::of(&cluster, &catalog, settings, now))?;
    Ok(judged.verdict.allowed())
}

/// Whether some policy has anything to say about it.
fn guarded(review: &Value) -> bool {
    let body = review.to_string();
    let touches = |review: Review<'_>| POLICIES.iter().any(|policy| policy.guards(&review.subject));
    // What cannot be read is refused.
    Review::decode(body.as_bytes(), &Snapshot::nothing("not asked")).map_or(true, touches)
}

fn case_files() -> Vec<(PathBuf, CaseFile)> {
    let mut files = vec![];
    let policies = Path::new(env!("CARGO_MANIFEST_DIR")).join("policies");
    for policy in fs::read_dir(policies).unwrap() {
        let Ok(cases) = fs::read_dir(policy.unwrap().path().join("cases")) else { continue };
        files.extend(
            cases.map(|file| file.unwrap().path()).filter(|path| path.extension().is_some_and(|e| e == "yaml")),
        );
    }
    files.sort();
    let load = |path: PathBuf| {
        let file = CaseFile::load(&path).unwrap_or_else(|fault| panic!("{}: {fault}", path.display()));
        (path, file)
    };
    files.into_iter().map(load).collect()
}

#[derive(Default)]
struct Tally {
    matched: usize,
    unmatched: usize,
    schemaless: bool,
    /// What the API server refuses by itself, with its reason.
    refused: BTreeMap<String, String>,
}

impl Proof {
    fn check(&mut self, tally: &mut Tally, name: &str, file: &CaseFile, case: &Case) {
        let situation = situation(file, case).unwrap_or_else(|fault| panic!("{name}: {fault}"));
        // What is no review never reaches the API server either.
        let Ok(review) = &situation.review else { return };
        let verdict_of = |review: &Value| -> Option<Outcome> {
            let cluster = situation.state.snapshot();
            let (catalog, settings, now) = (&situation.catalog, &situation.settings, situation.now);
            let judged = judge(review.to_string().as_bytes(), Facts::of(&cluster, catalog, settings, now));
            judged.ok().map(|judged| judged.verdict.result)
        };
        match self.replay(review) {
            Fate::Refused(why) => {
                let short: String = why.chars().take(120).collect();
                tally.refused.insert(name.to_owned(), short);
            }
            Fate::Answered(calls) if calls.is_empty() => {
                tally.unmatched += 1;
                let verdict = allowed_without_facts(review);
                // Only a CRD can refuse values of the wrong type: conditions take them for absent.
                let schema = tally.schemaless && verdict.as_ref().is_err_and(|bad| bad.malformed_object);
                assert!(verdict == Ok(true) || schema, "{name}: never reaches airgate, which says {verdict:?}");
            }
            Fate::Answered(calls) => {
                tally.matched += 1;
                assert_eq!(calls.len(), 1, "{name}: one webhook is asked, not {calls:?}");
                let (webhook, asked) = &calls[0];
                assert_eq!(
                    webhook != OVERRIDE,
                    guarded(asked),
                    "{name}: {webhook} is asked for nothing, or too little"
                );
                let user = &review["request"]["userInfo"];
                let mut asked = asked.clone();
                asked["request"]["userInfo"] = user.clone();
                // The API server counts generations by itself; a case says how many there were.
                for object in ["object", "oldObject"] {
                    let generation = &review["request"][object]["metadata"]["generation"];
                    if let Some(metadata) = asked["request"][object]["metadata"].as_object_mut() {
                        metadata.insert("generation".to_owned(), generation.clone());
                    }
                }
                assert_eq!(
                    verdict_of(&asked),
                    verdict_of(review),
                    "{name}: the real review is judged otherwise\n{asked:#}"
                );
            }
        }
    }
}

impl Proof {
    /// From here on the API server stores anything, so that conditions meet what today's CRDs refuse.
    fn open_schemas(&self) {
        for name in [
            "clusterversions.config.openshift.io",
            "internalreleaseimages.machineconfiguration.openshift.io",
            "imagedigestmirrorsets.config.openshift.io",
        ] {
            let path = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}");
            let mut crd = self.api.get(&path).expect("a CRD");
            for version in crd["spec"]["versions"].as_array_mut().expect("versions") {
                version["schema"] = json!({"openAPIV3Schema": {"type": "object",
                    "x-kubernetes-preserve-unknown-fields": true}});
            }
            self.api.replace(&path, &crd).success();
            let (resource, group) = name.split_once('.').expect("a resource and its group");
            let kind = crd["spec"]["names"]["kind"].clone();
            let odd =
                json!({"apiVersion": format!("{group}/v1"), "kind": kind, "metadata": {"name": "odd"}, "spec": 7});
            eventually("anything is stored", || {
                let answer = self.api.create(&format!("/apis/{group}/v1/{resource}?dryRun=All"), &odd);
                (answer.code == 201).then_some(())
            });
        }
    }
}

#[test]
fn what_the_conditions_keep_from_airgate_needs_no_verdict() {
    let mut proof = Proof::start();
    let mut tally = Tally::default();
    let files = case_files();
    let mut cases: Vec<(String, &CaseFile, &Case)> = vec![];
    for (path, file) in &files {
        let stem = path.file_stem().unwrap().to_str().unwrap();
        cases.extend(file.cases.iter().map(|case| (format!("{stem}: {}", case.name), file, case)));
    }
    for (name, file, case) in &cases {
        proof.check(&mut tally, name, file, case);
    }
    proof.named_edits();
    tell("with their schemas", &tally);
    assert!(tally.matched > 0 && tally.unmatched > 0);

    proof.open_schemas();
    let mut odd = Tally { schemaless: true, ..Tally::default() };
    for (name, file, case) in cases.iter().filter(|(name, ..)| tally.refused.contains_key(name)) {
        proof.check(&mut odd, name, file, case);
    }
    tell("without their schemas", &odd);
    // Reviews that are none, and objects that not even a condition can read: refused, not let through.
    assert!(odd.refused.len() * 30 <= cases.len(), "{:#?}", odd.refused);
}

/// Not by eprintln, which the test runner swallows.
fn tell(how: &str, Tally { matched, unmatched, refused, .. }: &Tally) {
    let refused_count = refused.len();
    let text = format!(
        "conditions, CRDs {how}: {matched} cases reach airgate, {unmatched} do not, {refused_count} the API server refuses itself: {refused:#?}"
    );
    writeln!(io::stderr(), "{text}").unwrap();
}
