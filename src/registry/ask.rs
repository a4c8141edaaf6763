//! One object of one place: the request, its authorization, its repetition.

use std::net::IpAddr;
use std::time::Duration;

use reqwest::header::{HeaderMap, WWW_AUTHENTICATE};
use reqwest::{Method, Url};
use tokio::time::{Instant, sleep};

use super::Inner;
use super::body::{self, Excuse};
use super::challenge::challenges;
use super::failure::{Failure, Reason};
use super::job::{Job, jitter};
use super::token::Visitor;
use super::trust::authority;
use super::wire::{Ask, Reply};
use crate::payload::MANIFEST_BYTES;
use crate::pullspec::{Digest, Repository};
use crate::text::shown;

/// All four, always: registries answer 404 for a manifest of a type that is not among them.
const ACCEPT: &str = "application/vnd.docker.distribution.manifest.v2+json, \
                      application/vnd.docker.distribution.manifest.list.v2+json, \
                      application/vnd.oci.image.manifest.v1+json, application/vnd.oci.image.index.v1+json";
/// Statuses beside 401, 403, 404 and 429 that say by their code that there is nothing.
const CLIENT_ERRORS: std::ops::RangeInclusive<u16> = 400..=499;

/// What is asked for, by digest.
#[derive(Clone, Copy)]
pub(super) struct Object<'a> {
    pub place: &'a Repository,
    /// `manifests` or `blobs`.
    pub kind: &'static str,
    pub digest: Digest,
    pub limit: u64,
    /// The address to connect to instead of what the host's name resolves to.
    pub connect: Option<IpAddr>,
    pub until: Instant,
}

impl<'a> Object<'a> {
    pub fn manifest(place: &'a Repository, digest: Digest, until: Instant) -> Self {
        Self { place, kind: "manifests", digest, limit: MANIFEST_BYTES, connect: None, until }
    }

    pub fn blob(place: &'a Repository, digest: Digest, limit: u64, until: Instant) -> Self {
        Self { place, kind: "blobs", digest, limit, connect: None, until }
    }

    fn url(&self, scheme: &str) -> Result<Url, Failure> {
        let Repository { host, path } = self.place;
        // The one registry whose name is not its host's, and whose one-part paths are short for another.
        let (host, path) = match &**host {
            "docker.io" | "index.docker.io" if !path.contains('/') => {
                ("registry-1.docker.io", format!("library/{path}"))
            }
            "docker.io" | "index.docker.io" => ("registry-1.docker.io", path.clone()),
            host => (host, path.clone()),
        };
        let text = format!("{scheme}://{host}/v2/{path}/{}/{}", self.kind, self.digest);
        let fault = |_| Failure::new(Reason::Unreachable, format!("{} is no host to connect to", shown(host)));
        Url::parse(&text).map_err(fault)
    }
}

impl Inner {
    /// The bytes that the digest names; nothing for `HEAD`.
    pub async fn ask(&self, job: &Job, object: Object<'_>, method: &Method) -> Result<Vec<u8>, Failure> {
        let mut repeated = false;
        loop {
            let failure = match self.once(job, object, method).await {
                Err(failure) if !repeated => failure,
                answer => return answer,
            };
            let Some(pause) = failure.again.map(|again| again.saturating_add(jitter())) else { return Err(failure) };
            if Instant::now().checked_add(pause).is_none_or(|then| then >= object.until) {
                return Err(failure);
            }
            sleep(pause).await;
            repeated = true;
        }
    }

    /// Over https; an insecure host that does not speak it over http.
    async fn once(&self, job: &Job, object: Object<'_>, method: &Method) -> Result<Vec<u8>, Failure> {
        let authority = authority(&object.place.host);
        let insecure = self.wire.insecure(&authority);
        if insecure && self.wire.is_plain(&authority) {
            match self.authorized(job, object, method, "http").await {
                Err(failure) if failure.connect => self.wire.set_plain(&authority, false),
                answer => return answer,
            }
        }
        let secure = self.authorized(job, object, method, "https").await;
        let Err(failure) = &secure else { return secure };
        if !insecure || !failure.connect {
            return secure;
        }
        let plain = self.authorized(job, object, method, "http").await;
        match &plain {
            Err(failure) if failure.connect => secure,
            Err(failure) if !matches!(failure.reason, Reason::Absent | Reason::Denied) => plain,
            _ => {
                self.wire.set_plain(&authority, true);
                plain
            }
        }
    }

