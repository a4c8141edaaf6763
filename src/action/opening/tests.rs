use serde_json::json;

use super::*;
use crate::action::Target;
use crate::action::upgrade::UpgradeFlags;
use crate::action::{Patch, apply};
use crate::cluster::Snapshot;
use crate::release::Catalog;
use crate::release::tests::{digest, release};
use crate::settings::Settings;

const NOW: &str = "2026-11-30T12:00:00Z";

fn entry(policy: &str, target: &str, expires: &str) -> Value {
    json!({"policy": policy, "from": "4.18.12", "target": target, "reason": "theirs", "expires": expires})
}

/// A ClusterVersion on 4.18.12 with this annotation.
fn stored(annotation: &str) -> Stored {
    let mut object = json!({
        "apiVersion": "config.openshift.io/v1", "kind": "ClusterVersion", "metadata": {"name": "version"}, "spec": {},
        "status": {"desired": {"version": "4.18.12", "image": format!("r.io/o/r@{}", digest('1'))},
            "history": [{"state": "Completed", "version": "4.18.12", "image": format!("r.io/o/r@{}", digest('1'))}]},
    });
    if !annotation.is_empty() {
        apply_annotation(&mut object, annotation);
    }
    Stored::Found(object, "a test".into())
}

fn apply_annotation(object: &mut Value, annotation: &str) {
    object["metadata"]["annotations"] = json!({ANNOTATION: annotation});
}

fn to(image: &str) -> Action {
    Action::Upgrade(UpgradeFlags { to_image: Some(image.into()), ..UpgradeFlags::default() })
}

fn opening(action: &Action, stored: &Stored, policies: &[&str], settings: &Settings) -> Result<Opening, Refusal> {
    let catalog = Catalog::new([release("4.18.20", '2', &["4.18.12"]), release("4.19.9", '3', &["4.18.20"])]);
    let cluster = Snapshot::nothing("a test");
    let now: Timestamp = NOW.parse().unwrap();
    let facts = Facts::of(&cluster, &catalog, settings, now);
    let policies: Vec<String> = policies.iter().map(ToString::to_string).collect();
    let wanted = Wanted { policies: &policies, reason: "mine", expires: "2026-11-30T13:00:00Z".parse().unwrap() };
    Opening::of(action, stored, wanted, facts)
}

fn unlisted() -> Action {
    to(&format!("r.io/o/r@{}", digest('3')))
}

#[test]
fn what_denies_is_opened_and_nothing_else_is_promised() {
    let found = opening(&unlisted(), &stored(""), &[], &Settings::default()).unwrap();
    assert!(found.opens && found.denials.len() == 1 && found.denials[0].opened, "{found:?}");
    assert!(found.denials[0].message.starts_with("4.18.12 cannot go straight to 4.19.9."), "{found:?}");
    let Override::Entries(entries) = Override::parse(&found.annotation) else { panic!("{}", found.annotation) };
    assert_eq!(entries, found.entries);
    let expected = (digest('3').to_string(), "4.18.12", "upgrade-path", "mine");
    let Entry { policy, from, target, reason, .. } = &entries[0];
    assert_eq!((target.clone(), &**from, &**policy, &**reason), expected);

    // A missing fact is opened as well.
    let unknown = opening(&to(&format!("r.io/o/r@{}", digest('9'))), &stored(""), &[], &Settings::default()).unwrap();
    assert!(unknown.opens && unknown.denials[0].message.contains("cannot be judged"), "{unknown:?}");
    // A malformed value is not, though the rest could be.
    let tag = opening(&to("r.io/o/r:4.19.9"), &stored(""), &[], &Settings::default()).unwrap();
    assert!(!tag.opens && tag.denials.iter().any(|denial| denial.why.contains("no override opens")), "{tag:?}");
    assert!(tag.entries.is_empty(), "{tag:?}");
}

