//! Reads a request body into one buffer: sized by what the client announced, bounded for itself and for all
//! bodies together, charged for what really arrived.

use std::sync::Arc;

use axum::body::{Body, Bytes};
use bytes::BytesMut;
use http_body_util::BodyExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A semaphore counts to 2^32 at most in one go, so memory is charged by the kilobyte.
const UNIT: usize = 1 << 10;

/// How much of a body that is too large is still read and thrown away, so that the client, which is busy
/// sending, gets to read why it was refused instead of a reset connection.
const LINGER_BYTES: usize = 32 << 20;

/// The memory for all bodies that are held at one time; clones share it.
#[derive(Debug, Clone)]
pub struct Memory(Arc<Semaphore>);

/// A complete body and its share of the memory.
#[derive(Debug, Clone)]
pub struct WholeBody {
    pub bytes: Bytes,
    _charged: Arc<Option<OwnedSemaphorePermit>>,
}

#[derive(Debug, thiserror::Error)]
pub enum BodyError {
    #[error("the request body has more than {limit} bytes")]
    TooLarge { limit: usize },
    #[error("too many large requests at once")]
    Memory,
    #[error("the request body ended early: {0}")]
    Broken(axum::Error),
}

impl Memory {
    pub fn new(bytes: usize) -> Self {
        Self(Arc::new(Semaphore::new((bytes / UNIT).min(Semaphore::MAX_PERMITS))))
    }

    fn charge(&self, held: &mut Option<OwnedSemaphorePermit>, bytes: usize) -> Result<(), BodyError> {
        let have = held.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        let more = bytes.div_ceil(UNIT).saturating_sub(have);
        if more == 0 {
            return Ok(());
        }
        let more = u32::try_from(more).map_err(|_| BodyError::Memory)?;
        let more = self.0.clone().try_acquire_many_owned(more).map_err(|_| BodyError::Memory)?;
        match held {
            Some(held) => held.merge(more),
            None => *held = Some(more),
        }
        Ok(())
    }
}

/// Reads all of `body`. `announced` is its Content-Length, where it has one.
///
/// # Errors
/// When it is too large, when there is no memory for it now, or when the client broke off.
pub async fn read(
    mut body: Body,
    announced: Option<u64>,
    limit: usize,
    memory: &Memory,
) -> Result<WholeBody, BodyError> {
    let too_large = BodyError::TooLarge { limit };
    let announced = usize::try_from(announced.unwrap_or(0)).unwrap_or(usize::MAX);
    if announced > limit {
        linger(body).await;
        return Err(too_large);
    }
    let mut held = None;
    let mut first: Option<Bytes> = None;
    let mut buffer = BytesMut::new();
    while let Some(frame) = body.frame().await {
        // Trailers say nothing that we would want to know.
        let Ok(data) = frame.map_err(BodyError::Broken)?.into_data() else {
            continue;
        };
        let length = first.as_ref().map_or(0, Bytes::len) + buffer.len() + data.len();
        if length > limit {
            drop((first, buffer, held));
            linger(body).await;
            return Err(too_large);
        }
        memory.charge(&mut held, length)?;
        if length == data.len() {
            // A small body is one frame, and that is then the buffer.
            first = Some(data);
            continue;
        }
        if let Some(first) = first.take() {
            buffer.reserve(announced.max(length));
            buffer.extend_from_slice(&first);
        }
        buffer.extend_from_slice(&data);
    }
    Ok(WholeBody { bytes: first.unwrap_or_else(|| buffer.freeze()), _charged: Arc::new(held) })
}

/// The caller bounds this by the request's deadline.
async fn linger(mut body: Body) {
    let mut read = 0;
    while read < LINGER_BYTES {
        match body.frame().await {
            Some(Ok(frame)) => read += frame.data_ref().map_or(0, Bytes::len),
            Some(Err(_)) | None => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::stream;
    use std::convert::Infallible;

    fn chunks(sizes: &'static [usize]) -> Body {
        Body::from_stream(stream::iter(sizes.iter().map(|size| Ok::<_, Infallible>(Bytes::from(vec![b'x'; *size])))))
    }

    #[tokio::test]
    async fn sizes_and_limits() {
        let memory = Memory::new(8 * UNIT);
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
            let read = read(chunks(sizes), announced, 4_000, &memory).await;
            match (read, expected) {
                (Ok(body), Some(length)) => assert_eq!(body.bytes.len(), length, "{sizes:?}"),
                (Err(BodyError::TooLarge { limit: 4_000 }), None) => {}
                (other, _) => panic!("{sizes:?}: {other:?}"),
            }
        }
        assert_eq!(memory.0.available_permits(), 8, "all given back");
    }

    #[tokio::test]
    async fn the_memory_for_all_bodies_is_bounded() {
        let memory = Memory::new(2 * UNIT);
        let held = read(chunks(&[1_500]), None, 4_000, &memory).await.unwrap();
        let refused = read(chunks(&[100]), None, 4_000, &memory).await;
        assert!(matches!(refused, Err(BodyError::Memory)), "{refused:?}");
        drop(held);
        read(chunks(&[100]), None, 4_000, &memory).await.unwrap();
    }
}
