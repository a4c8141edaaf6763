//! Release signatures of a cluster and of release directories, verified once and remembered.
//!
//! The rule is the core's ([`crate::signature`]); here is where its inputs come from, and the guard around a
//! library that reads hostile bytes. A signature is verified again only when the keys change.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;

use crate::cluster::{Fact, Missing, Snapshot};
use crate::files;
use crate::objects::release_config_map::{ConfigMap, KEY_PREFIX, ReleaseConfigMap};
use crate::projection::from_value;
use crate::resource::RELEASE_SIGNATURES;
use crate::signature::keyring::Keyring;
use crate::signature::{self, Checked, Found, KEYRINGS_MAX, Keys, Signatures};

/// More than any key file has.
const KEY_FILE_MAX: u64 = 4 << 20;

/// What the files of this site say about signatures; the cluster says the rest.
#[derive(Clone, Debug, Default)]
pub struct FromFiles {
    /// Of the release directories.
    pub found: Arc<[Found]>,
    /// Whether there are release directories.
    pub looked: bool,
    /// `--release-keys FILE`, as it was read.
    pub keys: Option<Arc<KeyFile>>,
}

/// The keys of a file by name, or why it cannot be read.
pub type KeyFile = Result<Vec<(String, Vec<u8>)>, Missing>;

/// A key file: armoured or binary keys, or a ConfigMap with `verifier-public-key-*`.
pub fn read_key_file(path: &Path) -> KeyFile {
    let place = path.display().to_string();
    let missing = |why: String| Missing {
        why: format!("the key file {place} {why}"),
        remedy: "name a file with public keys: --release-keys FILE".into(),
    };
    let bytes = files::read_named(path, KEY_FILE_MAX).map_err(|error| missing(format!("cannot be read: {error}")))?;
    let json = path.extension().is_some_and(|extension| extension == "json");
    let document = str::from_utf8(&bytes)
        .ok()
        .filter(|text| text.contains(KEY_PREFIX))
        .map(|text| if json { files::document::from_json(text) } else { files::document::from_yaml(text) });
    let Some(documents) = document else { return Ok(vec![(place, bytes)]) };
    let mut keys = vec![];
    for document in documents.map_err(&missing)? {
        let map = from_value::<ConfigMap<'_>>(&document).map_err(&missing)?;
        keys.extend(map.keys.into_iter().map(|(name, key)| (name, key.into_bytes())));
    }
    if keys.is_empty() { Err(missing(format!("has no {KEY_PREFIX}*"))) } else { Ok(keys) }
}

