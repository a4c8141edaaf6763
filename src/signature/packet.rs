//! The packets of an OpenPGP message: framing and compression, nothing of what they mean.
//!
//! Our own few lines, because the message readers of libraries give up on messages that Red Hat made (version 3
//! signatures, short first chunks), and because what may stand where is decided in one place.

use std::borrow::Cow;

use flate2::{Decompress, FlushDecompress, Status};

pub const SIGNATURE: u8 = 2;
pub const ONE_PASS: u8 = 4;
pub const COMPRESSED: u8 = 8;
pub const LITERAL: u8 = 11;

/// A statement has some 400 bytes; nothing that unfolds to more is one.
const UNPACKED_MAX: usize = 128 << 10;

#[derive(Debug)]
pub struct Packet<'a> {
    pub tag: u8,
    pub body: Cow<'a, [u8]>,
}

/// All packets in `input`, at most `most`.
///
/// # Errors
/// What is wrong with the framing.
pub fn all(mut input: &[u8], most: usize) -> Result<Vec<Packet<'_>>, String> {
    let mut packets = vec![];
    while !input.is_empty() {
        if packets.len() == most {
            return Err(format!("it has more than {most} packets, or bytes after the message"));
        }
        // Behind a whole message anything that is no packet is just more bytes.
        let behind = packets.iter().any(|packet: &Packet<'_>| matches!(packet.tag, SIGNATURE | COMPRESSED));
        let packet = next(&mut input);
        packets.push(packet.map_err(|fault| if behind { format!("bytes after the message: {fault}") } else { fault })?);
    }
    Ok(packets)
}

fn next<'a>(input: &mut &'a [u8]) -> Result<Packet<'a>, String> {
    let header = take(input, 1)?[0];
    match header >> 6 {
        0b11 => {
            let tag = header & 0x3f;
            match new_length(input)? {
                Length::Whole(length) => Ok(Packet { tag, body: Cow::Borrowed(take(input, length)?) }),
                Length::Part(length) => Ok(Packet { tag, body: Cow::Owned(parts(input, tag, length)?) }),
            }
        }
        0b10 => {
            let length = match header & 0b11 {
                0 => number(take(input, 1)?),
                1 => number(take(input, 2)?),
                2 => number(take(input, 4)?),
                _ => input.len(),
            };
            Ok(Packet { tag: (header >> 2) & 0xf, body: Cow::Borrowed(take(input, length)?) })
        }
        _ => Err("it is not an OpenPGP message".into()),
    }
}

enum Length {
    Whole(usize),
    Part(usize),
}

fn new_length(input: &mut &[u8]) -> Result<Length, String> {
    let first = take(input, 1)?[0];
    Ok(match first {
        0..=191 => Length::Whole(first.into()),
        192..=223 => Length::Whole((usize::from(first) - 192) * 256 + usize::from(take(input, 1)?[0]) + 192),
        224..=254 => Length::Part(1 << (first & 0x1f)),
        255 => Length::Whole(number(take(input, 4)?)),
    })
}

fn parts(input: &mut &[u8], tag: u8, first: usize) -> Result<Vec<u8>, String> {
    if !matches!(tag, COMPRESSED | LITERAL) {
        return Err("a packet other than its data comes in parts".into());
    }
    let mut body = take(input, first)?.to_vec();
    loop {
        match new_length(input)? {
            Length::Part(length) => body.extend_from_slice(take(input, length)?),
            Length::Whole(length) => {
                body.extend_from_slice(take(input, length)?);
                return Ok(body);
            }
        }
    }
}

fn number(bytes: &[u8]) -> usize {
    bytes.iter().fold(0, |number, byte| number << 8 | usize::from(*byte))
}

pub fn take<'a>(input: &mut &'a [u8], length: usize) -> Result<&'a [u8], String> {
    let (taken, rest) = input.split_at_checked(length).ok_or("it ends before its end: it was cut off or damaged")?;
    *input = rest;
    Ok(taken)
}

/// The content of a compressed packet.
///
/// # Errors
/// Another algorithm, damage, more than a statement can have, bytes behind the compressed ones.
pub fn unpack(body: &[u8]) -> Result<Vec<u8>, String> {
    let (algorithm, packed) = body.split_first().ok_or("its compressed packet is empty")?;
    let mut unpacker = match algorithm {
        0 => return Ok(packed.to_vec()),
        1 => Decompress::new(false),
        2 => Decompress::new(true),
        3 => return Err("it is compressed with bzip2, which airgate does not read".into()),
        other => return Err(format!("it is compressed by the unknown algorithm {other}")),
    };
    let mut unpacked = Vec::with_capacity(UNPACKED_MAX);
    let status = unpacker.decompress_vec(packed, &mut unpacked, FlushDecompress::Finish);
    match status {
        Ok(Status::StreamEnd) if usize::try_from(unpacker.total_in()) == Ok(packed.len()) => Ok(unpacked),
        Ok(Status::StreamEnd) => Err("bytes after the message: they follow its compressed data".into()),
        _ if unpacked.len() == UNPACKED_MAX => Err(format!("it unfolds to more than {} KiB", UNPACKED_MAX >> 10)),
        Ok(_) => Err("its compressed data ends before its end: it was cut off or damaged".into()),
        Err(_) => Err("its compressed data is damaged".into()),
    }
}
