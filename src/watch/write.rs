//! The only write of the command line: one annotation of one object. The server never writes objects.

use std::time::Duration;

use http_body_util::BodyExt;
use kube::Client;
use kube::api::{Patch, PatchParams};
use kube::client::Body;
use kube::core::{Request, Status};
use serde_json::{Value, json};

use super::api::cause;
use crate::resource::Resource;
use crate::text::shown;

/// Why an annotation was not written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// Somebody else changed the object since it was read: read it again.
    #[error("the object changed while it was written")]
    Conflict,
    #[error("the API server refused the annotation: {0}")]
    Refused(String),
    #[error("the annotation could not be written: {0}")]
    Failed(String),
}

/// Sets an annotation of `object`, as it was read, or removes it where `text` is `None`; yields what the API server
/// warns of.
///
/// # Errors
/// [`WriteError`]; with it nothing was stored, unless no answer came in time.
pub async fn annotate(
    client: &Client,
    resource: &Resource,
    object: &Value,
    key: &str,
    text: Option<&str>,
    patience: Duration,
) -> Result<Vec<String>, WriteError> {
    let field = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default();
    let (api_version, name) = (field("/apiVersion"), field("/metadata/name"));
    // With the version that was read, so that nobody's entry is lost.
    let metadata = json!({"resourceVersion": field("/metadata/resourceVersion"), "annotations": {key: text}});
    let parameters = PatchParams { field_manager: Some("airgate-override".into()), ..PatchParams::default() };
    let request = Request::new(format!("/apis/{api_version}/{}", resource.plural))
        .patch(name, &parameters, &Patch::Merge(json!({"metadata": metadata})))
        .map_err(|error| WriteError::Failed(error.to_string()))?;
    let answer = async {
        let response = client.send(request.map(Body::from)).await?;
        let (head, body) = response.into_parts();
        Ok::<_, kube::Error>((head, body.collect().await?.to_bytes()))
    };
    let failed = |why: String| WriteError::Failed(shown(&why).into_owned());
    let (head, body) = match tokio::time::timeout(patience, answer).await {
        Err(_) => return Err(failed(format!("no answer within {patience:?}; look whether it is there"))),
        Ok(answer) => answer.map_err(|error| failed(cause(&error)))?,
    };
    if head.status.is_success() {
        return Ok(head.headers.get_all("warning").iter().filter_map(|value| warning(value.as_bytes())).collect());
    }
    let status: Status = serde_json::from_slice(&body).unwrap_or_default();
    match head.status.as_u16() {
        409 => Err(WriteError::Conflict),
        code if status.message.is_empty() => Err(failed(format!("HTTP {code}"))),
        _ => Err(WriteError::Refused(shown(&status.message).into_owned())),
    }
}

/// The text of `299 - "TEXT"`.
fn warning(header: &[u8]) -> Option<String> {
    let header = String::from_utf8_lossy(header);
    let text = header.split_once('"')?.1.strip_suffix('"')?;
    Some(shown(&text.replace("\\\"", "\"").replace("\\\\", "\\")).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_are_read_from_their_header() {
        for (header, expected) in
            [(r#"299 - "plain""#, Some("plain")), (r#"299 - "says \"no\"""#, Some(r#"says "no""#)), ("nothing", None)]
        {
            assert_eq!(warning(header.as_bytes()).as_deref(), expected, "{header}");
        }
    }
}
