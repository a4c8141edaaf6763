//! One signed message: a one-pass header, the literal, the signature, and nothing else; who signed it.

use jiff::Timestamp;
use pgp::crypto::hash::HashAlgorithm;
use pgp::packet::{
    OnePassSignature, OpsVersionSpecific, PacketHeader, Signature, SignatureType, SignatureVersion, SubpacketData,
};
use pgp::types::{KeyId, Tag};

use super::keyring::{Keyring, Signer, SigningKey, hex};
use super::packet::{self, COMPRESSED, LITERAL, ONE_PASS, Packet, SIGNATURE};

/// What the CVO wrote down as its limit.
pub const BYTES_MAX: usize = 50 << 10;

/// A message whose form is right; nothing of it is believed yet.
#[derive(Debug)]
pub struct Message {
    pub literal: Vec<u8>,
    one_pass: OnePassSignature,
    signature: Signature,
}

/// A signature that verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signed {
    /// The fingerprint of the key.
    pub by: String,
    pub at: Timestamp,
    /// When the signature itself ends, which hardly any has.
    pub until: Option<Timestamp>,
}

impl Message {
    /// # Errors
    /// Why it is no message that could prove anything.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        match bytes {
            [] => return Err("it is empty".into()),
            _ if bytes.len() > BYTES_MAX => return Err(format!("it has more than {} KiB", BYTES_MAX >> 10)),
            [b'-', ..] => return Err("it is armoured text; release signatures are stored in binary form".into()),
            _ => {}
        }
        let outer = packet::all(bytes, 3)?;
        match &outer[..] {
            [packed] if packed.tag == COMPRESSED => Self::of(&packet::all(&packet::unpack(&packed.body)?, 3)?),
            [packed, ..] if packed.tag == COMPRESSED => Err("bytes after the message".into()),
            packets => Self::of(packets),
        }
    }

    fn of(packets: &[Packet<'_>]) -> Result<Self, String> {
        let tags: Vec<u8> = packets.iter().map(|packet| packet.tag).collect();
        match packets {
            [one_pass, literal, signature] if tags == [ONE_PASS, LITERAL, SIGNATURE] => Ok(Self {
                literal: content(&literal.body)?,
                one_pass: one_pass_of(&one_pass.body)?,
                signature: signature_of(&signature.body)?,
            }),
            [signature] if signature.tag == SIGNATURE => {
                Err("it is a detached signature: the message it signs is not in it".into())
            }
            _ if tags.iter().filter(|tag| matches!(**tag, ONE_PASS | SIGNATURE)).count() > 2 => {
                Err("it has several signatures in one message, which the CVO refuses too".into())
            }
            _ if tags.contains(&COMPRESSED) => Err("it is compressed twice".into()),
            _ => Err(format!("it is not a header, a message and its signature, but packets of the types {tags:?}")),
        }
    }

    /// Who of a keyring signed it.
    ///
    /// # Errors
    /// Why it proves nothing under this keyring.
    pub fn verify(&self, keyring: &Keyring) -> Result<Signed, String> {
        let at = self.usable()?;
        let issuer = self.issuer()?;
        let mut signers = keyring.signers.iter().filter(|signer| signer.id == issuer).peekable();
        if signers.peek().is_none() {
            return Err(format!("the key {} that it names is not in {}", hex(issuer.as_ref()), keyring.name));
        }
        let mut fault = String::new();
        for signer in signers {
            match self.verify_by(signer, at) {
                Ok(signed) => return Ok(signed),
                Err(why) => fault = why,
            }
        }
        Err(fault)
    }

    /// What rules a signature out whoever made it; yields when it was made, in seconds since 1970.
    fn usable(&self) -> Result<u32, String> {
        let signature = &self.signature;
        let Some(config) = signature.config() else { return Err("its signature is of an unknown version".into()) };
        if !matches!(signature.version(), SignatureVersion::V3 | SignatureVersion::V4) {
            return Err("its signature is of neither version 3 nor 4, which the CVO knows".into());
        }
        if !matches!(config.typ(), SignatureType::Binary | SignatureType::Text) {
            return Err("its signature is not one over a document".into());
        }
        match config.hash_alg {
            HashAlgorithm::Sha224 | HashAlgorithm::Sha256 | HashAlgorithm::Sha384 | HashAlgorithm::Sha512 => {}
            weak => {
                return Err(format!("it is signed by way of {weak}; SHA-256 and stronger count (the CVO is laxer)"));
            }
        }
        if self.one_pass.is_nested() {
            return Err("its header announces a second signature, which the CVO refuses too".into());
        }
        if self.one_pass.typ() != config.typ() || self.one_pass.hash_algorithm() != config.hash_alg {
            return Err("its header is of another signature".into());
        }
        let unknown = |data: &SubpacketData| {
            matches!(data, SubpacketData::Other(..) | SubpacketData::Experimental(..) | SubpacketData::Notation(_))
        };
        if config.hashed_subpackets().any(|subpacket| subpacket.is_critical && unknown(&subpacket.data)) {
            return Err("its signature has a critical part that is not known".into());
        }
        config
            .created()
            .map(pgp::types::Timestamp::as_secs)
            .ok_or_else(|| "its signature does not say when it was made".into())
    }

    fn issuer(&self) -> Result<KeyId, String> {
        let OpsVersionSpecific::V3 { key_id } = self.one_pass.version_specific() else {
            return Err("its header is of a version that the CVO does not know".into());
        };
        Ok(*key_id)
    }

    fn verify_by(&self, signer: &Signer, at: u32) -> Result<Signed, String> {
        let Signer { fingerprint, .. } = signer;
        if let Some(barred) = signer.barred {
            return Err(format!("its key {fingerprint} {barred}"));
        }
        if signer.expires.is_some_and(|expires| at >= expires) {
            return Err(format!("its key {fingerprint} had expired when it was made (the CVO does not look)"));
        }
        let verified = match &signer.key {
            SigningKey::Primary(key) => self.signature.verify(key, &*self.literal),
            SigningKey::Sub(key) => self.signature.verify(key, &*self.literal),
        };
        if verified.is_err() {
            return Err(format!(
                "the signature of the key {fingerprint} does not fit the message: one of them was changed"
            ));
        }
        let lifetime = self.signature.signature_expiration_time().map_or(0, pgp::types::Duration::as_secs);
        Ok(Signed {
            by: fingerprint.clone(),
            at: moment(at.into()),
            until: (lifetime != 0).then(|| moment(i64::from(at) + i64::from(lifetime))),
        })
    }
}

