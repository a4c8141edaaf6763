//! Keys, certificates and messages for tests, made as odd as a test needs them.

use flate2::{Compress, Compression, FlushCompress, Status};
use pgp::composed::{KeyType, SecretKeyParamsBuilder, SignedKeyDetails, SignedPublicKey};
use pgp::crypto::ecc_curve::ECCCurve;
use pgp::crypto::hash::HashAlgorithm;
use pgp::packet::{
    KeyFlags, OnePassSignature, PublicKey, SecretKey, Signature, SignatureConfig, SignatureType, Subpacket,
    SubpacketData, UserId,
};
use pgp::ser::Serialize;
use pgp::types::{Duration, KeyDetails, PacketHeaderVersion, Password, SignedUser, SigningKey, Tag, Timestamp};
use rand::SeedableRng;
use rand::rngs::StdRng;

use super::keyring::Keyring;
use super::packet::{COMPRESSED, LITERAL, ONE_PASS, SIGNATURE};

/// When keys are made; messages are signed a day later.
pub const KEY_MADE: u32 = 1_700_000_000;
pub const SIGNED_AT: u32 = KEY_MADE + 86_400;

pub const NAME: &str = "verifier-public-key-test";

#[derive(Debug)]
pub struct Signer(SecretKey);

/// What may be odd about a certificate.
#[derive(Clone, Debug)]
pub struct Certificate {
    pub hash: HashAlgorithm,
    /// Seconds after [`KEY_MADE`].
    pub lifetime: Option<u32>,
    pub revoked: bool,
    pub may_sign: bool,
}

impl Default for Certificate {
    fn default() -> Self {
        Self { hash: HashAlgorithm::Sha256, lifetime: None, revoked: false, may_sign: true }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    Plain,
    Deflate,
    Zlib,
    /// The literal in two parts, the first shorter than the standard allows.
    Partial,
}

/// What may be odd about a message.
#[derive(Clone, Debug)]
pub struct Options {
    pub v3: bool,
    pub hash: HashAlgorithm,
    pub framing: Framing,
    pub lifetime: Option<u32>,
    /// A critical subpacket that nobody knows.
    pub critical: bool,
}

impl Default for Options {
    fn default() -> Self {
        let (hash, framing) = (HashAlgorithm::Sha256, Framing::Deflate);
        Self { v3: false, hash, framing, lifetime: None, critical: false }
    }
}

/// The statement about a digest, as the release pipeline writes it.
pub fn statement(digest: &str, reference: &str) -> String {
    format!(
        r#"{{"critical": {{"image": {{"docker-manifest-digest": "{digest}"}}, "type": "atomic container signature", "identity": {{"docker-reference": "{reference}"}}}}, "optional": {{"creator": "test", "timestamp": 1752489600}}}}"#
    )
}

impl Signer {
    pub fn new(seed: u64) -> Self {
        Self::of_type(KeyType::ECDSA(ECCCurve::P256), seed)
    }

    /// The one kind of key that may sign by way of SHA-1 at all; of this seed the primes are found soon.
    pub fn rsa() -> Self {
        Self::of_type(KeyType::Rsa(2048), 22)
    }

    fn of_type(key_type: KeyType, seed: u64) -> Self {
        let parameters = SecretKeyParamsBuilder::default()
            .key_type(key_type)
            .can_sign(true)
            .can_certify(true)
            .created_at(Timestamp::from_secs(KEY_MADE))
            .primary_user_id("a test key <test@example.com>".into())
            .build()
            .unwrap();
        Self(parameters.generate(StdRng::seed_from_u64(seed)).unwrap().primary_key)
    }

    fn public(&self) -> PublicKey {
        self.0.public_key().clone()
    }

    /// A binary transferable public key.
    pub fn certificate(&self, options: &Certificate) -> Vec<u8> {
        let mut flags = KeyFlags::default();
        flags.set_sign(options.may_sign);
        flags.set_certify(true);
        let user = UserId::from_str(PacketHeaderVersion::New, "a test key <test@example.com>").unwrap();
        let mut own = self.config(SignatureType::CertPositive, options.hash);
        own.hashed_subpackets.push(regular(SubpacketData::KeyFlags(flags)));
        if let Some(lifetime) = options.lifetime {
            own.hashed_subpackets.push(regular(SubpacketData::KeyExpirationTime(Duration::from_secs(lifetime))));
        }
        let public = self.public();
        let own = own.sign_certification(&self.0, &public, &Password::empty(), Tag::UserId, &user).unwrap();
        let revocations = options.revoked.then(|| {
            let revocation = self.config(SignatureType::KeyRevocation, HashAlgorithm::Sha256);
            revocation.sign_key(&self.0, &Password::empty(), &public).unwrap()
        });
        let users = vec![SignedUser::new(user, vec![own])];
        let details = SignedKeyDetails::new(revocations.into_iter().collect(), vec![], users, vec![]);
        SignedPublicKey::new(public, details, vec![]).to_bytes().unwrap()
    }

