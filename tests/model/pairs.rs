//! Two administrators, two replicas of airgate, watches that lag: every interleaving of two steps, and which pairs are
//! both let through although one takes away what the other needs (settled question 15).
//!
//! The table in docs/concurrency.md is made here: `AIRGATE_WRITE=1 cargo test --test model pairs` writes it anew.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use airgate::audit::Audit;
use airgate::audit::conflict::Detector;
use airgate::cluster::Snapshot;
use airgate::engine::{self, Facts};
use airgate::release::Catalog;
use airgate::resource;
use airgate::settings::{Retain, Settings};
use airgate::state::State;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::world::NOW;

/// What is stored: the update asked for, and the bundles of the InternalReleaseImage.
#[derive(Clone, Debug, PartialEq)]
struct Stored {
    target: Option<&'static str>,
    bundles: Vec<&'static str>,
}

const RUNNING: &str = "4.18.12";
const BEFORE: &str = "4.18.8";
const NEXT: &str = "4.18.20";
const OTHER: &str = "4.18.21";

#[derive(Clone, Copy, Debug, PartialEq)]
enum Step {
    Upgrade(&'static str),
    Clear,
    Remove(&'static str),
    Delete,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Object {
    ClusterVersion,
    InternalReleaseImage,
}

impl Step {
    fn name(self) -> String {
        match self {
            Self::Upgrade(BEFORE) => format!("roll back to {BEFORE}"),
            Self::Upgrade(version) => format!("upgrade to {version}"),
            Self::Clear => "cancel the update".into(),
            Self::Remove(version) => format!("remove the bundle of {version}"),
            Self::Delete => "delete the InternalReleaseImage".into(),
        }
    }

    fn object(self) -> Object {
        match self {
            Self::Upgrade(_) | Self::Clear => Object::ClusterVersion,
            Self::Remove(_) | Self::Delete => Object::InternalReleaseImage,
        }
    }

    fn applied(self, stored: &Stored) -> Stored {
        let mut new = stored.clone();
        match self {
            Self::Upgrade(version) => new.target = Some(version),
            Self::Clear => new.target = None,
            Self::Remove(version) => new.bundles.retain(|bundle| *bundle != version),
            Self::Delete => new.bundles.clear(),
        }
        new
    }

    fn review(self, stored: &Stored) -> Value {
        let new = self.applied(stored);
        let (group, resource, name, old, new) = match self.object() {
            Object::ClusterVersion => {
                ("config.openshift.io", "clusterversions", "version", version(stored), Some(version(&new)))
            }
            Object::InternalReleaseImage => {
                let new = (self != Self::Delete).then(|| image(&new));
                ("machineconfiguration.openshift.io", "internalreleaseimages", "cluster", image(stored), new)
            }
        };
        json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
            "uid": "0df28fbd-5f5f-11e8-bc74-36e6bb280816", "name": name,
            "operation": if new.is_some() { "UPDATE" } else { "DELETE" },
            "resource": {"group": group, "version": "v1", "resource": resource},
            "userInfo": {"username": "admin", "groups": []}, "object": new, "oldObject": old}})
    }
}

fn digest(version: &str) -> String {
    let digit = ["", BEFORE, RUNNING, NEXT, OTHER].iter().position(|known| *known == version).unwrap();
    format!("sha256:{}", digit.to_string().repeat(64))
}

fn pullspec(version: &str) -> String {
    format!("registry.example:5000/ocp/release@{}", digest(version))
}

fn bundle(version: &str) -> String {
    format!("ocp-release-bundle-{version}-x86_64")
}

fn version(stored: &Stored) -> Value {
    let entry = |version: &str| json!({"state": "Completed", "version": version, "image": pullspec(version), "startedTime": "2026-11-01T00:00:00Z"});
    json!({"apiVersion": "config.openshift.io/v1", "kind": "ClusterVersion", "metadata": {"name": "version"},
        "spec": {"desiredUpdate": stored.target.map(|target| json!({"image": pullspec(target)}))},
        "status": {"desired": {"version": RUNNING, "image": pullspec(RUNNING)},
            "history": [entry(RUNNING), entry(BEFORE)]}})
}

