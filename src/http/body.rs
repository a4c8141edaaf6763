//! Reads a request body into one buffer: sized by what the client announced, bounded for itself and for all
//! bodies together, charged for what really arrived, and no slower than a pace.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use bytes::BytesMut;
use http_body_util::BodyExt;
use tokio::time::{Instant, timeout_at};

use super::shares::{Peer, Share, Shares};

/// Memory is charged by the kilobyte: fewer small steps.
const UNIT: usize = 1 << 10;

/// How much of a body that is too large is still read and thrown away, so that the client, which is busy
/// sending, gets to read why it was refused instead of a reset connection.
const LINGER_BYTES: usize = 32 << 20;

/// Who sends more slowly than this, after the first moments, holds memory for nothing.
pub const BYTES_PER_SECOND: u64 = 2 << 20;

/// What is reserved ahead, on the client's word alone.
const AHEAD_BYTES: usize = 1 << 20;

/// The memory for all bodies that are held at one time; clones share it.
#[derive(Debug, Clone)]
pub struct Memory(Shares);

/// A complete body and its share of the memory.
#[derive(Debug, Clone)]
pub struct WholeBody {
    pub bytes: Bytes,
    _charged: Arc<Option<Share>>,
}

#[derive(Debug, thiserror::Error)]
pub enum BodyError {
    #[error("the request body has more than {limit} bytes")]
    TooLarge { limit: usize },
    #[error("too many large requests at once")]
    Memory,
    #[error("the request body came too slowly")]
    Slow,
    #[error("the request body ended early: {0}")]
    Broken(axum::Error),
}

impl Memory {
    pub fn new(bytes: usize) -> Self {
        Self(Shares::new(bytes / UNIT))
    }

    fn charge(&self, held: &mut Option<Share>, peer: Peer, bytes: usize) -> Result<(), BodyError> {
        let more = bytes.div_ceil(UNIT).saturating_sub(held.as_ref().map_or(0, Share::amount));
        if more == 0 {
            return Ok(());
        }
        match held {
            Some(held) => held.grow(more).then_some(()).ok_or(BodyError::Memory),
            None => {
                *held = Some(self.0.take(peer, more).ok_or(BodyError::Memory)?);
                Ok(())
            }
        }
    }
}

/// What a body may be and take.
#[derive(Debug, Clone, Copy)]
pub struct Terms<'a> {
    pub limit: usize,
    /// For its first bytes.
    pub grace: Duration,
    pub memory: &'a Memory,
    pub peer: Peer,
}

/// Reads all of `body`. `announced` is its Content-Length, where it has one.
///
/// # Errors
/// When it is too large or too slow, when there is no memory for it now, or when the client broke off.
pub async fn read(mut body: Body, announced: Option<u64>, terms: Terms<'_>) -> Result<WholeBody, BodyError> {
    let Terms { limit, grace, memory, peer } = terms;
    let start = Instant::now();
    let too_large = BodyError::TooLarge { limit };
    let announced = usize::try_from(announced.unwrap_or(0)).unwrap_or(usize::MAX);
    if announced > limit {
        linger_in(grace, body).await;
        return Err(too_large);
    }
    let mut held = None;
    let mut first: Option<Bytes> = None;
    let mut buffer = BytesMut::new();
    let mut end = start + grace;
    while let Some(frame) = timeout_at(end, body.frame()).await.map_err(|_| BodyError::Slow)? {
        // Trailers say nothing that we would want to know.
        let Ok(data) = frame.map_err(BodyError::Broken)?.into_data() else {
            continue;
        };
        let length = first.as_ref().map_or(0, Bytes::len) + buffer.len() + data.len();
        if length > limit {
            drop((first, buffer, held));
            linger_in(grace, body).await;
            return Err(too_large);
        }
        memory.charge(&mut held, peer, length)?;
        end = start + grace + Duration::from_micros(length as u64 * 1_000_000 / BYTES_PER_SECOND);
        if length == data.len() {
            // A small body is one frame, and that is then the buffer.
            first = Some(data);
            continue;
        }
        if let Some(first) = first.take() {
            buffer.reserve(announced.min(AHEAD_BYTES).max(length));
            buffer.extend_from_slice(&first);
        }
        buffer.extend_from_slice(&data);
    }
    Ok(WholeBody { bytes: first.unwrap_or_else(|| buffer.freeze()), _charged: Arc::new(held) })
}

