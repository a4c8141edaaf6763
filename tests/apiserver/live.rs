//! What cannot be undone is allowed on the cluster as it is, not on what the watches last heard.

use std::net::Ipv4Addr;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use futures::StreamExt as _;
use http_body_util::BodyExt as _;
use kube::client::Body as KubeBody;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::json;
use tokio::runtime::Runtime;
use tokio::sync::watch;

use crate::api::{IMAGE, VERSION};
use crate::crds::CrdSet;
use crate::guard::{Guard, Site};
use crate::objects::{internal_release_image, machine_config_pool};
use crate::testbed::Testbed;

/// Between airgate and the API server; it can hold back what watches send, and nothing else.
struct Proxy {
    port: u16,
    open: watch::Sender<bool>,
    _runtime: Runtime,
}

#[derive(Clone)]
struct Way {
    client: Client,
    open: watch::Receiver<bool>,
}

impl Proxy {
    fn before(testbed: &Testbed) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (open, receiver) = watch::channel(true);
        let mut kubeconfig = Kubeconfig::read_from(testbed.kubeconfig()).unwrap();
        // Whoever comes brings a token along.
        kubeconfig.auth_infos[0].auth_info = None;
        let port = runtime.block_on(async {
            let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
            let way = Way { client: Client::try_from(config).unwrap(), open: receiver };
            let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
            let port = listener.local_addr().unwrap().port();
            let app = Router::new().fallback(pass_on).with_state(way);
            tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
            port
        });
        Self { port, open, _runtime: runtime }
    }

    fn hold_watches(&self) {
        self.open.send(false).unwrap();
    }

    fn let_watches_go(&self) {
        self.open.send(true).unwrap();
    }
}

async fn pass_on(State(way): State<Way>, request: Request) -> Response {
    let (mut head, body) = request.into_parts();
    let watches = head.uri.query().is_some_and(|query| query.contains("watch="));
    head.uri = head.uri.path_and_query().unwrap().as_str().parse().unwrap();
    head.headers.remove("host");
    let body = body.collect().await.unwrap().to_bytes();
    let request = axum::http::Request::from_parts(head, KubeBody::from(body.to_vec()));
    let (head, body) = way.client.send(request).await.unwrap().into_parts();
    let chunks = body.into_data_stream().then(move |chunk| {
        let mut open = way.open.clone();
        async move {
            if watches {
                open.wait_for(|open| *open).await.unwrap();
            }
            chunk
        }
    });
    Response::from_parts(head, Body::from_stream(chunks))
}

/// A change that the watches have not delivered keeps its release all the same.
fn check(change: impl Fn(&Guard), says: &str, guard: &Guard, proxy: &Proxy) {
    guard.reset();
    let drops = json!({"spec": internal_release_image(&[&Site::new().current])["spec"]});
    let dry_run = format!("{IMAGE}?dryRun=All");
    assert_eq!(guard.api.merge(&dry_run, &drops).code, 200, "nothing needs the next release yet");
    proxy.hold_watches();
    change(guard);
    let refused = guard.api.merge(IMAGE, &drops);
    proxy.let_watches_go();
    assert_eq!(refused.code, 403, "{refused:?}");
    let message = refused.body["message"].as_str().unwrap();
    assert!(message.contains(says), "{message}");
}

#[test]
fn a_release_is_kept_by_what_the_watches_have_not_heard_yet() {
    let testbed = Testbed::start();
    testbed.install_crds(&CrdSet::preferred());
    let proxy = Proxy::before(&testbed);
    let mut guard = Guard::install(testbed);
    guard.reach_api_server_by(&format!("http://127.0.0.1:{}", proxy.port));
    guard.run();
    guard.reset();
    guard.register();
    let target = |guard: &Guard| {
        let image = Site::new().listed.image;
        guard.api.merge(VERSION, &json!({"spec": {"desiredUpdate": {"image": image}}})).success();
    };
    check(target, "4.18.20", &guard, &proxy);
    let pool = |guard: &Guard| {
        let configs = "/apis/machineconfiguration.openshift.io/v1/machineconfigs";
        let rendered = crate::objects::rendered_machine_config("rendered-worker-2", &Site::new().listed);
        guard.set(configs, "rendered-worker-2", &rendered);
        let pools = "/apis/machineconfiguration.openshift.io/v1/machineconfigpools";
        guard.set(pools, "worker", &machine_config_pool("worker", "rendered-worker-1", "rendered-worker-2"));
    };
    check(pool, "MachineConfigPool worker", &guard, &proxy);
}
