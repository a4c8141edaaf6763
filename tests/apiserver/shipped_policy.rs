//! The policy that OpenShift ships for the InternalReleaseImage beside airgate: one after the other on the same API
//! server, in every situation in which a cluster was seen to lose a release. The outcome is docs/shipped-policy.md.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs};

use airgate::cases::{Case, CaseFile};
use airgate::files::document::from_yaml;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::api::{Answer, Api, IMAGE, VERSION};
use crate::conditions::complete;
use crate::crds::CrdSet;
use crate::guard::Guard;
use crate::objects::{Release, cluster_version, machine_config_node, machine_config_pool};
use crate::server::eventually;
use crate::testbed::Testbed;

const ROWS: &str = include_str!("shipped_policy/rows.yaml");
const POLICY: &str = include_str!("shipped_policy/policy.yaml");
const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
const BINDINGS: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings";
const WEBHOOKS: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/airgate";
const IRI_CRD: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/\
                       internalreleaseimages.machineconfiguration.openshift.io";
/// Who makes the situations, of whom airgate is not asked.
const SITUATION: &str = "situation";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Row {
    row: String,
    /// The case whose situation and request it is.
    case: String,
    /// What it is about, where the case's name does not say that.
    text: Option<String>,
    /// The right answer, with `retain: in-use`.
    right: Verdict,
    /// The right answer of the default, where it is another.
    default: Option<Verdict>,
    /// The future policy that will give the right answer; until then it is allowed.
    not_yet: Option<String>,
    #[serde(default)]
    crd: Crd,
    #[serde(default)]
    shipped: Shipped,
    #[serde(default)]
    request: Request,
    note: Option<String>,
}

/// In the order in which the API server gets them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Crd {
    #[default]
    Shipped,
    /// With a status that the API server does not look at.
    Open,
    V1alpha1,
}

