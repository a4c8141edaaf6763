//! Certificates that change while the server runs, with the file motions that really occur.

use std::fs;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};

use super::client::{Client, H1, H2, TLS12, TLS13, review};
use super::harness::{Setup, copy, until, within};
use super::volume::SecretVolume;
use airgate::tls::self_signed;

#[tokio::test]
async fn five_rotations_of_a_mounted_secret_without_one_failed_call() {
    let setup = Setup::new();
    let mut volume = SecretVolume::new(&setup.dir);
    let server = setup.start().await;
    let address = server.v4();
    let client = Arc::new(Mutex::new(Client::new(&volume.ca(), H1)));
    let trusting = {
        let client = client.clone();
        move || client.lock().unwrap().clone()
    };

    // One connection lives on through all of them; others are opened all the time.
    let mut kept = trusting().connect(address).await.unwrap();
    let calls = Arc::new(AtomicU32::new(0));
    let all_the_time = {
        let (trusting, calls) = (trusting.clone(), calls.clone());
        tokio::spawn(async move {
            loop {
                assert_eq!(trusting().review(address, "/validate", "x").await.status, 200);
                calls.fetch_add(1, Ordering::Relaxed);
            }
        })
    };
    for rotation in 1..=5 {
        let before = trusting().connect(address).await.unwrap().certificate;
        // Clients trust the new CA before the certificate changes, as with a CA bundle. The call that had
        // begun before is to end before, too.
        let ca = volume.prepare();
        client.lock().unwrap().trust(&ca);
        let done = calls.load(Ordering::Relaxed);
        until("calls with the new trust", async || calls.load(Ordering::Relaxed) >= done + 2).await;
        volume.publish();
        until("the new certificate", async || trusting().connect(address).await.unwrap().certificate != before).await;
        let only_new = Client::new(&ca, H2);
        assert_eq!(only_new.review(address, "/validate", "x").await.status, 200, "rotation {rotation}");
        let got = within("an answer", kept.send(review(address, "/validate", "x"))).await.unwrap();
        assert_eq!(got.status, 200, "the kept connection, rotation {rotation}");
        assert!(!all_the_time.is_finished(), "a call failed in rotation {rotation}");
    }
    server.metric("airgate_tls_reloads_total 5").await;
    server.metric("airgate_tls_reload_failures_total 0").await;
    assert!(!all_the_time.is_finished(), "a call failed");
    all_the_time.abort();
}

#[tokio::test]
async fn half_of_a_new_pair_changes_nothing_until_the_other_half_comes() {
    let server = Setup::new().start().await;
    let old_ca = server.ca();
    let other = tempfile::tempdir().unwrap();
    self_signed::ensure(other.path(), &[]).unwrap();

    copy(other.path(), &server.dir, &["tls.crt"]);
    server.metric("airgate_tls_reload_failures_total 1").await;
    assert_eq!(Client::new(&old_ca, H1).review(server.v4(), "/validate", "x").await.status, 200);

    fs::write(server.dir.join("tls.key"), "").unwrap();
    server.metric("airgate_tls_reload_failures_total 2").await;
    assert_eq!(Client::new(&old_ca, H1).review(server.v4(), "/validate", "x").await.status, 200);
    let status = super::client::get(server.addresses.admin, "/statusz").await;
    assert!(status.text.contains("tls.key holds no private key"), "{}", status.text);

    copy(other.path(), &server.dir, &["tls.key", "ca.crt"]);
    server.metric("airgate_tls_reloads_total 1").await;
    assert_eq!(Client::new(&server.ca(), H1).review(server.v4(), "/validate", "x").await.status, 200);
    assert!(Client::new(&old_ca, H1).connect(server.v4()).await.is_err(), "the old certificate is gone");
}

struct ClientCa {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

impl ClientCa {
    fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self { issuer: Issuer::new(params, key), pem }
    }

    fn identity(&self) -> (String, String) {
        let mut params = CertificateParams::new(vec!["api-server".to_owned()]).unwrap();
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().unwrap();
        (params.signed_by(&key, &self.issuer).unwrap().pem(), key.serialize_pem())
    }
}

#[tokio::test]
async fn with_a_client_ca_only_its_clients_may_call() {
    let (right, wrong) = (ClientCa::new(), ClientCa::new());
    let mut setup = Setup::new();
    let file = setup.dir.parent().unwrap().join("client-ca.crt");
    fs::write(&file, &right.pem).unwrap();
    setup.client_ca = Some(file.clone());
    let server = setup.start().await;
    let address = server.v4();

    let may_call = async |identity: Option<(String, String)>, versions| {
        let client = Client { versions, identity, ..Client::new(&server.ca(), H1) };
        // In TLS 1.3 the client learns of the refusal only when it reads.
        let Ok(mut connection) = within("a connection", client.connect(address)).await else {
            return false;
        };
        within("an answer", connection.send(review(address, "/validate", "x"))).await.is_ok_and(|got| got.status == 200)
    };
    for versions in [TLS12, TLS13] {
        assert!(may_call(Some(right.identity()), versions).await);
        assert!(!may_call(Some(wrong.identity()), versions).await);
        assert!(!may_call(None, versions).await);
    }

    // The client CA rotates like the certificate, and never ends as "anybody".
    fs::write(&file, &wrong.pem).unwrap();
    server.metric("airgate_tls_reloads_total 1").await;
    assert!(may_call(Some(wrong.identity()), TLS13).await);
    assert!(!may_call(Some(right.identity()), TLS13).await);
    fs::remove_file(&file).unwrap();
    server.metric("airgate_tls_reload_failures_total 1").await;
    assert!(!may_call(None, TLS13).await);
    assert!(may_call(Some(wrong.identity()), TLS13).await);
}
