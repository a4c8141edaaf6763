//! Which protocols, addresses and algorithms are spoken.

use rustls::{NamedGroup, ProtocolVersion};

use super::client::{Client, H1, H2, TLS12, TLS13, review};
use super::harness::{Setup, within};

#[tokio::test]
async fn both_http_versions_over_both_ip_versions_and_both_tls_versions() {
    let server = Setup::new().start().await;
    for address in server.all() {
        for alpn in [H1, H2] {
            for (versions, version) in [(TLS12, ProtocolVersion::TLSv1_2), (TLS13, ProtocolVersion::TLSv1_3)] {
                let client = Client { versions, ..Client::new(&server.ca(), alpn) };
                let mut connection = within("a connection", client.connect(address)).await.unwrap();
                assert_eq!(connection.tls, Some(version));
                if version == ProtocolVersion::TLSv1_3 {
                    assert_eq!(connection.group, Some(NamedGroup::X25519MLKEM768), "post-quantum by default");
                }
                // More than one on the same connection, and more than one frame.
                for size in [0, 1, 200_000] {
                    let body = vec![b'x'; size];
                    let got = within("an answer", connection.send(review(address, "/validate", body))).await.unwrap();
                    assert_eq!(
                        (got.status.as_u16(), &got.headers["content-type"]),
                        (200, &"application/json".parse().unwrap())
                    );
                    assert!(got.text.contains(&format!(r#""bytes":{size},"#)), "{}", got.text);
                }
            }
        }
    }
}

#[tokio::test]
async fn a_waiting_stream_does_not_hold_up_the_others() {
    let server = Setup::new().start().await;
    let connection = Client::new(&server.ca(), H2).connect(server.v4()).await.unwrap();
    let (mut waits, mut goes_on) = (connection.another().unwrap(), connection);
    let address = server.v4();
    let waiting = tokio::spawn(async move { waits.send(review(address, "/validate", "gate")).await });
    within("the first to be in flight", server.stub.entered.acquire()).await.unwrap().forget();
    let got = within("an answer", goes_on.send(review(address, "/validate", "x"))).await.unwrap();
    assert_eq!(got.status, 200);
    server.stub.gate.add_permits(1);
    assert_eq!(within("an answer", waiting).await.unwrap().unwrap().status, 200);
}