fn moment(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX)
}

/// The bytes of a literal packet: a format, a file name and a date stand before them.
fn content(literal: &[u8]) -> Result<Vec<u8>, String> {
    let mut rest = literal;
    let name = packet::take(&mut rest, 2)?[1];
    packet::take(&mut rest, usize::from(name) + 4)?;
    Ok(rest.to_vec())
}

fn one_pass_of(body: &[u8]) -> Result<OnePassSignature, String> {
    parsed(body, Tag::OnePassSignature, |header, body| OnePassSignature::try_from_reader(header, body))
}

fn signature_of(body: &[u8]) -> Result<Signature, String> {
    parsed(body, Tag::Signature, |header, body| Signature::try_from_reader(header, body))
}

fn parsed<T>(
    body: &[u8],
    tag: Tag,
    parse: impl FnOnce(PacketHeader, &mut &[u8]) -> pgp::errors::Result<T>,
) -> Result<T, String> {
    let length = u32::try_from(body.len()).map_err(|_| "a packet is too long")?;
    let mut rest = body;
    let parsed = parse(PacketHeader::new_fixed(tag, length), &mut rest)
        .map_err(|error| format!("a packet of it cannot be read: {error}"))?;
    if rest.is_empty() { Ok(parsed) } else { Err("a packet of it has bytes too many".into()) }
}
