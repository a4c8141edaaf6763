//! Everything that is not a good review gets a clear answer, and the server goes on.

use serde_json::{Value, json};

use super::running::{Running, V4_22_3, V4_23_1, review, upgrade_to};

#[tokio::test]
async fn bodies_that_are_no_review() {
    let server = Running::start().await;
    let good = upgrade_to(V4_23_1).to_string();
    let half = &good[..good.len() / 2];
    let without_uid = good.replace("\"a-uid\"", "\"\"");
    let nested =
        format!("{{\"kind\":\"AdmissionReview\",\"request\":{}1{}}}", "[".repeat(100_000), "]".repeat(100_000));
    let old_version = good.replace("admission.k8s.io/v1", "admission.k8s.io/v1beta1");
    let uid_first = format!("{{\"request\":{{\"uid\":\"seen\",\"object\":{}", "{\"a\":".repeat(50));
    let not_utf8 = [b"{\"request\":{\"uid\":\"seen\"},\"x\":\"".as_slice(), &[0xff, 0xfe], b"\"}"].concat();
    for (body, status, part) in [
        (Vec::new(), 400, "not an AdmissionReview"),
        (b"null".to_vec(), 400, "not an AdmissionReview"),
        (b"[]".to_vec(), 400, "invalid type: sequence"),
        (half.as_bytes().to_vec(), 400, "EOF"),
        (without_uid.into_bytes(), 400, "no uid"),
        (nested.into_bytes(), 400, "invalid type: sequence"),
        (uid_first.into_bytes(), 200, "\"uid\":\"seen\""),
        (not_utf8, 200, "not UTF-8"),
        (old_version.into_bytes(), 200, "admissionReviewVersions: [v1]"),
        (b"{\"kind\":\"AdmissionReview\",\"apiVersion\":\"admission.k8s.io/v1\"}".to_vec(), 400, "no request"),
    ] {
        let shown = String::from_utf8_lossy(&body).chars().take(80).collect::<String>();
        let (got, text) = server.post(body).await;
        assert_eq!(got, status, "{shown}: {text}");
        assert!(text.contains(part), "{shown} lacks {part:?}: {text}");
        assert!(!text.contains("\"allowed\":true"), "{shown}: {text}");
    }
    let (status, text) = server.post_as("text/plain", good.clone()).await;
    assert_eq!(status, 415, "{text}");
    let (status, text) = server.post(vec![b' '; 9 << 20]).await;
    assert_eq!(status, 413, "{text}");
    server.still_judges().await;
}

#[tokio::test]
async fn objects_with_fields_of_the_wrong_type_are_malformed_values() {
    let server = Running::start().await;
    for (path, value) in [
        ("/request/object/spec/desiredUpdate/image", json!(5)),
        ("/request/object/spec/desiredUpdate", json!("4.22.3")),
        ("/request/object/spec/desiredUpdate/force", json!("true")),
        ("/request/oldObject/status/history", json!({"version": "4.21.9"})),
        ("/request/oldObject/status/desired/version", json!(["4.21.9"])),
        ("/request/object/metadata/annotations", json!([1])),
    ] {
        let mut review = upgrade_to(V4_22_3);
        match review.pointer_mut(path) {
            Some(field) => *field = value.clone(),
            None => review["request"]["object"]["metadata"]["annotations"] = value.clone(),
        }
        let response = server.review(&review).await;
        assert_eq!(
            (&response["allowed"], &response["status"]["code"]),
            (&json!(false), &json!(422)),
            "{path}: {response}"
        );
    }
    // The API server decodes JSON leniently; a verdict must not rest on which of two equal keys wins.
    let twice = upgrade_to(V4_22_3).to_string().replacen("\"force\":false", "\"force\":false,\"force\":true", 1);
    let (_, text) = server.post(twice).await;
    assert!(text.contains("duplicate field `force`") && text.contains("\"uid\":\"a-uid\""), "{text}");
    server.still_judges().await;
}

#[tokio::test]
async fn null_absent_and_unknown_are_no_fault() {
    let server = Running::start().await;
    let mut review = upgrade_to(V4_22_3);
    review["request"]["object"]["spec"]["desiredUpdate"] = json!({"image": review["request"]["object"]["spec"]["desiredUpdate"]["image"],
        "version": null, "force": null, "url": "x", "acceptRisks": [{"name": "A"}]});
    review["request"]["object"]["metadata"]["annotations"] = Value::Null;
    review["request"]["oldObject"]["status"]["conditionalUpdates"] = Value::Null;
    review["request"]["oldObject"]["status"]["conditions"] = json!([{"type": "New", "status": "Maybe", "more": {}}]);
    review["request"]["requestSubResource"] = Value::Null;
    review["more"] = json!([1, 2]);
    assert_eq!(server.review(&review).await["allowed"], true);
}

#[tokio::test]
async fn what_nobody_guards_is_allowed_and_counted() {
    let server = Running::start().await;
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": ["anything"]});
    assert_eq!(server.review(&review("", "pods", "CREATE", &Value::Null, &pod)).await["allowed"], true);
    let mut status = upgrade_to(V4_23_1);
    status["request"]["subResource"] = json!("status");
    assert_eq!(server.review(&status).await["allowed"], true);
    let (_, metrics) = server.health("/metrics").await;
    assert!(metrics.contains(r#"airgate_reviews_total{kind="other",outcome="allow"} 2"#), "{metrics}");

    for (operation, old, new, code) in [
        ("UPDATE", Value::Null, pod.clone(), 400),
        ("CONNECT", pod.clone(), pod.clone(), 400),
        ("DELETE", Value::Null, Value::Null, 403), // the stored object is looked up in the state
    ] {
        let response = server.review(&review("config.openshift.io", "clusterversions", operation, &old, &new)).await;
        assert_eq!(
            (&response["allowed"], &response["status"]["code"]),
            (&json!(false), &json!(code)),
            "{operation}: {response}"
        );
    }
}

#[tokio::test]
async fn a_review_that_names_no_resource_is_not_waved_through() {
    let server = Running::start().await;
    let mut nameless = upgrade_to(V4_22_3);
    nameless["request"]["resource"] = Value::Null;
    let response = server.review(&nameless).await;
    assert_eq!((&response["allowed"], &response["status"]["code"]), (&json!(false), &json!(400)), "{response}");
}

/// Three bytes of a body must not become a hundred of memory, nor a long list a long computation.
#[tokio::test]
async fn lists_without_end_are_refused() {
    let server = Running::start().await;
    let bundles: Vec<Value> =
        (0..300).map(|n| json!({"name": format!("ocp-release-bundle-4.22.{n}-x86_64")})).collect();
    let image = json!({"metadata": {"name": "cluster"}, "spec": {"releases": bundles}});
    let delete = review("machineconfiguration.openshift.io", "internalreleaseimages", "DELETE", &image, &Value::Null);
    let mut step = upgrade_to(V4_22_3);
    step["request"]["oldObject"]["status"]["conditionalUpdates"] = json!(vec![json!({}); 2500]);
    for review in [delete, step] {
        let response = server.review(&review).await;
        let message = response["status"]["message"].as_str().unwrap();
        assert!(response["status"]["code"] == 422 && message.contains("a list of more than"), "{response}");
    }
    let long = json!({"apiVersion": "x".repeat(100_000), "request": {"uid": "u"}});
    let (_, text) = server.post(long.to_string()).await;
    assert!(text.len() < 2000, "what is quoted of a request is bounded: {} bytes", text.len());
    server.still_judges().await;
}
