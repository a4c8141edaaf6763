//! The sample site as files.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// Embedded, so that the demo needs nothing but the binary.
macro_rules! sample {
    ($($path:literal),* $(,)?) => {
        &[$(($path, include_str!(concat!("../../../policies/sample/", $path)))),*]
    };
}

const FILES: &[(&str, &str)] = sample![
    "state/clusterversion.yaml",
    "state/configmaps.yaml",
    "state/infrastructure.yaml",
    "state/internalreleaseimage.yaml",
    "state/machineconfignodes.yaml",
    "state/nodes.yaml",
    "state/machineconfigpools.yaml",
    "state/machineconfigs.yaml",
    "releases/catalog.yaml",
];

pub struct Site {
    pub dir: PathBuf,
}

impl Site {
    /// Writes what is missing of the sample.
    pub fn write(dir: Option<PathBuf>) -> Result<Self> {
        let dir = match dir {
            Some(dir) => dir,
            None => fresh()?,
        };
        for (path, text) in FILES {
            let path = dir.join(path);
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent).with_context(|| parent.display().to_string())?;
            }
            if !path.exists() {
                fs::write(&path, text).with_context(|| path.display().to_string())?;
            }
        }
        Ok(Self { dir: fs::canonicalize(dir)? })
    }

    pub fn state(&self) -> PathBuf {
        self.dir.join("state")
    }

    pub fn releases(&self) -> PathBuf {
        self.dir.join("releases")
    }

    pub fn certs(&self) -> PathBuf {
        self.dir.join("certs")
    }

    /// Leaves the last review for whoever wants to send one with curl.
    pub fn keep_review(&self, review: &serde_json::Value) -> Result<()> {
        let path = self.dir.join("review.json");
        fs::write(&path, format!("{review:#}\n")).with_context(|| path.display().to_string())
    }

    pub fn how_to_go_on(&self) -> String {
        let airgate = std::env::current_exe().unwrap_or_else(|_| "airgate".into());
        let (airgate, dir) = (airgate.display(), self.dir.display());
        format!(
            "How to go on:\n\
             - edit a file in {dir}, for instance a `previous` in releases/catalog.yaml, and see the verdict change:\n    \
               {airgate} demo --dir {dir}\n\
             - ask before you act, no server needed:\n    \
               {airgate} check upgrade --to 4.22.3 --state {dir}/state --releases {dir}/releases\n\
             - serve it, and send the last of these reviews with curl:\n    \
               {airgate} serve --state {dir}/state --releases {dir}/releases --self-signed {dir}/certs\n    \
               curl --cacert {dir}/certs/ca.crt -H 'Content-Type: application/json' --data @{dir}/review.json https://localhost:8443/validate\n\
             - a real cluster: follow it, and register, under a name HOST that its API server can reach\n    \
               {airgate} certs --dir {dir}/host --name HOST\n    \
               {airgate} serve --kubeconfig ~/.kube/config --releases DIR --tls-dir {dir}/host\n    \
               {airgate} manifests --url https://HOST:8443 --ca-file {dir}/host/ca.crt | oc apply -f -"
        )
    }
}

/// A directory nobody else has: created here, so never one that somebody prepared.
fn fresh() -> Result<PathBuf> {
    let base = std::env::temp_dir();
    let candidates = (0..100).map(|n| {
        base.join(format!(
            "airgate-demo-{}{}",
            std::process::id(),
            if n == 0 { String::new() } else { format!("-{n}") }
        ))
    });
    for dir in candidates {
        match create_private(&dir) {
            Ok(()) => return Ok(dir),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error).with_context(|| dir.display().to_string()),
        }
    }
    anyhow::bail!("no free name for a directory in {}: give one with --dir", base.display())
}

fn create_private(dir: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new().mode(0o700).create(dir)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_the_sample_is_embedded() {
        let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("policies/sample");
        for folder in ["state", "releases"] {
            for entry in fs::read_dir(sample.join(folder)).unwrap() {
                let name = format!("{folder}/{}", entry.unwrap().file_name().to_str().unwrap());
                assert!(FILES.iter().any(|(path, _)| *path == name), "{name} is missing from FILES");
            }
        }
    }
}
