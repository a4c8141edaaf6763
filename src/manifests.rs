//! What a cluster needs to run airgate and to call it, generated from the policy records.
//!
//! Invariants: one entry that can deny per resource; no rule matches a status subresource or `*`; what the
//! conditions leave out, the engine allows without any fact (tested on a real API server).

mod cel;
mod certificates;
mod config;
mod deployment;
mod guarded;
mod layout;
pub mod monitoring;
mod namespace;
mod network;
mod olm;
mod overlay;
mod payload;
mod registration;
mod registries;
mod rights;
mod service;
mod webhooks;
mod written;

use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};

use crate::settings::ServerMode;
pub use certificates::Certificates;
pub use layout::{File, files, tree};
pub use olm::olm;
pub use webhooks::webhook_configuration;
pub use written::write;

/// Where the manifests will be applied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Flavor {
    /// The service CA signs the certificate and injects the CA bundle.
    #[default]
    Openshift,
    /// Any other cluster with OpenShift's CRDs, for development.
    Kubernetes,
    /// A part of OpenShift's release payload, applied by the cluster-version operator.
    Payload,
    /// An operator bundle and a catalog, installed by OLM.
    Olm,
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
    /// Whether objects of the Prometheus operator are among them, which a cluster without it would refuse.
    pub monitoring: bool,
    pub endpoint: Endpoint,
    /// PEM; the API server trusts nothing else for the call.
    pub ca_bundle: Option<Vec<u8>>,
    /// The pullspec of airgate's image.
    pub image: String,
    pub certificates: Certificates,
    /// One replica, on a control plane of one node.
    pub single_node: bool,
    /// Who gets the rights; airgate's service account where it is `None`.
    pub user: Option<String>,
    /// airgate keeps its webhook configuration itself: it has the rights for that, and nothing else applies it.
    pub register: bool,
}

/// A URL the API server would refuse.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("--url {0} {1}; it must look like https://HOST:PORT or https://HOST:PORT/validate")]
pub struct BadUrl(String, &'static str);

/// Of everything that is registered or deployed.
pub const NAME: &str = "airgate";
/// The one path the server answers reviews on.
const PATH: &str = "/validate";
/// What kustomize and the release payload put a real pullspec in place of.
pub const IMAGE: &str = concat!("airgate:", env!("CARGO_PKG_VERSION"));

impl Options {
    /// What a flavour is printed with when nothing else is asked for.
    #[must_use]
    pub fn of(flavor: Flavor) -> Self {
        Self {
            flavor,
            namespace: flavor.namespace().to_owned(),
            mode: ServerMode::Enforce,
            monitoring: flavor.on_openshift(),
            endpoint: Endpoint::Service,
            ca_bundle: None,
            image: IMAGE.to_owned(),
            certificates: Certificates::of(flavor),
            single_node: false,
            user: None,
            register: false,
        }
    }
}

impl Flavor {
    #[must_use]
    pub fn namespace(self) -> &'static str {
        match self {
            Self::Openshift | Self::Payload | Self::Olm => "openshift-airgate",
            Self::Kubernetes => "airgate",
        }
    }

    /// Whether its namespaces and service CA, its monitoring and its security context constraints are there.
    fn on_openshift(self) -> bool {
        self != Self::Kubernetes
    }
}

impl Endpoint {
    /// The name by which the API server knows the server: its certificate must be for it.
    #[must_use]
    pub fn host(&self, namespace: &str) -> String {
        let Self::Url(url) = self else { return format!("{NAME}.{namespace}.svc") };
        let rest = url.strip_prefix("https://").unwrap_or(url);
        let authority = rest.split('/').next().unwrap_or_default();
        match authority.strip_prefix('[').and_then(|v6| v6.split_once(']')) {
            Some((address, _)) => address.to_owned(),
            None => authority.split(':').next().unwrap_or_default().to_owned(),
        }
    }

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
    /// What a reader of the object should know, in lines; printed before it.
    pub comment: &'static str,
    pub object: Value,
}

