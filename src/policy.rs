//! A policy is a record and a pure function. This is the record, what the function is given and what
//! it may answer.

use std::sync::Arc;

use jiff::Timestamp;

use crate::breakglass::{ANNOTATION, Step};
use crate::cluster::{Missing, Provenance, RegistryQuestion, Snapshot};
use crate::objects::cluster_version::NAME;
use crate::objects::mirrors::{IMAGE_CONFIG, MirrorKind};
use crate::objects::secret::{self, Secret};
use crate::objects::{crd, machine_config::MachineConfig};
use crate::pullspec::{Digest, Repository};
use crate::release::completeness::Checks;
use crate::release::{Attempt, Catalog, Release};
use crate::resource::{self, Resource};
use crate::review::{Change, Review, Subject};
use crate::settings::{Mode, OnUnknown, Settings};
use crate::signature::Signatures;
use crate::text::{Text, age};

/// One rule. Webhook rules, matchConditions, RBAC and docs are generated from these.
#[derive(Debug)]
pub struct Policy {
    /// Stable for ever: kebab-case, the name of its folder under `policies/`.
    pub id: &'static str,
    /// One line.
    pub title: &'static str,
    /// One paragraph.
    pub why: &'static str,
    /// What may be judged at all: a request that touches none of these never reaches `judge`.
    pub guards: &'static [Guard],
    pub mode: Mode,
    pub on_unknown: OnUnknown,
    /// Cluster facts it reads beyond the request itself.
    pub facts: &'static [FactKind],
    pub judge: fn(&Context<'_>, &mut Judgement),
}

/// A kind of change worth judging. Each has a Rust form here and a CEL form in `manifests::cel`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guard {
    /// UPDATE of a ClusterVersion whose effective target changed and is named, or whose `force` was switched on.
    ClusterVersionStep,
    /// CREATE of a ClusterVersion that names a target.
    ClusterVersionCreateWithTarget,
    ClusterVersionDelete,
    /// UPDATE of an InternalReleaseImage that drops an entry of `spec.releases`.
    InternalReleaseImageDrop,
    InternalReleaseImageDelete,
    /// UPDATE of an InternalReleaseImage that adds an entry of `spec.releases` and drops none.
    InternalReleaseImageAdd,
    InternalReleaseImageCreate,
    /// DELETE of a Secret that an InternalReleaseImage depends on.
    BundleSecretDelete,
    /// UPDATE of such a Secret that takes a key's value away.
    BundleSecretEmptied,
    /// DELETE of the CustomResourceDefinition of InternalReleaseImages or MachineConfigNodes.
    BundleCrdDelete,
    /// CREATE of a MachineConfig, but for rendered ones, that names an OS image.
    MachineConfigCreateWithOsImage,
    /// UPDATE of such a MachineConfig that names another OS image.
    MachineConfigOsImageChange,
    /// CREATE of a mirror set that has rules.
    MirrorsCreate(MirrorKind),
    /// UPDATE of a mirror set that changes its rules.
    MirrorsChange(MirrorKind),
    MirrorsDelete(MirrorKind),
    /// UPDATE of the image configuration that changes which registries are blocked, allowed or trusted.
    ImageConfigChange,
    ImageConfigDelete,
}

