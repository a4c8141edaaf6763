//! The listening socket: which addresses it answers on, how many connections it lets in, and what it does
//! when the operating system refuses one. The handshake is not done here: one silent peer would keep all
//! others waiting.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::metrics::Metrics;

/// Pauses after failed accepts, doubled each time: out of file descriptors, every attempt fails at once.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LAST_PAUSE: Duration = Duration::from_secs(1);

/// An address that cannot be listened on.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address} ({source}): choose an address of this machine and a port that is free and allowed")]
pub struct ListenError {
    address: SocketAddr,
    source: io::Error,
}

/// One socket, or two where the machine keeps IPv4 and IPv6 apart.
#[derive(Debug)]
pub struct Listener {
    socket: TcpListener,
    /// Beside `[::]` where `net.ipv6.bindv6only` is set: there `[::]` alone would mean IPv6 only.
    v4: Option<TcpListener>,
    address: SocketAddr,
}

impl Listener {
    /// Listens on `address`. `[::]` means every address of the machine, IPv4 included, also where there is
    /// no IPv6 at all.
    ///
    /// # Errors
    /// When the address is taken, not ours, or not allowed.
    pub async fn bind(address: SocketAddr) -> Result<Self, ListenError> {
        let any_v6 = address.ip() == IpAddr::V6(Ipv6Addr::UNSPECIFIED);
        let any_v4 = |port| SocketAddr::from((Ipv4Addr::UNSPECIFIED, port));
        let socket = match TcpListener::bind(address).await {
            Err(error) if any_v6 && has_no_ipv6(&error) => {
                tracing::info!(%error, "no IPv6 on this machine, listening on IPv4 only");
                TcpListener::bind(any_v4(address.port())).await
            }
            result => result,
        };
        let failed = |source| ListenError { address, source };
        let socket = socket.map_err(failed)?;
        let bound = socket.local_addr().map_err(failed)?;
        // Taken already where the first socket covers IPv4, as it does nearly everywhere.
        let v4 = if any_v6 && bound.is_ipv6() { TcpListener::bind(any_v4(bound.port())).await.ok() } else { None };
        Ok(Self { socket, v4, address: bound })
    }

    /// Where it really listens: port 0 is replaced by the one that was given.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Moves it to the runtime that calls this.
    ///
    /// # Errors
    /// When the operating system does not play along.
    pub fn moved_here(self) -> io::Result<Self> {
        let moved = |socket: TcpListener| TcpListener::from_std(socket.into_std()?);
        Ok(Self { socket: moved(self.socket)?, v4: self.v4.map(moved).transpose()?, address: self.address })
    }

    /// The next connection, once `slots` has room for it. With all slots taken nothing is accepted:
    /// connections wait in the kernel's queue (and are refused by it when that is full), which costs us
    /// nothing and lets a client in as soon as another one leaves.
    ///
    /// Cancel safe, never fails: errors are counted and tried again.
    pub async fn next(&self, slots: &Arc<Semaphore>, metrics: &Metrics) -> (TcpStream, OwnedSemaphorePermit) {
        let Ok(slot) = slots.clone().acquire_owned().await else {
            // Only a closed semaphore fails; whoever closed it wants no more connections.
            return std::future::pending().await;
        };
        let mut pause = FIRST_PAUSE;
        loop {
            match self.accept().await {
                Ok(stream) => return (stream, slot),
                // The peer gave up while it was waiting: nothing is wrong with us.
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
                Err(error) => {
                    metrics.accept_errors.inc();
                    tracing::warn!(%error, pause_ms = pause.as_millis(), "cannot accept a connection, trying again");
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(LAST_PAUSE);
                }
            }
        }
    }

    /// Closes the port. For those who still waited in the kernel's queue a connection stands already, and
    /// closing would reset it: they are returned.
    pub fn close(self) -> Vec<TcpStream> {
        let sockets = [Some(self.socket), self.v4].into_iter().flatten();
        // Asked of the kernel itself: tokio answers from what it heard last and could miss the latest.
        let sockets = sockets.filter_map(|socket| socket.into_std().ok());
        sockets.flat_map(|socket| std::iter::from_fn(move || socket.accept().ok())).filter_map(adopt).collect()
    }

