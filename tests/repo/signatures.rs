//! The rule of proof on what gpg, oc and library-go made and judged.

use std::fs;
use std::path::Path;

use airgate::pullspec::Digest;
use airgate::signature::keyring::Keyring;
use airgate::signature::{Evidence, Found, Keys, RELEASE_REPOSITORY, Signatures, check};
use jiff::Timestamp;

/// The signatures that real tools made, where the data is at hand.
#[test]
fn signatures_of_the_real_tools() {
    let Some(shared) = std::env::var_os("AIRGATE_SHARED") else {
        // Unit tests make the same kinds of keys and messages themselves.
        eprintln!("SKIPPED: signatures made by gpg and oc (set AIRGATE_SHARED)");
        return;
    };
    let root = Path::new(&shared).join("data/releases/signatures");
    let json = |path: &Path| -> serde_json::Value { serde_json::from_slice(&fs::read(path).unwrap()).unwrap() };
    let cases = json(&root.join("cases.json"));
    let cases = cases["cases"].as_array().unwrap();
    assert!(cases.len() > 10);
    for case in cases {
        let name = case["name"].as_str().unwrap();
        let Some(wanted) = Digest::parse(case["digest"].as_str().unwrap_or_default()) else { continue };
        // Some are about how the key of another one is written.
        let of_key = case["variant"].as_str();
        let folder = root.join("variants").join(of_key.unwrap_or(name));
        let verification = json(&folder.join("release-verification.json"));
        let entries = verification["data"].as_object().unwrap().iter();
        let keys = entries.filter(|(key, _)| key.starts_with("verifier-public-key-"));
        let mut keyrings: Vec<_> =
            keys.map(|(key, value)| Keyring::parse(key, value.as_str().unwrap().as_bytes()).unwrap()).collect();
        if of_key.is_some() {
            let file = fs::read(root.join("keys").join(format!("{name}.asc"))).unwrap();
            keyrings = vec![Keyring::parse(name, &file).unwrap()];
        }
        let store = folder.join(format!("sha256={}", wanted.hex()));
        let files: Vec<_> = (1..=9).filter_map(|n| fs::read(store.join(format!("signature-{n}"))).ok()).collect();
        let found = files.iter().enumerate().map(|(index, bytes)| {
            let place = format!("signature-{index}").into();
            (Found { digest: wanted, bytes: bytes.clone().into(), place, in_cluster: true }, check(bytes, &keyrings))
        });
        let found: Vec<_> = found.collect();
        let keys = Keys { keyrings: keyrings.into(), source: "keys".into() };
        let signatures = Signatures::new(Ok(keys), vec![Ok("store".into())], found, Timestamp::MAX);
        let now = Timestamp::from_second(1_796_100_000).unwrap();
        let evidence = signatures.evidence(wanted, &[RELEASE_REPOSITORY], now);
        let (proved, releases) = match &evidence {
            Evidence::Proved(proof) => (true, proof.releases.clone()),
            _ => (false, vec![]),
        };
        assert!(proved || of_key.is_none(), "{name}: {evidence:?}");
        if let Some(expected) = case["careful"]["digest"].as_i64() {
            assert_eq!(proved, expected == 1, "{name}: {evidence:?}");
        }
        let version = case["version"].as_str().unwrap();
        let named = releases.iter().any(|it| it.version.to_string() == version && it.architecture == "amd64");
        if let Some(expected) = case["careful"]["version"].as_i64() {
            assert_eq!(named, expected == 1, "{name}: {evidence:?}");
        }
    }
    for key in ["release-key.asc", "release-key.gpg", "key-crlf.asc", "key-no-blank-line.asc", "key-with-preamble.asc"]
    {
        let ring = Keyring::parse(key, &fs::read(root.join("keys").join(key)).unwrap()).unwrap();
        assert_eq!(ring.fingerprints(), ["F3B9091C6A8F62AE80B20789CB1F224FAAA17C74"], "{key}");
    }
}
