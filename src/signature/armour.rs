//! Key files as people keep them: binary, or armoured with text before, several blocks, CRLF, no blank line.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

const BEGIN: &str = "-----BEGIN PGP PUBLIC KEY BLOCK-----";
const END: &str = "-----END PGP PUBLIC KEY BLOCK-----";

/// The binary form of every block in a key file, one after the other.
///
/// # Errors
/// What is wrong, for a person.
pub fn decode(file: &[u8]) -> Result<Vec<u8>, String> {
    // Every packet begins with the highest bit set, which no ASCII text does.
    if file.first().is_some_and(|first| first & 0x80 != 0) {
        return Ok(file.to_vec());
    }
    let text = str::from_utf8(file).map_err(|_| "it is neither armoured text nor a binary key")?;
    let mut keys = vec![];
    let mut rest = text;
    while let Some((_, block)) = rest.split_once(BEGIN) {
        let (block, after) = block.split_once(END).ok_or("an armoured block has no end: the key was cut off")?;
        keys.extend(decode_block(block)?);
        rest = after;
    }
    if keys.is_empty() {
        return Err(format!("there is no {BEGIN} in it"));
    }
    Ok(keys)
}

fn decode_block(block: &str) -> Result<Vec<u8>, String> {
    let lines = block.lines().map(str::trim).skip_while(|line| line.is_empty() || line.contains(": "));
    // A line that begins with = is the checksum; what a key says is proved by its own signatures.
    let text: String = lines.filter(|line| !line.starts_with('=')).collect();
    STANDARD.decode(text).map_err(|error| format!("its armour is damaged: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_as_people_keep_them() {
        let block = |lines: &[&str]| [&[BEGIN][..], lines, &[END]].concat().join("\n");
        for (text, expected) in [
            (block(&["", "mQIN", "=abcd"]), Some(&b"\x99\x02\x0d"[..])),
            (block(&["mQIN"]), Some(b"\x99\x02\x0d")),
            (block(&["Version: 1", "Comment: x", "", "mQIN"]), Some(b"\x99\x02\x0d")),
            (format!("a preamble: of words\n{}\n", block(&["", "mQ==", "=abcd"])), Some(b"\x99")),
            (block(&["", "mQIN"]).replace('\n', "\r\n"), Some(b"\x99\x02\x0d")),
            (format!("{}\n{}", block(&["", "mQIN"]), block(&["", "mQ=="])), Some(b"\x99\x02\x0d\x99")),
            (block(&["", "m.IN"]), None),
            (format!("{BEGIN}\n\nmQIN"), None),
            ("words".into(), None),
            (String::new(), None),
        ] {
            assert_eq!(decode(text.as_bytes()).ok().as_deref(), expected, "{text}");
        }
        assert_eq!(decode(b"\x99\x01").as_deref(), Ok(&b"\x99\x01"[..]));
        assert!(decode(b"\x01\xff").is_err());
    }
}
