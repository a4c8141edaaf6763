//! docs/certificates.md: the keeper's Secret harmed as the page has it, and given to cert-manager and back.

use std::cell::RefCell;
use std::path::Path;
use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::in_cluster::IMAGES;
use super::kubelet::Pods;
use super::page::Page;
use super::walk::{Then, Walk};
use super::{cluster, operators, person, stored};
use crate::deploy::install_crds_of_others;
use crate::server::eventually;
use crate::testbed::Testbed;

/// What is stored of a certificate, and what API servers trust.
struct Seen<'a>(&'a Testbed);

impl Seen<'_> {
    fn get(&self, object: &str) -> Value {
        stored(self.0, "airgate", object).unwrap_or_else(|| panic!("no {object}"))
    }

    fn secret(&self, key: &str) -> Option<Vec<u8>> {
        let secret = self.get("secret/airgate-tls");
        Some(STANDARD.decode(secret["data"][key].as_str()?).expect("base64"))
    }

    /// The CAs of the Secret, one PEM each, where every webhook has just them.
    fn trusted(&self) -> Option<Vec<String>> {
        let bundle = self.secret("ca.crt")?;
        let configuration = self.get("validatingwebhookconfiguration/airgate");
        let webhooks = configuration["webhooks"].as_array().expect("webhooks");
        let same = webhooks.iter().all(|webhook| webhook["clientConfig"]["caBundle"] == STANDARD.encode(&bundle));
        let text = String::from_utf8(bundle).expect("PEM");
        same.then(|| {
            text.split_inclusive("-----END CERTIFICATE-----")
                .map(|ca| ca.trim().to_owned())
                .filter(|ca| !ca.is_empty())
                .collect()
        })
    }
}

/// A step that airgate refuses.
fn guarded(walk: &Walk) {
    eventually("a guarded step is refused by airgate", || {
        let (_, _, why) =
            walk.run("oc adm upgrade --allow-explicit-upgrade --to-image registry.example/a:tag --dry-run");
        why.contains("is no pullspec by digest").then_some(())
    });
}

#[test]
fn a_secret_is_lost_harmed_and_given_to_another_keeper_and_back() {
    let testbed = cluster();
    install_crds_of_others(&testbed);
    let spawn = |command: &mut Command, log: &Path| testbed.spawn(command, log);
    let mut walk = person(&testbed, &spawn);
    let pods = RefCell::new(Pods::of(&testbed, "airgate"));
    let seen = Seen(&testbed);
    let manifests = format!("airgate manifests --flavor kubernetes --image {} | kubectl apply -f -", IMAGES[0]);
    let (code, _, why) = walk.run(&manifests);
    assert_eq!(code, 0, "{why}");
    pods.borrow_mut().roll_out(IMAGES[0]);
    let first = eventually("the CA is in every webhook", || seen.trusted());
    assert_eq!(first.len(), 1);

    let lost = |walk: &Walk| {
        let (code, _, why) = walk.run("kubectl delete secret airgate-tls -n airgate");
        assert_eq!(code, 0, "{why}");
    };
    let put_back = |walk: &Walk| {
        assert_eq!(eventually("what was there is put back", || seen.trusted()), first);
        guarded(walk);
    };
    let rotates = |walk: &Walk| {
        let both =
            eventually("the next CA is trusted beside the first", || seen.trusted().filter(|cas| cas.len() == 2));
        assert_eq!(both[0], first[0]);
        guarded(walk);
    };
    let ended = |_: &Walk| pods.borrow_mut().stop();
    let roll_out = |_: &Walk| pods.borrow_mut().roll_out(IMAGES[0]);
    let trusts_no_more = |walk: &Walk| {
        let now = eventually("a new CA is in every webhook", || seen.trusted().filter(|cas| !cas.contains(&first[0])));
        assert_eq!(now.len(), 1, "and no other");
        guarded(walk);
    };
    // Pods of before still run: they take what cert-manager makes.
    let made_by_cert_manager = |walk: &Walk| {
        operators::of_cert_manager(&testbed);
        guarded(walk);
    };
    // The pods have what cert-manager made as files. Then an upgrade without the flag of the install, and the right one again.
    let kept_by_cert_manager = |walk: &Walk| {
        guarded(walk);
        let (secret, ca) = (seen.get("secret/airgate-tls"), seen.trusted().expect("one CA everywhere"));
        let (_, _, why) = walk.run(&manifests);
        assert!(why.contains("Secret \"airgate-tls\" is invalid: type"), "{why}");
        pods.borrow_mut().roll_out(IMAGES[0]);
        guarded(walk);
        assert_eq!(
            (seen.get("secret/airgate-tls")["data"].clone(), seen.trusted()),
            (secret["data"].clone(), Some(ca))
        );
        let (code, _, why) = walk.run(&manifests.replace("kubernetes", "kubernetes --certificates cert-manager"));
        assert_eq!(code, 0, "{why}");
        pods.borrow_mut().roll_out(IMAGES[0]);
    };
    let kept_by_airgate = |walk: &Walk| {
        let own = eventually("a CA of airgate's own is in every webhook", || {
            seen.secret("ca.key").and_then(|_| seen.trusted())
        });
        assert_eq!(own.len(), 1);
        assert_eq!(
            seen.get("validatingwebhookconfiguration/airgate")["metadata"]["annotations"]["cert-manager.io/inject-ca-from"],
            json!(null)
        );
        guarded(walk);
    };
    walk.through(
        &Page::read("certificates.md"),
        &[
            ("IMAGE=", Then::Set(IMAGES[0].to_owned())),
            ("kubectl create secret generic airgate-tls", Then::Both(&lost, &put_back)),
            ("kubectl patch secret airgate-tls", Then::Leads(&rotates)),
            ("kubectl patch secret airgate-tls", Then::Exits(0)),
            ("kubectl wait --for=delete pod", Then::After(&ended)),
            ("kubectl rollout status", Then::Both(&roll_out, &trusts_no_more)),
            ("kubectl rollout status", Then::Both(&roll_out, &kept_by_cert_manager)),
            ("kubectl rollout status", Then::Both(&roll_out, &kept_by_airgate)),
            ("kubectl delete secret airgate-tls", Then::Leads(&made_by_cert_manager)),
            ("kubectl delete secret airgate-tls", Then::Exits(0)),
        ],
    );
}
