//! Several places, of which some fail.

use std::time::Duration;

use airgate::registry::{Presence, Reason, Unread};
use tokio::time::Instant;

use super::server::{Fault, Setup, Tls, always, once, status};
use super::{kind, parts, place, read, reader, serving, single, soon};
use crate::testing::Store;

#[tokio::test]
async fn the_first_place_that_has_it_is_used() {
    let (store, digest) = single();
    let empty = serving(Store::default()).await;
    let untrusted = Setup { store: store.clone(), tls: Tls::OtherCa, ..Setup::default() }.start().await;
    let (good, unused) = (serving(store.clone()).await, serving(store).await);
    let read = read(&reader(), &[&empty, &untrusted, &empty, &good, &unused], digest).await.unwrap();
    assert_eq!(read.place, place(&good.host));
    let reasons: Vec<_> = read.attempts.iter().map(|attempt| attempt.reason).collect();
    assert_eq!(reasons, [Reason::Absent, Reason::Untrusted]);
    assert!(unused.log().is_empty());
    assert_eq!(empty.log().len(), 1);
}

#[tokio::test]
async fn faults_of_a_blob_lead_to_the_next_place_with_what_is_known() {
    let (store, digest) = single();
    let [_, config, layer] = parts(&store, digest);
    let mirror = serving(store.clone()).await;
    for fault in [status(404), status(500), Fault::Truncate, Fault::Page, Fault::Content(vec![1])] {
        let source = serving(store.clone()).await;
        mirror.set(vec![always(layer.clone(), fault)]);
        let read = read(&reader(), &[&mirror, &source], digest).await.unwrap();
        assert_eq!((read.place, read.attempts.len()), (place(&source.host), 1));
        assert!(source.paths().iter().any(|path| path.contains(&layer)));
        // It was verified already, unless the failure of the layer came before it.
        assert!(source.log().len() <= 3 && source.paths().iter().filter(|path| path.contains(&config)).count() <= 1);
    }
}

#[tokio::test]
async fn absent_everywhere_is_not_the_same_as_unasked_somewhere() {
    let (store, digest) = single();
    let (empty, another) = (serving(Store::default()).await, serving(Store::default()).await);
    let registry = reader();
    let places = [place(&empty.host), place(&another.host)];
    let unread = registry.release(&places, digest, soon()).await.unwrap_err();
    assert!(matches!(&unread, Unread::Absent(attempts) if attempts.len() == 2), "{unread}");
    assert!(unread.to_string().starts_with(&format!("no registry has it: {}", places[1])), "{unread}");
    assert_eq!(registry.present(&places, digest, soon()).await, Presence::Absent);

    // Nobody listens on port 1.
    let dead = place("127.0.0.1:1");
    let places = [dead.clone(), place(&empty.host)];
    let unread = registry.release(&places, digest, soon()).await.unwrap_err();
    assert_eq!(kind(&unread), "unreachable");
    let said = unread.to_string();
    assert!(said.starts_with(&format!("it could not be read: {}", places[1])), "{said}");
    assert!(said.contains(&format!("before that {dead}: no connection to 127.0.0.1:1")), "{said}");
    assert!(matches!(registry.present(&places, digest, soon()).await, Presence::Unknown(_)));

    let damaged = serving(store).await;
    damaged.set(vec![always("/manifests/", Fault::Content(vec![0]))]);
    let unread = read(&registry, &[&damaged, &empty], digest).await.unwrap_err();
    assert_eq!(kind(&unread), "bad");
    assert!(unread.to_string().contains("damaged or forged"), "{unread}");
    let unread = registry.release(&[place(&damaged.host), dead], digest, soon()).await.unwrap_err();
    assert_eq!(kind(&unread), "unreachable");
    assert_eq!(kind(&registry.release(&[], digest, soon()).await.unwrap_err()), "unreachable");
}

#[tokio::test]
async fn a_place_that_hangs_leaves_time_for_the_next() {
    let (store, digest) = single();
    let (hanging, source) = (serving(Store::default()).await, serving(store).await);
    hanging.set(vec![always("/", Fault::Hang)]);
    let places = [place(&hanging.host), place(&source.host)];
    let start = Instant::now();
    let read = reader().release(&places, digest, start + Duration::from_secs(6)).await.unwrap();
    assert_eq!(read.attempts[0].reason, Reason::Late);
    assert!(start.elapsed() >= Duration::from_secs(3));
}

#[tokio::test]
async fn a_mirror_that_flaps_is_used() {
    let (store, digest) = single();
    let (mirror, source) = (serving(store.clone()).await, serving(store).await);
    mirror.set(vec![once("/manifests/", status(502)), once("/blobs/", Fault::Break)]);
    let read = read(&reader(), &[&mirror, &source], digest).await.unwrap();
    assert_eq!(read.place, place(&mirror.host));
    assert!(source.log().is_empty());
}
