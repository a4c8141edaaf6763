//! What one control-plane node says: its Node, its MachineConfigNode, and the registry that runs on it.

use super::target::Target;
use crate::bundle::Match;
use crate::cluster::{Missing, RegistryAnswer};
use crate::objects::DetailedCondition;
use crate::objects::internal_release_image::{BundleEntry, MachineConfigNode};
use crate::objects::node::Node;
use crate::text::shown;

/// Of what others wrote, as much as a message repeats.
const DETAIL: usize = 140;
/// Bundles that a message lists of one node.
const LISTED: usize = 3;

pub(super) struct Finding<'n> {
    pub node: &'n str,
    pub state: State,
}

/// Whether the bundle is there. The texts continue `NODE: `.
pub(super) enum State {
    Ready,
    /// Positive evidence that it is not.
    Fault(String),
    Open(String),
}

impl State {
    pub fn fault(&self) -> Option<&str> {
        if let Self::Fault(what) = self { Some(what) } else { None }
    }

    pub fn open(&self) -> Option<&str> {
        if let Self::Open(what) = self { Some(what) } else { None }
    }
}

/// What a MachineConfigNode alone says.
enum Said {
    Available,
    /// It is on its way in or out: that its manifest is there already, or still, proves nothing.
    Moving(String),
    Unavailable(String),
    Nothing(String),
}

/// All three together. A node that does not run counts first. Whoever says that the bundle is not there is believed: the
/// registry speaks for a node whose MachineConfigNode says nothing, and against one that says Available.
pub(super) fn state(
    node: &Node<'_>,
    reported: Result<Option<&MachineConfigNode<'_>>, &Missing>,
    registry: Option<&RegistryAnswer>,
    target: &Target<'_>,
) -> State {
    match node.ready() {
        Some(ready) if &*ready.status == "True" => {}
        Some(ready) => return State::Fault(format!("the node is not Ready{}", detail(ready))),
        None => return State::Open("the node does not say whether it is Ready".into()),
    }
    let said = match reported {
        Ok(Some(reported)) => said(reported, target),
        Ok(None) => Said::Nothing("it has no MachineConfigNode".into()),
        Err(missing) => Said::Nothing(missing.why.clone()),
    };
    match (said, registry) {
        (Said::Moving(what) | Said::Unavailable(what), _) => State::Fault(what),
        (_, Some(RegistryAnswer::Absent)) => State::Fault("its registry does not have the release image (404)".into()),
        (Said::Available, _) | (Said::Nothing(_), Some(RegistryAnswer::Holds)) => State::Ready,
        (Said::Nothing(what), Some(RegistryAnswer::Unknown(why))) => {
            State::Open(format!("{what}, and its registry could not be asked: {}", cut(why)))
        }
        (Said::Nothing(what), None) => State::Open(format!("{what}, and its registry was not asked")),
    }
}

fn said(reported: &MachineConfigNode<'_>, target: &Target<'_>) -> Said {
    if reported.metadata.terminating() {
        return Said::Nothing("its MachineConfigNode is being deleted".into());
    }
    if reported.behind() {
        return Said::Nothing(format!(
            "its MachineConfigNode is out of date (observedGeneration {} of {})",
            reported.status.observed_generation, reported.metadata.generation
        ));
    }
    let listed = &reported.status.internal_release_image.releases;
    // The best of several entries: one that is available is enough.
    let of_target = listed.iter().filter(|entry| target.is(entry) == Match::Same).map(said_of_entry);
    let of_target = of_target.min_by_key(|said| match said {
        Said::Available => 0,
        Said::Moving(_) => 1,
        Said::Unavailable(_) => 2,
        Said::Nothing(_) => 3,
    });
    // Of the node as a whole, whatever its entries say: those may be from before.
    let degraded = condition(&reported.status.conditions, "InternalReleaseImageDegraded")
        .filter(|condition| &*condition.status == "True")
        .map(|condition| {
            Said::Unavailable(format!("its MachineConfigNode says InternalReleaseImageDegraded{}", detail(condition)))
        });
    let known = |said: &Said| matches!(said, Said::Moving(_) | Said::Unavailable(_));
    match (of_target, degraded) {
        (Some(said), _) if known(&said) => said,
        (_, Some(degraded)) => degraded,
        (Some(said), None) => said,
        (None, None) if listed.is_empty() => Said::Nothing("its MachineConfigNode lists no release bundle".into()),
        (None, None) if listed.iter().all(|entry| target.is(entry) == Match::Different) => Said::Unavailable(format!(
            "its MachineConfigNode does not list it, only {}",
            some(listed.iter().map(|entry| &*entry.name))
        )),
        (None, None) => Said::Nothing(format!(
            "neither a digest nor a name says whether what its MachineConfigNode lists is this release: {}",
            some(listed.iter().map(|entry| &*entry.name))
        )),
    }
}

fn said_of_entry(entry: &BundleEntry<'_>) -> Said {
    let is =
        |kind: &str, status: &str| condition(&entry.conditions, kind).filter(|condition| &*condition.status == status);
    let says = |what: &str, condition: &DetailedCondition<'_>| {
        format!("its MachineConfigNode says {what}{}", detail(condition))
    };
    if let Some(condition) = is("Removing", "True") {
        return Said::Moving(says("that it is being removed", condition));
    }
    if let Some(condition) = is("Degraded", "True") {
        return Said::Unavailable(says("Degraded=True", condition));
    }
    if is("Available", "True").is_some() {
        return Said::Available;
    }
    if let Some(condition) = is("Installing", "True") {
        return Said::Moving(says("that it is still being installed", condition));
    }
    if let Some(condition) = is("Available", "False") {
        return Said::Unavailable(says("Available=False", condition));
    }
    if let Some(condition) = is("Mounted", "True") {
        return Said::Unavailable(says("that it is only mounted, not installed", condition));
    }
    Said::Nothing("its MachineConfigNode lists it without saying whether it is available".into())
}

fn condition<'c, 'a>(conditions: &'c [DetailedCondition<'a>], kind: &str) -> Option<&'c DetailedCondition<'a>> {
    conditions.iter().find(|condition| &*condition.kind == kind)
}

/// ` (REASON: MESSAGE)`, as far as there is one.
fn detail(condition: &DetailedCondition<'_>) -> String {
    let (reason, message) = (&*condition.reason, &*condition.message);
    match (reason.is_empty(), message.is_empty() || message == reason) {
        (true, true) => String::new(),
        (false, true) => format!(" ({})", cut(reason)),
        (true, false) => format!(" ({})", cut(message)),
        (false, false) => format!(" ({}: {})", cut(reason), cut(message)),
    }
}

/// What somebody wrote, as part of a sentence of ours.
fn cut(text: &str) -> String {
    let text = text.trim().trim_end_matches('.');
    let mut part: String = text.chars().take(DETAIL).collect();
    if part.len() < text.len() {
        part.push_str("...");
    }
    shown(&part).into_owned()
}

fn some<'n>(names: impl Iterator<Item = &'n str>) -> String {
    let names: Vec<_> = names.map(shown).collect();
    match names.len() {
        0..=LISTED => names.join(", "),
        all => format!("{} and {} more", names[..LISTED].join(", "), all - LISTED),
    }
}
