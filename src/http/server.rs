//! Binds the three ports and runs them until the end: the one call for whoever wires the process.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use super::admin::{self, Statusz};
use super::connection::Port;
use super::limits::Limits;
use super::shares::{Peer, Shares};
use super::tasks::{Ended, Tasks};
use super::{Admit, health};
use crate::metrics::{ConnectionEnd, Metrics};
use crate::readiness::Readiness;
use crate::shutdown::{self, Drain, Phase, Shutdown, Signal};
use crate::tls::TlsSettings;
use crate::tls::listener::{ListenError, Listener};
use crate::tls::reload::{LiveTls, LoadError, POLL_INTERVAL, Reloader};

#[derive(Debug, Clone)]
pub struct ServerSettings {
    pub listen: SocketAddr,
    pub health_listen: SocketAddr,
    pub admin_listen: SocketAddr,
    pub tls: TlsSettings,
    pub tls_poll: Duration,
    pub limits: Limits,
    pub drain: Drain,
}

impl ServerSettings {
    /// The defaults of `airgate serve` with this TLS.
    pub fn new(tls: TlsSettings) -> Self {
        Self {
            listen: (Ipv6Addr::UNSPECIFIED, 8443).into(),
            health_listen: (Ipv6Addr::UNSPECIFIED, 8081).into(),
            admin_listen: (Ipv4Addr::LOCALHOST, 8080).into(),
            tls,
            tls_poll: POLL_INTERVAL,
            limits: Limits::default(),
            drain: Drain::default(),
        }
    }
}

/// Why the server did not start, or stopped.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    #[error(transparent)]
    Listen(#[from] ListenError),
    #[error(transparent)]
    Tls(#[from] LoadError),
    #[error("{0}, and airgate does not go on without it: the log before this says why, a restart brings it back")]
    TaskEnded(Ended),
    #[error("stopped by a second signal, requests that were being answered were dropped")]
    Aborted,
}

/// Where the ports really are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Addresses {
    pub webhook: SocketAddr,
    pub health: SocketAddr,
    pub admin: SocketAddr,
}

/// All that can fail at the start has not: the ports are open, the certificate is loaded.
#[derive(Debug)]
pub struct Bound {
    webhook: Listener,
    health: Listener,
    admin: Listener,
    reloader: Reloader,
    settings: ServerSettings,
    metrics: Metrics,
}

/// What the rest of the process brings along.
#[expect(missing_debug_implementations, reason = "an engine and a closure have nothing to show")]
pub struct Parts<A> {
    pub admit: A,
    pub readiness: Readiness,
    pub statusz: Statusz,
    /// Tasks that were started already (watches, ...); the server ends when one of them does.
    pub tasks: Tasks,
    /// See [`shutdown::signals`].
    pub signals: mpsc::Receiver<Signal>,
}

impl Bound {
    /// # Errors
    /// When a port cannot be opened or the certificate is not usable.
    pub async fn bind(settings: ServerSettings, metrics: Metrics) -> Result<Self, ServerError> {
        // The certificate first: a port that is open but cannot answer yet would only keep clients waiting.
        let reloader = Reloader::start(settings.tls.clone(), metrics.clone()).await?;
        Ok(Self {
            webhook: Listener::bind(settings.listen).await?,
            health: Listener::bind(settings.health_listen).await?,
            admin: Listener::bind(settings.admin_listen).await?,
            reloader,
            settings,
            metrics,
        })
    }

    /// What is served with, for whoever must know whether a CA vouches for it.
    pub fn tls(&self) -> LiveTls {
        self.reloader.live()
    }

    pub fn addresses(&self) -> Addresses {
        Addresses {
            webhook: self.webhook.local_addr(),
            health: self.health.local_addr(),
            admin: self.admin.local_addr(),
        }
    }
}

