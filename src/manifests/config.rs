//! The ConfigMaps: airgate's config file, and the CAs that the site trusts.

use aws_lc_rs::digest::{SHA256, digest};
use serde_json::json;

use super::{Document, NAME, Options};
use crate::settings::ServerMode;

pub(super) const FILE: &str = "config";
/// The key, and the name of the mounted file.
pub(super) const CONFIG: &str = "config.yaml";
pub(super) const TRUSTED_CA: &str = "airgate-trusted-ca";
/// What OpenShift's network operator writes into it.
pub(super) const TRUSTED_CA_KEY: &str = "ca-bundle.crt";

const HEAD: &str = "\
# Read at the start. After an edit: restart the deployment airgate (oc rollout restart). An unknown key refuses to start.
apiVersion: airgate.io/v1alpha1
kind: Config
";
const ENFORCE: &str = "\
# enforce: what a policy denies is refused. audit: everything is judged and recorded, nothing is refused.
mode: enforce
";
const AUDIT: &str = "\
# Nothing is refused; everything is judged and recorded. enforce is set together with the webhooks' failurePolicy:
# apply the manifests without the audit overlay.
mode: audit
";
const REST: &str = "\
# What a release is kept for, each more than the one before: in-use, rollback, history.
retain: history
# Groups that may use an override; empty: whoever may write the object.
overrideGroups: []
# By policy: mode deny, warn, audit or off is the most it may do; onUnknown deny, warn or allow is what a missing
# fact leads to. `airgate policies` lists them with their defaults.
policies: {}
# policies:
#   release-signature: {mode: warn}
#   upgrade-path: {onUnknown: deny}
# Where a signed tag proves a version; empty: quay.io/openshift-release-dev/ocp-release.
releaseRepositories: []
";

pub(super) fn documents(options: &Options) -> anyhow::Result<Vec<Document>> {
    let metadata = |name: &str| json!({"name": name, "namespace": options.namespace});
    let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata(NAME),
        "data": {CONFIG: text(options.mode)}});
    let mut documents = vec![Document::new(FILE, config)?];
    if options.flavor.on_openshift() {
        let mut trusted = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata(TRUSTED_CA)});
        trusted["metadata"]["labels"] = json!({"config.openshift.io/inject-trusted-cabundle": "true"});
        documents.push(Document::new(FILE, trusted)?.saying(
            "The cluster's CA bundle is put in here: the CAs of registries and proxies.\nIt has no data of its own, so that applying it again takes nothing away.",
        ));
    }
    Ok(documents)
}

/// No end of line at its end: kustomize cuts it off where a patch ends with it.
fn text(mode: ServerMode) -> String {
    let mode = match mode {
        ServerMode::Enforce => ENFORCE,
        ServerMode::Audit => AUDIT,
    };
    format!("{HEAD}{mode}{REST}").trim_end().to_owned()
}

/// Changes with the config file, so that pods change with it.
pub(super) fn fingerprint(mode: ServerMode) -> String {
    let hash = digest(&SHA256, text(mode).as_bytes());
    hash.as_ref().iter().take(8).fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ConfigFile;
    use crate::settings::Retain;

    /// What stands in it is the default, said aloud.
    #[test]
    fn the_config_file_is_one_and_changes_nothing_but_the_mode() {
        for mode in [ServerMode::Enforce, ServerMode::Audit] {
            let config = ConfigFile::parse(&text(mode)).unwrap();
            assert_eq!((config.mode, config.retain), (mode, Retain::History));
            assert_eq!(
                config,
                ConfigFile {
                    mode,
                    api_version: config.api_version.clone(),
                    kind: config.kind.clone(),
                    ..ConfigFile::default()
                }
            );
            let uncommented = text(mode)
                .replace("policies: {}\n", "")
                .replace("# policies:\n#", "policies:\n ")
                .replace("\n#   upgrade", "\n    upgrade");
            assert_eq!(ConfigFile::parse(&uncommented).unwrap().policies.len(), 2, "{uncommented}");
        }
        assert_ne!(fingerprint(ServerMode::Enforce), fingerprint(ServerMode::Audit));
    }
}
