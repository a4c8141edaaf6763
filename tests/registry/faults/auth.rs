//! Who is shown what.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use airgate::registry::Registry;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::server::{Auth, Fake, Fault, Rule, Setup, Tls, always, once};
use super::{kind, read, serving, single, trusting};

fn encoded(pair: &str) -> String {
    STANDARD.encode(pair)
}

/// A reader with these entries in its pull secret, each `KEY` and `USER:PASSWORD`.
fn reader(entries: &[(&str, &str)]) -> Registry {
    let entries: serde_json::Map<_, _> =
        entries.iter().map(|(key, pair)| ((*key).to_owned(), serde_json::json!({"auth": encoded(pair)}))).collect();
    let secret = serde_json::json!({"auths": entries}).to_string();
    Registry::new(trusting().pull_secret("the pull secret", secret.as_bytes()).unwrap()).unwrap()
}

fn allowed(values: &[&str]) -> Arc<Mutex<Vec<String>>> {
    Arc::new(Mutex::new(values.iter().map(|value| (*value).to_owned()).collect()))
}

fn token(json: &str) -> Fault {
    Fault::Answer(200, vec![], json.to_owned())
}

/// A registry that takes `Bearer good` and names the token service of `realm`.
async fn bearer(realm: &str) -> (Fake, airgate::pullspec::Digest) {
    let (store, digest) = single();
    let lines = vec![format!("Bearer realm=\"{realm}\",service=\"the registry\",scope=\"repository:x:push\"")];
    let auth = Auth::Only(allowed(&["Bearer good"]), lines);
    (Setup { store, auth, ..Setup::default() }.start().await, digest)
}

async fn token_service(fault: Fault) -> (Fake, String) {
    let fake = serving(crate::testing::Store::default()).await;
    fake.set(vec![always("/token", fault)]);
    let realm = format!("https://{}/token", fake.named("localhost"));
    (fake, realm)
}

#[tokio::test]
async fn basic_is_sent_where_it_is_asked_for_and_then_unasked() {
    let (store, digest) = single();
    let right = format!("Basic {}", encoded("user:pass"));
    let auth = Auth::Only(allowed(&[&right]), vec!["Basic realm=\"Registry\"".into()]);
    let fake = Setup { store, auth, ..Setup::default() }.start().await;
    let registry = reader(&[(&fake.host, "user:pass"), ("quay.io", "another:secret")]);
    read(&registry, &[&fake], digest).await.unwrap();
    let shown: Vec<_> = fake.log().into_iter().map(|seen| seen.authorization.is_some()).collect();
    assert_eq!(shown, [false, true, true, true]);
    read(&registry, &[&fake], digest).await.unwrap();
    assert!(fake.log()[4..].iter().all(|seen| seen.authorization.as_deref() == Some(&*right)));

    let unread = read(&reader(&[(&fake.host, "user:wr0ng")]), &[&fake], digest).await.unwrap_err();
    let said = format!("{unread} {unread:?}");
    assert_eq!(kind(&unread), "unreachable");
    assert!(said.contains(&format!("entry {}", fake.host)) && said.contains("who?"), "{said}");
    assert!(!said.contains("wr0ng") && !said.contains(&encoded("user:wr0ng")), "{said}");
    let unread = read(&reader(&[]), &[&fake], digest).await.unwrap_err();
    assert!(unread.to_string().contains(&format!("none for {}", fake.host)), "{unread}");
}

#[tokio::test]
async fn a_token_is_fetched_without_credentials_where_there_are_none() {
    for answer in [r#"{"token": "good"}"#, r#"{"access_token": "good", "expires_in": 300}"#] {
        let (service, realm) = token_service(token(answer)).await;
        let (fake, digest) = bearer(&realm).await;
        read(&reader(&[]), &[&fake], digest).await.unwrap();
        let asked = service.log();
        assert_eq!(asked.len(), 1, "{asked:?}");
        assert_eq!(asked[0].query, "service=the+registry&scope=repository%3Aocp%2Frelease%3Apull");
        assert_eq!(asked[0].authorization, None);
    }
}