/// Serves until a signal has led to an orderly end, which is `Ok`.
///
/// # Errors
/// When a task without which nothing works has ended, or on a second signal.
pub async fn run<A: Admit>(bound: Bound, parts: Parts<A>) -> Result<(), ServerError> {
    let Bound { webhook, health: health_listener, admin: admin_listener, mut reloader, settings, metrics } = bound;
    let Parts { admit, readiness, statusz, mut tasks, signals } = parts;
    let (limits, drain, live) = (settings.limits, settings.drain, reloader.live());
    let (controller, shutdown) = shutdown::channel();
    reloader.guard(readiness.condition("certificate", "the certificate that is served to be the one that is stored"));

    let port = |name, router: Router, tls: Option<LiveTls>, limits: Limits| {
        let slots = Arc::new(Semaphore::new(limits.connections.min(Semaphore::MAX_PERMITS)));
        let peers = Shares::new(limits.connections);
        Arc::new(Port { name, router, tls, limits, metrics: metrics.clone(), slots, peers })
    };
    let small = limits.for_small_port();
    let health = port("health", health::router(&readiness, &metrics), None, small);
    let admin = port("admin", admin::router(&readiness, &metrics, live.clone(), statusz), None, small);
    let validate = super::router(Arc::new(admit), &limits, &metrics, &readiness);
    let validate = port("webhook", validate, Some(live), limits);
    let connections = validate.slots.clone();

    // The small ports answer until this function returns: a probe wants to see the drain.
    let (_until_return, at_return) = shutdown::channel();
    tasks.spawn("the health port", apart(health_listener, health, at_return.clone()));
    tasks.spawn("the admin port", accept(admin_listener, admin, at_return));
    let (closing, closed) = oneshot::channel::<()>();
    let accepting = accept(webhook, validate, shutdown.clone());
    tasks.spawn("the webhook port", async move {
        let why = accepting.await;
        drop(closing);
        why
    });
    tasks.spawn("the certificate reload", async move { match reloader.run(settings.tls_poll).await {} });
    let leading = shutdown::drive(signals, controller.clone(), readiness, drain);
    tasks.spawn("the signal handling", async move {
        leading.await;
        "second signal"
    });

    let mut phase = shutdown;
    tokio::select! {
        biased;
        () = phase.reached(Phase::Stopping) => {}
        ended = tasks.ended() => return Err(ServerError::TaskEnded(ended)),
    }
    let all_gone = async {
        // An error is how it says that it is gone.
        let _port_closed = closed.await;
        // Every open connection holds one slot, so all slots free means all connections gone.
        let all = u32::try_from(limits.connections).unwrap_or(u32::MAX);
        let _all_slots = connections.acquire_many(all).await;
    };
    tokio::select! {
        biased;
        () = phase.reached(Phase::Aborted) => return Err(ServerError::Aborted),
        () = all_gone => tracing::info!("stopped: every request was answered"),
        () = tokio::time::sleep(drain.finish) => {
            let left = limits.connections.saturating_sub(connections.available_permits());
            tracing::warn!(connections = left, "stopped: the time to finish is over, what is left is dropped");
        }
    }
    controller.advance(Phase::Aborted);
    Ok(())
}

/// When dropped, tells a thread to end and waits until its port is closed, which takes no time.
struct Joined {
    lives: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Drop for Joined {
    fn drop(&mut self) {
        drop(self.lives.take());
        if let Some(thread) = self.thread.take() {
            // A panic was told already: nothing was sent.
            let _panicked = thread.join();
        }
    }
}

/// [`accept`] on a thread of its own: however busy all others are, a probe is answered.
async fn apart(listener: Listener, port: Arc<Port>, shutdown: Shutdown) -> String {
    // The thread ends when this task is dropped, and this task when the thread ends.
    let (task_lives, task_gone) = oneshot::channel::<()>();
    let (ending, ended) = oneshot::channel();
    let thread = std::thread::Builder::new().name("health".to_owned()).spawn(move || {
        let serving = async move {
            let listener = listener.moved_here()?;
            tokio::select! {
                why = accept(listener, port, shutdown) => Ok(why),
                _ = task_gone => Ok("told to stop"),
            }
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let why = runtime.and_then(|runtime| runtime.block_on(serving));
        // Nobody listens when the task is gone.
        let _heard = ending.send(why.map_or_else(|error| error.to_string(), str::to_owned));
    });
    match thread {
        Ok(thread) => {
            let _joined_at_end = Joined { lives: Some(task_lives), thread: Some(thread) };
            ended.await.unwrap_or_else(|_| "panicked".to_owned())
        }
        Err(error) => format!("no thread: {error}"),
    }
}

/// Accepts until told to stop, then closes the port.
async fn accept(listener: Listener, port: Arc<Port>, shutdown: Shutdown) -> &'static str {
    let mut stop = shutdown.clone();
    let serve = |stream: TcpStream, slot: OwnedSemaphorePermit| {
        let Ok(peer) = stream.peer_addr().map(|address| Peer::new(address.ip())) else {
            return; // gone already
        };
        let Some(share) = port.peers.take(peer, 1) else {
            return port.metrics.connection_ended(port.name, ConnectionEnd::PeerShare);
        };
        let (port, shutdown) = (port.clone(), shutdown.clone());
        tokio::spawn(async move {
            port.serve(stream, peer, shutdown).await;
            // Before the slot: who gets that one may be the same peer.
            drop(share);
            drop(slot);
        });
    };
    loop {
        tokio::select! {
            biased;
            () = stop.reached(Phase::Stopping) => break,
            next = listener.next(&port.slots, &port.metrics) => serve(next.0, next.1),
        }
    }
    for stream in listener.close() {
        if let Ok(slot) = port.slots.clone().try_acquire_owned() {
            serve(stream, slot);
        }
    }
    "told to stop"
}
