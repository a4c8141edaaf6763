//! From a world to what the engine takes, and from what it answers to what is compared.

use std::sync::Arc;

use airgate::cluster::{Fact, Provenance, Snapshot};
use airgate::engine::{self, Facts, Judged};
use airgate::policies::POLICIES;
use airgate::pullspec::Digest;
use airgate::release::{Catalog, Release, Source};
use airgate::settings::Settings;
use airgate::state::State;
use airgate::version::Version;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::generate::POLICY_IDS;
use crate::reference::{Answer, Outcome};
use crate::world::{self, Bundle, CatalogEntry, ClusterVersion, Iri, Kind, NOW, Request, Seen, Target, Thing, World};

pub const UID: &str = "0df28fbd-5f5f-11e8-bc74-36e6bb280816";

/// Everything the engine is called with.
#[derive(Debug)]
pub struct Situation {
    pub review: Value,
    pub snapshot: Snapshot,
    pub catalog: Catalog,
    pub settings: Settings,
    pub now: Timestamp,
}

impl Situation {
    pub fn of(world: &World) -> Self {
        let now: Timestamp = NOW.parse().unwrap();
        Self {
            review: review(world),
            snapshot: snapshot(world, now),
            catalog: catalog(&world.catalog, now),
            settings: settings(&world.settings),
            now,
        }
    }

    pub fn judge(&self) -> Judged {
        self.judge_bytes(self.review.to_string().as_bytes()).unwrap()
    }

    pub fn judge_bytes(&self, body: &[u8]) -> Result<Judged, airgate::review::BadInput> {
        let facts = Facts::of(&self.snapshot, &self.catalog, &self.settings, self.now);
        engine::judge(body, facts)
    }
}

/// The part of the engine's answer that the model gives too.
pub fn answer(judged: &Judged) -> Answer {
    let outcome = |result: &airgate::verdict::Result| match json!(result).as_str().unwrap() {
        "allow" => Outcome::Pass,
        "warn" => Outcome::Warn,
        "deny" => Outcome::Deny,
        "unknown" => Outcome::Unknown,
        other => panic!("the engine answers {other}"),
    };
    let mut answer = Answer { result: outcome(&judged.verdict.result), ..Answer::default() };
    answer.code = judged.response.status.as_ref().map(|status| status.code);
    for finding in &judged.verdict.findings {
        let worst = answer.policies.entry(finding.policy).or_default();
        *worst = outcome(&finding.outcome).max(*worst);
    }
    answer
}

fn review(world: &World) -> Value {
    let (operation, old, new) = match &world.request {
        Request::CreateCv(new) => ("CREATE", None, Some(cluster_version(new))),
        Request::UpdateCv(old, new) => ("UPDATE", Some(cluster_version(old)), Some(cluster_version(new))),
        Request::DeleteCv(old) => ("DELETE", Some(cluster_version(old)), None),
        Request::CreateIri(new) => ("CREATE", None, Some(iri(new))),
        Request::UpdateIri(old, new) => ("UPDATE", Some(iri(old)), Some(iri(new))),
        Request::DeleteIri(old) => ("DELETE", Some(iri(old)), None),
        Request::Create(new) => ("CREATE", None, Some(thing(new))),
        Request::Update(old, new) => ("UPDATE", Some(thing(old)), Some(thing(new))),
        Request::Delete(old) => ("DELETE", Some(thing(old)), None),
    };
    let object = new.as_ref().or(old.as_ref()).unwrap();
    let (group, version) = object["apiVersion"].as_str().unwrap().split_once('/').unwrap_or(("", "v1"));
    let resource = format!("{}s", object["kind"].as_str().unwrap().to_lowercase());
    let kind = json!({"group": group, "version": version, "kind": object["kind"]});
    let resource = json!({"group": group, "version": version, "resource": resource});
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": UID, "kind": kind, "resource": resource, "requestKind": kind, "requestResource": resource,
        "name": object["metadata"]["name"], "operation": operation,
        "userInfo": {"username": world.user, "groups": world.groups}, "dryRun": world.dry_run,
        "object": new, "oldObject": old,
    }})
}

fn metadata(name: &str, annotation: &str, terminating: bool) -> Value {
    let mut metadata = json!({"name": name, "uid": "7", "generation": 3});
    if !annotation.is_empty() {
        metadata["annotations"] = json!({"airgate.io/override": annotation});
    }
    if terminating {
        metadata["deletionTimestamp"] = json!("2026-12-01T11:59:00Z");
    }
    metadata
}

/// As a merge patch of `oc` leaves it: what is empty may be there as "" or not at all.
fn target(target: &Target) -> Value {
    let mut value = json!({"version": target.version, "image": target.image, "architecture": target.architecture,
        "force": target.force});
    if target == &Target::default() {
        return Value::Null;
    }
    if !target.mode.is_empty() {
        value["mode"] = json!(target.mode);
    }
    if target.accept_risks {
        value["acceptRisks"] = json!([{"name": "RiskA"}]);
    }
    value
}

