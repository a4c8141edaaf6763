//! What a registry answers, well or badly, and what is made of it.

use std::time::Duration;

use airgate::payload::Fault as Broken;
use airgate::registry::{Presence, Registry, Unread};
use tokio::time::Instant;

use super::server::{Fault, Rule, always, errors, once, status};
use super::{kind, multi, parts, place, read, reader, serving, single, soon, trusting};
use crate::testing::{Store, V2S2, base, gzip};
use airgate::pullspec::Digest;

#[tokio::test]
async fn a_single_release_takes_three_requests() {
    let (store, digest) = single();
    let wanted = parts(&store, digest);
    let fake = serving(store.clone()).await;
    let read = read(&reader(), &[&fake], digest).await.unwrap();
    assert_eq!(read.payload.version.to_string(), "4.19.9");
    assert_eq!(read.payload.digest, digest);
    assert_eq!(read.place, place(&fake.host));
    let log = fake.log();
    assert_eq!(log.len(), 3, "{log:?}");
    assert_eq!(log[0].path, format!("/v2/ocp/release/manifests/{digest}"));
    assert_eq!(log[0].accept.matches("application/vnd.").count(), 4, "{}", log[0].accept);
    assert!(log.iter().all(|seen| seen.authorization.is_none()));
    let bytes: std::collections::BTreeMap<_, _> =
        read.bytes.into_iter().map(|(digest, bytes)| (digest.to_string(), bytes)).collect();
    assert_eq!(bytes.len(), 3);
    assert!(wanted.iter().all(|part| bytes[part] == store.0[part]));
}

#[tokio::test]
async fn images_of_an_index_share_what_they_share() {
    let (store, digest) = multi();
    let fake = serving(store).await;
    let read = read(&reader(), &[&fake], digest).await.unwrap();
    assert_eq!((&*read.payload.architecture, read.payload.shards.len()), ("multi", 4));
    // The index, four manifests, four configurations, one layer.
    assert_eq!(fake.log().len(), 10);
}

#[tokio::test]
async fn a_sparse_mirror_is_read_for_what_it_has() {
    let (mut store, digest) = multi();
    let index: serde_json::Value = serde_json::from_slice(&store.0[&digest.to_string()]).unwrap();
    store.0.remove(index["manifests"][3]["digest"].as_str().unwrap());
    let fake = serving(store).await;
    let read = read(&reader(), &[&fake], digest).await.unwrap();
    assert_eq!((read.payload.shards.len(), read.payload.unread.len()), (4, 1));
}

/// A fault of the manifest, what it leads to, a part of the text, and how often it is asked for.
#[tokio::test]
async fn faults_of_the_manifest() {
    let (store, digest) = single();
    let fake = serving(store).await;
    let other = Fault::Content(b"{\"schemaVersion\": 2}".to_vec());
    let hostile = errors(400, "UNSUPPORTED", "a\x1b[31mb\nc");
    for (fault, expected, text, requests) in [
        (Fault::Page, "bad", "web page", 1),
        (other, "bad", "damaged or forged", 1),
        (Fault::Endless, "bad", "more than the 4194304 bytes", 1),
        (Fault::Content(vec![b' '; 5 << 20]), "bad", "more than the 4194304 bytes", 1),
        (Fault::Truncate, "unreachable", "broke off", 2),
        (Fault::Break, "unreachable", "broke off", 2),
        (status(404), "absent", "does not have it (404)", 1),
        (errors(404, "NAME_UNKNOWN", "repository name not known"), "absent", "NAME_UNKNOWN: repository name", 1),
        (errors(400, "MANIFEST_UNKNOWN", ""), "absent", "400 MANIFEST_UNKNOWN", 1),
        (status(403), "unreachable", "add an auths entry", 1),
        (status(401), "unreachable", "no kind of credentials", 1),
        (errors(403, "MANIFEST_UNKNOWN", ""), "unreachable", "credentials", 1),
        (errors(503, "", "down"), "unreachable", "error of its own (503: down)", 2),
        (status(429), "unreachable", "fewer requests", 2),
        (status(206), "unreachable", "no use (206)", 1),
        (status(410), "unreachable", "no use (410)", 1),
        (hostile, "unreachable", "(400 UNSUPPORTED: a\u{FFFD}[31mb\u{FFFD}c)", 1),
    ] {
        let before = fake.log().len();
        fake.set(vec![always("/manifests/", fault)]);
        let unread = read(&reader(), &[&fake], digest).await.unwrap_err();
        let said = unread.to_string();
        assert_eq!(kind(&unread), expected, "{text}: {said}");
        assert!(said.contains(text) && said.contains(&fake.host), "{text}: {said}");
        assert!(!said.contains(char::is_control), "{said}");
        assert_eq!(fake.log().len() - before, requests, "{text}");
    }
}

#[tokio::test]
async fn a_wrong_type_around_the_right_bytes_does_not_matter() {
    let (store, digest) = single();
    let fake = serving(store).await;
    fake.set(vec![always("/", Fault::Type("text/html"))]);
    read(&reader(), &[&fake], digest).await.unwrap();
}

