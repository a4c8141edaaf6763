//! Which requests go through a proxy, by the rules of Go's standard library, which the platform's own components
//! follow: `localhost` and loopback addresses never do.

use std::fmt;
use std::net::IpAddr;

use reqwest::Url;

/// The proxies for both kinds of destination and what is exempt from them.
#[derive(Clone, Default)]
pub(super) struct Proxies {
    http: Option<Url>,
    https: Option<Url>,
    exempt: NoProxy,
}

/// Without the addresses: they may hold a password.
impl fmt::Debug for Proxies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = |url: &Option<Url>| url.as_ref().and_then(Url::host_str).map(str::to_owned);
        f.debug_struct("Proxies")
            .field("http", &host(&self.http))
            .field("https", &host(&self.https))
            .field("exempt", &self.exempt)
            .finish()
    }
}

impl Proxies {
    /// Empty texts mean none, as in the status of `proxy/cluster`.
    ///
    /// # Errors
    /// Where a text is no address of a proxy; the text shows nothing of it.
    pub fn new(http: &str, https: &str, no_proxy: &str) -> Result<Self, String> {
        Ok(Self {
            http: address("httpProxy", http)?,
            https: address("httpsProxy", https)?,
            exempt: NoProxy::parse(no_proxy),
        })
    }

    pub fn none(&self) -> bool {
        self.http.is_none() && self.https.is_none()
    }

    /// The proxy for a request, `None` where it goes straight.
    pub fn of(&self, url: &Url) -> Option<Url> {
        let proxy = match url.scheme() {
            "https" => self.https.as_ref(),
            _ => self.http.as_ref(),
        }?;
        let host = url.host_str()?.trim_start_matches('[').trim_end_matches(']');
        let direct = self.exempt.exempts(host, url.port_or_known_default().unwrap_or_default());
        (!direct).then(|| proxy.clone())
    }
}

fn address(field: &str, text: &str) -> Result<Option<Url>, String> {
    let text = text.trim();
    if text.is_empty() {
        return Ok(None);
    }
    let whole = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
    let url = Url::parse(&whole).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.host().is_some());
    url.map(Some).ok_or_else(|| format!("{field} is no address of a proxy: write it as http://HOST:PORT"))
}

#[derive(Clone, Debug, Default)]
struct NoProxy {
    everything: bool,
    rules: Vec<Rule>,
}

#[derive(Clone, Debug)]
enum Rule {
    Network(IpAddr, u8),
    Address(IpAddr, Option<u16>),
    /// With a leading dot.
    Domain {
        suffix: String,
        itself: bool,
        port: Option<u16>,
    },
}

impl NoProxy {
    fn parse(text: &str) -> Self {
        let mut exempt = Self::default();
        for entry in text.split(',').map(|entry| entry.trim().to_lowercase()).filter(|entry| !entry.is_empty()) {
            if entry == "*" {
                return Self { everything: true, rules: vec![] };
            }
            exempt.rules.extend(rule(&entry));
        }
        exempt
    }

    /// `host` without brackets.
    fn exempts(&self, host: &str, port: u16) -> bool {
        let host = host.to_lowercase();
        let address = host.parse::<IpAddr>().ok().map(|address| address.to_canonical());
        if self.everything || host == "localhost" || address.is_some_and(|address| address.is_loopback()) {
            return true;
        }
        let port_fits = |wanted: &Option<u16>| wanted.is_none_or(|wanted| wanted == port);
        self.rules.iter().any(|rule| match (rule, address) {
            (Rule::Network(network, bits), Some(address)) => within(address, *network, *bits),
            (Rule::Address(wanted, port), Some(address)) => *wanted == address && port_fits(port),
            (Rule::Domain { suffix, itself, port }, _) => {
                (host.ends_with(&**suffix) || (*itself && host == suffix[1..])) && port_fits(port)
            }
            (_, None) => false,
        })
    }
}

fn rule(entry: &str) -> Option<Rule> {
    if let Some((network, bits)) = entry.split_once('/')
        && let (Ok(network), Ok(bits)) = (network.parse::<IpAddr>(), bits.parse::<u8>())
        && bits <= if network.is_ipv4() { 32 } else { 128 }
    {
        return Some(Rule::Network(network, bits));
    }
    let (host, port) = host_and_port(entry);
    if let Ok(address) = host.parse::<IpAddr>() {
        return Some(Rule::Address(address.to_canonical(), port));
    }
    let host = if host.starts_with("*.") { &host[1..] } else { host };
    if host.is_empty() {
        return None;
    }
    let itself = !host.starts_with('.');
    Some(Rule::Domain { suffix: if itself { format!(".{host}") } else { host.to_owned() }, itself, port })
}

