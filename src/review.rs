//! AdmissionReview v1 in: one pass over the body, borrowed, into the change that policies judge.
//!
//! `metadata` is projected, `spec` and `status` are only delimited in that pass. A spec is then
//! decoded for the kinds we guard, and the stored status only when the guarded part changed.

mod support;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::cluster::Snapshot;
use crate::objects::cluster_version::{ClusterVersion, Status};
use crate::objects::crd::CustomResourceDefinition;
use crate::objects::internal_release_image::InternalReleaseImage;
use crate::objects::machine_config::MachineConfig;
use crate::objects::mirrors::{ImageConfig, MirrorKind, MirrorSet};
use crate::objects::secret::Secret;
use crate::objects::{MapOnly, Metadata, Str, nullable, object};
use crate::text::shown;

/// What reached us and cannot be judged. Only [`BadInput::uid`] decides how it is answered: with a uid
/// by a review that refuses, without one by a transport status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadInput {
    pub uid: Option<String>,
    pub message: String,
    /// A value of the wrong type in the object (422) rather than a broken review (400).
    pub malformed_object: bool,
}

/// The part of an AdmissionReview that airgate uses.
#[derive(Debug)]
pub struct Review<'a> {
    pub uid: Str<'a>,
    pub user: UserInfo<'a>,
    pub dry_run: bool,
    pub subject: Subject<'a>,
}

/// What the request is about. Names come from the objects: `request.name` is absent in a deletecollection.
#[derive(Debug, Hash)]
pub enum Subject<'a> {
    ClusterVersion(Change<ClusterVersion<'a>>),
    InternalReleaseImage(Change<InternalReleaseImage<'a>>),
    MirrorSet(MirrorKind, Change<MirrorSet<'a>>),
    ImageConfig(Change<ImageConfig<'a>>),
    Secret(Change<Secret<'a>>),
    CustomResourceDefinition(Change<CustomResourceDefinition<'a>>),
    MachineConfig(Change<MachineConfig<'a>>),
    /// A resource no policy guards, as `resource.group`; allowed and counted.
    Other(String),
}

#[derive(Debug, Hash)]
pub enum Change<T> {
    Create(T),
    Update { old: T, new: T },
    Delete(T),
}

impl<T> Change<T> {
    fn try_map<U, E>(self, read: impl Fn(T) -> Result<U, E>) -> Result<Change<U>, E> {
        Ok(match self {
            Self::Create(object) => Change::Create(read(object)?),
            Self::Update { old, new } => Change::Update { old: read(old)?, new: read(new)? },
            Self::Delete(old) => Change::Delete(read(old)?),
        })
    }

    /// The object as it will be stored, or for a DELETE as it was: where its name and annotations are read.
    pub fn object(&self) -> &T {
        match self {
            Self::Create(object) | Self::Update { new: object, .. } | Self::Delete(object) => object,
        }
    }
}

impl Subject<'_> {
    /// The kind, for messages, metrics and `status.details`.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::ClusterVersion(_) => "ClusterVersion",
            Self::InternalReleaseImage(_) => "InternalReleaseImage",
            Self::MirrorSet(kind, _) => kind.resource().kind,
            Self::ImageConfig(_) => "Image",
            Self::Secret(_) => "Secret",
            Self::CustomResourceDefinition(_) => "CustomResourceDefinition",
            Self::MachineConfig(_) => "MachineConfig",
            Self::Other(_) => "other",
        }
    }

    /// The object's metadata before the request, where there was one.
    #[must_use]
    pub fn old_metadata(&self) -> Option<&Metadata<'_>> {
        match self {
            Self::ClusterVersion(Change::Update { old, .. }) => Some(&old.metadata),
            Self::InternalReleaseImage(Change::Update { old, .. }) => Some(&old.metadata),
            Self::MirrorSet(_, Change::Update { old, .. }) => Some(&old.metadata),
            Self::ImageConfig(Change::Update { old, .. }) => Some(&old.metadata),
            Self::Secret(Change::Update { old, .. }) => Some(&old.metadata),
            Self::CustomResourceDefinition(Change::Update { old, .. }) => Some(&old.metadata),
            Self::MachineConfig(Change::Update { old, .. }) => Some(&old.metadata),
            _ => None,
        }
    }

    /// The object's metadata as it will be stored, or for a DELETE as it was.
    #[must_use]
    pub fn metadata(&self) -> Option<&Metadata<'_>> {
        match self {
            Self::ClusterVersion(change) => Some(&change.object().metadata),
            Self::InternalReleaseImage(change) => Some(&change.object().metadata),
            Self::MirrorSet(_, change) => Some(&change.object().metadata),
            Self::ImageConfig(change) => Some(&change.object().metadata),
            Self::Secret(change) => Some(&change.object().metadata),
            Self::CustomResourceDefinition(change) => Some(&change.object().metadata),
            Self::MachineConfig(change) => Some(&change.object().metadata),
            Self::Other(_) => None,
        }
    }

    /// The override annotation that this request sets or changes; empty where it removes it.
    #[must_use]
    pub fn override_set(&self) -> Option<&str> {
        let deleted = matches!(
            self,
            Self::ClusterVersion(Change::Delete(_))
                | Self::InternalReleaseImage(Change::Delete(_))
                | Self::MirrorSet(_, Change::Delete(_))
                | Self::ImageConfig(Change::Delete(_))
                | Self::Secret(Change::Delete(_))
                | Self::CustomResourceDefinition(Change::Delete(_))
                | Self::MachineConfig(Change::Delete(_))
        );
        let new = &*self.metadata()?.annotations.airgate_override;
        let old = self.old_metadata().map_or("", |metadata| &*metadata.annotations.airgate_override);
        (!deleted && new != old).then_some(new)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default, expecting = "an object")]
pub struct UserInfo<'a> {
    #[serde(borrow)]
    pub username: Str<'a>,
    #[serde(deserialize_with = "nullable")]
    pub groups: Vec<Str<'a>>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase", expecting = "an object")]
struct Envelope<'a> {
    #[serde(borrow)]
    api_version: Str<'a>,
    kind: Str<'a>,
    request: Option<MapOnly<Request<'a>>>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase", expecting = "an object")]
struct Request<'a> {
    #[serde(borrow)]
    uid: Str<'a>,
    #[serde(deserialize_with = "object")]
    resource: Resource<'a>,
    sub_resource: Str<'a>,
    name: Str<'a>,
    operation: Str<'a>,
    #[serde(deserialize_with = "object")]
    user_info: UserInfo<'a>,
    #[serde(deserialize_with = "nullable")]
    dry_run: bool,
    object: Option<MapOnly<Parts<'a>>>,
    old_object: Option<MapOnly<Parts<'a>>>,
}

