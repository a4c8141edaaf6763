//! How the cluster says that registries are to be reached: pull secrets, CAs, proxy. Read by name, when needed.
//!
//! Secrets stay in memory, inside [`Access`], for as long as the look-ups that use them; nothing of them is shown.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube::Client;
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::cluster::Snapshot;
use crate::mirrors::IRI_PORT;
use crate::registry::{Access, Registry};
use crate::text::shown;

/// What was read is good for as long; whoever renews a secret does not wait longer.
const FRESH: Duration = Duration::from_mins(1);
/// The same after a registry refused it: somebody may have mended it since.
const DOUBTED: Duration = Duration::from_secs(5);
/// Of one object: a CA bundle has some 250 KB.
const PATIENCE: Duration = Duration::from_secs(3);

/// The objects that are read, for the RBAC rules: namespace, resource, name (empty: whichever is named elsewhere).
pub const OBJECTS: [(&str, &str, &str); 4] = [
    ("openshift-config", "secrets", "pull-secret"),
    ("openshift-config", "configmaps", ""),
    ("openshift-config-managed", "configmaps", "trusted-ca-bundle"),
    ("openshift-machine-config-operator", "secrets", "internal-release-image-registry-auth"),
];
/// The same without a namespace: group, version, resource, name.
pub const CLUSTER_OBJECTS: [(&str, &str, &str, &str); 2] = [
    ("config.openshift.io", "v1", "proxies", "cluster"),
    ("machineconfiguration.openshift.io", "v1", "controllerconfigs", "machine-config-controller"),
];

/// Reads it anew when it is old.
pub struct ClusterAccess {
    client: Client,
    last: Mutex<Option<Last>>,
}

struct Last {
    at: Instant,
    doubted: bool,
    inputs: u64,
    registry: Registry,
    notes: Vec<String>,
}

impl std::fmt::Debug for ClusterAccess {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ClusterAccess")
    }
}

impl ClusterAccess {
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self { client, last: Mutex::new(None) }
    }

    /// A reader with today's credentials and CAs; the same one, with its connections, while they stay.
    ///
    /// # Errors
    /// No reader can be made at all.
    pub async fn registry(&self, cluster: &Snapshot) -> Result<Registry, String> {
        let mut last = self.last.lock().await;
        if let Some(last) = last.as_ref().filter(|last| last.at.elapsed() < if last.doubted { DOUBTED } else { FRESH })
        {
            return Ok(last.registry.clone());
        }
        let inputs = self.read(cluster).await;
        let mut hasher = DefaultHasher::new();
        inputs.hash(&mut hasher);
        let fingerprint = hasher.finish();
        let at = Instant::now();
        if let Some(last) = last.as_mut().filter(|last| last.inputs == fingerprint) {
            (last.at, last.doubted) = (at, false);
            return Ok(last.registry.clone());
        }
        let (access, notes) = inputs.access();
        for note in &notes {
            tracing::warn!(note, "a setting for registries cannot be used");
        }
        let registry = Registry::new(access)?;
        *last = Some(Last { at, doubted: false, inputs: fingerprint, registry: registry.clone(), notes });
        Ok(registry)
    }

    /// What [`Self::registry`] would read with now, and what of the cluster's settings cannot be used.
    pub async fn access(&self, cluster: &Snapshot) -> (Access, Vec<String>) {
        self.read(cluster).await.access()
    }

    /// A registry could not be read with it.
    pub async fn doubt(&self) {
        if let Some(last) = self.last.lock().await.as_mut() {
            last.doubted = true;
        }
    }

    /// What of the cluster's settings cannot be used.
    pub fn notes(&self) -> Vec<String> {
        self.last.try_lock().ok().and_then(|last| Some(last.as_ref()?.notes.clone())).unwrap_or_default()
    }

    async fn read(&self, cluster: &Snapshot) -> Inputs {
        let image = cluster.image_config.known();
        let trusted = image.map(|config| config.spec.additional_trusted_ca.name.to_string()).unwrap_or_default();
        let of = |index: usize| {
            let (namespace, resource, name) = OBJECTS[index];
            let name = if name.is_empty() { &*trusted } else { name };
            (!name.is_empty()).then(|| format!("/api/v1/namespaces/{namespace}/{resource}/{name}"))
        };
        let of_cluster = |index: usize| {
            let (group, version, resource, name) = CLUSTER_OBJECTS[index];
            Some(format!("/apis/{group}/{version}/{resource}/{name}"))
        };
        let (pull_secret, host_cas, bundle, iri, proxy, controller) = tokio::join!(
            self.object(of(0)),
            self.object(of(1)),
            self.object(of(2)),
            self.object(of(3)),
            self.object(of_cluster(0)),
            self.object(of_cluster(1)),
        );
        Inputs {
            pull_secret,
            host_cas,
            bundle,
            iri,
            proxy,
            controller,
            insecure: image
                .map(|c| c.spec.registry_sources.insecure_registries.iter().map(ToString::to_string).collect())
                .unwrap_or_default(),
            mounted: mounted_bundle(),
            api_int: cluster.infrastructure.known().and_then(|i| i.status.api_int_host().map(ToOwned::to_owned)),
        }
    }

    /// `Ok(None)` where it is not there; `Err` says why it cannot be read.
    async fn object(&self, path: Option<String>) -> Result<Option<Object>, String> {
        let Some(path) = path else { return Ok(None) };
        let request = http_request(&path)?;
        let read = tokio::time::timeout(PATIENCE, self.client.request_text(request)).await;
        match read {
            Ok(Ok(text)) => {
                serde_json::from_str(&text).map(Some).map_err(|_| format!("{path} is not what it should be"))
            }
            Ok(Err(kube::Error::Api(status))) if status.code == 404 => Ok(None),
            Ok(Err(kube::Error::Api(status))) => Err(format!("{path} cannot be read: {}", shown(&status.message))),
            Ok(Err(_)) | Err(_) => Err(format!("{path} cannot be read: the API server did not answer")),
        }
    }
}