/// How the shipped policy is installed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Shipped {
    None,
    #[default]
    Bound,
    Audit,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Request {
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
enum Verdict {
    Allow,
    Warn,
    Deny,
}

impl Verdict {
    fn of(answer: &Answer) -> Self {
        match answer.code {
            200 if answer.warnings.is_empty() => Self::Allow,
            200 => Self::Warn,
            403 | 422 => Self::Deny,
            _ => panic!("neither allowed nor denied: {answer:?}"),
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Warn => "warn",
            Self::Deny => "deny",
        }
    }
}

/// What the three say, row by row.
#[derive(Default)]
struct Answers {
    shipped: BTreeMap<String, Answer>,
    in_use: BTreeMap<String, Answer>,
    default: BTreeMap<String, Answer>,
}

struct Situations {
    file: CaseFile,
    rows: Vec<Row>,
}

impl Situations {
    fn load() -> Self {
        let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("policies/release-in-use/cases/guard-cases.yaml");
        let file = CaseFile::load(&cases).expect("the guard cases");
        let rows = from_yaml(ROWS).expect("YAML").remove(0);
        Self { file, rows: serde_json::from_value(rows).expect("rows") }
    }

    fn of(&self, crd: Crd) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(move |row| row.crd == crd)
    }

    fn case(&self, row: &Row) -> &Case {
        let named = self.file.cases.iter().find(|case| case.name == row.case);
        named.unwrap_or_else(|| panic!("row {}: there is no case {:?}", row.row, row.case))
    }

    /// The objects of a row, as they are to be stored; the ClusterVersion last.
    fn objects(&self, row: &Row) -> Vec<Value> {
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
    fn catalog(&self) -> Value {
        let cases = self.rows.iter().map(|row| self.case(row));
        let releases = cases.filter_map(|case| case.releases.as_ref()).flatten().chain(&self.file.releases);
        let by_digest: BTreeMap<String, &Value> =
            releases.map(|release| (release["digest"].to_string(), release)).collect();
        json!({"apiVersion": "airgate.io/v1alpha1", "kind": "ReleaseCatalog",
            "releases": by_digest.values().collect::<Vec<_>>()})
    }
}

/// `/apis/GROUP/VERSION/RESOURCE`, with the namespace where there is one.
fn collection(object: &Value) -> String {
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let namespace = object["metadata"]["namespace"].as_str().map(|name| format!("namespaces/{name}/"));
    let namespace = namespace.unwrap_or_default();
    format!("/apis/{}/{namespace}{}s", text(&object["apiVersion"]), text(&object["kind"]).to_lowercase())
}

fn path(object: &Value) -> String {
    format!("{}/{}", collection(object), object["metadata"]["name"].as_str().expect("a name"))
}

/// With what the CRDs demand and a case leaves out.
fn storable(object: &Value) -> Value {
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

/// Asks for the InternalReleaseImage to be deleted, as a dry run.
fn deletion(api: &Api, crd: Crd) -> Answer {
    let image = if crd == Crd::V1alpha1 { IMAGE.replace("/v1/", "/v1alpha1/") } else { IMAGE.to_owned() };
    api.delete(&format!("{image}?dryRun=All"))
}

struct Bench {
    /// Its client is the one who makes the situations.
    guard: Guard,
    admin: Api,
}

impl Bench {
    fn start(situations: &Situations) -> Self {
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
    fn run(&mut self, situations: &Situations, crd: Crd, answers: &mut Answers) {
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

/// What is wrong with the answers to a row, and who gave them.
fn faults(situations: &Situations, row: &Row, answers: &Answers) -> Vec<String> {
    let expected = &situations.case(row).expect.outcome;
    let expected = if expected == "unknown" { "deny" } else { expected };
    let mut faults = vec![];
    let columns = [
        ("the shipped policy", &answers.shipped[&row.row], None),
        ("airgate", &answers.in_use[&row.row], Some(row.right)),
        ("airgate by default", &answers.default[&row.row], Some(row.default.unwrap_or(row.right))),
    ];
    for (who, answer, right) in columns {
        let (verdict, message) = (Verdict::of(answer), answer.body["message"].as_str().unwrap_or_default());
        let right = if row.not_yet.is_some() { right.and(Some(Verdict::Allow)) } else { right };
        if right.is_some_and(|right| right != verdict) {
            faults.push(format!("row {}: {who} says {verdict:?}, not {right:?}: {answer:?}", row.row));
        }
        let by = if right.is_some() { "airgate.io" } else { "ValidatingAdmissionPolicy" };
        if verdict == Verdict::Deny && !message.contains(by) {
            faults.push(format!("row {}: {who} did not say {message:?}", row.row));
        }
    }
    let in_use = Verdict::of(&answers.in_use[&row.row]).as_str();
    if in_use != expected && row.request != Request::Crd {
        faults.push(format!("row {}: airgate says {in_use}, its case {:?} expects {expected}", row.row, row.case));
    }
    faults
}

/// Why the policy's expression came to no result, where it did not.
fn breakage(answer: &Answer) -> Option<&str> {
    let message = answer.body["message"].as_str()?;
    let error = message.split_once("resulted in error: ").map(|(_, error)| error.trim());
    error.or_else(|| message.contains("no params found").then_some("no params found"))
}

const HEAD: &str = "\
# The shipped policy beside airgate

OpenShift guards the deletion of the InternalReleaseImage (IRI) with a ValidatingAdmissionPolicy of its own, which refuses it while
an entry of the IRI's status has the digest of the ClusterVersion's `status.desired.image`. airgate's policies release-in-use
and bundle-support guard the same object. This is what the two say in the situations in which a cluster was seen to lose a
release that it still needed ([the cases](../policies/release-in-use/cases/guard-cases.yaml)), measured on a real API server: an equivalent of the shipped
policy alone, then airgate alone, with `retain: in-use` (a site that cleans up after each upgrade; the right answers are for it)
and with its default, `retain: history`. A wrong answer is **bold**.

Both together: the API server asks policies first, so where the shipped policy refuses, airgate is not asked and cannot help.

";

fn document(situations: &Situations, answers: &Answers) -> String {
    let mut text = HEAD.to_owned();
    let mut notes = String::new();
    let (mut wrong, mut broken) = (0, 0);
    text.push_str("| | situation | right | shipped policy | airgate, `retain: in-use` | airgate, default |\n|---|---|---|---|---|---|\n");
    for row in &situations.rows {
        let cell = |answer: &Answer, right: Verdict, remark: Option<String>| {
            let verdict = Verdict::of(answer);
            let verdict =
                if verdict == right { verdict.as_str().to_owned() } else { format!("**{}**", verdict.as_str()) };
            remark.map_or(verdict.clone(), |remark| format!("{verdict} ({remark})"))
        };
        let title = row.text.as_deref().unwrap_or_else(|| row.case.split_once(' ').expect("an id and a name").1);
        let shipped = &answers.shipped[&row.row];
        wrong += usize::from(Verdict::of(shipped) != row.right);
        broken += usize::from(Verdict::of(shipped) == row.right && breakage(shipped).is_some());
        let shipped = cell(shipped, row.right, breakage(shipped).map(|error| format!("error: {error}")));
        let not_yet = || row.not_yet.as_ref().map(|_| "not yet".to_owned());
        let in_use = cell(&answers.in_use[&row.row], row.right, not_yet());
        let default = cell(&answers.default[&row.row], row.default.unwrap_or(row.right), not_yet());
        let right = row.right.as_str();
        writeln!(text, "| {} | {title} | {right} | {shipped} | {in_use} | {default} |", row.row).unwrap();
        if let Some(note) = &row.note {
            writeln!(notes, "- {}: {note}", row.row).unwrap();
        }
    }
    let list = |keep: fn(&Row) -> bool| {
        situations.rows.iter().filter(|row| keep(row)).map(|row| &*row.row).collect::<Vec<_>>().join(", ")
    };
    let rows = situations.rows.len();
    let missing = situations.rows.iter().filter_map(|row| Some(format!("{} ({})", row.row, row.not_yet.as_ref()?)));
    let missing = missing.collect::<Vec<_>>().join(" and ");
    write!(
        text,
        "\nThe shipped policy is wrong in {wrong} of {rows} rows. Of the {} in which it is right, {broken} are so only because its \
         expression\nbreaks, and the person reads the error. airgate lacks a policy for {missing} and is right\nin all other rows.\n\n\
         {notes}\
         - {}: today's CRD refuses such a status, so for these rows its schema was opened.\n\
         - {}: on a CRD with v1alpha1 only, as 4.21 has, whose policy compares whole pullspecs.\n\n\
         Written by a test: `AIRGATE_WRITE_DOCS=1 cargo test --test apiserver shipped_policy` writes it anew.\n",
        rows - wrong,
        list(|row| row.crd == Crd::Open),
        list(|row| row.crd == Crd::V1alpha1),
    )
    .unwrap();
    text
}

#[test]
fn airgate_is_right_where_the_shipped_policy_is_not() {
    let situations = Situations::load();
    let mut bench = Bench::start(&situations);
    let mut answers = Answers::default();
    for crd in [Crd::Shipped, Crd::Open, Crd::V1alpha1] {
        bench.run(&situations, crd, &mut answers);
    }
    let faults: Vec<String> = situations.rows.iter().flat_map(|row| faults(&situations, row, &answers)).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));

    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/shipped-policy.md");
    let measured = document(&situations, &answers);
    if env::var_os("AIRGATE_WRITE_DOCS").is_some() {
        fs::write(&path, &measured).expect("write the document");
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == measured,
        "docs/shipped-policy.md is not what was measured; with AIRGATE_WRITE_DOCS=1 this test writes it anew. Measured:\n{measured}"
    );
}