    async fn accept(&self) -> io::Result<TcpStream> {
        let (stream, _peer) = match &self.v4 {
            None => self.socket.accept().await?,
            Some(v4) => tokio::select! {
                accepted = self.socket.accept() => accepted?,
                accepted = v4.accept() => accepted?,
            },
        };
        // Nagle's algorithm with the peer's delayed acknowledgement costs 40 ms an answer on HTTP/2.
        stream.set_nodelay(true)?;
        Ok(stream)
    }
}

/// Makes one of tokio's of a stream that was accepted without it.
fn adopt((stream, _peer): (std::net::TcpStream, SocketAddr)) -> Option<TcpStream> {
    stream.set_nonblocking(true).and_then(|()| stream.set_nodelay(true)).ok()?;
    TcpStream::from_std(stream).ok()
}

/// Whether binding `[::]` failed for want of IPv6. Told by what it is not, for the errors of kernels without
/// IPv6, with it switched off and of containers differ.
fn has_no_ipv6(error: &io::Error) -> bool {
    !matches!(error.kind(), ErrorKind::AddrInUse | ErrorKind::PermissionDenied)
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn connects(address: impl Into<SocketAddr>) -> bool {
        TcpStream::connect(address.into()).await.is_ok()
    }

    #[tokio::test]
    async fn the_unspecified_ipv6_address_answers_on_both() {
        let listener = Listener::bind((Ipv6Addr::UNSPECIFIED, 0).into()).await.unwrap();
        let port = listener.local_addr().port();
        assert_ne!(port, 0);
        assert!(connects((Ipv4Addr::LOCALHOST, port)).await);
        let has_v6 = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).await.is_ok();
        assert_eq!(connects((Ipv6Addr::LOCALHOST, port)).await, has_v6);
    }

    #[tokio::test]
    async fn an_explicit_address_is_the_only_one() {
        let listener = Listener::bind((Ipv4Addr::LOCALHOST, 0).into()).await.unwrap();
        let port = listener.local_addr().port();
        assert!(connects((Ipv4Addr::LOCALHOST, port)).await);
        assert!(!connects((Ipv6Addr::LOCALHOST, port)).await);
    }

    #[tokio::test]
    async fn a_taken_port_says_which() {
        let first = Listener::bind((Ipv6Addr::UNSPECIFIED, 0).into()).await.unwrap();
        let text = Listener::bind(first.local_addr()).await.unwrap_err().to_string();
        assert!(text.contains(&format!("cannot listen on {}", first.local_addr())), "{text}");
    }

    #[test]
    fn want_of_ipv6() {
        for (kind, expected) in [
            (ErrorKind::AddrInUse, false),
            (ErrorKind::PermissionDenied, false),
            (ErrorKind::AddrNotAvailable, true),
            (ErrorKind::Unsupported, true),
        ] {
            assert_eq!(has_no_ipv6(&io::Error::from(kind)), expected, "{kind:?}");
        }
        const EAFNOSUPPORT: i32 = 97;
        assert!(has_no_ipv6(&io::Error::from_raw_os_error(EAFNOSUPPORT)));
    }

    #[tokio::test]
    async fn who_waits_when_the_port_closes_is_not_lost() {
        let listener = Listener::bind((Ipv4Addr::LOCALHOST, 0).into()).await.unwrap();
        let address = listener.local_addr();
        let _clients = (TcpStream::connect(address).await.unwrap(), TcpStream::connect(address).await.unwrap());
        assert_eq!(listener.close().len(), 2);
        assert!(!connects(address).await);
    }

    #[tokio::test]
    async fn connections_above_the_cap_wait() {
        let listener = Listener::bind((Ipv4Addr::LOCALHOST, 0).into()).await.unwrap();
        let (slots, metrics) = (Arc::new(Semaphore::new(1)), Metrics::new());
        let address = listener.local_addr();
        let _clients = (TcpStream::connect(address).await.unwrap(), TcpStream::connect(address).await.unwrap());
        let (_first, slot) = listener.next(&slots, &metrics).await;
        let second = listener.next(&slots, &metrics);
        tokio::pin!(second);
        assert!(futures::poll!(second.as_mut()).is_pending(), "no slot");
        drop(slot);
        let (_second, _slot) = second.await;
    }
}
