//! Walking a tar, of a layer or of a whole archive: headers only, each bounded, nothing extracted.
//!
//! Understands what Go's and Python's writers and GNU tar make: ustar, long names of GNU and PAX, sizes
//! beyond 8 GiB. Sparse files are refused: no image tool writes them, and their sizes are two.

use std::io::{self, Read};

use tar::{EntryType, Header};

const BLOCK: u64 = 512;
/// Longer than any path a file system takes.
const NAME_BYTES: u64 = 64 << 10;
const PAX_BYTES: u64 = 1 << 20;
/// An archive of 500 GiB has some hundred thousand.
const ENTRIES: usize = 4_000_000;

/// What a tar is read from.
pub trait Input: Read {
    /// Goes on `count` bytes further.
    ///
    /// # Errors
    /// Where there are fewer, or they cannot be read.
    fn skip(&mut self, count: u64) -> io::Result<()>;
}

/// Skips by reading.
#[derive(Debug)]
pub struct Stream<R>(pub R);

impl<R: Read> Read for Stream<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl<R: Read> Input for Stream<R> {
    fn skip(&mut self, count: u64) -> io::Result<()> {
        let skipped = io::copy(&mut self.0.by_ref().take(count), &mut io::sink())?;
        if skipped == count { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    File,
    Directory,
    /// Links, devices, everything else that has no content of its own.
    Other,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Without leading `/` and `./`, without empty and `.` parts. A part may be `..`.
    pub path: String,
    pub kind: Kind,
    pub size: u64,
    /// Where the content begins in the tar.
    pub at: u64,
}

#[derive(Debug)]
pub struct Walk<I> {
    input: I,
    at: u64,
    /// Content and padding of the current entry that were not read yet.
    left: u64,
    seen: usize,
}

impl<I: Input> Walk<I> {
    pub fn new(input: I) -> Self {
        Self { input, at: 0, left: 0, seen: 0 }
    }

    /// The next entry; `None` at the end.
    ///
    /// # Errors
    /// What is wrong; the text goes on after the name of the tar.
    pub fn advance(&mut self) -> Result<Option<Entry>, String> {
        let (mut long_name, mut pax) = (None, Pax::default());
        loop {
            self.skip_rest()?;
            let Some(header) = self.header()? else { return Ok(None) };
            self.seen += 1;
            if self.seen > ENTRIES {
                return Err(format!("has more than {ENTRIES} entries"));
            }
            let size = header.entry_size().map_err(|error| self.broken(&error))?;
            let kind = header.entry_type();
            match kind {
                EntryType::GNULongName => {
                    let mut name = self.small(size, NAME_BYTES, "a name")?;
                    name.truncate(name.iter().position(|byte| *byte == 0).unwrap_or(name.len()));
                    long_name = Some(name);
                }
                EntryType::GNULongLink => drop(self.small(size, NAME_BYTES, "a link")?),
                EntryType::XHeader => {
                    let records = self.small(size, PAX_BYTES, "an extended header")?;
                    pax.read(&records).ok_or_else(|| format!("has a broken extended header at byte {}", self.at))?;
                }
                EntryType::XGlobalHeader => drop(self.small(size, PAX_BYTES, "an extended header")?),
                EntryType::GNUSparse => return Err(sparse()),
                _ if pax.sparse => return Err(sparse()),
                _ => {
                    let size = pax.size.unwrap_or(size);
                    // These have no content, whatever their size field says; as Go reads them.
                    let empty = kind.is_hard_link()
                        || kind.is_symlink()
                        || kind.is_character_special()
                        || kind.is_block_special()
                        || kind.is_dir()
                        || kind.is_fifo();
                    let size = if empty { 0 } else { size };
                    let kind = match kind {
                        EntryType::Regular | EntryType::Continuous => Kind::File,
                        EntryType::Directory => Kind::Directory,
                        _ => Kind::Other,
                    };
                    let name = pax.path.or(long_name).unwrap_or_else(|| header.path_bytes().into_owned());
                    let kind = if kind == Kind::File && name.ends_with(b"/") { Kind::Directory } else { kind };
                    self.begin(size)?;
                    return Ok(Some(Entry { path: normal(&name), kind, size, at: self.at }));
                }
            }
        }
    }

    /// The content of the entry that [`Walk::advance`] yielded last.
    ///
    /// # Errors
    /// Where it is longer than `limit` or the tar ends early.
    pub fn content(&mut self, entry: &Entry, limit: u64) -> Result<Vec<u8>, String> {
        if entry.size > limit {
            return Err(format!(
                "has a {} of {} bytes, more than the {limit} that are read of it",
                entry.path, entry.size
            ));
        }
        self.take(entry.size)
    }

    fn header(&mut self) -> Result<Option<Header>, String> {
        let Some(block) = self.block()? else { return Ok(None) };
        if block.iter().all(|byte| *byte == 0) {
            // Two empty blocks end a tar; Go and GNU both refuse one alone before more.
            return match self.block()? {
                Some(next) if next.iter().any(|byte| *byte != 0) => {
                    Err(format!("has an empty header in its middle, at byte {}", self.at - 2 * BLOCK))
                }
                _ => Ok(None),
            };
        }
        let header = Header::from_byte_slice(&block).clone();
        let sum: u32 = block
            .iter()
            .enumerate()
            .map(|(at, byte)| if (148..156).contains(&at) { 32 } else { u32::from(*byte) })
            .sum();
        if header.cksum().ok() != Some(sum) {
            return Err(format!("is no tar at byte {}: the header's checksum does not fit", self.at - BLOCK));
        }
        Ok(Some(header))
    }

    /// `None` where the input ends exactly here.
    fn block(&mut self) -> Result<Option<[u8; 512]>, String> {
        let mut block = [0; 512];
        let mut filled = 0;
        while filled < block.len() {
            match self.input.read(&mut block[filled..]) {
                Ok(0) if filled == 0 => return Ok(None),
                Ok(0) => return Err(self.broken(&io::ErrorKind::UnexpectedEof.into())),
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.broken(&error)),
            }
        }
        self.at += BLOCK;
        Ok(Some(block))
    }

    fn begin(&mut self, size: u64) -> Result<(), String> {
        let padded =
            size.checked_next_multiple_of(BLOCK).and_then(|padded| self.at.checked_add(padded).map(|_| padded));
        self.left = padded.ok_or_else(|| format!("has an entry of {size} bytes at byte {}", self.at))?;
        Ok(())
    }

    fn small(&mut self, size: u64, limit: u64, what: &str) -> Result<Vec<u8>, String> {
        if size > limit {
            return Err(format!("has {what} of {size} bytes at byte {}, more than the {limit} that are read", self.at));
        }
        self.begin(size)?;
        self.take(size)
    }

    fn take(&mut self, size: u64) -> Result<Vec<u8>, String> {
        let mut bytes = vec![];
        let read = self.input.by_ref().take(size).read_to_end(&mut bytes);
        let count = read.map_err(|error| self.broken(&error))? as u64;
        if count < size {
            return Err(self.broken(&io::ErrorKind::UnexpectedEof.into()));
        }
        self.at += count;
        self.left -= count;
        Ok(bytes)
    }

    fn skip_rest(&mut self) -> Result<(), String> {
        self.input.skip(self.left).map_err(|error| self.broken(&error))?;
        self.at += self.left;
        self.left = 0;
        Ok(())
    }

    fn broken(&self, error: &io::Error) -> String {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => format!("ends in the middle, after byte {}: it is cut off", self.at),
            _ => format!("cannot be read after byte {}: {error}", self.at),
        }
    }
}

