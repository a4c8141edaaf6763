//! What a verdict must not depend on.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::always;
use crate::bridge::{Situation, answer};
use crate::generate::GOOD_REPOSITORIES;
use crate::reference::Answer;
use crate::world::{ClusterVersion, Request, Seen, World};

fn judged(world: &World) -> Answer {
    answer(&Situation::of(world).judge())
}

/// The JSON with the keys of every object the other way round.
fn backwards(value: &Value) -> String {
    match value {
        Value::Object(map) => {
            let fields: Vec<_> =
                map.iter().rev().map(|(key, value)| format!("{}:{}", json!(key), backwards(value))).collect();
            format!("{{ {} }}", fields.join(" , "))
        }
        Value::Array(items) => format!("[{}]", items.iter().map(backwards).collect::<Vec<_>>().join(",\n")),
        other => other.to_string(),
    }
}

#[test]
fn field_order_and_unrelated_fields() {
    always(700, |world| {
        let mut situation = Situation::of(world);
        let expected = json!(situation.judge().response);
        let turned = situation.judge_bytes(backwards(&situation.review).as_bytes()).unwrap();
        prop_assert_eq!(&expected, &json!(turned.response), "field order");
        for side in ["object", "oldObject"] {
            let object = &mut situation.review["request"][side];
            if object.is_null() {
                continue;
            }
            object["metadata"]["labels"] = json!({"version": "4.1.0", "desiredUpdate": "x"});
            object["metadata"]["annotations"]["airgate.io/overrides"] = json!("not this one");
            object["metadata"]["managedFields"] =
                json!([{"manager": "oc", "fieldsV1": {"f:spec": {"f:desiredUpdate": {}}}}]);
            object["spec"]["overrides"] = json!([{"kind": "Deployment", "unmanaged": true}]);
            object["spec"]["further"] = json!({"desiredUpdate": {"image": "x"}, "releases": []});
            object["status"]["versionHash"] = json!("hash");
            object["status"]["observedGeneration"] = json!(9);
            for entry in object["status"]["history"].as_array_mut().into_iter().flatten() {
                entry["acceptedRisks"] = json!("Forced through blocking failures");
                entry["completionTime"] = Value::Null;
            }
        }
        let more = situation.judge();
        prop_assert_eq!(&expected, &json!(more.response), "unrelated fields");
        Ok(())
    });
}

/// Applies to every ClusterVersion of a world.
fn each_cluster_version(world: &mut World, change: impl Fn(&mut ClusterVersion)) {
    match &mut world.request {
        Request::CreateCv(new) => change(new),
        Request::DeleteCv(old) => change(old),
        Request::UpdateCv(old, new) => {
            change(old);
            change(new);
        }
        _ => {}
    }
    if let Seen::Yes(stored) | Seen::Stale(stored) = &mut world.cluster_version {
        change(stored);
    }
}

/// Beyond the newest Completed entry and the rollback candidate, history is a set.
#[test]
fn history_order_beyond_the_window() {
    always(700, |world| {
        let mut turned = world.clone();
        each_cluster_version(&mut turned, |cv| {
            let completed = cv.history.iter().position(|entry| entry.state == "Completed");
            let other = cv
                .history
                .iter()
                .position(|entry| !crate::reference::same_version(&entry.version, &cv.desired.version));
            let window = completed.zip(other).map_or(cv.history.len(), |(a, b)| a.max(b) + 1);
            cv.history[window..].reverse();
        });
        prop_assert_eq!(judged(world), judged(&turned));
        Ok(())
    });
}

/// Every well-formed image moved to one registry: digests are compared, hosts never.
#[test]
fn the_registry_of_an_image() {
    always(700, |world| {
        let move_image = |image: &mut String| {
            if let Some((repository, digest)) = image.split_once('@')
                && GOOD_REPOSITORIES.contains(&repository)
            {
                *image = format!("mirror.corp.example:8443/deep/er/release@{digest}");
            }
        };
        let mut moved = world.clone();
        each_cluster_version(&mut moved, |cv| {
            move_image(&mut cv.target.image);
            move_image(&mut cv.desired.image);
            cv.history.iter_mut().for_each(|entry| move_image(&mut entry.image));
            cv.available.iter_mut().for_each(|release| move_image(&mut release.image));
            cv.conditional.iter_mut().for_each(|update| move_image(&mut update.release.image));
        });
        if let Request::UpdateIri(iri, _) | Request::DeleteIri(iri) = &mut moved.request {
            iri.status.iter_mut().for_each(|bundle| move_image(&mut bundle.image));
        }
        // Where old and new target differed in the registry only, there is a step no longer.
        if let (Request::UpdateCv(old, new), Request::UpdateCv(was_old, was_new)) = (&moved.request, &world.request)
            && old.target.image == new.target.image
            && was_old.target.image != was_new.target.image
        {
            return Ok(());
        }
        prop_assert_eq!(judged(world), judged(&moved));
        Ok(())
    });
}
