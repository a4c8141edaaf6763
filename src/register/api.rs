//! The requests: the webhook configuration, the namespace, the Lease. Bounded in time; answers as they are.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::{DeleteParams, GetParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::Request;
use kube::{Api, Client};
use serde_json::{Value, json};

use super::lease::Record;
use super::plan::{Home, UNREGISTERED};
use crate::manifests::NAME;
use crate::text::shown;

/// As whom airgate applies.
pub const MANAGER: &str = "airgate";
const CONFIGURATIONS: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
const NAMESPACES: &str = "/api/v1/namespaces";
/// A write that was begun while the Lease was held must end before it runs out.
const PATIENCE: Duration = Duration::from_secs(4);

/// Why a request came to nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// 404.
    #[error("it is not there")]
    Absent,
    /// 409: somebody else was quicker.
    #[error("it changed meanwhile")]
    Conflict,
    /// 403, with the API server's words.
    #[error("the API server does not allow it: {0}")]
    Denied(String),
    #[error("{0}")]
    Other(String),
}

impl From<kube::Error> for Failure {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => match status.code {
                403 => Self::Denied(shown(&status.message).into_owned()),
                404 => Self::Absent,
                409 => Self::Conflict,
                code => Self::Other(format!("HTTP {code}, {}", shown(&status.message))),
            },
            error => Self::Other(shown(&crate::watch::cause(&error)).into_owned()),
        }
    }
}

/// What is asked of the API server here.
#[derive(Clone)]
#[expect(missing_debug_implementations, reason = "a client has nothing to show")]
pub struct Site(pub Client);

impl Site {
    /// The configuration `airgate`, whoever stored it.
    ///
    /// # Errors
    /// [`Failure`]; that there is none is `None`.
    pub async fn configuration(&self) -> Result<Option<Value>, Failure> {
        self.get(CONFIGURATIONS, NAME).await
    }

    /// # Errors
    /// [`Failure`]; that there is none is `None`.
    pub async fn namespace(&self, name: &str) -> Result<Option<Value>, Failure> {
        self.get(NAMESPACES, name).await
    }

    async fn get(&self, path: &str, name: &str) -> Result<Option<Value>, Failure> {
        let request = Request::new(path).get(name, &GetParams::default()).map_err(unusable)?;
        match within(self.0.request(request)).await {
            Err(Failure::Absent) => Ok(None),
            answer => answer.map(Some),
        }
    }

    /// Server-side apply; what others own of it and airgate has no word on stays.
    ///
    /// # Errors
    /// [`Failure`]
    pub async fn apply(&self, object: &Value) -> Result<Value, Failure> {
        let parameters = PatchParams::apply(MANAGER).force();
        let request = Request::new(CONFIGURATIONS).patch(NAME, &parameters, &Patch::Apply(object)).map_err(unusable)?;
        within(self.0.request(request)).await
    }

    /// Replaces the entries of exactly this version of the configuration.
    ///
    /// # Errors
    /// [`Failure`]
    pub async fn replace_webhooks(&self, webhooks: &Value, version: &str) -> Result<Value, Failure> {
        let patch = json!({"metadata": {"resourceVersion": version}, "webhooks": webhooks});
        let parameters = PatchParams { field_manager: Some(MANAGER.into()), ..PatchParams::default() };
        let request = Request::new(CONFIGURATIONS).patch(NAME, &parameters, &Patch::Merge(patch)).map_err(unusable)?;
        within(self.0.request(request)).await
    }

    /// Deletes the configuration that has this uid.
    ///
    /// # Errors
    /// [`Failure`]
    pub async fn delete_configuration(&self, uid: &str) -> Result<(), Failure> {
        let preconditions = Preconditions { uid: Some(uid.into()), resource_version: None };
        let parameters = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
        let request = Request::new(CONFIGURATIONS).delete(NAME, &parameters).map_err(unusable)?;
        within(self.0.request::<Value>(request)).await.map(drop)
    }

    /// Sets the annotation that keeps the configuration away, or removes it.
    ///
    /// # Errors
    /// [`Failure`]
    pub async fn set_unregistered(&self, namespace: &str, reason: Option<&str>) -> Result<(), Failure> {
        let patch = json!({"metadata": {"annotations": {UNREGISTERED: reason}}});
        let parameters = PatchParams { field_manager: Some("airgate-unregister".into()), ..PatchParams::default() };
        let request = Request::new(NAMESPACES).patch(namespace, &parameters, &Patch::Merge(patch)).map_err(unusable)?;
        within(self.0.request::<Value>(request)).await.map(drop)
    }

