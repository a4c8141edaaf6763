//! `apiservers.config.openshift.io`: the TLS security profile of the cluster, and who has to follow it.

use serde::Deserialize;

use super::{Str, into_owned, object, strings};

/// The name of the only one.
pub const NAME: &str = "cluster";

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default, expecting = "an object")]
pub struct ApiServer<'a> {
    #[serde(borrow, deserialize_with = "object")]
    pub spec: ApiServerSpec<'a>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default, rename_all = "camelCase", expecting = "an object")]
pub struct ApiServerSpec<'a> {
    #[serde(borrow, deserialize_with = "object")]
    pub tls_security_profile: TlsSecurityProfile<'a>,
    /// "" or `LegacyAdheringComponentsOnly`, else every component follows the profile.
    pub tls_adherence: Str<'a>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default, expecting = "an object")]
pub struct TlsSecurityProfile<'a> {
    /// `Old`, `Intermediate` (which "" means too), `Modern` or `Custom`.
    #[serde(borrow, rename = "type")]
    pub kind: Str<'a>,
    #[serde(deserialize_with = "object")]
    pub custom: CustomProfile<'a>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default, rename_all = "camelCase", expecting = "an object")]
pub struct CustomProfile<'a> {
    /// `VersionTLS10` to `VersionTLS13`
    #[serde(borrow, rename = "minTLSVersion")]
    pub min_tls_version: Str<'a>,
    /// As OpenSSL writes them; those of TLS 1.3 as IANA does.
    #[serde(deserialize_with = "strings")]
    pub ciphers: Vec<Str<'a>>,
    /// The most preferred first; empty: the component's own.
    #[serde(deserialize_with = "strings")]
    pub groups: Vec<Str<'a>>,
}

into_owned! {
    ApiServer { spec }
    ApiServerSpec { tls_security_profile, tls_adherence }
    TlsSecurityProfile { kind, custom }
    CustomProfile { min_tls_version, ciphers, groups }
}
