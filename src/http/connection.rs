//! One connection from its first byte to its last: handshake, HTTP/1.1 or HTTP/2 as ALPN decided, and a
//! watchman that closes it when it is overdue or when the process is on its way out.
//!
//! By hand over hyper and not with axum-server, whose one header limit also ends kept connections, and which
//! knows neither a connection cap nor an end of idling.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderValue, Request, StatusCode, Version, header};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::{ProtocolVersion, ServerConnection};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;
use tower::Service;

use super::activity::{Activity, Observed, Room};
use super::limits::Limits;
use super::shares::{Peer, Shares};
use super::text;
use crate::metrics::{ConnectionEnd, Metrics, TlsVersion};
use crate::shutdown::{Phase, Shutdown};
use crate::tls::profile::group_name;
use crate::tls::reload::LiveTls;

const H2_WINDOW: u32 = 1 << 20;
/// A share of the requests; who has more to ask opens another connection, as Go does by itself.
const H2_STREAMS: u32 = 32;
const H2_PING: Duration = Duration::from_secs(30);
const HEADER_BYTES: u32 = 32 << 10;
const H1_BUFFER_BYTES: usize = 64 << 10;
/// For the first request of a connection that came in just before the port closed.
const LAST_CALL: Duration = Duration::from_secs(3);
/// How often the watchman looks, at most; with shorter limits (tests) more often.
const WATCH: Duration = Duration::from_secs(1);

/// What all connections of a port have in common.
#[derive(Debug)]
pub struct Port {
    pub name: &'static str,
    pub router: Router,
    /// `None`: plain HTTP/1.1.
    pub tls: Option<LiveTls>,
    pub limits: Limits,
    pub metrics: Metrics,
    pub slots: Arc<Semaphore>,
    /// The same slots, divided among peers.
    pub peers: Shares,
}