    fn leases(&self, namespace: &str) -> Api<Lease> {
        Api::namespaced(self.0.clone(), namespace)
    }

    /// The Lease, with the version that it was read in.
    ///
    /// # Errors
    /// [`Failure`]; that there is none is `None`.
    pub async fn lease(&self, namespace: &str) -> Result<Option<(Record, Option<String>)>, Failure> {
        let lease = within(self.leases(namespace).get_opt(NAME)).await?;
        Ok(lease.map(|lease| (record(lease.spec.unwrap_or_default()), lease.metadata.resource_version)))
    }

    /// # Errors
    /// [`Failure`]; `Conflict` where another replica was quicker.
    pub async fn create_lease(&self, namespace: &str, record: &Record) -> Result<(), Failure> {
        within(self.leases(namespace).create(&PostParams::default(), &lease(record, None))).await.map(drop)
    }

    /// In place of this version.
    ///
    /// # Errors
    /// [`Failure`]; `Conflict` where another replica was quicker.
    pub async fn replace_lease(
        &self,
        namespace: &str,
        record: &Record,
        version: Option<String>,
    ) -> Result<(), Failure> {
        let lease = lease(record, version);
        within(self.leases(namespace).replace(NAME, &PostParams::default(), &lease)).await.map(drop)
    }
}

/// What a namespace says about the configuration that it owns.
pub fn home(namespace: Option<&Value>) -> Home {
    let Some(namespace) = namespace else { return Home::Absent };
    let text = |pointer: &str| namespace.pointer(pointer).and_then(Value::as_str);
    if let Some(reason) = namespace["metadata"]["annotations"][UNREGISTERED].as_str() {
        return Home::Unregistered(shown(reason).into_owned());
    }
    if text("/metadata/deletionTimestamp").is_some() {
        return Home::Leaving;
    }
    text("/metadata/uid").map_or(Home::Absent, |uid| Home::There { uid: uid.to_owned() })
}

/// The namespaces that a stored configuration belongs to: its owner's, and those of the Services that it calls.
pub fn namespaces_of(configuration: &Value) -> Vec<String> {
    let owners = configuration["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    let owners = owners.filter(|owner| owner["kind"] == "Namespace").filter_map(|owner| owner["name"].as_str());
    let entries = configuration["webhooks"].as_array().into_iter().flatten();
    let called = entries.filter_map(|entry| entry["clientConfig"]["service"]["namespace"].as_str());
    let mut names: Vec<String> = owners.chain(called).map(ToOwned::to_owned).collect();
    names.sort();
    names.dedup();
    names
}

fn record(spec: LeaseSpec) -> Record {
    let time = |time: Option<MicroTime>| time.map(|MicroTime(time)| time);
    Record {
        holder: spec.holder_identity.unwrap_or_default(),
        duration_seconds: spec.lease_duration_seconds.unwrap_or_default(),
        acquired: time(spec.acquire_time),
        renewed: time(spec.renew_time),
        transitions: spec.lease_transitions.unwrap_or_default(),
    }
}

fn lease(record: &Record, resource_version: Option<String>) -> Lease {
    let time = |time: Option<Timestamp>| time.map(MicroTime);
    Lease {
        metadata: ObjectMeta { name: Some(NAME.into()), resource_version, ..ObjectMeta::default() },
        spec: Some(LeaseSpec {
            holder_identity: Some(record.holder.clone()),
            lease_duration_seconds: Some(record.duration_seconds),
            acquire_time: time(record.acquired),
            renew_time: time(record.renewed),
            lease_transitions: Some(record.transitions),
            ..LeaseSpec::default()
        }),
    }
}

fn unusable(error: kube::core::request::Error) -> Failure {
    Failure::Other(error.to_string())
}

async fn within<T>(request: impl Future<Output = kube::Result<T>>) -> Result<T, Failure> {
    match tokio::time::timeout(PATIENCE, request).await {
        Ok(answer) => Ok(answer?),
        Err(_) => Err(Failure::Other(format!("no answer within {PATIENCE:?}"))),
    }
}
