//! The two files of a release in its last layer.
//!
//! Whatever two tools could read differently is refused: a file twice (oc takes the first, a node the
//! last), links, whiteouts beside files, `..` in names.

use super::tarball::{Entry, Kind, Stream, Walk};
use super::{UNPACKED_BYTES, unpack};

pub const METADATA: &str = "release-manifests/release-metadata";
pub const REFERENCES: &str = "release-manifests/image-references";
const DIRECTORY: &str = "release-manifests";
/// 3 KB with 215 versions in `previous`.
const METADATA_BYTES: u64 = 256 << 10;
/// 650 bytes a component.
const REFERENCES_BYTES: u64 = 2 << 20;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files {
    pub metadata: Vec<u8>,
    pub references: Vec<u8>,
}

/// Reads a whole layer, whose digest the caller has checked.
///
/// # Errors
/// What is wrong; the text goes on after the name of the layer.
pub fn read(layer: &[u8]) -> Result<Files, String> {
    let mut walk = Walk::new(Stream(unpack::unpack(layer, UNPACKED_BYTES)?));
    let (mut metadata, mut references) = (None, None);
    let mut whited_out = None;
    while let Some(entry) = walk.advance()? {
        let (slot, limit) = match place(&entry)? {
            Place::Metadata => (&mut metadata, METADATA_BYTES),
            Place::References => (&mut references, REFERENCES_BYTES),
            Place::Whiteout => {
                whited_out = Some(entry.path);
                continue;
            }
            Place::Elsewhere => continue,
        };
        if entry.kind != Kind::File {
            return Err(format!("has {} as a link or directory, where only a file counts", entry.path));
        }
        if slot.is_some() {
            return Err(format!("has {} twice, of which oc and a node read different ones", entry.path));
        }
        *slot = Some(walk.content(&entry, limit)?);
    }
    if let Some(whiteout) = whited_out {
        return Err(format!("takes a file of the release away ({whiteout})"));
    }
    let missing =
        |name| format!("is the last one of its image and has no {name}: oc adm release new makes no such image");
    Ok(Files {
        metadata: metadata.ok_or_else(|| missing(METADATA))?,
        references: references.ok_or_else(|| missing(REFERENCES))?,
    })
}

enum Place {
    Metadata,
    References,
    Whiteout,
    Elsewhere,
}

fn place(entry: &Entry) -> Result<Place, String> {
    let path = &*entry.path;
    if path.split('/').any(|part| part == "..") {
        return if path.contains(DIRECTORY) {
            Err(format!("has the path {path:?}, which leads elsewhere"))
        } else {
            Ok(Place::Elsewhere)
        };
    }
    Ok(match path {
        METADATA => Place::Metadata,
        REFERENCES => Place::References,
        DIRECTORY if entry.kind != Kind::Directory => return Err(format!("has {DIRECTORY} as a link or file")),
        ".wh.release-manifests"
        | "release-manifests/.wh.release-metadata"
        | "release-manifests/.wh.image-references" => Place::Whiteout,
        _ => Place::Elsewhere,
    })
}
