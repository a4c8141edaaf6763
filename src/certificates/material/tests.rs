use std::time::Duration;

use super::*;
use crate::certificates::rotation::{self, Action, Own, Trust};

const DAY: Duration = Duration::from_hours(24);

fn names() -> Vec<String> {
    crate::certificates::names("openshift-airgate")
}

/// A Secret without an API server.
#[derive(Clone, Default)]
struct Stored {
    data: BTreeMap<String, Vec<u8>>,
    annotation: Option<String>,
}

impl Stored {
    fn parse(&self) -> Material {
        Material::parse(self.data.clone(), self.annotation.as_deref(), &names())
    }

    fn apply(&mut self, change: Change) {
        for (name, content) in change.data {
            match content {
                Some(content) => drop(self.data.insert(name.to_owned(), content)),
                None => drop(self.data.remove(name)),
            }
        }
        self.annotation = Some(change.annotation);
    }

    fn new(timing: &Timing, now: Timestamp) -> Self {
        let mut stored = Self::default();
        stored.apply(Material::start_over(&names(), timing, now).unwrap());
        stored
    }

    /// What the keeper would do, done.
    fn act(&mut self, material: &Material, trust: Trust, timing: &Timing, now: Timestamp) -> Action {
        let action =
            rotation::next(&material.state(), trust, Own { remembers: false, useless_since: Some(now) }, timing, now);
        let change = match action {
            Action::Wait | Action::WriteBundle | Action::Restore => return action,
            Action::StartOver => Material::start_over(&names(), timing, now),
            Action::AddNext => material.add_next(timing, now),
            Action::NoteTrusted => Ok(material.note_trusted(Some(now))),
            Action::NoteUntrusted => Ok(material.note_trusted(None)),
            Action::Promote => material.issue(true, &names(), timing, now),
            Action::IssueLeaf => material.issue(false, &names(), timing, now),
            Action::DropRetired => Ok(material.drop_retired(rotation::after(now, Duration::ZERO))),
        };
        self.apply(change.unwrap());
        action
    }
}

fn now() -> Timestamp {
    // Whole seconds, as in certificates.
    Timestamp::from_second(Timestamp::now().as_second()).unwrap()
}

/// Twelve years, day by day. A replica that is cut off may serve any certificate until that expires; an API server
/// may be two days behind. Whoever calls trusts whatever may be served.
#[test]
fn in_twelve_years_nobody_is_shown_what_he_does_not_trust() {
    let timing = Timing { settle: DAY * 3, ..Timing::default() };
    let begin = now();
    let mut stored = Stored::new(&timing, begin);
    let mut bundles: Vec<Vec<String>> = vec![];
    let mut served: Vec<(Timestamp, String)> = vec![];
    let mut counts = BTreeMap::<String, usize>::new();
    let mut largest = 0;
    for days in 0..12 * 365 {
        let at = rotation::after(begin, DAY * days);
        let mut trusted = bundles.last().cloned().unwrap_or_default();
        loop {
            let material = stored.parse();
            let wanted: Vec<String> = material.authorities.iter().map(|ca| ca.fingerprint.clone()).collect();
            let trust = if trusted == wanted { Trust::Holds } else { Trust::Differs };
            // Now and then nobody can write it for a month.
            let trust = if days % 365 > 330 && trust == Trust::Differs { Trust::OutOfReach } else { trust };
            let action = stored.act(&material, trust, &timing, at);
            match action {
                Action::Wait => break,
                Action::WriteBundle => trusted = wanted,
                _ => {}
            }
            *counts.entry(format!("{action:?}")).or_default() += 1;
            let material = stored.parse();
            let issuer = &material.authorities[material.issuer.unwrap()];
            let end = material.leaf.as_ref().unwrap().not_after;
            let entry = (end, issuer.fingerprint.clone());
            if served.last() != Some(&entry) {
                served.push(entry);
            }
            assert!(material.faults.is_empty(), "{:?}", material.faults);
        }
        largest = largest.max(trusted.len());
        bundles.push(trusted);
        let behind = &bundles[bundles.len().saturating_sub(3)..];
        for (_, issuer) in served.iter().filter(|(end, _)| *end > at) {
            assert!(behind.iter().all(|bundle| bundle.contains(issuer)), "day {days}: {issuer} is served, not trusted");
        }
    }
    assert_eq!(counts["Promote"], 5, "a CA every two years: {counts:?}");
    assert_eq!(counts["AddNext"], 5);
    assert_eq!(counts["DropRetired"], 5);
    assert!(counts["IssueLeaf"] > 60 && !counts.contains_key("StartOver"), "{counts:?}");
    assert_eq!(largest, 2);
}

