//! The OCI archive that `image/build` makes, read without its tools.

use std::collections::BTreeMap;
use std::env;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use serde_json::Value;

/// Names an archive that was built already, for a process that cannot build one.
pub const GIVEN: &str = "AIRGATE_TEST_IMAGE";

static BUILT: LazyLock<Image> = LazyLock::new(|| {
    let given = env::var_os(GIVEN).map(PathBuf::from);
    Image::read(&given.unwrap_or_else(build))
});

pub struct Image {
    pub archive: PathBuf,
    pub manifest: Value,
    /// Architecture, user, entry point, labels.
    pub config: Value,
    /// Each layer as a tar, the lowest first.
    pub layers: Vec<Vec<u8>>,
}

impl Image {
    pub fn built() -> &'static Self {
        &BUILT
    }

    pub fn read(archive: &Path) -> Self {
        let mut files = BTreeMap::new();
        let mut tar = tar::Archive::new(File::open(archive).expect("open the archive"));
        for entry in tar.entries().expect("read the archive") {
            let mut entry = entry.expect("an entry of the archive");
            let path = entry.path().expect("a path").display().to_string();
            let mut bytes = vec![];
            entry.read_to_end(&mut bytes).expect("read an entry");
            files.insert(path, bytes);
        }
        let file = |name: &str| files.get(name).unwrap_or_else(|| panic!("no {name} in the archive"));
        let json = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes).expect("JSON");
        let blob = |descriptor: &Value| {
            let digest = descriptor["digest"].as_str().expect("a digest");
            file(&format!("blobs/{}", digest.replace(':', "/")))
        };
        let index = json(file("index.json"));
        assert_eq!(index["manifests"].as_array().expect("manifests").len(), 1, "one image: {index:#}");
        let manifest = json(blob(&index["manifests"][0]));
        let config = json(blob(&manifest["config"]));
        let unzip = |bytes: &[u8]| {
            let mut layer = vec![];
            flate2::read::GzDecoder::new(bytes).read_to_end(&mut layer).expect("a gzipped layer");
            layer
        };
        let layers = manifest["layers"].as_array().expect("layers").iter().map(|layer| unzip(blob(layer))).collect();
        Self { archive: archive.to_owned(), manifest, config, layers }
    }
}

/// Runs `image/build`, which says on standard error what it does and what is missing.
pub fn build() -> PathBuf {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/image/build");
    let output = Command::new(script).stderr(Stdio::inherit()).output().expect("run image/build");
    assert!(output.status.success(), "image/build failed: why stands above");
    PathBuf::from(String::from_utf8(output.stdout).expect("a path in UTF-8").trim_end())
}
