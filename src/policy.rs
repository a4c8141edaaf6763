//! A policy is a record and a pure function. This is the record, what the function is given and what
//! it may answer.

mod guard;

use std::sync::Arc;

use jiff::Timestamp;

use crate::breakglass::{ANNOTATION, Step};
use crate::cluster::{Missing, Provenance, RegistryQuestion, Snapshot};
use crate::objects::secret;
use crate::pullspec::{Digest, Repository};
use crate::release::completeness::Checks;
use crate::release::{Attempt, Catalog, Release};
use crate::resource::{self, Resource};
use crate::review::{Review, Subject};
use crate::settings::{Mode, OnUnknown, Settings};
use crate::signature::Signatures;
use crate::text::{Text, age};

pub use guard::Guard;

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
