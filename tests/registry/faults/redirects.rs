//! Where redirects lead and what goes along.

use std::sync::{Arc, Mutex};

use airgate::pullspec::Digest;
use airgate::registry::Registry;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::server::{Auth, Fake, Setup, Tls, always, redirect};
use super::{kind, parts, place, read, reader, serving, single, soon, trusting};
use crate::testing::Store;

/// A registry that demands credentials and keeps its layers elsewhere.
async fn redirecting(store: &Store, digest: Digest, to: &str) -> (Fake, Registry) {
    let shown = format!("Basic {}", STANDARD.encode("user:pass"));
    let auth = Auth::Only(Arc::new(Mutex::new(vec![shown])), vec!["Basic realm=\"x\"".into()]);
    let fake = Setup { store: store.clone(), auth, ..Setup::default() }.start().await;
    let layer = parts(store, digest)[2].clone();
    fake.set(vec![always(layer.clone(), redirect(307, &to.replace("{layer}", &layer)))]);
    let secret = serde_json::json!({"auths": {&fake.host: {"auth": STANDARD.encode("user:pass")}}}).to_string();
    (fake, Registry::new(trusting().pull_secret("x", secret.as_bytes()).unwrap()).unwrap())
}

#[tokio::test]
async fn storage_on_another_host_sees_no_authorization() {
    let (store, digest) = single();
    let storage = serving(store.clone()).await;
    for name in ["127.0.0.1", "localhost"] {
        let to = format!("https://{}/bucket/blobs/{{layer}}?signature=x", storage.named(name));
        let (fake, registry) = redirecting(&store, digest, &to).await;
        read(&registry, &[&fake], digest).await.unwrap();
        assert!(fake.log().iter().any(|seen| seen.authorization.is_some()));
    }
    let log = storage.log();
    assert_eq!(log.len(), 2);
    assert!(log.iter().all(|seen| seen.authorization.is_none() && seen.query == "signature=x"), "{log:?}");
}

#[tokio::test]
async fn authorization_stays_on_the_same_host() {
    let (store, digest) = single();
    let (fake, registry) = redirecting(&store, digest, "/v2/elsewhere/blobs/moved").await;
    // The moved path is not in the store: 404 there, but with what the registry demands.
    assert!(read(&registry, &[&fake], digest).await.is_err());
    let moved: Vec<_> = fake.log().into_iter().filter(|seen| seen.path.ends_with("/moved")).collect();
    assert!(!moved.is_empty() && moved.iter().all(|seen| seen.authorization.is_some()), "{moved:?}");
}

#[tokio::test]
async fn redirects_that_are_not_followed() {
    let (store, digest) = single();
    let plain = Setup { store: store.clone(), tls: Tls::None, ..Setup::default() }.start().await;
    let other = serving(store.clone()).await;
    for (to, text) in [
        (format!("http://{}/{{layer}}", plain.host), "plain http"),
        ("ftp://127.0.0.1/{layer}".to_owned(), "the scheme ftp"),
        ("file:///etc/passwd".to_owned(), "Location"),
        (format!("https://user:s3cret@{}/{{layer}}", other.host), "password"),
        (String::new(), "more than 5 times"),
        ("/v2/x/blobs/{layer}".to_owned(), "more than 5 times"),
    ] {
        let (fake, registry) = redirecting(&store, digest, &to).await;
        let unread = read(&registry, &[&fake], digest).await.unwrap_err();
        assert_eq!(kind(&unread), "bad", "{to}");
        assert!(unread.to_string().contains(text) && !unread.to_string().contains("s3cret"), "{to}: {unread}");
        assert!(fake.log().len() <= 10, "{to}: {}", fake.log().len());
    }
    assert!(plain.log().is_empty() && other.log().is_empty());
}

#[tokio::test]
async fn five_redirects_are_followed() {
    let (store, digest) = single();
    let storage = serving(store.clone()).await;
    let fake = serving(store).await;
    fake.set(vec![
        always("/manifests/", redirect(302, "/1")),
        always("/1", redirect(301, "/2")),
        always("/2", redirect(303, "/3")),
        always("/3", redirect(308, "/4")),
        always("/4", redirect(307, &format!("https://{}/v2/x/manifests/{digest}", storage.host))),
    ]);
    reader().manifest(&place(&fake.host), digest, None, soon()).await.unwrap();
    // What the other host says is not shown.
    storage.set(vec![always("/", super::server::errors(403, "DENIED", "internal words"))]);
    let attempt = reader().manifest(&place(&fake.host), digest, None, soon()).await.unwrap_err();
    assert!(attempt.why.contains(&storage.host) && !attempt.why.contains("internal words"), "{attempt}");
}

#[tokio::test]
async fn the_trust_of_the_new_host_holds() {
    let (store, digest) = single();
    let storage = Setup { store: store.clone(), tls: Tls::OtherCa, ..Setup::default() }.start().await;
    let to = format!("https://{}/{{layer}}", storage.host);
    let (fake, registry) = redirecting(&store, digest, &to).await;
    let unread = read(&registry, &[&fake], digest).await.unwrap_err();
    assert!(unread.to_string().contains("unknown CA") && unread.to_string().contains(&storage.host), "{unread}");
    // Insecure is the registry alone, not where it sends us.
    let access = trusting().insecure(&fake.host).unwrap();
    let secret = serde_json::json!({"auths": {&fake.host: {"auth": STANDARD.encode("user:pass")}}}).to_string();
    let access = access.pull_secret("x", secret.as_bytes()).unwrap();
    assert!(read(&Registry::new(access.clone()).unwrap(), &[&fake], digest).await.is_err());
    let access = access.host_ca(&storage.host, storage.pem.as_bytes()).unwrap();
    read(&Registry::new(access).unwrap(), &[&fake], digest).await.unwrap();
}

#[tokio::test]
async fn an_insecure_host_may_redirect_to_plain_http() {
    let (store, digest) = single();
    let storage = Setup { store: store.clone(), tls: Tls::None, ..Setup::default() }.start().await;
    let (fake, _) = redirecting(&store, digest, &format!("http://{}/blobs/{{layer}}", storage.host)).await;
    let secret = serde_json::json!({"auths": {&fake.host: {"auth": STANDARD.encode("user:pass")}}}).to_string();
    let access = trusting().insecure(&fake.host).and_then(|access| access.pull_secret("x", secret.as_bytes())).unwrap();
    read(&Registry::new(access).unwrap(), &[&fake], digest).await.unwrap();
    assert!(storage.log().iter().all(|seen| seen.authorization.is_none()));
}