#[tokio::test]
async fn one_bad_moment_is_survived() {
    let (store, digest) = single();
    let layer = parts(&store, digest)[2].clone();
    let fake = serving(store).await;
    for rule in [
        once("/manifests/", status(503)),
        once("/manifests/", Fault::Break),
        once(layer.clone(), Fault::Truncate),
        once(layer, status(500)),
    ] {
        fake.set(vec![rule]);
        read(&reader(), &[&fake], digest).await.unwrap();
    }
    fake.set(vec![Rule { times: 2, ..once("/manifests/", status(503)) }]);
    assert!(read(&reader(), &[&fake], digest).await.is_err());
}

#[tokio::test]
async fn retry_after_is_honoured_as_far_as_the_time_goes() {
    let (store, digest) = single();
    let fake = serving(store).await;
    let busy = |after: &str| Fault::Answer(429, vec![("retry-after", after.to_owned())], String::new());
    fake.set(vec![once("/manifests/", busy("1"))]);
    let start = Instant::now();
    read(&reader(), &[&fake], digest).await.unwrap();
    assert!(start.elapsed() >= Duration::from_secs(1));
    for after in ["3600", "18446744073709551615", "Wed, 21 Oct 2048 07:28:00 GMT"] {
        fake.set(vec![once("/manifests/", busy(after))]);
        let start = Instant::now();
        let unread = read(&reader(), &[&fake], digest).await.unwrap_err();
        assert!(unread.to_string().contains("fewer requests"), "{unread}");
        assert!(start.elapsed() < Duration::from_secs(10), "{after}");
    }
}

#[tokio::test]
async fn the_deadline_ends_everything() {
    let (store, digest) = single();
    let [_, config, layer] = parts(&store, digest);
    let fake = serving(store).await;
    let rules = [
        always("/manifests/", Fault::Hang),
        always("/manifests/", Fault::Stall),
        always(layer.clone(), Fault::Trickle),
        always(config, Fault::Hang),
    ];
    for rule in rules {
        fake.set(vec![rule]);
        let start = Instant::now();
        let unread = reader().release(&[place(&fake.host)], digest, start + Duration::from_secs(1)).await.unwrap_err();
        assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
        assert_eq!(kind(&unread), "unreachable");
        assert!(unread.to_string().contains("the time was up"), "{unread}");
    }
    // In the last round: the layer does not wait for the configuration.
    assert_eq!(fake.paths().iter().filter(|path| path.contains(&layer)).count(), 2);
    let start = Instant::now();
    assert!(reader().release(&[place(&fake.host)], digest, start).await.is_err());
}

#[tokio::test]
async fn a_slow_body_ends_before_a_distant_deadline() {
    let (store, digest) = single();
    let layer = parts(&store, digest)[2].clone();
    let fake = serving(store).await;
    let start = Instant::now();
    for fault in [Fault::Stall, Fault::Trickle] {
        fake.set(vec![always(layer.clone(), fault)]);
        let unread = read(&reader(), &[&fake], digest).await.unwrap_err();
        assert_eq!(kind(&unread), "unreachable");
        assert!(unread.to_string().contains("too few"), "{unread}");
    }
    assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
}

#[tokio::test]
async fn presence_is_asked_for_by_head() {
    let (store, digest) = single();
    let fake = serving(store).await;
    let places = [place(&fake.host)];
    let registry = reader();
    assert_eq!(registry.present(&places, digest, soon()).await, Presence::Found(places[0].clone()));
    let log = fake.log();
    assert_eq!((log.len(), &*log[0].method, log[0].accept.matches("application/vnd.").count()), (1, "HEAD", 4));
    let lie = Fault::Answer(200, vec![("docker-content-digest", format!("sha256:{}", "1".repeat(64)))], String::new());
    for (fault, text) in
        [(status(404), None), (status(403), Some("auths")), (Fault::Page, Some("web page")), (lie, Some("1111"))]
    {
        fake.set(vec![always("/", fault)]);
        match (registry.present(&places, digest, soon()).await, text) {
            (Presence::Absent, None) => {}
            (Presence::Unknown(why), Some(text)) => assert!(why.contains(text), "{why}"),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn what_is_no_release_is_told_from_what_is_broken() {
    let mut store = Store::default();
    let component = store.image_with(V2S2, &[base()], &serde_json::json!({"architecture": "amd64"}));
    let empty = store.image(V2S2, "amd64", &[base(), gzip(b"")]);
    let fake = serving(store).await;
    for (digest, release) in [(component, false), (empty, true)] {
        let unread = read(&reader(), &[&fake], Digest::parse(&digest).unwrap()).await.unwrap_err();
        match unread {
            Unread::Bad { fault: Broken::NotRelease(_), .. } => assert!(!release),
            Unread::Bad { fault: Broken::Bad(_), .. } => assert!(release),
            other => panic!("{other}"),
        }
    }
}

#[tokio::test]
async fn a_layer_above_the_cap_is_not_fetched() {
    let (store, digest) = single();
    let layer = parts(&store, digest)[2].clone();
    let fake = serving(store).await;
    let registry = Registry::new(trusting().layer_bytes(100)).unwrap();
    assert!(read(&registry, &[&fake], digest).await.is_err());
    assert!(!fake.paths().iter().any(|path| path.contains(&layer)), "{:?}", fake.paths());
}
