//! Images that were made to do harm.

use airgate::pullspec::Digest;
use airgate::registry::Unread;
use serde_json::{Value, json};

use super::server::{always, redirect};
use super::{kind, multi, parts, read, reader, serving, single};
use crate::testing::{LIST, Store, V2S2, base, gzip, payload, payload_tar};

fn digest(text: &str) -> Digest {
    Digest::parse(text).unwrap()
}

#[tokio::test]
async fn addresses_in_descriptors_are_never_contacted() {
    let (mut store, top) = single();
    let lure = serving(store.clone()).await;
    let layer = parts(&store, top)[2].clone();
    let mut manifest: Value = serde_json::from_slice(&store.0[&top.to_string()]).unwrap();
    let urls = json!([format!("https://{}/{layer}", lure.host)]);
    for descriptor in manifest["layers"].as_array_mut().unwrap() {
        descriptor["urls"] = urls.clone();
    }
    manifest["config"]["urls"] = urls.clone();
    let lone = store.put(manifest.to_string());
    let index = store.put(
        json!({"schemaVersion": 2, "manifests": [{"digest": lone, "size": store.0[&lone].len(), "urls": urls}]})
            .to_string(),
    );
    store.0.remove(&layer);
    let fake = serving(store).await;
    for top in [lone, index] {
        let unread = read(&reader(), &[&fake], digest(&top)).await.unwrap_err();
        assert_eq!(kind(&unread), "bad", "{unread}");
    }
    assert!(lure.log().is_empty(), "{:?}", lure.log());
}

#[tokio::test]
async fn a_layer_that_unpacks_to_more_than_it_may() {
    let mut store = Store::default();
    let bomb = payload_tar(&vec![0; 16 << 20], b"{}");
    let top = store.image(V2S2, "amd64", &[base(), gzip(&bomb)]);
    let fake = serving(store).await;
    let unread = read(&reader(), &[&fake], digest(&top)).await.unwrap_err();
    assert!(matches!(unread, Unread::Bad { place: Some(_), .. }), "{unread}");
    assert!(unread.to_string().contains("16777216 bytes"), "{unread}");
}

#[tokio::test]
async fn an_index_cannot_make_us_ask_for_ever() {
    let mut store = Store::default();
    let children: Vec<String> = (0..64)
        .map(|index| {
            let config =
                json!({"architecture": "amd64", "config": {"Labels": {"io.openshift.release": index.to_string()}}});
            store.image_with(V2S2, &[base(), payload(&format!("4.19.{index}"), &[], false)], &config)
        })
        .collect();
    let top = store.index(LIST, &children);
    let fake = serving(store.clone()).await;
    // Each request becomes six.
    let hops = (0..3).map(|hop| always(format!("/hop{hop}/"), redirect(307, &format!("../hop{}/x", hop + 1))));
    let mut rules: Vec<_> = hops.collect();
    rules.push(always("/hop3/", redirect(307, "/v2/none")));
    rules.push(always("/blobs/", redirect(307, "/hop0/x")));
    fake.set(rules);
    let unread = read(&reader(), &[&fake], digest(&top)).await.unwrap_err();
    let requests = fake.log().len();
    assert!(requests <= 512, "{requests}");
    assert_eq!(kind(&unread), "bad", "{unread}");
    assert!(unread.to_string().contains("more than 512 requests"), "{unread}");
    let two = [super::place(&fake.host), super::place(&fake.named("localhost"))];
    assert!(reader().release(&two, digest(&top), super::soon()).await.is_err());
    assert!(fake.log().len() - requests <= 512, "{}", fake.log().len());
}

#[tokio::test]
async fn indexes_in_indexes_end() {
    let (mut store, top) = multi();
    let mut level = vec![top.to_string()];
    for depth in 0..6 {
        let wrap = |index: usize| {
            json!({"schemaVersion": 2, "annotations": {"x": format!("{depth} {index}")},
            "manifests": level.iter().map(|child| json!({"digest": child, "size": 1})).collect::<Vec<_>>()})
        };
        let wrapped: Vec<Value> = (0..20).map(wrap).collect();
        level = wrapped.into_iter().map(|wrapped| store.put(wrapped.to_string())).collect();
    }
    let fake = serving(store).await;
    let unread = read(&reader(), &[&fake], digest(&level[0])).await.unwrap_err();
    assert_eq!(kind(&unread), "bad", "{unread}");
    assert!(fake.log().len() < 250, "{}", fake.log().len());
}

#[tokio::test]
async fn a_blob_larger_than_its_descriptor_says_is_cut_off() {
    let (store, top) = single();
    let layer = parts(&store, top)[2].clone();
    let fake = serving(store).await;
    fake.set(vec![always(layer, super::server::Fault::Endless)]);
    let unread = read(&reader(), &[&fake], top).await.unwrap_err();
    assert_eq!(kind(&unread), "bad");
    assert!(unread.to_string().contains("more than the"), "{unread}");
}

#[tokio::test]
async fn layers_of_an_index_are_bounded_together() {
    // Five incompressible layers that are each allowed.
    let mut store = Store::default();
    let mut state = 1_u64;
    let mut noise = || {
        let mut bytes = vec![0; 3 << 20];
        for byte in &mut bytes {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            *byte = state.to_be_bytes()[0];
        }
        bytes
    };
    let children: Vec<String> = (0..14).map(|_| store.image(V2S2, "amd64", &[noise()])).collect();
    let top = store.index(LIST, &children);
    let fake = serving(store).await;
    let access = super::trusting().layer_bytes(4 << 20);
    let registry = airgate::registry::Registry::new(access).unwrap();
    let unread = read(&registry, &[&fake], digest(&top)).await.unwrap_err();
    assert!(unread.to_string().contains("larger than those of any release"), "{unread}");
    // What one mirror wastes is not missing at the next place.
    let (store, top) = single();
    let layer = parts(&store, top)[2].clone();
    let good = serving(store.clone()).await;
    let wasteful = serving(store).await;
    wasteful.set(vec![always("/manifests/", redirect(307, "/x")), always("/x", redirect(307, "/x"))]);
    let read = read(&registry, &[&wasteful, &good], top).await.unwrap();
    assert!(read.bytes.iter().any(|(digest, _)| digest.to_string() == layer));
}
