//! Where the scenarios happen: a real API server, a Service, and replicas of airgate behind it.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::calls::CONNECTIONS;
use super::replica::{Replica, Setup};
use super::service::Service;
use crate::api::Api;
use crate::crds::CrdSet;
use crate::guard::Guard;
use crate::server::eventually;
use crate::testbed::Testbed;
use crate::volume::SecretVolume;

/// Dropped in this order: replicas end before their directory goes.
pub struct Ground {
    pub replicas: Vec<Replica>,
    pub service: Service,
    pub secret: SecretVolume,
    clients: usize,
    /// The site's objects, and no airgate of its own.
    pub guard: Guard,
}

/// What differs from the usual replica.
#[derive(Default)]
pub struct Special {
    /// Where it finds the API server.
    pub api_port: Option<u16>,
    pub cache: Option<PathBuf>,
    pub environment: Vec<(&'static str, String)>,
    pub around: Option<String>,
}

impl Ground {
    pub fn start() -> Self {
        let testbed = Testbed::start();
        testbed.install_crds(&CrdSet::preferred());
        Self::on(Guard::install(testbed))
    }

    /// On a site that is prepared, but not described yet.
    pub fn on(mut guard: Guard) -> Self {
        guard.run();
        guard.reset();
        guard.kill();
        let secret = SecretVolume::new(&guard.testbed.dir().join("secret"));
        let ground = Self { replicas: vec![], service: Service::start(), secret, clients: 1, guard };
        ground.trust(&[&ground.secret.ca()]);
        ground
    }

    /// Has the API server call the Service, trusting these.
    pub fn trust(&self, authorities: &[&[u8]]) {
        let file = self.guard.testbed.dir().join("service-ca.crt");
        fs::write(&file, authorities.concat()).expect("write the CAs");
        let url = format!("https://127.0.0.1:{}", self.service.port);
        let printed =
            self.guard.airgate(&["manifests", "--url", &url, "--ca-file", file.to_str().expect("a path in UTF-8")]);
        self.guard.testbed.command(["apply", "-f", "-"]).stdin(printed).run().success();
    }

    /// Has the API server open a new connection: for another CA bundle, if only the same CA twice, it takes another
    /// client.
    pub fn reconnect(&mut self) {
        self.clients += 1;
        let ca = self.secret.ca();
        self.trust(&vec![&*ca; self.clients]);
    }

    /// One more replica, not ready yet.
    pub fn start_replica(&self, special: Special) -> Replica {
        let dir = self.guard.testbed.dir();
        let kubeconfig = match special.api_port {
            None => self.guard.kubeconfig(),
            Some(port) => {
                let text = fs::read_to_string(self.guard.kubeconfig()).expect("airgate's kubeconfig");
                let mut other: Value = serde_json::from_str(&text).expect("a kubeconfig");
                other["clusters"][0]["cluster"]["server"] = format!("https://127.0.0.1:{port}").into();
                let path = dir.join(format!("by-{port}.kubeconfig"));
                fs::write(&path, other.to_string()).expect("write a kubeconfig");
                path
            }
        };
        let setup = Setup {
            kubeconfig,
            releases: self.guard.releases(),
            tls: &dir.join("secret"),
            config: dir.join("airgate.config"),
            cache: special.cache,
            environment: special.environment,
            around: special.around,
        };
        let replica = Replica::start(&self.guard.testbed, &setup);
        self.service.add(replica.port, replica.health);
        replica
    }

    /// Replaces all replicas by these, and waits until they are asked.
    pub fn replicas(&mut self, specials: Vec<Special>) {
        self.service.clear();
        self.replicas.clear();
        self.replicas = specials.into_iter().map(|special| self.start_replica(special)).collect();
        for replica in &mut self.replicas {
            replica.wait_until_ready();
        }
        for replica in &self.replicas {
            self.service.wait_until_routed(replica.port);
        }
        let tag = json!({"spec": {"desiredUpdate": {"image": "registry.example:5000/ocp/release:4.18.20"}}});
        eventually("the API server asks airgate", || (self.guard.dry_run(&tag).code == 422).then_some(()));
    }

    pub fn two_replicas(&mut self) {
        self.replicas(vec![Special::default(), Special::default()]);
    }

    /// Those of different people and programs.
    pub fn connections(&self) -> Vec<Api> {
        (0..CONNECTIONS).map(|_| Api::of(&self.guard.testbed)).collect()
    }
}