fn release(release: &world::Release) -> Value {
    let mut value = json!({"version": release.version, "image": release.image});
    if !release.architecture.is_empty() {
        value["architecture"] = json!(release.architecture);
    }
    value
}

fn cluster_version(cv: &ClusterVersion) -> Value {
    let history = cv.history.iter().map(|entry| {
        let mut value = json!({"state": entry.state, "startedTime": "2026-11-01T10:00:00Z", "verified": true,
            "image": entry.image});
        if !entry.version.is_empty() {
            value["version"] = json!(entry.version);
        }
        value
    });
    let conditional = cv.conditional.iter().map(|update| {
        json!({"release": release(&update.release),
            "risks": [{"name": "RiskA", "message": "m", "url": "https://example.com", "matchingRules": []}],
            "conditions": [{"type": "Recommended", "status": update.recommended, "reason": "R"}]})
    });
    let conditions = [("ReleaseAccepted", &cv.release_accepted), ("RetrievedUpdates", &cv.retrieved_updates)];
    let conditions = conditions.iter().filter(|(_, status)| !status.is_empty());
    let conditions: Vec<_> = conditions.map(|(kind, status)| json!({"type": kind, "status": status})).collect();
    json!({"apiVersion": "config.openshift.io/v1", "kind": "ClusterVersion",
        "metadata": metadata(&cv.name, &cv.annotation, cv.terminating),
        "spec": {"clusterID": "c", "channel": cv.channel, "upstream": cv.upstream, "desiredUpdate": target(&cv.target)},
        "status": {"desired": release(&cv.desired), "history": history.collect::<Vec<_>>(),
            "availableUpdates": cv.available.iter().map(release).collect::<Vec<_>>(),
            "conditionalUpdates": conditional.collect::<Vec<_>>(), "conditions": conditions}})
}

fn bundles(bundles: &[Bundle]) -> Vec<Value> {
    let bundle = |bundle: &Bundle| {
        let mut value = json!({"name": bundle.name});
        if !bundle.image.is_empty() {
            value["image"] = json!(bundle.image);
        }
        if bundle.state.is_empty() {
            return value;
        }
        let states = ["Mounted", "Installing", "Available", "Removing", "Degraded"];
        let status = |state| if state == bundle.state { "True" } else { "False" };
        value["conditions"] = states.iter().map(|state| json!({"type": state, "status": status(*state)})).collect();
        value
    };
    bundles.iter().map(bundle).collect()
}

fn iri(iri: &Iri) -> Value {
    let version = if iri.v1alpha1 { "v1alpha1" } else { "v1" };
    let spec: Vec<_> = iri.spec.iter().map(|name| json!({"name": name})).collect();
    json!({"apiVersion": format!("machineconfiguration.openshift.io/{version}"), "kind": "InternalReleaseImage",
        "metadata": metadata("cluster", &iri.annotation, iri.terminating),
        "spec": {"releases": spec}, "status": {"releases": bundles(&iri.status)}})
}

fn thing(thing: &Thing) -> Value {
    let mut object = json!({"metadata": metadata(&thing.name, &thing.annotation, thing.terminating)});
    let (api, kind) = match thing.kind {
        Kind::Secret => ("v1", "Secret"),
        Kind::Crd => ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
        Kind::MachineConfig => ("machineconfiguration.openshift.io/v1", "MachineConfig"),
    };
    (object["apiVersion"], object["kind"]) = (api.into(), kind.into());
    match thing.kind {
        Kind::Secret => {
            object["metadata"]["namespace"] = json!(thing.namespace);
            object["data"] = json!(thing.data);
        }
        Kind::Crd => object["spec"] = json!({"group": "g"}),
        Kind::MachineConfig => object["spec"] = json!({"osImageURL": thing.os_image, "kernelArguments": ["quiet"]}),
    }
    object
}

