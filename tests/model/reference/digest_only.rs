//! `digest-only`: "exactly `repo@sha256:<64 lower-case hex>`".

use super::Finding;
use super::texts::digest_pullspec;
use crate::world::{Request, World};

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
        _ => return vec![],
    };
    // Q1: an absent image is no image.
    if image.is_empty() || digest_pullspec(image) { vec![] } else { vec![Finding::malformed()] }
}
