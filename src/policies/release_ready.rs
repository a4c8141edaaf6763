//! `release-ready`: a bundle of the InternalReleaseImage that the cluster is sent to is there, on every control-plane node.

mod node;
mod target;

use std::sync::Arc;

use crate::cluster::{Missing, RegistryAnswer, RegistryQuestion, Snapshot};
use crate::objects::internal_release_image::MachineConfigNode;
use crate::objects::node::Node;
use crate::policy::{Context, FactKind, FactUse, Guard, Judgement, Policy};
use crate::settings::{Mode, OnUnknown};
use crate::text::{Text, shown};
use crate::upgrade::Upgrade;
use node::{Finding, State};
use target::Target;

pub const POLICY: Policy = Policy {
    id: "release-ready",
    title: "a target that the InternalReleaseImage holds is available on every control-plane node",
    why: "Each control-plane node pulls an update's images from a registry of its own copy. The status of the \
          InternalReleaseImage says Available as soon as one node has the bundle, and a node that lacks it stops the \
          update half-way. What counts is what every node says of itself: that it is Ready, and in its \
          MachineConfigNode that it has this bundle.",
    guards: &[Guard::ClusterVersionStep],
    mode: Mode::Deny,
    // That a node lists nothing is normal for today's daemon; refusing for it would refuse healthy clusters.
    on_unknown: OnUnknown::Warn,
    facts: &[FactKind::InternalReleaseImage, FactKind::MachineConfigNodes, FactKind::ControlPlaneNodes],
    judge,
};

const FIELD: &str = "spec.desiredUpdate";
/// Nodes that a message names with what they say.
const SHOWN: usize = 4;

fn judge(context: &Context<'_>, judgement: &mut Judgement) {
    let Some(upgrade) = Upgrade::of(context) else { return };
    if target::same_release(&upgrade) {
        return;
    }
    let cluster = context.cluster;
    let iri = match cluster.internal_release_image.reliable("InternalReleaseImage", context.now) {
        Ok(Some(iri)) => iri,
        Ok(None) => return,
        Err(missing) => {
            let what = "whether this cluster's InternalReleaseImage holds the target cannot be judged";
            return judgement.unknown(FIELD, what, &missing, upgrade.steps());
        }
    };
    let reported = cluster.machine_config_nodes.known().map_or(&[][..], Vec::as_slice);
    let Some(target) = Target::of(&upgrade, iri, reported, context.catalog) else { return };
    judgement.used("InternalReleaseImage", cluster.internal_release_image.provenance());
    judgement.used("Nodes", cluster.control_plane_nodes.provenance());
    let nodes = match control_plane(context) {
        Ok(nodes) => nodes,
        Err(missing) => return judgement.unknown(FIELD, target.unjudged(), &missing, upgrade.steps()),
    };
    judgement.used("MachineConfigNodes", cluster.machine_config_nodes.provenance());
    judgement.question = question(cluster, &target, &nodes);
    if let Some(registries) = cluster.node_registries.as_ref().filter(|asked| Some(asked.digest) == target.digest()) {
        let source: Arc<str> = Arc::from("the nodes' registries");
        judgement.facts.push(FactUse { name: "release manifests".into(), source, as_of: registries.as_of });
    }
    if !target.certain() && nobody_has_it(cluster, &target, &nodes) {
        return;
    }
    let found: Vec<Finding<'_>> = nodes.iter().map(|node| found(context, &target, node)).collect();
    answer(&upgrade, &target, &found, judgement);
}

/// The control-plane nodes by name.
fn control_plane<'a>(context: &Context<'a>) -> Result<Vec<&'a Node<'static>>, Missing> {
    let missing = |why: &str| Missing { why: why.into(), remedy: "oc get nodes".into() };
    let nodes = context.cluster.control_plane_nodes.reliable("Nodes", context.now)?;
    let nodes = nodes.ok_or_else(|| missing("the cluster has no Nodes"))?;
    let mut nodes: Vec<&Node<'_>> = nodes.iter().collect();
    nodes.sort_by_key(|node| &node.metadata.name);
    if nodes.is_empty() {
        return Err(missing("no Node has the role control-plane or master"));
    }
    Ok(nodes)
}

