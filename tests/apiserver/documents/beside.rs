//! docs/install-beside.md

use std::path::Path;
use std::process::Command;

use super::page::Page;
use super::walk::{Then, Walk, http_get};
use super::{cluster, operators, person, release_in};
use crate::server::random;

#[test]
fn airgate_is_installed_beside_a_cluster_upgraded_and_taken_away() {
    let testbed = cluster();
    let spawn = |command: &mut Command, log: &Path| testbed.spawn(command, log);
    let mut walk = person(&testbed, &spawn);
    // An address for this test alone, on which the ports of the page are free.
    let [_, _, _, _, _, a, b, c] = random().to_be_bytes();
    let host = format!("127.{}.{b}.{c}", a.clamp(1, 76));
    for (variable, port) in [("AIRGATE_LISTEN", 8443), ("AIRGATE_HEALTH_LISTEN", 8081), ("AIRGATE_ADMIN_LISTEN", 8080)]
    {
        walk.set(variable, format!("{host}:{port}"));
    }
    release_in(&walk.dir.join("layout"));
    let ready = |_: &Walk| http_get(&format!("{host}:8081"), "/readyz").is_some_and(|(code, _)| code == 200);
    let end = |_: &Walk| operators::end_namespace(&testbed, "openshift-airgate");
    walk.through(
        &Page::read("install-beside.md"),
        &[
            ("HOST=", Then::Set(host.clone())),
            ("ARCHIVE=", Then::Set("layout".to_owned())),
            ("airgate serve", Then::Serves(&ready)),
            ("oc delete namespace", Then::After(&end)),
        ],
    );
}
