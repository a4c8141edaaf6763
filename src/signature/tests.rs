use pgp::crypto::hash::HashAlgorithm;
use proptest::prelude::*;

use super::testing::*;
use super::*;

const DIGEST: &str = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

fn digest() -> Digest {
    Digest::parse(DIGEST).unwrap()
}

fn reference(tag: &str) -> String {
    format!("{RELEASE_REPOSITORY}:{tag}")
}

fn repositories() -> [&'static str; 1] {
    [RELEASE_REPOSITORY]
}

fn now() -> Timestamp {
    Timestamp::from_second(i64::from(SIGNED_AT) + 60).unwrap()
}

fn signatures(keyrings: Vec<Keyring>, files: &[Vec<u8>]) -> Signatures {
    let found = |(index, bytes): (usize, &Vec<u8>)| {
        let found = Found {
            digest: digest(),
            bytes: bytes.clone().into(),
            place: format!("signature-{}", index + 1).into(),
            in_cluster: true,
        };
        (found, check(bytes, &keyrings))
    };
    let found: Vec<_> = files.iter().enumerate().map(found).collect();
    let keys = Keys { keyrings: keyrings.into(), source: "keys".into() };
    Signatures::new(Ok(keys), vec![Ok("the store".into())], found, now())
}

/// Proved with which releases, or the first reason.
fn verdict(keyrings: Vec<Keyring>, files: &[Vec<u8>]) -> Result<Vec<String>, String> {
    match signatures(keyrings, files).evidence(digest(), &repositories(), now()) {
        Evidence::Proved(proof) => Ok(proof.releases.iter().map(ToString::to_string).collect()),
        Evidence::Invalid(faults) => Err(faults[0].1.clone()),
        other => Err(format!("{other:?}")),
    }
}

fn good() -> String {
    statement(DIGEST, &reference("4.19.9-x86_64"))
}

#[test]
fn every_usual_form_of_a_signature_proves_digest_and_version() {
    let signer = Signer::new(1);
    let forms = [Framing::Plain, Framing::Deflate, Framing::Zlib, Framing::Partial];
    for (framing, v3) in forms.into_iter().flat_map(|framing| [(framing, false), (framing, true)]) {
        for hash in [HashAlgorithm::Sha256, HashAlgorithm::Sha512] {
            let options = Options { v3, hash, framing, ..Options::default() };
            let got = verdict(vec![signer.keyring()], &[signer.sign_as(&good(), &options)]);
            assert_eq!(got, Ok(vec!["4.19.9 for amd64".to_owned()]), "{options:?}");
        }
    }
}

