//! The configuration: flag beats environment beats file beats default.
//!
//! clap merges flags and `AIRGATE_...` variables; this reads the file and fills what they left open.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::certificates::Timing;
use crate::facts::OnSite;
use crate::files::read_named_text;
use crate::manifests::Flavor;
use crate::policies::{self, POLICIES};
use crate::settings::{PolicySettings, Retain, ServerMode, Settings};

/// Far more than every key could need.
const MAX_BYTES: u64 = 4 << 20;

/// The config file, key by key. `serve` flags have the same names in kebab-case.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct ConfigFile {
    pub api_version: String,
    pub kind: String,
    /// `enforce` (default) or `audit`: judge and record everything, deny nothing.
    pub mode: ServerMode,
    /// `history` (default), `rollback` or `in-use`: what a release is kept for.
    pub retain: Retain,
    /// Groups that may use an override; empty: whoever may write the object.
    pub override_groups: Vec<String>,
    pub policies: BTreeMap<String, PolicySettings>,
    /// Repositories in which a signed tag proves a version; empty: where OpenShift's releases are published.
    pub release_repositories: Vec<String>,
    /// Public keys of release signatures, for where the cluster has none.
    pub release_keys: Option<PathBuf>,
    pub kubeconfig: Option<PathBuf>,
    pub state: Option<PathBuf>,
    pub releases: Vec<PathBuf>,
    /// Where releases that were read from registries are kept over a restart.
    pub cache_dir: Option<PathBuf>,
    pub listen: Option<String>,
    pub health_listen: Option<String>,
    pub admin_listen: Option<String>,
    pub tls_dir: Option<PathBuf>,
    pub self_signed: Option<PathBuf>,
    pub client_ca: Option<PathBuf>,
    /// The namespace that this server runs in; in a pod its service account says so.
    pub namespace: Option<String>,
    /// Keep the webhook configuration `airgate` registered.
    pub register: bool,
    /// By this URL instead of the Service `airgate`, where the server is not in the cluster.
    pub register_url: Option<String>,
    /// What injects the CA bundle into it: OpenShift's service CA (default), or cert-manager.
    pub flavor: Flavor,
    /// Keep the serving certificate and its CA, in a Secret of the namespace.
    pub keep_certificates: bool,
    /// Not in the file: tests cannot wait for years.
    #[serde(skip)]
    pub certificate_timing: Option<Timing>,
}

/// A configuration that must not be started with.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("config file {path}: {reason}")]
    Read { path: PathBuf, reason: std::io::Error },
    #[error("config file {path}: {message}")]
    Malformed { path: PathBuf, message: String },
}

impl ConfigFile {
    /// # Errors
    /// The file cannot be read, is no such configuration, or names an unknown key, policy or value.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let text =
            read_named_text(path, MAX_BYTES).map_err(|reason| ConfigError::Read { path: path.to_owned(), reason })?;
        Self::parse(&text).map_err(|message| ConfigError::Malformed { path: path.to_owned(), message })
    }

    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut documents = crate::files::document::from_yaml(text)?;
        let (Some(document), true) = (documents.pop(), documents.is_empty()) else {
            return Err("it must be one YAML document".into());
        };
        let config: Self = serde_path_to_error::deserialize(document)
            .map_err(|error| format!("{}: {}", error.path(), error.inner()))?;
        if config.api_version != "airgate.io/v1alpha1" || config.kind != "Config" {
            return Err("it must begin with apiVersion: airgate.io/v1alpha1 and kind: Config".into());
        }
        check_policy_ids(&config.policies)?;
        Ok(config)
    }

    #[must_use]
    pub fn settings(&self) -> Settings {
        Settings {
            mode: self.mode,
            retain: self.retain,
            override_groups: self.override_groups.clone(),
            policies: self.policies.clone(),
            release_repositories: self.release_repositories.clone(),
        }
    }

    #[must_use]
    pub fn on_site(&self) -> OnSite {
        OnSite { releases: self.releases.clone(), keys: self.release_keys.clone() }
    }
}

/// # Errors
/// Names the first unknown policy and the known ones.
pub fn check_policy_ids(policies: &BTreeMap<String, PolicySettings>) -> Result<(), String> {
    match policies.keys().find(|id| policies::by_id(id).is_none()) {
        Some(unknown) => {
            let known: Vec<_> = POLICIES.iter().map(|policy| policy.id).collect();
            Err(format!("policies: there is no policy {unknown:?}; there are {}", known.join(", ")))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "apiVersion: airgate.io/v1alpha1\nkind: Config\n";

    #[test]
    fn the_documented_file_is_read() {
        let text = format!(
            "{HEAD}mode: audit\nretain: in-use\noverrideGroups: [ops]\npolicies:\n  upgrade-path: {{mode: warn, onUnknown: allow}}\nlisten: '[::]:8443'\n"
        );
        let config = ConfigFile::parse(&text).unwrap();
        assert_eq!(config.mode, ServerMode::Audit);
        assert_eq!(config.settings().retain, Retain::InUse);
        assert!(config.policies["upgrade-path"].mode.is_some());
    }

    #[test]
    fn unknown_keys_policies_and_values_refuse_to_start() {
        for (rest, part) in [
            ("colour: red\n", "colour"),
            (
                "policies: {upgrade-paths: {mode: warn}}\n",
                "there is no policy \"upgrade-paths\"; there are upgrade-path, digest-only",
            ),
            ("policies: {upgrade-path: {mode: maybe}}\n", "maybe"),
            ("policies: {upgrade-path: {onunknown: deny}}\n", "onunknown"),
            ("retain: all\n", "all"),
            ("mode: enforce\nmode: audit\n", "mode"),
        ] {
            let error = ConfigFile::parse(&format!("{HEAD}{rest}")).unwrap_err();
            assert!(error.contains(part), "{rest}: {error}");
        }
        assert!(ConfigFile::parse("kind: Config\n").unwrap_err().contains("apiVersion"));
    }
}
