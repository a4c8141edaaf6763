//! What is to be done next: one pure function of what is stored, what is trusted, and the time.

use jiff::{SignedDuration, Timestamp};

use super::Timing;

/// What the Secret holds that can be used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// The CA whose key is there.
    pub signer: Option<Ca>,
    /// The CA that is to sign after it; its key is there too.
    pub next: Option<Ca>,
    /// Since when every CA bundle has held the next CA.
    pub trusted_since: Option<Timestamp>,
    /// The serving certificate, with its key, for the right names, by a CA of the bundle.
    pub leaf: Option<Leaf>,
    /// CAs of the bundle that sign no more.
    pub retiring: Vec<Retiring>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ca {
    pub not_before: Timestamp,
    pub not_after: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaf {
    pub not_before: Timestamp,
    pub not_after: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retiring {
    /// The end of the last certificate that it signed; that one may be served somewhere until then.
    pub leaves_until: Timestamp,
}

/// How the CA bundles of the webhook configuration are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// There is no configuration, so nobody calls.
    Absent,
    /// It could not be read, or not be written just now.
    OutOfReach,
    /// There is no bundle in any webhook: nobody could be called so far.
    Empty,
    /// Some webhook has another bundle.
    Differs,
    /// Every webhook has the bundle of the Secret.
    Holds,
}

/// What a process knows besides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Own {
    /// It still has content that the Secret had before, and that would help now.
    pub remembers: bool,
    /// Since when nothing in the Secret helps.
    pub useless_since: Option<Timestamp>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// All is as it should be, or something has to pass first.
    Wait,
    /// A new CA and a certificate of it: there is nothing that could be used.
    StartOver,
    /// What was there before is put back.
    Restore,
    /// A CA beside the one that signs, to be trusted first.
    AddNext,
    /// Every bundle holds the next CA: from now on the time counts.
    NoteTrusted,
    /// Some bundle lost it again.
    NoteUntrusted,
    /// The next CA signs from now on, beginning with a certificate; the one before retires.
    Promote,
    /// A certificate of the CA that signs.
    IssueLeaf,
    /// Retired CAs go whose last certificate has expired.
    DropRetired,
    /// The bundle into every webhook.
    WriteBundle,
}

fn within(from: Timestamp, to: Timestamp, now: Timestamp) -> bool {
    from <= now && now < to
}

fn usable(ca: Option<&Ca>, now: Timestamp) -> bool {
    ca.is_some_and(|ca| within(ca.not_before, ca.not_after, now))
}

impl State {
    /// The certificate, where one can be served with now. One that outlives what airgate issues is none of its own, and
    /// would never be renewed.
    fn good_leaf(&self, timing: &Timing, now: Timestamp) -> Option<&Leaf> {
        let ours = |leaf: &&Leaf| leaf.not_after <= after(now, timing.leaf_life * 2);
        self.leaf.as_ref().filter(|leaf| within(leaf.not_before, leaf.not_after, now)).filter(ours)
    }

    /// Whether anything of it leads to a certificate that can be served with now.
    pub fn helps(&self, timing: &Timing, now: Timestamp) -> bool {
        self.good_leaf(timing, now).is_some() || usable(self.signer.as_ref(), now) || usable(self.next.as_ref(), now)
    }
}

#[must_use]
pub fn next(state: &State, trust: Trust, own: Own, timing: &Timing, now: Timestamp) -> Action {
    let usable = |ca: &Option<Ca>| usable(ca.as_ref(), now);
    let Some(leaf) = state.good_leaf(timing, now) else {
        // Nothing that is served could be lost by this.
        return match () {
            () if usable(&state.signer) => Action::IssueLeaf,
            () if usable(&state.next) => Action::Promote,
            () => start_over(trust, own, timing, now),
        };
    };
    // Trust first: all else builds on it.
    if state.trusted_since.is_some()
        && (matches!(trust, Trust::Absent | Trust::Empty | Trust::Differs) || state.next.is_none())
    {
        return Action::NoteUntrusted;
    }
    if matches!(trust, Trust::Empty | Trust::Differs) {
        return Action::WriteBundle;
    }
    if state.retiring.iter().any(|ca| after(ca.leaves_until, timing.settle) <= now) {
        return Action::DropRetired;
    }
    let due = |ca: &Ca| before(ca.not_after, timing.ca_life.saturating_sub(timing.ca_renew)) <= now;
    if state.signer.as_ref().is_none_or(due) && !usable(&state.next) {
        return Action::AddNext;
    }
    if state.next.is_some() && trust == Trust::Holds {
        match state.trusted_since {
            None => return Action::NoteTrusted,
            Some(since) if after(since, timing.settle) <= now => return Action::Promote,
            Some(_) => {}
        }
    }
    let left = timing.leaf_life.saturating_sub(timing.leaf_renew);
    if let Some(signer) = &state.signer
        && before(leaf.not_after, left) <= now
        // A CA that ends soon can issue nothing that lasts longer than what is there.
        && signer.not_after.min(after(now, timing.leaf_life)) > after(leaf.not_after, left / 2)
    {
        return Action::IssueLeaf;
    }
    Action::Wait
}

/// Where somebody calls already, another replica may still remember what was there: it goes first.
fn start_over(trust: Trust, own: Own, timing: &Timing, now: Timestamp) -> Action {
    let patience = timing.poll * 3;
    let waited = own.useless_since.is_some_and(|since| after(since, patience) <= now);
    match trust {
        _ if own.remembers => Action::Restore,
        Trust::Absent | Trust::Empty => Action::StartOver,
        _ if waited => Action::StartOver,
        _ => Action::Wait,
    }
}

/// Saturating, as no certificate ends where time does.
pub(super) fn after(time: Timestamp, span: std::time::Duration) -> Timestamp {
    SignedDuration::try_from(span).ok().and_then(|span| time.checked_add(span).ok()).unwrap_or(Timestamp::MAX)
}

fn before(time: Timestamp, span: std::time::Duration) -> Timestamp {
    SignedDuration::try_from(span).ok().and_then(|span| time.checked_sub(span).ok()).unwrap_or(Timestamp::MIN)
}

#[cfg(test)]
mod tests;
