//! Why a registry yielded nothing, for a program and for a person.

use std::error::Error as _;
use std::fmt;
use std::io;
use std::time::Duration;

use rustls::CertificateError;

use crate::payload::Fault;
use crate::pullspec::Repository;
use crate::text::shown;

/// The kinds of failure that callers tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The registry answered that it is not there.
    Absent,
    /// The registry wants other credentials.
    Denied,
    /// No usable answer came.
    Unreachable,
    /// The certificate is not one that is trusted.
    Untrusted,
    /// The answer is not what the digest names.
    Wrong,
    TooLarge,
    /// The time was up.
    Late,
    /// The read needed more requests or memory than one may have.
    Exhausted,
}

impl Reason {
    /// Whether it leaves open that the object is there.
    #[must_use]
    pub fn leaves_open(self) -> bool {
        matches!(self, Self::Denied | Self::Unreachable | Self::Untrusted | Self::Late)
    }
}

/// What came of one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    pub place: Repository,
    pub reason: Reason,
    /// Clean and short; nothing secret.
    pub why: String,
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.why)
    }
}

/// Why there is no release to speak of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unread {
    /// Every place answered that it has it not.
    Absent(Vec<Attempt>),
    /// Some place could not be asked, so that nobody knows.
    Unreachable(Vec<Attempt>),
    /// Found, but broken, or no release. `place` is where, unless it was broken at every place.
    Bad { fault: Fault, place: Option<Repository>, attempts: Vec<Attempt> },
}

impl Unread {
    pub(super) fn of(attempts: Vec<Attempt>) -> Self {
        if attempts.is_empty() || attempts.iter().any(|attempt| attempt.reason.leaves_open()) {
            return Self::Unreachable(attempts);
        }
        match attempts.iter().rposition(|attempt| attempt.reason != Reason::Absent) {
            None => Self::Absent(attempts),
            Some(broken) => Self::Bad { fault: Fault::Bad(attempts[broken].to_string()), place: None, attempts },
        }
    }

    #[must_use]
    pub fn attempts(&self) -> &[Attempt] {
        match self {
            Self::Absent(attempts) | Self::Unreachable(attempts) | Self::Bad { attempts, .. } => attempts,
        }
    }
}

/// The last place is the source of the mirrors before it, so its reason comes first.
impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bad { fault, place: Some(place), .. } => return write!(f, "{place}: {fault}"),
            Self::Bad { fault, place: None, .. } => return write!(f, "{fault}"),
            Self::Unreachable(attempts) if attempts.is_empty() => {
                return f.write_str("no registry may be asked for it: every source is blocked and has no mirror");
            }
            Self::Absent(_) => f.write_str("no registry has it: ")?,
            Self::Unreachable(_) => f.write_str("it could not be read: ")?,
        }
        let Some((source, mirrors)) = self.attempts().split_last() else { return Ok(()) };
        write!(f, "{source}")?;
        mirrors.iter().try_for_each(|mirror| write!(f, "; before that {mirror}"))
    }
}

impl std::error::Error for Unread {}

/// Why one request yielded nothing.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    pub reason: Reason,
    pub why: String,
    /// After how long the same request may succeed; `None`: asking again makes no sense.
    pub again: Option<Duration>,
    /// No connection came about.
    pub connect: bool,
}

impl Failure {
    pub fn new(reason: Reason, why: impl Into<String>) -> Self {
        Self { reason, why: why.into(), again: None, connect: false }
    }

    pub fn late(doing: &str) -> Self {
        Self::new(Reason::Late, format!("the time was up while {doing}; try again, or look at the registry's load"))
    }

    pub fn at(self, place: &Repository) -> Attempt {
        Attempt { place: place.clone(), reason: self.reason, why: self.why }
    }

    /// What the client says. `host` is the one that the request went to.
    pub fn of_client(error: reqwest::Error, host: &str, proxied: bool) -> Self {
        let error = error.without_url();
        let connect = error.is_connect();
        if let Some(certificate) = certificate_error(&error) {
            let failure = Self::new(Reason::Untrusted, untrusted(host, &certificate));
            return Self { connect, ..failure };
        }
        let through = if proxied { " through the proxy" } else { "" };
        let host = shown(host);
        // A connect that took its whole time is not repeated: the next place, or the caller, needs the rest.
        let (why, again) = if error.is_dns() {
            (
                format!("the name {host} cannot be resolved: look at the DNS of this machine or pod"),
                Some(Duration::ZERO),
            )
        } else if connect && error.is_timeout() {
            (format!("{host} does not answer{through}: look at its health and at the firewall between"), None)
        } else if connect {
            let way = if proxied { "at the proxy and its noProxy" } else { "at its health and its port" };
            let deepest = deepest(&error);
            if deepest.contains("InvalidContentType") {
                let why = format!(
                    "{host} does not speak TLS: if it may be asked in plain http, --insecure {host} (or insecureRegistries)"
                );
                return Self { again: None, connect, ..Self::new(Reason::Unreachable, why) };
            }
            (format!("no connection to {host}{through} ({deepest}): look {way}"), Some(Duration::ZERO))
        } else {
            (format!("{host} broke off its answer ({})", deepest(&error)), Some(Duration::ZERO))
        };
        Self { again, connect, ..Self::new(Reason::Unreachable, why) }
    }
}

fn untrusted(host: &str, error: &rustls::Error) -> String {
    let host = shown(host);
    let key = host.replace(':', "..");
    let add = format!(
        "add its CA with --ca-file, or under the key {key} to the ConfigMap that image.config.openshift.io/cluster names \
         as additionalTrustedCA"
    );
    let rustls::Error::InvalidCertificate(error) = error else {
        return format!("the certificate of {host} cannot be used ({}): replace it", shown(&error.to_string()));
    };
    match error {
        // The second is the name of a known CA with another key, as after a CA was made anew.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            format!("the certificate of {host} is signed by an unknown CA: {add}")
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            format!("the certificate of {host} has expired: renew it, or set this machine's clock")
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            format!("the certificate of {host} is not valid yet: set this machine's clock")
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            format!(
                "the certificate of {host} is for other names: give it one with this name among its subjectAltNames"
            )
        }
        // webpki's refusal of a CA as a server's certificate comes as an opaque other error.
        other => {
            format!("the certificate of {host} is not trusted ({}): {add}", shown(&format!("{other:?}")))
        }
    }
}

fn certificate_error(error: &reqwest::Error) -> Option<rustls::Error> {
    let found = causes(error).find_map(|cause| cause.downcast_ref::<rustls::Error>());
    let about_it = |error: &&rustls::Error| {
        matches!(error, rustls::Error::InvalidCertificate(_) | rustls::Error::NoCertificatesPresented)
    };
    found.filter(about_it).cloned()
}

/// What is below an error. An `io::Error` leaves the error that it wraps out of its sources.
fn causes(error: &reqwest::Error) -> impl Iterator<Item = &(dyn std::error::Error + 'static)> {
    std::iter::successors(error.source(), |error| {
        let error: &(dyn std::error::Error + 'static) = *error;
        match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
            Some(wrapped) => Some(wrapped),
            None => error.source(),
        }
    })
}

fn deepest(error: &reqwest::Error) -> String {
    let text = causes(error).last().map_or_else(|| error.to_string(), ToString::to_string);
    shown(&text).chars().take(160).collect()
}
