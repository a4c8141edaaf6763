//! The few requests to the API server, and what their failures mean to us.
//!
//! Objects pass as text, so that only the fields of a projection are ever built from them.

use std::borrow::Cow;
use std::error::Error;
use std::time::Duration;

use futures::io::AsyncBufRead;
use kube::Client;
use kube::api::{GetParams, ListParams, WatchParams};
use kube::core::Request;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::cluster::Missing;
use crate::resource::Resource;

/// Why a request yielded nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// 403, with the API server's words.
    Denied(String),
    /// 404: the object, or the resource as a whole.
    NotFound,
    /// 410: the resource version is too old to go on from.
    Gone,
    /// 429: the API server lives and asks for a moment, as it does while it opens a resource's storage.
    Busy(String),
    Other(String),
}

impl Failure {
    /// What is missing for the fact of `resource`, and what would supply it.
    pub fn missing(&self, resource: &Resource) -> Missing {
        let name = resource.selected();
        match self {
            Self::Denied(message) => Missing {
                why: format!("the API server does not let airgate read {name}: {message}"),
                remedy: rule(resource),
            },
            Self::NotFound => missing(&name, "it is not there"),
            Self::Gone => missing(&name, "the list went out of date while it was read"),
            Self::Busy(message) | Self::Other(message) => missing(&name, message),
        }
    }
}

fn missing(name: &str, why: &str) -> Missing {
    Missing {
        why: format!("{name} could not be read: {why}"),
        remedy: "look at the watches on airgate's /statusz and at its connection to the API server".into(),
    }
}

/// The RBAC rule that every read takes.
pub(super) fn rule(resource: &Resource) -> String {
    let name = resource.full_name();
    let place = resource.namespace.map(|namespace| format!(" in {namespace}")).unwrap_or_default();
    format!("grant airgate's service account list, watch on {name}{place}")
}

impl From<kube::Error> for Failure {
    fn from(error: kube::Error) -> Self {
        match error {
            // By code and not by reason: for an API version that nothing serves the API server answers a
            // plain "404 page not found", which has no reason.
            kube::Error::Api(status) => match status.code {
                403 => Self::Denied(short(&status.message)),
                404 => Self::NotFound,
                410 => Self::Gone,
                429 => Self::Busy(short(&status.message)),
                code => Self::Other(short(&format!("HTTP {code}, {}", status.message))),
            },
            error => Self::Other(short(&cause(&error))),
        }
    }
}

impl From<kube::core::request::Error> for Failure {
    fn from(error: kube::core::request::Error) -> Self {
        Self::Other(error.to_string())
    }
}

/// The outer layers only say "ServiceError"; the innermost cause is what helps.
pub(crate) fn cause(error: &dyn Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

/// An answer may be a proxy's whole web page.
fn short(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(300).collect()
}

/// One resource in one version, all of it or one object.
#[derive(Clone)]
pub(super) struct Endpoint {
    pub client: Client,
    pub version: &'static str,
    request: Request,
    metadata_only: bool,
    /// A field selector for one name.
    only: Option<Cow<'static, str>>,
    /// A label selector.
    label: Option<&'static str>,
    /// For everything but the stream of a watch.
    patience: Duration,
}

/// What a watch sends, line by line.
#[derive(Deserialize)]
pub(super) struct Line<'a> {
    #[serde(rename = "type", borrow)]
    pub kind: Cow<'a, str>,
    #[serde(borrow)]
    pub object: &'a RawValue,
}

/// Of any object, however bad: which one it is and how to go on after it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Head {
    pub metadata: HeadMetadata,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct HeadMetadata {
    pub name: String,
    pub resource_version: String,
}

#[derive(Deserialize)]
struct Page<'a> {
    #[serde(default)]
    metadata: PageMetadata,
    /// Null is how Go writes an empty list. Absent, it is no list at all.
    #[serde(borrow)]
    items: Option<Vec<&'a RawValue>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PageMetadata {
    resource_version: String,
    r#continue: Option<String>,
}

