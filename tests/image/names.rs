//! Names: a static glibc resolves them by the files that a kubelet mounts, and by DNS.

use std::io::Read;
use std::net::{TcpListener, UdpSocket};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crate::root::{Root, as_root};

/// Not the machine's own, whatever that is.
const NAME_SERVER: &str = "127.77.0.1";

#[test]
fn it_resolves_names_by_hosts_file_and_by_dns() {
    as_root("names::it_resolves_names_by_hosts_file_and_by_dns", || {
        let root = Root::unpacked();
        let asked = name_server();
        let (port, greeted) = listener();
        root.mounted("etc/hosts", "127.0.0.1 localhost\n127.0.0.1 by-file.site.example\n");
        // As in a pod: a name without a dot in its end is tried below the search domains first.
        root.mounted(
            "etc/resolv.conf",
            &format!("search svc.cluster.local site.example\nnameserver {NAME_SERVER}\noptions ndots:5\n"),
        );
        for name in ["by-file.site.example", "by-dns.site.example", "short"] {
            let reference = format!("{name}:{port}/ocp/release@sha256:{}", "a".repeat(64));
            let output = root.run(&["release", "info", "--insecure", &format!("{name}:{port}"), &reference]);
            let why = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(1), "{output:?}");
            let greeted = greeted.lock().unwrap();
            assert!(greeted.iter().any(|hello| has(hello, name)), "no connection for {name}: {why}");
        }
        let asked = asked.lock().unwrap();
        assert!(!asked.iter().any(|name| name.starts_with("by-file.")), "the file comes first: {asked:?}");
        for name in ["by-dns.site.example", "short.svc.cluster.local", "short.site.example"] {
            assert!(asked.iter().any(|asked| asked == name), "{name}: {asked:?}");
        }
        drop(asked);

        let reference = format!("nowhere.invalid:{port}/ocp/release@sha256:{}", "a".repeat(64));
        let output = root.run(&["release", "info", &reference]);
        let why = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(1) && why.contains("nowhere.invalid"), "{output:?}");
    });
}

fn has(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

/// Takes connections and keeps how each began: a TLS greeting names the host in plain text.
fn listener() -> (u16, Arc<Mutex<Vec<Vec<u8>>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let greeted = Arc::<Mutex<Vec<_>>>::default();
    let kept = greeted.clone();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
            // Its length is in the record's head.
            let mut hello = vec![0; 5];
            const HANDSHAKE: u8 = 22;
            if stream.read_exact(&mut hello).is_ok() && hello[0] == HANDSHAKE {
                let length = usize::from(hello[3]) << 8 | usize::from(hello[4]);
                let mut rest = vec![0; length];
                let _cut_short = stream.read_exact(&mut rest);
                hello.extend(rest);
            }
            kept.lock().unwrap().push(hello);
        }
    });
    (port, greeted)
}

/// Answers for two names that they are on loopback, and keeps the names it was asked for.
fn name_server() -> Arc<Mutex<Vec<String>>> {
    let socket = UdpSocket::bind((NAME_SERVER, 53)).expect("port 53 of a loopback address");
    let asked = Arc::<Mutex<Vec<_>>>::default();
    let kept = asked.clone();
    thread::spawn(move || {
        let mut buffer = [0; 512];
        while let Ok((length, client)) = socket.recv_from(&mut buffer) {
            let (name, end) = name_of(&buffer[..length]);
            let wants_ipv4 = buffer[end..end + 2] == [0, 1];
            let known = ["by-dns.site.example", "short.site.example"].contains(&name.as_str());
            let mut answer = buffer[..2].to_vec();
            let code = if known { 0x80 } else { 0x83 }; // no such name
            answer.extend([0x81, code, 0, 1, 0, u8::from(known && wants_ipv4), 0, 0, 0, 0]);
            answer.extend(&buffer[12..end + 4]);
            if known && wants_ipv4 {
                answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 127, 0, 0, 1]);
            }
            kept.lock().unwrap().push(name);
            socket.send_to(&answer, client).unwrap();
        }
    });
    asked
}

/// The name that a query asks for, and where it ends.
fn name_of(query: &[u8]) -> (String, usize) {
    let (mut labels, mut at) = (vec![], 12);
    while query[at] != 0 {
        let end = at + 1 + usize::from(query[at]);
        labels.push(String::from_utf8_lossy(&query[at + 1..end]).to_lowercase());
        at = end;
    }
    (labels.join("."), at + 1)
}
