//! A clock that is set while airgate runs: what time measures is not what the clock says.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;

use super::ground::{Ground, Special};
use super::{ANY, NONE, Scenario};
use crate::api::VERSION;
use crate::guard::Site;
use crate::server::eventually;

/// Cautious: a connection to the API server that must be opened anew meanwhile finds a certificate that is not valid
/// yet, or has expired.
const CLOCK: Scenario = Scenario {
    name: "the clock jumps a day forward, a day back, ten years forward",
    failed: NONE,
    cautious: ANY,
    away: NONE,
};

#[test]
fn a_clock_that_jumps_changes_no_verdict() {
    let mut ground = Ground::start();
    let clock = Clock::new(ground.guard.testbed.dir());
    ground.replicas(vec![Special { environment: clock.environment(), ..Special::default() }]);
    set_override(&ground);
    assert_eq!(overridden(&ground), 200);
    CLOCK.run(&mut ground, |ground, stream| {
        for (offset, days) in [("+1d", 1), ("-1d", -1), ("+3650d", 3650)] {
            clock.jump(ground, stream, offset, days * 24 * 3600);
        }
    });
    let log = ground.replicas[0].log();
    assert!(!log.contains("panic"), "{log}");
}

/// One step that is open for an hour from now.
fn set_override(ground: &Ground) {
    let expires = jiff::Timestamp::now() + jiff::SignedDuration::from_hours(1);
    let image = Site::new().unknown.image;
    let (_, digest) = image.split_once('@').expect("a pullspec");
    let entry = json!({"policy": "upgrade-path", "from": "4.18.12", "target": digest, "reason": "a test",
        "expires": expires.to_string()});
    let annotations = json!({"airgate.io/override": entry.to_string()});
    ground.guard.api.merge(VERSION, &json!({"metadata": {"annotations": annotations}})).success();
}

/// The code of the answer to that step.
fn overridden(ground: &Ground) -> u16 {
    ground.guard.dry_run(&json!({"spec": {"desiredUpdate": {"image": Site::new().unknown.image}}})).code
}

/// Read by libfaketime in the process that it is loaded into.
struct Clock {
    file: PathBuf,
}

impl Clock {
    fn new(dir: &Path) -> Self {
        let clock = Self { file: dir.join("clock") };
        clock.set("+0");
        clock
    }

    fn set(&self, offset: &str) {
        // Replaced and not overwritten: it is read all the time.
        let new = self.file.with_extension("new");
        fs::write(&new, format!("{offset}\n")).expect("write the clock");
        fs::rename(&new, &self.file).expect("set the clock");
    }

    fn environment(&self) -> Vec<(&'static str, String)> {
        let library = fs::read_dir("/usr/lib")
            .expect("/usr/lib")
            .flatten()
            .map(|entry| entry.path().join("faketime/libfaketimeMT.so.1"))
            .find(|path| path.exists());
        let library = library.expect("libfaketimeMT.so.1: apt-get install faketime");
        vec![
            ("LD_PRELOAD", library.display().to_string()),
            ("FAKETIME_TIMESTAMP_FILE", self.file.display().to_string()),
            ("FAKETIME_NO_CACHE", "1".to_owned()),
            // Who sets the clock does not set the time since the start.
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
            ("DONT_FAKE_MONOTONIC", "1".to_owned()),
        ]
    }

    fn jump(&self, ground: &Ground, stream: &super::calls::Stream, offset: &str, seconds: i64) {
        self.set(offset);
        let shown = || -> Option<i64> {
            let status = ground.replicas[0].statusz();
            let now: jiff::Timestamp = status["now"].as_str()?.parse().ok()?;
            Some(now.as_second() - jiff::Timestamp::now().as_second())
        };
        eventually("airgate's clock has jumped", || ((shown()? - seconds).abs() < 60).then_some(()));
        assert_eq!(overridden(ground), 403, "an override lives by the clock, {offset}");
        stream.goes_on_for(500);
        assert!(ground.replicas[0].ready());
        self.set("+0");
        eventually("airgate's clock is right again", || (shown()?.abs() < 60).then_some(()));
        assert_eq!(overridden(ground), 200, "after {offset}");
    }
}
