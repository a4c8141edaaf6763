//! Engine and model agree, world by world; and the worlds are of every kind.

use std::collections::BTreeMap;

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use crate::bridge::{Situation, answer};
use crate::generate::{tapes, world_of};
use crate::reference;
use crate::world::{ClusterVersion, Request, World};

/// A runner with a fixed seed; PROPTEST_CASES sets the number of cases.
pub fn runner(cases: u32) -> TestRunner {
    let cases = if std::env::var_os("PROPTEST_CASES").is_some() { Config::default().cases } else { cases };
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 200, ..Config::default() };
    TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha))
}

/// A world as it is printed: what the request can meet, without what is as always, digests cut to their letter.
pub fn shown(world: &World) -> String {
    let other_channel = |old: &ClusterVersion, new: &ClusterVersion| {
        if old.channel == new.channel && old.upstream == new.upstream { "" } else { "with another channel" }
    };
    let request = match &world.request {
        Request::UpdateCv(old, new) => {
            let more = other_channel(old, new);
            format!("UPDATE of {old:#?} to {:#?} annotation {:?} {more}", new.target, new.annotation)
        }
        Request::CreateCv(new) => format!("CREATE {:#?} annotation {:?}", new.target, new.annotation),
        Request::DeleteCv(old) => format!("DELETE {old:#?}"),
        Request::CreateIri(_) => "CREATE IRI".to_owned(),
        Request::UpdateIri(old, new) => {
            format!("UPDATE of {old:#?} to {:#?} annotation {:?}", new.spec, new.annotation)
        }
        Request::DeleteIri(old) => format!("DELETE {old:#?}"),
        Request::Create(new) => format!("CREATE {new:#?} by {}", world.user),
        Request::Update(old, new) => format!("UPDATE of {old:#?} to {new:#?} by {}", world.user),
        Request::Delete(old) => format!("DELETE {old:#?} by {}, IRI {:?}", world.user, world.iri),
    };
    let mut parts = vec![request];
    if matches!(world.request, Request::UpdateIri(..) | Request::DeleteIri(_)) {
        parts.push(format!("stored {:#?}", world.cluster_version));
        parts.push(format!("nodes {:#?} pools {:#?} rendered {:#?}", world.nodes, world.pools, world.rendered));
    }
    parts.push(format!("{:#?} hosted {:?} groups {:?}", world.settings, world.hosted, world.groups));
    parts.extend(world.catalog.iter().map(|entry| format!("{entry:#?}")));
    let mut text = parts.join("\n");
    for letter in ('0'..='9').chain('a'..='f').chain('A'..='F') {
        text = text.replace(&letter.to_string().repeat(64), &letter.to_string());
    }
    text = text.replace("quay.io/openshift-release-dev/ocp-release@sha256:", "Q@").replace("sha256:", "@");
    let boring = [": \"\",", ": false,", ": [],", ": None,", "channel: \"stable-4.19\",", "name: \"version\","];
    let lines = text.lines().filter(|line| !boring.iter().any(|end| line.ends_with(end)));
    lines
        .map(str::trim)
        .collect::<Vec<_>>()
        .join(" ")
        .replace("CatalogEntry", "\n      entry")
        .replace("stored", "\n      stored")
}

/// Where engine and model differ, or `None`.
pub fn difference(world: &World) -> Option<(String, String)> {
    let judged = Situation::of(world).judge();
    let (engine, model) = (answer(&judged), reference::judge(world));
    if engine == model {
        return None;
    }
    let mut class = vec![];
    if engine.result != model.result {
        class.push(format!("result: engine {:?}, model {:?}", engine.result, model.result));
    }
    if engine.code != model.code {
        class.push(format!("code: engine {:?}, model {:?}", engine.code, model.code));
    }
    for id in crate::generate::POLICY_IDS {
        let (engine, model) = (engine.policies.get(id), model.policies.get(id));
        if engine != model {
            class.push(format!("{id}: engine {engine:?}, model {model:?}"));
        }
    }
    let findings: Vec<_> = judged
        .verdict
        .findings
        .iter()
        .map(|f| format!("   {} {:?} {:?} overridden={} {}", f.policy, f.outcome, f.mode, f.overridden, f.message))
        .collect();
    let text = format!("{}\n   warnings {:?}\n   {}", findings.join("\n"), judged.response.warnings, shown(world));
    Some((class.join("; "), text))
}

