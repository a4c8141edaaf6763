//! docs/install-beside.md

use std::path::Path;
use std::process::Command;

use super::page::Page;
use super::walk::{Then, Walk, http_get};
use super::{cluster, person};
use crate::server::random;
use crate::testing::{Store, V2S2, base, payload};

#[test]
fn airgate_is_installed_beside_a_cluster_upgraded_and_taken_away() {
    let testbed = cluster();
    let spawn = |command: &mut Command, log: &Path| testbed.spawn(command, log);
    let mut walk = person(&testbed, &spawn);
    // An address for this test alone, on which the ports of the page are free.
    let [_, _, _, _, _, a, b, c] = random().to_be_bytes();
    let host = format!("127.{}.{b}.{c}", a.clamp(1, 76));
    for (variable, port) in
        [("AIRGATE_LISTEN", 8443), ("AIRGATE_HEALTH_LISTEN", 8081), ("AIRGATE_ADMIN_LISTEN", 8080)]
    {
        walk.set(variable, format!("{host}:{port}"));
    }
    let mut store = Store::default();
    let layers = [base(), payload("4.18.12", &["4.18.11"], false)];
    let image = store.image(V2S2, "amd64", &layers);
    store.layout(&walk.dir.join("layout"), &[(&image, "4.18.12")]);

    let ready = |_: &Walk| http_get(&format!("{host}:8081"), "/readyz").is_some_and(|(code, _)| code == 200);
    walk.through(
        &Page::read("install-beside.md"),
        &[
            ("HOST=", Then::Set(host.clone())),
            ("ARCHIVE=", Then::Set("layout".to_owned())),
            ("airgate serve", Then::Serves(&ready)),
            // The cluster of this test has no signature store, so what it runs is not proved.
            ("airgate audit", Then::Exits(0)),
        ],
    );
}