#[derive(Deserialize, Default)]
#[serde(default, expecting = "an object")]
struct Resource<'a> {
    #[serde(borrow)]
    group: Str<'a>,
    resource: Str<'a>,
}

impl Resource<'_> {
    fn name(&self) -> String {
        let group = if self.group.is_empty() { String::new() } else { format!(".{}", &*self.group) };
        format!("{}{group}", &*self.resource)
    }
}

/// An object taken apart but not yet understood.
#[derive(Deserialize, Default)]
#[serde(default, expecting = "an object")]
struct Parts<'a> {
    #[serde(borrow, deserialize_with = "object")]
    metadata: Metadata<'a>,
    spec: Option<&'a RawValue>,
    status: Option<&'a RawValue>,
    /// Of a Secret.
    data: Option<&'a RawValue>,
}

impl<'a> Review<'a> {
    /// Decodes the body of a `POST /validate`. A DELETE that does not bring the stored object along (old API
    /// servers) is about the one that `cluster` knows.
    ///
    /// # Errors
    /// [`BadInput`], with the uid wherever the body still shows one.
    pub fn decode(body: &'a [u8], cluster: &Snapshot) -> Result<Self, BadInput> {
        // A fault quotes the request, and goes to a log and a terminal.
        Self::read(body, cluster).map_err(|bad| BadInput { message: shown(&bad.message).into_owned(), ..bad })
    }