    async fn authorized(
        &self,
        job: &Job,
        object: Object<'_>,
        method: &Method,
        scheme: &str,
    ) -> Result<Vec<u8>, Failure> {
        let url = object.url(scheme)?;
        let visitor = Visitor {
            wire: &self.wire,
            job,
            place: object.place,
            pull_secrets: &self.pull_secrets,
            scheme,
            until: object.until,
        };
        let mut authorization = self.tokens.ready(&visitor).await;
        let (mut fresh, mut knocked) = (false, false);
        loop {
            let ask = Ask {
                method: method.clone(),
                url: url.clone(),
                accept: (object.kind == "manifests").then_some(ACCEPT),
                authorization: authorization.as_ref(),
                form: None,
                connect: object.connect,
                until: object.until,
            };
            let reply = self.wire.send(job, ask).await?;
            let asked = match reply.status().as_u16() {
                200 if method == Method::HEAD => return head(&reply, object.digest).map(|()| vec![]),
                200 => return body::read(job, reply, object.limit, Some(object.digest), object.until).await,
                401 if reply.home && !fresh => Some(asked_for(reply.response.headers())),
                // Some hide what they have from strangers instead of asking who they are.
                404 if reply.home && authorization.is_none() && !knocked && visitor.credentials().is_some() => {
                    knocked = true;
                    self.knock(job, object, &url).await?
                }
                _ => None,
            };
            let Some(asked) = asked else {
                if reply.home && reply.status() == 401 {
                    self.tokens.forget(&visitor).await;
                }
                return Err(refusal(&visitor, reply).await);
            };
            authorization = Some(self.tokens.answer(&visitor, &asked, authorization.as_ref()).await?);
            fresh = true;
        }
    }

    /// What a registry asks for at its door, `None` where it is open.
    async fn knock(
        &self,
        job: &Job,
        object: Object<'_>,
        url: &Url,
    ) -> Result<Option<Vec<super::challenge::Challenge>>, Failure> {
        let mut url = url.clone();
        url.set_path("/v2/");
        let ask = Ask {
            method: Method::GET,
            url,
            accept: None,
            authorization: None,
            form: None,
            connect: object.connect,
            until: object.until,
        };
        let reply = self.wire.send(job, ask).await?;
        Ok((reply.home && reply.status() == 401).then(|| asked_for(reply.response.headers())))
    }
}

fn asked_for(headers: &HeaderMap) -> Vec<super::challenge::Challenge> {
    challenges(headers.get_all(WWW_AUTHENTICATE).iter().filter_map(|line| line.to_str().ok()))
}

/// There is no body to hash; what the headers say about it must at least not contradict.
fn head(reply: &Reply, digest: Digest) -> Result<(), Failure> {
    let header = |name: &str| reply.response.headers().get(name).and_then(|value| value.to_str().ok());
    let host = shown(&reply.host);
    let said = header("docker-content-digest").and_then(Digest::parse);
    if let Some(other) = said.filter(|said| *said != digest) {
        let why = format!("{host} answers for {digest} with {other}: look at what stands between");
        return Err(Failure::new(Reason::Wrong, why));
    }
    if header("content-type").is_some_and(|kind| kind.starts_with("text/html")) {
        let why = format!("{host} answers with a web page: is a proxy or a login page in between?");
        return Err(Failure::new(Reason::Wrong, why));
    }
    Ok(())
}

async fn refusal(visitor: &Visitor<'_>, reply: Reply) -> Failure {
    let (status, home) = (reply.status(), reply.home);
    let host = shown(&reply.host).into_owned();
    let again = body::retry_after(&reply).or(Some(Duration::ZERO));
    let excuse = Excuse::read(visitor.job, reply, visitor.until).await;
    let said = excuse.with(status);
    match status.as_u16() {
        404 => Failure::new(Reason::Absent, format!("{host} does not have it ({said})")),
        401 | 403 if !home => {
            let why =
                format!("{host}, where it redirects to, refuses ({said}): look at the registry's storage and clock");
            Failure::new(Reason::Denied, why)
        }
        401 | 403 => visitor.refused(&said),
        429 => {
            let why = format!("{host} wants fewer requests ({said}): try again later, or give credentials");
            Failure { again, ..Failure::new(Reason::Unreachable, why) }
        }
        500..=599 => {
            let why = format!("{host} has an error of its own ({said}): look at its log");
            Failure { again, ..Failure::new(Reason::Unreachable, why) }
        }
        code if CLIENT_ERRORS.contains(&code) && excuse.says_absent() => {
            Failure::new(Reason::Absent, format!("{host} does not have it ({said})"))
        }
        _ => {
            let why = format!("{host} gives an answer of no use ({said}): is it a registry?");
            Failure::new(Reason::Unreachable, why)
        }
    }
}
