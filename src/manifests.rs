//! What a cluster needs to call airgate, generated from the policy records.
//!
//! Invariants: one entry that can deny per resource; no rule matches a status subresource or `*`; what the
//! conditions leave out, the engine allows without any fact (tested on a real API server).

mod cel;
mod guarded;
mod registries;
mod rights;
mod webhooks;

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

use crate::settings::ServerMode;
pub use webhooks::webhook_configuration;

/// Where the manifests will be applied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Flavor {
    /// The service CA signs the certificate and injects the CA bundle.
    #[default]
    Openshift,
    /// cert-manager does.
    Kubernetes,
}

/// How the API server reaches airgate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// The Service `airgate` in the flavour's namespace.
    Service,
    /// A server outside the cluster.
    Url(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    pub flavor: Flavor,
    /// Where airgate runs; [`Flavor::namespace`] unless somebody else decides, as OLM does.
    pub namespace: String,
    pub mode: ServerMode,
    pub endpoint: Endpoint,
    /// PEM; the API server trusts nothing else for the call.
    pub ca_bundle: Option<Vec<u8>>,
}

/// A URL the API server would refuse.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("--url {0} {1}; it must look like https://HOST:PORT or https://HOST:PORT/validate")]
pub struct BadUrl(String, &'static str);

const NAME: &str = "airgate";
/// The one path the server answers reviews on.
const PATH: &str = "/validate";

impl Flavor {
    #[must_use]
    pub fn namespace(self) -> &'static str {
        match self {
            Self::Openshift => "openshift-airgate",
            Self::Kubernetes => "airgate",
        }
    }

    fn annotations(self, namespace: &str) -> BTreeMap<String, String> {
        let (key, value) = match self {
            Self::Openshift => ("service.beta.openshift.io/inject-cabundle", "true".to_owned()),
            Self::Kubernetes => ("cert-manager.io/inject-ca-from", format!("{namespace}/{NAME}")),
        };
        BTreeMap::from([(key.to_owned(), value)])
    }
}

impl Endpoint {
    /// `/validate` is appended where the URL has no path.
    ///
    /// # Errors
    /// What the API server would refuse in it.
    pub fn url(text: &str) -> Result<Self, BadUrl> {
        let bad = |why| BadUrl(text.to_owned(), why);
        let rest = text.strip_prefix("https://").ok_or_else(|| bad("does not begin with https://"))?;
        if rest.contains(['?', '#', '@']) || rest.contains(char::is_whitespace) {
            return Err(bad("has a user, query, fragment or blank in it"));
        }
        match rest.split_once('/') {
            Some(("", _)) => Err(bad("has no host")),
            None if rest.is_empty() => Err(bad("has no host")),
            None | Some((_, "")) => Ok(Self::Url(format!("https://{}{PATH}", rest.trim_end_matches('/')))),
            Some(_) => Ok(Self::Url(text.to_owned())),
        }
    }
}

/// One object to apply.
#[derive(Clone, Debug)]
pub struct Document {
    /// The file it stands in where each concern has one, without `.yaml`.
    pub file: &'static str,
    pub object: Value,
}

impl Document {
    /// # Errors
    /// Where the object cannot be written as JSON.
    fn new(file: &'static str, object: impl serde::Serialize) -> anyhow::Result<Self> {
        Ok(Self { file, object: serde_json::to_value(object)? })
    }

    /// Keys are sorted: apiVersion and kind first, the same text every time.
    ///
    /// # Errors
    /// Where it cannot be written as YAML.
    pub fn yaml(&self) -> anyhow::Result<String> {
        Ok(serde_saphyr::to_string(&self.object)?)
    }
}

/// All objects, in the order in which they are to be applied: nothing is registered before what answers for it.
///
/// # Errors
/// Where an object cannot be written as JSON.
pub fn documents(options: &Options) -> anyhow::Result<Vec<Document>> {
    let mut documents = vec![];
    if options.endpoint == Endpoint::Service {
        documents.extend(rights::documents(options)?);
        if options.flavor == Flavor::Openshift {
            documents.extend(registries::documents(options)?);
        }
        if options.mode == ServerMode::Audit {
            documents.push(Document::new("config", config_map(options))?);
        }
    }
    documents.push(Document::new("webhooks", webhook_configuration(options))?);
    Ok(documents)
}

/// All manifests as YAML documents.
///
/// # Errors
/// Where a manifest cannot be written as YAML.
pub fn render(options: &Options) -> anyhow::Result<String> {
    let mut texts = documents(options)?.iter().map(Document::yaml).collect::<anyhow::Result<Vec<_>>>()?;
    if options.mode == ServerMode::Audit && options.endpoint != Endpoint::Service {
        texts.push(
            "# The server needs the key `mode: audit` in its config file (airgate serve --config FILE).\n".into(),
        );
    }
    Ok(texts.join("---\n"))
}

fn named(name: &str, namespace: Option<&str>) -> ObjectMeta {
    ObjectMeta { name: Some(name.into()), namespace: namespace.map(Into::into), ..ObjectMeta::default() }
}

fn config_map(options: &Options) -> ConfigMap {
    let config = "apiVersion: airgate.io/v1alpha1\nkind: Config\nmode: audit\n";
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(NAME.into()),
            namespace: Some(options.namespace.clone()),
            ..ObjectMeta::default()
        },
        data: Some(BTreeMap::from([("config.yaml".to_owned(), config.to_owned())])),
        ..ConfigMap::default()
    }
}

impl fmt::Display for Flavor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Openshift => "openshift",
            Self::Kubernetes => "kubernetes",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_get_the_path_and_nothing_the_api_server_refuses() {
        for (text, expected) in [
            ("https://127.0.0.1:8443", Some("https://127.0.0.1:8443/validate")),
            ("https://[::1]:8443/", Some("https://[::1]:8443/validate")),
            ("https://guard.example/validate", Some("https://guard.example/validate")),
            ("http://127.0.0.1:8443", None),
            ("https://", None),
            ("https:///validate", None),
            ("https://u@h/validate", None),
            ("https://h/validate?x=1", None),
        ] {
            let got = Endpoint::url(text).ok();
            assert_eq!(got, expected.map(|url| Endpoint::Url(url.into())), "{text}");
        }
    }
}
