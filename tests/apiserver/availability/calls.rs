//! A stream of calls through the API server, and what became of each.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::api::{Answer, Api, IMAGE, VERSION};
use crate::guard::Site;
use crate::objects::internal_release_image;
use crate::server::poll;

pub const CONNECTIONS: usize = 4;
/// Each scenario sees at least so many.
pub const CALLS: u64 = 2_000;
/// Of those at least so many before the fault and after it.
const AROUND: u64 = 150;
/// Between two calls of one connection: a fault that lasts 20 s is to meet some thousand calls and not ten.
const PACE: Duration = Duration::from_millis(10);
/// Longer than any webhook is given, so that it is never the client that gives up.
const PATIENCE: &str = "timeout=20s";

/// What became of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fate {
    /// As it must be.
    Judged,
    /// Refused for want of a fact, where it may be: it is an allow that cannot be undone.
    Cautious,
    /// HTTP 500, "failed calling webhook"; or it passed unseen where airgate had something to say.
    Failed,
    /// A verdict, and not the right one.
    Wrong,
    /// No answer of an API server that is ready.
    Away,
}

/// How a call must end.
#[derive(Clone, Copy)]
enum Must {
    Pass,
    /// The same, but resting on a live read.
    PassOnLiveFacts,
    /// The same, with airgate's warning.
    PassWith(&'static str),
    Deny(&'static str),
}

/// One of the mix.
#[derive(Clone)]
pub struct Call {
    path: String,
    patch: Value,
    must: Must,
}

impl Call {
    fn dry(path: &str, patch: Value, must: Must) -> Self {
        Self { path: format!("{path}?dryRun=All&{PATIENCE}"), patch, must }
    }

    fn stored(path: &str, patch: Value) -> Self {
        Self { path: format!("{path}?{PATIENCE}"), patch, must: Must::Pass }
    }

    /// A step to a release that nobody on site has, by this image.
    pub fn to_unread(image: &str) -> Self {
        let target = json!({"spec": {"desiredUpdate": {"image": image}}});
        Self::dry(VERSION, target, Must::Deny("cannot be judged"))
    }

    /// A step to a release that may follow the current one.
    pub fn to_next(image: &str) -> Self {
        Self::dry(VERSION, json!({"spec": {"desiredUpdate": {"image": image}}}), Must::Pass)
    }

    /// Sends it alone.
    pub fn passes(&self, api: &Api) {
        let answer = api.merge(&self.path, &self.patch);
        assert_eq!(fate(self.must, &answer), Fate::Judged, "{answer:?}");
    }
}

/// Guarded steps that must pass and that must not, and writes that never leave the API server.
pub fn mix() -> Vec<Call> {
    let site = Site::new();
    let target = |image: &str| json!({"spec": {"desiredUpdate": {"image": image}}});
    let holds = |releases: &[_]| json!({"spec": internal_release_image(releases)["spec"]});
    let tag = target("registry.example:5000/ocp/release:4.18.20");
    vec![
        Call::dry(VERSION, target(&site.unlisted.image), Must::Deny("4.18.12 cannot go straight to 4.19.9")),
        Call::dry(VERSION, target(&site.listed.image), Must::Pass),
        Call::dry(IMAGE, holds(&[&site.listed]), Must::Deny("4.18.12")),
        Call::stored(VERSION, json!({"spec": {"desiredUpdate": null}})),
        Call::dry(IMAGE, holds(&[&site.current]), Must::PassOnLiveFacts),
        Call::dry(VERSION, tag, Must::Deny("is no pullspec by digest")),
        Call::stored(VERSION, json!({"spec": {"channel": "stable-4.18"}})),
        Call::dry(VERSION, target(&site.listed.image), Must::Pass),
        Call::dry(IMAGE, holds(&[&site.current, &site.listed, &site.unlisted]), Must::PassWith("bundle-change: ")),
        Call::stored(VERSION, json!({"spec": {"channel": "stable-4.19", "desiredUpdate": {}}})),
        Call::dry(VERSION, target(&site.unlisted.image), Must::Deny("4.18.12 cannot go straight to 4.19.9")),
        Call::stored(IMAGE, json!({"metadata": {"labels": {"site": "one"}}})),
    ]
}

/// What an answer is, to a call that had to end in this way.
fn fate(must: Must, answer: &Answer) -> Fate {
    let message = answer.body["message"].as_str().unwrap_or_default();
    if message.contains("failed calling webhook") {
        return Fate::Failed;
    }
    // An API server that has just started knows neither its webhooks nor its CRDs for a moment, and says so.
    let starting = answer.code == 404 || message.contains("not yet ready to handle request");
    if starting || answer.code == 0 || answer.code == 429 || answer.code >= 500 {
        return Fate::Away;
    }
    let denied = answer.code == 403 || answer.code == 422;
    match must {
        Must::Pass | Must::PassOnLiveFacts if answer.code == 200 => Fate::Judged,
        Must::PassWith(part) if answer.code == 200 => {
            if answer.warnings.iter().any(|warning| warning.contains(part)) {
                Fate::Judged
            } else {
                Fate::Failed
            }
        }
        Must::Deny(part) if denied && message.contains(part) => Fate::Judged,
        Must::PassOnLiveFacts if answer.code == 403 && message.contains("cannot be judged") => Fate::Cautious,
        _ => Fate::Wrong,
    }
}

/// The calls while they go on.
#[derive(Default)]
pub struct Stream {
    answered: AtomicU64,
    enough: AtomicBool,
    fates: Mutex<BTreeMap<Fate, u64>>,
    /// Some of the answers that were not as they must be.
    odd: Mutex<Vec<String>>,
}

impl Stream {
    /// One connection's part of it.
    fn run(&self, api: &Api, calls: &[Call]) {
        for call in calls.iter().cycle() {
            if self.enough.load(Ordering::Relaxed) {
                return;
            }
            let answer = api.merge(&call.path, &call.patch);
            let fate = fate(call.must, &answer);
            *self.fates.lock().unwrap().entry(fate).or_default() += 1;
            self.answered.fetch_add(1, Ordering::Relaxed);
            if fate != Fate::Judged {
                let mut odd = self.odd.lock().unwrap();
                if odd.iter().filter(|text| text.starts_with(&format!("{fate:?}"))).count() < 4 {
                    let said = answer.body["message"].as_str().map_or_else(String::new, ToOwned::to_owned);
                    let (path, patch, code, warnings) = (&call.path, &call.patch, answer.code, &answer.warnings);
                    odd.push(format!("{fate:?}: {path} {patch}: {code} {said} {warnings:?}"));
                }
            }
            thread::sleep(PACE);
        }
    }

    pub fn answered(&self) -> u64 {
        self.answered.load(Ordering::Relaxed)
    }

    /// Waits for so many calls more.
    pub fn goes_on_for(&self, calls: u64) {
        let end = self.answered() + calls;
        // Calls that time out take their time.
        for _ in 0..8 {
            if poll(Duration::from_secs(15), || (self.answered() >= end).then_some(())).is_some() {
                return;
            }
        }
        panic!("the stream of calls stands still at {} of {end}", self.answered());
    }

    pub fn of(&self, fate: Fate) -> u64 {
        self.fates.lock().unwrap().get(&fate).copied().unwrap_or_default()
    }

    pub fn odd(&self) -> String {
        self.odd.lock().unwrap().join("\n")
    }
}

/// Calls from all connections while `fault` happens, and some before and after it.
pub fn stream(apis: &[Api], calls: &[Call], fault: impl FnOnce(&Stream)) -> Stream {
    /// A fault that panics must not leave the connections behind.
    struct End<'a>(&'a AtomicBool);
    impl Drop for End<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let stream = Stream::default();
    thread::scope(|scope| {
        let end = End(&stream.enough);
        for (number, api) in apis.iter().enumerate() {
            let mut calls = calls.to_vec();
            // Each begins elsewhere, so that they do not all ask the same at the same time.
            let first = number * 3 % calls.len();
            calls.rotate_left(first);
            let stream = &stream;
            scope.spawn(move || stream.run(api, &calls));
        }
        stream.goes_on_for(AROUND);
        fault(&stream);
        stream.goes_on_for(AROUND);
        if let Some(missing) = CALLS.checked_sub(stream.answered()) {
            stream.goes_on_for(missing);
        }
        drop(end);
    });
    stream
}
