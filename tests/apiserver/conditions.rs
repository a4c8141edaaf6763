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
use airgate::review::Review;
use airgate::settings::Settings;
use airgate::verdict::Result as Outcome;
use serde_json::{Value, json};

use crate::api::{Answer, Api};
use crate::crds::CrdSet;
use crate::objects::{Release, cluster_version, internal_release_image};
use crate::recorder::{Call, Recorder};
use crate::server::eventually;
use crate::testbed::Testbed;

const OVERRIDE: &str = "override.airgate.io";

/// An API server that asks the recorder by airgate's own rules.
struct Proof {
    api: Api,
    recorder: Recorder,
    stored: Option<Value>,
    _testbed: Testbed,
}

/// What became of a review on the API server.
enum Fate {
    /// By what it was called, by webhook.
    Answered(Vec<Call>),
    /// The API server refuses the object or the request before it asks anybody.
    Refused(String),
}

impl Proof {
    fn start() -> Self {
        let testbed = Testbed::start();
        testbed.install_crds(&CrdSet::preferred());
        testbed.serve_iri_v1alpha1_too(&CrdSet::preferred());
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
        let proof = Self { api: Api::of(&testbed), recorder, stored: None, _testbed: testbed };
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
        let collection = format!("/apis/{group}/{version}/{}", text("/resource/resource"));
        let (old, new) = (&request["oldObject"], &request["object"]);
        let name = [new, old].iter().find_map(|object| object["metadata"]["name"].as_str()).unwrap_or_default();
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
    fn store(&mut self, collection: &str, path: &str, old: &Value) -> Result<(), String> {
        let going = old.pointer("/metadata/deletionTimestamp").is_some();
        let old = &if old.is_null() { Value::Null } else { complete(old) };
        let same = |stored: &Value| {
            ["spec", "status"].iter().all(|part| stored[part] == old[part])
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
}

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

/// The verdict of an airgate that knows nothing of cluster and releases.
fn allowed_without_facts(review: &Value) -> bool {
    let (cluster, catalog) = (Snapshot::nothing("not asked"), Catalog::new([]));
    let facts =
        Facts { cluster: &cluster, catalog: &catalog, settings: &Settings::default(), now: jiff::Timestamp::now() };
    judge(review.to_string().as_bytes(), facts).is_ok_and(|judged| judged.verdict.allowed())
}

/// Whether some policy has anything to say about it.
fn guarded(review: &Value) -> bool {
    let body = review.to_string();
    let nothing = Snapshot::nothing("no facts");
    let review = Review::decode(body.as_bytes(), &nothing).expect("a review");
    POLICIES.iter().any(|policy| policy.guards(&review.subject))
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
            let judged = judge(review.to_string().as_bytes(), Facts { cluster: &cluster, catalog, settings, now });
            judged.ok().map(|judged| judged.verdict.result)
        };
        match self.replay(review) {
            Fate::Refused(why) => {
                let short: String = why.chars().take(120).collect();
                tally.refused.insert(name.to_owned(), short);
            }
            Fate::Answered(calls) if calls.is_empty() => {
                tally.unmatched += 1;
                assert!(allowed_without_facts(review), "{name}: never reaches airgate, which would not allow it");
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
    /// Stores the object and tells which webhooks are asked about each edit of it.
    fn check_edits<const N: usize>(&mut self, collection: &str, object: Value, edits: [(Value, &[&str]); N]) {
        let path = format!("{collection}/{}", object["metadata"]["name"].as_str().unwrap());
        self.store(collection, &path, &object).unwrap();
        for (patch, expected) in edits {
            self.recorder.take();
            let subresource = if patch["status"].is_null() { "" } else { "/status" };
            self.api.merge(&format!("{path}{subresource}?dryRun=All"), &patch).success();
            let asked: Vec<String> = self.recorder.take().into_iter().map(|(webhook, _)| webhook).collect();
            assert_eq!(asked, expected, "{patch} of {object:#}");
        }
    }

    fn named_edits(&mut self) {
        let (old, new) = (Release::new("4.18.12", '1'), Release::new("4.18.20", '2'));
        let cluster_version = |desired: Value| {
            let mut version = cluster_version(&[old.history("Completed")]);
            version["spec"]["desiredUpdate"] = desired;
            version
        };
        let desired = |update: Value| json!({"spec": {"desiredUpdate": update}});
        let step: &[&str] = &["clusterversion.airgate.io"];
        let record: &[&str] = &[OVERRIDE];
        let annotate = |text: Value| json!({"metadata": {"annotations": {"airgate.io/override": text}}});
        let versions = "/apis/config.openshift.io/v1/clusterversions";
        let target = json!({"version": "", "image": new.image, "architecture": "", "force": true});
        self.check_edits(versions, cluster_version(target), [
            (desired(Value::Null), &[]),
            (desired(json!({"version": null, "image": null, "architecture": null, "force": null})), &[]),
            (desired(json!({"version": "", "image": "", "architecture": "", "force": false})), &[]),
            (desired(json!({"acceptRisks": [{"name": "RiskA"}]})), &[]),
            (desired(json!({"image": null, "acceptRisks": [{"name": "RiskA"}]})), &[]),
            (desired(json!({"force": false})), &[]),
            (desired(json!({"force": null})), &[]),
            (json!({"spec": {"channel": "stable-4.19"}}), &[]),
            (json!({"spec": {"upstream": "https://updates.example/graph"}}), &[]),
            (json!({"spec": {"capabilities": {"baselineCapabilitySet": "None"}}}), &[]),
            (json!({"spec": {"overrides": [{"group": "apps", "kind": "Deployment", "namespace": "ns", "name": "n",
                "unmanaged": true}]}}), &[]),
            (json!({"metadata": {"labels": {"a": "b"}}}), &[]),
            (json!({"metadata": {"annotations": {"a": "b"}}}), &[]),
            (json!({"metadata": {"finalizers": ["test.example/stays"]}}), &[]),
            (json!({"status": {"desired": new.update(), "history": [new.history("Completed")]}}), &[]),
            (annotate(json!("{}")), record),
            (desired(json!({"version": "4.18.20"})), step),
            (desired(json!({"image": old.image})), step),
            (desired(json!({"mode": "Preflight"})), step),
        ]);
        let mut forced = annotate(json!("{}"));
        forced["spec"] = desired(json!({"image": new.image}))["spec"].clone();
        self.check_edits(
            versions,
            cluster_version(Value::Null),
            [
                (desired(json!({})), &[]),
                (desired(json!({"acceptRisks": [{"name": "RiskA"}]})), &[]),
                (desired(json!({"version": "", "image": "", "architecture": "", "force": false})), &[]),
                (desired(json!({"force": true})), &[]),
                (annotate(json!("")), &[]),
                (annotate(json!("{}")), record),
                (forced, step),
                (desired(json!({"image": new.image})), step),
                (desired(json!({"version": "4.18.12", "architecture": "Multi"})), step),
            ],
        );
        let images = "/apis/machineconfiguration.openshift.io/v1/internalreleaseimages";
        let releases = |releases: &[&Release]| json!({"spec": internal_release_image(releases)["spec"]});
        let third = Release::new("4.19.9", '3');
        let drops: &[&str] = &["internalreleaseimage.airgate.io"];
        let holds = internal_release_image(&[&old, &new]);
        self.check_edits(
            images,
            holds.clone(),
            [
                (releases(&[&old, &new, &third]), &[]),
                (releases(&[&third, &new, &old]), &[]),
                (json!({"metadata": {"labels": {"a": "b"}}}), &[]),
                (json!({"metadata": {"finalizers": ["test.example/stays"]}}), &[]),
                (json!({"status": {"releases": internal_release_image(&[&third])["status"]["releases"]}}), &[]),
                (annotate(json!("{}")), record),
                (releases(&[&old]), drops),
                (releases(&[&old, &third]), drops),
            ],
        );
        let mut going = holds;
        going["metadata"]["deletionTimestamp"] = "2026-11-30T12:00:00Z".into();
        self.check_edits(images, going, [(releases(&[&third]), &[]), (json!({"metadata": {"finalizers": null}}), &[])]);
    }
}

#[test]
fn what_the_conditions_keep_from_airgate_needs_no_verdict() {
    let mut proof = Proof::start();
    let mut tally = Tally::default();
    for (path, file) in case_files() {
        for case in &file.cases {
            let stem = path.file_stem().unwrap().to_str().unwrap();
            proof.check(&mut tally, &format!("{stem}: {}", case.name), &file, case);
        }
    }
    let Tally { matched, unmatched, refused } = &tally;
    let total = matched + unmatched + refused.len();
    writeln!(
        io::stderr(),
        "conditions: {matched} cases reach airgate, {unmatched} do not, {} the API server refuses itself: {refused:#?}",
        refused.len()
    )
    .unwrap();
    assert!(refused.len() * 20 <= total, "{} of {total} cases are no requests at all", refused.len());
    assert!(*matched > 0 && *unmatched > 0, "{matched} and {unmatched}");
    proof.named_edits();
}
