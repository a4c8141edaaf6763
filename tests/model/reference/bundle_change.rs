//! `bundle-change`: "one change at a time, mounted before added, no re-activation"; it only warns.

use super::known::newest_completed;
use super::{Finding, Outcome};
use crate::world::{Bundle, Iri, Request, Seen, World};

pub fn judge(world: &World) -> Vec<Finding> {
    let asks = match &world.request {
        Request::CreateIri(_) => {
            return created(world).map(|asks| Finding::new(asks, "cluster")).into_iter().collect();
        }
        // Nothing of an object on its way out is judged.
        Request::UpdateIri(old, _) if old.terminating => return vec![],
        Request::UpdateIri(old, new) => changed(old, new, world),
        _ => return vec![],
    };
    let Request::UpdateIri(old, new) = &world.request else { return vec![] };
    let touched = without(&new.spec, &old.spec).into_iter().chain(without(&old.spec, &new.spec));
    let steps: Vec<String> = touched.cloned().collect();
    let mut findings = vec![];
    for asks in asks {
        // silent: an unknown is about each bundle that comes or goes.
        let steps = if asks == Outcome::Unknown { &steps[..] } else { &steps[..1] };
        findings.extend(steps.iter().map(|step| Finding::new(asks, step)));
    }
    findings
}

/// G7: "deny a second activation after a deletion (unsupported); allow at bootstrap"
fn created(world: &World) -> Option<Outcome> {
    match &world.cluster_version {
        Seen::Yes(stored) | Seen::Stale(stored) if newest_completed(stored).is_some() => Some(Outcome::Warn),
        Seen::Yes(_) => None,
        // "No ClusterVersion at all is Unknown"; Q10 for a stale one that would let it pass.
        Seen::Stale(_) | Seen::Absent | Seen::Unknown => Some(Outcome::Unknown),
    }
}

fn changed(old: &Iri, new: &Iri, world: &World) -> Vec<Outcome> {
    let (added, dropped) = (without(&new.spec, &old.spec), without(&old.spec, &new.spec));
    let mut asks = vec![];
    if added.is_empty() && dropped.is_empty() {
        return asks;
    }
    // G6: "not add and remove in one request; at most one removal"
    if dropped.len() > 1 || (!added.is_empty() && !dropped.is_empty()) {
        asks.push(Outcome::Warn);
    }
    // G6: "no removal while an upgrade is Partial"
    if !dropped.is_empty() {
        let partial = |history: &[crate::world::HistoryEntry]| history.first().is_some_and(|e| e.state != "Completed");
        asks.extend(match &world.cluster_version {
            Seen::Yes(stored) | Seen::Stale(stored) if partial(&stored.history) => Some(Outcome::Warn),
            Seen::Stale(_) | Seen::Unknown => Some(Outcome::Unknown),
            Seen::Yes(_) | Seen::Absent => None,
        });
    }
    // "another addition or removal still in progress by IRI status/conditions and MCNs"
    let stays = |name: &String| !dropped.contains(&name);
    let known = matches!(world.nodes, Seen::Yes(_) | Seen::Absent);
    let nodes: &[Vec<Bundle>] = if known { world.nodes.value().map_or(&[], Vec::as_slice) } else { &[] };
    let reports = || old.status.iter().chain(nodes.iter().flatten());
    let moving = reports().any(|bundle| stays(&bundle.name) && ["Installing", "Removing"].contains(&&*bundle.state));
    // "An MCN that lists other bundles, or this one only as Mounted, is positive evidence that it is not there; one
    // that lists none is not." silent: an entry without conditions says nothing.
    let has =
        |node: &[Bundle], name: &str| node.iter().any(|b| b.name == name && ["Available", ""].contains(&&*b.state));
    let lacking = |node: &&Vec<Bundle>| old.spec.iter().any(|name| stays(name) && !has(node, name));
    if moving || nodes.iter().filter(|node| !node.is_empty()).any(|node| lacking(&node)) {
        asks.push(Outcome::Warn);
    }
    // G5: "name must be Mounted or present on some MCN"
    let there = ["Mounted", "Installing", "Available", ""];
    let nowhere = |name: &String| !reports().any(|b| b.name == *name && there.contains(&&*b.state));
    if !known || nodes.iter().all(Vec::is_empty) {
        asks.push(Outcome::Unknown);
    } else if added.iter().any(|name| nowhere(name)) {
        asks.push(Outcome::Warn);
    }
    asks
}

fn without<'n>(names: &'n [String], others: &[String]) -> Vec<&'n String> {
    names.iter().filter(|name| !others.contains(name)).collect()
}
