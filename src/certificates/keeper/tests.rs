//! The keeper against an API server whose every moment the test decides.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::{Method, Response, StatusCode, Uri};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube::Config;
use serde_json::{Value, json};

use super::*;

type Interference = Box<dyn FnOnce(&mut Objects) + Send>;

#[derive(Default)]
struct Objects {
    secret: Option<Value>,
    configuration: Option<Value>,
    version: u64,
    /// By its `Date` header.
    now: Timestamp,
    /// `METHOD PLURAL` that are refused.
    denied: BTreeSet<&'static str>,
    /// Done between what the keeper reads and its next write.
    interference: Option<Interference>,
    answers: Vec<(String, u16)>,
}

#[derive(Clone)]
struct Fake(Arc<Mutex<Objects>>);

impl Fake {
    async fn start() -> (Self, Client) {
        let fake = Self(Arc::default());
        {
            let mut objects = fake.lock();
            objects.now = "2031-03-04T05:06:07Z".parse().unwrap();
            objects.secret = Some(json!({"metadata": {"resourceVersion": "1", "labels": {"kept": "yes"}}}));
        }
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut config = Config::new(format!("http://{}", listener.local_addr().unwrap()).parse().unwrap());
        config.default_retry = false;
        let served = fake.clone();
        let router = Router::new().fallback(move |method: Method, uri: Uri, body: Bytes| {
            let fake = served.clone();
            async move { fake.lock().answer(&method, &uri, &body) }
        });
        tokio::spawn(async move { axum::serve(listener, router).await });
        (fake, Client::try_from(config).unwrap())
    }

    fn lock(&self) -> MutexGuard<'_, Objects> {
        self.0.lock().unwrap()
    }

    fn pass(&self, time: Duration) {
        let mut objects = self.lock();
        objects.now = rotation::after(objects.now, time);
    }

    fn secret(&self, key: &str) -> Vec<u8> {
        let objects = self.lock();
        STANDARD.decode(objects.secret.as_ref().unwrap()["data"][key].as_str().unwrap()).unwrap()
    }

    fn answered(&self, what: &str, code: u16) -> usize {
        self.lock().answers.iter().filter(|(asked, with)| asked == what && *with == code).count()
    }
}

impl Objects {
    fn answer(&mut self, method: &Method, uri: &Uri, body: &[u8]) -> Response<Body> {
        let of_secret = uri.path().contains("/secrets/");
        let asked = format!("{method} {}", if of_secret { "secrets" } else { "configurations" });
        let (code, answer) = self.handle(method, of_secret, &asked, body);
        self.answers.push((asked, code));
        let date = jiff::fmt::rfc2822::DateTimePrinter::new().timestamp_to_rfc9110_string(&self.now).unwrap();
        let response = Response::builder().status(StatusCode::from_u16(code).unwrap()).header("date", date);
        response.body(Body::from(answer.to_string())).unwrap()
    }

    fn handle(&mut self, method: &Method, of_secret: bool, asked: &str, body: &[u8]) -> (u16, Value) {
        if self.denied.contains(asked) {
            return (403, json!({"message": format!("airgate cannot {asked}")}));
        }
        if method == Method::PATCH
            && let Some(interfere) = self.interference.take()
        {
            interfere(self);
        }
        let place = if of_secret { &mut self.secret } else { &mut self.configuration };
        let Some(stored) = place else { return (404, json!({})) };
        if method == Method::GET {
            return (200, stored.clone());
        }
        let mut patched = stored.clone();
        let patch: Value = serde_json::from_slice(body).unwrap();
        match patch {
            Value::Array(_) => {
                json_patch::patch(&mut patched, &serde_json::from_value::<json_patch::Patch>(patch).unwrap()).unwrap();
            }
            patch => json_patch::merge(&mut patched, &patch),
        }
        if patched["metadata"]["resourceVersion"] != stored["metadata"]["resourceVersion"] {
            return (409, json!({}));
        }
        self.version += 1;
        patched["metadata"]["resourceVersion"] = format!("v{}", self.version).into();
        *stored = patched.clone();
        (200, patched)
    }
}

fn configuration() -> Value {
    let webhook = |name: &str| json!({"name": name, "clientConfig": {"url": "https://x"}, "sideEffects": "None"});
    json!({"metadata": {"resourceVersion": "1"}, "webhooks": [webhook("one.airgate.io"), webhook("two.airgate.io")]})
}

fn keeper(client: &Client) -> (CertificateKeeper, Kept) {
    CertificateKeeper::new(client.clone(), "ns", Timing::default(), &Metrics::new())
}

