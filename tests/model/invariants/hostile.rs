//! Bytes and values that nobody means well with: an answer or bad input, never a panic.

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use serde_json::{Value, json};

use super::answers::well_formed;
use crate::agree::runner;
use crate::bridge::{Situation, UID};
use crate::generate::worlds;

/// Judges, and holds what comes of it to the form of an answer.
fn judge(situation: &Situation, body: &[u8]) -> Result<(), TestCaseError> {
    match situation.judge_bytes(body) {
        // The uid may be what was damaged.
        Ok(judged) => {
            let uid = json!(judged.response)["uid"].as_str().unwrap().to_owned();
            well_formed(&judged, &uid)
        }
        Err(bad) => {
            let Some(uid) = &bad.uid else { return Ok(()) };
            let response = json!(airgate::answer::Response::to_bad_input(uid, &bad));
            let message = response["status"]["message"].as_str().unwrap();
            prop_assert!(message.chars().count() <= 1200, "{message}");
            prop_assert!(!message.chars().any(|c| c.is_control() && c != '\n'), "{message:?}");
            Ok(())
        }
    }
}

#[test]
fn arbitrary_bytes() {
    let world = worlds().new_tree(&mut runner(1)).unwrap().current();
    let situation = Situation::of(&world);
    let bytes = prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..300),
        "[\\[\\]{}\",:0-9a-z\\\\ ]{0,200}".prop_map(String::into_bytes),
        "\\{\"apiVersion\":\"admission.k8s.io/v1\",\"kind\":\"AdmissionReview\",\"request\":\\{.{0,60}"
            .prop_map(String::into_bytes),
    ];
    runner(3000).run(&bytes, |bytes| judge(&situation, &bytes)).unwrap();
}

#[test]
fn damaged_reviews() {
    let damage = (
        worlds(),
        any::<prop::sample::Index>(),
        proptest::collection::vec((any::<prop::sample::Index>(), 0..8_u32), 0..4),
    );
    let result = runner(600).run(&damage, |(world, cut, flips)| {
        let situation = Situation::of(&world);
        let mut body = situation.review.to_string().into_bytes();
        judge(&situation, &body[..cut.index(body.len())])?;
        for (at, bit) in flips {
            let at = at.index(body.len());
            body[at] ^= 1 << bit;
        }
        judge(&situation, &body)
    });
    result.unwrap_or_else(|error| panic!("{error}"));
}

/// JSON of any kind, with the texts that break terminals and parsers.
fn any_json() -> impl Strategy<Value = Value> {
    let text = prop_oneof![
        ".{0,12}",
        "[\\x00-\\x1f\\x7f\\u{85}\\u{200b}\\u{202e}\\u{2028}a]{1,20}",
        Just("4.19.9\u{1b}[2J".to_owned()),
        Just("quay.io/a/b@sha256:".to_owned() + &"a".repeat(64)),
        Just("x".repeat(5000)),
        Just("ocp-release-bundle-".to_owned() + &"9".repeat(400)),
        Just("99999999999999999999.1.1".to_owned()),
        Just("\u{202e}4.19.9".repeat(200)),
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        text.clone().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 5, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            proptest::collection::btree_map(
                prop_oneof![
                    "[a-zA-Z/.]{0,9}",
                    Just("name".to_owned()),
                    Just("image".to_owned()),
                    Just("version".to_owned())
                ],
                inner,
                0..5
            )
            .prop_map(|map| Value::from(map.into_iter().collect::<serde_json::Map<_, _>>())),
        ]
    })
}

#[test]
fn arbitrary_values_in_the_guarded_fields() {
    const PLACES: [&str; 24] = [
        "/spec",
        "/spec/desiredUpdate",
        "/spec/desiredUpdate/version",
        "/spec/desiredUpdate/image",
        "/spec/desiredUpdate/architecture",
        "/spec/desiredUpdate/force",
        "/spec/desiredUpdate/mode",
        "/spec/channel",
        "/spec/releases",
        "/spec/releases/0/name",
        "/status",
        "/status/desired",
        "/status/desired/version",
        "/status/desired/image",
        "/status/history",
        "/status/history/0/version",
        "/status/history/0/image",
        "/status/availableUpdates/0/version",
        "/status/releases",
        "/status/releases/0/image",
        "/status/releases/0/name",
        "/metadata/name",
        "/metadata/annotations",
        "/metadata/annotations/airgate.io~1override",
    ];
    let change = (prop::sample::select(&PLACES[..]), any::<bool>(), any_json());
    let changes = (worlds(), proptest::collection::vec(change, 1..4));
    let mut judged = 0;
    let judged_cell = std::cell::RefCell::new(&mut judged);
    let result = runner(1500).run(&changes, |(world, changes)| {
        let mut situation = Situation::of(&world);
        for (place, new, value) in changes {
            for side in if new { &["object"][..] } else { &["object", "oldObject"] } {
                if let Some(field) = situation.review.pointer_mut(&format!("/request/{side}{place}")) {
                    *field = value.clone();
                }
            }
        }
        let body = situation.review.to_string();
        if situation.judge_bytes(body.as_bytes()).is_ok() {
            **judged_cell.borrow_mut() += 1;
        }
        judge(&situation, body.as_bytes())
    });
    result.unwrap_or_else(|error| panic!("{error}"));
    assert!(judged > 500, "{judged} were judged: the rest never got that far");
}

#[test]
fn the_uid_is_echoed_whatever_it_is() {
    let world = worlds().new_tree(&mut runner(1)).unwrap().current();
    let mut situation = Situation::of(&world);
    assert_eq!(situation.review["request"]["uid"], UID);
    for uid in ["x", "\u{202e}", "\"quoted\\", &"long".repeat(300)] {
        situation.review["request"]["uid"] = json!(uid);
        assert_eq!(json!(situation.judge().response)["uid"], uid);
    }
}
