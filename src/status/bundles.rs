//! Each release bundle of the InternalReleaseImage: whether it is in use, whether it is ready, node by node, and
//! whether it may go.

use serde::Serialize;

use super::needed::{Window, bundles};
use super::{Answer, Judged, Notice, Presence, clean};
use crate::bundle::{self, Bundle, Match};
use crate::engine::Facts;
use crate::objects::DetailedCondition;
use crate::objects::internal_release_image::{BundleEntry, InternalReleaseImage, MachineConfigNode};
use crate::review::{Change, Subject};
use crate::settings::Retain;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Bundles {
    /// Of the InternalReleaseImage.
    pub state: Presence,
    /// Whether the MachineConfigNodes are known, on which readiness rests.
    pub nodes: Presence,
    pub bundles: Vec<BundleStatus>,
    /// The InternalReleaseImage as a whole: a DELETE of it.
    pub removal: Option<Judged>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BundleStatus {
    pub name: String,
    /// It stands in spec.releases; else only the status or a node names it.
    pub in_spec: bool,
    pub digests: Vec<String>,
    /// Whether the cluster needs it for more than its history.
    pub in_use: Answer,
    /// What it is needed for, whatever `retain` says.
    pub needed_for: Vec<String>,
    /// On every control-plane node, as the MachineConfigNodes say.
    pub ready: Answer,
    pub ready_nodes: usize,
    pub nodes: Vec<NodeStatus>,
    /// What the InternalReleaseImage's own status says, which is true of some node.
    pub reported: Vec<Notice>,
    /// Removing it from spec.releases; null where it does not stand there.
    pub removal: Option<Judged>,
    /// The command that removes it.
    pub remove: Option<String>,
}

/// One bundle on one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeStatus {
    pub node: String,
    pub ready: Answer,
    pub state: &'static str,
    /// The message of what is wrong.
    pub detail: String,
}

impl Bundles {
    pub(super) fn of(facts: Facts<'_>, window: &Window) -> Self {
        let iri = facts.cluster.internal_release_image.known();
        let nodes = facts.cluster.machine_config_nodes.known().map_or(&[][..], Vec::as_slice);
        let all = bundles(facts);
        let status = |bundle: &Bundle| iri.map(|iri| BundleStatus::of(facts, window, &all, bundle, iri, nodes));
        let whole = |iri: &InternalReleaseImage<'static>| {
            Judged::of(facts, Subject::InternalReleaseImage(Change::Delete(iri.clone())))
        };
        Self {
            state: Presence::of(&facts.cluster.internal_release_image),
            nodes: Presence::of(&facts.cluster.machine_config_nodes),
            bundles: all.iter().filter_map(status).collect(),
            removal: iri.filter(|iri| !iri.metadata.terminating()).map(whole),
        }
    }
}