fn sparse() -> String {
    "has a sparse file, which no image tool writes: pack it again without --sparse".into()
}

#[derive(Default)]
struct Pax {
    path: Option<Vec<u8>>,
    size: Option<u64>,
    sparse: bool,
}

impl Pax {
    /// `LENGTH KEY=VALUE\n`, the length counting all of it.
    fn read(&mut self, mut records: &[u8]) -> Option<()> {
        while !records.is_empty() {
            let blank = records.iter().take(20).position(|byte| *byte == b' ')?;
            let length: usize = std::str::from_utf8(&records[..blank]).ok()?.parse().ok()?;
            let record = records.get(blank + 1..length)?.strip_suffix(b"\n")?;
            records = &records[length..];
            let equals = record.iter().position(|byte| *byte == b'=')?;
            let (key, value) = (&record[..equals], &record[equals + 1..]);
            match key {
                b"path" => self.path = Some(value.to_vec()),
                b"size" => self.size = Some(std::str::from_utf8(value).ok()?.parse().ok()?),
                _ => self.sparse |= key.starts_with(b"GNU.sparse."),
            }
        }
        Some(())
    }
}

fn normal(name: &[u8]) -> String {
    let name = String::from_utf8_lossy(name);
    name.split('/').filter(|part| !part.is_empty() && *part != ".").collect::<Vec<_>>().join("/")
}
