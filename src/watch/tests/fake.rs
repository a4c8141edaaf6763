//! An API server that misbehaves on demand: what a real one cannot be made to do in a test.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::{Response, StatusCode, Uri};
use kube::{Client, Config};
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};

type Events = mpsc::UnboundedSender<Result<Bytes, std::io::Error>>;

#[derive(Clone)]
pub struct Fake {
    inner: Arc<Mutex<Inner>>,
    /// While false no request is answered.
    answering: Arc<watch::Sender<bool>>,
    pub client: Client,
}

#[derive(Default)]
pub struct Inner {
    /// `GROUP/VERSION/PLURAL` of what is installed.
    pub installed: BTreeSet<String>,
    pub objects: BTreeMap<String, Vec<Value>>,
    /// Resources that answer 403.
    pub denied: BTreeSet<String>,
    pub version: u64,
    watchers: BTreeMap<String, Vec<Events>>,
    /// Path and query of each request.
    pub requests: Vec<String>,
}

impl Fake {
    pub async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let uri = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
        let mut config = Config::new(uri);
        config.default_retry = false;
        let fake = Self {
            inner: Arc::default(),
            answering: Arc::new(watch::Sender::new(true)),
            client: Client::try_from(config).unwrap(),
        };
        for resource in crate::resource::ALL {
            fake.lock().installed.insert(format!("{}/{}/{}", resource.group, resource.versions[0], resource.plural));
        }
        let served = fake.clone();
        let router = Router::new().fallback(move |uri: Uri| {
            let fake = served.clone();
            async move {
                fake.answering.subscribe().wait_for(|answering| *answering).await.unwrap();
                fake.answer(&uri)
            }
        });
        tokio::spawn(async move { axum::serve(listener, router).await });
        fake
    }

    pub fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap()
    }

    pub fn answering(&self, answering: bool) {
        self.answering.send_replace(answering);
    }

    pub fn put(&self, plural: &str, name: &str, mut object: Value) {
        object["metadata"]["name"] = name.into();
        let mut inner = self.lock();
        inner.version += 1;
        object["metadata"]["resourceVersion"] = inner.version.to_string().into();
        let objects = inner.objects.entry(plural.into()).or_default();
        let known = objects.iter().position(|known| known["metadata"]["name"] == name);
        let kind = if known.is_some() { "MODIFIED" } else { "ADDED" };
        known.map(|known| objects.remove(known));
        objects.push(object.clone());
        inner.send(plural, &json!({"type": kind, "object": object}));
    }

    pub fn delete(&self, plural: &str, name: &str) {
        let mut inner = self.lock();
        inner.version += 1;
        let version = inner.version.to_string();
        inner.objects.entry(plural.into()).or_default().retain(|known| known["metadata"]["name"] != name);
        let object = json!({"metadata": {"name": name, "resourceVersion": version}});
        inner.send(plural, &json!({"type": "DELETED", "object": object}));
    }

    pub fn event(&self, plural: &str, event: &Value) {
        self.lock().send(plural, event);
    }

    /// Ends the watches of a resource in the middle of a line.
    pub fn drop_connections(&self, plural: &str) {
        for watcher in self.lock().watchers.remove(plural).unwrap_or_default() {
            let _ = watcher.send(Ok("{\"type\":\"ADD".into()));
            let _ = watcher.send(Err(std::io::Error::other("dropped")));
        }
    }

    /// Ends the watches of a resource as the API server does at their timeout.
    pub fn end_watches(&self, plural: &str) {
        self.lock().watchers.remove(plural);
    }

    pub fn watched(&self, plural: &str) -> usize {
        self.lock().watchers.get(plural).map_or(0, Vec::len)
    }

    fn answer(&self, uri: &Uri) -> Response<Body> {
        let mut inner = self.lock();
        inner.requests.push(uri.to_string());
        // The first API has no group; a namespace changes nothing here.
        let path = uri.path().strip_prefix("/apis/").or_else(|| uri.path().strip_prefix("/api"));
        let mut parts: Vec<_> = path.unwrap_or_default().split('/').collect();
        if parts.get(2) == Some(&"namespaces") {
            parts.drain(2..4);
        }
        let query = uri.query().unwrap_or_default();
        let path = parts.join("/");
        match &parts[..] {
            [_, _] => {
                let below = format!("{path}/");
                let names = inner.installed.iter().filter_map(|name| name.strip_prefix(&below));
                let resources: Vec<_> = names.map(|name| json!({"name": name})).collect();
                if resources.is_empty() { not_served() } else { success(&json!({"resources": resources})) }
            }
            [.., plural] | [.., plural, _] if inner.denied.contains(*plural) => failure(403),
            [_, _, plural] if inner.installed.contains(&path) && query.contains("watch=true") => {
                let (sender, receiver) = mpsc::unbounded_channel();
                inner.watchers.entry((*plural).into()).or_default().push(sender);
                let lines = futures::stream::unfold(receiver, async |mut receiver| {
                    receiver.recv().await.map(|line| (line, receiver))
                });
                Response::new(Body::from_stream(lines))
            }
            [_, _, plural] if inner.installed.contains(&path) => {
                let items = inner.objects.get(*plural).cloned().unwrap_or_default();
                success(&json!({"metadata": {"resourceVersion": inner.version.to_string()}, "items": items}))
            }
            [_, _, plural, name] => {
                let mut objects = inner.objects.get(*plural).into_iter().flatten();
                objects.find(|object| object["metadata"]["name"] == *name).map_or_else(|| failure(404), success)
            }
            _ => failure(404),
        }
    }
}

impl Inner {
    fn send(&mut self, plural: &str, event: &Value) {
        let watchers = self.watchers.entry(plural.into()).or_default();
        watchers.retain(|watcher| watcher.send(Ok(format!("{event}\n").into())).is_ok());
    }
}

fn success(body: &Value) -> Response<Body> {
    Response::new(Body::from(body.to_string()))
}

/// As the API server answers for a group and version that nothing serves.
fn not_served() -> Response<Body> {
    let mut response = Response::new(Body::from("404 page not found\n"));
    *response.status_mut() = StatusCode::NOT_FOUND;
    response
}

fn failure(code: u16) -> Response<Body> {
    let reason = if code == 403 { "Forbidden" } else { "NotFound" };
    let body = json!({"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": format!("no: {reason}")});
    let mut response = success(&body);
    *response.status_mut() = StatusCode::from_u16(code).unwrap();
    response
}