impl Port {
    /// Serves one connection to its end.
    pub async fn serve(&self, stream: TcpStream, peer: Peer, mut shutdown: Shutdown) {
        let _open = self.metrics.connection(self.name);
        let activity = Activity::new();
        let stream = Observed::new(stream, activity.clone());
        let end = match &self.tls {
            None => self.http1(stream, peer, activity, shutdown).await,
            Some(tls) => {
                let handshake = TlsAcceptor::from(tls.config()).accept(stream);
                let patience =
                    if self.peers.is_scarce() { self.limits.header_when_scarce } else { self.limits.handshake };
                let handshake = tokio::time::timeout(patience.min(self.limits.handshake), handshake);
                let too_late = async {
                    shutdown.reached(Phase::Stopping).await;
                    tokio::time::sleep(LAST_CALL).await;
                };
                let shaken = tokio::select! {
                    shaken = handshake => shaken,
                    () = too_late => return,
                };
                match shaken {
                    Ok(Ok(stream)) => {
                        activity.open();
                        self.count_handshake(stream.get_ref().1);
                        if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
                            self.http2(stream, peer, activity, shutdown).await
                        } else {
                            self.http1(stream, peer, activity, shutdown).await
                        }
                    }
                    Ok(Err(error)) => {
                        // Not louder: whoever can reach the port can make this happen at will.
                        tracing::debug!(%error, "TLS handshake failed");
                        ConnectionEnd::HandshakeFailed
                    }
                    Err(_) => ConnectionEnd::HandshakeTimeout,
                }
            }
        };
        tracing::debug!(port = self.name, end = end.as_str(), "connection ended");
        self.metrics.connection_ended(self.name, end);
    }

    fn count_handshake(&self, connection: &ServerConnection) {
        let version = match connection.protocol_version() {
            Some(ProtocolVersion::TLSv1_2) => TlsVersion::Tls12,
            Some(ProtocolVersion::TLSv1_3) => TlsVersion::Tls13,
            _ => TlsVersion::Other,
        };
        let group = connection.negotiated_key_exchange_group().and_then(group_name);
        self.metrics.handshake(version, group.unwrap_or("other"));
    }

    async fn http1(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        peer: Peer,
        activity: Arc<Activity>,
        shutdown: Shutdown,
    ) -> ConnectionEnd {
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(None)
            .max_buf_size(H1_BUFFER_BYTES)
            .serve_connection(TokioIo::new(stream), service_fn(self.service(peer, &activity)));
        self.watch(connection, http1::Connection::graceful_shutdown, false, &activity, shutdown).await
    }

    async fn http2(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        peer: Peer,
        activity: Arc<Activity>,
        shutdown: Shutdown,
    ) -> ConnectionEnd {
        let connection = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .initial_stream_window_size(H2_WINDOW)
            .initial_connection_window_size(H2_WINDOW)
            .max_concurrent_streams(H2_STREAMS)
            .max_header_list_size(HEADER_BYTES)
            .keep_alive_interval(H2_PING)
            .keep_alive_timeout(H2_PING)
            .serve_connection(TokioIo::new(stream), service_fn(self.service(peer, &activity)));
        self.watch(connection, http2::Connection::graceful_shutdown, true, &activity, shutdown).await
    }

    fn service(
        &self,
        peer: Peer,
        activity: &Arc<Activity>,
    ) -> impl Fn(Request<Incoming>) -> Pin<Box<dyn Future<Output = Answered> + Send>> + use<> {
        let (router, activity) = (self.router.clone(), activity.clone());
        move |mut request| {
            let busy = activity.begin();
            if header_bytes(&request) > HEADER_BYTES as usize {
                let mut answer = text(
                    StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
                    format!("the header is larger than {HEADER_BYTES} bytes: send a smaller one"),
                );
                if request.version() <= Version::HTTP_11 {
                    answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
                }
                return Box::pin(async move {
                    drop(busy);
                    Ok(answer)
                });
            }
            request.extensions_mut().insert(peer);
            let answer = router.clone().call(request.map(Body::new));
            Box::pin(async move {
                let answer = answer.await;
                drop(busy);
                answer
            })
        }
    }

    /// Drives the connection and ends it when it must.
    async fn watch<C: Future<Output = hyper::Result<()>>>(
        &self,
        connection: C,
        finish: impl Fn(Pin<&mut C>),
        multiplexed: bool,
        activity: &Arc<Activity>,
        mut shutdown: Shutdown,
    ) -> ConnectionEnd {
        let mut connection = pin!(connection);
        let limits = &self.limits;
        let interval = WATCH.min(limits.header_in(Room::Scarce) / 4).min(limits.idle / 4).max(Duration::from_millis(5));
        let mut ticks = tokio::time::interval(interval);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut awaited = Phase::Draining;
        let mut finishing = false;
        let mut rested_too_long = false;
        let mut last_call = None;
        loop {
            tokio::select! {
                biased;
                result = connection.as_mut() => {
                    return if rested_too_long { ConnectionEnd::Idle } else { ended(&result, activity) };
                }
                () = shutdown.reached(awaited) => match shutdown.phase() {
                    Phase::Running | Phase::Draining => awaited = Phase::Stopping,
                    Phase::Stopping => {
                        if activity.has_served() {
                            finish(connection.as_mut());
                            finishing = true;
                        } else {
                            last_call = Some(Instant::now() + LAST_CALL);
                        }
                        awaited = Phase::Aborted;
                    }
                    Phase::Aborted => return ConnectionEnd::Aborted,
                },
                _ = ticks.tick() => {
                    if last_call.is_some_and(|end| end <= Instant::now()) && !activity.has_served() {
                        return ConnectionEnd::Closed;
                    }
                    let room = match self.slots.available_permits() {
                        0 => Room::Full,
                        _ if self.peers.is_scarce() => Room::Scarce,
                        _ => Room::Enough,
                    };
                    match activity.overdue(limits, multiplexed, room) {
                        None => {}
                        // In good order, so that a request which is just arriving is still answered; until
                        // the next look.
                        Some(ConnectionEnd::Idle) if !finishing => {
                            finish(connection.as_mut());
                            (finishing, rested_too_long) = (true, true);
                        }
                        Some(end) => return end,
                    }
                }
            }
            // HTTP/2 has no `Connection: close`: once it has served, the client is told to open no more
            // streams here. HTTP/1.1 connections are told with their next answer, see `layers::farewell`;
            // closing one that rests could cross its next request.
            if multiplexed && !finishing && activity.has_served() && shutdown.phase() >= Phase::Draining {
                finish(connection.as_mut());
                finishing = true;
            }
        }
    }
}

/// As HTTP/2 counts them. hyper bounds the header of HTTP/1 by its buffer only, and by what it read beyond.
fn header_bytes(request: &Request<Incoming>) -> usize {
    let target = request.uri().path_and_query().map_or(0, |target| target.as_str().len());
    request.headers().iter().map(|(name, value)| name.as_str().len() + value.len() + 32).sum::<usize>() + target
}

type Answered = Result<axum::response::Response, std::convert::Infallible>;

fn ended(result: &hyper::Result<()>, activity: &Activity) -> ConnectionEnd {
    match result {
        Ok(()) => ConnectionEnd::Closed,
        // Many clients just go when they have what they came for, without TLS's or HTTP/2's farewell.
        Err(_) if activity.has_served() && !activity.is_busy() => ConnectionEnd::Closed,
        Err(error) => {
            tracing::debug!(%error, "connection failed");
            ConnectionEnd::Failed
        }
    }
}
