//! OpenShift's TLS security profile as what this server speaks: one pure function.
//!
//! Invariants: the result can always be built and reached (a version, a cipher suite and a group are left, TLS 1.3 is
//! always spoken); what could not be honoured is named; nothing weaker than rustls has is ever spoken.

use rustls::crypto::SupportedKxGroup;
use rustls::crypto::aws_lc_rs::{ALL_CIPHER_SUITES, DEFAULT_CIPHER_SUITES, DEFAULT_KX_GROUPS, kx_group};
use rustls::{ProtocolVersion, SupportedCipherSuite};
use serde::Serialize;

use super::MinVersion;
use crate::objects::api_server::{ApiServerSpec, CustomProfile};

/// What is negotiated from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Parameters {
    pub min_version: MinVersion,
    /// Names as IANA has them. Those of TLS 1.3 are always all there.
    pub cipher_suites: Vec<&'static str>,
    pub groups: Vec<&'static str>,
}

/// [`Parameters`], where they come from and what is missing in them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Followed {
    /// The profile by its name, or why none is followed.
    pub profile: String,
    #[serde(flatten)]
    pub parameters: Parameters,
    /// What the profile asks for and this server does not have, in words.
    pub not_honoured: Vec<String>,
}

/// A profile written out.
struct Written<'a> {
    name: &'static str,
    min_version: &'a str,
    ciphers: Vec<&'a str>,
    groups: Vec<&'a str>,
}

const TLS13: [&str; 3] = ["TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"];
const TLS12: [&str; 6] = [
    "ECDHE-ECDSA-AES128-GCM-SHA256",
    "ECDHE-RSA-AES128-GCM-SHA256",
    "ECDHE-ECDSA-AES256-GCM-SHA384",
    "ECDHE-RSA-AES256-GCM-SHA384",
    "ECDHE-ECDSA-CHACHA20-POLY1305",
    "ECDHE-RSA-CHACHA20-POLY1305",
];
/// What `Old` adds: none of it is in rustls.
const OLD: [&str; 15] = [
    "ECDHE-ECDSA-AES128-SHA256",
    "ECDHE-RSA-AES128-SHA256",
    "ECDHE-ECDSA-AES128-SHA",
    "ECDHE-RSA-AES128-SHA",
    "ECDHE-ECDSA-AES256-SHA384",
    "ECDHE-RSA-AES256-SHA384",
    "ECDHE-ECDSA-AES256-SHA",
    "ECDHE-RSA-AES256-SHA",
    "AES128-GCM-SHA256",
    "AES256-GCM-SHA384",
    "AES128-SHA256",
    "AES256-SHA256",
    "AES128-SHA",
    "AES256-SHA",
    "DES-CBC3-SHA",
];
const GROUPS: [&str; 4] = ["X25519MLKEM768", "X25519", "secp256r1", "secp384r1"];

impl Default for Parameters {
    fn default() -> Self {
        Self {
            min_version: MinVersion::Tls12,
            cipher_suites: DEFAULT_CIPHER_SUITES.iter().filter_map(suite_name).collect(),
            groups: DEFAULT_KX_GROUPS.iter().filter_map(|group| group_name(*group)).collect(),
        }
    }
}

impl Followed {
    /// airgate's own defaults.
    #[must_use]
    pub fn defaults(why: impl Into<String>) -> Self {
        Self { profile: why.into(), parameters: Parameters::default(), not_honoured: vec![] }
    }
}

impl Default for Followed {
    fn default() -> Self {
        Self::defaults("airgate's own defaults")
    }
}

