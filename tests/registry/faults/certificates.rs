//! Whose certificates are believed, and for which host.

use std::net::{IpAddr, Ipv4Addr};

use airgate::registry::{Access, Registry};

use super::server::{Setup, Tls};
use super::{kind, place, read, single, soon, trusting};

#[tokio::test]
async fn certificates_that_are_not_trusted() {
    for (tls, text) in [
        (Tls::OtherCa, "unknown CA"),
        (Tls::OtherName, "other names"),
        (Tls::Expired, "has expired"),
        (Tls::SelfSigned, "is not trusted"),
    ] {
        let (store, digest) = single();
        let fake = Setup { store, tls, ..Setup::default() }.start().await;
        let unread = read(&Registry::new(trusting()).unwrap(), &[&fake], digest).await.unwrap_err();
        assert_eq!(kind(&unread), "unreachable");
        assert!(unread.to_string().contains(text) && unread.to_string().contains(&fake.host), "{text}: {unread}");
        assert!(fake.log().is_empty());
        let insecure = trusting().insecure(&fake.host).unwrap();
        read(&Registry::new(insecure).unwrap(), &[&fake], digest).await.unwrap();
    }
}

#[tokio::test]
async fn a_ca_of_one_host_is_good_for_that_host_alone() {
    for tls in [Tls::OtherCa, Tls::SelfSigned] {
        let (store, digest) = single();
        let fake = Setup { store, tls, ..Setup::default() }.start().await;
        let key = fake.host.replace(':', "..");
        let registry = Registry::new(trusting().host_ca(&key, fake.pem.as_bytes()).unwrap()).unwrap();
        read(&registry, &[&fake], digest).await.unwrap();
        let other = place(&fake.named("localhost"));
        let unread = registry.release(&[other], digest, soon()).await.unwrap_err();
        assert!(unread.to_string().contains("add its CA"), "{unread}");
        assert!(unread.to_string().contains(&format!("localhost..{}", fake.port)), "{unread}");
    }
}

#[tokio::test]
async fn insecure_is_one_host_alone() {
    let (store, digest) = single();
    let fake = Setup { store, tls: Tls::OtherCa, ..Setup::default() }.start().await;
    let registry = Registry::new(Access::default().insecure(&fake.named("localhost")).unwrap()).unwrap();
    registry.release(&[place(&fake.named("localhost"))], digest, soon()).await.unwrap();
    assert!(read(&registry, &[&fake], digest).await.is_err());
}

#[tokio::test]
async fn plain_http_is_for_insecure_hosts_alone() {
    let (store, digest) = single();
    let fake = Setup { store, tls: Tls::None, ..Setup::default() }.start().await;
    let unread = read(&Registry::new(trusting()).unwrap(), &[&fake], digest).await.unwrap_err();
    assert_eq!(kind(&unread), "unreachable");
    assert!(fake.log().is_empty(), "{:?}", fake.log());
    let registry = Registry::new(trusting().insecure(&fake.host).unwrap()).unwrap();
    read(&registry, &[&fake], digest).await.unwrap();
    assert_eq!(fake.log().len(), 3);
}

#[tokio::test]
async fn no_root_at_all_is_an_unknown_ca_and_no_panic() {
    let (store, digest) = single();
    let fake = Setup { store, ..Setup::default() }.start().await;
    let unread = read(&Registry::new(Access::default()).unwrap(), &[&fake], digest).await.unwrap_err();
    assert!(unread.to_string().contains("unknown CA"), "{unread}");
}

#[tokio::test]
async fn one_node_is_asked_behind_the_name_of_all() {
    let (store, digest) = single();
    let fake = Setup { store: store.clone(), ..Setup::default() }.start().await;
    let node = Some(IpAddr::V4(Ipv4Addr::LOCALHOST));
    let registry = Registry::new(trusting()).unwrap();
    let all = place(&fake.named("api-int.test"));
    let bytes = registry.manifest(&all, digest, node, soon()).await.unwrap();
    assert_eq!(bytes, store.0[&digest.to_string()]);
    // The name is what the certificate must be for.
    let other = place(&fake.named("another.test"));
    let attempt = registry.manifest(&other, digest, node, soon()).await.unwrap_err();
    assert!(attempt.why.contains("other names"), "{attempt}");
    let attempt = registry.manifest(&all, digest, None, soon()).await.unwrap_err();
    assert!(attempt.why.contains("cannot be resolved"), "{attempt}");
}

#[tokio::test]
async fn a_certificate_given_as_trusted_is_still_checked() {
    for (tls, host, text) in
        [(Tls::SelfSigned, "another.test", "other names"), (Tls::SelfSignedExpired, "api-int.test", "has expired")]
    {
        let (store, digest) = single();
        let fake = Setup { store, tls, ..Setup::default() }.start().await;
        let registry = Registry::new(Access::default().ca("the certificate", fake.pem.as_bytes()).unwrap()).unwrap();
        let node = Some(IpAddr::V4(Ipv4Addr::LOCALHOST));
        let attempt = registry.manifest(&place(&fake.named(host)), digest, node, soon()).await.unwrap_err();
        assert!(attempt.why.contains(text), "{attempt}");
    }
}
