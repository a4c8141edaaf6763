//! What stands between the API server and airgate in a cluster: a Service, as kube-proxy serves it; and a wire that
//! can be cut.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crate::guard::http_get;
use crate::server::eventually;

/// As the readiness probe of a Deployment asks.
const PROBE: Duration = Duration::from_secs(1);
/// From a probe's answer, or a pod's deletion, to the rules on the nodes.
const PROPAGATION: Duration = Duration::from_secs(2);

/// A port whose new connections go to ready endpoints only, each in turn; open ones stay where they are.
pub struct Service {
    pub port: u16,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    endpoints: Mutex<Vec<Endpoint>>,
    accepted: AtomicU64,
    over: AtomicBool,
}

struct Endpoint {
    port: u16,
    health: u16,
    /// What the nodes' rules say, and what they will say from when on.
    routed: bool,
    next: Option<(bool, Instant)>,
    /// The pod was deleted: whatever its probe says.
    leaving: bool,
    /// New connections come here first.
    preferred: bool,
    /// Nothing gets through in either direction, and nobody is told.
    severed: Arc<AtomicBool>,
}

impl Service {
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("its address").port();
        let shared = Arc::new(Shared::default());
        let (accepting, probing) = (Arc::clone(&shared), Arc::clone(&shared));
        thread::spawn(move || accepting.accept(&listener));
        thread::spawn(move || probing.probe());
        Self { port, shared }
    }

    /// A pod with this webhook port and this health port.
    pub fn add(&self, port: u16, health: u16) {
        let endpoint = Endpoint {
            port,
            health,
            routed: false,
            next: None,
            leaving: false,
            preferred: false,
            severed: Arc::default(),
        };
        self.shared.endpoints.lock().unwrap().push(endpoint);
    }

    /// Its pod is deleted, which the nodes hear of a moment later.
    pub fn leave(&self, port: u16) {
        self.change(port, |endpoint| {
            endpoint.leaving = true;
            endpoint.next = Some((false, Instant::now() + PROPAGATION));
        });
    }

    /// Whether all new connections come here.
    pub fn prefer(&self, port: u16, preferred: bool) {
        self.change(port, |endpoint| endpoint.preferred = preferred);
    }

    /// Whether nothing gets through to this one, and nobody is told.
    pub fn sever(&self, port: u16, severed: bool) {
        self.change(port, |endpoint| endpoint.severed.store(severed, Ordering::Relaxed));
    }

    pub fn clear(&self) {
        self.shared.endpoints.lock().unwrap().clear();
    }

    pub fn wait_until_routed(&self, port: u16) {
        eventually("new connections go to the replica", || {
            let endpoints = self.shared.endpoints.lock().unwrap();
            endpoints.iter().any(|endpoint| endpoint.port == port && endpoint.routed).then_some(())
        });
    }

    /// How many connections it has had.
    pub fn accepted(&self) -> u64 {
        self.shared.accepted.load(Ordering::Relaxed)
    }

    fn change(&self, port: u16, change: impl Fn(&mut Endpoint)) {
        self.shared.endpoints.lock().unwrap().iter_mut().filter(|endpoint| endpoint.port == port).for_each(change);
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::Relaxed);
    }
}

impl Shared {
    fn accept(&self, listener: &TcpListener) {
        for client in listener.incoming().flatten() {
            if self.over.load(Ordering::Relaxed) {
                return;
            }
            let number = self.accepted.fetch_add(1, Ordering::Relaxed);
            // Nobody ready: refused, as kube-proxy does it.
            if let Some((port, severed)) = self.choose(number) {
                join(client, &format!("127.0.0.1:{port}"), severed);
            }
        }
    }

    fn choose(&self, number: u64) -> Option<(u16, Arc<AtomicBool>)> {
        let endpoints = self.endpoints.lock().unwrap();
        let mut ready: Vec<&Endpoint> = endpoints.iter().filter(|endpoint| endpoint.routed).collect();
        if ready.iter().any(|endpoint| endpoint.preferred) {
            ready.retain(|endpoint| endpoint.preferred);
        }
        let turn = usize::try_from(number).ok()?.checked_rem(ready.len())?;
        Some((ready[turn].port, Arc::clone(&ready[turn].severed)))
    }

    fn probe(&self) {
        let mut last = Instant::now();
        while !self.over.load(Ordering::Relaxed) {
            if last.elapsed() >= PROBE {
                last = Instant::now();
                let ports: Vec<u16> = self.endpoints.lock().unwrap().iter().map(|endpoint| endpoint.health).collect();
                for health in ports {
                    let ready = http_get(health, "/readyz").is_some_and(|(code, _)| code == 200);
                    let mut endpoints = self.endpoints.lock().unwrap();
                    for endpoint in endpoints.iter_mut().filter(|endpoint| endpoint.health == health) {
                        let will_be = endpoint.next.map_or(endpoint.routed, |(next, _)| next);
                        if !endpoint.leaving && ready != will_be {
                            endpoint.next = Some((ready, Instant::now() + PROPAGATION));
                        }
                    }
                }
            }
            for endpoint in self.endpoints.lock().unwrap().iter_mut() {
                if let Some((routed, _)) = endpoint.next.take_if(|(_, when)| *when <= Instant::now()) {
                    endpoint.routed = routed;
                }
            }
            thread::sleep(Duration::from_millis(50));
        }
    }
}

/// A port before another, as a network has it.
pub struct Wire {
    pub port: u16,
    cut: Arc<AtomicBool>,
    severed: Arc<AtomicBool>,
    open: Arc<Mutex<Vec<TcpStream>>>,
}

impl Wire {
    pub fn before(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let own = listener.local_addr().expect("its address").port();
        let (cut, open) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(vec![])));
        let severed = Arc::new(AtomicBool::new(false));
        let (is_cut, opened, is_severed) = (Arc::clone(&cut), Arc::clone(&open), Arc::clone(&severed));
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if is_cut.load(Ordering::Relaxed) {
                    continue;
                }
                opened.lock().unwrap().extend(client.try_clone());
                join(client, &format!("127.0.0.1:{port}"), Arc::clone(&is_severed));
            }
        });
        Self { port: own, cut, severed, open }
    }

    /// Ends every connection, and each new one at once.
    pub fn cut(&self) {
        self.cut.store(true, Ordering::Relaxed);
        for connection in self.open.lock().unwrap().drain(..) {
            // It may be gone already.
            let _ = connection.shutdown(Shutdown::Both);
        }
    }

    /// Nothing gets through, and nobody is told.
    pub fn sever(&self) {
        self.severed.store(true, Ordering::Relaxed);
    }

    pub fn mend(&self) {
        self.cut.store(false, Ordering::Relaxed);
        self.severed.store(false, Ordering::Relaxed);
    }
}

/// Copies between two ends until both have said that they are done.
fn join(client: TcpStream, target: &str, severed: Arc<AtomicBool>) {
    let target = target.to_owned();
    thread::spawn(move || {
        let Ok(server) = TcpStream::connect(target) else { return };
        let (Ok(from), Ok(to)) = (client.try_clone(), server.try_clone()) else { return };
        let back = Arc::clone(&severed);
        let back = thread::spawn(move || pass(server, client, &back));
        pass(from, to, &severed);
        let _ = back.join();
    });
}

fn pass(mut from: TcpStream, mut to: TcpStream, severed: &AtomicBool) {
    let mut bytes = [0; 16 << 10];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        while severed.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(50));
        }
        if to.write_all(&bytes[..count]).is_err() {
            let _ = from.shutdown(Shutdown::Both);
            return;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}
