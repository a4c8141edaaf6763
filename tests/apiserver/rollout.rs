//! On the way to enforcement: what audit and warn let pass, and what they leave behind.

use serde_json::{Value, json};

use crate::api::{Answer, IMAGE, VERSION};
use crate::guard::{Guard, Site};
use crate::objects::internal_release_image;

/// The annotations that airgate's webhook left in the audit log of the last write to a resource.
fn annotations(guard: &Guard, resource: &str) -> Value {
    let events = guard.testbed.audit_events();
    let written = events.iter().rev().find(|e| e["objectRef"]["resource"] == resource && e["verb"] == "patch");
    written.expect("a write in the audit log")["annotations"].clone()
}

/// Sends an upgrade that no payload lists: what comes back, and what is recorded of it.
fn upgrade(guard: &Guard) -> (Answer, String) {
    let target = json!({"spec": {"desiredUpdate": {"image": Site::new().unlisted.image}}});
    let answer = guard.api.merge(VERSION, &target);
    let annotations = annotations(guard, "clusterversions");
    let recorded = annotations["clusterversion.airgate.io/upgrade-path"].as_str().unwrap_or_default().to_owned();
    let inputs = annotations["clusterversion.airgate.io/inputs"].as_str().unwrap_or_default();
    assert!(inputs.starts_with("request ") && inputs.contains(", now 2"), "{inputs}");
    guard.api.merge(VERSION, &json!({"spec": {"desiredUpdate": null}})).success();
    (answer, recorded)
}

/// Under this configuration the step gets this code, a warning or none, and this record; and it is counted.
fn check(guard: &mut Guard, config: Value, code: u16, warned: bool, recorded: &str) {
    guard.configure(Some(config.clone()));
    guard.reset();
    let enforced = if code == 200 { "false" } else { "true" };
    let series = format!(r#"airgate_findings_total{{policy="upgrade-path",outcome="deny",enforced="{enforced}"}}"#);
    let before = guard.count(&series);
    let (answer, record) = upgrade(guard);
    assert_eq!(answer.code, code, "{config}: {answer:?}");
    assert!(record.starts_with(recorded), "{config}: {record}");
    let warning = answer.warnings.iter().find(|warning| warning.contains("4.19.9"));
    assert_eq!(warning.is_some(), warned, "{config}: {answer:?}");
    assert!(warning.is_none_or(|warning| warning.contains("upgrade-path would deny this")), "{warning:?}");
    assert_eq!(guard.count(&series), before + 1, "{config}: {series}");
}

#[test]
fn audit_and_warn_deny_nothing_and_record_what_they_would_have_denied() {
    let mut guard = Guard::shared();
    check(&mut guard, json!({"mode": "audit"}), 200, true, "deny, not enforced: 4.18.12 cannot go straight to 4.19.9");
    // Nothing is denied here, whatever it is.
    let drops = json!({"spec": internal_release_image(&[&Site::new().listed])["spec"]});
    let drop = guard.api.merge(&format!("{IMAGE}?dryRun=All"), &drops);
    assert!(drop.code == 200 && drop.warnings[0].contains("release-in-use would deny this"), "{drop:?}");
    let recorded = annotations(&guard, "internalreleaseimages");
    let recorded = recorded["internalreleaseimage.airgate.io/release-in-use"].as_str().unwrap();
    assert!(recorded.starts_with("deny, not enforced: "), "{recorded}");
    let tag = json!({"spec": {"desiredUpdate": {"image": "registry.example:5000/ocp/release:4.18.20"}}});
    assert_eq!(guard.dry_run(&tag).code, 200);

    let of_policy = |mode: &str| json!({"policies": {"upgrade-path": {"mode": mode}}});
    check(&mut guard, of_policy("audit"), 200, false, "recorded: 4.18.12 cannot go straight");
    check(&mut guard, of_policy("warn"), 200, true, "deny, not enforced: 4.18.12 cannot go straight");
    check(&mut guard, of_policy("deny"), 403, false, "deny: 4.18.12 cannot go straight");
    // One policy that only warns takes nothing from the others.
    guard.configure(Some(of_policy("warn")));
    assert_eq!(guard.dry_run(&tag).code, 422);
}