fn host_and_port(entry: &str) -> (&str, Option<u16>) {
    let unbracketed = |host: &'_ str| host.starts_with('[') == host.ends_with(']');
    if let Some((host, port)) = entry.rsplit_once(':')
        && let Ok(port) = port.parse()
        && unbracketed(host)
        && (host.starts_with('[') || !host.contains(':'))
    {
        return (host.trim_start_matches('[').trim_end_matches(']'), Some(port));
    }
    (entry.trim_start_matches('[').trim_end_matches(']'), None)
}

fn within(address: IpAddr, network: IpAddr, bits: u8) -> bool {
    let same = |a: u128, b: u128, width: u8| bits == 0 || (a ^ b) >> (width - bits.min(width)) == 0;
    match (address, network) {
        (IpAddr::V4(a), IpAddr::V4(b)) => same(a.to_bits().into(), b.to_bits().into(), 32),
        (IpAddr::V6(a), IpAddr::V6(b)) => same(a.to_bits(), b.to_bits(), 128),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exemptions_by_gos_rules() {
        for (rules, host, port, expected) in [
            ("", "quay.io", 443, false),
            ("*", "quay.io", 443, true),
            ("x.example, * ", "quay.io", 443, true),
            ("quay.io", "quay.io", 443, true),
            ("quay.io", "cdn.quay.io", 443, true),
            ("quay.io", "notquay.io", 443, false),
            ("QUAY.io", "Quay.IO", 443, true),
            (".quay.io", "quay.io", 443, false),
            (".quay.io", "cdn.quay.io", 443, true),
            ("*.quay.io", "quay.io", 443, false),
            ("*.quay.io", "cdn.quay.io", 443, true),
            ("quay.io:443", "quay.io", 443, true),
            ("quay.io:443", "quay.io", 5000, false),
            (".quay.io:5000", "cdn.quay.io", 5000, true),
            ("10.0.0.0/16", "10.0.255.1", 443, true),
            ("10.0.0.0/16", "10.1.0.1", 443, false),
            ("0.0.0.0/0", "10.1.0.1", 443, true),
            ("10.0.0.0/33", "10.0.0.1", 443, false),
            ("fd00::/8", "fd12::1", 443, true),
            ("fd00::/8", "fe80::1", 443, false),
            ("10.0.0.0/16", "registry.10.0.0.1", 443, false),
            ("10.0.0.1", "10.0.0.1", 443, true),
            ("10.0.0.1:5000", "10.0.0.1", 443, false),
            ("10.0.0.1:5000", "10.0.0.1", 5000, true),
            ("[fd00::1]:5000", "fd00::1", 5000, true),
            ("[fd00::1]:5000", "fd00::1", 443, false),
            ("fd00::1", "fd00::1", 443, true),
            ("::ffff:10.0.0.1", "10.0.0.1", 443, true),
            ("", "localhost", 443, true),
            ("", "127.0.0.5", 443, true),
            ("", "::1", 443, true),
            (",, ,.svc, .cluster.local", "registry.svc", 443, true),
            ("cluster.local:x", "cluster.local", 443, false),
        ] {
            assert_eq!(NoProxy::parse(rules).exempts(host, port), expected, "{rules:?} {host}:{port}");
        }
    }

    #[test]
    fn the_proxy_is_that_of_the_scheme_and_its_password_is_never_shown() {
        let proxies = Proxies::new("proxy.example:3128", "http://user:s3cret@proxy.example:3129", ".svc").unwrap();
        let of = |url: &str| proxies.of(&Url::parse(url).unwrap()).and_then(|proxy| proxy.port());
        assert_eq!(of("http://quay.io/v2/"), Some(3128));
        assert_eq!(of("https://quay.io/v2/"), Some(3129));
        assert_eq!(of("https://registry.svc:5000/v2/"), None);
        assert_eq!(of("https://[::1]:5000/v2/"), None);
        assert!(!format!("{proxies:?}").contains("s3cret"), "{proxies:?}");
        assert!(Proxies::new("", "", "x").unwrap().none());
        let error = Proxies::new("", "socks5://user:s3cret@proxy", "").unwrap_err();
        assert!(error.contains("httpsProxy") && !error.contains("s3cret"), "{error}");
    }
}
