//! The CEL twin of each [`Guard`], for matchConditions: null-safe, and true wherever the guard is.
//!
//! `false && error` is false and `true || error` is true in CEL, so a guard that asks for its operation
//! first cannot break on an object that the operation does not have.

use crate::breakglass::ANNOTATION;
use crate::objects::cluster_version::NAME;
use crate::objects::machine_config::RENDERED;
use crate::objects::mirrors::{IMAGE_CONFIG, MirrorKind};
use crate::objects::{crd, secret};
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
        Guard::InternalReleaseImageAdd => {
            format!("{} && {} && !{}", not_terminating(), release_added(), release_dropped())
        }
        Guard::InternalReleaseImageCreate => "true".into(),
        Guard::BundleSecretDelete => format!("{} && {}", supporting_secret(), not_terminating()),
        Guard::BundleSecretEmptied => {
            format!("{} && {} && {}", supporting_secret(), not_terminating(), key_emptied())
        }
        Guard::BundleCrdDelete => {
            format!("{} in {} && {}", text("oldObject", "name"), list(&crd::NAMES), not_terminating())
        }
        Guard::MachineConfigCreateWithOsImage => format!("{} && {} != ''", not_rendered(), os_image("object")),
        Guard::MachineConfigOsImageChange => {
            let (new, old) = (os_image("object"), os_image("oldObject"));
            format!("{} && {new} != '' && {new} != {old}", not_rendered())
        }
        Guard::InternalReleaseImageDelete | Guard::MirrorsDelete(_) => not_terminating(),
        Guard::MirrorsCreate(kind) => format!("{} != []", mirrors("object", kind)),
        Guard::MirrorsChange(kind) => {
            format!("{} && {} != {}", not_terminating(), mirrors("object", kind), mirrors("oldObject", kind))
        }
        Guard::ImageConfigCreate => format!("{} && {}", is_image_config("object"), registries_named()),
        Guard::ImageConfigChange => format!("{} && {}", image_config_stays(), registries_changed()),
        Guard::ImageConfigDelete => image_config_stays(),
    };
    let exempt = match guard.exempt() {
        [] => String::new(),
        users => format!(" && !(request.userInfo.username in {})", list(users)),
    };
    format!("(request.operation == '{operation}' && {condition}{exempt})")
}

/// The override annotation was set, changed or removed.
pub fn override_changed() -> String {
    let annotation = |object: &str| format!("{object}.?metadata.?annotations[?'{ANNOTATION}'].orValue('')");
    format!("{} != (request.operation == 'UPDATE' ? {} : '')", annotation("object"), annotation("oldObject"))
}

fn named_version(object: &str) -> String {
    format!("{} == '{NAME}'", text(object, "name"))
}

/// A field of metadata. Never request.name: it is absent in a deletecollection.
fn text(object: &str, field: &str) -> String {
    format!("{object}.?metadata.?{field}.orValue('')")
}

fn list(names: &[&str]) -> String {
    format!("['{}']", names.join("', '"))
}

fn supporting_secret() -> String {
    let (name, namespace) = (text("oldObject", "name"), text("oldObject", "namespace"));
    format!("{namespace} == '{}' && {name} in {}", secret::NAMESPACE, list(&secret::NAMES))
}

fn not_rendered() -> String {
    format!("!{}.startsWith('{RENDERED}')", text("object", "name"))
}

fn os_image(object: &str) -> String {
    format!("{object}.?spec.?osImageURL.orValue('')")
}

fn key_emptied() -> String {
    // A key without a value is null or the empty string.
    let filled = |object: &str| {
        let value = format!("{object}.?data[?k].orValue('')");
        format!("({value} != '' && dyn({value}) != null)")
    };
    format!("oldObject.?data.orValue({{}}).exists(k, {} && !{})", filled("oldObject"), filled("object"))
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
    lacking("object", "oldObject")
}

fn release_added() -> String {
    lacking("oldObject", "object")
}

/// The first has not all the releases of the second.
fn lacking(first: &str, second: &str) -> String {
    let releases = |object: &str| format!("{object}.?spec.?releases.orValue([])");
    format!("{}.exists(o, !{}.exists(n, n.name == o.name))", releases(second), releases(first))
}

/// Not by size(): what is no list would be an error.
fn mirrors(object: &str, kind: MirrorKind) -> String {
    format!("{object}.?{}.orValue([])", kind.field().replace('.', ".?"))
}

fn is_image_config(object: &str) -> String {
    format!("{} == '{IMAGE_CONFIG}'", text(object, "name"))
}

fn image_config_stays() -> String {
    format!("{} && {}", is_image_config("oldObject"), not_terminating())
}

const REGISTRY_LISTS: [&str; 3] = ["blockedRegistries", "allowedRegistries", "insecureRegistries"];

fn registries(object: &str, name: &str) -> String {
    format!("{object}.?spec.?registrySources.?{name}.orValue([])")
}

fn registries_named() -> String {
    let named = REGISTRY_LISTS.map(|name| format!("{} != []", registries("object", name)));
    format!("({})", named.join(" || "))
}

fn registries_changed() -> String {
    let mut changed = REGISTRY_LISTS
        .map(|name| format!("{} != {}", registries("object", name), registries("oldObject", name)))
        .to_vec();
    let trusted = |object: &str| format!("{object}.?spec.?additionalTrustedCA.?name.orValue('')");
    changed.push(format!("{} != {}", trusted("object"), trusted("oldObject")));
    format!("({})", changed.join(" || "))
}
