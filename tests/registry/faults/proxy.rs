//! A proxy in between.

use std::sync::{Arc, Mutex};

use airgate::registry::Registry;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};

use super::server::{Setup, Tls, always, redirect};
use super::{parts, place, serving, single, soon, trusting};

/// Knows every name as this machine and remembers the head of each request.
struct Proxy {
    port: u16,
    log: Arc<Mutex<Vec<String>>>,
}

impl Proxy {
    /// `status` is what a CONNECT is answered with.
    async fn start(status: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let log = Arc::new(Mutex::new(vec![]));
        let heads = log.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(relay(stream, status, heads.clone()));
            }
        });
        Self { port, log }
    }

    fn log(&self) -> Vec<String> {
        self.log.lock().unwrap().clone()
    }
}

/// Ends when either side does, which is no error here.
async fn relay(mut stream: TcpStream, status: &'static str, log: Arc<Mutex<Vec<String>>>) -> Option<()> {
    let mut head = vec![];
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    let head = String::from_utf8(head).ok()?;
    log.lock().unwrap().push(head.clone());
    let target = head.split(' ').nth(1)?;
    let plain = target.strip_prefix("http://").and_then(|rest| rest.split('/').next());
    let port = plain.unwrap_or(target).rsplit(':').next()?;
    let mut onward = TcpStream::connect(format!("127.0.0.1:{port}")).await.ok()?;
    if plain.is_some() {
        onward.write_all(head.as_bytes()).await.ok()?;
    } else {
        stream.write_all(format!("HTTP/1.1 {status}\r\n\r\n").as_bytes()).await.ok()?;
    }
    copy_bidirectional(&mut stream, &mut onward).await.ok().map(drop)
}

fn through(proxy: &Proxy, no_proxy: &str) -> Registry {
    let address = format!("http://user:s3cret@127.0.0.1:{}", proxy.port);
    Registry::new(trusting().proxy(&address, &address, no_proxy).unwrap()).unwrap()
}

#[tokio::test]
async fn requests_go_through_the_proxy() {
    let (store, digest) = single();
    let fake = serving(store).await;
    let proxy = Proxy::start("200 OK").await;
    let places = [place(&fake.named("registry.test"))];
    through(&proxy, ".svc,10.0.0.0/8").release(&places, digest, soon()).await.unwrap();
    let log = proxy.log();
    // The connection is kept for the requests that follow.
    assert_eq!(log.len(), 1, "{log:?}");
    assert!(log[0].starts_with(&format!("CONNECT registry.test:{} ", fake.port)), "{log:?}");
    assert!(log[0].contains(&format!("Basic {}", STANDARD.encode("user:s3cret"))), "{log:?}");
    assert_eq!(fake.log().len(), 3);
}

#[tokio::test]
async fn exempt_hosts_are_asked_directly() {
    let (store, digest) = single();
    let fake = serving(store).await;
    let proxy = Proxy::start("200 OK").await;
    // Loopback never goes through a proxy.
    through(&proxy, "").release(&[place(&fake.host)], digest, soon()).await.unwrap();
    for no_proxy in ["registry.test", ".test", "*", &format!("registry.test:{}", fake.port)] {
        let unread = through(&proxy, no_proxy).release(&[place(&fake.named("registry.test"))], digest, soon()).await;
        assert!(unread.unwrap_err().to_string().contains("cannot be resolved"), "{no_proxy}");
    }
    let node = Some([127, 0, 0, 1].into());
    through(&proxy, "").manifest(&place(&fake.named("api-int.test")), digest, node, soon()).await.unwrap();
    assert!(proxy.log().is_empty(), "{:?}", proxy.log());
}

#[tokio::test]
async fn a_redirect_is_put_to_the_same_rules() {
    let (store, digest) = single();
    let layer = parts(&store, digest)[2].clone();
    let storage = serving(store.clone()).await;
    let fake = serving(store).await;
    let proxy = Proxy::start("200 OK").await;
    fake.set(vec![always(
        layer.clone(),
        redirect(307, &format!("https://{}/{layer}", storage.named("registry.test"))),
    )]);
    through(&proxy, "").release(&[place(&fake.host)], digest, soon()).await.unwrap();
    let log = proxy.log();
    assert!(log.len() == 1 && log[0].starts_with(&format!("CONNECT registry.test:{} ", storage.port)), "{log:?}");
}

#[tokio::test]
async fn a_proxy_that_refuses_is_named_and_its_password_is_not() {
    let (store, digest) = single();
    let fake = serving(store).await;
    let places = [place(&fake.named("registry.test"))];
    for status in ["407 Proxy Authentication Required", "403 Forbidden"] {
        let proxy = Proxy::start(status).await;
        let unread = through(&proxy, "").release(&places, digest, soon()).await.unwrap_err();
        let said = format!("{unread} {unread:?}");
        assert!(said.contains("through the proxy") && !said.contains("s3cret"), "{said}");
    }
    assert!(fake.log().is_empty());
}

#[tokio::test]
async fn plain_http_goes_through_the_proxy_too() {
    let (store, digest) = single();
    let fake = Setup { store, tls: Tls::None, ..Setup::default() }.start().await;
    let proxy = Proxy::start("200 OK").await;
    let address = format!("http://127.0.0.1:{}", proxy.port);
    let host = fake.named("registry.test");
    let access = trusting().proxy(&address, &address, "").and_then(|access| access.insecure(&host)).unwrap();
    Registry::new(access).unwrap().release(&[place(&host)], digest, soon()).await.unwrap();
    assert!(proxy.log().iter().any(|head| head.starts_with(&format!("GET http://{host}/v2/"))), "{:?}", proxy.log());
}
