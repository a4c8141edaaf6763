//! Six steps that people really take, as the commands they type and the requests those send.

use serde_json::json;

use crate::action::upgrade::UpgradeFlags;
use crate::action::{Action, Patch, Target};
use crate::resource::ResourceId;

pub struct Step {
    pub title: &'static str,
    pub command: String,
    pub action: Action,
    /// Which entry of the webhook configuration the API server would name.
    pub webhook: &'static str,
    pub success: String,
    /// How the client begins when it is refused.
    pub refusal: &'static str,
}

const REPOSITORY: &str = "registry.example:5000/ocp/release";
// Digests of the sample catalog, which a test holds against these.
const V4_22_3: &str = "sha256:00f9c54494b47ae60a081b3f7f81224b988d2d562bbedeee8218fc24e03b8e81";
const V4_23_1: &str = "sha256:290d50fbfd9114b10d676eec5455daa21fa924f8745dc277a0a8de020406b47c";
const V4_22_0: &str = "sha256:bb88f6236b1b6dabafe87c6868013212108dc6c04e940782e44c6fa62fd7f36e";

pub fn all() -> Vec<Step> {
    let by_digest = |digest: &str| format!("{REPOSITORY}@{digest}");
    vec![
        upgrade("to the next minor, which lists 4.21.9", &by_digest(V4_22_3), false),
        upgrade("two minors at once", &by_digest(V4_23_1), false),
        upgrade("\"up\" to a 4.22 that was built before 4.21.9: fixes would be lost", &by_digest(V4_22_0), false),
        upgrade("by tag, as --force lets through", &format!("{REPOSITORY}:4.22.3-x86_64"), true),
        upgrade("two minors at once, by force", &by_digest(V4_23_1), true),
        drop_running_release(),
    ]
}

fn upgrade(title: &'static str, image: &str, force: bool) -> Step {
    let flag = if force { " --force" } else { "" };
    Step {
        title,
        command: format!("oc adm upgrade --allow-explicit-upgrade{flag} --to-image {image}"),
        action: Action::Upgrade(UpgradeFlags { to_image: Some(image.to_owned()), force, ..UpgradeFlags::default() }),
        webhook: "clusterversion.airgate.io",
        success: format!("Requested update to release image {image}"),
        refusal: "error: Unable to upgrade:",
    }
}

fn drop_running_release() -> Step {
    let patch = json!({"spec": {"releases": [{"name": "ocp-release-bundle-4.22.3-x86_64"}]}});
    Step {
        title: "cleaning up: the bundle of the running release",
        command: format!("oc patch internalreleaseimage cluster --type merge -p '{patch}'"),
        action: Action::Patch {
            target: Target { resource: ResourceId::parse("internalreleaseimage"), name: "cluster".into() },
            patch: Patch::Merge(patch),
            subresource: String::new(),
        },
        webhook: "internalreleaseimage.airgate.io",
        success: "internalreleaseimage.machineconfiguration.openshift.io/cluster patched".into(),
        refusal: "Error from server (Forbidden):",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digests_are_those_of_the_sample() {
        let catalog = include_str!("../../../policies/sample/releases/catalog.yaml");
        for (digest, version) in [(V4_22_3, "4.22.3"), (V4_23_1, "4.23.1"), (V4_22_0, "4.22.0")] {
            assert!(catalog.contains(&format!("{digest}\n  version: {version}\n")), "{version}");
        }
    }
}