impl Guard {
    /// Whether the request makes this change. What is already terminating may go: nothing changes any more.
    /// The CVO watches no ClusterVersion but `version`.
    #[must_use]
    pub fn touched_by(self, subject: &Subject<'_>) -> bool {
        match (self, subject) {
            (Self::ClusterVersionStep, Subject::ClusterVersion(Change::Update { old, new })) => {
                &*new.metadata.name == NAME && new.spec.desired_update.steps_from(&old.spec.desired_update)
            }
            (Self::ClusterVersionCreateWithTarget, Subject::ClusterVersion(Change::Create(new))) => {
                &*new.metadata.name == NAME && new.spec.desired_update.named()
            }
            (Self::ClusterVersionDelete, Subject::ClusterVersion(Change::Delete(old))) => {
                &*old.metadata.name == NAME && !old.metadata.terminating()
            }
            (Self::InternalReleaseImageDrop, Subject::InternalReleaseImage(Change::Update { old, new })) => {
                !old.metadata.terminating() && old.spec.lacks(&new.spec).next().is_some()
            }
            (Self::InternalReleaseImageAdd, Subject::InternalReleaseImage(Change::Update { old, new })) => {
                let (added, dropped) = (new.spec.lacks(&old.spec).next(), old.spec.lacks(&new.spec).next());
                !old.metadata.terminating() && added.is_some() && dropped.is_none()
            }
            (Self::InternalReleaseImageCreate, Subject::InternalReleaseImage(Change::Create(_))) => true,
            (Self::BundleSecretDelete, Subject::Secret(Change::Delete(old))) => {
                Secret::supports(&old.metadata) && !old.metadata.terminating()
            }
            (Self::BundleSecretEmptied, Subject::Secret(Change::Update { old, new })) => {
                Secret::supports(&old.metadata) && !old.metadata.terminating() && old.emptied_in(new).next().is_some()
            }
            (Self::BundleCrdDelete, Subject::CustomResourceDefinition(Change::Delete(old))) => {
                crd::NAMES.contains(&&*old.metadata.name) && !old.metadata.terminating()
            }
            (Self::InternalReleaseImageDelete, Subject::InternalReleaseImage(Change::Delete(old))) => {
                !old.metadata.terminating()
            }
            (Self::MachineConfigCreateWithOsImage, Subject::MachineConfig(Change::Create(new))) => {
                !MachineConfig::is_rendered(&new.metadata) && !new.spec.os_image_url.is_empty()
            }
            (Self::MachineConfigOsImageChange, Subject::MachineConfig(Change::Update { old, new })) => {
                let image = &new.spec.os_image_url;
                !MachineConfig::is_rendered(&new.metadata) && !image.is_empty() && *image != old.spec.os_image_url
            }
            (Self::MirrorsCreate(kind), Subject::MirrorSet(of, Change::Create(new))) => {
                kind == *of && !new.of(kind).is_empty()
            }
            (Self::MirrorsChange(kind), Subject::MirrorSet(of, Change::Update { old, new })) => {
                kind == *of && !old.metadata.terminating() && new.of(kind) != old.of(kind)
            }
            (Self::MirrorsDelete(kind), Subject::MirrorSet(of, Change::Delete(old))) => {
                kind == *of && !old.metadata.terminating()
            }
            (Self::ImageConfigChange, Subject::ImageConfig(Change::Update { old, new })) => {
                &*old.metadata.name == IMAGE_CONFIG && !old.metadata.terminating() && new.spec != old.spec
            }
            (Self::ImageConfigDelete, Subject::ImageConfig(Change::Delete(old))) => {
                &*old.metadata.name == IMAGE_CONFIG && !old.metadata.terminating()
            }
            _ => false,
        }
    }

