//! Authorization: what is sent unasked because it worked before, and what a challenge is answered with.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::header::HeaderValue;
use reqwest::{Method, Url};
use serde::Deserialize;
use tokio::time::Instant;

use super::body;
use super::challenge::Challenge;
use super::failure::{Failure, Reason};
use super::job::Job;
use super::pull_secret::{self, Credentials, PullSecret};
use super::secret::Secret;
use super::trust::authority;
use super::wire::{Ask, Wire, authority_of};
use crate::pullspec::Repository;
use crate::text::shown;

const RESPONSE_BYTES: u64 = 256 << 10;
/// As the token specification says for a response that does not.
const LIFE: u64 = 60;
const LONGEST_LIFE: u64 = 3600;
/// A token is renewed so long before its end, or at three quarters of a short life.
const EARLY: Duration = Duration::from_secs(10);
/// Endpoints and repositories are few.
const SLOTS: usize = 1024;

/// Tokens by endpoint and repository.
#[derive(Default)]
pub(super) struct Tokens {
    slots: Mutex<HashMap<(String, String), Slot>>,
}

/// One lock a repository: of many requests that want the same token one asks for it.
type Slot = Arc<tokio::sync::Mutex<Option<Held>>>;

struct Held {
    challenge: Challenge,
    header: HeaderValue,
    /// `None`: for good.
    until: Option<Instant>,
}

/// For whom, with what, until when.
pub(super) struct Visitor<'a> {
    pub wire: &'a Wire,
    pub job: &'a Job,
    pub place: &'a Repository,
    pub pull_secrets: &'a [PullSecret],
    /// The scheme that the registry is spoken to by.
    pub scheme: &'a str,
    pub until: Instant,
}

#[derive(Deserialize)]
struct Answer {
    token: Option<String>,
    access_token: Option<String>,
    expires_in: Option<serde_json::Value>,
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tokens")
    }
}

impl Tokens {
    fn slot(&self, visitor: &Visitor<'_>) -> Slot {
        let key = (format!("{}://{}", visitor.scheme, authority(&visitor.place.host)), visitor.place.path.clone());
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        if slots.len() >= SLOTS && !slots.contains_key(&key) {
            slots.clear();
        }
        slots.entry(key).or_default().clone()
    }

    /// What worked before, a token renewed where its time is up.
    pub async fn ready(&self, visitor: &Visitor<'_>) -> Option<HeaderValue> {
        let slot = self.slot(visitor);
        let mut held = slot.lock().await;
        let current = held.as_ref()?;
        if current.until.is_none_or(|until| Instant::now() < until) {
            return Some(current.header.clone());
        }
        // A failure shows itself in the answer to the request without it.
        *held = visitor.answer(std::slice::from_ref(&current.challenge)).await.ok();
        held.as_ref().map(|held| held.header.clone())
    }

    /// Answers the challenges of a request that had `refused` as its authorization.
    pub async fn answer(
        &self,
        visitor: &Visitor<'_>,
        challenges: &[Challenge],
        refused: Option<&HeaderValue>,
    ) -> Result<HeaderValue, Failure> {
        let slot = self.slot(visitor);
        let mut held = slot.lock().await;
        if let Some(other) = held.as_ref().filter(|held| refused != Some(&held.header)) {
            return Ok(other.header.clone());
        }
        *held = None;
        let answer = visitor.answer(challenges).await?;
        Ok(held.insert(answer).header.clone())
    }

    pub async fn forget(&self, visitor: &Visitor<'_>) {
        *self.slot(visitor).lock().await = None;
    }
}

