use serde_json::{Value, json};

use super::*;
use crate::projection::from_text;
use crate::tls::{MinVersion, server_parts};

fn spec(adherence: &str, profile: Value) -> ApiServerSpec<'static> {
    let object = json!({"spec": {"tlsAdherence": adherence, "tlsSecurityProfile": profile}}).to_string();
    from_text::<crate::objects::api_server::ApiServer<'_>>(&object).unwrap().spec
}

fn strict(profile: Value) -> Followed {
    follow(&spec("StrictAllComponents", profile))
}

#[test]
fn it_is_followed_where_the_cluster_is_strict() {
    let modern = json!({"type": "Modern", "modern": {}});
    for (adherence, followed) in
        [("", false), ("LegacyAdheringComponentsOnly", false), ("StrictAllComponents", true), ("StricterStill", true)]
    {
        let got = follow(&spec(adherence, modern.clone()));
        assert_eq!(got.profile == "Modern", followed, "{adherence:?}: {got:?}");
        assert_eq!(got.parameters == Parameters::default(), !followed, "{adherence:?}");
        assert!(got.not_honoured.is_empty());
    }
}

#[test]
fn each_profile_by_what_is_spoken_then() {
    const ALL: &[&str] = &["X25519MLKEM768", "X25519", "secp256r1", "secp384r1"];
    let custom = |min: &str, ciphers: Value, groups: Value| json!({"type": "Custom", "custom": {"minTLSVersion": min, "ciphers": ciphers, "groups": groups}});
    let p256_rsa = "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256";
    let chacha = "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256";
    for (name, profile, min, suites, groups, words) in [
        ("none", Value::Null, MinVersion::Tls12, 9, ALL, &[][..]),
        ("intermediate", json!({"type": "Intermediate"}), MinVersion::Tls12, 9, ALL, &[]),
        ("modern", json!({"type": "Modern"}), MinVersion::Tls13, 3, ALL, &[]),
        ("old", json!({"type": "Old"}), MinVersion::Tls12, 9, ALL, &["VersionTLS10", "DES-CBC3-SHA"]),
        ("unknown", json!({"type": "Future"}), MinVersion::Tls12, 9, ALL, &["Future, which airgate does not know"]),
        (
            "custom of nothing",
            json!({"type": "Custom"}),
            MinVersion::Tls13,
            3,
            ALL,
            &["no minTLSVersion", "TLS 1.3 only"],
        ),
        (
            "custom",
            custom(
                "VersionTLS12",
                json!(["ECDHE-RSA-AES128-GCM-SHA256", p256_rsa, "ECDHE-ECDSA-CHACHA20-POLY1305"]),
                json!(["secp384r1", "X25519"]),
            ),
            MinVersion::Tls12,
            5,
            &["secp384r1", "X25519"],
            &[],
        ),
        (
            "custom old",
            custom("VersionTLS11", json!([chacha]), Value::Null),
            MinVersion::Tls12,
            4,
            ALL,
            &["VersionTLS11"],
        ),
        (
            "nothing of it",
            custom("VersionTLS12", json!(["AES128-SHA", "\u{7}x"]), json!(["secp521r1"])),
            MinVersion::Tls13,
            3,
            ALL,
            &["AES128-SHA, ", "TLS 1.3 only", "secp521r1", "airgate's own are used"],
        ),
        (
            "some of it",
            custom("VersionTLS13", json!(["TLS_AES_256_GCM_SHA384"]), json!(["secp521r1", "secp256r1"])),
            MinVersion::Tls13,
            3,
            &["secp256r1"],
            &["secp521r1"],
        ),
    ] {
        let got = strict(profile);
        assert_eq!(got.parameters.min_version, min, "{name}: {got:?}");
        assert_eq!(got.parameters.cipher_suites.len(), suites, "{name}: {got:?}");
        assert_eq!(got.parameters.groups, groups, "{name}");
        let told = got.not_honoured.join("; ");
        assert!(words.iter().all(|word| told.contains(word)), "{name}: {told}");
        assert_eq!(told.is_empty(), words.is_empty(), "{name}: {told}");
        assert!(!told.contains('\u{7}'), "{told}");
        server_parts(&got.parameters).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

#[test]
fn whatever_is_written_there_it_can_be_served_with() {
    use proptest::prelude::*;
    let names: Vec<String> = TLS13.into_iter().chain(TLS12).chain(OLD).chain(GROUPS).map(str::to_owned).collect();
    let some = || proptest::collection::vec(proptest::sample::select(names.clone()), 0..6);
    let versions =
        proptest::sample::select(vec!["", "VersionTLS10", "VersionTLS11", "VersionTLS12", "VersionTLS13", "x"]);
    let kinds = proptest::sample::select(vec!["", "Old", "Intermediate", "Modern", "Custom", "x"]);
    proptest!(|(kind in kinds, min in versions, ciphers in some(), groups in some())| {
        let profile = json!({"type": kind, "custom": {"minTLSVersion": min, "ciphers": ciphers, "groups": groups}});
        let got = strict(profile);
        prop_assert!(!got.parameters.groups.is_empty());
        prop_assert!(TLS13.iter().all(|suite| got.parameters.cipher_suites.contains(suite)));
        prop_assert!(server_parts(&got.parameters).is_ok());
    });
}

#[test]
fn a_group_that_no_api_server_has_leaves_it_reachable() {
    let got =
        strict(json!({"type": "Custom", "custom": {"minTLSVersion": "VersionTLS13", "groups": ["SecP256r1MLKEM768"]}}));
    assert_eq!(got.parameters.groups, Parameters::default().groups);
    assert!(got.not_honoured.iter().any(|words| words.contains("SecP256r1MLKEM768")), "{got:?}");
}