    /// As admission spells it.
    #[must_use]
    pub fn operation(self) -> &'static str {
        match self {
            Self::ClusterVersionCreateWithTarget
            | Self::InternalReleaseImageCreate
            | Self::MachineConfigCreateWithOsImage
            | Self::MirrorsCreate(_) => "CREATE",
            Self::ClusterVersionStep
            | Self::InternalReleaseImageDrop
            | Self::InternalReleaseImageAdd
            | Self::BundleSecretEmptied
            | Self::MachineConfigOsImageChange
            | Self::MirrorsChange(_)
            | Self::ImageConfigChange => "UPDATE",
            Self::ClusterVersionDelete
            | Self::InternalReleaseImageDelete
            | Self::BundleSecretDelete
            | Self::BundleCrdDelete
            | Self::MirrorsDelete(_)
            | Self::ImageConfigDelete => "DELETE",
        }
    }

    /// Whose writes it does not touch: names of users, exact.
    #[must_use]
    pub fn exempt(self) -> &'static [&'static str] {
        use crate::platform::{
            CLUSTER_VERSION_OPERATOR, CLUSTER_VERSION_OPERATOR_BEFORE, GARBAGE_COLLECTOR, MACHINE_CONFIG_CONTROLLER,
            MACHINE_CONFIG_OPERATOR, MACHINE_OS_BUILDER, NAMESPACE_CONTROLLER,
        };
        match self {
            Self::BundleSecretDelete | Self::BundleSecretEmptied => {
                &[MACHINE_CONFIG_CONTROLLER, MACHINE_CONFIG_OPERATOR, NAMESPACE_CONTROLLER, GARBAGE_COLLECTOR]
            }
            Self::BundleCrdDelete => &[CLUSTER_VERSION_OPERATOR, CLUSTER_VERSION_OPERATOR_BEFORE, GARBAGE_COLLECTOR],
            Self::MachineConfigCreateWithOsImage | Self::MachineConfigOsImageChange => {
                &[MACHINE_CONFIG_CONTROLLER, MACHINE_CONFIG_OPERATOR, MACHINE_OS_BUILDER]
            }
            _ => &[],
        }
    }

    /// For a person.
    #[must_use]
    pub fn describe(self) -> &'static str {
        match self {
            Self::ClusterVersionStep => {
                "UPDATE of ClusterVersion: spec.desiredUpdate version, image, architecture or mode, or force switched on"
            }
            Self::ClusterVersionCreateWithTarget => "CREATE of ClusterVersion with a spec.desiredUpdate",
            Self::ClusterVersionDelete => "DELETE of ClusterVersion",
            Self::InternalReleaseImageDrop => "UPDATE of InternalReleaseImage that drops an entry of spec.releases",
            Self::InternalReleaseImageDelete => "DELETE of InternalReleaseImage",
            Self::InternalReleaseImageAdd => "UPDATE of InternalReleaseImage that adds an entry of spec.releases",
            Self::InternalReleaseImageCreate => "CREATE of InternalReleaseImage",
            Self::BundleSecretDelete => {
                "DELETE of Secret internal-release-image-tls or internal-release-image-registry-auth in openshift-machine-config-operator"
            }
            Self::BundleSecretEmptied => "UPDATE of one of these Secrets that empties or drops a key",
            Self::BundleCrdDelete => {
                "DELETE of CustomResourceDefinition internalreleaseimages or machineconfignodes (machineconfiguration.openshift.io)"
            }
            Self::MachineConfigCreateWithOsImage => {
                "CREATE of a MachineConfig with spec.osImageURL, rendered ones left out"
            }
            Self::MachineConfigOsImageChange => {
                "UPDATE of a MachineConfig that changes spec.osImageURL, rendered ones left out"
            }
            Self::MirrorsCreate(MirrorKind::Digest) => "CREATE of ImageDigestMirrorSet",
            Self::MirrorsCreate(MirrorKind::Tag) => "CREATE of ImageTagMirrorSet",
            Self::MirrorsCreate(MirrorKind::ContentSource) => "CREATE of ImageContentSourcePolicy",
            Self::MirrorsChange(MirrorKind::Digest) => "UPDATE of ImageDigestMirrorSet: spec.imageDigestMirrors",
            Self::MirrorsChange(MirrorKind::Tag) => "UPDATE of ImageTagMirrorSet: spec.imageTagMirrors",
            Self::MirrorsChange(MirrorKind::ContentSource) => {
                "UPDATE of ImageContentSourcePolicy: spec.repositoryDigestMirrors"
            }
            Self::MirrorsDelete(MirrorKind::Digest) => "DELETE of ImageDigestMirrorSet",
            Self::MirrorsDelete(MirrorKind::Tag) => "DELETE of ImageTagMirrorSet",
            Self::MirrorsDelete(MirrorKind::ContentSource) => "DELETE of ImageContentSourcePolicy",
            Self::ImageConfigChange => {
                "UPDATE of Image (config.openshift.io): spec.registrySources (blocked, allowed, insecure) and spec.additionalTrustedCA"
            }
            Self::ImageConfigDelete => "DELETE of Image (config.openshift.io)",
        }
    }

    /// Whether an allow of it cannot be undone, so that it must rest on live facts.
    #[must_use]
    pub fn irreversible(self) -> bool {
        matches!(self, Self::InternalReleaseImageDrop | Self::InternalReleaseImageDelete)
    }
}

/// Cluster facts a policy may read: each is a watch and an RBAC rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FactKind {
    ClusterVersion,
    InternalReleaseImage,
    MachineConfigNodes,
    MachineConfigPools,
    MachineConfigs,
    Infrastructure,
    ImageDigestMirrorSets,
    ImageTagMirrorSets,
    ImageContentSourcePolicies,
    ImageConfig,
    ReleaseSignatures,
    ReleaseVerification,
    ControlPlaneNodes,
    CatalogSources,
    ClusterCatalogs,
}

impl FactKind {
    #[must_use]
    pub fn resource(self) -> &'static Resource {
        match self {
            Self::ClusterVersion => &resource::CLUSTER_VERSIONS,
            Self::InternalReleaseImage => &resource::INTERNAL_RELEASE_IMAGES,
            Self::MachineConfigNodes => &resource::MACHINE_CONFIG_NODES,
            Self::MachineConfigPools => &resource::MACHINE_CONFIG_POOLS,
            Self::MachineConfigs => &resource::MACHINE_CONFIGS,
            Self::Infrastructure => &resource::INFRASTRUCTURES,
            Self::ImageDigestMirrorSets => &resource::IMAGE_DIGEST_MIRROR_SETS,
            Self::ImageTagMirrorSets => &resource::IMAGE_TAG_MIRROR_SETS,
            Self::ImageContentSourcePolicies => &resource::IMAGE_CONTENT_SOURCE_POLICIES,
            Self::ImageConfig => &resource::IMAGE_CONFIGS,
            Self::ReleaseSignatures => &resource::RELEASE_SIGNATURES,
            Self::ReleaseVerification => &resource::RELEASE_VERIFICATION,
            Self::ControlPlaneNodes => &resource::NODES,
            Self::CatalogSources => &resource::CATALOG_SOURCES,
            Self::ClusterCatalogs => &resource::CLUSTER_CATALOGS,
        }
    }
}

