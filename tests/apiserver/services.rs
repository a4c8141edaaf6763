//! The way from the API server to a Service, which kube-proxy makes in a cluster: the API server is told to leave it by
//! a proxy (its egress selector), and that proxy knows which processes stand behind an address.

use std::collections::BTreeMap;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::{fs, thread};

use serde_json::json;

/// `CLUSTERIP:PORT` to the `ADDRESS:PORT` of what answers there.
type Routes = Arc<Mutex<BTreeMap<String, Vec<String>>>>;

pub struct Services {
    socket: PathBuf,
    routes: Routes,
}

impl Services {
    /// Listens on a socket in this directory; by TCP it would have to speak TLS.
    pub fn start(dir: &Path) -> Self {
        let socket = dir.join("services.sock");
        let listener = UnixListener::bind(&socket).expect("a socket for a proxy");
        let routes = Routes::default();
        let known = routes.clone();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let known = known.clone();
                thread::spawn(move || forward(client, &known));
            }
        });
        Self { socket, routes }
    }

    /// The file that tells an API server to go this way for Services, and for nothing else.
    pub fn write_config(&self, path: &Path) {
        let config = json!({"apiVersion": "apiserver.k8s.io/v1beta1", "kind": "EgressSelectorConfiguration",
            "egressSelections": [{"name": "cluster", "connection": {"proxyProtocol": "HTTPConnect",
                "transport": {"uds": {"udsName": self.socket}}}}]});
        fs::write(path, config.to_string()).expect("write the egress selector");
    }

    /// From now on these answer, in turn where one does not, for a Service's address and port.
    pub fn route(&self, service: &str, backends: Vec<String>) {
        self.routes.lock().unwrap_or_else(PoisonError::into_inner).insert(service.to_owned(), backends);
    }
}

/// One `CONNECT ADDRESS:PORT`; a connection that nobody answers is closed, as a refused one.
fn forward(client: UnixStream, routes: &Routes) -> Option<()> {
    let mut reader = BufReader::new(client.try_clone().ok()?);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let service = line.split(' ').nth(1)?.to_owned();
    while line.trim() != "" {
        line.clear();
        reader.read_line(&mut line).ok()?;
    }
    let backends = routes.lock().unwrap_or_else(PoisonError::into_inner).get(&service).cloned().unwrap_or_default();
    let backend = backends.iter().find_map(|backend| TcpStream::connect(backend).ok())?;
    let (mut to_client, mut to_backend) = (client, backend.try_clone().ok()?);
    to_client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").ok()?;
    let mut from_backend = backend;
    let back = thread::spawn(move || {
        let copied = io::copy(&mut from_backend, &mut to_client);
        let closed = to_client.shutdown(Shutdown::Both);
        copied.and(closed)
    });
    io::copy(&mut reader, &mut to_backend).ok()?;
    to_backend.shutdown(Shutdown::Write).ok()?;
    back.join().ok()?.ok()
}