impl Document {
    /// # Errors
    /// Where the object cannot be written as JSON.
    fn new(file: &'static str, object: impl serde::Serialize) -> anyhow::Result<Self> {
        Ok(Self { file, comment: "", object: serde_json::to_value(object)? })
    }

    fn saying(self, comment: &'static str) -> Self {
        Self { comment, ..self }
    }

    /// Keys are sorted: apiVersion and kind first, the same text every time.
    ///
    /// # Errors
    /// Where it cannot be written as YAML.
    pub fn yaml(&self) -> anyhow::Result<String> {
        let comment = self.comment.lines().fold(String::new(), |text, line| text + "# " + line + "\n");
        Ok(comment + &serde_saphyr::to_string(&self.object)?)
    }
}

/// All objects, in the order in which they are to be applied: nothing is registered before what answers for it.
/// For a server outside the cluster that is the webhook configuration alone, see [`rights_alone`].
///
/// # Errors
/// Where an object cannot be written as JSON.
pub fn documents(options: &Options) -> anyhow::Result<Vec<Document>> {
    let mut documents = vec![];
    if options.endpoint == Endpoint::Service {
        documents.push(namespace::document(options)?);
        documents.push(service::account(options)?);
        documents.extend(rights_alone(options)?);
        documents.extend(certificates::documents(options)?);
        documents.extend(config::documents(options)?);
        documents.push(network::document(options)?);
        documents.push(service::document(options)?);
        documents.extend(deployment::documents(options)?);
        if options.monitoring {
            documents.extend(monitoring::documents(options)?);
        }
    }
    if !options.register {
        documents.push(Document::new("webhooks", webhook_configuration(options))?);
    }
    if options.endpoint == Endpoint::Service {
        for document in &mut documents {
            label(&mut document.object);
        }
    }
    if options.flavor == Flavor::Payload {
        documents.iter_mut().for_each(payload::annotate);
    }
    Ok(documents)
}

/// What a server needs to read a cluster, wherever it runs.
///
/// # Errors
/// Where an object cannot be written as JSON.
pub fn rights_alone(options: &Options) -> anyhow::Result<Vec<Document>> {
    let mut documents = rights::documents(options)?;
    if options.flavor.on_openshift() {
        documents.extend(registries::documents(options)?);
    }
    documents.extend(certificates::rights(options)?);
    if options.register {
        documents.extend(registration::documents(options)?);
    }
    Ok(documents)
}

/// The webhook configuration alone, as it stands among [`documents`].
///
/// # Errors
/// Where it cannot be written as JSON.
pub fn registered(options: &Options) -> anyhow::Result<Value> {
    let mut object = serde_json::to_value(webhook_configuration(options))?;
    if options.endpoint == Endpoint::Service {
        label(&mut object);
    }
    Ok(object)
}

/// Documents as one YAML text.
///
/// # Errors
/// Where a manifest cannot be written as YAML.
pub fn render(documents: &[Document]) -> anyhow::Result<String> {
    Ok(documents.iter().map(Document::yaml).collect::<anyhow::Result<Vec<_>>>()?.join("---\n"))
}

/// So that everything of it is found, and removed, by one label.
fn label(object: &mut Value) {
    object["metadata"]["labels"]["app.kubernetes.io/name"] = json!(NAME);
}

/// What selects the pods.
fn selector() -> Value {
    json!({"app.kubernetes.io/name": NAME})
}

fn named(name: &str, namespace: Option<&str>) -> ObjectMeta {
    ObjectMeta { name: Some(name.into()), namespace: namespace.map(Into::into), ..ObjectMeta::default() }
}

impl fmt::Display for Flavor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Openshift => "openshift",
            Self::Kubernetes => "kubernetes",
            Self::Payload => "payload",
            Self::Olm => "olm",
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
        for (text, host) in
            [("https://127.0.0.1:8443", "127.0.0.1"), ("https://[::1]:8443/", "::1"), ("https://h/v", "h")]
        {
            assert_eq!(Endpoint::url(text).unwrap().host("ns"), host);
        }
        assert_eq!(Endpoint::Service.host("openshift-airgate"), "airgate.openshift-airgate.svc");
    }
}