/// Everything a policy may look at. Same context, same answer.
#[derive(Debug)]
pub struct Context<'a> {
    pub review: &'a Review<'a>,
    pub cluster: &'a Snapshot,
    pub catalog: &'a Catalog,
    /// What reading the wanted release from registries came to.
    pub attempt: Option<&'a Attempt>,
    /// What was found of the components of releases.
    pub checks: &'a Checks,
    pub signatures: &'a Signatures,
    pub settings: &'a Settings,
    pub now: Timestamp,
}

/// What a policy found: nothing, or a few outcomes, and the facts it rested on.
#[derive(Debug, Default)]
pub struct Judgement {
    pub outcomes: Vec<Outcome>,
    pub facts: Vec<FactUse>,
    /// Releases whose payload would have told more.
    pub wants: Vec<Want>,
    /// A release whose components are worth looking for.
    pub look_for_components: Option<Digest>,
    /// What the nodes' registries should be asked before the verdict counts.
    pub question: Option<RegistryQuestion>,
}

/// A release that no source on this site knows, and where the request or the cluster says it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Want {
    pub digest: Digest,
    /// `None` where nothing names one.
    pub repository: Option<Repository>,
}

#[derive(Clone, Debug)]
pub struct Outcome {
    pub asks: Asks,
    /// The field it is about, as a path.
    pub field: &'static str,
    pub text: Text,
    /// The steps an override must name to open this; none: no override opens it.
    pub steps: Vec<Step>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asks {
    Warn,
    Deny,
    /// Deny a value that is malformed in itself; no override opens it.
    Malformed,
    /// A fact is missing; `onUnknown` says what follows.
    Unknown,
    /// The same where the request gives up the platform's own check: refused, unless `onUnknown` was set.
    UnknownForced,
}

/// A fact that a verdict rests on, for the record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FactUse {
    pub name: String,
    pub source: Arc<str>,
    pub as_of: Timestamp,
}

impl FactUse {
    #[must_use]
    pub fn describe(&self, now: Timestamp) -> String {
        format!("{} from {}, {} old", self.name, self.source, age(now.duration_since(self.as_of).as_secs()))
    }
}

impl Judgement {
    pub fn deny(&mut self, field: &'static str, text: Text, steps: Vec<Step>) {
        self.outcomes.push(Outcome { asks: Asks::Deny, field, text, steps });
    }

    pub fn malformed(&mut self, field: &'static str, text: Text) {
        self.outcomes.push(Outcome { asks: Asks::Malformed, field, text, steps: vec![] });
    }

    pub fn warn(&mut self, field: &'static str, text: Text) {
        self.outcomes.push(Outcome { asks: Asks::Warn, field, text, steps: vec![] });
    }

    /// `what` cannot be judged because of `missing`.
    pub fn unknown(&mut self, field: &'static str, what: impl Into<String>, missing: &Missing, steps: Vec<Step>) {
        let text = Text::new(what, missing.why.clone()).works(missing.remedy.clone());
        self.outcomes.push(Outcome { asks: Asks::Unknown, field, text, steps });
    }

    /// The same for a request that gives up the platform's own check.
    pub fn unknown_forced(
        &mut self,
        field: &'static str,
        what: impl Into<String>,
        missing: &Missing,
        steps: Vec<Step>,
    ) {
        self.unknown(field, what, missing, steps);
        if let Some(outcome) = self.outcomes.last_mut() {
            outcome.asks = Asks::UnknownForced;
        }
    }

    pub fn used(&mut self, name: &str, provenance: Option<&Provenance>) {
        if let Some(provenance) = provenance {
            let fact = FactUse { name: name.into(), source: Arc::clone(&provenance.source), as_of: provenance.as_of };
            if !self.facts.contains(&fact) {
                self.facts.push(fact);
            }
        }
    }

    pub fn used_release(&mut self, release: &Release) {
        let trust = if release.source.verified { "digest verified" } else { "unverified" };
        let name = format!("release {} ({trust})", release.version);
        let fact = FactUse { name, source: Arc::clone(&release.source.name), as_of: release.source.read_at };
        if !self.facts.contains(&fact) {
            self.facts.push(fact);
        }
    }