fn snapshot(world: &World, now: Timestamp) -> Snapshot {
    const MCO: &str = "machineconfiguration.openshift.io/v1";
    const CONFIG: &str = "config.openshift.io/v1";
    let list = |api: &str, kind: &str, items: Vec<Value>| json!({"apiVersion": api, "kind": kind, "items": items});
    let mut documents = vec![];
    let mut absent = ["catalogsources", "clustercatalogs"].map(str::to_owned).to_vec();
    let mut add = |seen: &Seen<()>, resource: &str, document: Option<Value>| match seen {
        Seen::Absent => absent.push(resource.to_owned()),
        _ => documents.extend(document),
    };
    let cv = world.cluster_version.value().map(|cv| list(CONFIG, "ClusterVersionList", vec![cluster_version(cv)]));
    add(&kind_of(&world.cluster_version), "clusterversions", cv);
    let stored = world.iri.value().map(|terminating| {
        let stored = Iri {
            terminating: *terminating,
            spec: vec!["ocp-release-bundle-4.19.9-x86_64".to_owned()],
            ..Iri::default()
        };
        list(MCO, "InternalReleaseImageList", vec![iri(&stored)])
    });
    add(&kind_of(&world.iri), "internalreleaseimages", stored);
    let nodes = world.nodes.value().map(|nodes| {
        let node = |(index, held): (usize, &Vec<Bundle>)| {
            json!({"apiVersion": MCO, "kind": "MachineConfigNode", "metadata": {"name": format!("master-{index}")},
                "status": {"internalReleaseImage": {"releases": bundles(held)}}})
        };
        list(MCO, "MachineConfigNodeList", nodes.iter().enumerate().map(node).collect())
    });
    add(&kind_of(&world.nodes), "machineconfignodes", nodes);
    let pools = world.pools.value().map(|pools| {
        let pool = |pool: &world::Pool| {
            json!({"apiVersion": MCO, "kind": "MachineConfigPool", "metadata": {"name": pool.name},
                "spec": {"configuration": {"name": pool.spec}}, "status": {"configuration": {"name": pool.status}}})
        };
        list(MCO, "MachineConfigPoolList", pools.iter().map(pool).collect())
    });
    add(&kind_of(&world.pools), "machineconfigpools", pools);
    let rendered = world.rendered.value().map(|rendered| {
        let config = |(name, release): (&String, &Option<String>)| {
            let annotations = json!({"machineconfiguration.openshift.io/release-image-version": release});
            json!({"apiVersion": MCO, "kind": "MachineConfig",
                "metadata": {"name": name, "annotations": annotations}})
        };
        list(MCO, "MachineConfigList", rendered.iter().map(config).collect())
    });
    add(&kind_of(&world.rendered), "machineconfigs", rendered);
    let infrastructure = world.hosted.value().map(|hosted| {
        let topology = if *hosted { "External" } else { "HighlyAvailable" };
        let object = json!({"apiVersion": CONFIG, "kind": "Infrastructure", "metadata": {"name": "cluster"},
            "status": {"controlPlaneTopology": topology}});
        list(CONFIG, "InfrastructureList", vec![object])
    });
    add(&kind_of(&world.hosted), "infrastructures", infrastructure);
    let state = State::from_documents("world.yaml", documents, &absent, now);
    assert!(state.problems().is_empty(), "{:?}", state.problems());
    let mut snapshot = state.snapshot();
    age(&mut snapshot.cluster_version, &world.cluster_version, now);
    age(&mut snapshot.internal_release_image, &world.iri, now);
    age(&mut snapshot.machine_config_nodes, &world.nodes, now);
    age(&mut snapshot.machine_config_pools, &world.pools, now);
    age(&mut snapshot.rendered_releases, &world.rendered, now);
    age(&mut snapshot.infrastructure, &world.hosted, now);
    snapshot
}

fn kind_of<T>(seen: &Seen<T>) -> Seen<()> {
    match seen {
        Seen::Yes(_) | Seen::Stale(_) => Seen::Yes(()),
        Seen::Absent => Seen::Absent,
        Seen::Unknown => Seen::Unknown,
    }
}

fn age<T, U>(fact: &mut Fact<T>, seen: &Seen<U>, now: Timestamp) {
    let age = if matches!(seen, Seen::Stale(_)) { 6 } else { 1 };
    if let Fact::Known(_, provenance) | Fact::Absent(provenance) = fact {
        let as_of = now.checked_sub(SignedDuration::from_mins(age)).unwrap();
        *provenance = Provenance { source: Arc::from("watch"), as_of, watched: true };
    }
}

fn catalog(entries: &[CatalogEntry], now: Timestamp) -> Catalog {
    let release = |(index, entry): (usize, &CatalogEntry)| Release {
        digest: Digest::parse(&entry.digest).unwrap(),
        version: Version::parse(&entry.version).unwrap(),
        previous: entry
            .previous
            .as_ref()
            .map(|previous| previous.iter().map(|version| Version::parse(version).unwrap()).collect()),
        architecture: entry.architecture.clone(),
        components: None,
        shards: entry.shards.iter().map(|shard| Digest::parse(shard).unwrap()).collect(),
        source: Source { name: format!("source-{index}").into(), read_at: now, verified: entry.verified },
    };
    Catalog::new(entries.iter().enumerate().map(release))
}

fn settings(settings: &world::Settings) -> Settings {
    let name = |debug: String| debug.to_lowercase();
    // What the model does not know has cases of its own.
    let unknown = POLICIES.iter().filter(|policy| !POLICY_IDS.contains(&policy.id));
    let mut policies: serde_json::Map<String, Value> = settings
        .policies
        .iter()
        .map(|(id, (mode, on_unknown))| {
            let mode = mode.map(|mode| name(format!("{mode:?}")));
            let on_unknown = on_unknown.map(|on_unknown| name(format!("{on_unknown:?}")));
            ((*id).to_owned(), json!({"mode": mode, "onUnknown": on_unknown}))
        })
        .collect();
    policies.extend(unknown.map(|policy| (policy.id.to_owned(), json!({"mode": "off"}))));
    let retain = match settings.retain {
        world::Retain::InUse => "in-use",
        world::Retain::Rollback => "rollback",
        world::Retain::History => "history",
    };
    let mode = if settings.audit { "audit" } else { "enforce" };
    let value = json!({"mode": mode, "retain": retain, "overrideGroups": settings.override_groups,
        "policies": policies});
    serde_json::from_value(value).unwrap()
}
