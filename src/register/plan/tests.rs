use super::*;
use crate::manifests::{self, Flavor, Options};
use crate::settings::ServerMode;

const FAILS: [&str; 2] = ["clusterversion.airgate.io", "internalreleaseimage.airgate.io"];

fn printed(ca_bundle: Option<&str>, mode: ServerMode) -> Value {
    let options =
        Options { mode, ca_bundle: ca_bundle.map(|text| text.as_bytes().to_vec()), ..Options::of(Flavor::Openshift) };
    manifests::registered(&options).unwrap()
}

fn home() -> Home {
    Home::There { uid: "u-1".into() }
}

/// The plan where `good` alone vouches.
fn planned(home: &Home, current: Option<&Value>, printed: &Value) -> Plan {
    let vouches = |ca: &[u8]| if ca == b"good" { Ok(()) } else { Err("it is a stranger".to_owned()) };
    plan(&Inputs { home, namespace: "openshift-airgate", current, printed, vouches: &vouches })
}

/// What the API server holds after the step, as it merges: entries and conditions by name, the rest by key.
fn after(current: Option<&Value>, step: &Step) -> Value {
    let mut stored = current.cloned().unwrap_or_else(|| json!({"metadata": {"uid": "c-1", "resourceVersion": "7"}}));
    match step {
        Step::Nothing => {}
        Step::Delete { .. } => return Value::Null,
        Step::Replace { webhooks, version, .. } => {
            assert_eq!(*version, "7");
            stored["webhooks"] = webhooks.clone();
        }
        Step::Apply { object, .. } => {
            json_patch::merge(&mut stored["metadata"], &object["metadata"]);
            let mut all: Vec<Value> = entries(&stored).into_iter().cloned().collect();
            for entry in entries(object) {
                match all.iter_mut().find(|before| before["name"] == entry["name"]) {
                    Some(before) => merge(before, entry),
                    None => all.push(entry.clone()),
                }
            }
            stored["webhooks"] = all.into();
        }
    }
    stored
}

fn merge(before: &mut Value, entry: &Value) {
    for (key, value) in entry.as_object().unwrap() {
        match key.as_str() {
            "clientConfig" => json_patch::merge(&mut before["clientConfig"], value),
            "matchConditions" => {
                let stored = before["matchConditions"].as_array_mut().unwrap();
                stored.retain(|one| one["name"] != value[0]["name"]);
                stored.extend(value.as_array().unwrap().iter().cloned());
            }
            _ => before[key] = value.clone(),
        }
    }
}

fn inject(stored: &mut Value, bundle: &str) {
    for entry in stored["webhooks"].as_array_mut().unwrap() {
        entry["clientConfig"]["caBundle"] = STANDARD.encode(bundle).into();
    }
}

fn failing(stored: &Value) -> Vec<&str> {
    entries(stored).into_iter().filter(|entry| entry["failurePolicy"] == "Fail").map(|e| text(e, "/name")).collect()
}

/// Registered and trusted, as it stays.
fn registered() -> Value {
    let printed = printed(None, ServerMode::Enforce);
    let mut stored = after(None, &planned(&home(), None, &printed).step);
    inject(&mut stored, "good");
    let plan = planned(&home(), Some(&stored), &printed);
    after(Some(&stored), &plan.step)
}

