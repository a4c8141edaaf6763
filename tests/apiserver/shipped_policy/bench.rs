//! An API server on which one guard after the other is asked.

use std::collections::BTreeMap;
use std::fs;

use airgate::files::document::from_yaml;
use serde_json::{Value, json};

use super::situations::{Answers, Crd, Request, Row, Shipped, Situations, collection, path};
use crate::api::{Answer, Api, IMAGE, VERSION};
use crate::crds::CrdSet;
use crate::guard::Guard;
use crate::objects::{Release, cluster_version};
use crate::server::eventually;
use crate::testbed::Testbed;

const POLICY: &str = include_str!("policy.yaml");
const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
const BINDINGS: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings";
const WEBHOOKS: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/airgate";
const IRI_CRD: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/\
                       internalreleaseimages.machineconfiguration.openshift.io";
/// Who makes the situations, of whom airgate is not asked.
const SITUATION: &str = "situation";

/// Asks for the InternalReleaseImage to be deleted, as a dry run.
fn deletion(api: &Api, crd: Crd) -> Answer {
    let image = if crd == Crd::V1alpha1 { IMAGE.replace("/v1/", "/v1alpha1/") } else { IMAGE.to_owned() };
    api.delete(&format!("{image}?dryRun=All"))
}

pub struct Bench {
    /// Its client is the one who makes the situations.
    guard: Guard,
    admin: Api,
}

impl Bench {
    pub fn start(situations: &Situations) -> Self {
        let testbed = Testbed::start();
        testbed.install_crds(&CrdSet::preferred());
        let mut guard = Guard::install(testbed);
        let admin = std::mem::replace(&mut guard.api, Api::impersonating(&guard.testbed, SITUATION));
        fs::write(guard.releases().join("catalog.json"), situations.catalog().to_string()).expect("write a catalog");
        let bench = Self { guard, admin };
        // They differ by name, so those of one row do not matter to another.
        for object in situations.rows.iter().flat_map(|row| situations.objects(row)) {
            if object["kind"] == "MachineConfig" {
                bench.put(&object);
            }
        }
        bench
    }

    /// Stores an object with its status, or without one; on its way out if it says so.
    fn put(&self, object: &Value) {
        let (api, collection, path) = (&self.guard.api, collection(object), path(object));
        let mut object = object.clone();
        let going = object["metadata"].as_object_mut().expect("metadata").remove("deletionTimestamp").is_some();
        let leaves = |stored: &Value| !stored["metadata"]["deletionTimestamp"].is_null();
        if api.get(&path).as_ref().is_some_and(leaves) {
            api.merge(&path, &json!({"metadata": {"finalizers": null}})).success();
        }
        let mut set_version = |stored: &Value| {
            object["metadata"]["resourceVersion"] = stored["metadata"]["resourceVersion"].clone();
            object.clone()
        };
        let stored = match api.get(&path) {
            None => api.create(&collection, &set_version(&Value::Null)).success(),
            Some(stored) => api.replace(&path, &set_version(&stored)).success(),
        };
        if stored["kind"] != "MachineConfig" {
            api.replace(&format!("{path}/status"), &set_version(&stored)).success();
        }
        if going {
            api.delete(&path).success();
        }
    }

    /// Makes a situation, as seen by whoever judges: the policy or airgate.
    fn make(&self, objects: &[Value], seen: &impl Fn(&Self)) {
        for object in objects {
            if !object["metadata"]["deletionTimestamp"].is_null() {
                // Nothing holds it back at that moment.
                self.put(&cluster_version(&[Release::new("4.1.0", 'f').history("Completed")]));
                seen(self);
            }
            self.put(object);
        }
        if objects.iter().all(|object| object["kind"] != "ClusterVersion") {
            self.guard.api.delete(VERSION);
        }
        seen(self);
    }

    /// A situation in which both deny every deletion: no ClusterVersion.
    fn nothing_known(&self, situations: &Situations, crd: Crd) {
        let mut objects = situations.objects(situations.of(crd).next().expect("a row"));
        objects.retain(|object| object["kind"] != "ClusterVersion");
        self.make(&objects, &|_| {});
    }

    /// Sends a row's request.
    fn ask(&self, situations: &Situations, row: &Row) -> Answer {
        let case = situations.case(row);
        let dry = "?dryRun=All";
        match (row.request, &case.request.patch) {
            (Request::Crd, _) => self.admin.delete(&format!("{IRI_CRD}{dry}")),
            (Request::Real, _) => self.admin.delete(IMAGE),
            (Request::Dry, Some(patch)) => {
                self.admin.merge(&format!("{IMAGE}{dry}"), patch.merge.as_ref().expect("a merge patch"))
            }
            (Request::Dry, None) => deletion(&self.admin, row.crd),
        }
    }

    fn install_crd(&self, crd: Crd) {
        match crd {
            Crd::Shipped => {}
            Crd::Open => {
                let mut object = self.guard.api.get(IRI_CRD).expect("the CRD");
                object["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"] =
                    json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
                self.guard.api.replace(IRI_CRD, &object).success();
                let status = json!({"status": {"releases": []}});
                let opened = || self.guard.api.merge(&format!("{IMAGE}/status?dryRun=All"), &status).code == 200;
                eventually("the API server takes any status", || opened().then_some(()));
            }
            Crd::V1alpha1 => self.guard.testbed.install_iri_v1alpha1(&CrdSet::preferred()),
        }
    }

