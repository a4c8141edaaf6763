//! `digest-only`: "exactly `repo@sha256:<64 lower-case hex>`".

use super::Finding;
use super::texts::digest_pullspec;
use crate::world::{Kind, Request, Thing, World};

pub fn judge(world: &World) -> Vec<Finding> {
    // "ClusterVersion CREATE/UPDATE: desiredUpdate.image when it or force (false to true) changes"
    let image = match &world.request {
        Request::CreateCv(new) if new.name == "version" => &new.target.image,
        Request::UpdateCv(old, new) if new.name == "version" => {
            let changed = old.target.image != new.target.image;
            let forced = new.target.force && !old.target.force;
            if !(changed || forced) {
                return vec![];
            }
            &new.target.image
        }
        // G13: "Match users only; old tag values must stay editable"
        Request::Create(new) if written(new, &world.user) => &new.os_image,
        Request::Update(old, new) if written(new, &world.user) && old.os_image != new.os_image => &new.os_image,
        _ => return vec![],
    };
    // Q1: an absent image is no image.
    if image.is_empty() || digest_pullspec(image) { vec![] } else { vec![Finding::malformed()] }
}

/// A MachineConfig that none of the platform's writers makes.
fn written(thing: &Thing, user: &str) -> bool {
    let writers = ["machine-config-controller", "machine-config-operator", "machine-os-builder"];
    let by_platform = user
        .strip_prefix("system:serviceaccount:openshift-machine-config-operator:")
        .is_some_and(|account| writers.contains(&account));
    thing.kind == Kind::MachineConfig && !thing.name.starts_with("rendered-") && !by_platform
}