/// Takes the nastiness out of a tape, stretch by stretch, as long as `interesting` says that it shows the same.
pub fn tame(tape: &mut [u8], interesting: &dyn Fn(&[u8]) -> bool) {
    for size in [128, 32, 8, 2, 1] {
        for start in (0..tape.len()).step_by(size) {
            let stretch = start..tape.len().min(start + size);
            let before = tape[stretch.clone()].to_vec();
            if before.iter().any(|byte| *byte != 0) {
                tape[stretch.clone()].fill(0);
                if !interesting(tape) {
                    tape[stretch].copy_from_slice(&before);
                }
            }
        }
    }
}

/// The engine is right in all these worlds, or the model is wrong: each class of difference is shown in one tame world.
#[test]
fn engine_and_model_agree() {
    let mut runner = runner(3000);
    let mut classes: BTreeMap<String, (u32, Vec<u8>)> = BTreeMap::new();
    for _ in 0..runner.config().cases {
        let tape = tapes().new_tree(&mut runner).unwrap().current();
        if let Some((class, _)) = difference(&world_of(&tape)) {
            classes.entry(class).or_insert((0, tape)).0 += 1;
        }
    }
    let mut report = vec![];
    for (index, (class, (count, mut tape))) in classes.into_iter().enumerate() {
        if index < 12 {
            tame(&mut tape, &|tape| difference(&world_of(tape)).is_some_and(|(same, _)| same == class));
        }
        let text = difference(&world_of(&tape)).map(|(_, text)| text).unwrap_or_default();
        report.push(format!("{count} x {class}\n{text}"));
    }
    assert!(report.is_empty(), "{}", report.join("\n\n"));
}

/// How often, in a thousand worlds, something must come to pass: else the generator has degenerated.
const AT_LEAST: [(&str, u32); 22] = [
    ("result Pass", 200),
    ("result Warn", 80),
    ("result Unknown", 40),
    ("result Deny", 150),
    ("code 422", 10),
    ("code 403", 150),
    ("upgrade-path Warn", 20),
    ("upgrade-path Unknown", 30),
    ("upgrade-path Deny", 70),
    ("digest-only Deny", 10),
    ("release-in-use Warn", 4),
    ("release-in-use Unknown", 40),
    ("release-in-use Deny", 70),
    ("release-identity Unknown", 3),
    ("release-identity Deny", 25),
    ("clusterversion-singleton Deny", 40),
    ("bundle-change Warn", 30),
    ("bundle-change Unknown", 10),
    ("bundle-support Unknown", 1),
    ("bundle-support Deny", 10),
    ("override used", 10),
    ("step without a finding", 50),
];

#[test]
fn the_worlds_reach_every_outcome() {
    let mut runner = runner(3000);
    let mut counts = BTreeMap::<String, u32>::new();
    for _ in 0..runner.config().cases {
        let world = world_of(&tapes().new_tree(&mut runner).unwrap().current());
        let answer = reference::judge(&world);
        let mut count = |what: String| *counts.entry(what).or_default() += 1;
        count(format!("result {:?}", answer.result));
        if let Some(code) = answer.code {
            count(format!("code {code}"));
        }
        let changed = match &world.request {
            Request::UpdateCv(old, new) => old.target.image != new.target.image && !new.target.image.is_empty(),
            Request::UpdateIri(old, new) => old.spec != new.spec,
            Request::DeleteIri(_) => true,
            _ => false,
        };
        if changed && answer.policies.is_empty() {
            count("step without a finding".to_owned());
        }
        if !Situation::of(&world).judge().verdict.overrides.is_empty() {
            count("override used".to_owned());
        }
        for (policy, outcome) in answer.policies {
            count(format!("{policy} {outcome:?}"));
        }
    }
    println!("{counts:#?}");
    for (what, share) in AT_LEAST {
        let count = counts.get(what).copied().unwrap_or_default();
        assert!(count * 1000 >= share * runner.config().cases, "{what}: {count} of {}", runner.config().cases);
    }
}