    /// The answers of the shipped policy alone.
    fn shipped(&self, situations: &Situations, crd: Crd, answers: &mut BTreeMap<String, Answer>) {
        let judge = |shipped: Shipped, answers: &mut BTreeMap<String, Answer>, seen: &dyn Fn(&Self)| {
            for row in situations.of(crd).filter(|row| row.shipped == shipped) {
                self.make(&situations.objects(row), &|bench| seen(bench));
                answers.insert(row.row.clone(), self.ask(situations, row));
            }
        };
        judge(Shipped::None, answers, &|_| {});

        let v1alpha1 =
            POLICY.replace("apiVersions: [v1], operations: [DELETE]", "apiVersions: [v1alpha1], operations: [DELETE]");
        let v1alpha1 = v1alpha1.replace(".split('@')[1]", "");
        let text = if crd == Crd::V1alpha1 { &v1alpha1 } else { POLICY };
        let objects = from_yaml(text).expect("YAML");
        for object in &objects {
            let collection = if object["spec"]["policyName"].is_null() { POLICIES } else { BINDINGS };
            self.guard.api.create(collection, object).success();
        }
        self.nothing_known(situations, crd);
        let refused = || deletion(&self.admin, crd).code != 200;
        eventually("the shipped policy is in force", || refused().then_some(()));
        judge(Shipped::Bound, answers, &Self::policy_has_seen);

        let audit = json!({"spec": {"validationActions": ["Audit"]}});
        self.guard.api.merge(&format!("{BINDINGS}/shipped"), &audit).success();
        if let Some(row) = situations.of(crd).find(|row| row.shipped == Shipped::Audit) {
            // Not where there is no ClusterVersion: that is refused all the same.
            self.make(&situations.objects(row), &Self::policy_has_seen);
            eventually("the shipped policy refuses nothing", || (!refused()).then_some(()));
        }
        judge(Shipped::Audit, answers, &Self::policy_has_seen);
        for name in ["shipped", "probe"] {
            self.guard.api.delete(&format!("{BINDINGS}/{name}")).success();
            self.guard.api.delete(&format!("{POLICIES}/{name}")).success();
        }
        self.wait_for_nobody(situations, crd);
    }

    fn wait_for_nobody(&self, situations: &Situations, crd: Crd) {
        self.nothing_known(situations, crd);
        let nobody = || deletion(&self.admin, crd).code == 200;
        eventually("the API server asks nobody", || nobody().then_some(()));
    }

    /// Waits until policies are judged with the ClusterVersion that is stored.
    fn policy_has_seen(&self) {
        let probe = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "probe", "labels": {"probe": "yes"}}});
        let wanted = match self.guard.api.get(VERSION) {
            None => "no params found".to_owned(),
            Some(version) => {
                format!("resourceVersion {} of", version["metadata"]["resourceVersion"].as_str().expect("a version"))
            }
        };
        eventually("the API server has seen the ClusterVersion", || {
            let answer = self.guard.api.create("/api/v1/namespaces/default/configmaps?dryRun=All", &probe);
            answer.body["message"].as_str()?.contains(&wanted).then_some(())
        });
    }

    /// Lets the API server ask airgate, about everybody but the one who makes the situations.
    fn register(&self, crd: Crd) {
        let code = |api: &Api| deletion(api, crd).code;
        self.guard.register_by(|_| code(&self.admin) == 403);
        let mut webhooks = self.admin.get(WEBHOOKS).expect("airgate's registration");
        let condition = json!({"name": "not-the-situation",
            "expression": format!("request.userInfo.username != '{SITUATION}'")});
        for webhook in webhooks["webhooks"].as_array_mut().expect("webhooks") {
            webhook["matchConditions"].as_array_mut().expect("matchConditions").push(condition.clone());
        }
        self.admin.replace(WEBHOOKS, &webhooks).success();
        eventually("the situation is made without airgate", || (code(&self.guard.api) == 200).then_some(()));
    }

    /// The answers of airgate alone.
    fn airgate(&self, situations: &Situations, crd: Crd, answers: &mut BTreeMap<String, Answer>) {
        for row in situations.of(crd) {
            self.make(&situations.objects(row), &Self::airgate_has_seen);
            answers.insert(row.row.clone(), self.ask(situations, row));
        }
    }

    fn airgate_has_seen(&self) {
        if self.guard.api.get(VERSION).is_none() {
            let absent = || self.guard.statusz()["facts"]["clusterVersion"]["state"] == "absent";
            eventually("airgate knows no ClusterVersion", || absent().then_some(()));
        }
        self.guard.synced();
    }

    /// All three on one CRD, one after the other.
    pub fn run(&mut self, situations: &Situations, crd: Crd, answers: &mut Answers) {
        self.install_crd(crd);
        self.shipped(situations, crd, &mut answers.shipped);
        self.guard.configure(Some(json!({"retain": "in-use"})));
        self.register(crd);
        self.airgate(situations, crd, &mut answers.in_use);
        self.guard.configure(None);
        self.airgate(situations, crd, &mut answers.default);
        self.guard.testbed.delete("validatingwebhookconfiguration/airgate");
        self.wait_for_nobody(situations, crd);
    }
}