    /// Whether anything here asks for more than a warning.
    #[must_use]
    pub fn refuses(&self) -> bool {
        self.outcomes.iter().any(|outcome| outcome.asks != Asks::Warn)
    }
}

impl Policy {
    #[must_use]
    pub fn mode(&self, settings: &Settings) -> Mode {
        settings.policies.get(self.id).and_then(|p| p.mode).unwrap_or(self.mode)
    }

    #[must_use]
    pub fn on_unknown(&self, settings: &Settings) -> OnUnknown {
        self.set_on_unknown(settings).unwrap_or(self.on_unknown)
    }

    /// What the configuration says, where it says so.
    #[must_use]
    pub fn set_on_unknown(&self, settings: &Settings) -> Option<OnUnknown> {
        settings.policies.get(self.id).and_then(|p| p.on_unknown)
    }

    /// The way out in an emergency: the command, and what it writes. Policies that judge a value's form have none.
    #[must_use]
    pub fn emergency(&self) -> String {
        let (step, object, from, target) = match (self.id, self.guards) {
            _ if !self.overridable() => return "no override opens it: name the image by digest".into(),
            ("bundle-support", _) => return self.emergency_by_hand(),
            ("bundle-change", _) => (
                "patch internalreleaseimage/cluster -p PATCH",
                "internalreleaseimage cluster",
                "cluster",
                "BUNDLE NAME, one entry a bundle",
            ),
            (_, [Guard::InternalReleaseImageDrop | Guard::InternalReleaseImageDelete, ..]) => (
                "patch internalreleaseimage/cluster -p PATCH",
                "internalreleaseimage cluster",
                "cluster",
                "BUNDLE NAME, one entry a release; or delete",
            ),
            (_, [Guard::ClusterVersionDelete, ..]) => {
                ("delete clusterversion/version", "clusterversion version", "CURRENT VERSION", "delete")
            }
            (_, [Guard::MirrorsCreate(_) | Guard::MirrorsChange(_) | Guard::MirrorsDelete(_), ..]) => (
                "patch imagedigestmirrorset/NAME -p PATCH",
                "imagedigestmirrorset NAME",
                "NAME; none on CREATE",
                "NAME; delete on DELETE",
            ),
            _ => (
                "upgrade --to-image PULLSPEC",
                "clusterversion version",
                "CURRENT VERSION",
                "sha256:DIGEST as requested, else VERSION or VERSION/Multi",
            ),
        };
        let only =
            if self.id == "bundle-change" { "it only warns, unless onUnknown is set to deny; then, " } else { "" };
        format!(
            "{only}in an emergency, for one step, within 24 hours, recorded (--apply sets what it shows):\n  \
             airgate override {step} --policy {id} --reason WHY\nwhich by hand is:\n  \
             oc annotate {object} --overwrite {ANNOTATION}='{{\"policy\":\"{id}\",\"from\":\"{from}\",\"target\":\"{target}\",\
             \"reason\":\"WHY\",\"expires\":\"RFC 3339 time\"}}'",
            id = self.id
        )
    }

    /// For objects that `airgate override` does not look up: Secrets and CustomResourceDefinitions.
    fn emergency_by_hand(&self) -> String {
        format!(
            "in an emergency, for one step, within 24 hours, recorded; for a CRD: crd NAME, without a namespace:\n  \
             oc annotate secret NAME -n {} --overwrite {ANNOTATION}='{{\"policy\":\"{}\",\"from\":\"NAME\",\"target\":\
             \"delete; or NAME where a key of a Secret is emptied\",\"reason\":\"WHY\",\"expires\":\"RFC 3339 time\"}}'",
            secret::NAMESPACE,
            self.id
        )
    }

    /// Whether an override can open what it denies; a malformed value stays one.
    #[must_use]
    pub fn overridable(&self) -> bool {
        self.id != "digest-only"
    }

    /// Whether it has a say: the request touches what it guards, and does not come from somebody exempt.
    #[must_use]
    pub fn judges(&self, review: &Review<'_>) -> bool {
        let touched = |guard: &&Guard| guard.touched_by(&review.subject);
        self.guards.iter().filter(touched).any(|guard| !guard.exempt().contains(&&*review.user.username))
    }

    #[must_use]
    pub fn guards(&self, subject: &Subject<'_>) -> bool {
        self.guards.iter().any(|guard| guard.touched_by(subject))
    }
}
