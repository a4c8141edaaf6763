//! An archive of oc-mirror v2 as large as real ones, without their bytes: headers where they would stand, one release
//! whole, and holes in place of the layers.

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;

use anyhow::Result;

use crate::images::Release;
use crate::testing::sha256;

const STORAGE: &str = "docker/registry/v2";
/// Layers of 25 MB.
const LAYERS: u64 = 2000;
const LAYER_BYTES: u64 = 25_000_000;

/// What was written.
pub struct Written {
    pub bytes: u64,
    pub headers: u64,
}

/// Writes it: each layer with the link by which its repository has it, the release with the tag that oc-mirror gives it.
pub fn write(path: &Path, release: &Release) -> Result<Written> {
    let mut tar = Sparse { file: File::create_new(path)?, headers: 0 };
    for number in 0..LAYERS {
        let digest = sha256(format!("layer {number}").as_bytes());
        tar.hole(&data(&digest), LAYER_BYTES)?;
        tar.file(&link("openshift/release", &format!("_layers/sha256/{}", hex(&digest))), digest.as_bytes())?;
    }
    let release_images = "openshift/release-images";
    let manifests = release.image.manifests.iter().map(|manifest| (&manifest.digest, &manifest.bytes));
    for (digest, bytes) in release.image.blobs.iter().chain(manifests) {
        tar.file(&data(digest), bytes)?;
        tar.file(&link(release_images, &format!("_layers/sha256/{}", hex(digest))), digest.as_bytes())?;
    }
    let tag = format!("_manifests/tags/{}-x86_64/current", release.recipe.version);
    tar.file(&link(release_images, &tag), release.digest().as_bytes())?;
    tar.end()
}

fn hex(digest: &str) -> &str {
    &digest["sha256:".len()..]
}

fn data(digest: &str) -> String {
    let hex = hex(digest);
    format!("{STORAGE}/blobs/sha256/{}/{hex}/data", &hex[..2])
}

fn link(repository: &str, below: &str) -> String {
    format!("{STORAGE}/repositories/{repository}/{below}/link")
}

struct Sparse {
    file: File,
    headers: u64,
}

impl Sparse {
    fn header(&mut self, path: &str, size: u64) -> Result<()> {
        let mut header = tar::Header::new_ustar();
        header.set_path(path)?;
        header.set_mode(0o644);
        header.set_size(size);
        header.set_cksum();
        self.headers += 1;
        Ok(self.file.write_all(header.as_bytes())?)
    }

    fn file(&mut self, path: &str, bytes: &[u8]) -> Result<()> {
        self.header(path, bytes.len() as u64)?;
        self.file.write_all(bytes)?;
        self.skip((bytes.len() as u64).next_multiple_of(512) - bytes.len() as u64)
    }

    fn hole(&mut self, path: &str, size: u64) -> Result<()> {
        self.header(path, size)?;
        self.skip(size.next_multiple_of(512))
    }

    fn skip(&mut self, bytes: u64) -> Result<()> {
        self.file.seek(SeekFrom::Current(bytes.try_into()?))?;
        Ok(())
    }

    /// Two empty blocks.
    fn end(mut self) -> Result<Written> {
        let bytes = self.file.stream_position()? + 1024;
        self.file.set_len(bytes)?;
        Ok(Written { bytes, headers: self.headers })
    }
}
