//! docs/install.md: the image is built and brought to a registry, and what is there is the image.

#[path = "../apiserver/documents/page.rs"]
mod page;
#[expect(dead_code, reason = "the pages on a cluster use the rest")]
#[path = "../apiserver/documents/walk.rs"]
mod walk;

use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;

use page::Page;
use walk::{Then, Walk};

use crate::archive::{GIVEN, Image};
use crate::real::{Options, Registry};
use crate::server::Watchdog;

#[test]
fn the_image_is_built_and_brought_to_the_site() {
    if env::var_os(GIVEN).is_some() {
        return; // as in contents.rs: this process cannot build
    }
    let registry = Registry::start(Options::default());
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("home");
    let watchdog = Watchdog::over(&home);
    let spawn = |command: &mut Command, log: &Path| watchdog.spawn(command, log);
    let mut walk = Walk::with(&[], &home, &spawn);
    walk.dir = env!("CARGO_MANIFEST_DIR").into();
    // The person has Rust, trusts the site's registry, and takes images that nobody signed.
    for (variable, default) in [("CARGO_HOME", ".cargo"), ("RUSTUP_HOME", ".rustup")] {
        let given = env::var(variable).unwrap_or_else(|_| format!("{}/{default}", env::var("HOME").unwrap()));
        walk.set(variable, given);
    }
    // How this run builds is how the person builds: else it is another image.
    for (variable, value) in env::vars().filter(|(variable, _)| variable.starts_with("CARGO_PROFILE_")) {
        walk.set(&variable, value);
    }
    let config = Path::new(&walk.environment["HOME"]).join(".config/containers");
    let trusted = config.join("certs.d").join(registry.host());
    fs::create_dir_all(&trusted).unwrap();
    fs::copy(registry.ca_file(), trusted.join("ca.crt")).unwrap();
    fs::write(config.join("policy.json"), r#"{"default": [{"type": "insecureAcceptAnything"}]}"#).unwrap();

    let image = Image::built();
    let archive = image.archive.strip_prefix(&walk.dir).unwrap().display().to_string();
    walk.through(
        &Page::read("install.md"),
        &[("ARCHIVE=", Then::Set(archive)), ("REGISTRY=", Then::Set(registry.host()))],
    );
    let stored = format!("docker://{}/airgate/airgate:{}", registry.host(), env!("CARGO_PKG_VERSION"));
    let (code, manifest, why) = walk.run(&format!("skopeo inspect --raw {stored}"));
    assert_eq!(code, 0, "{why}");
    assert_eq!(serde_json::from_str::<serde_json::Value>(&manifest).unwrap(), image.manifest);
}
