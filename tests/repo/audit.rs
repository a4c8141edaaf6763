//! `airgate audit`: exit codes, the table, and what scripts read.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::run::airgate;

const STATE: &str = "policies/sample/state";
const RELEASES: [&str; 2] = ["--releases", "policies/sample/releases"];
const OLD: &str =
    "registry.example:5000/ocp/release@sha256:bb88f6236b1b6dabafe87c6868013212108dc6c04e940782e44c6fa62fd7f36e";

const DONE: &str =
    "registry.example:5000/ocp/release@sha256:6523aa08972a32d28db831a683de1a3bee21c39e79cb3e19c39edd6fc2d59dac";

/// The sample site with this image in spec.desiredUpdate.
fn site(image: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for file in fs::read_dir(STATE).unwrap() {
        let path = file.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        let text = if path.ends_with("clusterversion.yaml") { text.replacen(DONE, image, 1) } else { text };
        fs::write(dir.path().join(path.file_name().unwrap()), text).unwrap();
    }
    dir
}

fn audit(state: &Path, more: &[&str]) -> (i32, String) {
    let state = state.to_str().unwrap();
    let args = ["audit", "--state", state, "--now", "2026-12-01T12:00:00Z"];
    let output = airgate(&args.iter().chain(&RELEASES).chain(more).copied().collect::<Vec<_>>());
    (output.code, format!("{}{}", output.stdout, output.stderr))
}

#[test]
fn exit_codes_and_the_table_say_what_was_found() {
    let clean = site(DONE);
    let (code, text) = audit(clean.path(), &[]);
    assert!(code == 0 && text.contains("nothing found"), "{code} {text}");

    let bad = site(OLD);
    let (code, text) = audit(bad.path(), &[]);
    assert_eq!(code, 1, "{text}");
    let row = text.lines().nth(1).unwrap();
    assert_eq!(
        row.split_whitespace().collect::<Vec<_>>()[..5],
        ["deny", "upgrade-path", "ClusterVersion/version", "4.21.9", "cannot"],
        "{text}"
    );
    assert!(text.contains("works:") && text.ends_with("1 finding, 0 facts missing\n"), "{text}");

    for format in ["json", "yaml"] {
        let (code, text) = audit(bad.path(), &["-o", format]);
        let mut documents = airgate::files::document::from_yaml(&text).unwrap();
        let report: Value = documents.remove(0);
        assert_eq!(code, 1);
        let found = &report["findings"][0];
        assert_eq!(
            (&found["policy"], &found["outcome"], &found["mode"]),
            (&"upgrade-path".into(), &"deny".into(), &"deny".into())
        );
        assert!(OLD.ends_with(found["about"].as_str().unwrap()), "{text}");
        assert_eq!(report["missing"].as_array().map(Vec::len), Some(0), "{text}");
    }

    // The server's mode is not asked, a policy's is: it is not judged at all.
    let config = bad.path().join("config");
    let set =
        |text: &str| fs::write(&config, format!("apiVersion: airgate.io/v1alpha1\nkind: Config\n{text}\n")).unwrap();
    let config = config.to_str().unwrap().to_owned();
    set("mode: audit");
    assert_eq!(audit(bad.path(), &["--config", &config]).0, 1);
    set("policies: {upgrade-path: {mode: 'off'}}");
    assert_eq!(audit(bad.path(), &["--config", &config]).0, 0);

    let nothing = tempfile::tempdir().unwrap();
    let (code, text) = audit(nothing.path(), &[]);
    assert!(code == 3 && text.contains("not audited for want of ClusterVersion: "), "{code} {text}");
    let unknown = site(&format!("r.example/r@sha256:{}", "9".repeat(64)));
    let (code, text) = audit(unknown.path(), &[]);
    assert!(code == 3 && text.contains("unknown"), "{code} {text}");
}