    fn read(body: &'a [u8], cluster: &Snapshot) -> Result<Self, BadInput> {
        let text = std::str::from_utf8(body).map_err(|error| {
            bad(body, format!("the body is not UTF-8 (byte {}); the API server sends JSON", error.valid_up_to()))
        })?;
        let MapOnly(envelope): MapOnly<Envelope<'a>> = serde_json::from_str(text).map_err(|error| BadInput {
            malformed_object: error.is_data(),
            ..bad(body, format!("the body is not an AdmissionReview that can be read: {error}"))
        })?;
        if &*envelope.kind != "AdmissionReview" || &*envelope.api_version != "admission.k8s.io/v1" {
            let got = format!("{:?} of {:?}", &*envelope.kind, &*envelope.api_version);
            let remedy = "set admissionReviewVersions: [v1] in the webhook configuration (airgate manifests prints it)";
            return Err(bad(body, format!("expected an AdmissionReview of admission.k8s.io/v1, not {got}; {remedy}")));
        }
        let Some(MapOnly(mut request)) = envelope.request else {
            return Err(bad(body, "the AdmissionReview has no request".into()));
        };
        if request.uid.is_empty() {
            return Err(bad(body, "the AdmissionReview's request has no uid, so it cannot be answered".into()));
        }
        let (uid, user) = (std::mem::take(&mut request.uid), std::mem::take(&mut request.user_info));
        let dry_run = request.dry_run;
        let subject = request.subject(cluster).map_err(|fault| BadInput {
            uid: Some(uid.to_string()),
            malformed_object: fault.malformed_object,
            message: fault.message,
        })?;
        Ok(Self { uid, user, dry_run, subject })
    }
}

struct Fault {
    message: String,
    malformed_object: bool,
}

impl<'a> Request<'a> {
    fn subject(self, cluster: &Snapshot) -> Result<Subject<'a>, Fault> {
        if self.resource.resource.is_empty() {
            return Err(Fault { message: "the request names no resource".into(), malformed_object: false });
        }
        if !self.sub_resource.is_empty() {
            return Ok(Subject::Other(self.resource.name()));
        }
        let without_object = &*self.operation == "DELETE" && self.old_object.is_none();
        match (&*self.resource.group, &*self.resource.resource) {
            ("config.openshift.io", "clusterversions") => match cluster.cluster_version.known() {
                Some(stored) if without_object && stored.metadata.name == self.name => {
                    Ok(Subject::ClusterVersion(Change::Delete(stored.clone())))
                }
                _ => cluster_version(self.change("ClusterVersion")?),
            },
            ("machineconfiguration.openshift.io", "internalreleaseimages") => {
                match cluster.internal_release_image.known() {
                    Some(stored) if without_object && stored.metadata.name == self.name => {
                        Ok(Subject::InternalReleaseImage(Change::Delete(stored.clone())))
                    }
                    _ => internal_release_image(self.change("InternalReleaseImage")?),
                }
            }
            ("", "secrets") => support::secret(self.change("Secret")?),
            ("apiextensions.k8s.io", "customresourcedefinitions") => {
                support::crd(self.change("CustomResourceDefinition")?)
            }
            ("machineconfiguration.openshift.io", "machineconfigs") => {
                support::machine_config(self.change("MachineConfig")?)
            }
            ("config.openshift.io", "images") => match cluster.image_config.known() {
                Some(stored) if without_object && stored.metadata.name == self.name => {
                    Ok(Subject::ImageConfig(Change::Delete(stored.clone())))
                }
                _ => image_config(self.change("Image")?),
            },
            (group, resource) => {
                let of = |kind: &MirrorKind| kind.resource().group == group && kind.resource().plural == resource;
                let Some(kind) = MirrorKind::ALL.into_iter().find(of) else {
                    return Ok(Subject::Other(self.resource.name()));
                };
                let stored = cluster.mirror_sets(kind).known().filter(|_| without_object);
                match stored.into_iter().flatten().find(|stored| stored.metadata.name == self.name) {
                    Some(stored) => Ok(Subject::MirrorSet(kind, Change::Delete(stored.clone()))),
                    None => mirror_set(kind, self.change(kind.resource().kind)?),
                }
            }
        }
    }

    fn change(self, kind: &str) -> Result<Change<Parts<'a>>, Fault> {
        let operation = &*self.operation;
        let missing = |field| Fault {
            message: format!("{operation} {kind} without {field}: nothing to judge"),
            malformed_object: false,
        };
        match (operation, self.object.map(|object| object.0), self.old_object.map(|object| object.0)) {
            ("CREATE", Some(object), _) => Ok(Change::Create(object)),
            ("UPDATE", Some(new), Some(old)) => Ok(Change::Update { old, new }),
            ("DELETE", _, Some(old)) => Ok(Change::Delete(old)),
            ("CREATE" | "UPDATE", None, _) => Err(missing("object")),
            ("UPDATE" | "DELETE", _, None) => Err(missing("oldObject")),
            _ => Err(Fault {
                message: format!("operation {operation:?} on {kind}: expected CREATE, UPDATE or DELETE"),
                malformed_object: false,
            }),
        }
    }
}