fn image(stored: &Stored) -> Value {
    let spec: Vec<Value> = stored.bundles.iter().map(|version| json!({"name": bundle(version)})).collect();
    let status: Vec<Value> =
        stored.bundles.iter().map(|version| json!({"name": bundle(version), "image": pullspec(version)})).collect();
    json!({"apiVersion": "machineconfiguration.openshift.io/v1", "kind": "InternalReleaseImage",
        "metadata": {"name": "cluster"}, "spec": {"releases": spec}, "status": {"releases": status}})
}

struct Site {
    catalog: Catalog,
    settings: Settings,
    now: Timestamp,
}

impl Site {
    fn new() -> Self {
        let now = NOW.parse().unwrap();
        let entry = |version: &str, previous: &[&str]| json!({"digest": digest(version), "version": version, "previous": previous, "architecture": "amd64"});
        let catalog = json!({"apiVersion": "airgate.io/v1alpha1", "kind": "ReleaseCatalog", "releases": [
            entry(BEFORE, &[]), entry(RUNNING, &[BEFORE]), entry(NEXT, &[BEFORE, RUNNING]), entry(OTHER, &[RUNNING, NEXT])]});
        let catalog = airgate::catalog::from_documents(&[catalog], "catalog.yaml", now).unwrap();
        // The strictest for removals would refuse all that is told here before anybody races.
        let settings = Settings { retain: Retain::InUse, ..Settings::default() };
        Self { catalog: Catalog::new(catalog), settings, now }
    }

    fn snapshot(&self, stored: &Stored) -> Snapshot {
        let known = ["ClusterVersion", "InternalReleaseImage"];
        let others = resource::ALL.into_iter().filter(|of| !known.contains(&of.kind));
        let mut absent: Vec<String> = others.map(resource::Resource::full_name).collect();
        let mut objects = vec![version(stored)];
        if stored.bundles.is_empty() {
            absent.push("internalreleaseimages".into());
        } else {
            objects.push(image(stored));
        }
        let state = State::from_documents("cluster", objects, &absent, self.now);
        assert!(state.problems().is_empty(), "{:?}", state.problems());
        state.snapshot()
    }

    /// As the server answers: on what the watches say, and where an allow cannot be undone once more on what a live
    /// read of ClusterVersion, pools and rendered configs says.
    fn admits(&self, step: Step, stored: &Stored, view: &Stored, live: bool) -> bool {
        let body = step.review(stored).to_string();
        let judge = |cluster: &Snapshot| {
            let facts = Facts::of(cluster, &self.catalog, &self.settings, self.now);
            engine::judge(body.as_bytes(), facts).unwrap().verdict
        };
        let seen = self.snapshot(view);
        let verdict = judge(&seen);
        if !(live && verdict.irreversible && verdict.allowed()) {
            return verdict.allowed();
        }
        let fresh = self.snapshot(stored);
        judge(&Snapshot {
            cluster_version: fresh.cluster_version,
            machine_config_pools: fresh.machine_config_pools,
            rendered_releases: fresh.rendered_releases,
            ..seen
        })
        .allowed()
    }

