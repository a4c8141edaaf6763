//! Certificates in a mounted Secret, moved as kubelet moves them.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use airgate::tls::self_signed;

/// A mounted Secret as kubelet keeps it.
pub struct SecretVolume {
    dir: PathBuf,
    /// Where the generations come from, a directory each.
    made: tempfile::TempDir,
    generation: u32,
}

impl SecretVolume {
    pub fn new(dir: &Path) -> Self {
        fs::create_dir_all(dir).unwrap();
        let mut volume = Self { dir: dir.to_owned(), made: tempfile::tempdir().unwrap(), generation: 0 };
        volume.prepare();
        volume.publish();
        for name in ["tls.crt", "tls.key"] {
            symlink(Path::new("..data").join(name), dir.join(name)).unwrap();
        }
        volume
    }

    fn source(&self, generation: u32) -> PathBuf {
        self.made.path().join(generation.to_string())
    }

    /// The CA that is in use.
    pub fn ca(&self) -> Vec<u8> {
        fs::read(self.source(self.generation).join("ca.crt")).unwrap()
    }

    /// Makes the next pair and returns its CA.
    pub fn prepare(&mut self) -> Vec<u8> {
        let next = self.source(self.generation + 1);
        self_signed::ensure(&next, &[]).unwrap();
        fs::read(next.join("ca.crt")).unwrap()
    }

    /// kubelet's AtomicWriter: a new directory, a temporary link to it, renamed over `..data`, the old
    /// directory removed.
    pub fn publish(&mut self) {
        let old = self.dir.join(format!("..gen_{}", self.generation));
        self.generation += 1;
        let name = format!("..gen_{}", self.generation);
        let new = self.dir.join(&name);
        fs::create_dir(&new).unwrap();
        for name in ["tls.crt", "tls.key"] {
            fs::copy(self.source(self.generation).join(name), new.join(name)).unwrap();
        }
        symlink(&name, self.dir.join("..data_tmp")).unwrap();
        fs::rename(self.dir.join("..data_tmp"), self.dir.join("..data")).unwrap();
        if old.exists() {
            fs::remove_dir_all(old).unwrap();
        }
    }
}
