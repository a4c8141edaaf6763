//! What `oc adm upgrade` sends, flag by flag (seen on a real oc; facts of the field, not of its documentation).

use serde_json::{Value, json};

use super::NoReview;
use crate::pullspec::Digest;
use crate::version::Version;

/// The flags of `airgate check upgrade`, which are those of `oc adm upgrade`.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct UpgradeFlags {
    pub to_image: Option<String>,
    pub to: Option<String>,
    pub to_multi_arch: bool,
    pub clear: bool,
    pub force: bool,
}

impl UpgradeFlags {
    /// `oc adm upgrade` with these flags, word by word.
    pub(super) fn command(&self) -> Vec<String> {
        let mut words = ["oc", "adm", "upgrade"].map(str::to_owned).to_vec();
        if let Some(image) = &self.to_image {
            words.extend(["--allow-explicit-upgrade", "--to-image", image].map(str::to_owned));
        }
        if let Some(version) = &self.to {
            words.extend(["--to", version].map(str::to_owned));
        }
        for (flag, set) in [("--to-multi-arch", self.to_multi_arch), ("--clear", self.clear), ("--force", self.force)] {
            if set {
                words.push(flag.to_owned());
            }
        }
        words
    }

    /// The merge patch that oc would send for the stored ClusterVersion.
    pub(super) fn body(&self, cluster_version: &Value) -> Result<Value, NoReview> {
        let status = &cluster_version["status"];
        let stored = &cluster_version["spec"]["desiredUpdate"];
        let risks = &stored["acceptRisks"];
        let target = |architecture: &str, version: &str, image: &str| {
            let mut target =
                json!({"architecture": architecture, "version": version, "image": image, "force": self.force});
            // oc reads the accepted risks and sends them again with every target.
            if !risks.is_null() {
                target["acceptRisks"] = risks.clone();
            }
            target
        };
        if [&self.to_image, &self.to].into_iter().flatten().any(String::is_empty) {
            return Err(NoReview::Bad("an empty --to-image or --to names nothing; --clear cancels an update".into()));
        }
        let desired = match (&self.to_image, &self.to, self.to_multi_arch, self.clear) {
            (Some(image), None, false, false) => match offer_of_digest(status, image) {
                Some(Offer { version, image: Some(own) }) => target("", &version, &own),
                Some(Offer { version, image: None }) => target("", &version, image),
                None => target("", "", image),
            },
            (None, Some(version), false, false) => {
                target("", version, &image_of_version(status, version).unwrap_or_default())
            }
            (None, None, true, false) => target("Multi", status["desired"]["version"].as_str().unwrap_or_default(), ""),
            (None, None, false, true) if risks.is_null() => Value::Null,
            (None, None, false, true) => {
                json!({"architecture": "", "version": "", "image": "", "force": false, "acceptRisks": risks})
            }
            _ => return Err(NoReview::Bad("give exactly one of --to-image, --to, --to-multi-arch and --clear".into())),
        };
        Ok(json!({"spec": {"desiredUpdate": desired}}))
    }
}

struct Offer {
    version: String,
    /// The pullspec that oc sends instead of the one given.
    image: Option<String>,
}

/// An available update lends its version to the pullspec given; a conditional one replaces the pullspec by its own.
fn offer_of_digest(status: &Value, image: &str) -> Option<Offer> {
    let digest = Digest::of_image(image)?;
    let matches = |release: &Value| release["image"].as_str().and_then(Digest::of_image) == Some(digest);
    let version = |release: &Value| release["version"].as_str().unwrap_or_default().to_owned();
    let available = list(status, "availableUpdates").find(|release| matches(release));
    let conditional =
        || list(status, "conditionalUpdates").map(|update| &update["release"]).find(|release| matches(release));
    available
        .map(|release| Offer { version: version(release), image: None })
        .or_else(|| conditional().map(|r| Offer { version: version(r), image: r["image"].as_str().map(str::to_owned) }))
}

fn image_of_version(status: &Value, version: &str) -> Option<String> {
    let wanted = Version::parse(version)?;
    list(status, "availableUpdates")
        .chain(list(status, "conditionalUpdates").map(|update| &update["release"]))
        .find(|release| release["version"].as_str().and_then(Version::parse).as_ref() == Some(&wanted))
        .and_then(|release| release["image"].as_str().map(str::to_owned))
}

fn list<'v>(status: &'v Value, field: &str) -> impl Iterator<Item = &'v Value> {
    status[field].as_array().into_iter().flatten()
}
