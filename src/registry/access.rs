//! With what registries are read: credentials, trust, proxies.

use std::fmt;

use super::proxy::Proxies;
use super::pull_secret::PullSecret;
use super::trust::{Anchors, authority, certificates, config_map_key};
use crate::payload::LAYER_BYTES;
use crate::pullspec::Repository;
use crate::text::shown;

/// Built step by step; each step names what it was given, for messages. Shows nothing secret in its `Debug`.
#[derive(Clone)]
pub struct Access {
    pub(super) pull_secrets: Vec<PullSecret>,
    pub(super) anchors: Anchors,
    pub(super) proxies: Proxies,
    pub(super) layer_bytes: u64,
}

impl Default for Access {
    fn default() -> Self {
        Self {
            pull_secrets: vec![],
            anchors: Anchors::default(),
            proxies: Proxies::default(),
            layer_bytes: LAYER_BYTES,
        }
    }
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Access")
            .field("pull_secrets", &self.pull_secrets.len())
            .field("certificates", &self.anchors.everywhere.len())
            .field("hosts_with_certificates", &self.anchors.hosts.keys())
            .field("insecure", &self.anchors.insecure)
            .field("proxies", &self.proxies)
            .finish_non_exhaustive()
    }
}

impl Access {
    /// `.dockerconfigjson` of a Secret or an auth file; those added before have precedence.
    ///
    /// # Errors
    /// Where it is no such document.
    pub fn pull_secret(mut self, name: &str, json: &[u8]) -> Result<Self, String> {
        self.pull_secrets.push(PullSecret::parse(name, json)?);
        Ok(self)
    }

    /// CAs for all hosts, beside the system's.
    ///
    /// # Errors
    /// Where it is no PEM bundle with a certificate that can be used.
    pub fn ca(mut self, name: &str, pem: &[u8]) -> Result<Self, String> {
        self.anchors.everywhere.extend(certificates(name, pem)?);
        Ok(self)
    }

    /// CAs for one `host[:port]`, or a key of the ConfigMap that `additionalTrustedCA` names (`host..5000`).
    ///
    /// # Errors
    /// Where it is no PEM bundle with a certificate that can be used.
    pub fn host_ca(mut self, host: &str, pem: &[u8]) -> Result<Self, String> {
        let found = certificates(&format!("the CA of {}", shown(host)), pem)?;
        self.anchors.hosts.entry(config_map_key(host)).or_default().extend(found);
        Ok(self)
    }

    /// The fields of the status of `proxy/cluster`, or the environment variables; empty texts mean none.
    ///
    /// # Errors
    /// Where one is no address of a proxy.
    pub fn proxy(mut self, http: &str, https: &str, no_proxy: &str) -> Result<Self, String> {
        self.proxies = Proxies::new(http, https, no_proxy)?;
        Ok(self)
    }

    /// This `HOST[:PORT]`, exactly as pullspecs name it, may present any certificate, or speak plain http.
    ///
    /// # Errors
    /// Where it is no host.
    pub fn insecure(mut self, host: &str) -> Result<Self, String> {
        Repository::parse(&format!("{host}/x"))
            .map_err(|_| format!("{} is no host of a registry: write HOST or HOST:PORT", shown(host)))?;
        self.anchors.insecure.insert(authority(host));
        Ok(self)
    }

    /// The most that is read of one layer; never more than [`LAYER_BYTES`].
    #[must_use]
    pub fn layer_bytes(mut self, bytes: u64) -> Self {
        self.layer_bytes = bytes.min(LAYER_BYTES);
        self
    }

    /// Both: the pull secrets of `self` have precedence, and its proxies where it has any; the smaller layer cap.
    #[must_use]
    pub fn merge(mut self, other: Self) -> Self {
        self.pull_secrets.extend(other.pull_secrets);
        self.anchors.merge(other.anchors);
        if self.proxies.none() {
            self.proxies = other.proxies;
        }
        self.layer_bytes = self.layer_bytes.min(other.layer_bytes);
        self
    }

    /// What of it cannot be used, for a person.
    pub fn notes(&self) -> impl Iterator<Item = &str> {
        self.pull_secrets.iter().flat_map(|secret| &secret.notes).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_secret_is_shown() {
        let access = Access::default()
            .pull_secret("a", br#"{"auths": {"quay.io": {"username": "robot", "password": "s3cret"}}}"#)
            .and_then(|access| access.proxy("http://user:s3cret@proxy.example:3128", "", ""))
            .and_then(|access| access.insecure("registry.example:5000"))
            .unwrap();
        let shown = format!("{access:?}");
        assert!(shown.contains("registry.example:5000") && shown.contains("proxy.example"), "{shown}");
        assert!(!shown.contains("s3cret") && !shown.contains("robot"), "{shown}");
        assert!(Access::default().insecure("https://registry.example").is_err());
    }
}
