//! skopeo, as another reader of the same registries: what it says a digest is, ours must say too.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::real::Registry;
use crate::testing::sha256;

/// A skopeo that trusts some registries and knows nothing else of this machine.
pub struct Skopeo {
    dir: tempfile::TempDir,
    authfile: Option<PathBuf>,
}

impl Skopeo {
    pub fn trusting(registries: &[&Registry]) -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        fs::create_dir(dir.path().join("certs")).expect("a directory for certificates");
        for (number, registry) in registries.iter().enumerate() {
            let file = dir.path().join(format!("certs/{number}.crt"));
            fs::copy(registry.ca_file(), file).expect("copy a certificate authority");
        }
        let skopeo = Self { dir, authfile: None };
        skopeo.registries_conf("");
        skopeo
    }

    #[must_use]
    pub fn authfile(mut self, file: PathBuf) -> Self {
        self.authfile = Some(file);
        self
    }

    /// The `registries.conf` by which it finds mirrors; none at first.
    pub fn registries_conf(&self, text: &str) {
        fs::write(self.dir.path().join("registries.conf"), text).expect("write registries.conf");
    }

    /// A path that goes away with it.
    pub fn path(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }

    /// The bytes of a manifest or index, from where its mirrors have it.
    pub fn raw(&self, reference: &str) -> Result<Vec<u8>, String> {
        self.run(&["inspect", "--raw", "--cert-dir", &self.path("certs"), reference])
    }

    /// The digest of what [`Self::raw`] reads.
    pub fn digest(&self, reference: &str) -> Result<String, String> {
        self.raw(reference).map(|bytes| sha256(&bytes))
    }

    /// `skopeo copy OPTIONS FROM TO`
    pub fn copy(&self, options: &[&str], from: &str, to: &str) -> Result<(), String> {
        let certs = self.path("certs");
        let trust = ["copy", "--quiet", "--src-cert-dir", &certs, "--dest-cert-dir", &certs];
        self.run(&[&trust, options, &[from, to]].concat()).map(drop)
    }

    /// `skopeo ARGS`: what it printed, or its complaint.
    pub fn run(&self, args: &[&str]) -> Result<Vec<u8>, String> {
        let mut command = Command::new("skopeo");
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("HOME", self.dir.path());
        if let Some(authfile) = &self.authfile {
            command.env("REGISTRY_AUTH_FILE", authfile);
        }
        let output = command
            .args(["--insecure-policy", "--registries-conf", &self.path("registries.conf"), "--tmpdir"])
            .arg(self.dir.path())
            .args(args)
            .output();
        let output = output.expect("run skopeo");
        if output.status.success() { Ok(output.stdout) } else { Err(String::from_utf8_lossy(&output.stderr).into()) }
    }
}
