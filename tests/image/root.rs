//! The unpacked image, and processes that have nothing but it.

use std::env;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::archive::{GIVEN, Image};
use crate::server::Watchdog;

/// Who the image runs as.
pub const USER: u32 = 65532;

/// A root directory of its own; dropping it ends what was started in it.
pub struct Root {
    pub watchdog: Watchdog,
    dir: PathBuf,
}

impl Root {
    pub fn unpacked() -> Self {
        let dir = tempfile::Builder::new().prefix("airgate-image-").tempdir().expect("a temporary directory").keep();
        let watchdog = Watchdog::over(&dir);
        let root = Self { watchdog, dir };
        fs::create_dir(root.path("")).expect("the root directory");
        fs::set_permissions(root.path(""), fs::Permissions::from_mode(0o755)).expect("as a runtime makes it");
        for layer in &Image::built().layers {
            let mut tar = tar::Archive::new(&layer[..]);
            tar.set_preserve_permissions(true);
            tar.set_preserve_ownerships(true);
            tar.unpack(root.path("")).expect("unpack a layer");
        }
        root
    }

    pub fn path(&self, inside: &str) -> PathBuf {
        self.dir.join("root").join(inside.trim_start_matches('/'))
    }

    pub fn log(&self) -> PathBuf {
        self.dir.join("log")
    }

    /// A directory mounted for it to write to, as an emptyDir.
    pub fn writable(&self, inside: &str) {
        fs::create_dir_all(self.path(inside)).expect("a directory");
        chown(self.path(inside), Some(USER), Some(USER)).expect("give it to the user");
    }

    /// A file that is mounted for it to read.
    pub fn mounted(&self, inside: &str, text: &str) {
        let path = self.path(inside);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
        fs::write(path, text).expect("write a file");
    }

    /// The entry point with these arguments, as the image's user, without an environment.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new("chroot");
        command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        command.args([&format!("--userspec={USER}:{USER}"), "--groups="]).arg(self.path(""));
        let entry = Image::built().config["config"]["Entrypoint"].as_array().expect("an entry point").iter();
        command.args(entry.map(|word| word.as_str().expect("a word"))).args(args);
        command
    }

    /// What it printed; the exit code is the caller's to judge.
    pub fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().expect("run chroot")
    }

    pub fn success(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert!(output.status.success(), "airgate {args:?}: {output:?}");
        String::from_utf8(output.stdout).expect("airgate prints UTF-8")
    }

    /// Every path outside of these directories, with its size.
    pub fn tree(&self, without: &[&str]) -> Vec<(PathBuf, u64)> {
        let mut found = vec![];
        let mut open = vec![self.path("")];
        let without: Vec<_> = without.iter().map(|inside| self.path(inside)).collect();
        while let Some(dir) = open.pop() {
            for entry in fs::read_dir(dir).expect("list a directory") {
                let path = entry.expect("an entry").path();
                let metadata = fs::symlink_metadata(&path).expect("a file's metadata");
                if metadata.is_dir() && !without.contains(&path) {
                    open.push(path.clone());
                }
                found.push((path, if metadata.is_dir() { 0 } else { metadata.len() }));
            }
        }
        found.sort();
        found
    }
}

/// Runs a test as root, which chroot, other owners and port 53 need. Another user than root gets a user namespace with
/// all of that and a network of its own, by buildah, which needs the same for its own work.
pub fn as_root(test: &str, run: impl FnOnce()) {
    if fs::metadata("/proc/self").expect("this process").uid() == 0 {
        return run();
    }
    assert!(env::var_os(GIVEN).is_none(), "buildah unshare did not make this process root");
    let image: &Path = &Image::built().archive;
    let output = Command::new("buildah")
        .args(["unshare", "unshare", "--net", "sh", "-c", "ip link set lo up && exec \"$@\"", "sh"])
        .arg(env::current_exe().expect("this test binary"))
        .args(["--exact", test, "--nocapture"])
        .env(GIVEN, image)
        .output()
        .expect("run buildah unshare");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success() && out.contains("1 passed"), "{test} in a user namespace: {out}\n{err}");
}