/// The signatures that ConfigMap documents hold, as a release directory may.
#[must_use]
pub fn in_documents(documents: &[serde_json::Value], place: &str) -> Vec<Found> {
    let maps = documents.iter().filter(|document| document["kind"] == "ConfigMap");
    let maps = maps.filter_map(|document| from_value::<ConfigMap<'_>>(document).ok()).filter(|map| map.labelled);
    maps.flat_map(|map| found_in(&map, place, false)).collect()
}

fn found_in(map: &ReleaseConfigMap, place: &str, in_cluster: bool) -> Vec<Found> {
    let found = |(key, digest, bytes): &(String, _, Arc<[u8]>)| Found {
        digest: *digest,
        bytes: bytes.clone(),
        place: format!("{place}, {key}").into(),
        in_cluster,
    };
    map.signatures.iter().map(found).collect()
}

/// Verifies, and remembers what it verified under the keys of the last time.
#[derive(Debug, Default)]
pub struct Verifier {
    material: Vec<(String, Vec<u8>)>,
    keys: Option<Result<Keys, Missing>>,
    checked: HashMap<Arc<[u8]>, Checked>,
}

impl Verifier {
    /// Everything known of signatures now.
    pub fn signatures(&mut self, cluster: &Snapshot, files: &FromFiles, now: Timestamp) -> Signatures {
        let keys = key_material(cluster, files).and_then(|(material, source)| self.keys(material, source));
        let mut places = vec![match &cluster.release_signatures {
            Fact::Known(..) | Fact::Absent(_) => Ok(format!("the ConfigMaps of {}", shown_place())),
            Fact::Unknown(missing) => Err(missing.clone()),
        }];
        if files.looked {
            places.push(Ok("the release directories".to_owned()));
        }
        let maps = cluster.release_signatures.known().into_iter().flat_map(|maps| maps.iter());
        let in_cluster = maps.flat_map(|map| found_in(map, &format!("ConfigMap {}", map.name), true));
        let all: Vec<Found> = in_cluster.chain(files.found.iter().cloned()).take(signature::MAX).collect();
        let keyrings = keys.as_ref().map(|keys| keys.keyrings.clone()).unwrap_or_default();
        let mut checked = HashMap::with_capacity(all.len());
        for found in &all {
            let known = self.checked.remove(&found.bytes);
            let entry = checked.entry(found.bytes.clone());
            entry.or_insert_with(|| known.unwrap_or_else(|| guarded(found, &keyrings)));
        }
        self.checked = checked;
        let all = all.into_iter().filter_map(|found| Some((self.checked.get(&found.bytes)?.clone(), found)));
        Signatures::new(keys, places, all.map(|(checked, found)| (found, checked)), now)
    }

    /// Parses keys that are not those of the last time; what was verified under those is forgotten.
    fn keys(&mut self, material: Vec<(String, Vec<u8>)>, source: Arc<str>) -> Result<Keys, Missing> {
        let keys = match &self.keys {
            Some(keys) if self.material == material => keys.clone(),
            _ => {
                self.checked.clear();
                let keys = parse(&material, &source);
                self.material = material;
                self.keys.insert(keys).clone()
            }
        };
        keys.map(|keys| Keys { source, ..keys })
    }
}

fn parse(material: &[(String, Vec<u8>)], source: &Arc<str>) -> Result<Keys, Missing> {
    let missing = |why: String| Missing { why: format!("{source}: {why}"), remedy: REMEDY.into() };
    if material.len() > KEYRINGS_MAX {
        return Err(missing(format!("has more than {KEYRINGS_MAX} {KEY_PREFIX}*")));
    }
    let parse = |(name, key): &(String, Vec<u8>)| {
        catch_unwind(AssertUnwindSafe(|| Keyring::parse(name, key))).unwrap_or_else(|_| Err(failed(name)))
    };
    let keyrings: Result<Vec<_>, _> = material.iter().map(parse).collect();
    Ok(Keys { keyrings: keyrings.map_err(missing)?.into(), source: source.clone() })
}

const REMEDY: &str = "oc get configmap -n openshift-config-managed release-verification -o yaml shows the keys that the CVO uses; \
                      --release-keys FILE gives airgate keys where a cluster has none";

/// Keys by name, and where they are from.
type Material = (Vec<(String, Vec<u8>)>, Arc<str>);

/// The cluster's own keys, which are the CVO's; else those of the file.
fn key_material(cluster: &Snapshot, files: &FromFiles) -> Result<Material, Missing> {
    let why = match &cluster.release_verification {
        Fact::Known(map, _) if !map.keys.is_empty() => {
            let keys = map.keys.iter().map(|(name, key)| (name.clone(), key.clone().into_bytes()));
            return Ok((keys.collect(), format!("ConfigMap {}", map.name).into()));
        }
        Fact::Known(map, _) => format!("ConfigMap {} has no {KEY_PREFIX}*", map.name),
        Fact::Absent(_) => "the cluster has no ConfigMap release-verification".into(),
        Fact::Unknown(missing) => missing.why.clone(),
    };
    match files.keys.as_deref() {
        Some(Ok(keys)) => Ok((keys.clone(), "the file of --release-keys".into())),
        Some(Err(missing)) => Err(missing.clone()),
        None => {
            Err(Missing { why: format!("there is no key to verify signatures with: {why}"), remedy: REMEDY.into() })
        }
    }
}

fn shown_place() -> String {
    let (namespace, label) = (RELEASE_SIGNATURES.namespace.unwrap_or_default(), RELEASE_SIGNATURES.label);
    format!("{namespace} labelled {}", label.unwrap_or_default())
}

/// A panic of the library over hostile bytes is a fault of that signature, not the end of the server.
fn guarded(found: &Found, keyrings: &[Keyring]) -> Checked {
    catch_unwind(AssertUnwindSafe(|| signature::check(&found.bytes, keyrings)))
        .unwrap_or_else(|_| Err(failed(&found.place).into()))
}

fn failed(place: &str) -> String {
    tracing::error!(place, "reading an OpenPGP object failed, which is a bug of airgate: please report it");
    "it could not be read: a decoder failed over it, the log says where".into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::Provenance;
    use crate::pullspec::Digest;
    use crate::signature::testing::{Certificate, Signer, statement};
    use crate::signature::{Evidence, RELEASE_REPOSITORY};

    const DIGEST: &str = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

    fn provenance() -> Provenance {
        Provenance { source: "watch".into(), as_of: Timestamp::UNIX_EPOCH, watched: true }
    }

    fn signed(signer: &Signer) -> Arc<[u8]> {
        signer.sign(&statement(DIGEST, &format!("{RELEASE_REPOSITORY}:4.19.9-x86_64"))).into()
    }

    fn key_file(signer: &Signer) -> FromFiles {
        let keys = Ok(vec![("keys.gpg".to_owned(), signer.certificate(&Certificate::default()))]);
        FromFiles { keys: Some(Arc::new(keys)), ..FromFiles::default() }
    }

    fn evidence(signatures: &Signatures) -> Evidence<'_> {
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        signatures.evidence(Digest::parse(DIGEST).unwrap(), &[RELEASE_REPOSITORY], now)
    }

    #[test]
    fn keys_of_the_cluster_come_before_those_of_the_file_and_new_keys_verify_anew() {
        let signer = Signer::new(1);
        let map = ReleaseConfigMap {
            name: "sigs".into(),
            labelled: true,
            keys: vec![],
            signatures: vec![("sha256-a-1".into(), Digest::parse(DIGEST).unwrap(), signed(&signer))],
        };
        let mut cluster = Snapshot::nothing("test");
        cluster.release_signatures = Fact::Known(vec![Arc::new(map)].into(), provenance());
        let mut verifier = Verifier::default();
        let mut build = |cluster: &Snapshot, files: &FromFiles| verifier.signatures(cluster, files, Timestamp::MAX);

        let none = build(&cluster, &FromFiles::default());
        assert!(matches!(evidence(&none), Evidence::Unknown(missing) if missing.why.contains("no key")));
        let proved = build(&cluster, &key_file(&signer));
        assert!(matches!(evidence(&proved), Evidence::Proved(proof) if proof.place == "ConfigMap sigs, sha256-a-1"));
        let other = build(&cluster, &key_file(&Signer::new(2)));
        assert!(matches!(evidence(&other), Evidence::Invalid(_)));

        let bad = ReleaseConfigMap {
            name: "release-verification".into(),
            keys: vec![("verifier-public-key-x".into(), "words".into())],
            ..ReleaseConfigMap::default()
        };
        cluster.release_verification = Fact::Known(Arc::new(bad), provenance());
        let unreadable = build(&cluster, &key_file(&signer));
        assert!(
            matches!(evidence(&unreadable), Evidence::Unknown(missing) if missing.why.contains("key-x cannot be read"))
        );
    }

    #[test]
    fn what_the_release_directories_hold_proves_too() {
        let signer = Signer::new(1);
        let found = Found {
            digest: Digest::parse(DIGEST).unwrap(),
            bytes: signed(&signer),
            place: "x".into(),
            in_cluster: true,
        };
        let files = FromFiles { found: vec![found].into(), looked: true, ..key_file(&signer) };
        let signatures = Verifier::default().signatures(&Snapshot::nothing("test"), &files, Timestamp::MAX);
        assert!(matches!(evidence(&signatures), Evidence::Proved(_)));
        assert_eq!(signatures.looked_in(), "the release directories");
    }

    #[test]
    fn a_key_file_is_a_key_or_a_config_map() {
        let root = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = root.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        assert_eq!(read_key_file(&write("key.asc", "a key")).unwrap()[0].1, b"a key");
        let map = "kind: ConfigMap\nmetadata: {name: x}\ndata: {verifier-public-key-a: one, other: two}\n";
        let keys = read_key_file(&write("keys.yaml", map)).unwrap();
        assert_eq!(keys, [("verifier-public-key-a".to_owned(), b"one".to_vec())]);
        let json = r#"{"kind":"ConfigMap","data":{"verifier-public-key-b":"one"}}"#;
        assert_eq!(read_key_file(&write("keys.json", json)).unwrap()[0].0, "verifier-public-key-b");
        for (name, text) in [("bad.yaml", "verifier-public-key-: ["), ("none.yaml", "data: {x: verifier-public-key-}")]
        {
            assert!(read_key_file(&write(name, text)).is_err(), "{name}");
        }
        assert!(read_key_file(&root.path().join("nowhere")).unwrap_err().why.contains("nowhere"));
    }
}