/// What one node says; the MachineConfigNodes of nodes that are gone are never looked at.
fn found<'a>(context: &Context<'a>, target: &Target<'_>, node: &'a Node<'static>) -> Finding<'a> {
    let name = &*node.metadata.name;
    let cluster = context.cluster;
    let facts = cluster.machine_config_nodes.reliable("MachineConfigNodes", context.now);
    let of_node = |nodes: &'a Vec<MachineConfigNode<'static>>| nodes.iter().find(|mcn| &*mcn.metadata.name == name);
    let reported = facts.map(|nodes| nodes.and_then(of_node));
    let registry = cluster.node_registries.as_ref().zip(target.digest());
    let registry = registry.and_then(|(asked, digest)| asked.answer(digest, name));
    Finding { node: name, state: node::state(node, reported.as_ref().map(|mcn| *mcn), registry, target) }
}

/// Where the name of a bundle left open whether it is the release: every registry says that it is not there.
fn nobody_has_it(cluster: &Snapshot, target: &Target<'_>, nodes: &[&Node<'_>]) -> bool {
    let Some((asked, digest)) = cluster.node_registries.as_ref().zip(target.digest()) else { return false };
    nodes.iter().all(|node| asked.answer(digest, &node.metadata.name) == Some(&RegistryAnswer::Absent))
}

/// What the nodes' registries should be asked: those of nodes that run, if it is known how to reach them.
fn question(cluster: &Snapshot, target: &Target<'_>, nodes: &[&Node<'_>]) -> Option<RegistryQuestion> {
    let host = cluster.infrastructure.known()?.status.api_int_host()?.to_owned();
    let running = nodes.iter().filter(|node| node.ready().is_some_and(|ready| &*ready.status == "True"));
    let nodes: Vec<_> = running
        .filter_map(|node| Some((node.metadata.name.to_string(), node.internal_address()?.to_owned())))
        .collect();
    (!nodes.is_empty()).then_some(RegistryQuestion { digest: target.digest()?, host, nodes })
}

fn answer(upgrade: &Upgrade<'_>, target: &Target<'_>, found: &[Finding<'_>], judgement: &mut Judgement) {
    let told = |state: fn(&State) -> Option<&str>| -> Vec<(&str, &str)> {
        found.iter().filter_map(|finding| Some((finding.node, state(&finding.state)?))).collect()
    };
    let faults = told(State::fault);
    let open = told(State::open);
    if !faults.is_empty() && target.certain() {
        let names = listed(faults.iter().map(|(name, _)| *name));
        let what = format!("{} is not ready on {names}", target.name());
        let text = Text::new(what, sentences(&faults))
            .works("mend that and ask again; what the nodes say in full:")
            .works(look(&faults));
        judgement.deny(FIELD, text, upgrade.steps());
    } else if !faults.is_empty() || !open.is_empty() {
        let all: Vec<_> = faults.iter().chain(&open).copied().collect();
        let missing = Missing { why: sentences(&all), remedy: look(&all) };
        judgement.unknown(FIELD, target.unjudged(), &missing, upgrade.steps());
    }
}

/// `master-0: what it says; master-1: ...`, the first few.
fn sentences(told: &[(&str, &str)]) -> String {
    let mut all: Vec<String> = told.iter().take(SHOWN).map(|(node, what)| format!("{}: {what}", shown(node))).collect();
    if told.len() > SHOWN {
        all.push(format!("and {} more", told.len() - SHOWN));
    }
    all.join("; ")
}

/// `master-0, master-1 and 3 more`
fn listed<'n>(names: impl Iterator<Item = &'n str>) -> String {
    let names: Vec<_> = names.map(shown).collect();
    match names.len() {
        0..=SHOWN => names.join(", "),
        all => format!("{} and {} more", names[..SHOWN].join(", "), all - SHOWN),
    }
}

/// The command that shows what these nodes say.
fn look(told: &[(&str, &str)]) -> String {
    let names: Vec<_> = told.iter().take(SHOWN).map(|(node, _)| shown(node)).collect();
    let names = names.join(" ");
    format!("oc describe nodes {names}; oc describe machineconfignodes {names}")
}
