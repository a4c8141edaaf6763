//! `bundle-change`: release bundles come and go one at a time, from where they are, and an InternalReleaseImage once.

use crate::breakglass::Step;
use crate::cluster::Missing;
use crate::objects::internal_release_image::{BundleEntry, InternalReleaseImage, MachineConfigNode};
use crate::policy::{Context, FactKind, Guard, Judgement, Policy};
use crate::review::{Change, Subject};
use crate::settings::{Mode, OnUnknown};
use crate::text::{Text, shown};

pub const POLICY: Policy = Policy {
    id: "bundle-change",
    title: "release bundles are added when mounted and removed one at a time, and the InternalReleaseImage is created once",
    why: "Each addition or removal is one operation with one status: while another is under way, or several start at once, \
          a failure cannot be told from the rest. A name that no node has mounted is never filled, a bundle dropped during \
          an update takes away what nodes still pull, and an InternalReleaseImage that is created again after its deletion \
          finds nodes that have removed their data. OpenShift accepts all of it without a word.",
    guards: &[Guard::InternalReleaseImageCreate, Guard::InternalReleaseImageAdd, Guard::InternalReleaseImageDrop],
    mode: Mode::Deny,
    on_unknown: OnUnknown::Allow,
    facts: &[FactKind::ClusterVersion, FactKind::MachineConfigNodes],
    judge,
};

const FIELD: &str = "spec.releases";
/// In warnings, which are one line and show no remedy.
const LOOK: &str = "oc get machineconfignode -o jsonpath='{.items[*].status.internalReleaseImage}'";

fn judge(context: &Context<'_>, judgement: &mut Judgement) {
    match &context.review.subject {
        Subject::InternalReleaseImage(Change::Create(_)) => activation(context, judgement),
        Subject::InternalReleaseImage(Change::Update { old, new }) => {
            let edit =
                Edit { old, added: new.spec.lacks(&old.spec).collect(), dropped: old.spec.lacks(&new.spec).collect() };
            edit.at_once(judgement);
            edit.during_an_update(context, judgement);
            edit.beside_what_nodes_do(context, judgement);
        }
        _ => {}
    }
}

/// An InternalReleaseImage comes with the installation, which ends with the first Completed entry of history.
fn activation(context: &Context<'_>, judgement: &mut Judgement) {
    let fact = &context.cluster.cluster_version;
    judgement.used("ClusterVersion", fact.provenance());
    let what = "an InternalReleaseImage is created after the installation";
    let missing = match (fact.known(), fact.reliable("ClusterVersion", context.now)) {
        (Some(cv), _) if cv.status.newest_completed().is_some() => {
            let why = "activating it again is not supported: without one, nodes empty /var/lib/iri-registry and nothing fills it; \
                       look: oc debug node/NODE -- chroot /host ls /var/lib/iri-registry";
            let text = Text::new(what, why)
                .works("mirror the releases to a registry of the site, and name it in an ImageDigestMirrorSet");
            return judgement.warn("metadata.name", text);
        }
        (_, Err(missing)) => missing,
        (Some(_), Ok(_)) => return,
        (None, Ok(_)) => Missing {
            why: "there is no ClusterVersion named version, so whether the installation is complete is not known"
                .into(),
            remedy: "oc get clusterversion version -o yaml".into(),
        },
    };
    let name = context.review.subject.metadata().map(|metadata| metadata.name.to_string()).unwrap_or_default();
    let step = Step { from: "none".into(), target: name };
    judgement.unknown("metadata.name", format!("whether {what} cannot be judged"), &missing, vec![step]);
}

/// A change of `spec.releases`.
struct Edit<'r> {
    old: &'r InternalReleaseImage<'r>,
    added: Vec<&'r BundleEntry<'r>>,
    dropped: Vec<&'r BundleEntry<'r>>,
}