    pub fn keyring(&self) -> Keyring {
        self.keyring_of(&Certificate::default())
    }

    pub fn keyring_of(&self, options: &Certificate) -> Keyring {
        Keyring::parse(NAME, &self.certificate(options)).unwrap()
    }

    fn config(&self, r#type: SignatureType, hash: HashAlgorithm) -> SignatureConfig {
        let mut config = SignatureConfig::v4(r#type, self.0.algorithm(), hash);
        config.hashed_subpackets = vec![
            regular(SubpacketData::SignatureCreationTime(Timestamp::from_secs(SIGNED_AT))),
            regular(SubpacketData::IssuerKeyId(self.0.legacy_key_id())),
        ];
        config
    }

    fn signature(&self, message: &[u8], options: &Options) -> Signature {
        let (made, id) = (Timestamp::from_secs(SIGNED_AT), self.0.legacy_key_id());
        if options.v3 {
            let config = SignatureConfig::v3(SignatureType::Binary, self.0.algorithm(), options.hash, made, id);
            let mut hasher = config.hash_alg.new_hasher().unwrap();
            hasher.update(message);
            config.hash_signature_data(&mut hasher).unwrap();
            let hash = hasher.finalize();
            let signature = self.0.sign(&Password::empty(), options.hash, &hash).unwrap();
            return Signature::from_config(config, [hash[0], hash[1]], signature).unwrap();
        }
        let mut config = self.config(SignatureType::Binary, options.hash);
        if let Some(lifetime) = options.lifetime {
            let lifetime = SubpacketData::SignatureExpirationTime(Duration::from_secs(lifetime));
            config.hashed_subpackets.push(regular(lifetime));
        }
        if options.critical {
            let unknown = SubpacketData::Experimental(101, vec![1].into());
            config.hashed_subpackets.push(Subpacket::critical(unknown).unwrap());
        }
        config.sign(&self.0, &Password::empty(), message).unwrap()
    }

    /// The packets of a signed message: header, literal, signature.
    pub fn packets(&self, message: &[u8], options: &Options) -> [Vec<u8>; 3] {
        let (hash, algorithm) = (options.hash, self.0.algorithm());
        let one_pass = OnePassSignature::v3(SignatureType::Binary, hash, algorithm, self.0.legacy_key_id());
        let literal = [b"b\0\0\0\0\0", message].concat();
        let literal = if options.framing == Framing::Partial {
            let (first, rest) = literal.split_at(256);
            [&[0xc0 | LITERAL, 0xe8], first, &length(rest.len()), rest].concat()
        } else {
            packet(LITERAL, &literal)
        };
        let signature = self.signature(message, options).to_bytes().unwrap();
        [packet(ONE_PASS, &one_pass.to_bytes().unwrap()), literal, packet(SIGNATURE, &signature)]
    }

    pub fn sign_as(&self, message: &str, options: &Options) -> Vec<u8> {
        let packets = self.packets(message.as_bytes(), options).concat();
        match options.framing {
            Framing::Plain | Framing::Partial => packets,
            Framing::Deflate => compressed(1, &packets),
            Framing::Zlib => compressed(2, &packets),
        }
    }

    pub fn sign(&self, message: &str) -> Vec<u8> {
        self.sign_as(message, &Options::default())
    }
}

fn regular(data: SubpacketData) -> Subpacket {
    Subpacket::regular(data).unwrap()
}

pub fn packet(tag: u8, body: &[u8]) -> Vec<u8> {
    [&[0xc0 | tag], &*length(body.len()), body].concat()
}

fn length(length: usize) -> Vec<u8> {
    [&[0xff], &u32::try_from(length).unwrap().to_be_bytes()[..]].concat()
}

/// An old-style packet without a length, as gpg writes it.
pub fn compressed(algorithm: u8, packets: &[u8]) -> Vec<u8> {
    let mut packed = packets.to_vec();
    if matches!(algorithm, 1 | 2) {
        packed = Vec::with_capacity(packets.len() + 1024);
        let mut packer = Compress::new(Compression::default(), algorithm == 2);
        let status = packer.compress_vec(packets, &mut packed, FlushCompress::Finish).unwrap();
        assert_eq!(status, Status::StreamEnd);
    }
    [&[0x83 | COMPRESSED << 2, algorithm], &*packed].concat()
}
