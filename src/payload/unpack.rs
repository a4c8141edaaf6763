//! Decompression by magic number, bounded.

use std::io::{self, Read};

use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

/// Memory that a zstd frame may ask for; tools stay at 8 MiB unless told otherwise.
const ZSTD_WINDOW: u64 = 32 << 20;

/// The tar in a layer: gzip of one or several members, zstd of one or several frames, or the tar itself.
///
/// # Errors
/// Where it is none of these.
pub fn unpack<'a>(bytes: &'a [u8], limit: u64) -> Result<Box<dyn Read + 'a>, String> {
    let tar = bytes.get(257..262) == Some(b"ustar");
    match bytes {
        [0x1f, 0x8b, ..] => Ok(Box::new(Capped { inner: MultiGzDecoder::new(bytes), left: limit, limit })),
        [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => {
            Ok(Box::new(Capped { inner: Zstd::new(bytes), left: limit, limit }))
        }
        _ if tar => Ok(Box::new(bytes)),
        _ => Err("is neither gzip, zstd nor tar".into()),
    }
}

/// All frames of a zstd file, one after the other; skippable ones, as zstd:chunked has them, left out.
struct Zstd<'a> {
    source: &'a [u8],
    decoder: FrameDecoder,
    within: bool,
}

impl<'a> Zstd<'a> {
    fn new(source: &'a [u8]) -> Self {
        let mut decoder = FrameDecoder::new();
        decoder.set_max_window_size(ZSTD_WINDOW);
        Self { source, decoder, within: false }
    }
}

impl Read for Zstd<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if self.within {
                if self.decoder.can_collect() > 0 {
                    return self.decoder.read(buffer);
                }
                if !self.decoder.is_finished() {
                    self.decoder
                        .decode_blocks(&mut self.source, BlockDecodingStrategy::UptoBlocks(1))
                        .map_err(io::Error::other)?;
                    continue;
                }
                self.within = false;
            }
            if self.source.is_empty() {
                return Ok(0);
            }
            match self.decoder.init(&mut self.source) {
                Ok(()) => self.within = true,
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame { length, .. })) => {
                    let length = usize::try_from(length).unwrap_or(usize::MAX);
                    self.source = self.source.get(length..).ok_or(io::ErrorKind::UnexpectedEof)?;
                }
                Err(error) => return Err(io::Error::other(error)),
            }
        }
    }
}

/// Fails instead of going on for ever.
struct Capped<R> {
    inner: R,
    left: u64,
    limit: u64,
}

impl<R: Read> Read for Capped<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        match self.left.checked_sub(count as u64) {
            Some(left) => self.left = left,
            None => return Err(io::Error::other(format!("it unpacks to more than {} bytes", self.limit))),
        }
        Ok(count)
    }
}