/// Size and time of the bundle that is mounted beside the cluster's objects; a reader takes it in when it is made.
fn mounted_bundle() -> Option<(u64, SystemTime)> {
    let file = std::fs::metadata(std::env::var_os("SSL_CERT_FILE")?).ok()?;
    Some((file.len(), file.modified().ok()?))
}

fn http_request(path: &str) -> Result<axum::http::Request<Vec<u8>>, String> {
    axum::http::Request::get(path).body(vec![]).map_err(|_| format!("{} names no object", shown(path)))
}

/// The parts used of a Secret, a ConfigMap, `proxy/cluster` and the ControllerConfig.
#[derive(Clone, Default, Hash, Deserialize)]
#[serde(default)]
struct Object {
    data: std::collections::BTreeMap<String, String>,
    spec: ObjectSpec,
    status: ObjectStatus,
}

#[derive(Clone, Default, Hash, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ObjectSpec {
    #[serde(rename = "rootCAData")]
    root_ca_data: String,
}

#[derive(Clone, Default, Hash, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ObjectStatus {
    http_proxy: String,
    https_proxy: String,
    no_proxy: String,
}

type Read = Result<Option<Object>, String>;

/// Everything an [`Access`] is made of.
#[derive(Hash)]
struct Inputs {
    pull_secret: Read,
    host_cas: Read,
    bundle: Read,
    iri: Read,
    proxy: Read,
    controller: Read,
    insecure: Vec<String>,
    mounted: Option<(u64, SystemTime)>,
    api_int: Option<String>,
}

impl Inputs {
    /// What can be used, and what cannot and why.
    fn access(&self) -> (Access, Vec<String>) {
        let mut building = Building { access: Access::default(), notes: vec![] };
        let api_int = self.api_int.as_ref().map(|host| format!("{host}{IRI_PORT}"));
        if let Some(secret) = building.object(&self.pull_secret) {
            building.secret("openshift-config/pull-secret", secret.data.get(".dockerconfigjson"));
        }
        if let (Some(secret), Some(host)) = (building.object(&self.iri), &api_int) {
            building.iri_secret(&secret.data, host);
        }
        if let Some(cas) = building.object(&self.host_cas) {
            // The last key is the update service's own.
            for (host, pem) in cas.data.iter().filter(|(host, _)| *host != "updateservice-registry") {
                building.step(|access| access.host_ca(host, pem.as_bytes()));
            }
        }
        if let Some(pem) = building.object(&self.bundle).and_then(|object| object.data.get("ca-bundle.crt")) {
            building.step(|access| access.ca("openshift-config-managed/trusted-ca-bundle", pem.as_bytes()));
        }
        if let (Some(controller), Some(host)) = (building.object(&self.controller), &api_int)
            && let Ok(pem) = STANDARD.decode(&controller.spec.root_ca_data)
            && !pem.is_empty()
        {
            building.step(|access| access.host_ca(host, &pem));
        }
        if let Some(Object { status, .. }) = building.object(&self.proxy) {
            building.step(|access| access.proxy(&status.http_proxy, &status.https_proxy, &status.no_proxy));
        }
        for host in &self.insecure {
            building.step(|access| access.insecure(host));
        }
        let mut notes = building.notes;
        notes.extend(building.access.notes().map(ToOwned::to_owned));
        (building.access, notes)
    }
}

struct Building {
    access: Access,
    notes: Vec<String>,
}

impl Building {
    fn object<'a>(&mut self, read: &'a Read) -> Option<&'a Object> {
        match read {
            Ok(object) => object.as_ref(),
            Err(why) => {
                self.notes.push(why.clone());
                None
            }
        }
    }

    fn step(&mut self, step: impl FnOnce(Access) -> Result<Access, String>) {
        match step(self.access.clone()) {
            Ok(access) => self.access = access,
            Err(why) => self.notes.push(why),
        }
    }

    fn secret(&mut self, name: &str, base64: Option<&String>) {
        match base64.map(|text| STANDARD.decode(text)) {
            Some(Ok(json)) => self.step(|access| access.pull_secret(name, &json)),
            Some(Err(_)) | None => self.notes.push(format!("{name} has no .dockerconfigjson")),
        }
    }

    /// `htpasswd` names the user, `password` is what it hashes.
    fn iri_secret(&mut self, data: &std::collections::BTreeMap<String, String>, host: &str) {
        let text = |key: &str| {
            let bytes = STANDARD.decode(data.get(key)?).ok()?;
            Some(String::from_utf8(bytes).ok()?.trim().to_owned())
        };
        let user = text("htpasswd").and_then(|line| Some(line.split_once(':')?.0.to_owned()));
        let (Some(user), Some(password)) = (user, text("password")) else {
            return self.notes.push("internal-release-image-registry-auth has no htpasswd and password".into());
        };
        let mut auths = serde_json::Map::new();
        auths.insert(host.to_owned(), serde_json::json!({"username": user, "password": password}));
        let json = Value::from(serde_json::Map::from_iter([("auths".to_owned(), Value::Object(auths))])).to_string();
        self.step(|access| access.pull_secret("internal-release-image-registry-auth", json.as_bytes()));
    }
}
