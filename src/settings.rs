//! What an administrator may set about policies; the config file is read into this by `config`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::signature::RELEASE_REPOSITORY;

/// How far a policy may go, whatever it asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Not judged.
    Off,
    /// Recorded in the audit annotations, never shown.
    Audit,
    /// Never more than a warning.
    Warn,
    /// As asked.
    Deny,
}

/// What a missing fact leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum OnUnknown {
    Allow,
    Warn,
    Deny,
}

/// The mode of the whole server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ServerMode {
    #[default]
    Enforce,
    /// Judge and record everything, deny nothing.
    Audit,
}

/// What a release is kept for; each includes the ones before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Retain {
    /// Something runs it or is about to.
    InUse,
    /// A rollback would go to it.
    Rollback,
    /// status.history names it.
    #[default]
    History,
}

impl std::fmt::Display for Retain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::InUse => "in-use",
            Self::Rollback => "rollback",
            Self::History => "history",
        })
    }
}

impl Mode {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Audit => "audit",
            Self::Warn => "warn",
            Self::Deny => "deny",
        }
    }
}

impl OnUnknown {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Warn => "warn",
            Self::Deny => "deny",
        }
    }
}

/// Overrides of one policy's record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct PolicySettings {
    pub mode: Option<Mode>,
    pub on_unknown: Option<OnUnknown>,
}

/// The policy part of the configuration. The default is what the policy records say.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct Settings {
    pub mode: ServerMode,
    pub retain: Retain,
    /// Groups that may use an override; empty: whoever may write the object.
    pub override_groups: Vec<String>,
    pub policies: BTreeMap<String, PolicySettings>,
    /// Repositories in which a signed tag proves a version; empty: where OpenShift's releases are published.
    pub release_repositories: Vec<String>,
}

impl Settings {
    #[must_use]
    pub fn release_repositories(&self) -> Vec<&str> {
        if self.release_repositories.is_empty() {
            return vec![RELEASE_REPOSITORY];
        }
        self.release_repositories.iter().map(String::as_str).collect()
    }
}
