//! AdmissionReview v1 out: what the API server, kubectl and oc make of each field decides its content
//! (422 hides `message` from kubectl, 403 hides causes, `retryAfterSeconds` makes clients ask again).

use std::collections::BTreeMap;

use serde::Serialize;

use crate::pullspec::Digest;
use crate::review::{BadInput, Review};
use crate::text::{self, shown};
use crate::verdict::Verdict;

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AdmissionReview {
    api_version: &'static str,
    kind: &'static str,
    pub response: Response,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Response {
    uid: String,
    pub allowed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub audit_annotations: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Serialize)]
pub struct Status {
    status: &'static str,
    pub code: u16,
    pub reason: &'static str,
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<Details>,
}

#[derive(Clone, Debug, Serialize)]
pub struct Details {
    pub kind: &'static str,
    pub name: String,
    pub causes: Vec<Cause>,
    /// On which oc and kubectl wait and ask again by themselves, up to ten times.
    #[serde(rename = "retryAfterSeconds", skip_serializing_if = "Option::is_none")]
    pub retry_after_seconds: Option<u32>,
}

#[derive(Clone, Debug, Serialize)]
pub struct Cause {
    pub reason: &'static str,
    pub field: &'static str,
    pub message: String,
}

impl Response {
    fn allow(uid: &str) -> Self {
        Self { uid: uid.to_owned(), allowed: true, status: None, warnings: vec![], audit_annotations: BTreeMap::new() }
    }

    fn deny(uid: &str, code: u16, reason: &'static str, message: String, details: Option<Details>) -> Self {
        let status = Status { status: "Failure", code, reason, message, details };
        Self { allowed: false, status: Some(status), ..Self::allow(uid) }
    }

    /// The answer to a review that was judged.
    #[must_use]
    pub fn to(review: &Review<'_>, verdict: &Verdict) -> Self {
        let mut response = match &verdict.denials[..] {
            [] => Self::allow(&review.uid),
            denials => {
                let refusals: Vec<_> = denials.iter().map(|denial| (&denial.text, &*denial.footer)).collect();
                let message = text::message(&refusals);
                let malformed = denials.iter().all(|denial| denial.malformed);
                let (code, reason) = if malformed { (422, "Invalid") } else { (403, "Forbidden") };
                let name =
                    review.subject.metadata().map(|metadata| shown(&metadata.name).into_owned()).unwrap_or_default();
                // Of a 422 kubectl prints the causes and nothing else: the first holds the whole text.
                let causes = if malformed {
                    vec![Cause { reason: "FieldValueInvalid", field: denials[0].field, message: message.clone() }]
                } else {
                    let cause = |denial: &crate::verdict::Denial| Cause {
                        reason: if denial.malformed { "FieldValueInvalid" } else { "FieldValueForbidden" },
                        field: denial.field,
                        message: denial.text.what.clone(),
                    };
                    denials.iter().map(cause).collect()
                };
                let details = Details { kind: review.subject.kind(), name, causes, retry_after_seconds: None };
                Self::deny(&review.uid, code, reason, message, Some(details))
            }
        };
        response.warnings.clone_from(&verdict.warnings);
        // Keys are plain names: the API server puts the webhook's name before them.
        response.audit_annotations = verdict.audit.iter().map(|(id, text)| ((*id).to_owned(), text.clone())).collect();
        response
    }

    /// Instead of a denial for want of a release that is being read: the client asks again in a second.
    #[must_use]
    pub fn ask_again(mut self, digest: Digest, from: &str) -> Self {
        if let Some(status) = &mut self.status {
            status.code = 429;
            status.reason = "TooManyRequests";
            status.message = format!(
                "the release {digest} is being read from {}; oc and kubectl ask again by themselves, others should in a second",
                shown(from)
            );
            if let Some(details) = &mut status.details {
                details.causes.clear();
                details.retry_after_seconds = Some(1);
            }
        }
        self
    }

    /// The answer to what could not be judged, where its uid is known.
    #[must_use]
    pub fn to_bad_input(uid: &str, bad: &BadInput) -> Self {
        let (code, reason) = if bad.malformed_object { (422, "Invalid") } else { (400, "BadRequest") };
        let message = format!("airgate cannot judge this request: {}", shown(&bad.message));
        Self::deny(uid, code, reason, message, None)
    }

    #[must_use]
    pub fn into_review(self) -> AdmissionReview {
        AdmissionReview { api_version: "admission.k8s.io/v1", kind: "AdmissionReview", response: self }
    }
}