/// What the APIServer `cluster` asks of a component that OpenShift does not name one by one.
#[must_use]
pub fn follow(spec: &ApiServerSpec<'_>) -> Followed {
    match &*spec.tls_adherence {
        "" => return Followed::defaults("airgate's own defaults: spec.tlsAdherence is not set"),
        lax @ "LegacyAdheringComponentsOnly" => {
            return Followed::defaults(format!("airgate's own defaults: spec.tlsAdherence is {lax}"));
        }
        // The strict value, and whatever a later release may invent.
        _ => {}
    }
    let mut not_honoured = vec![];
    let written = written(spec, &mut not_honoured);
    let parameters = parameters(&written, &mut not_honoured);
    Followed { profile: written.name.to_owned(), parameters, not_honoured }
}

fn written<'a>(spec: &'a ApiServerSpec<'_>, not_honoured: &mut Vec<String>) -> Written<'a> {
    let all = |rest: &[&'static str]| TLS13.into_iter().chain(TLS12).chain(rest.iter().copied()).collect();
    let groups = || GROUPS.to_vec();
    let intermediate =
        || Written { name: "Intermediate", min_version: "VersionTLS12", ciphers: all(&[]), groups: groups() };
    let profile = &spec.tls_security_profile;
    match &*profile.kind {
        "" | "Intermediate" => intermediate(),
        "Modern" => Written { name: "Modern", min_version: "VersionTLS13", ciphers: TLS13.to_vec(), groups: groups() },
        "Old" => Written { name: "Old", min_version: "VersionTLS10", ciphers: all(&OLD), groups: groups() },
        "Custom" => {
            let CustomProfile { min_tls_version, ciphers, groups } = &profile.custom;
            let texts = |list: &'a [crate::objects::Str<'_>]| list.iter().map(|text| &**text).collect();
            Written { name: "Custom", min_version: min_tls_version, ciphers: texts(ciphers), groups: texts(groups) }
        }
        unknown => {
            not_honoured.push(format!("the profile {unknown}, which airgate does not know: Intermediate is used"));
            intermediate()
        }
    }
}

fn parameters(written: &Written<'_>, not_honoured: &mut Vec<String>) -> Parameters {
    let mut min_version = match written.min_version {
        "VersionTLS13" => MinVersion::Tls13,
        "VersionTLS12" => MinVersion::Tls12,
        older => {
            let older = if older.is_empty() { "no minTLSVersion" } else { older };
            not_honoured.push(format!("{older}: the oldest that airgate speaks is TLS 1.2"));
            MinVersion::Tls12
        }
    };
    let mut chosen: Vec<&'static SupportedCipherSuite> = vec![];
    let mut lacking = vec![];
    for name in &written.ciphers {
        match ALL_CIPHER_SUITES.iter().find(|suite| goes_by(suite, name)) {
            Some(suite) if !chosen.iter().any(|known| known.suite() == suite.suite()) => chosen.push(suite),
            Some(_) => {}
            None => lacking.push(*name),
        }
    }
    if !lacking.is_empty() {
        not_honoured.push(format!("ciphers that airgate does not have: {}", shown(&lacking)));
    }
    let of = |version| move |suite: &&&SupportedCipherSuite| suite.version().version == version;
    let tls12: Vec<_> = chosen.iter().filter(of(ProtocolVersion::TLSv1_2)).copied().collect();
    if min_version == MinVersion::Tls12 && tls12.is_empty() {
        not_honoured.push(
            "TLS 1.2: airgate has none of the ciphers that are allowed for it, so it speaks TLS 1.3 only".to_owned(),
        );
        min_version = MinVersion::Tls13;
    }
    // OpenShift does not configure those of TLS 1.3: they are always on. The profile's order first.
    let mut suites: Vec<_> = chosen.iter().filter(of(ProtocolVersion::TLSv1_3)).copied().collect();
    for suite in DEFAULT_CIPHER_SUITES.iter().filter(|suite| suite.version().version == ProtocolVersion::TLSv1_3) {
        if !suites.iter().any(|known| known.suite() == suite.suite()) {
            suites.push(suite);
        }
    }
    if min_version == MinVersion::Tls12 {
        suites.extend(tls12);
    }
    Parameters {
        min_version,
        cipher_suites: suites.into_iter().filter_map(suite_name).collect(),
        groups: groups(&written.groups, not_honoured),
    }
}