impl Visitor<'_> {
    pub fn credentials(&self) -> Option<&Credentials> {
        pull_secret::find(self.pull_secrets, self.place)
    }

    /// The first challenge that can be answered.
    async fn answer(&self, challenges: &[Challenge]) -> Result<Held, Failure> {
        let credentials = self.credentials();
        let mut failure = None;
        for challenge in challenges {
            let answered = match challenge {
                Challenge::Basic => {
                    let usable = credentials.filter(|credentials| !credentials.user.is_empty());
                    usable.ok_or_else(|| self.no_credentials("401")).and_then(basic).map(|header| (header, None))
                }
                Challenge::Bearer { realm, service } => {
                    let token = self.token(realm, service.as_deref(), credentials).await;
                    token.map(|(header, until)| (header, Some(until)))
                }
            };
            match answered {
                Ok((header, until)) => return Ok(Held { challenge: challenge.clone(), header, until }),
                Err(new) => failure = failure.or(Some(new)),
            }
        }
        Err(failure.unwrap_or_else(|| {
            let why = "it refuses access (401) and asks for no kind of credentials that airgate has, Basic and Bearer: \
                       look at the registry's authentication";
            Failure::new(Reason::Denied, why)
        }))
    }

    /// `said` is the answer to the request without them.
    fn no_credentials(&self, said: &str) -> Failure {
        let host = &self.place.host;
        let why = match pull_secret::helper(self.pull_secrets, host) {
            Some(helper) => format!(
                "it refuses access without credentials ({said}), which the helper program {} keeps and airgate does not \
                 run: add an auths entry for {host} to the pull secret",
                shown(helper)
            ),
            None => format!(
                "it refuses access without credentials ({said}) and the pull secret has none for {host}: add an auths \
                 entry for it to the pull secret, or give --authfile"
            ),
        };
        Failure::new(Reason::Denied, why)
    }

    /// What is said where the registry or its token service does not take what it was shown.
    pub fn refused(&self, said: &str) -> Failure {
        match self.credentials() {
            Some(credentials) => {
                let key = shown(&credentials.key);
                let why = format!(
                    "it refuses the credentials of the pull secret's entry {key} ({said}): renew them, or give their \
                     owner the right to pull"
                );
                Failure::new(Reason::Denied, why)
            }
            None => self.no_credentials(said),
        }
    }

    async fn token(
        &self,
        realm: &str,
        service: Option<&str>,
        credentials: Option<&Credentials>,
    ) -> Result<(HeaderValue, Instant), Failure> {
        let denied = |why: String| Failure::new(Reason::Denied, why);
        let url = Url::parse(realm).ok().filter(|url| url.has_host() && url.username().is_empty());
        let Some(mut url) = url.filter(|url| matches!(url.scheme(), "http" | "https")) else {
            return Err(denied("it names no usable address of a token service: look at its configuration".into()));
        };
        let host = authority_of(&url);
        let named = shown(&host).into_owned();
        let mut credentials = credentials;
        if url.scheme() == "http" {
            if !self.wire.insecure(&host) {
                return Err(denied(format!(
                    "it names a token service over plain http, {named}, which is not asked: have it name one by https, or \
                     declare --insecure {named}"
                )));
            }
            // Nobody's password travels in the clear to a host that the pull secret does not name.
            let same = Url::parse(&format!("https://{}", self.place.host)).is_ok_and(|own| own.host() == url.host());
            credentials = credentials.filter(|_| same);
        }
        let scope = format!("repository:{}:pull", self.place.path);
        let identity = credentials.and_then(|credentials| credentials.identity.as_ref());
        let mut authorization = None;
        let form = identity.map(|identity| form(identity, service, &scope));
        if form.is_none() {
            let mut query = url.query_pairs_mut();
            if let Some(service) = service {
                query.append_pair("service", service);
            }
            query.append_pair("scope", &scope);
            drop(query);
            authorization = credentials.map(basic).transpose()?;
        }
        let ask = Ask {
            method: if form.is_some() { Method::POST } else { Method::GET },
            url,
            accept: Some("application/json"),
            authorization: authorization.as_ref(),
            form,
            connect: None,
            until: self.until,
        };
        let reply = self.wire.send(self.job, ask).await?;
        let asked = Instant::now();
        let status = reply.status();
        match status.as_u16() {
            200 => {}
            400 | 401 | 403 => {
                return Err(self.refused(&format!("token service {named}: {}", status.as_u16())));
            }
            429 | 500..=599 => {
                let again = body::retry_after(&reply).or(Some(Duration::ZERO));
                let why = format!("its token service {named} answers {}: look at its health", status.as_u16());
                return Err(Failure { again, ..Failure::new(Reason::Unreachable, why) });
            }
            other => {
                let why = format!("its token service {named} gives an answer of no use ({other}): look at its health");
                return Err(Failure::new(Reason::Unreachable, why));
            }
        }
        let bytes = body::read(self.job, reply, RESPONSE_BYTES, None, self.until).await?;
        let useless = || {
            let why = format!("its token service {named} answers with no token: look at its health");
            Failure::new(Reason::Unreachable, why)
        };
        let answer: Answer = serde_json::from_slice(&bytes).map_err(|_| useless())?;
        let given = |token: Option<String>| token.filter(|token| !token.is_empty());
        let token = given(answer.token).or_else(|| given(answer.access_token)).ok_or_else(useless)?;
        let life = answer.expires_in.and_then(|life| life.as_u64()).filter(|life| *life > 0).unwrap_or(LIFE);
        let life = Duration::from_secs(life.min(LONGEST_LIFE));
        Ok((sensitive(&format!("Bearer {token}")).ok_or_else(useless)?, asked + life - EARLY.min(life / 4)))
    }
}

fn form(identity: &Secret, service: Option<&str>, scope: &str) -> String {
    // The query of an address is encoded as a form is.
    let Ok(mut url) = Url::parse("https://form.invalid") else { return String::new() };
    let mut query = url.query_pairs_mut();
    query.append_pair("grant_type", "refresh_token").append_pair("refresh_token", identity.expose());
    query.append_pair("service", service.unwrap_or_default()).append_pair("scope", scope);
    query.append_pair("client_id", "airgate");
    drop(query);
    url.query().unwrap_or_default().to_owned()
}

fn basic(credentials: &Credentials) -> Result<HeaderValue, Failure> {
    let pair = format!("{}:{}", credentials.user.expose(), credentials.password.expose());
    let header = sensitive(&format!("Basic {}", STANDARD.encode(pair)));
    header.ok_or_else(|| Failure::new(Reason::Denied, "its credentials cannot be sent: write them again"))
}

fn sensitive(text: &str) -> Option<HeaderValue> {
    let mut header = HeaderValue::from_str(text).ok()?;
    header.set_sensitive(true);
    Some(header)
}