impl BundleStatus {
    fn of(
        facts: Facts<'_>,
        window: &Window,
        all: &[Bundle],
        bundle: &Bundle,
        iri: &InternalReleaseImage<'static>,
        nodes: &[MachineConfigNode<'_>],
    ) -> Self {
        let (in_use, needed_for) = usage(facts, window, all, bundle);
        let nodes: Vec<_> = nodes.iter().filter(|node| is_control_plane(node)).map(|n| node(n, &bundle.name)).collect();
        let ready = if nodes.iter().any(|node| node.ready == Answer::No) {
            Answer::No
        } else if nodes.is_empty() || nodes.iter().any(|node| node.ready == Answer::Unknown) {
            Answer::Unknown
        } else {
            Answer::Yes
        };
        let index = iri.spec.releases.iter().position(|entry| *entry.name == *bundle.name);
        let reported = iri.status.releases.iter().find(|entry| *entry.name == *bundle.name);
        Self {
            name: clean(&bundle.name),
            in_spec: index.is_some(),
            digests: bundle.digests.iter().map(ToString::to_string).collect(),
            in_use,
            needed_for,
            ready,
            ready_nodes: nodes.iter().filter(|node| node.ready == Answer::Yes).count(),
            nodes,
            reported: reported.map(|entry| entry.conditions.iter().map(notice).collect()).unwrap_or_default(),
            removal: index.map(|index| removal(facts, iri, index)),
            remove: index.map(|index| remove(iri, index)),
        }
    }
}

/// Whether a bundle is in use, and all that needs it.
fn usage(facts: Facts<'_>, window: &Window, all: &[Bundle], bundle: &Bundle) -> (Answer, Vec<String>) {
    let mut in_use = if window.unknown.is_empty() { Answer::No } else { Answer::Unknown };
    let mut needed_for = vec![];
    let mut unsure = false;
    for kept in &window.kept {
        let found = bundle::holding(all, kept, facts.catalog).into_iter().find(|(found, _)| found.name == bundle.name);
        match found {
            Some((_, Match::Same)) => {
                if kept.level() == Retain::InUse {
                    in_use = Answer::Yes;
                }
                let name = kept.name();
                needed_for.push(clean(&format!("{name}: {}", kept.held_by(Retain::History))));
            }
            Some((_, Match::Unknown)) if kept.level() == Retain::InUse => unsure = true,
            _ => {}
        }
    }
    if in_use == Answer::No && unsure {
        in_use = Answer::Unknown;
    }
    (in_use, needed_for)
}

/// The IRI registry runs on control-plane nodes only.
fn is_control_plane(node: &MachineConfigNode<'_>) -> bool {
    &*node.spec.pool.name == "master" || !node.status.internal_release_image.releases.is_empty()
}

fn node(node: &MachineConfigNode<'_>, bundle: &str) -> NodeStatus {
    let listed = &node.status.internal_release_image.releases;
    let degraded = find(&node.status.conditions, "InternalReleaseImageDegraded").filter(|c| &*c.status == "True");
    let of_node = degraded.map(|condition| clean(&condition.message)).unwrap_or_default();
    let (ready, state, detail) = match listed.iter().find(|entry| &*entry.name == bundle) {
        Some(entry) => entry_state(entry),
        None if listed.is_empty() => (Answer::Unknown, "says nothing", String::new()),
        None => (Answer::No, "not there", String::new()),
    };
    let (ready, state) = match (ready, degraded) {
        (Answer::Yes, Some(_)) => (Answer::No, "node degraded"),
        (ready, _) => (ready, state),
    };
    let detail = if detail.is_empty() { of_node } else { detail };
    NodeStatus { node: clean(&node.metadata.name), ready, state, detail }
}

/// By type and status; reasons are not API.
fn entry_state(entry: &BundleEntry<'_>) -> (Answer, &'static str, String) {
    let is = |kind: &str| find(&entry.conditions, kind).filter(|condition| &*condition.status == "True");
    let message = |condition: Option<&DetailedCondition<'_>>| condition.map(|c| clean(&c.message)).unwrap_or_default();
    let available = find(&entry.conditions, "Available");
    match (is("Removing"), is("Degraded"), available.map(|condition| &*condition.status)) {
        (Some(removing), ..) => (Answer::No, "removing", message(Some(removing))),
        (None, Some(degraded), Some("True")) => (Answer::No, "degraded", message(Some(degraded))),
        (None, None, Some("True")) => (Answer::Yes, "available", String::new()),
        _ => match (is("Installing"), is("Mounted"), available) {
            (Some(installing), ..) => (Answer::No, "installing", message(Some(installing))),
            (None, Some(_), None) => (Answer::No, "mounted only", String::new()),
            (_, _, Some(available)) => (Answer::No, "not available", message(Some(available))),
            (None, None, None) => (Answer::Unknown, "listed", String::new()),
        },
    }
}

fn find<'c, 'a>(conditions: &'c [DetailedCondition<'a>], kind: &str) -> Option<&'c DetailedCondition<'a>> {
    conditions.iter().find(|condition| &*condition.kind == kind)
}

fn notice(condition: &DetailedCondition<'_>) -> Notice {
    Notice {
        kind: clean(&condition.kind),
        status: clean(&condition.status),
        reason: clean(&condition.reason),
        message: clean(&condition.message),
    }
}

/// The last entry cannot leave spec.releases (its CRD wants one): then it is the object that goes.
fn removal(facts: Facts<'_>, iri: &InternalReleaseImage<'static>, index: usize) -> Judged {
    let change = if iri.spec.releases.len() > 1 {
        let mut new = iri.clone();
        new.spec.releases.remove(index);
        Change::Update { old: iri.clone(), new }
    } else {
        Change::Delete(iri.clone())
    };
    Judged::of(facts, Subject::InternalReleaseImage(change))
}

/// By place and name, so that it removes nothing else should the list have changed.
fn remove(iri: &InternalReleaseImage<'_>, index: usize) -> String {
    if iri.spec.releases.len() == 1 {
        return "oc delete internalreleaseimage cluster".into();
    }
    let (path, name) = (format!("/spec/releases/{index}"), &*iri.spec.releases[index].name);
    let patch = serde_json::json!([
        {"op": "test", "path": format!("{path}/name"), "value": name}, {"op": "remove", "path": path}]);
    format!("oc patch internalreleaseimage cluster --type json -p {}", crate::text::shell_word(&patch.to_string()))
}
