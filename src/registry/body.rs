//! Bodies: read piece by piece, cut off at their cap, hashed as they come.

use std::fmt::Write as _;
use std::time::Duration;

use aws_lc_rs::digest::{Context, SHA256};
use reqwest::header::{CONTENT_TYPE, RETRY_AFTER};
use serde::Deserialize;
use tokio::time::{Instant, timeout_at};

use super::failure::{Failure, Reason};
use super::job::Job;
use super::wire::Reply;
use crate::pullspec::Digest;
use crate::text::shown;

/// How long a body may pause, and be slow at its beginning.
const IDLE: Duration = Duration::from_secs(5);
/// Slower than this, in bytes a second, is a body that does not want to end.
const PACE: u64 = 16 << 10;
/// Of a body that says why it is none.
const EXCUSE_BYTES: u64 = 8 << 10;
const EXCUSE_WAIT: Duration = Duration::from_secs(1);
const EXCUSE_SHOWN: usize = 120;

/// The whole body, which has the digest if one is given.
pub(super) async fn read(
    job: &Job,
    reply: Reply,
    limit: u64,
    digest: Option<Digest>,
    until: Instant,
) -> Result<Vec<u8>, Failure> {
    let Reply { mut response, host, .. } = reply;
    let host = shown(&host).into_owned();
    let too_large = || {
        let why = format!("{host} sends more than the {limit} bytes that it may have; do not use this copy");
        Failure::new(Reason::TooLarge, why)
    };
    if response.content_length().is_some_and(|length| length > limit) {
        return Err(too_large());
    }
    let page = response.headers().get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"text/html"));
    let mut bytes = vec![];
    let mut hash = Context::new(&SHA256);
    let start = Instant::now();
    loop {
        let pace = start + IDLE + Duration::from_millis(bytes.len() as u64 * 1000 / PACE);
        let patience = pace.min(Instant::now() + IDLE);
        let chunk = match timeout_at(patience.min(until), response.chunk()).await {
            Ok(chunk) => chunk.map_err(|error| Failure::of_client(error, &host, false))?,
            Err(_) if patience < until => {
                let why = format!(
                    "{host} sent {} bytes in {} s and then too few: look at its load and at the network between",
                    bytes.len(),
                    start.elapsed().as_secs()
                );
                return Err(Failure::new(Reason::Unreachable, why));
            }
            Err(_) => return Err(Failure::late(&format!("reading from {host}"))),
        };
        let Some(chunk) = chunk else { break };
        if bytes.len() as u64 + chunk.len() as u64 > limit {
            return Err(too_large());
        }
        job.bytes(chunk.len())?;
        hash.update(&chunk);
        bytes.extend_from_slice(&chunk);
    }
    let found = hash.finish().as_ref().try_into().ok().and_then(Digest::from_bytes);
    let Some(wanted) = digest.filter(|digest| found != Some(*digest)) else { return Ok(bytes) };
    let why = if page {
        format!("{host} answers with a web page: is a proxy or a login page in between?")
    } else {
        let found = found.map_or_else(|| "another".to_owned(), |found| found.to_string());
        format!(
            "{host} answers for {wanted} with {} bytes that have the digest {found}: its copy is damaged or forged, \
             mirror the release again",
            bytes.len()
        )
    };
    Err(Failure::new(Reason::Wrong, why))
}

/// What a registry says when it refuses.
#[derive(Debug, Default)]
pub(super) struct Excuse {
    /// As the distribution specification names them: `MANIFEST_UNKNOWN`.
    code: String,
    message: String,
}

#[derive(Deserialize)]
struct Errors {
    errors: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    #[serde(default)]
    code: String,
    #[serde(default)]
    message: Option<String>,
}

impl Excuse {
    /// Of the registry itself; what a host that it redirects to says is nobody's business.
    pub async fn read(job: &Job, reply: Reply, until: Instant) -> Self {
        if !reply.home {
            return Self::default();
        }
        let until = until.min(Instant::now() + EXCUSE_WAIT);
        let Ok(bytes) = read(job, reply, EXCUSE_BYTES, None, until).await else { return Self::default() };
        let parsed = serde_json::from_slice::<Errors>(&bytes).ok().and_then(|errors| errors.errors.into_iter().next());
        let cut = |text: String| shown(&text).chars().take(EXCUSE_SHOWN).collect();
        parsed.map_or_else(Self::default, |entry| Self {
            code: cut(entry.code),
            message: cut(entry.message.unwrap_or_default()),
        })
    }

    pub fn says_absent(&self) -> bool {
        matches!(&*self.code, "MANIFEST_UNKNOWN" | "NAME_UNKNOWN" | "BLOB_UNKNOWN")
    }

    /// The status and what was said, for a parenthesis.
    pub fn with(&self, status: reqwest::StatusCode) -> String {
        let mut text = status.as_u16().to_string();
        // Writing to a String cannot fail.
        if !self.code.is_empty() {
            let _ = write!(text, " {}", self.code);
        }
        if !self.message.is_empty() {
            let _ = write!(text, ": {}", self.message);
        }
        text
    }
}

/// How long the other side wants to be left alone.
pub(super) fn retry_after(reply: &Reply) -> Option<Duration> {
    let text = reply.response.headers().get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = jiff::fmt::rfc2822::parse(text).ok()?.timestamp();
    Some(date.duration_since(jiff::Timestamp::now()).try_into().unwrap_or_default())
}