#[test]
fn it_begins_with_ignore_and_fails_once_the_stored_ca_vouches() {
    let printed = printed(None, ServerMode::Enforce);
    let first = planned(&home(), None, &printed);
    assert_eq!(first.soft, FAILS);
    assert!(first.waiting[0].ends_with("it is not registered yet"), "{:?}", first.waiting);
    let mut stored = after(None, &first.step);
    assert_eq!(failing(&stored), [""; 0]);
    assert_eq!(stored["metadata"]["ownerReferences"][0]["uid"], "u-1");

    // Nobody has injected anything, then the wrong one: nothing to do but to wait.
    for (bundle, why) in [("", "nobody has injected one yet"), ("bad", "it is a stranger")] {
        inject(&mut stored, bundle);
        let plan = planned(&home(), Some(&stored), &printed);
        assert_eq!((&plan.step, plan.soft.len()), (&Step::Nothing, 2));
        assert!(plan.waiting[0].ends_with(why), "{:?}", plan.waiting);
    }
    inject(&mut stored, "good");
    let plan = planned(&home(), Some(&stored), &printed);
    assert_eq!((plan.waiting.len(), plan.soft.len()), (0, 0));
    let hard = after(Some(&stored), &plan.step);
    assert_eq!(failing(&hard), FAILS);
    assert_eq!(text(&hard, "/webhooks/0/clientConfig/caBundle"), STANDARD.encode("good"));
    assert_eq!(planned(&home(), Some(&hard), &printed).step, Step::Nothing);
}

#[test]
fn every_drift_is_seen_and_mended_and_the_ca_stays() {
    let printed = printed(None, ServerMode::Enforce);
    let good = registered();
    let edit = |change: &dyn Fn(&mut Value)| {
        let mut stored = good.clone();
        change(&mut stored);
        stored
    };
    for (case, part) in [
        (edit(&|at| at["webhooks"][0]["failurePolicy"] = "Ignore".into()), "failurePolicy"),
        (edit(&|at| at["webhooks"][2]["failurePolicy"] = "Fail".into()), "failurePolicy"),
        (edit(&|at| at["webhooks"][0]["rules"] = json!([])), "rules"),
        (edit(&|at| at["webhooks"][0]["timeoutSeconds"] = 1.into()), "timeoutSeconds"),
        (edit(&|at| at["webhooks"][0]["objectSelector"] = json!({"matchLabels": {"a": "b"}})), "objectSelector"),
        (edit(&|at| at["webhooks"][0]["namespaceSelector"] = json!({"matchLabels": {"a": "b"}})), "namespaceSelector"),
        (edit(&|at| at["webhooks"][0]["matchConditions"][0]["expression"] = "false".into()), "matchConditions"),
        (
            edit(&|at| {
                let conditions = at["webhooks"][0]["matchConditions"].as_array_mut().unwrap();
                conditions.push(json!({"name": "never", "expression": "false"}));
            }),
            "a condition that is none of airgate's",
        ),
        (edit(&|at| at["webhooks"].as_array_mut().unwrap().push(json!({"name": "x.example"}))), "x.example is none"),
        (edit(&|at| at["webhooks"][0]["clientConfig"]["service"]["path"] = "/x".into()), "whom it calls"),
        (
            edit(&|at| at["webhooks"][0]["clientConfig"] = json!({"url": "https://x.example", "caBundle": "Z29vZA=="})),
            "it calls somebody else",
        ),
        (edit(&|at| at["metadata"]["ownerReferences"] = json!([])), "the owner reference"),
        (edit(&|at| at["metadata"]["annotations"] = Value::Null), "the annotation service.beta.openshift.io"),
    ] {
        let plan = planned(&home(), Some(&case), &printed);
        let (Step::Apply { why, .. } | Step::Replace { why, .. }) = &plan.step else { panic!("{part}: {plan:?}") };
        assert!(why.iter().any(|why| why.contains(part)), "{part}: {why:?}");
        let mended = after(Some(&case), &plan.step);
        assert_eq!(failing(&mended), FAILS, "{part}");
        assert!(planned(&home(), Some(&mended), &printed).step == Step::Nothing, "{part}");
        for entry in entries(&mended) {
            assert_eq!(text(entry, "/clientConfig/caBundle"), STANDARD.encode("good"), "{part}");
        }
    }
    // An entry that is gone took its CA along: it comes back with Ignore, the others stay as they are.
    let gone = edit(&|at| drop(at["webhooks"].as_array_mut().unwrap().remove(0)));
    let plan = planned(&home(), Some(&gone), &printed);
    assert_eq!(plan.soft, [FAILS[0]]);
    assert_eq!(failing(&after(Some(&gone), &plan.step)), [FAILS[1]]);
}