#[tokio::test]
async fn a_token_is_fetched_with_the_credentials_of_the_registry() {
    let (service, realm) = token_service(token(r#"{"token": "good"}"#)).await;
    let (fake, digest) = bearer(&realm).await;
    let key = format!("{}/ocp", fake.host);
    let registry = reader(&[(&key, "user:pass"), (&service.host, "not:this"), (&fake.host, "nor:this")]);
    read(&registry, &[&fake], digest).await.unwrap();
    assert_eq!(service.log()[0].authorization, Some(format!("Basic {}", encoded("user:pass"))));
    assert!(fake.log().iter().all(|seen| seen.authorization.as_deref().is_none_or(|shown| shown == "Bearer good")));
}

#[tokio::test]
async fn an_identity_token_is_exchanged_by_post() {
    let (service, realm) = token_service(token(r#"{"access_token": "good"}"#)).await;
    let (fake, digest) = bearer(&realm).await;
    let secret = serde_json::json!({"auths": {&fake.host: {"auth": encoded("user:"), "identitytoken": "re&fresh"}}});
    let access = trusting().pull_secret("the pull secret", secret.to_string().as_bytes()).unwrap();
    read(&Registry::new(access).unwrap(), &[&fake], digest).await.unwrap();
    let asked = service.log();
    assert_eq!((asked.len(), &*asked[0].method), (1, "POST"));
    let body = &asked[0].body;
    assert!(body.contains("grant_type=refresh_token") && body.contains("refresh_token=re%26fresh"), "{body}");
    assert_eq!((asked[0].authorization.as_deref(), &*asked[0].query), (None, ""));
}

#[tokio::test]
async fn a_token_that_ended_is_renewed_once() {
    let (store, digest) = single();
    let (service, realm) = token_service(token(r#"{"token": "first", "expires_in": 3600}"#)).await;
    let tokens = allowed(&["Bearer first"]);
    let auth = Auth::Only(tokens.clone(), vec![format!("Bearer realm=\"{realm}\"")]);
    let fake = Setup { store, auth, ..Setup::default() }.start().await;
    let registry = reader(&[]);
    read(&registry, &[&fake], digest).await.unwrap();
    // Revoked before its time: one 401, one new token, and on.
    *tokens.lock().unwrap() = vec!["Bearer second".into()];
    service.set(vec![always("/token", token(r#"{"token": "second", "expires_in": 1}"#))]);
    read(&registry, &[&fake], digest).await.unwrap();
    assert_eq!(service.log().len(), 2);
    // Its time is up: renewed without asking the registry.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let before = fake.log().len();
    read(&registry, &[&fake], digest).await.unwrap();
    assert!(service.log().len() > 2);
    assert!(fake.log()[before..].iter().all(|seen| seen.authorization.is_some()));
    // A new one that is no better is not renewed again and again.
    *tokens.lock().unwrap() = vec![];
    let (before, asked) = (fake.log().len(), service.log().len());
    assert!(read(&registry, &[&fake], digest).await.is_err());
    assert!(fake.log().len() - before <= 2 && service.log().len() - asked <= 2);
}

#[tokio::test]
async fn of_several_challenges_one_that_can_be_answered_is() {
    let (service, realm) = token_service(token(r#"{"token": "good"}"#)).await;
    let negotiate = "Negotiate".to_owned();
    let bearer = format!("Bearer realm=\"{realm}\"");
    let basic = "Basic realm=\"x\"".to_owned();
    let right = format!("Basic {}", encoded("user:pass"));
    for (lines, credentials, asks_service) in [
        (vec![negotiate.clone(), bearer.clone()], false, true),
        (vec![format!("{negotiate}, {basic}, {bearer}")], false, true),
        (vec![format!("{basic}, {bearer}")], true, false),
        (vec![bearer.clone(), basic.clone()], true, true),
        (vec!["Bearer realm=\"ftp://nowhere\"".into(), basic.clone()], true, false),
    ] {
        let (store, digest) = single();
        let auth = Auth::Only(allowed(&["Bearer good", &right]), lines.clone());
        let fake = Setup { store, auth, ..Setup::default() }.start().await;
        let before = service.log().len();
        let entries = [(&*fake.host, "user:pass")];
        read(&reader(if credentials { &entries } else { &[] }), &[&fake], digest).await.unwrap();
        assert_eq!(service.log().len() > before, asks_service, "{lines:?}");
    }
}

#[tokio::test]
async fn a_token_service_over_plain_http_is_not_asked() {
    let plain = Setup { tls: Tls::None, ..Setup::default() }.start().await;
    plain.set(vec![always("/token", token(r#"{"token": "good"}"#))]);
    let (fake, digest) = bearer(&format!("http://{}/token", plain.named("localhost"))).await;
    let secret = serde_json::json!({"auths": {&fake.host: {"auth": encoded("user:pass")}}}).to_string();
    let access = trusting().pull_secret("the pull secret", secret.as_bytes()).unwrap();
    let unread = read(&Registry::new(access.clone()).unwrap(), &[&fake], digest).await.unwrap_err();
    assert!(unread.to_string().contains("plain http"), "{unread}");
    assert!(plain.log().is_empty(), "{:?}", plain.log());
    // Declared insecure it is asked, but another host's credentials are not shown to it.
    let access = access.insecure(&plain.named("localhost")).unwrap();
    read(&Registry::new(access).unwrap(), &[&fake], digest).await.unwrap();
    assert!(plain.log().iter().all(|seen| seen.authorization.is_none()), "{:?}", plain.log());
}

#[tokio::test]
async fn token_services_that_fail() {
    let huge = format!("{{\"token\": \"{}\"}}", "x".repeat(300 << 10));
    let status = super::server::status;
    for (fault, text) in [
        (token(&huge), "more than the 262144 bytes"),
        (token("{}"), "no token"),
        (token("\"good\""), "no token"),
        (token(r#"{"token": "a\nb"}"#), "no token"),
        (status(503), "503"),
        (status(404), "404"),
        (status(401), "auths entry"),
        (super::server::redirect(302, "http://localhost:1/token"), "plain http"),
    ] {
        let (_service, realm) = token_service(fault).await;
        let (fake, digest) = bearer(&realm).await;
        let unread = read(&reader(&[]), &[&fake], digest).await.unwrap_err();
        assert!(unread.to_string().contains(text), "{text}: {unread}");
    }
    let (service, realm) = token_service(token(r#"{"token": "good"}"#)).await;
    service.set(vec![
        once("/token", status(503)),
        Rule { times: usize::MAX, ..once("/token", token(r#"{"token": "good"}"#)) },
    ]);
    let (fake, digest) = bearer(&realm).await;
    read(&reader(&[]), &[&fake], digest).await.unwrap();
}

#[tokio::test]
async fn a_mirror_never_sees_the_credentials_of_the_source() {
    let (store, digest) = single();
    let asks = Auth::Only(allowed(&[]), vec!["Basic realm=\"x\"".into()]);
    let mirror = Setup { store: store.clone(), auth: asks, ..Setup::default() }.start().await;
    let right = format!("Basic {}", encoded("source:pass"));
    let auth = Auth::Only(allowed(&[&right]), vec!["Basic realm=\"x\"".into()]);
    let source = Setup { store, auth, ..Setup::default() }.start().await;
    let read = read(&reader(&[(&source.host, "source:pass")]), &[&mirror, &source], digest).await.unwrap();
    assert_eq!(read.place, super::place(&source.host));
    assert_eq!(read.attempts.len(), 1);
    assert!(!mirror.log().is_empty() && mirror.log().iter().all(|seen| seen.authorization.is_none()));
}

#[tokio::test]
async fn a_registry_that_hides_from_strangers_is_asked_who_may_see() {
    let (store, digest) = single();
    let right = format!("Basic {}", encoded("user:pass"));
    let auth = Auth::Hidden(allowed(&[&right]), vec!["Basic realm=\"x\"".into()]);
    let fake = Setup { store, auth, ..Setup::default() }.start().await;
    read(&reader(&[(&fake.host, "user:pass")]), &[&fake], digest).await.unwrap();
    let before = fake.log().len();
    let unread = read(&reader(&[]), &[&fake], digest).await.unwrap_err();
    assert_eq!((kind(&unread), fake.log().len() - before), ("absent", 1));
}
