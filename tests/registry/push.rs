//! Pushing by the distribution API, byte for byte: no tool in between that could convert.

use std::collections::BTreeMap;
use std::thread;

use futures::{StreamExt, TryStreamExt, stream};
use reqwest::{Method, Response, StatusCode, header};

use crate::images::{Image, Manifest, Release};
use crate::real::Registry;

/// More than this make docker-registry no faster.
const AT_ONCE: usize = 8;

impl Registry {
    /// Pushes a release image to `repository`, such as `ocp/release`, and gives its pullspec there.
    pub fn push(&self, repository: &str, release: &Release) -> String {
        self.push_images(repository, [&release.image]);
        format!("{}/{repository}@{}", self.host(), release.digest())
    }

    /// Pushes images with all that they refer to.
    pub fn push_images<'a>(&self, repository: &str, images: impl IntoIterator<Item = &'a Image>) {
        let images: Vec<_> = images.into_iter().collect();
        self.talk(async |client| {
            let blobs: BTreeMap<_, _> = images.iter().flat_map(|image| &image.blobs).collect();
            let pushes = blobs.into_iter().map(|(digest, bytes)| client.blob(repository, digest, bytes));
            stream::iter(pushes).buffer_unordered(AT_ONCE).try_collect::<()>().await?;
            let pushes = images.iter().map(|image| client.manifests(repository, image));
            stream::iter(pushes).buffer_unordered(AT_ONCE).try_collect::<()>().await
        });
    }

    /// Lets `tag` name an image that was pushed.
    pub fn tag(&self, repository: &str, tag: &str, image: &Image) {
        self.talk(async |client| client.manifest(repository, tag, image.top()).await);
    }

    /// Deletes a manifest, as a clean-up that went too far does.
    pub fn delete(&self, repository: &str, digest: &str) {
        let path = format!("{repository}/manifests/{digest}");
        self.talk(async |client| client.ask(Method::DELETE, &path, &[], vec![]).await.map(drop));
    }

    /// That the registry refuses to delete a manifest.
    pub fn delete_is_refused(&self, repository: &str, digest: &str) {
        let path = format!("{repository}/manifests/{digest}");
        self.talk(async |client| match client.ask(Method::DELETE, &path, &[], vec![]).await {
            Err(why) if why.contains("405") => Ok(()),
            outcome => Err(format!("DELETE {path} is not refused: {outcome:?}")),
        });
    }

    /// From a thread of its own, so that async tests may push too.
    fn talk(&self, work: impl AsyncFnOnce(&Client) -> Result<(), String> + Send) {
        let talk = || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async { work(&Client::new(self)).await })
        };
        thread::scope(|scope| scope.spawn(talk).join())
            .expect("no panic while pushing")
            .unwrap_or_else(|why| panic!("{}: {why}", self.host()));
    }
}

struct Client {
    http: reqwest::Client,
    base: String,
    login: Option<(&'static str, &'static str)>,
}

impl Client {
    fn new(registry: &Registry) -> Self {
        let ca = std::fs::read(registry.ca_file()).expect("read the registry's CA");
        let ca = reqwest::Certificate::from_pem(&ca).expect("a certificate");
        let http = reqwest::Client::builder().tls_certs_only([ca]).no_proxy().build().expect("a client");
        Self { http, base: format!("https://{}/v2/", registry.host()), login: registry.login() }
    }

    async fn blob(&self, repository: &str, digest: &str, bytes: &[u8]) -> Result<(), String> {
        let begun = self.ask(Method::POST, &format!("{repository}/blobs/uploads/"), &[], vec![]).await?;
        let place = begun.headers().get(header::LOCATION).and_then(|value| value.to_str().ok());
        let place = place.ok_or("an upload without Location")?.to_owned();
        let place = format!("{place}{}digest={digest}", if place.contains('?') { '&' } else { '?' });
        let kind = [(header::CONTENT_TYPE, "application/octet-stream")];
        self.ask(Method::PUT, &place, &kind, bytes.to_vec()).await.map(drop)
    }

    /// Those below an index first: a registry takes it only then.
    async fn manifests(&self, repository: &str, image: &Image) -> Result<(), String> {
        for manifest in &image.manifests {
            self.manifest(repository, &manifest.digest, manifest).await?;
        }
        Ok(())
    }

    async fn manifest(&self, repository: &str, reference: &str, manifest: &Manifest) -> Result<(), String> {
        let path = format!("{repository}/manifests/{reference}");
        let kind = [(header::CONTENT_TYPE, manifest.media_type)];
        self.ask(Method::PUT, &path, &kind, manifest.bytes.clone()).await.map(drop)
    }

    async fn ask(
        &self,
        method: Method,
        path: &str,
        headers: &[(header::HeaderName, &str)],
        body: Vec<u8>,
    ) -> Result<Response, String> {
        let url = if path.starts_with("https:") { path.to_owned() } else { format!("{}{path}", self.base) };
        let mut request = self.http.request(method.clone(), &url).body(body);
        for (name, value) in headers {
            request = request.header(name, *value);
        }
        if let Some((user, password)) = self.login {
            request = request.basic_auth(user, Some(password));
        }
        let response = request.send().await.map_err(|error| format!("{method} {url}: {error}"))?;
        match response.status() {
            status if status.is_success() => Ok(response),
            status @ StatusCode::UNAUTHORIZED => Err(format!("{method} {url}: {status}")),
            status => Err(format!("{method} {url}: {status} {}", response.text().await.unwrap_or_default())),
        }
    }
}
