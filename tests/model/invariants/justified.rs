//! An allowed step has one of the reasons that the design knows.

use std::cell::RefCell;
use std::collections::BTreeMap;

use proptest::prelude::*;

use super::always;
use crate::bridge::Situation;
use crate::reference::{digest_of, same_version};
use crate::world::{ClusterVersion, Request, World};

/// Why this digest may be gone to; `None` where nothing speaks for it.
fn reason(old: &ClusterVersion, digest: &str, world: &World) -> Option<&'static str> {
    let at = |image: &str| digest_of(image) == Some(digest);
    let entries = || world.catalog.iter().filter(|entry| entry.digest == digest);
    let lists = |previous: &Vec<String>| previous.iter().any(|version| same_version(version, &old.desired.version));
    let multi = |entry: &&crate::world::CatalogEntry| {
        entry.architecture.as_deref() == Some("multi") || !entry.shards.is_empty()
    };
    let reasons = [
        ("same release", at(&old.desired.image)),
        (
            "single to multi",
            old.desired.architecture != "Multi"
                && entries().filter(multi).any(|entry| same_version(&entry.version, &old.desired.version)),
        ),
        ("listed", entries().any(|entry| entry.previous.as_ref().is_some_and(lists))),
        ("rollback", old.history.iter().any(|entry| at(&entry.image))),
        (
            "offered",
            old.available.iter().chain(old.conditional.iter().map(|c| &c.release)).any(|release| at(&release.image)),
        ),
    ];
    reasons.into_iter().find(|(_, holds)| *holds).map(|(name, _)| name)
}

#[test]
fn an_allowed_target_has_a_reason() {
    let counts = RefCell::new(BTreeMap::<&str, u32>::new());
    always(2000, |world| {
        let Request::UpdateCv(old, new) = &world.request else { return Ok(()) };
        // As shipped: a policy that is told not to deny denies nothing.
        let mut world = world.clone();
        world.settings.audit = false;
        world.settings.policies.clear();
        world.hosted = crate::world::Seen::Yes(false);
        let judged = Situation::of(&world).judge();
        let (before, target) = (&old.target, &new.target);
        let changed = (&before.version, &before.image, &before.architecture)
            != (&target.version, &target.image, &target.architecture);
        let named = !target.version.is_empty() || !target.image.is_empty();
        if !judged.response.allowed || !changed || !named || new.name != "version" {
            return Ok(());
        }
        let by_version = || {
            let offered = old.available.iter().filter(|release| same_version(&release.version, &target.version));
            let known = world.catalog.iter().filter(|entry| same_version(&entry.version, &target.version));
            let mut digests =
                offered.filter_map(|release| digest_of(&release.image)).chain(known.map(|entry| &*entry.digest));
            digests.find_map(|digest| reason(old, digest, &world))
        };
        let why = if !judged.verdict.overrides.is_empty() {
            Some("override")
        } else if same_version(&target.version, &old.desired.version) && target.image.is_empty() {
            Some(if target.architecture.is_empty() { "same version" } else { "to multi" })
        } else if target.image.is_empty() {
            by_version()
        } else {
            digest_of(&target.image).and_then(|digest| reason(old, digest, &world))
        };
        prop_assert!(why.is_some(), "allowed for no reason: {judged:?}");
        *counts.borrow_mut().entry(why.unwrap_or_default()).or_default() += 1;
        Ok(())
    });
    for why in
        ["same release", "listed", "single to multi", "rollback", "offered", "override", "same version", "to multi"]
    {
        assert!(counts.borrow().get(why).is_some_and(|count| *count > 2), "{why}: {:?}", counts.borrow());
    }
}
