//! The CEL twin of each [`Guard`], for matchConditions: null-safe, and true wherever the guard is.
//!
//! `false && error` is false and `true || error` is true in CEL, so a guard that asks for its operation
//! first cannot break on an object that the operation does not have.

use crate::breakglass::ANNOTATION;
use crate::objects::cluster_version::NAME;
use crate::objects::mirrors::{IMAGE_CONFIG, MirrorKind};
use crate::policy::Guard;

/// One parenthesised expression.
pub fn guard(guard: Guard) -> String {
    let operation = guard.operation();
    let condition = match guard {
        Guard::ClusterVersionStep => {
            format!("{} && {} && {}", named_version("object"), target_named(), target_changed())
        }
        Guard::ClusterVersionCreateWithTarget => format!("{} && {}", named_version("object"), target_named()),
        Guard::ClusterVersionDelete => format!("{} && {}", named_version("oldObject"), not_terminating()),
        Guard::InternalReleaseImageDrop => format!("{} && {}", not_terminating(), release_dropped()),
        Guard::InternalReleaseImageDelete | Guard::MirrorsDelete(_) => not_terminating(),
        Guard::MirrorsCreate(kind) => format!("{} != []", mirrors("object", kind)),
        Guard::MirrorsChange(kind) => {
            format!("{} && {} != {}", not_terminating(), mirrors("object", kind), mirrors("oldObject", kind))
        }
        Guard::ImageConfigChange => format!("{} && {}", image_config_stays(), registries_changed()),
        Guard::ImageConfigDelete => image_config_stays(),
    };
    format!("(request.operation == '{operation}' && {condition})")
}

/// The override annotation was set, changed or removed.
pub fn override_changed() -> String {
    let annotation = |object: &str| format!("{object}.?metadata.?annotations[?'{ANNOTATION}'].orValue('')");
    format!("{} != (request.operation == 'UPDATE' ? {} : '')", annotation("object"), annotation("oldObject"))
}

fn named_version(object: &str) -> String {
    // Never request.name: it is absent in a deletecollection.
    format!("{object}.?metadata.?name.orValue('') == '{NAME}'")
}

fn field(object: &str, field: &str, default: &str) -> String {
    format!("{object}.?spec.?desiredUpdate.?{field}.orValue({default})")
}

fn target_named() -> String {
    let named = ["version", "image", "architecture"].map(|name| format!("{} != ''", field("object", name, "''")));
    format!("({})", named.join(" || "))
}

fn target_changed() -> String {
    let changed = ["version", "image", "architecture", "mode"]
        .map(|name| format!("{} != {}", field("object", name, "''"), field("oldObject", name, "''")));
    let forced = format!("({} && !{})", field("object", "force", "false"), field("oldObject", "force", "false"));
    format!("({} || {forced})", changed.join(" || "))
}

fn not_terminating() -> String {
    "!has(oldObject.metadata.deletionTimestamp)".into()
}

fn release_dropped() -> String {
    let releases = |object: &str| format!("{object}.?spec.?releases.orValue([])");
    format!("{}.exists(o, !{}.exists(n, n.name == o.name))", releases("oldObject"), releases("object"))
}

/// Not by size(): what is no list would be an error.
fn mirrors(object: &str, kind: MirrorKind) -> String {
    format!("{object}.?{}.orValue([])", kind.field().replace('.', ".?"))
}

fn image_config_stays() -> String {
    format!("oldObject.?metadata.?name.orValue('') == '{IMAGE_CONFIG}' && {}", not_terminating())
}

fn registries_changed() -> String {
    let lists = ["blockedRegistries", "allowedRegistries", "insecureRegistries"];
    let list = |object: &str, name: &str| format!("{object}.?spec.?registrySources.?{name}.orValue([])");
    let mut changed = lists.map(|name| format!("{} != {}", list("object", name), list("oldObject", name))).to_vec();
    let trusted = |object: &str| format!("{object}.?spec.?additionalTrustedCA.?name.orValue('')");
    changed.push(format!("{} != {}", trusted("object"), trusted("oldObject")));
    format!("({})", changed.join(" || "))
}
