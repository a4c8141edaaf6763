//! Makes the keeper's CAs and certificates.

use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair as RcgenKey, KeyUsagePurpose,
};

use super::rotation::after;
use crate::tls::keypair::{hex, sha256};

/// The clocks of two machines may differ.
const BACKDATE: Duration = Duration::from_hours(1);

/// A certificate and its key, as PEM.
pub(super) struct Made {
    pub certificate: String,
    pub key: String,
    pub not_after: Timestamp,
}

pub(super) fn authority(life: Duration, now: Timestamp) -> Result<Made, rcgen::Error> {
    let key = RcgenKey::generate()?;
    let id = &hex(&sha256(key.public_key_raw()))[..16];
    let not_after = after(now, life);
    let mut params = authority_params(&format!("airgate CA {id}"));
    params.not_before = time(now).into();
    params.not_before -= BACKDATE;
    params.not_after = time(not_after).into();
    Ok(Made { certificate: params.self_signed(&key)?.pem(), key: key.serialize_pem(), not_after })
}

fn authority_params(common_name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, common_name);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

/// A serving certificate by the CA of this name, key and end.
pub(super) fn leaf(
    ca: (&str, RcgenKey, Timestamp),
    names: &[String],
    life: Duration,
    now: Timestamp,
) -> Result<Made, rcgen::Error> {
    let (ca_name, ca_key, ca_not_after) = ca;
    let key = RcgenKey::generate()?;
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, "airgate");
    params.is_ca = IsCa::ExplicitNoCa;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.use_authority_key_identifier_extension = true;
    // Certificates count in whole seconds.
    let not_after = Timestamp::from_second(after(now, life).min(ca_not_after).as_second()).unwrap_or(ca_not_after);
    params.not_before = time(now).into();
    params.not_before -= BACKDATE;
    params.not_after = time(not_after).into();
    let issuer = Issuer::new(authority_params(ca_name), ca_key);
    Ok(Made { certificate: params.signed_by(&key, &issuer)?.pem(), key: key.serialize_pem(), not_after })
}

fn time(at: Timestamp) -> SystemTime {
    at.into()
}
