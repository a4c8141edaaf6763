//! One review, bytes to bytes: decode, judge, encode. The server and the command line both end here.

use std::sync::LazyLock;

use jiff::Timestamp;

use crate::answer::Response;
use crate::cluster::Snapshot;
use crate::inputs::Short;
use crate::policy::Context;
use crate::release::completeness::Checks;
use crate::release::{Attempt, Catalog};
use crate::review::{BadInput, Review};
use crate::settings::Settings;
use crate::signature::Signatures;
use crate::verdict::{self, Verdict};

/// What a verdict rests on beside the request.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    pub cluster: &'a Snapshot,
    pub catalog: &'a Catalog,
    /// What reading the release that the request wants came to, where that was tried.
    pub attempt: Option<&'a Attempt>,
    /// What was found of the components of releases.
    pub checks: &'a Checks,
    pub signatures: &'a Signatures,
    pub settings: &'a Settings,
    pub now: Timestamp,
}

static NO_CHECKS: Checks = Checks::new();
static NO_SIGNATURES: LazyLock<Signatures> = LazyLock::new(|| Signatures::nothing("no signatures were looked for"));

impl<'a> Facts<'a> {
    /// With nothing that only a server comes to know.
    #[must_use]
    pub fn of(cluster: &'a Snapshot, catalog: &'a Catalog, settings: &'a Settings, now: Timestamp) -> Self {
        Self { cluster, catalog, attempt: None, checks: &NO_CHECKS, signatures: &NO_SIGNATURES, settings, now }
    }

    /// All that a policy may look at.
    #[must_use]
    pub fn context(self, review: &'a Review<'a>) -> Context<'a> {
        let Self { cluster, catalog, attempt, checks, signatures, settings, now } = self;
        Context { review, cluster, catalog, attempt, checks, signatures, settings, now }
    }
}

/// A review that was judged, with its answer.
#[derive(Debug)]
pub struct Judged {
    pub verdict: Verdict,
    pub response: Response,
    pub dry_run: bool,
    /// The digest of what was asked, where a policy judged it.
    pub request: Option<Short>,
    /// The kind the request is about, for metrics.
    pub kind: &'static str,
    /// The object's name, where airgate guards its kind.
    pub name: String,
    /// `resource.group` of a request that no policy guards.
    pub unguarded: Option<String>,
    /// The response asks the client to come again while a release is read.
    pub asked_again: bool,
}

/// Judges the body of a `POST /validate`.
///
/// # Errors
/// [`BadInput`] where there is nothing to judge.
pub fn judge(body: &[u8], facts: Facts<'_>) -> Result<Judged, BadInput> {
    let review = Review::decode(body, facts.cluster)?;
    let verdict = verdict::judge(&facts.context(&review));
    let response = Response::to(&review, &verdict);
    let unguarded = match &review.subject {
        crate::review::Subject::Other(resource) => Some(resource.clone()),
        _ => None,
    };
    let name = review.subject.metadata().map(|metadata| metadata.name.to_string()).unwrap_or_default();
    let request = (!verdict.audit.is_empty()).then(|| Short::of_request(&review));
    Ok(Judged {
        name,
        verdict,
        response,
        dry_run: review.dry_run,
        request,
        kind: review.subject.kind(),
        unguarded,
        asked_again: false,
    })
}
