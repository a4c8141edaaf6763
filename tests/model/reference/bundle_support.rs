//! `bundle-support`: "what an IRI depends on stays while it exists".

use super::{Finding, Outcome};
use crate::world::{Kind, Request, Seen, Thing, World};

const MCO: &str = "system:serviceaccount:openshift-machine-config-operator";

pub fn judge(world: &World) -> Vec<Finding> {
    let Some(step) = step(&world.request, &world.user) else { return vec![] };
    let asks = match world.iri {
        // One on its way out is still there; so is one of which nothing was heard for a while.
        Seen::Yes(_) | Seen::Stale(_) => Outcome::Deny,
        Seen::Absent => return vec![],
        Seen::Unknown => Outcome::Unknown,
    };
    vec![Finding::new(asks, &step)]
}

/// The step, if it is one that takes something away from an InternalReleaseImage.
fn step(request: &Request, user: &str) -> Option<String> {
    match request {
        Request::Delete(old) | Request::Update(old, _) if old.terminating => None,
        // G11: "deny while an IRI exists. MCC rotates by UPDATE (allowed); nobody deletes"
        Request::Delete(old) if supports(old) && !owns_secrets(user) => Some("delete".to_owned()),
        Request::Update(old, new) if supports(old) && !owns_secrets(user) => {
            let filled = |thing: &Thing, key: &String| thing.data.get(key).is_some_and(|value| !value.is_empty());
            old.data.keys().any(|key| filled(old, key) && !filled(new, key)).then(|| old.name.clone())
        }
        // G15: "CVO deletes CRDs only by manifest annotation: exempt it"
        Request::Delete(old) if is_crd(old) && !owns_crds(user) => Some("delete".to_owned()),
        _ => None,
    }
}

fn supports(thing: &Thing) -> bool {
    thing.kind == Kind::Secret
        && thing.namespace == "openshift-machine-config-operator"
        && ["internal-release-image-tls", "internal-release-image-registry-auth"].contains(&&*thing.name)
}

fn is_crd(thing: &Thing) -> bool {
    let of_bundles = ["internalreleaseimages", "machineconfignodes"];
    thing.kind == Kind::Crd
        && of_bundles.iter().any(|resource| thing.name == format!("{resource}.machineconfiguration.openshift.io"))
}

fn owns_secrets(user: &str) -> bool {
    [format!("{MCO}:machine-config-controller"), format!("{MCO}:machine-config-operator")].contains(&user.to_owned())
        || user == "system:serviceaccount:kube-system:namespace-controller"
        || user == "system:serviceaccount:kube-system:generic-garbage-collector"
}

fn owns_crds(user: &str) -> bool {
    user == "system:serviceaccount:openshift-cluster-version:cluster-version-operator"
        || user == "system:serviceaccount:openshift-cluster-version:default"
        || user == "system:serviceaccount:kube-system:generic-garbage-collector"
}
