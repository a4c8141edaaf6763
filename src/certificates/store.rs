//! The two objects of the API server that the keeper reads and writes, each by its name.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::http::{Request, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http_body_util::BodyExt as _;
use jiff::Timestamp;
use kube::Client;
use kube::client::Body;
use serde::Deserialize;
use serde_json::{Value, json};

use super::material::{ANNOTATION, Change};
use super::rotation::Trust;
use super::{CONFIGURATION, FIELD_MANAGER, SECRET};
use crate::text::shown;

/// For one request.
const PATIENCE: Duration = Duration::from_secs(10);
/// The Secret has some ten kilobytes, a configuration some tens.
const MAX_BYTES: usize = 4 << 20;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum StoreError {
    #[error("{0}")]
    Failed(String),
    /// 403, with the API server's words.
    #[error("{0}")]
    Denied(String),
    #[error("it was changed since it was read")]
    Conflict,
    #[error("it is not there")]
    NotFound,
}

#[derive(Clone)]
pub(super) struct Store {
    client: Client,
    pub namespace: String,
}

/// The Secret as read.
pub(super) struct Secret {
    version: String,
    pub data: BTreeMap<String, Vec<u8>>,
    pub annotation: Option<String>,
    pub immutable: bool,
    /// Who else keeps it, by the annotation that it puts on its Secrets.
    pub other_keeper: Option<OtherKeeper>,
    /// By the clock of the API server.
    pub now: Timestamp,
}

/// Who keeps a Secret instead of airgate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OtherKeeper {
    CertManager,
    ServiceCa,
}

impl OtherKeeper {
    /// What each writes onto the Secrets that it keeps.
    const ANNOTATIONS: [(&str, Self); 3] = [
        ("cert-manager.io/certificate-name", Self::CertManager),
        ("service.beta.openshift.io/originating-service-name", Self::ServiceCa),
        ("service.alpha.openshift.io/originating-service-name", Self::ServiceCa),
    ];

    fn of(annotations: &BTreeMap<String, String>) -> Option<Self> {
        Self::ANNOTATIONS.into_iter().find(|(name, _)| annotations.contains_key(*name)).map(|(_, keeper)| keeper)
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::CertManager => "cert-manager",
            Self::ServiceCa => "service-ca",
        }
    }

    /// The command after which it no longer asks for the Secret.
    pub fn dismissal(self, namespace: &str) -> String {
        match self {
            Self::CertManager => format!("oc delete certificate airgate -n {namespace}"),
            Self::ServiceCa => format!(
                "oc annotate service airgate -n {namespace} service.beta.openshift.io/serving-cert-secret-name-"
            ),
        }
    }
}

/// The webhook configuration as read.
pub(super) struct Configuration {
    version: String,
    /// Name and CA bundle of each webhook.
    webhooks: Vec<(String, Option<String>)>,
}

fn own(webhook: &str) -> bool {
    webhook.ends_with(".airgate.io")
}

impl Configuration {
    pub fn trust(&self, bundle: Option<&[u8]>) -> Trust {
        let wanted = bundle.map(|bundle| STANDARD.encode(bundle));
        let has: Vec<_> = self.webhooks.iter().filter(|(name, _)| own(name)).map(|(_, bundle)| bundle).collect();
        match has.as_slice() {
            [] => Trust::Absent,
            all if all.iter().all(|bundle| bundle.is_some() && **bundle == wanted) => Trust::Holds,
            all if all.iter().all(|bundle| bundle.is_none()) => Trust::Empty,
            _ => Trust::Differs,
        }
    }
}

impl Store {
    pub fn new(client: Client, namespace: String) -> Self {
        Self { client, namespace }
    }

    fn secret_path(&self) -> String {
        format!("/api/v1/namespaces/{}/secrets/{SECRET}", self.namespace)
    }

    pub async fn secret(&self) -> Result<Secret, StoreError> {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Object {
            metadata: Metadata,
            data: Option<BTreeMap<String, String>>,
            immutable: Option<bool>,
        }
        #[derive(Default, Deserialize)]
        #[serde(default, rename_all = "camelCase")]
        struct Metadata {
            resource_version: String,
            annotations: Option<BTreeMap<String, String>>,
        }
        let (text, now) = self.send("GET", &self.secret_path(), "", vec![]).await?;
        // Not with serde's words, which quote what they could not take.
        let object: Object =
            serde_json::from_slice(&text).map_err(|_| StoreError::Failed("the answer is no Secret".into()))?;
        let mut annotations = object.metadata.annotations.unwrap_or_default();
        let decoded = |(name, text): (String, String)| Some((name, STANDARD.decode(text).ok()?));
        Ok(Secret {
            version: object.metadata.resource_version,
            data: object.data.unwrap_or_default().into_iter().filter_map(decoded).collect(),
            other_keeper: OtherKeeper::of(&annotations),
            annotation: annotations.remove(ANNOTATION),
            immutable: object.immutable.unwrap_or_default(),
            now: now.unwrap_or_else(Timestamp::now),
        })
    }