    /// What was stored, one after the other, and whether both steps were.
    fn run(
        &self,
        start: &Stored,
        steps: [Step; 2],
        order: &[Moment],
        views: [usize; 2],
        live: bool,
    ) -> (Vec<Stored>, bool) {
        let mut states = vec![start.clone()];
        let mut admitted = [None::<(bool, usize)>; 2];
        let mut done = [false; 2];
        for moment in order {
            let now = states.last().unwrap().clone();
            let ask = |which: usize| {
                let view = &states[views[which].min(states.len() - 1)];
                self.admits(steps[which], &now, view, live)
            };
            match *moment {
                Moment::Review(which) => admitted[which] = Some((ask(which), states.len())),
                Moment::Store(which) => {
                    let (mut allowed, seen) = admitted[which].unwrap();
                    // The API server stores no update of an object that has changed: it asks again.
                    if steps[0].object() == steps[1].object() && seen != states.len() {
                        allowed = ask(which);
                    }
                    if allowed {
                        done[which] = true;
                        states.push(steps[which].applied(&now));
                    }
                }
            }
        }
        (states, done == [true, true])
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Moment {
    Review(usize),
    Store(usize),
}

/// Every order of two reviews and two writes.
fn orders() -> Vec<Vec<Moment>> {
    use Moment::{Review, Store};
    let mut orders = vec![];
    for (one, other) in [(0, 1), (1, 0)] {
        orders.push(vec![Review(one), Store(one), Review(other), Store(other)]);
        orders.push(vec![Review(one), Review(other), Store(one), Store(other)]);
        orders.push(vec![Review(one), Review(other), Store(other), Store(one)]);
    }
    orders
}

fn sequential(order: &[Moment]) -> bool {
    matches!(order, [Moment::Review(a), Moment::Store(b), ..] if a == b)
}

/// What is asked for and what runs are still in the InternalReleaseImage, as far as they were.
fn sound(start: &Stored, stored: &Stored) -> bool {
    let kept = |version: &str| !start.bundles.contains(&version) || stored.bundles.contains(&version);
    kept(RUNNING) && stored.target.is_none_or(kept)
}

/// How often both steps were let through and left something broken.
#[derive(Clone, Debug, Default, PartialEq)]
struct Broken {
    orders: Vec<String>,
    runs: usize,
    noticed: usize,
}

impl Site {
    fn broken(
        &self,
        start: &Stored,
        steps: [Step; 2],
        live: bool,
        lag: bool,
        counts: impl Fn(&[Moment]) -> bool,
    ) -> Broken {
        let mut broken = Broken::default();
        for order in orders().into_iter().filter(|order| counts(order)) {
            let views: &[[usize; 2]] = if lag { &[[0, 0], [0, 1], [1, 0], [1, 1]] } else { &[[2, 2]] };
            let mut found = false;
            for view in views {
                let (states, both) = self.run(start, steps, &order, *view, live);
                if both && !sound(start, states.last().unwrap()) {
                    found = true;
                    broken.runs += 1;
                    broken.noticed += usize::from(self.notices(&states));
                }
            }
            if found {
                broken.orders.push(describe(&order));
            }
        }
        broken
    }

    /// Whether airgate's rounds would say so, if its watches deliver what was stored.
    fn notices(&self, states: &[Stored]) -> bool {
        let mut detector = Detector::default();
        let mut conflicts = vec![];
        for state in states {
            let cluster = self.snapshot(state);
            let all = Audit(Facts::of(&cluster, &self.catalog, &self.settings, self.now));
            conflicts = detector.observe(&all);
        }
        !conflicts.is_empty()
    }
}

/// `A? B? A! B!`: A and B are reviewed, then A and B are stored.
fn describe(order: &[Moment]) -> String {
    let letter = |which: usize| if which == 0 { "A" } else { "B" };
    let words: Vec<String> = order
        .iter()
        .map(|moment| match moment {
            Moment::Review(which) => format!("{}?", letter(*which)),
            Moment::Store(which) => format!("{}!", letter(*which)),
        })
        .collect();
    words.join(" ")
}

fn pairs() -> Vec<(Stored, [Step; 2])> {
    use Step::{Clear, Delete, Remove, Upgrade};
    let idle = Stored { target: None, bundles: vec![BEFORE, RUNNING, NEXT] };
    let pending = Stored { target: Some(NEXT), ..idle.clone() };
    let only_next = Stored { target: None, bundles: vec![NEXT] };
    vec![
        (idle.clone(), [Upgrade(NEXT), Remove(NEXT)]),
        (idle.clone(), [Upgrade(BEFORE), Remove(BEFORE)]),
        (idle.clone(), [Upgrade(NEXT), Delete]),
        (only_next, [Upgrade(NEXT), Delete]),
        (idle.clone(), [Upgrade(NEXT), Upgrade(OTHER)]),
        (idle.clone(), [Remove(BEFORE), Remove(NEXT)]),
        (idle.clone(), [Remove(NEXT), Remove(NEXT)]),
        (idle, [Remove(NEXT), Delete]),
        (pending.clone(), [Clear, Remove(NEXT)]),
        (pending.clone(), [Upgrade(BEFORE), Remove(NEXT)]),
        (pending, [Upgrade(OTHER), Remove(NEXT)]),
    ]
}

fn table(site: &Site) -> String {
    let mut table = String::from(
        "| InternalReleaseImage holds; asked for | A | B | one after the other | at once, watches only | at once, as airgate does it |\n|---|---|---|---|---|---|\n",
    );
    let cell = |broken: &Broken| {
        if broken.orders.is_empty() { "-".to_owned() } else { format!("`{}`", broken.orders.join("`, `")) }
    };
    for (start, steps) in pairs() {
        let serial = site.broken(&start, steps, true, false, sequential);
        let watches = site.broken(&start, steps, false, true, |_| true);
        let server = site.broken(&start, steps, true, true, |_| true);
        let (holds, asked) = (start.bundles.join(", "), start.target.unwrap_or("nothing"));
        let [a, b] = steps.map(Step::name);
        writeln!(
            table,
            "| {holds}; {asked} | {a} | {b} | {} | {} | {} |",
            cell(&serial),
            cell(&watches),
            cell(&server)
        )
        .unwrap();
    }
    table
}

#[test]
fn pairs_that_pass_together_are_those_in_the_documents() {
    let (begin, end) = ("<!-- made by tests/model/pairs.rs -->\n", "<!-- end -->\n");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/concurrency.md");
    let text = fs::read_to_string(&path).unwrap();
    let (before, rest) = text.split_once(begin).unwrap();
    let (documented, after) = rest.split_once(end).unwrap();
    let made = table(&Site::new());
    if std::env::var_os("AIRGATE_WRITE").is_some() {
        fs::write(&path, format!("{before}{begin}{made}{end}{after}")).unwrap();
    } else {
        assert_eq!(documented, made, "AIRGATE_WRITE=1 cargo test --test model pairs writes docs/concurrency.md anew");
    }
}

/// Live reads close every window but the one in which neither write was stored when the other was judged.
#[test]
fn what_live_reads_cannot_close_is_noticed_afterwards() {
    let site = Site::new();
    let mut raced = 0;
    for (start, steps) in pairs() {
        let watches = site.broken(&start, steps, false, true, |_| true);
        let server = site.broken(&start, steps, true, true, |_| true);
        assert!(server.orders.iter().all(|order| watches.orders.contains(order)), "{steps:?}");
        assert_eq!(server.noticed, server.runs, "{steps:?}: {server:?}");
        assert_eq!(watches.noticed, watches.runs, "{steps:?}: {watches:?}");
        raced += server.runs;
        // On one object the API server puts them in order, and the second is judged on the first.
        if steps[0].object() == steps[1].object() {
            assert_eq!(server.runs, 0, "{steps:?}: {server:?}");
        }
        // A removal that is judged after the other step was stored sees it, however far the watches lag.
        if let [_, Step::Remove(_) | Step::Delete] = steps {
            assert!(!server.orders.iter().any(|order| order.starts_with("A? A!")), "{steps:?}: {server:?}");
        }
    }
    assert!(raced > 0, "no pair races: the model is of no use");
}