#[tokio::test]
async fn of_two_that_act_at_once_one_wins_and_the_other_follows() {
    let (fake, client) = Fake::start().await;
    let ((mut a, _), (mut b, _)) = (keeper(&client), keeper(&client));
    // While A is about to make a CA somebody else has made one.
    let now = fake.lock().now;
    let others = Material::start_over(&super::super::names("ns"), &Timing::default(), now).unwrap();
    let expected = others.data["tls.crt"].clone().unwrap();
    fake.lock().interference = Some(Box::new(move |objects| {
        let data: serde_json::Map<_, _> = others
            .data
            .into_iter()
            .filter_map(|(name, content)| Some((name.to_owned(), STANDARD.encode(content?).into())))
            .collect();
        objects.secret = Some(json!({"metadata": {"resourceVersion": "other",
            "annotations": {"airgate.io/certificates": others.annotation}}, "data": data}));
    }));
    a.look().await;
    b.look().await;
    assert_eq!(fake.answered("PATCH secrets", 409), 1);
    assert_eq!(fake.answered("PATCH secrets", 200), 0, "nothing was left to do");
    assert_eq!(fake.secret("tls.crt"), expected);
    assert!(a.pair.borrow().is_some() && *a.pair.borrow() == *b.pair.borrow());
}

#[tokio::test]
async fn only_the_bundles_are_written_and_by_the_clock_of_the_api_server() {
    let (fake, client) = Fake::start().await;
    fake.lock().configuration = Some(configuration());
    // The configuration changes between reading and writing, too.
    let (mut a, of_a) = keeper(&client);
    a.look().await;
    let bundle = STANDARD.encode(fake.secret("ca.crt"));
    let mut expected = configuration();
    for webhook in expected["webhooks"].as_array_mut().unwrap() {
        webhook["clientConfig"]["caBundle"] = bundle.clone().into();
    }
    expected["metadata"] = fake.lock().configuration.as_ref().unwrap()["metadata"].clone();
    assert_eq!(fake.lock().configuration, Some(expected));
    let ca = of_a.status().ca.clone().unwrap();
    assert_eq!(ca.not_after.to_string(), "2034-03-03T05:06:07Z", "three years from the API server's now");
    assert_eq!(fake.lock().secret.as_ref().unwrap()["metadata"]["labels"]["kept"], "yes");

    fake.lock().interference = Some(Box::new(|objects| {
        let configuration = objects.configuration.as_mut().unwrap();
        configuration["metadata"]["resourceVersion"] = "other".into();
        configuration["webhooks"][0]["timeoutSeconds"] = 7.into();
    }));
    fake.lock().configuration.as_mut().unwrap()["webhooks"][1]["clientConfig"]["caBundle"] = "b3RoZXI=".into();
    a.look().await;
    assert_eq!(fake.answered("PATCH configurations", 409), 1);
    let stored = fake.lock().configuration.clone().unwrap();
    assert_eq!(
        (&stored["webhooks"][0]["timeoutSeconds"], &stored["webhooks"][1]["clientConfig"]["caBundle"]),
        (&json!(7), &json!(bundle))
    );
    assert_eq!(of_a.status().ca_bundle, "in every webhook");
}

#[tokio::test]
async fn what_it_may_not_do_it_names_and_does_the_rest() {
    let (fake, client) = Fake::start().await;
    fake.lock().configuration = Some(configuration());
    fake.lock().denied.insert("PATCH configurations");
    let (mut a, of_a) = keeper(&client);
    a.look().await;
    let error = of_a.status().error.clone().unwrap();
    assert!(
        error.contains("airgate cannot PATCH configurations")
            && error.contains("needs get, patch on validatingwebhook"),
        "{error}"
    );
    let leaf = fake.secret("tls.crt");
    // Renewed all the same, when it is time.
    fake.pass(Duration::from_hours(24 * 61));
    a.look().await;
    assert_ne!(fake.secret("tls.crt"), leaf);
    assert!(of_a.status().error.is_some(), "still said");

    fake.lock().denied.clear();
    a.look().await;
    assert_eq!((&of_a.status().error, &*of_a.status().ca_bundle), (&None, "in every webhook"));

    fake.lock().denied.insert("GET secrets");
    a.look().await;
    let error = of_a.status().error.clone().unwrap();
    assert!(
        error.contains("Secret ns/airgate-tls could not be read") && error.contains("secrets/airgate-tls in ns"),
        "{error}"
    );
    assert!(a.pair.borrow().is_some(), "what was read stays");
}

#[tokio::test]
async fn an_immutable_secret_is_named_before_it_is_in_the_way() {
    let (fake, client) = Fake::start().await;
    let (mut a, of_a) = keeper(&client);
    a.look().await;
    let (leaf, writes) = (fake.secret("tls.crt"), fake.answered("PATCH secrets", 200));
    fake.lock().secret.as_mut().unwrap()["immutable"] = true.into();
    for time in [Duration::ZERO, Duration::from_hours(24 * 61)] {
        fake.pass(time);
        a.look().await;
        let error = of_a.status().error.clone().unwrap();
        assert!(error.contains("Secret ns/airgate-tls is immutable") && error.contains("oc create secret"), "{error}");
        assert_eq!((a.blocked.get(), fake.answered("PATCH secrets", 200)), (1, writes));
    }
    // As the message says.
    fake.lock().secret = Some(json!({"metadata": {"resourceVersion": "anew"}}));
    a.look().await;
    assert_ne!(fake.secret("tls.crt"), leaf, "put back, and renewed, since it is time");
    assert_eq!((&of_a.status().error, a.blocked.get()), (&None, 0));
}