fn internal_release_image(change: Change<Parts<'_>>) -> Result<Subject<'_>, Fault> {
    fn read(parts: Parts<'_>) -> Result<InternalReleaseImage<'_>, serde_json::Error> {
        let (spec, status) = (decode(parts.spec)?, decode(parts.status)?);
        Ok(InternalReleaseImage { metadata: parts.metadata, spec, status })
    }
    let change = change.try_map(read);
    change.map(Subject::InternalReleaseImage).map_err(|error| malformed("InternalReleaseImage", &error))
}

fn mirror_set(kind: MirrorKind, change: Change<Parts<'_>>) -> Result<Subject<'_>, Fault> {
    fn read(parts: Parts<'_>) -> Result<MirrorSet<'_>, serde_json::Error> {
        Ok(MirrorSet { metadata: parts.metadata, spec: decode(parts.spec)? })
    }
    let change = change.try_map(read).map_err(|error| malformed(kind.resource().kind, &error))?;
    Ok(Subject::MirrorSet(kind, change))
}

fn image_config(change: Change<Parts<'_>>) -> Result<Subject<'_>, Fault> {
    fn read(parts: Parts<'_>) -> Result<ImageConfig<'_>, serde_json::Error> {
        Ok(ImageConfig { metadata: parts.metadata, spec: decode(parts.spec)? })
    }
    change.try_map(read).map(Subject::ImageConfig).map_err(|error| malformed("Image", &error))
}

/// The stored status is what verdicts rest on (the API server does not let a request forge it); it is
/// most of the bytes, so it is read only when there is a step to judge.
fn cluster_version(change: Change<Parts<'_>>) -> Result<Subject<'_>, Fault> {
    let stored_status = match &change {
        Change::Create(_) => None,
        Change::Update { old, .. } | Change::Delete(old) => old.status,
    };
    fn read(parts: Parts<'_>) -> Result<ClusterVersion<'_>, serde_json::Error> {
        Ok(ClusterVersion { metadata: parts.metadata, spec: decode(parts.spec)?, status: Status::default() })
    }
    let read_all = || -> Result<_, serde_json::Error> {
        let mut change = change.try_map(read)?;
        match &mut change {
            Change::Update { old, new } if new.spec.desired_update.steps_from(&old.spec.desired_update) => {
                old.status = decode(stored_status)?;
            }
            Change::Delete(old) => old.status = decode(stored_status)?,
            Change::Create(_) | Change::Update { .. } => {}
        }
        Ok(Subject::ClusterVersion(change))
    };
    read_all().map_err(|error| malformed("ClusterVersion", &error))
}

fn decode<'a, T: Deserialize<'a> + Default>(raw: Option<&'a RawValue>) -> Result<T, serde_json::Error> {
    let decoded = raw.map(|raw| serde_json::from_str::<Option<MapOnly<T>>>(raw.get())).transpose()?;
    Ok(decoded.flatten().map(|decoded| decoded.0).unwrap_or_default())
}

fn malformed(kind: &str, error: &serde_json::Error) -> Fault {
    Fault { message: format!("the {kind} has a field that cannot be read: {error}"), malformed_object: true }
}

fn bad(body: &[u8], message: String) -> BadInput {
    BadInput { uid: probe_uid(body), message, malformed_object: false }
}

/// The uid of a body that is otherwise unusable: read with a streaming parser that keeps what it saw
/// before it met the fault.
fn probe_uid(body: &[u8]) -> Option<String> {
    use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};

    struct Probe<'s> {
        path: &'static [&'static str],
        found: &'s mut Option<String>,
    }
    impl<'de> DeserializeSeed<'de> for Probe<'_> {
        type Value = ();

        fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
            if self.path.is_empty() {
                *self.found = Some(Str::deserialize(deserializer)?.to_string());
                return Ok(());
            }
            deserializer.deserialize_map(self)
        }
    }
    impl<'de> Visitor<'de> for Probe<'_> {
        type Value = ();

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
            while let Some(key) = map.next_key::<Str<'de>>()? {
                match self.path {
                    [name, rest @ ..] if &*key == *name => {
                        map.next_value_seed(Probe { path: rest, found: &mut *self.found })?;
                    }
                    _ => {
                        map.next_value::<IgnoredAny>()?;
                    }
                }
            }
            Ok(())
        }
    }

    let mut found = None;
    // The parser stops at the fault; what it found before that is all we want.
    let probe = Probe { path: &["request", "uid"], found: &mut found };
    drop(probe.deserialize(&mut serde_json::Deserializer::from_slice(body)));
    found.filter(|uid| !uid.is_empty() && uid.len() <= 128)
}
