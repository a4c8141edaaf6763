//! Requests as they go out: which client, which proxy, which redirects.

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use reqwest::header::{ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONTENT_TYPE, HeaderValue, LOCATION};
use reqwest::{Client, Method, Proxy, Response, StatusCode, Url, redirect};
use tokio::time::{Instant, timeout_at};

use super::failure::{Failure, Reason};
use super::job::Job;
use super::proxy::Proxies;
use super::trust::{Trust, authority};
use crate::text::shown;

/// TCP, the proxy and the handshake together.
const CONNECT: Duration = Duration::from_secs(2);
/// A registry that fetches from another one first is slow to begin its answer.
const ANSWER: Duration = Duration::from_secs(10);
const REDIRECTS: usize = 5;
/// Clients are few: one for most hosts, one for each with its own trust, one a node.
const CLIENTS: usize = 64;
/// A layer of 4 MB arrives without waiting for window updates.
const WINDOW: u32 = 4 << 20;

/// A request of which redirects are followed.
pub(super) struct Ask<'a> {
    pub method: Method,
    pub url: Url,
    pub accept: Option<&'static str>,
    /// Sent to the host of `url` only.
    pub authorization: Option<&'a HeaderValue>,
    /// The body of a POST, which is not redirected.
    pub form: Option<String>,
    /// Where to connect to instead of what the name of the host resolves to.
    pub connect: Option<IpAddr>,
    pub until: Instant,
}

/// The answer that is no redirect.
pub(super) struct Reply {
    pub response: Response,
    /// The authority that gave it.
    pub host: String,
    /// Whether that is the one that was asked.
    pub home: bool,
}

impl Reply {
    pub fn status(&self) -> StatusCode {
        self.response.status()
    }
}

pub(super) struct Wire {
    trust: Trust,
    proxies: Proxies,
    clients: Mutex<HashMap<Key, Client>>,
    /// Insecure hosts that were found to speak plain http.
    plain: Mutex<HashSet<String>>,
}

/// Connections are shared between requests with the same key.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Key {
    /// A host with trust of its own.
    special: Option<String>,
    connect: Option<(String, IpAddr)>,
}

impl Wire {
    pub fn new(trust: Trust, proxies: Proxies) -> Self {
        Self { trust, proxies, clients: Mutex::default(), plain: Mutex::default() }
    }

    pub fn insecure(&self, authority: &str) -> bool {
        self.trust.insecure(authority)
    }

    pub fn is_plain(&self, authority: &str) -> bool {
        self.plain.lock().unwrap_or_else(PoisonError::into_inner).contains(authority)
    }

    pub fn set_plain(&self, authority: &str, plain: bool) {
        let mut known = self.plain.lock().unwrap_or_else(PoisonError::into_inner);
        if plain {
            known.insert(authority.to_owned())
        } else {
            known.remove(authority)
        };
    }

    pub async fn send(&self, job: &Job, ask: Ask<'_>) -> Result<Reply, Failure> {
        let home = authority_of(&ask.url);
        let mut url = ask.url.clone();
        for _ in 0..=REDIRECTS {
            job.request()?;
            let host = authority_of(&url);
            let at_home = host == home && url.scheme() == ask.url.scheme();
            let connect = ask.connect.filter(|_| at_home);
            let client = self.client(&url, &host, connect)?;
            let mut request = client.request(ask.method.clone(), url.clone()).header(ACCEPT_ENCODING, "identity");
            if let Some(accept) = ask.accept {
                request = request.header(ACCEPT, accept);
            }
            if let Some(authorization) = ask.authorization.filter(|_| at_home) {
                request = request.header(AUTHORIZATION, authorization);
            }
            if let Some(form) = &ask.form {
                request = request.header(CONTENT_TYPE, "application/x-www-form-urlencoded").body(form.clone());
            }
            let proxied = connect.is_none() && self.proxies.of(&url).is_some();
            let response = self.one(request, &host, proxied, ask.until).await?;
            if !is_redirect(response.status()) || ask.form.is_some() {
                return Ok(Reply { response, host, home: at_home });
            }
            url = self.target(&url, &response)?;
        }
        let why = format!("{} redirects more than {REDIRECTS} times: look at its configuration", shown(&home));
        Err(Failure::new(Reason::Wrong, why))
    }