fn groups(wanted: &[&str], not_honoured: &mut Vec<String>) -> Vec<&'static str> {
    let defaults = || Parameters::default().groups;
    if wanted.is_empty() {
        return defaults();
    }
    let (known, lacking): (Vec<&str>, Vec<&str>) = wanted.iter().partition(|name| group(name).is_some());
    if !lacking.is_empty() {
        not_honoured.push(format!("key exchange groups that airgate does not have: {}", shown(&lacking)));
    }
    let mut chosen: Vec<&'static str> = vec![];
    for name in known.iter().filter_map(|name| group_name(group(name)?)) {
        if !chosen.contains(&name) {
            chosen.push(name);
        }
    }
    if chosen.is_empty() {
        not_honoured.push("its key exchange groups: with none of them left, airgate's own are used".to_owned());
        return defaults();
    }
    chosen
}

/// An administrator may have written anything, and a lot of it.
fn shown(names: &[&str]) -> String {
    const SHOWN: usize = 30;
    let rest = names.len().saturating_sub(SHOWN);
    let mut text = names.iter().take(SHOWN).map(|name| crate::text::shown(name)).collect::<Vec<_>>().join(", ");
    if rest > 0 {
        text = text + " and " + &rest.to_string() + " more";
    }
    text
}

/// Whether a suite is meant by a name as OpenSSL or as IANA writes it.
fn goes_by(suite: &SupportedCipherSuite, name: &str) -> bool {
    let Some(iana) = suite_name(suite) else { return false };
    if iana == name {
        return true;
    }
    // TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 is ECDHE-RSA-AES128-GCM-SHA256; ChaCha20 goes without its hash.
    let Some(rest) = iana.strip_prefix("TLS_ECDHE_") else { return false };
    let openssl = format!("ECDHE-{}", rest.replace("WITH_", "").replace("AES_", "AES").replace('_', "-"));
    openssl == name || openssl.strip_suffix("-SHA256").is_some_and(|short| short.ends_with("POLY1305") && short == name)
}

/// As IANA writes it: rustls calls those of TLS 1.3 `TLS13_...`.
fn suite_name(suite: &SupportedCipherSuite) -> Option<&'static str> {
    use rustls::CipherSuite as Suite;
    Some(match suite.suite() {
        Suite::TLS13_AES_128_GCM_SHA256 => TLS13[0],
        Suite::TLS13_AES_256_GCM_SHA384 => TLS13[1],
        Suite::TLS13_CHACHA20_POLY1305_SHA256 => TLS13[2],
        other => other.as_str()?,
    })
}

/// The suite of a name in [`Parameters`].
pub(super) fn suite(name: &str) -> Option<SupportedCipherSuite> {
    ALL_CIPHER_SUITES.iter().find(|suite| suite_name(suite) == Some(name)).copied()
}

/// The group of a name, as OpenShift and [`Parameters`] write it.
pub(super) fn group(name: &str) -> Option<&'static dyn SupportedKxGroup> {
    // Not SecP256r1MLKEM768: no API server so far has it, and alone it would leave airgate unreachable.
    const KNOWN: [&dyn SupportedKxGroup; 4] =
        [kx_group::X25519MLKEM768, kx_group::X25519, kx_group::SECP256R1, kx_group::SECP384R1];
    KNOWN.into_iter().find(|group| group_name(*group) == Some(name))
}

pub(crate) fn group_name(group: &dyn SupportedKxGroup) -> Option<&'static str> {
    use rustls::NamedGroup;
    Some(match group.name() {
        NamedGroup::X25519MLKEM768 => GROUPS[0],
        NamedGroup::X25519 => GROUPS[1],
        NamedGroup::secp256r1 => GROUPS[2],
        NamedGroup::secp384r1 => GROUPS[3],
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
