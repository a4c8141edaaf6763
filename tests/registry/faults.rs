//! A registry with real TLS in this process, whose faults are data and which remembers every request, and what the
//! reader makes of them.

mod answers;
mod auth;
mod certificates;
mod hostile;
mod places;
mod proxy;
mod redirects;
mod server;

use std::time::Duration;

use airgate::pullspec::{Digest, Repository};
use airgate::registry::{Access, Read, Registry, Unread};
use tokio::time::Instant;

use crate::testing::{LIST, Store, V2S2, base, payload};
use server::{Fake, Setup};

pub const PATH: &str = "ocp/release";
/// Far beyond what anything takes on the slowest machine.
pub const LIMIT: Duration = Duration::from_mins(1);

/// A release of one architecture and its digest.
pub fn single() -> (Store, Digest) {
    let mut store = Store::default();
    let top = store.image(V2S2, "amd64", &[base(), payload("4.19.9", &["4.18.20", "4.19.3"], false)]);
    (store, Digest::parse(&top).unwrap())
}

/// A release of four architectures that share their last layer.
pub fn multi() -> (Store, Digest) {
    let mut store = Store::default();
    let layer = payload("4.19.9", &["4.19.3"], true);
    let children = ["amd64", "arm64", "ppc64le", "s390x"].map(|name| store.image(V2S2, name, &[base(), layer.clone()]));
    let top = store.index(LIST, &children);
    (store, Digest::parse(&top).unwrap())
}

/// Digests of the parts of a single release: the manifest, its configuration, its last layer.
pub fn parts(store: &Store, top: Digest) -> [String; 3] {
    let manifest: serde_json::Value = serde_json::from_slice(&store.0[&top.to_string()]).unwrap();
    let text = |value: &serde_json::Value| value["digest"].as_str().unwrap().to_owned();
    [top.to_string(), text(&manifest["config"]), text(manifest["layers"].as_array().unwrap().last().unwrap())]
}

pub async fn serving(store: Store) -> Fake {
    Setup { store, ..Setup::default() }.start().await
}

/// A reader that trusts the CA of all these registries.
pub fn reader() -> Registry {
    Registry::new(trusting()).unwrap()
}

pub fn trusting() -> Access {
    Access::default().ca("the test's CA", server::ca().pem.as_bytes()).unwrap()
}

pub fn place(host: &str) -> Repository {
    Repository::parse(&format!("{host}/{PATH}")).unwrap()
}

pub fn soon() -> Instant {
    Instant::now() + LIMIT
}

pub async fn read(registry: &Registry, fakes: &[&Fake], digest: Digest) -> Result<Read, Unread> {
    let places: Vec<_> = fakes.iter().map(|fake| place(&fake.host)).collect();
    registry.release(&places, digest, soon()).await
}

/// `absent`, `unreachable` or `bad`, for tables.
pub fn kind(unread: &Unread) -> &'static str {
    match unread {
        Unread::Absent(_) => "absent",
        Unread::Unreachable(_) => "unreachable",
        Unread::Bad { .. } => "bad",
    }
}