#[test]
fn there_may_be_nothing_to_set() {
    let settings = Settings::default();
    let listed = to(&format!("r.io/o/r@{}", digest('2')));
    assert_eq!(opening(&listed, &stored(""), &[], &settings), Err(Refusal::Allowed));
    // Allowed by an override that is there is denied without it: that one can be renewed.
    let set = entry("upgrade-path", &digest('3').to_string(), "2026-11-30T12:30:00Z").to_string();
    let renewed = opening(&unlisted(), &stored(&set), &[], &settings).unwrap();
    assert!(renewed.opens && renewed.notes[0].starts_with("replaces: upgrade-path, 4.18.12"), "{renewed:?}");
    assert_eq!(renewed.annotation.matches("upgrade-path").count(), 1);

    let wrong = opening(&unlisted(), &stored(""), &["release-identity"], &settings).unwrap_err().to_string();
    assert!(wrong.contains("release-identity does not deny this step") && wrong.ends_with("upgrade-path"), "{wrong}");
    let absent = opening(&unlisted(), &Stored::KnownAbsent, &[], &settings).unwrap_err();
    assert!(matches!(absent, Refusal::NoReview(NoReview::Unknown(_))), "{absent}");
    let patch = |patch: Value| {
        let target = Target::parse("clusterversion/version").unwrap();
        Action::Patch { target, patch: Patch::Merge(patch), subresource: String::new() }
    };
    let image = format!("r.io/o/r@{}", digest('3'));
    let mut by_itself = json!({"spec": {"desiredUpdate": {"image": image}}});
    assert!(opening(&patch(by_itself.clone()), &stored(""), &[], &settings).unwrap().opens);
    apply_annotation(&mut by_itself, "{}");
    assert_eq!(opening(&patch(by_itself), &stored(""), &[], &settings), Err(Refusal::SetByPatch));
    let broken = opening(&patch(json!({"spec": {"desiredUpdate": {"image": 5}}})), &stored(""), &[], &settings);
    assert!(matches!(&broken, Err(Refusal::Malformed(why)) if why.contains("cannot be read")), "{broken:?}");
}

#[test]
fn entries_of_others_stay_while_they_are_good() {
    let theirs = json!([
        entry("upgrade-path", "4.19.1", "2026-11-30T12:00:00Z"),
        entry("release-identity", "4.19.2", "2026-11-30T12:00:01Z"),
    ]);
    let merged = opening(&unlisted(), &stored(&theirs.to_string()), &[], &Settings::default()).unwrap();
    let Override::Entries(entries) = Override::parse(&merged.annotation) else { panic!("{}", merged.annotation) };
    let targets: Vec<&str> = entries.iter().map(|entry| &*entry.target).collect();
    assert_eq!(targets, ["4.19.2", &*digest('3').to_string()]);
    assert!(
        merged.notes[0].starts_with("drops what has expired") && merged.notes[1].starts_with("keeps"),
        "{merged:?}"
    );

    let broken = opening(&unlisted(), &stored("yes"), &[], &Settings::default()).unwrap();
    assert!(broken.opens && broken.notes[0].contains("cannot be read and is replaced"), "{broken:?}");
    let many: Vec<Value> =
        (0..ENTRIES_MAX).map(|n| entry("upgrade-path", &format!("4.19.{n}"), "2026-11-30T13:00:00Z")).collect();
    let many = stored(&json!(many).to_string());
    assert_eq!(opening(&unlisted(), &many, &[], &Settings::default()), Err(Refusal::TooMany(ENTRIES_MAX + 1)));
}

#[test]
fn who_may_use_it_is_said() {
    let settings = Settings { override_groups: vec!["ops".into(), "sre".into()], ..Settings::default() };
    let found = opening(&unlisted(), &stored(""), &[], &settings).unwrap();
    assert!(found.opens && found.notes == ["only members of ops, sre may use it (overrideGroups)"], "{found:?}");
}

#[test]
fn the_step_is_told_as_a_command_that_a_shell_takes() {
    let target = Target::parse("clusterversion/version").unwrap();
    let object = apply::apply(&json!({}), &json!({"kind": "X"}));
    for (action, command) in [
        (to("r.io/o/r@sha256:1"), "oc adm upgrade --allow-explicit-upgrade --to-image r.io/o/r@sha256:1"),
        (
            Action::Upgrade(UpgradeFlags { to: Some("4.1; rm".into()), force: true, ..UpgradeFlags::default() }),
            "oc adm upgrade --to '4.1; rm' --force",
        ),
        (Action::Delete(target.clone()), "oc delete clusterversion/version"),
        (
            Action::Patch { target, patch: Patch::Merge(json!({"a": "it's"})), subresource: String::new() },
            r#"oc patch clusterversion version --type merge -p '{"a":"it'\''s"}'"#,
        ),
        (Action::Apply(object), "oc apply -f FILE"),
    ] {
        assert_eq!(action.command(), command);
    }
}