#[tokio::test]
async fn one_that_is_new_lets_another_put_it_back_first() {
    let (fake, client) = Fake::start().await;
    fake.lock().configuration = Some(configuration());
    let (mut old, _) = keeper(&client);
    old.look().await;
    let before = fake.secret("ca.crt");
    let empty = |fake: &Fake| fake.lock().secret.as_mut().unwrap().as_object_mut().unwrap().remove("data");
    assert!(empty(&fake).is_some());
    let (mut new, _) = keeper(&client);
    new.look().await;
    assert!(new.pair.borrow().is_none(), "it waits");
    old.look().await;
    assert_eq!(fake.secret("ca.crt"), before);
    new.look().await;
    assert!(new.pair.borrow().is_some() && *new.pair.borrow() == *old.pair.borrow());

    // Nobody knows it any more.
    assert!(empty(&fake).is_some());
    let (mut newest, _) = keeper(&client);
    newest.look().await;
    fake.pass(Duration::from_secs(9));
    newest.look().await;
    assert_ne!(fake.secret("ca.crt"), before);
}

#[tokio::test]
async fn what_somebody_else_keeps_is_served_and_not_touched() {
    for (annotation, flag, dismissal) in [
        ("cert-manager.io/certificate-name", "cert-manager", "oc delete certificate airgate -n ns"),
        ("service.beta.openshift.io/originating-service-name", "service-ca", "oc annotate service airgate -n ns"),
    ] {
        let (fake, client) = Fake::start().await;
        fake.lock().configuration = Some(configuration());
        let (mut a, of_a) = keeper(&client);
        a.look().await;
        fake.lock().configuration.as_mut().unwrap()["webhooks"][0]["clientConfig"]["caBundle"] = "b3RoZXI=".into();
        fake.lock().secret.as_mut().unwrap()["metadata"]["annotations"][annotation] = "airgate".into();
        let before = fake.lock().answers.len();
        // Time to renew, and a bundle that is not the Secret's.
        fake.pass(Duration::from_hours(24 * 61));
        let (mut new, of_new) = keeper(&client);
        for (keeper, kept) in [(&mut a, &of_a), (&mut new, &of_new)] {
            keeper.look().await;
            let error = kept.status().error.clone().unwrap();
            assert!(
                error.contains(&format!("{flag} keeps the Secret ns/airgate-tls"))
                    && error.contains(&format!("--certificates {flag}"))
                    && error.contains(dismissal),
                "{error}"
            );
            assert!(keeper.pair.borrow().is_some() && keeper.blocked.get() == 1);
        }
        assert!(fake.lock().answers[before..].iter().all(|(asked, _)| asked.starts_with("GET")));
        // As the message says.
        fake.lock().secret = Some(json!({"metadata": {"resourceVersion": "anew"}}));
        a.look().await;
        assert_eq!((&of_a.status().error, &*of_a.status().ca_bundle), (&None, "in every webhook"));
    }
}

#[tokio::test]
async fn a_later_form_is_not_touched() {
    let (fake, client) = Fake::start().await;
    let (mut a, of_a) = keeper(&client);
    a.look().await;
    let later = json!({"airgate.io/certificates": "{\"version\":2}"});
    fake.lock().secret.as_mut().unwrap()["metadata"]["annotations"] = later;
    let before = fake.lock().secret.clone();
    fake.pass(Duration::from_hours(24 * 80));
    a.look().await;
    assert_eq!(fake.lock().secret, before);
    let (mut new, _) = keeper(&client);
    new.look().await;
    assert!(new.pair.borrow().is_some(), "it is served all the same");
    assert!(of_a.status().error.as_ref().unwrap().contains("it has the form 2"), "{:?}", of_a.status());
}

#[tokio::test]
async fn what_has_expired_is_made_anew_and_not_put_back() {
    let (fake, client) = Fake::start().await;
    fake.lock().configuration = Some(configuration());
    let (mut before, _) = keeper(&client);
    before.look().await;
    let (ca, writes) = (fake.secret("ca.crt"), fake.answered("PATCH secrets", 200));

    // The cluster was off for longer than the CA lives; one replica has restarted, one remembers.
    fake.pass(Duration::from_hours(24 * 365 * 4));
    let (mut new, of_new) = keeper(&client);
    for keeper in [&mut before, &mut new] {
        keeper.look().await;
    }
    assert_eq!((fake.secret("ca.crt"), fake.answered("PATCH secrets", 200)), (ca.clone(), writes), "they wait");
    fake.pass(Duration::from_secs(9));
    for keeper in [&mut before, &mut new] {
        keeper.look().await;
    }
    assert_ne!(fake.secret("ca.crt"), ca);
    assert_eq!(fake.answered("PATCH secrets", 200), writes + 1);
    assert!(*new.pair.borrow() == *before.pair.borrow() && of_new.status().error.is_none());
}
