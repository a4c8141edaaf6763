//! Credentials out of a pull secret, looked up as container runtimes look them up.
//!
//! A look-up is for the endpoint that is asked, so a mirror is never shown what belongs to the source.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use super::secret::Secret;
use crate::pullspec::Repository;
use crate::text::shown;

/// A pull secret of every registry of a fleet has a few tens of kilobytes.
const BYTES: usize = 1 << 20;

/// What one entry holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Credentials {
    /// The entry's key, for messages.
    pub key: String,
    pub user: Secret,
    pub password: Secret,
    /// An OAuth2 refresh token, which stands for user and password.
    pub identity: Option<Secret>,
}

/// One document: `.dockerconfigjson` of a Secret, or an auth file.
#[derive(Clone, Debug, Default)]
pub(super) struct PullSecret {
    /// `None`: an entry without credentials, as `podman logout` leaves them.
    entries: BTreeMap<String, Option<Credentials>>,
    /// Registries whose credentials a helper program keeps; the key `""` stands for all of them.
    helpers: BTreeMap<String, String>,
    /// What cannot be used of it, for a person.
    pub notes: Vec<String>,
}

#[derive(Deserialize)]
struct Document {
    #[serde(default)]
    auths: Option<BTreeMap<String, Option<Entry>>>,
    #[serde(default, rename = "credHelpers")]
    helpers: Option<BTreeMap<String, String>>,
    #[serde(default, rename = "credsStore")]
    store: Option<String>,
}

#[derive(Deserialize)]
struct Entry {
    auth: Option<String>,
    username: Option<String>,
    password: Option<String>,
    identitytoken: Option<String>,
}

impl PullSecret {
    /// `name` is what messages call it: a file or a Secret.
    ///
    /// # Errors
    /// Where it is no such document. The text shows nothing of the content.
    pub fn parse(name: &str, json: &[u8]) -> Result<Self, String> {
        let name = shown(name);
        if json.len() > BYTES {
            return Err(format!("{name} has {} bytes, more than the {BYTES} that a pull secret may have", json.len()));
        }
        // Only the place: the parser's own words quote values.
        let document: Document = serde_json::from_slice(json).map_err(|error| {
            format!(
                "{name} is no pull secret (line {}, column {}): it must be JSON like {{\"auths\": {{\"HOST\": {{\"auth\": \
                 \"BASE64\"}}}}}}",
                error.line(),
                error.column()
            )
        })?;
        let mut secret = Self::default();
        for (key, entry) in document.auths.unwrap_or_default() {
            let credentials = match entry.map(|entry| entry.credentials(&key)).transpose() {
                Ok(credentials) => credentials.flatten(),
                Err(why) => {
                    secret.notes.push(format!("{name}: the entry {} {why}: write it again", shown(&key)));
                    None
                }
            };
            secret.entries.insert(key, credentials);
        }
        secret.helpers = document.helpers.unwrap_or_default();
        secret.helpers.extend(document.store.filter(|store| !store.is_empty()).map(|store| (String::new(), store)));
        for (host, helper) in &secret.helpers {
            let of = if host.is_empty() { "all registries".into() } else { shown(host) };
            secret.notes.push(format!(
                "{name}: the credentials of {of} are kept by the helper program {}, which airgate does not run: add an \
                 auths entry",
                shown(helper)
            ));
        }
        Ok(secret)
    }

    fn find(&self, repository: &Repository) -> Option<&Credentials> {
        let whole = repository.to_string();
        let mut key = &*whole;
        loop {
            if let Some(entry) = self.entries.get(key) {
                return entry.as_ref();
            }
            match key.rfind('/') {
                Some(slash) => key = &key[..slash],
                None => break,
            }
        }
        let host = normal_host(&repository.host);
        let (_, entry) = self.entries.iter().find(|(key, _)| normal_key(key) == host)?;
        entry.as_ref()
    }
}