#[test]
fn what_is_not_exactly_one_signed_message_is_no_proof_and_says_why() {
    let signer = Signer::new(1);
    let plain = Options { framing: Framing::Plain, ..Options::default() };
    let [header, literal, signature] = signer.packets(good().as_bytes(), &plain);
    let whole = [&*header, &literal, &signature].concat();
    let other = signer.packets(statement(DIGEST, "q/r:1").as_bytes(), &plain)[1].clone();
    let after = |bytes: Vec<u8>, more: &[u8]| [&*bytes, more].concat();
    let mut nested = header.clone();
    *nested.last_mut().unwrap() = 0;
    for (bytes, expected) in [
        (vec![], "empty"),
        (b"-----BEGIN PGP MESSAGE-----".to_vec(), "armoured"),
        (b"words".to_vec(), "not an OpenPGP message"),
        (signature.clone(), "detached"),
        ([&*literal, &signature].concat(), "packets of the types"),
        ([&*header, &signature].concat(), "packets of the types"),
        ([&*header, &literal].concat(), "packets of the types"),
        ([&*signature, &literal].concat(), "packets of the types"),
        ([&*header, &other, &signature].concat(), "was changed"),
        ([&*nested, &literal, &signature].concat(), "second signature"),
        ([&*header, &*header, &literal, &signature, &signature].concat(), "more than 3 packets"),
        ([&*header, &literal, &literal, &signature].concat(), "more than 3 packets"),
        ([&*header, &literal, &signature, &signature].concat(), "more than 3 packets"),
        ([&*header, &signature, &signature].concat(), "several signatures"),
        (compressed(1, &compressed(1, &whole)), "compressed twice"),
        (compressed(3, &whole), "bzip2"),
        (compressed(9, &whole), "unknown algorithm"),
        (after(whole.clone(), b"\n"), "bytes after the message"),
        (after(compressed(1, &whole), b"\n"), "bytes after the message"),
        (compressed(0, &after(whole.clone(), b"\n")), "bytes after the message"),
        (whole[..whole.len() - 1].to_vec(), "cut off"),
        (compressed(1, &whole)[..200].to_vec(), "cut off"),
        (vec![0x9c; message::BYTES_MAX + 1], "more than 50 KiB"),
        (compressed(1, &vec![0; 1 << 20]), "unfolds to more"),
        (signer.sign_as(&good(), &Options { critical: true, ..Options::default() }), "critical"),
        (signer.sign(""), "no release signature"),
        (signer.sign(&good().replace("atomic", "cosign")), "its type"),
        (signer.sign(&good().replace(r#""type""#, r#""more": 1, "type""#)), "unknown field"),
        (signer.sign(&good().replace(&"a".repeat(64), &"b".repeat(64))), "another image"),
        (Signer::new(2).sign(&good()), "is not in verifier-public-key-test"),
    ] {
        let fault = verdict(vec![signer.keyring()], &[bytes]).unwrap_err();
        assert!(fault.contains(expected), "{expected}: {fault}");
    }
}

#[test]
fn sha1_counts_in_a_key_and_never_in_a_message() {
    let signer = Signer::rsa();
    let ring = || vec![signer.keyring_of(&Certificate { hash: HashAlgorithm::Sha1, ..Certificate::default() })];
    for v3 in [false, true] {
        let signed_by = |hash| signer.sign_as(&good(), &Options { v3, hash, ..Options::default() });
        assert!(verdict(ring(), &[signed_by(HashAlgorithm::Sha256)]).is_ok());
        let fault = verdict(ring(), &[signed_by(HashAlgorithm::Sha1)]).unwrap_err();
        assert!(fault.contains("SHA1"), "{fault}");
    }
}

#[test]
fn a_key_counts_by_what_its_ring_says_of_it() {
    let signer = Signer::new(1);
    let usual = Certificate::default;
    let file = signer.sign(&good());
    for (certificate, expected) in [
        (usual(), None),
        (Certificate { lifetime: Some(86_401), ..usual() }, None),
        (Certificate { lifetime: Some(86_400), ..usual() }, Some("had expired")),
        (Certificate { revoked: true, ..usual() }, Some("was revoked")),
    ] {
        let got = verdict(vec![signer.keyring_of(&certificate)], std::slice::from_ref(&file));
        match expected {
            None => assert!(got.is_ok(), "{certificate:?}: {got:?}"),
            Some(expected) => assert!(got.as_ref().unwrap_err().contains(expected), "{certificate:?}: {got:?}"),
        }
    }
    let no_signer = signer.certificate(&Certificate { may_sign: false, ..usual() });
    assert!(Keyring::parse(NAME, &no_signer).unwrap_err().contains("may sign"));
    assert!(Keyring::parse(NAME, b"words").unwrap_err().contains(NAME));
    assert!(Keyring::parse(NAME, &no_signer[..40]).is_err());
}

#[test]
fn a_ring_of_several_keys_needs_one_of_them_and_every_ring_needs_a_signature() {
    let (first, second) = (Signer::new(1), Signer::new(2));
    let usual = Certificate::default();
    let both = Keyring::parse("both", &[first.certificate(&usual), second.certificate(&usual)].concat()).unwrap();
    assert_eq!(both.fingerprints().len(), 2);
    assert!(verdict(vec![both], &[second.sign(&good())]).is_ok());
    let rings = || vec![first.keyring(), second.keyring()];
    assert!(verdict(rings(), &[first.sign(&good())]).unwrap_err().contains("each key entry needs a signature"));
    assert!(verdict(rings(), &[first.sign(&good()), second.sign(&good())]).is_ok());
    // Versions too must be said under every ring.
    let elsewhere = statement(DIGEST, "example.com/mirror:4.19.9-x86_64");
    assert_eq!(verdict(rings(), &[first.sign(&good()), second.sign(&elsewhere)]), Ok(vec![]));
}

#[test]
fn one_good_signature_among_bad_ones_is_enough_whatever_the_order() {
    let signer = Signer::new(1);
    let (good, bad) = (signer.sign(&good()), Signer::new(2).sign(&good()));
    for files in [[good.clone(), bad.clone()], [bad.clone(), good.clone()]] {
        assert!(verdict(vec![signer.keyring()], &files).is_ok());
    }
    let mut many = vec![bad; PER_DIGEST_MAX];
    many.push(good);
    assert!(verdict(vec![signer.keyring()], &many).is_err(), "only the first {PER_DIGEST_MAX} are looked at");
}

#[test]
fn a_reference_elsewhere_proves_the_digest_only() {
    let signer = Signer::new(1);
    for (reference, expected) in [
        (reference("4.19.9-x86_64"), vec!["4.19.9 for amd64"]),
        (reference("4.19.9-multi"), vec!["4.19.9 for multi"]),
        (reference("latest"), vec![]),
        (format!("{RELEASE_REPOSITORY}@{DIGEST}"), vec![]),
        ("quay.io/openshift-release-dev/ocp-release-nightly:4.19.9-x86_64".into(), vec![]),
        ("evil.example/openshift-release-dev/ocp-release:4.19.9-x86_64".into(), vec![]),
    ] {
        let got = verdict(vec![signer.keyring()], &[signer.sign(&statement(DIGEST, &reference))]);
        assert_eq!(got.unwrap(), expected, "{reference}");
    }
}

#[test]
fn a_signature_that_ends_proves_until_then() {
    let signer = Signer::new(1);
    let file = signer.sign_as(&good(), &Options { lifetime: Some(3600), ..Options::default() });
    let signatures = signatures(vec![signer.keyring()], &[file]);
    let at = |seconds: u32| Timestamp::from_second((SIGNED_AT + seconds).into()).unwrap();
    let evidence = |seconds| signatures.evidence(digest(), &repositories(), at(seconds));
    assert!(matches!(evidence(3599), Evidence::Proved(_)));
    let Evidence::Invalid(faults) = evidence(3600) else { panic!("{:?}", evidence(3600)) };
    assert!(faults[0].1.contains("ended"), "{faults:?}");
    let version = Version::parse("4.19.9").unwrap();
    assert_eq!(signatures.of_version(&version, &repositories(), at(0)), [(digest(), "amd64")]);
    assert_eq!(signatures.of_version(&version, &[], at(0)), []);
    assert_eq!(signatures.of_version(&version, &repositories(), at(3600)), []);
}

#[test]
fn what_was_not_looked_at_is_unknown_and_never_missing() {
    let missing = || Missing { why: "why".into(), remedy: "remedy".into() };
    let keys = || Ok(Keys { keyrings: vec![Signer::new(1).keyring()].into(), source: "keys".into() });
    for (keys, places, expected) in [
        (keys(), vec![Ok("a".to_owned())], Evidence::Missing),
        (keys(), vec![Ok("a".to_owned()), Err(missing())], Evidence::Unknown(missing())),
        (Err(missing()), vec![Ok("a".to_owned())], Evidence::Unknown(missing())),
    ] {
        let signatures = Signatures::new(keys, places, [], now());
        assert_eq!(signatures.evidence(digest(), &repositories(), now()), expected);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// A changed message never proves anything else than the whole one, and never panics.
    #[test]
    fn damage_is_survived(at in 0usize..400, bit in 0u8..8, cut in 0usize..400, framing in 0usize..3) {
        let signer = Signer::new(1);
        let framing = [Framing::Plain, Framing::Deflate, Framing::Partial][framing];
        let mut bytes = signer.sign_as(&good(), &Options { framing, ..Options::default() });
        let (at, cut) = (at % bytes.len(), cut % bytes.len());
        bytes[at] ^= 1 << bit;
        let ring = vec![signer.keyring()];
        if let Ok(releases) = verdict(ring.clone(), &[bytes.clone()]) {
            prop_assert_eq!(releases, ["4.19.9 for amd64"]);
        }
        prop_assert!(verdict(ring, &[bytes[..cut].to_vec()]).is_err());
    }

    #[test]
    fn damaged_keys_are_survived(at in 0usize..300, bit in 0u8..8, cut in 0usize..300) {
        let mut bytes = Signer::new(1).certificate(&Certificate::default());
        let (at, cut) = (at % bytes.len(), cut % bytes.len());
        bytes[at] ^= 1 << bit;
        let _ = Keyring::parse(NAME, &bytes);
        let _ = Keyring::parse(NAME, &bytes[..cut]);
    }
}