    async fn one(
        &self,
        request: reqwest::RequestBuilder,
        host: &str,
        proxied: bool,
        until: Instant,
    ) -> Result<Response, Failure> {
        let patience = Instant::now() + ANSWER;
        match timeout_at(until.min(patience), request.send()).await {
            Ok(response) => response.map_err(|error| Failure::of_client(error, host, proxied)),
            Err(_) if patience < until => {
                let why = format!("{} gave no answer for {} s: look at its health", shown(host), ANSWER.as_secs());
                Err(Failure::new(Reason::Unreachable, why))
            }
            Err(_) => Err(Failure::late(&format!("waiting for {}", shown(host)))),
        }
    }

    /// Where a redirect leads, if that is a place to go to.
    fn target(&self, from: &Url, response: &Response) -> Result<Url, Failure> {
        let host = authority_of(from);
        let wrong = |why: &str| Failure::new(Reason::Wrong, format!("{} redirects {why}", shown(&host)));
        let location = response.headers().get(LOCATION).and_then(|location| location.to_str().ok());
        let target = location.and_then(|location| from.join(location).ok()).filter(Url::has_host);
        let target = target.ok_or_else(|| wrong("without a usable Location: look at its configuration"))?;
        if !target.username().is_empty() || target.password().is_some() {
            return Err(wrong("to an address with a password in it, which is not followed"));
        }
        match target.scheme() {
            "https" => Ok(target),
            "http" if self.insecure(&host) => Ok(target),
            "http" => Err(wrong(&format!(
                "to plain http at {}, which is not followed: have it redirect to https, or declare --insecure {host}",
                shown(&authority_of(&target))
            ))),
            other => Err(wrong(&format!("to the scheme {}, which is not followed", shown(other)))),
        }
    }

    fn client(&self, url: &Url, host: &str, connect: Option<IpAddr>) -> Result<Client, Failure> {
        let special = (url.scheme() == "https" && self.trust.special(host)).then(|| host.to_owned());
        let name = url.host_str().unwrap_or_default();
        let key = Key { special, connect: connect.map(|address| (name.to_owned(), address)) };
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = clients.get(&key) {
            return Ok(client.clone());
        }
        let client = self.build(&key).map_err(|why| Failure::new(Reason::Unreachable, why))?;
        if clients.len() >= CLIENTS {
            clients.clear();
        }
        clients.insert(key, client.clone());
        Ok(client)
    }

    fn build(&self, key: &Key) -> Result<Client, String> {
        let mut builder = Client::builder()
            .tls_backend_preconfigured(self.trust.config(key.special.as_deref())?)
            .redirect(redirect::Policy::none())
            .referer(false)
            .no_proxy()
            .connect_timeout(CONNECT)
            .http2_initial_stream_window_size(WINDOW)
            .http2_initial_connection_window_size(WINDOW * 2)
            .user_agent(concat!("airgate/", env!("CARGO_PKG_VERSION")));
        match &key.connect {
            // A node is asked directly, whatever its name is exempt from.
            Some((name, address)) => builder = builder.resolve(name, SocketAddr::new(*address, 0)),
            None if self.proxies.none() => {}
            None => {
                let proxies = self.proxies.clone();
                builder = builder.proxy(Proxy::custom(move |url| proxies.of(url)));
            }
        }
        // Its display form names nothing that was given.
        builder.build().map_err(|error| format!("no HTTP client: {error}"))
    }
}

/// `HOST[:PORT]` in the form that trust is looked up by.
pub(super) fn authority_of(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    authority(&url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}")))
}

fn is_redirect(status: StatusCode) -> bool {
    matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308)
}
