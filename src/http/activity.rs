//! What one connection is doing, so that a client that does nothing can be told from one that is served.
//!
//! hyper's own header timeout starts when the connection falls idle, which would make one limit of two that
//! differ by an order of magnitude: a kept connection may rest for minutes, a header that has begun must
//! end within seconds.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

use super::limits::Limits;
use crate::metrics::ConnectionEnd;

/// Shared by a connection's socket, its requests and its watchman. Times are milliseconds since the start,
/// plus one, so that zero can mean "not".
#[derive(Debug)]
pub struct Activity {
    start: Instant,
    in_flight: AtomicU32,
    served: AtomicU32,
    /// Since when no request is being answered.
    quiet_since: AtomicU64,
    /// When the first byte came after that.
    heard_at: AtomicU64,
}

/// How many connection slots are left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Room {
    Enough,
    /// More than half are taken.
    Scarce,
    Full,
}

/// One request being answered; ends when dropped, however that happens.
#[derive(Debug)]
pub struct Busy(Arc<Activity>);

impl Activity {
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            start: Instant::now(),
            in_flight: AtomicU32::new(0),
            served: AtomicU32::new(0),
            quiet_since: AtomicU64::new(1),
            heard_at: AtomicU64::new(0),
        })
    }

    /// The handshake is over: from now on a request is awaited.
    pub fn open(&self) {
        self.quiet_since.store(self.now(), Ordering::Relaxed);
        self.heard_at.store(0, Ordering::Relaxed);
    }

    pub fn begin(self: &Arc<Self>) -> Busy {
        self.served.fetch_add(1, Ordering::Relaxed);
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        self.heard_at.store(0, Ordering::Relaxed);
        Busy(self.clone())
    }

    /// Whether a request has ever reached us on this connection.
    pub fn has_served(&self) -> bool {
        self.served.load(Ordering::Relaxed) > 0
    }

    pub fn is_busy(&self) -> bool {
        self.in_flight.load(Ordering::Relaxed) > 0
    }

    /// Why the connection should be closed, if it should. `multiplexed`: bytes between requests are no sign
    /// of a beginning one (HTTP/2 pings).
    pub fn overdue(&self, limits: &Limits, multiplexed: bool, room: Room) -> Option<ConnectionEnd> {
        if self.is_busy() {
            return None;
        }
        let since = |moment: u64| Duration::from_millis(self.now().saturating_sub(moment));
        let quiet = since(self.quiet_since.load(Ordering::Relaxed));
        let header = limits.header_in(room);
        if !self.has_served() {
            return (quiet >= header).then_some(ConnectionEnd::HeaderTimeout);
        }
        let heard_at = self.heard_at.load(Ordering::Relaxed);
        if !multiplexed && heard_at != 0 && since(heard_at) >= header {
            return Some(ConnectionEnd::HeaderTimeout);
        }
        let idle = if room == Room::Full { limits.idle_when_full } else { limits.idle };
        (quiet >= idle).then_some(ConnectionEnd::Idle)
    }

    fn heard(&self) {
        if !self.is_busy() && self.heard_at.load(Ordering::Relaxed) == 0 {
            self.heard_at.store(self.now(), Ordering::Relaxed);
        }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX).saturating_add(1)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        if self.0.in_flight.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.0.quiet_since.store(self.0.now(), Ordering::Relaxed);
        }
    }
}

/// A socket that tells its [`Activity`] when something was read. Below TLS, so that dribbled records count
/// as well.
#[derive(Debug)]
pub struct Observed<S> {
    stream: S,
    activity: Arc<Activity>,
}

impl<S> Observed<S> {
    pub fn new(stream: S, activity: Arc<Activity>) -> Self {
        Self { stream, activity }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Observed<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(cx, buf);
        if buf.filled().len() > before {
            self.activity.heard();
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Observed<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_overdue() {
        let zero = Duration::ZERO;
        let long = Duration::from_hours(1);
        let limits = |header, idle, idle_when_full| Limits { header, idle, idle_when_full, ..Limits::default() };
        let fresh = Activity::new();
        assert_eq!(fresh.overdue(&limits(zero, long, long), false, Room::Enough), Some(ConnectionEnd::HeaderTimeout));
        assert_eq!(
            fresh.overdue(&limits(long, zero, zero), false, Room::Enough),
            None,
            "the first request has its own limit"
        );

        let scarce = Limits { header_when_scarce: zero, ..limits(long, long, long) };
        assert_eq!(fresh.overdue(&scarce, false, Room::Scarce), Some(ConnectionEnd::HeaderTimeout));
        assert_eq!(fresh.overdue(&scarce, false, Room::Enough), None);

        let busy = fresh.begin();
        assert_eq!(fresh.overdue(&limits(zero, zero, zero), false, Room::Full), None);
        fresh.heard();
        drop(busy);
        let kept = fresh;
        assert_eq!(
            kept.overdue(&limits(zero, long, long), false, Room::Enough),
            None,
            "what came with the request is the request"
        );
        assert_eq!(kept.overdue(&limits(long, zero, long), false, Room::Enough), Some(ConnectionEnd::Idle));
        assert_eq!(kept.overdue(&limits(long, long, zero), false, Room::Enough), None);
        assert_eq!(kept.overdue(&limits(long, long, zero), false, Room::Full), Some(ConnectionEnd::Idle));

        kept.heard();
        assert_eq!(kept.overdue(&limits(zero, long, long), false, Room::Enough), Some(ConnectionEnd::HeaderTimeout));
        assert_eq!(kept.overdue(&limits(zero, long, long), true, Room::Enough), None, "pings begin no request");
    }
}
