//! What a 401 asks for.

/// One challenge of a kind that we can answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Challenge {
    Basic,
    Bearer { realm: String, service: Option<String> },
}

/// A registry sends one or two; what exceeds this is not looked at.
const MOST: usize = 16;

/// The challenges of some `WWW-Authenticate` lines in their order, several in a line included. Other schemes and a
/// Bearer without realm are left out.
pub(super) fn challenges<'a>(lines: impl IntoIterator<Item = &'a str>) -> Vec<Challenge> {
    let mut found = vec![];
    for line in lines {
        let mut current: Option<Raw> = None;
        let mut rest = line;
        while let Some((part, after)) = next(rest) {
            rest = after;
            match part {
                Part::Scheme(scheme) => {
                    found.extend(current.take().and_then(Raw::finish));
                    current = Some(Raw { scheme, realm: None, service: None });
                }
                Part::Parameter(name, value) => {
                    let Some(raw) = &mut current else { continue };
                    let slot = match name {
                        _ if name.eq_ignore_ascii_case("realm") => &mut raw.realm,
                        _ if name.eq_ignore_ascii_case("service") => &mut raw.service,
                        _ => continue,
                    };
                    slot.get_or_insert(value);
                }
            }
        }
        found.extend(current.take().and_then(Raw::finish));
    }
    found.truncate(MOST);
    found
}

struct Raw<'a> {
    scheme: &'a str,
    realm: Option<String>,
    service: Option<String>,
}

impl Raw<'_> {
    fn finish(self) -> Option<Challenge> {
        if self.scheme.eq_ignore_ascii_case("basic") {
            return Some(Challenge::Basic);
        }
        let bearer = self.scheme.eq_ignore_ascii_case("bearer");
        let realm = self.realm.filter(|realm| bearer && !realm.is_empty())?;
        Some(Challenge::Bearer { realm, service: self.service })
    }
}

enum Part<'a> {
    Scheme(&'a str),
    Parameter(&'a str, String),
}

/// The next scheme or parameter and what follows it; `None` at the end and where the text makes no sense.
fn next(text: &str) -> Option<(Part<'_>, &str)> {
    let text = text.trim_start_matches([' ', '\t', ',']);
    let end = text.find(|letter: char| letter.is_ascii_whitespace() || matches!(letter, '=' | ',' | '"'));
    let (name, rest) = text.split_at(end.unwrap_or(text.len()));
    if name.is_empty() {
        return None;
    }
    let Some(value) = rest.trim_start_matches([' ', '\t']).strip_prefix('=') else {
        return Some((Part::Scheme(name), rest));
    };
    let value = value.trim_start_matches([' ', '\t']);
    let Some(quoted) = value.strip_prefix('"') else {
        let end = value.find([',', ' ', '\t']).unwrap_or(value.len());
        let (value, rest) = value.split_at(end);
        return Some((Part::Parameter(name, value.to_owned()), rest));
    };
    let mut content = String::new();
    let mut letters = quoted.char_indices();
    while let Some((index, letter)) = letters.next() {
        match letter {
            '"' => return Some((Part::Parameter(name, content), &quoted[index + 1..])),
            '\\' => content.push(letters.next()?.1),
            other => content.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bearer(realm: &str, service: Option<&str>) -> Challenge {
        Challenge::Bearer { realm: realm.into(), service: service.map(Into::into) }
    }

    #[test]
    fn challenges_as_registries_write_them() {
        let quay = "https://quay.io/v2/auth";
        for (lines, expected) in [
            (&["Basic realm=\"Registry\""][..], vec![Challenge::Basic]),
            (&["basic"], vec![Challenge::Basic]),
            (
                &["Bearer realm=\"https://quay.io/v2/auth\",service=\"quay.io\",scope=\"repository:a/b:pull\""],
                vec![bearer(quay, Some("quay.io"))],
            ),
            (&["BEARER Realm = \"https://quay.io/v2/auth\" , SERVICE=quay.io"], vec![bearer(quay, Some("quay.io"))]),
            (&["Bearer realm=\"https://quay.io/v2/auth\""], vec![bearer(quay, None)]),
            (&["Bearer realm=https://quay.io/v2/auth"], vec![bearer(quay, None)]),
            (
                &["Bearer realm=\"https://quay.io/v2/auth\",service=\"x\", Basic realm=\"y\""],
                vec![bearer(quay, Some("x")), Challenge::Basic],
            ),
            (
                &["Negotiate, Basic realm=\"a, Bearer realm=b\"", "Bearer realm=\"https://quay.io/v2/auth\""],
                vec![Challenge::Basic, bearer(quay, None)],
            ),
            (&["Negotiate YWJj==, Basic realm=x"], vec![Challenge::Basic]),
            (&["Digest realm=\"x\", nonce=\"y\"", "Basic"], vec![Challenge::Basic]),
            (&["Bearer realm=\"a\\\"b\\\\c\""], vec![bearer("a\"b\\c", None)]),
            (&["Bearer realm=\"first\",realm=\"second\""], vec![bearer("first", None)]),
            // Nothing of it can be answered.
            (&["Bearer"], vec![]),
            (&["Bearer realm=\"\""], vec![]),
            (&["Bearer realm=\"unterminated"], vec![]),
            (&["Bearer realm=\"ends in\\"], vec![]),
            (&["realm=\"https://quay.io\""], vec![]),
            (&["", ",,, ,", "=x", "\"\""], vec![]),
        ] {
            assert_eq!(challenges(lines.iter().copied()), expected, "{lines:?}");
        }
        let many = "Basic, ".repeat(5000);
        assert_eq!(challenges([&*many]).len(), MOST);
    }
}
