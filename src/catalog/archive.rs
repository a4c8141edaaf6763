//! What stands where in a tar: walked once, header by header, contents left where they are.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::registry::Link;
use super::signature_files;
use crate::files::{open_regular, unreadable};
use crate::payload::Blobs;
use crate::payload::tarball::{Input, Kind, Walk};
use crate::pullspec::Digest;
use crate::signature::message::BYTES_MAX;
use crate::signature::{Found, MAX};

/// Files outside of blob stores that are remembered by name; a docker-archive has five a layer.
const FILES: usize = 10_000;
const BLOBS: usize = 2_000_000;
const LINKS: usize = 200_000;
const STORAGE: &str = "docker/registry/v2/";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// An OCI image layout (skopeo's oci-archive).
    Layout,
    /// What `docker save` and skopeo's docker-archive write.
    Docker,
    /// oc-mirror v2: a registry's storage, or a further part of it.
    Mirror,
}

#[derive(Debug)]
pub struct Archive {
    pub path: PathBuf,
    file: File,
    pub form: Form,
    blobs: HashMap<Digest, Place>,
    files: HashMap<String, Place>,
    /// The tags of an oc-mirror archive.
    pub links: Vec<Link>,
    /// The release signatures that oc-mirror stored.
    pub signatures: Vec<Found>,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    at: u64,
    size: u64,
}

impl Archive {
    /// # Errors
    /// What is wrong; the text goes on after the path.
    pub fn open(path: &Path) -> Result<Self, String> {
        let file = open_regular(path).map_err(|error| unreadable(&error))?;
        let length = file.metadata().map_err(|error| unreadable(&error))?.len();
        let reading = file.try_clone().map_err(|error| unreadable(&error))?;
        if let Some(packed) = packed(&file) {
            return Err(format!(
                "is compressed ({packed}): unpack it first, so that it can be read without reading all of it"
            ));
        }
        let mut walk = Walk::new(At { file: reading, at: 0, length });
        let mut archive = Self {
            path: path.to_owned(),
            file,
            form: Form::Layout,
            blobs: HashMap::new(),
            files: HashMap::new(),
            links: vec![],
            signatures: vec![],
        };
        let mut mirror = false;
        while let Some(entry) = walk.advance()? {
            mirror |= entry.path.starts_with(STORAGE) || entry.path.starts_with("working-dir/");
            if entry.kind != Kind::File {
                continue;
            }
            let place = Place { at: entry.at, size: entry.size };
            if let Some(name) = entry.path.strip_prefix(STORAGE) {
                if let Some(digest) = stored(name) {
                    archive.blobs.entry(digest).or_insert(place);
                } else if let Some((repository, tag)) = Link::of_path(name) {
                    let content = walk.content(&entry, Link::BYTES)?;
                    archive.links.extend(Link::new(repository, tag, &content));
                }
            } else if let Some(digest) = signature_files::hint(Path::new(&entry.path)) {
                if archive.signatures.len() < MAX {
                    let bytes = walk.content(&entry, BYTES_MAX as u64)?.into();
                    let place = format!("{}, {}", path.display(), entry.path).into();
                    archive.signatures.push(Found { digest, bytes, place, in_cluster: false });
                }
            } else if entry.path.starts_with("working-dir/") {
                // Extracts and conversions of what stands in the storage.
            } else if let Some(digest) = blob(&entry.path) {
                archive.blobs.entry(digest).or_insert(place);
            } else if archive.files.insert(entry.path.clone(), place).is_some() {
                return Err(format!("has {} twice: which one counts, nobody can say; pack it again", entry.path));
            }
            if archive.files.len() > FILES {
                return Err(format!("has more than {FILES} files that are no blobs: no image archive has"));
            }
            if archive.blobs.len() > BLOBS || archive.links.len() > LINKS {
                return Err(format!("has more than {BLOBS} blobs or {LINKS} tags"));
            }
        }
        archive.form = match () {
            () if archive.files.contains_key("oci-layout") => Form::Layout,
            () if archive.files.contains_key("manifest.json") => Form::Docker,
            () if mirror => Form::Mirror,
            () => {
                return Err(
                    "is a tar, but neither an OCI layout (oci-layout at its top), a docker-archive (manifest.json) \
                            nor an oc-mirror archive (docker/registry/v2)"
                        .into(),
                );
            }
        };
        Ok(archive)
    }

    #[must_use]
    pub fn holds(&self, digest: Digest) -> bool {
        self.blobs.contains_key(&digest)
    }

    /// A file by its path in the tar; `None` where there is none.
    ///
    /// # Errors
    /// Why it cannot be read; the text goes on after the file's name.
    pub fn file(&self, name: &str, limit: u64) -> Result<Option<Vec<u8>>, String> {
        let place = self.files.get(name).or_else(|| self.blobs.get(&blob(name)?));
        place.map(|place| self.content(*place, limit)).transpose()
    }

    fn content(&self, place: Place, limit: u64) -> Result<Vec<u8>, String> {
        if place.size > limit {
            return Err(format!("has {} bytes, more than the {limit} that are read", place.size));
        }
        let mut bytes = vec![];
        let mut reading = Read::take(
            At { file: self.file.try_clone().map_err(|e| unreadable(&e))?, at: place.at, length: u64::MAX },
            place.size,
        );
        reading.read_to_end(&mut bytes).map_err(|error| unreadable(&error))?;
        Ok(bytes)
    }
}

impl Blobs for Archive {
    fn blob(&self, digest: Digest, limit: u64) -> Result<Option<Vec<u8>>, String> {
        self.blobs.get(&digest).map(|place| self.content(*place, limit)).transpose()
    }
}

/// `blobs/sha256/<hex>` of a layout.
fn blob(name: &str) -> Option<Digest> {
    digest_of_hex(name.strip_prefix("blobs/sha256/")?)
}

/// `blobs/sha256/<2>/<hex>/data` of a registry's storage.
fn stored(name: &str) -> Option<Digest> {
    let (_, hex) = name.strip_prefix("blobs/sha256/")?.strip_suffix("/data")?.split_once('/')?;
    digest_of_hex(hex)
}

pub fn digest_of_hex(hex: &str) -> Option<Digest> {
    Digest::parse(&format!("sha256:{hex}"))
}

fn packed(file: &File) -> Option<&'static str> {
    let mut magic = [0; 6];
    file.read_exact_at(&mut magic, 0).ok()?;
    match magic {
        [0x1f, 0x8b, ..] => Some("gzip"),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Some("zstd"),
        [b'B', b'Z', b'h', ..] => Some("bzip2"),
        [0xfd, b'7', b'z', b'X', b'Z', 0] => Some("xz"),
        _ => None,
    }
}

/// Reads a file from a place on; never moves its cursor, so that clones do not meet.
struct At {
    file: File,
    at: u64,
    length: u64,
}

impl Read for At {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read_at(buffer, self.at)?;
        self.at += count as u64;
        Ok(count)
    }
}

impl Input for At {
    fn skip(&mut self, count: u64) -> io::Result<()> {
        match self.at.checked_add(count) {
            Some(at) if at <= self.length => self.at = at,
            _ => return Err(io::ErrorKind::UnexpectedEof.into()),
        }
        Ok(())
    }
}