impl Entry {
    fn credentials(self, key: &str) -> Result<Option<Credentials>, &'static str> {
        let auth = self.auth.unwrap_or_default();
        let (user, password) = if auth.is_empty() {
            (self.username.unwrap_or_default(), self.password.unwrap_or_default())
        } else {
            let folded: String = auth.chars().filter(|letter| !matches!(letter, '\r' | '\n')).collect();
            let decoded = STANDARD.decode(folded).map_err(|_| "has an auth that is no base64")?;
            let decoded = String::from_utf8(decoded).map_err(|_| "has an auth that is no text")?;
            // Without a colon it is nothing, as for docker.
            let split = decoded.split_once(':').unwrap_or_default();
            (split.0.to_owned(), split.1.trim_matches('\0').to_owned())
        };
        let identity = self.identitytoken.filter(|token| !token.is_empty()).map(Secret::new);
        let found = !user.is_empty() || !password.is_empty() || identity.is_some();
        Ok(found.then(|| Credentials {
            key: key.to_owned(),
            user: Secret::new(user),
            password: Secret::new(password),
            identity,
        }))
    }
}

/// From the first document that has some; an entry without credentials in one does not end the search in the next.
pub(super) fn find<'a>(documents: &'a [PullSecret], repository: &Repository) -> Option<&'a Credentials> {
    documents.iter().find_map(|document| document.find(repository))
}

/// The program that keeps the credentials for a registry, where a document says so.
pub(super) fn helper<'a>(documents: &'a [PullSecret], host: &str) -> Option<&'a str> {
    let of = |document: &'a PullSecret| document.helpers.get(host).or_else(|| document.helpers.get(""));
    documents.iter().find_map(of).map(String::as_str)
}

/// Keys as old clients wrote them: `https://HOST/v1/`.
fn normal_key(key: &str) -> &str {
    let stripped = key.strip_prefix("http://").unwrap_or(key);
    let stripped = stripped.strip_prefix("https://").unwrap_or(stripped);
    if stripped.len() == key.len() {
        return normal_host(key);
    }
    normal_host(stripped.split_once('/').map_or(stripped, |(host, _)| host))
}

