//! The reader on a real docker-registry.

use std::fs;
use std::time::Duration;

use airgate::pullspec::{Digest, Repository};
use airgate::registry::{Access, Presence, Registry as Reader, Unread};
use tokio::time::Instant;

use crate::images::{Form, Packing, Recipe};
use crate::real::{Options, Registry};

fn reader(registry: &Registry, with_login: bool) -> Reader {
    let access = Access::default().ca("ca.crt", &fs::read(registry.ca_file()).unwrap()).unwrap();
    let access = if with_login {
        access.pull_secret("auth.json", &fs::read(registry.authfile()).unwrap()).unwrap()
    } else {
        access
    };
    Reader::new(access).unwrap()
}

fn soon() -> Instant {
    Instant::now() + Duration::from_mins(1)
}

#[tokio::test]
async fn every_form_and_packing_is_read_as_it_was_built() {
    let registry = Registry::start(Options { login: Some(("openshift", "a:password")), ..Options::default() });
    let reader = reader(&registry, true);
    let places = [Repository::parse(&format!("{}/openshift/release-images", registry.host())).unwrap()];
    let forms = [Form::Docker, Form::Oci, Form::List, Form::Nested].map(|form| (form, Packing::Gzip));
    let packings = [Packing::Members, Packing::Zstd, Packing::Plain].map(|packing| (Form::Oci, packing));
    for (form, packing) in forms.into_iter().chain(packings) {
        let release = Recipe::new("4.19.9", &["4.18.20", "4.19.8"]).form(form).packing(packing).build();
        registry.push("openshift/release-images", &release);
        let digest = Digest::parse(release.digest()).unwrap();
        // From another task, as a server does it.
        let (task_reader, task_places) = (reader.clone(), places.clone());
        let read = tokio::spawn(async move { task_reader.release(&task_places, digest, soon()).await });
        let read = read.await.unwrap().unwrap();
        assert_eq!((read.payload.digest, &*read.payload.version.to_string()), (digest, "4.19.9"));
        assert_eq!(read.payload.previous.len(), 2, "{form:?} {packing:?}");
        let shards: Vec<_> = read.payload.shards.iter().map(ToString::to_string).collect();
        assert_eq!(shards, release.shards, "{form:?}");
        assert_eq!(read.payload.components.len(), release.components.len());
        assert_eq!(reader.present(&places, digest, soon()).await, Presence::Found(places[0].clone()));
    }
}

#[tokio::test]
async fn what_is_not_there_is_told_from_what_may_not_be_seen_and_from_what_is_down() {
    let mut registry = Registry::start(Options { login: Some(("openshift", "password")), ..Options::default() });
    let release = Recipe::new("4.19.9", &["4.18.20"]).build();
    registry.push("ocp/release", &release);
    let digest = Digest::parse(release.digest()).unwrap();
    let places = [Repository::parse(&format!("{}/ocp/release", registry.host())).unwrap()];
    let other = [Repository::parse(&format!("{}/ocp/other", registry.host())).unwrap()];
    let known = reader(&registry, true);
    known.release(&places, digest, soon()).await.unwrap();
    let unread = known.release(&other, digest, soon()).await.unwrap_err();
    assert!(matches!(unread, Unread::Absent(_)), "{unread}");
    assert_eq!(known.present(&other, digest, soon()).await, Presence::Absent);

    let unread = reader(&registry, false).release(&places, digest, soon()).await.unwrap_err();
    assert!(matches!(unread, Unread::Unreachable(_)) && unread.to_string().contains("auths entry"), "{unread}");

    registry.delete("ocp/release", release.digest());
    let unread = known.release(&places, digest, soon()).await.unwrap_err();
    assert!(matches!(unread, Unread::Absent(_)) && unread.to_string().contains("MANIFEST_UNKNOWN"), "{unread}");

    registry.stop();
    let unread = known.release(&places, digest, soon()).await.unwrap_err();
    assert!(matches!(unread, Unread::Unreachable(_)) && unread.to_string().contains("no connection"), "{unread}");
}