#[test]
fn what_is_missing_of_it_is_said_and_the_rest_used() {
    let (timing, at) = (Timing::default(), now());
    let whole = Stored::new(&timing, at);
    let without = |name: &str| {
        let mut stored = whole.clone();
        stored.data.remove(name);
        stored
    };
    let garbage = |name: &str| {
        let mut stored = whole.clone();
        stored.data.insert(name.to_owned(), b"-----BEGIN NONSENSE-----\nxyz".to_vec());
        stored
    };
    let other = Stored::new(&timing, at);
    let swapped = |name: &str| {
        let mut stored = whole.clone();
        stored.data.insert(name.to_owned(), other.data[name].clone());
        stored
    };
    let mut unnoted = whole.clone();
    unnoted.annotation = Some("{".to_owned());
    for (name, mut stored, action, fault) in [
        ("whole", whole.clone(), Action::Wait, ""),
        ("no leaf", without(CERTIFICATE), Action::IssueLeaf, ""),
        ("no key", without(KEY), Action::IssueLeaf, ""),
        ("bad leaf", garbage(CERTIFICATE), Action::IssueLeaf, "tls.crt"),
        ("bad key", garbage(KEY), Action::IssueLeaf, "tls.key"),
        ("another's key", swapped(KEY), Action::IssueLeaf, "does not belong"),
        ("no CA key", without(CA_KEY), Action::AddNext, ""),
        ("another's CA key", swapped(CA_KEY), Action::AddNext, "ca.key is the key of no certificate"),
        ("no CA", without(CA), Action::StartOver, "ca.key is the key of no"),
        ("bad CA", garbage(CA), Action::StartOver, "ca.crt"),
        ("another's CA", swapped(CA), Action::StartOver, "by no CA of ca.crt"),
        (
            "a key as the CA",
            {
                let mut s = whole.clone();
                s.data.insert(CA.into(), whole.data[KEY].clone());
                s
            },
            Action::StartOver,
            "holds no certificate",
        ),
        ("no notes", unnoted, Action::Wait, "the annotation airgate.io/certificates"),
        ("nothing", Stored::default(), Action::StartOver, ""),
    ] {
        let faults = stored.parse().faults.join("; ");
        assert!(faults.contains(fault) && fault.is_empty() == faults.is_empty(), "{name}: {faults}");
        assert!(!faults.contains("PRIVATE") && !faults.contains("xyz"), "{faults}");
        // What is trusted where nobody has called yet.
        let trust = if stored.parse().leaf.is_some() { Trust::Holds } else { Trust::Absent };
        assert_eq!(stored.act(&stored.parse(), trust, &timing, at), action, "{name}");
        let material = stored.parse();
        assert!(material.leaf.is_some(), "{name}: {:?}", material.faults);
    }
}

#[test]
fn a_later_form_is_left_alone() {
    let mut stored = Stored::new(&Timing::default(), now());
    stored.annotation = Some(r#"{"version":2,"somethingNew":true}"#.to_owned());
    let material = Material::parse(stored.data, stored.annotation.as_deref(), &names());
    assert!(material.raw.is_some() && material.bundle.is_some(), "served all the same");
    let error = material.later.unwrap();
    assert!(error.to_string().contains("the form 2"), "{error}");
}

#[test]
fn what_was_remembered_is_what_was_there() {
    let (timing, at) = (Timing::default(), now());
    let mut stored = Stored::new(&timing, at);
    stored.apply(stored.parse().add_next(&timing, at).unwrap());
    let remembered = stored.parse().restore();
    let mut empty = Stored::default();
    empty.apply(remembered);
    assert_eq!((&empty.data, empty.parse().state()), (&stored.data, stored.parse().state()));
    assert_eq!(stored.parse().state().next.map(|ca| ca.not_after), Some(rotation::after(at, timing.ca_life)));
}

#[test]
fn other_names_get_another_certificate() {
    let mut stored = Stored::new(&Timing::default(), now());
    let elsewhere = crate::certificates::names("elsewhere");
    let material = Material::parse(std::mem::take(&mut stored.data), None, &elsewhere);
    assert!(material.faults[0].contains("is not for airgate.elsewhere.svc"), "{:?}", material.faults);
    assert!(material.state().leaf.is_none() && material.state().signer.is_some());
}