fn normal_host(host: &str) -> &str {
    match host {
        "docker.io" | "registry-1.docker.io" => "index.docker.io",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(json: &str) -> PullSecret {
        PullSecret::parse("pull-secret", json.as_bytes()).unwrap()
    }

    fn encoded(text: &str) -> String {
        STANDARD.encode(text)
    }

    fn found(documents: &[PullSecret], repository: &str) -> Option<(String, String, String)> {
        let (host, path) = repository.split_once('/').unwrap();
        let repository = Repository { host: host.into(), path: path.into() };
        let credentials = find(documents, &repository)?;
        let exposed = |secret: &Secret| secret.expose().to_owned();
        Some((credentials.key.clone(), exposed(&credentials.user), exposed(&credentials.password)))
    }

    #[test]
    fn the_longest_prefix_at_a_slash_wins() {
        let keys = [
            "quay.io",
            "quay.io/ns",
            "quay.io/ns/repo",
            "registry.example:5000",
            "https://old.example/v1/",
            "http://older.example",
            "https://index.docker.io/v1/",
            "https://path.example/ns/repo",
            "exact.example",
            "https://exact.example/v2/",
            "[fd00::1]:5000/ns",
        ];
        let entries: Vec<_> =
            keys.iter().map(|key| format!("{key:?}: {{\"auth\": {:?}}}", encoded(&format!("u:{key}")))).collect();
        let documents = [secret(&format!("{{\"auths\": {{{}}}}}", entries.join(", ")))];
        for (repository, key) in [
            ("quay.io/ns/repo", Some("quay.io/ns/repo")),
            ("quay.io/ns/repo/deeper", Some("quay.io/ns/repo")),
            ("quay.io/ns/repo2", Some("quay.io/ns")),
            ("quay.io/ns2/repo", Some("quay.io")),
            ("quay.io:443/ns/repo", None),
            ("registry.example:5000/a/b", Some("registry.example:5000")),
            ("registry.example/a/b", None),
            ("old.example/a", Some("https://old.example/v1/")),
            ("older.example/a", Some("http://older.example")),
            ("docker.io/library/x", Some("https://index.docker.io/v1/")),
            ("registry-1.docker.io/library/x", Some("https://index.docker.io/v1/")),
            ("path.example/other", Some("https://path.example/ns/repo")),
            ("exact.example/a", Some("exact.example")),
            ("[fd00::1]:5000/ns/x", Some("[fd00::1]:5000/ns")),
            ("[fd00::1]:5000/other", None),
            ("sub.quay.io/ns/repo", None),
        ] {
            let found = found(&documents, repository);
            assert_eq!(found.as_ref().map(|(found, ..)| &**found), key, "{repository}");
            assert_eq!(found.map(|(.., password)| password).as_deref(), key, "{repository}");
        }
    }

    #[test]
    fn an_entry_is_decoded_as_docker_does() {
        for (entry, user_and_password) in [
            (format!("{{\"auth\": {:?}}}", encoded("user:pass")), Some(("user", "pass"))),
            (format!("{{\"auth\": {:?}}}", encoded("user:pa:ss")), Some(("user", "pa:ss"))),
            (format!("{{\"auth\": {:?}}}", encoded("user:pass\0\0")), Some(("user", "pass"))),
            (
                format!("{{\"auth\": {:?}, \"email\": \"you@example.com\"}}", encoded("user:pass")),
                Some(("user", "pass")),
            ),
            (format!("{{\"auth\": {:?}}}", encoded("nocolon")), None),
            ("{\"auth\": \"\"}".into(), None),
            ("{}".into(), None),
            ("null".into(), None),
            ("{\"username\": \"user\", \"password\": \"pass\"}".into(), Some(("user", "pass"))),
            ("{\"auth\": \"%%%\"}".into(), None),
            ("{\"identitytoken\": \"refresh\"}".into(), Some(("", ""))),
        ] {
            let documents = [secret(&format!("{{\"auths\": {{\"quay.io\": {entry}}}}}"))];
            let found = found(&documents, "quay.io/a");
            assert_eq!(found.as_ref().map(|(_, user, password)| (&**user, &**password)), user_and_password, "{entry}");
        }
    }

    #[test]
    fn documents_are_asked_in_their_order_and_an_empty_entry_does_not_end_it() {
        let documents = [
            secret("{\"auths\": {\"quay.io\": {}}}"),
            secret(&format!("{{\"auths\": {{\"quay.io\": {{\"auth\": {:?}}}}}}}", encoded("second:x"))),
            secret(&format!("{{\"auths\": {{\"quay.io/ns\": {{\"auth\": {:?}}}}}}}", encoded("third:x"))),
        ];
        assert_eq!(found(&documents, "quay.io/ns/a").unwrap().1, "second");
    }

    #[test]
    fn what_cannot_be_used_is_said_without_showing_it() {
        let secret = secret(
            r#"{"auths": {"bad.example": {"auth": "s3cret!"}}, "credHelpers": {"ecr.example": "ecr-login"}, "credsStore": "pass"}"#,
        );
        let notes = secret.notes.join("\n");
        for expected in ["bad.example", "ecr.example", "ecr-login", "all registries", "pass"] {
            assert!(notes.contains(expected), "{notes}");
        }
        assert!(!notes.contains("s3cret"), "{notes}");
        let documents = [secret];
        assert_eq!(helper(&documents, "ecr.example"), Some("ecr-login"));
        assert_eq!(helper(&documents, "other.example"), Some("pass"));
        for bad in [r#"{"auths": {"quay.io": "s3cret"}}"#, r#"{"auths": "s3cret"}"#, "s3cret", ""] {
            let error = PullSecret::parse("the file", bad.as_bytes()).unwrap_err();
            assert!(error.contains("the file") && error.contains("auths") && !error.contains("s3cret"), "{error}");
        }
        let shown = format!(
            "{:?}",
            self::secret(&format!("{{\"auths\": {{\"a.b\": {{\"auth\": {:?}}}}}}}", encoded("robot:s3cret")))
        );
        assert!(!shown.contains("s3cret") && !shown.contains("robot"), "{shown}");
    }
}