    /// Changes these keys and the annotation of the Secret, if it still is what was read.
    pub async fn change(&self, read: &Secret, change: Change) -> Result<(), StoreError> {
        let data: BTreeMap<&str, Option<String>> =
            change.data.into_iter().map(|(name, content)| (name, content.map(|c| STANDARD.encode(c)))).collect();
        let patch = json!({
            "metadata": {"resourceVersion": read.version, "annotations": {ANNOTATION: change.annotation}},
            "data": data,
        });
        let path = format!("{}?fieldManager={FIELD_MANAGER}", self.secret_path());
        self.send("PATCH", &path, "application/merge-patch+json", patch.to_string().into_bytes()).await.map(drop)
    }

    pub async fn configuration(&self) -> Result<Configuration, StoreError> {
        let (text, _) = self.send("GET", &configuration_path(), "", vec![]).await?;
        let object: Value =
            serde_json::from_slice(&text).map_err(|_| StoreError::Failed("the answer is no configuration".into()))?;
        let text = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
        let webhook =
            |webhook: &Value| (text(&webhook["name"]).unwrap_or_default(), text(&webhook["clientConfig"]["caBundle"]));
        Ok(Configuration {
            version: text(&object["metadata"]["resourceVersion"]).unwrap_or_default(),
            webhooks: object["webhooks"].as_array().into_iter().flatten().map(webhook).collect(),
        })
    }

    /// The bundle into every webhook of the configuration as it was read, and nothing else.
    pub async fn write_bundle(&self, read: &Configuration, bundle: &[u8]) -> Result<(), StoreError> {
        let bundle = STANDARD.encode(bundle);
        // With another version than the stored one the API server answers with a conflict.
        let mut patch = vec![json!({"op": "replace", "path": "/metadata/resourceVersion", "value": read.version})];
        // An entry that somebody else added is not airgate's to make callable.
        for (index, (name, _)) in read.webhooks.iter().enumerate().filter(|(_, (name, _))| own(name)) {
            patch.push(json!({"op": "test", "path": format!("/webhooks/{index}/name"), "value": name}));
            patch.push(
                json!({"op": "add", "path": format!("/webhooks/{index}/clientConfig/caBundle"), "value": bundle}),
            );
        }
        let path = format!("{}?fieldManager={FIELD_MANAGER}", configuration_path());
        let patch = Value::Array(patch).to_string().into_bytes();
        self.send("PATCH", &path, "application/json-patch+json", patch).await.map(drop)
    }

    async fn send(
        &self,
        method: &str,
        path: &str,
        content_type: &str,
        body: Vec<u8>,
    ) -> Result<(Vec<u8>, Option<Timestamp>), StoreError> {
        let failed = |why: String| StoreError::Failed(shown(&why).into_owned());
        let mut request = Request::builder().method(method).uri(path);
        if !content_type.is_empty() {
            request = request.header("content-type", content_type);
        }
        let request = request.body(Body::from(body)).map_err(|error| failed(error.to_string()))?;
        let answer = async {
            let response = self.client.send(request).await.map_err(|error| failed(cause(&error)))?;
            let (head, body) = response.into_parts();
            let body = http_body_util::Limited::new(body, MAX_BYTES).collect().await;
            let body = body.map_err(|error| failed(error.to_string()))?.to_bytes();
            Ok(Response::from_parts(head, body))
        };
        let answer = tokio::time::timeout(PATIENCE, answer)
            .await
            .unwrap_or_else(|_| Err(failed(format!("no answer within {PATIENCE:?}"))))?;
        let date = answer.headers().get("date").and_then(|date| date.to_str().ok());
        let now = date.and_then(|date| jiff::fmt::rfc2822::parse(date).ok()).map(|date| date.timestamp());
        match answer.status().as_u16() {
            200..300 => Ok((answer.into_body().to_vec(), now)),
            404 => Err(StoreError::NotFound),
            409 => Err(StoreError::Conflict),
            // Its words name who may not do what. Those of other refusals could quote what was sent.
            403 => Err(StoreError::Denied(shown(&message(answer.body())).into_owned())),
            code => Err(failed(format!("HTTP {code}"))),
        }
    }
}

fn configuration_path() -> String {
    format!("/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/{CONFIGURATION}")
}

fn message(body: &[u8]) -> String {
    let status: Value = serde_json::from_slice(body).unwrap_or_default();
    let text = status["message"].as_str().unwrap_or("HTTP 403");
    text.chars().take(300).collect()
}

/// The innermost one: the outer layers only say that a service failed.
fn cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}
