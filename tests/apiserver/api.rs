//! The API server without kubectl: for what kubectl would not send, and for the many requests whose
//! printed form does not matter.

use axum::http::{HeaderMap, Request};
use http_body_util::BodyExt as _;
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::Value;
use tokio::runtime::{Builder, Runtime};

use crate::testbed::Testbed;

pub const VERSION: &str = "/apis/config.openshift.io/v1/clusterversions/version";
pub const IMAGES: &str = "/apis/machineconfiguration.openshift.io/v1/internalreleaseimages";
pub const IMAGE: &str = "/apis/machineconfiguration.openshift.io/v1/internalreleaseimages/cluster";

/// A client of the administrator.
pub struct Api {
    runtime: Runtime,
    client: Client,
}

#[derive(Debug)]
pub struct Answer {
    /// 0 where there was no HTTP answer at all.
    pub code: u16,
    pub body: Value,
    pub warnings: Vec<String>,
}

impl Api {
    pub fn of(testbed: &Testbed) -> Self {
        Self::with(testbed, |_| {})
    }

    /// Of somebody else who may do anything.
    pub fn impersonating(testbed: &Testbed, user: &str) -> Self {
        Self::with(testbed, |config| {
            config.auth_info.impersonate = Some(user.to_owned());
            config.auth_info.impersonate_groups = Some(vec!["system:masters".to_owned()]);
        })
    }

    fn with(testbed: &Testbed, change: impl FnOnce(&mut Config)) -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
        let kubeconfig = Kubeconfig::read_from(testbed.kubeconfig()).expect("the testbed's kubeconfig");
        let client = runtime.block_on(async {
            let mut config =
                Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.expect("a config");
            config.default_retry = false;
            change(&mut config);
            Client::try_from(config).expect("a client")
        });
        Self { runtime, client }
    }

    /// Sends a request; what went wrong on the way is in the body.
    pub fn send(&self, method: &str, path: &str, content_type: &str, body: Option<&Value>) -> Answer {
        let content = body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
        let request = Request::builder().method(method).uri(path).header("content-type", content_type);
        let request = request.body(Body::from(content)).expect("a request");
        self.runtime.block_on(async {
            let response = match self.client.send(request).await {
                Ok(response) => response,
                Err(error) => return Answer { code: 0, body: error.to_string().into(), warnings: vec![] },
            };
            let (head, body) = response.into_parts();
            let body = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
            let text = || String::from_utf8_lossy(&body).into_owned();
            let body = serde_json::from_slice(&body).unwrap_or_else(|_| text().into());
            Answer { code: head.status.as_u16(), body, warnings: warnings(&head.headers) }
        })
    }

    /// The object, or `None` where there is none.
    pub fn get(&self, path: &str) -> Option<Value> {
        let answer = self.send("GET", path, JSON, None);
        match answer.code {
            200 => Some(answer.body),
            404 => None,
            _ => panic!("GET {path}: {answer:?}"),
        }
    }

    pub fn create(&self, path: &str, object: &Value) -> Answer {
        self.send("POST", path, JSON, Some(object))
    }

    pub fn replace(&self, path: &str, object: &Value) -> Answer {
        self.send("PUT", path, JSON, Some(object))
    }

    pub fn merge(&self, path: &str, patch: &Value) -> Answer {
        self.send("PATCH", path, "application/merge-patch+json", Some(patch))
    }

    pub fn delete(&self, path: &str) -> Answer {
        self.send("DELETE", path, JSON, None)
    }
}

const JSON: &str = "application/json";

impl Answer {
    /// The body, where the API server must have agreed.
    pub fn success(self) -> Value {
        assert!((200..300).contains(&self.code), "{} {:#}", self.code, self.body);
        self.body
    }
}

/// The texts of `Warning: 299 - "..."` headers.
fn warnings(headers: &HeaderMap) -> Vec<String> {
    let text = |value: &axum::http::HeaderValue| {
        let quoted = String::from_utf8_lossy(value.as_bytes()).into_owned();
        let text = quoted.split_once('"').map_or("", |(_, text)| text).trim_end_matches('"');
        text.replace("\\\"", "\"")
    };
    headers.get_all("warning").iter().map(text).collect()
}
