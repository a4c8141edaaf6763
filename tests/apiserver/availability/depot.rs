//! What airgate leans on and must not need: the site's registry, and a disk.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::Scenario;
use super::calls::{Call, mix};
use super::ground::{Ground, Special};
use crate::images::Recipe;
use crate::lookups::{Mirrored, SOURCE};
use crate::server::eventually;

const DISK: Scenario = Scenario::harmless("disk full: log, cache and temporary files");
const SILENT: Scenario = Scenario::harmless("registry accepts connections and never answers");
const STOPPED: Scenario = Scenario::harmless("registry stopped");

#[test]
fn a_full_disk_and_a_dead_registry_cost_no_call() {
    let on_mirror = Recipe::new("4.18.20", &["4.18.11", "4.18.12"]).build();
    let too = Recipe::new("4.18.21", &["4.18.12", "4.18.20"]).build();
    let Mirrored { mut registry, gate, guard } = Mirrored::start(&[&on_mirror, &too]);
    let mut ground = Ground::on(guard);
    let image = |digest: &str| format!("{SOURCE}@{digest}");
    let missing = |digit: &str| Call::to_unread(&image(&format!("sha256:{}", digit.repeat(64))));

    let disk = SmallDisk::below(ground.guard.testbed.dir());
    let cache = Some(disk.dir.join("cache"));
    ground.replicas(vec![Special { cache, around: Some(disk.script()), ..Special::default() }]);
    // One that was read before the disk is full, one that is read when nothing can be kept any more.
    let mut calls = mix();
    calls.push(Call::to_next(&image(on_mirror.digest())));
    DISK.run_with(&mut ground, calls, |ground, stream| {
        disk.fill();
        let later = Call::to_next(&image(too.digest()));
        later.passes(&ground.guard.api);
        stream.goes_on_for(900);
        assert!(ground.replicas[0].ready());
    });
    ground.guard.dry_run(&serde_json::json!({"spec": {"desiredUpdate": {"image": "a"}}}));

    ground.replicas(vec![Special::default(), Special::default()]);
    let with = |call: Call| {
        let mut calls: Vec<Call> = (0..4).flat_map(|_| mix()).collect();
        calls.push(call);
        calls
    };
    SILENT.run_with(&mut ground, with(missing("d")), |_, stream| {
        gate.set(false);
        stream.goes_on_for(900);
        gate.set(true);
    });
    STOPPED.run_with(&mut ground, with(missing("e")), |_, _| registry.stop());
}

/// A file system of its own for one process, small, and full when the test says so.
struct SmallDisk {
    dir: std::path::PathBuf,
    /// Outside of it.
    trigger: std::path::PathBuf,
    report: std::path::PathBuf,
}

impl SmallDisk {
    fn below(dir: &Path) -> Self {
        let disk = Self { dir: dir.join("disk"), trigger: dir.join("disk.fill"), report: dir.join("disk.full") };
        fs::create_dir(&disk.dir).expect("a directory to mount on");
        disk
    }

    /// Mounts it where only the process sees it, which takes root, or a user namespace in which it is root. What the
    /// process logs goes there, too.
    fn script(&self) -> String {
        let alone = if may(&["-m"]) { "-m" } else { "-rm" };
        assert!(may(&[alone]), "no mount namespace: run as root, or allow unprivileged user namespaces");
        let (dir, trigger, report) = (self.dir.display(), self.trigger.display(), self.report.display());
        format!(
            r#"exec unshare {alone} sh -c '
mount -t tmpfs -o size=1m tmpfs "{dir}" && mkdir "{dir}/cache" || exit 1
(
  while [ ! -e "{trigger}" ]; do sleep 0.1; done
  cat /dev/zero > "{dir}/fill" 2>/dev/null
  if echo x > "{dir}/more"; then exit 1; fi 2>/dev/null
  touch "{report}"
) &
exec env TMPDIR="{dir}" "$@" > "{dir}/log" 2>&1' sh "$@""#
        )
    }

    fn fill(&self) {
        fs::write(&self.trigger, "").expect("ask for a full disk");
        eventually("the disk is full", || self.report.exists().then_some(()));
    }
}

fn may(flags: &[&str]) -> bool {
    let mount = "mount -t tmpfs tmpfs /tmp";
    Command::new("unshare").args(flags).args(["sh", "-c", mount]).output().is_ok_and(|output| output.status.success())
}