impl Endpoint {
    pub fn new(client: &Client, resource: &Resource, version: &'static str, patience: Duration) -> Self {
        Self {
            client: client.clone(),
            version,
            request: Request::new(path(resource, version)),
            metadata_only: resource.metadata_only,
            only: resource.singleton.map(Cow::Borrowed),
            label: resource.label,
            patience,
        }
    }

    /// The version in which the cluster serves a resource; `None` where it has none that we know.
    pub async fn discover(
        client: &Client,
        resource: &Resource,
        patience: Duration,
    ) -> Result<Option<&'static str>, Failure> {
        #[derive(Deserialize)]
        struct Resources {
            #[serde(default)]
            resources: Vec<Name>,
        }
        #[derive(Deserialize)]
        struct Name {
            name: String,
        }
        for version in resource.versions {
            let request = Request::new(api(resource)).get(version, &GetParams::default())?;
            let text = match within(patience, client.request_text(request)).await {
                Ok(text) => text,
                Err(Failure::NotFound) => continue,
                Err(failure) => return Err(failure),
            };
            let found: Resources = serde_json::from_str(&text).map_err(|error| unusable("discovery", &error))?;
            if found.resources.iter().any(|found| found.name == resource.plural) {
                return Ok(Some(version));
            }
        }
        Ok(None)
    }

    /// Every object as text, then the resource version to watch from.
    pub async fn list(&self, mut each: impl FnMut(&str)) -> Result<String, Failure> {
        let mut parameters = ListParams::default().limit(500);
        parameters.field_selector = self.selector();
        parameters.label_selector = self.label.map(ToOwned::to_owned);
        loop {
            let request = if self.metadata_only {
                self.request.list_metadata(&parameters)?
            } else {
                self.request.list(&parameters)?
            };
            let text = within(self.patience, self.client.request_text(request)).await?;
            let page: Page<'_> = serde_json::from_str(&text).map_err(|error| unusable("the list", &error))?;
            page.items.into_iter().flatten().for_each(|item| each(item.get()));
            match page.metadata.r#continue.filter(|token| !token.is_empty()) {
                Some(token) => parameters.continue_token = Some(token),
                None if page.metadata.resource_version.is_empty() => {
                    return Err(Failure::Other("the list has no resourceVersion".into()));
                }
                None => return Ok(page.metadata.resource_version),
            }
        }
    }

    pub async fn watch(&self, from: &str, timeout: Duration) -> Result<impl AsyncBufRead + use<>, Failure> {
        let seconds = u32::try_from(timeout.as_secs()).unwrap_or(240).clamp(1, 290);
        let parameters = WatchParams {
            field_selector: self.selector(),
            label_selector: self.label.map(ToOwned::to_owned),
            ..WatchParams::default().timeout(seconds)
        };
        let request = if self.metadata_only {
            self.request.watch_metadata(&parameters, from)?
        } else {
            self.request.watch(&parameters, from)?
        };
        within(self.patience, self.client.request_stream(request)).await
    }

    /// For one whole object: a list, so that the rights of the watches are enough.
    pub fn of(self, name: &str) -> Self {
        Self { only: Some(Cow::Owned(name.to_owned())), label: None, metadata_only: false, ..self }
    }

    fn selector(&self) -> Option<String> {
        self.only.as_ref().map(|name| format!("metadata.name={name}"))
    }
}

fn api(resource: &Resource) -> String {
    // The first API has no group, and a root of its own.
    if resource.group.is_empty() { "/api".into() } else { format!("/apis/{}", resource.group) }
}

fn path(resource: &Resource, version: &str) -> String {
    let (api, plural) = (api(resource), resource.plural);
    match resource.namespace {
        Some(namespace) => format!("{api}/{version}/namespaces/{namespace}/{plural}"),
        None => format!("{api}/{version}/{plural}"),
    }
}

fn unusable(what: &str, error: &serde_json::Error) -> Failure {
    Failure::Other(format!("{what} is not usable: {error}"))
}

async fn within<T>(limit: Duration, request: impl Future<Output = kube::Result<T>>) -> Result<T, Failure> {
    match tokio::time::timeout(limit, request).await {
        Ok(answer) => Ok(answer?),
        Err(_) => Err(Failure::Other(format!("no answer within {limit:?}"))),
    }
}