#[test]
fn what_fails_closed_is_opened_only_where_no_call_could_succeed() {
    let printed = printed(None, ServerMode::Enforce);
    let mut rotated = registered();
    inject(&mut rotated, "bad");
    let plan = planned(&home(), Some(&rotated), &printed);
    assert_eq!((&plan.step, plan.soft.len(), plan.waiting.len()), (&Step::Nothing, 0, 2), "it stays, and says so");
    inject(&mut rotated, "");
    assert_eq!(planned(&home(), Some(&rotated), &printed).soft, FAILS);
    // Left behind for another server.
    let mut elsewhere = registered();
    inject(&mut elsewhere, "bad");
    elsewhere["webhooks"][0]["clientConfig"]["service"]["namespace"] = "elsewhere".into();
    assert_eq!(planned(&home(), Some(&elsewhere), &printed).soft, [FAILS[0]]);
}

#[test]
fn its_own_ca_is_applied_and_rotated_in_one_step() {
    let with = |bundle| printed(Some(bundle), ServerMode::Enforce);
    let stored = after(None, &planned(&home(), None, &with("good")).step);
    assert_eq!((failing(&stored).len(), text(&stored, "/webhooks/0/clientConfig/caBundle")), (0, "Z29vZA=="));
    let plan = planned(&home(), Some(&stored), &with("good"));
    let stored = after(Some(&stored), &plan.step);
    assert_eq!(failing(&stored), FAILS);
    let plan = planned(&home(), Some(&stored), &with("good and next"));
    let rotated = after(Some(&stored), &plan.step);
    assert_eq!(failing(&rotated), FAILS, "never open in between");
    assert_eq!(text(&rotated, "/webhooks/0/clientConfig/caBundle"), STANDARD.encode("good and next"));
}

#[test]
fn a_namespace_that_is_absent_leaving_or_says_no() {
    let (printed, stored) = (printed(None, ServerMode::Enforce), registered());
    for (home, part) in [
        (Home::Leaving, "is being deleted"),
        (Home::Unregistered("case 7".into()), "has the annotation airgate.io/unregistered (case 7)"),
    ] {
        let plan = planned(&home, Some(&stored), &printed);
        assert!(matches!(&plan.step, Step::Delete { uid, why } if uid == "c-1" && why.contains(part)), "{plan:?}");
        let plan = planned(&home, None, &printed);
        assert_eq!(plan.step, Step::Nothing);
        assert!(plan.waiting[0].contains(part), "{plan:?}");
        let mut held = stored.clone();
        held["metadata"]["deletionTimestamp"] = "2031-03-04T05:06:07Z".into();
        held["metadata"]["finalizers"] = json!(["example.com/held"]);
        let plan = planned(&home, Some(&held), &printed);
        assert_eq!(plan.step, Step::Nothing, "it is deleted once");
        assert!(plan.waiting[0].contains(part) && plan.waiting[0].contains("example.com/held"), "{plan:?}");
    }
    let plan = planned(&Home::Absent, Some(&stored), &printed);
    assert_eq!(plan.step, Step::Nothing);
    assert!(plan.waiting[0].contains("to be there"), "{plan:?}");
}

#[test]
fn audit_mode_waits_for_nobody() {
    let printed = printed(None, ServerMode::Audit);
    let plan = planned(&home(), None, &printed);
    assert_eq!((plan.waiting.len(), plan.soft.len()), (0, 0));
    assert_eq!(planned(&home(), Some(&after(None, &plan.step)), &printed).step, Step::Nothing);
}

#[test]
fn who_else_wrote_it() {
    let managers = json!([{"manager": "kubectl"}, {"manager": "airgate"}, {"manager": "kubectl"}, {"manager": "argo"}]);
    assert_eq!(others(&json!({"metadata": {"managedFields": managers}}), "airgate"), ["argo", "kubectl"]);
}
