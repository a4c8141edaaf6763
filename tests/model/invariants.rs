//! What must hold of the engine in any world, whatever the model says.

mod answers;
mod hostile;
mod independence;
mod justified;

use proptest::prelude::*;
use proptest::strategy::ValueTree;

use crate::agree::{runner, shown, tame};
use crate::bridge::Situation;
use crate::generate::{tapes, world_of};
use crate::world::{Request, Target, World};

/// Runs a property over worlds; a world that breaks it is shown as tame as it still breaks it.
fn always(cases: u32, property: impl Fn(&World) -> Result<(), TestCaseError>) {
    let mut runner = runner(cases);
    for _ in 0..runner.config().cases {
        let mut tape = tapes().new_tree(&mut runner).unwrap().current();
        if property(&world_of(&tape)).is_err() {
            tame(&mut tape, &|tape| property(&world_of(tape)).is_err());
            let world = world_of(&tape);
            panic!("{}\n{}", property(&world).unwrap_err(), shown(&world));
        }
    }
}

#[test]
fn clearing_is_always_allowed_even_with_no_facts() {
    let mut forced_off = 0;
    let forced_off = std::cell::RefCell::new(&mut forced_off);
    always(700, |world| {
        let Request::UpdateCv(old, _) = &world.request else { return Ok(()) };
        let nothing = Target::default();
        let mut forms = vec![
            nothing.clone(),
            Target { accept_risks: true, ..nothing.clone() },
            Target { force: true, ..nothing },
            old.target.clone(),
            Target { accept_risks: !old.target.accept_risks, ..old.target.clone() },
        ];
        if old.target.force {
            **forced_off.borrow_mut() += 1;
            forms.push(Target { force: false, ..old.target.clone() });
        }
        for form in forms {
            let mut cleared = world.clone();
            let Request::UpdateCv(_, new) = &mut cleared.request else { unreachable!() };
            new.target = form;
            let mut situation = Situation::of(&cleared);
            for _ in 0..2 {
                let judged = situation.judge();
                prop_assert!(judged.response.allowed && judged.verdict.findings.is_empty(), "{judged:?}");
                situation.snapshot = airgate::cluster::Snapshot::nothing("the API server cannot be reached");
                situation.catalog = airgate::release::Catalog::default();
            }
        }
        Ok(())
    });
    assert!(forced_off.into_inner() > &mut 5, "force true to false is hardly ever met");
}

/// Adding a release never turns an allow into a denial that does not name it.
#[test]
fn a_release_that_denies_is_named() {
    let mut turned = 0;
    let turned = std::cell::RefCell::new(&mut turned);
    always(1500, |world| {
        if !Situation::of(world).judge().response.allowed {
            return Ok(());
        }
        for (index, added) in world.catalog.iter().enumerate() {
            // The world before this release was added.
            let mut before = world.clone();
            before.catalog.remove(index);
            let (before, after) = (Situation::of(&before).judge(), Situation::of(world).judge());
            prop_assert!(after.response.allowed || !before.response.allowed);
            // And with what the catalog has of others said of this one's digest.
            let other = &world.catalog[(index + 1) % world.catalog.len()];
            let mut more = world.clone();
            let twisted = crate::world::CatalogEntry { digest: added.digest.clone(), ..other.clone() };
            more.catalog.push(twisted.clone());
            let judged = Situation::of(&more).judge();
            // An override that cannot be read is the only denial: it hides what it was for.
            let unreadable = |status: &airgate::answer::Status| {
                status.message.contains("the annotation airgate.io/override cannot be read")
            };
            if let Some(status) = judged.response.status.filter(|status| !unreadable(status)) {
                **turned.borrow_mut() += 1;
                let version = twisted.version.split('+').next().unwrap();
                // By one of its children where the sources differ on that.
                let mut digests = std::iter::once(&twisted.digest).chain(&twisted.shards);
                let named = digests.any(|digest| status.message.contains(digest)) || status.message.contains(version);
                prop_assert!(named, "{} is not named:\n{}", twisted.digest, status.message);
            }
        }
        Ok(())
    });
    assert!(turned.into_inner() > &mut 20, "hardly any addition denies");
}