impl Edit<'_> {
    fn at_once(&self, judgement: &mut Judgement) {
        let why = "each is one operation with one status: when it fails, nobody can tell which of them did";
        let what = match (&self.added[..], &self.dropped[..]) {
            ([_, ..], [_, ..]) => {
                format!("{} is added and {} dropped in one request", first(&self.added), first(&self.dropped))
            }
            (_, [_, _, ..]) => format!("{} are dropped in one request", first(&self.dropped)),
            _ => return,
        };
        judgement.warn(FIELD, Text::new(what, why).works("make one request each, and wait for the first:").works(LOOK));
    }

    fn during_an_update(&self, context: &Context<'_>, judgement: &mut Judgement) {
        if self.dropped.is_empty() {
            return;
        }
        let fact = &context.cluster.cluster_version;
        judgement.used("ClusterVersion", fact.provenance());
        let newest = fact.known().and_then(|cv| cv.status.history.first());
        if let Some(newest) = newest.filter(|newest| !newest.completed()) {
            let what = format!(
                "{} is dropped while the update to {} is not complete",
                first(&self.dropped),
                shown(&newest.version)
            );
            let why = "nodes and pods pull images until it is; look: oc get clusterversion; oc get machineconfigpools";
            judgement.warn(
                FIELD,
                Text::new(what, why).works("drop it once the update is Completed:").works("oc get clusterversion"),
            );
        } else if let Err(missing) = fact.reliable("ClusterVersion", context.now) {
            let what = "whether an update is in progress cannot be judged";
            judgement.unknown(FIELD, what, &missing, self.steps());
        }
    }

    fn beside_what_nodes_do(&self, context: &Context<'_>, judgement: &mut Judgement) {
        let fact = &context.cluster.machine_config_nodes;
        judgement.used("MachineConfigNodes", fact.provenance());
        let reliable = fact.reliable("MachineConfigNodes", context.now);
        let nodes = reliable.as_ref().ok().copied().flatten().map_or(&[][..], Vec::as_slice);
        if let Some(unfinished) = self.unfinished(nodes) {
            let what = "spec.releases changes while another bundle is on its way or not healthy";
            let text = Text::new(what, format!("{unfinished}; look: {LOOK}")).works("wait until it is:").works(LOOK);
            judgement.warn(FIELD, text);
        }
        let reported = self.old.status.releases.iter().chain(nodes.iter().flat_map(releases));
        let has =
            |entry: &BundleEntry<'_>| entry.available() != Some(false) || entry.is("Mounted") || entry.is("Installing");
        let there: Vec<&str> = reported.filter(|entry| has(entry)).map(|entry| &*entry.name).collect();
        let nowhere: Vec<_> = self.added.iter().copied().filter(|entry| !there.contains(&&*entry.name)).collect();
        let none_tells = nodes.iter().all(|node| releases(node).next().is_none());
        let missing = match reliable {
            Err(missing) => missing,
            // Nodes list nothing where the registry's tags are none that they understand.
            Ok(_) if none_tells => Missing {
                why: "no MachineConfigNode lists a release bundle".into(),
                remedy: "oc get machineconfignodes -o yaml".into(),
            },
            Ok(_) if nowhere.is_empty() => return,
            Ok(_) => {
                let what = format!("{} is added, and no node reports it as Mounted or Available", first(&nowhere));
                let text = Text::new(what, format!("a bundle comes from its mounted ISO; look: {LOOK}"))
                    .works("mount the ISO on a control-plane node first, and wait until it is Mounted:")
                    .works(LOOK);
                return judgement.warn(FIELD, text);
            }
        };
        let what = if self.added.is_empty() {
            "whether another change is in progress cannot be judged"
        } else {
            "whether the bundle is mounted, and another change in progress, cannot be judged"
        };
        judgement.unknown(FIELD, what, &missing, self.steps());
    }

    /// The first bundle that another change has not brought to its end, or that a node says is not there. What this
    /// request drops is on its way no longer. A node that lists nothing says nothing.
    fn unfinished(&self, nodes: &[MachineConfigNode<'_>]) -> Option<String> {
        let leaves = |entry: &BundleEntry<'_>| self.dropped.iter().any(|dropped| *dropped.name == *entry.name);
        let moving = |entry: &BundleEntry<'_>| {
            let kind = if entry.is("Removing") { "Removing" } else { "Installing" };
            (entry.is(kind) && !leaves(entry)).then(|| format!("{} is {kind}", shown(&entry.name)))
        };
        let on = |node: &MachineConfigNode<'_>| shown(&node.metadata.name).into_owned();
        let by_status = self.old.status.releases.iter().find_map(moving);
        let by_node =
            || nodes.iter().find_map(|node| Some(format!("{} on {}", releases(node).find_map(moving)?, on(node))));
        let lacking = || {
            nodes.iter().filter(|node| releases(node).next().is_some()).find_map(|node| {
                let lacks = |wanted: &BundleEntry<'_>| {
                    let listed = releases(node).find(|entry| *entry.name == *wanted.name);
                    listed.is_none_or(|entry| entry.available() == Some(false))
                };
                let missing = self.old.spec.releases.iter().find(|entry| !leaves(entry) && lacks(entry))?;
                Some(format!("{} is not Available on {}", shown(&missing.name), on(node)))
            })
        };
        by_status.or_else(by_node).or_else(lacking)
    }

    fn steps(&self) -> Vec<Step> {
        let from = self.old.metadata.name.to_string();
        let step = |entry: &&BundleEntry<'_>| Step { from: from.clone(), target: entry.name.to_string() };
        self.added.iter().chain(&self.dropped).map(step).collect()
    }
}

fn releases<'n>(node: &'n MachineConfigNode<'_>) -> impl Iterator<Item = &'n BundleEntry<'n>> {
    node.status.internal_release_image.releases.iter()
}

/// The first name, and how many more there are: a warning is one short line.
fn first(entries: &[&BundleEntry<'_>]) -> String {
    let name = entries.first().map(|entry| shown(&entry.name)).unwrap_or_default();
    match entries.len() {
        0 | 1 => name.into_owned(),
        all => format!("{name} (and {} more)", all - 1),
    }
}