async fn linger_in(time: Duration, body: Body) {
    // Whether it ended in time makes no difference to the answer.
    let _in_time = timeout_at(Instant::now() + time, linger(body, LINGER_BYTES)).await;
}

/// Reads and throws away. The caller bounds the time.
pub(super) async fn linger(mut body: Body, bytes: usize) {
    let mut read = 0;
    while read < bytes {
        match body.frame().await {
            Some(Ok(frame)) => read += frame.data_ref().map_or(0, Bytes::len),
            Some(Err(_)) | None => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::{StreamExt, stream};
    use std::convert::Infallible;

    fn chunks(sizes: &'static [usize]) -> Body {
        Body::from_stream(stream::iter(sizes.iter().map(|size| Ok::<_, Infallible>(Bytes::from(vec![b'x'; *size])))))
    }

    fn terms(memory: &Memory) -> Terms<'_> {
        Terms { limit: 4_000, grace: Duration::from_secs(2), memory, peer: Peer::default() }
    }

    #[tokio::test]
    async fn sizes_and_limits() {
        let memory = Memory::new(16 * UNIT);
        for (sizes, announced, expected) in [
            (&[][..], None, Some(0)),
            (&[10], Some(10), Some(10)),
            (&[0, 10, 0, 20], None, Some(30)),
            (&[1_000, 1_000, 1_000], Some(3_000), Some(3_000)),
            (&[2_000, 2_000], None, Some(4_000)),
            (&[2_000, 2_001], None, None),
            (&[10], Some(4_001), None),
            (&[10], Some(u64::MAX), None),
        ] {
            let read = read(chunks(sizes), announced, terms(&memory)).await;
            match (read, expected) {
                (Ok(body), Some(length)) => assert_eq!(body.bytes.len(), length, "{sizes:?}"),
                (Err(BodyError::TooLarge { limit: 4_000 }), None) => {}
                (other, _) => panic!("{sizes:?}: {other:?}"),
            }
        }
        assert!(memory.0.take(Peer::default(), 8).is_some(), "all given back");
    }

    #[tokio::test]
    async fn the_memory_for_all_bodies_is_bounded() {
        let memory = Memory::new(4 * UNIT);
        let held = read(chunks(&[1_500]), None, terms(&memory)).await.unwrap();
        let refused = read(chunks(&[100]), None, terms(&memory)).await;
        assert!(matches!(refused, Err(BodyError::Memory)), "{refused:?}");
        let peer = Peer::new(std::net::Ipv4Addr::LOCALHOST.into());
        read(chunks(&[100]), None, Terms { peer, ..terms(&memory) }).await.unwrap();
        drop(held);
        read(chunks(&[100]), None, terms(&memory)).await.unwrap();
    }

    #[tokio::test]
    async fn a_body_keeps_the_pace_or_is_given_up() {
        let memory = Memory::new(64 << 20);
        let frames = |size: usize| {
            let first = stream::once(async move { Ok::<_, Infallible>(Bytes::from(vec![b'x'; size])) });
            let second = stream::once(async {
                tokio::time::sleep(Duration::from_millis(400)).await;
                Ok(Bytes::from_static(b"x"))
            });
            Body::from_stream(first.chain(second))
        };
        let terms = Terms { limit: 8 << 20, grace: Duration::from_millis(100), ..terms(&memory) };
        let slow = read(frames(1), None, terms).await;
        assert!(matches!(slow, Err(BodyError::Slow)), "{slow:?}");
        // Each MiB buys half a second.
        assert_eq!(read(frames(3 << 20), None, terms).await.unwrap().bytes.len(), (3 << 20) + 1);
    }
}
