//! Release signatures as files: stores by digest, and what oc-mirror keeps. A name is a hint of the digest, no more.

use std::path::Path;

use super::archive::digest_of_hex;
use crate::files::read_regular;
use crate::pullspec::Digest;
use crate::signature::Found;
use crate::signature::message::BYTES_MAX;

/// The digest that a path hints at: `sha256=<hex>/signature-N` of a store, `signatures/<tag>-sha256-<hex>` of oc-mirror.
#[must_use]
pub fn hint(path: &Path) -> Option<Digest> {
    let name = path.file_name()?.to_str()?;
    let parent = path.parent()?.file_name()?.to_str()?;
    match parent.strip_prefix("sha256=") {
        Some(hex) => name.strip_prefix("signature-")?.parse::<u32>().ok().and_then(|_| digest_of_hex(hex)),
        None if parent == "signatures" => digest_of_hex(name.rsplit_once("-sha256-")?.1),
        None => None,
    }
}

/// # Errors
/// Why it cannot be read; the text goes on after the path.
pub fn read(path: &Path, digest: Digest) -> Result<Found, String> {
    let bytes = read_regular(path, BYTES_MAX as u64).map_err(|error| crate::files::unreadable(&error))?;
    Ok(Found { digest, bytes: bytes.into(), place: path.display().to_string().into(), in_cluster: false })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_hint_at_digests() {
        let hex = "a".repeat(64);
        for (path, expected) in [
            (format!("s/sha256={hex}/signature-1"), true),
            (format!("s/sha256={hex}/signature-x"), false),
            (format!("s/sha256={hex}/other"), false),
            (format!("working-dir/signatures/4.19.9-x86_64-sha256-{hex}"), true),
            (format!("elsewhere/4.19.9-x86_64-sha256-{hex}"), false),
            ("working-dir/signatures/4.19.9-x86_64-sha256-aa".into(), false),
            (format!("signature-1/{hex}"), false),
        ] {
            assert_eq!(hint(Path::new(&path)).is_some(), expected, "{path}");
        }
    }

    fn found(root: &Path) -> Vec<(Digest, String)> {
        let mut reader = super::super::Reader::default();
        let _ = reader.load(&[root.to_owned()], jiff::Timestamp::UNIX_EPOCH);
        reader.signatures().iter().map(|found| (found.digest, found.place.to_string())).collect()
    }

    #[test]
    fn stores_and_config_maps_below_a_release_directory_are_found() {
        let root = tempfile::tempdir().unwrap();
        let hex = "a".repeat(64);
        let write = |name: &str, text: &str| {
            let path = root.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write(&format!("store/sha256={hex}/signature-1"), "x");
        write(&format!("store/sha256={hex}/signature-2"), &"x".repeat(BYTES_MAX + 1));
        write(&format!("working-dir/signatures/4.19.9-x86_64-sha256-{hex}"), "x");
        let map = format!(
            "kind: ConfigMap\nmetadata: {{name: m, labels: {{release.openshift.io/verification-signatures: ''}}}}\nbinaryData: {{sha256-{hex}-7: YQ==}}\n"
        );
        write("cluster-resources/signature-configmap.yaml", &map);
        write("unlabelled.yaml", &map.replace("release.openshift.io", "example.com"));
        let found = found(root.path());
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found.iter().all(|(digest, _)| digest.hex() == hex), "{found:?}");
        assert!(found.iter().any(|(_, place)| place.ends_with(&format!("signature-configmap.yaml, sha256-{hex}-7"))));
    }

    /// What the real tools wrote, where the data is at hand.
    #[test]
    fn signatures_in_what_the_real_tools_mirrored() {
        let Some(shared) = std::env::var_os("AIRGATE_SHARED") else {
            eprintln!("AIRGATE_SHARED is not set: trees and archives of oc and oc-mirror are not read");
            return;
        };
        let releases = Path::new(&shared).join("data/releases");
        for (tree, expected) in [("oc-mirror", 6), ("to-dir", 1), ("signatures/store", 8)] {
            let found = found(&releases.join(tree));
            assert_eq!(found.len(), expected, "{tree}: {found:?}");
        }
    }
}
