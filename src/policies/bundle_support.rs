//! `bundle-support`: what an InternalReleaseImage depends on stays while it exists.

use crate::breakglass::Step;
use crate::objects::crd;
use crate::objects::secret::{NAMES, NAMESPACE};
use crate::policy::{Context, FactKind, Guard, Judgement, Policy};
use crate::review::{Change, Subject};
use crate::settings::{Mode, OnUnknown};
use crate::text::{Text, shown};

pub const POLICY: Policy = Policy {
    id: "bundle-support",
    title: "the Secrets and CustomResourceDefinitions that an InternalReleaseImage depends on stay while it exists",
    why: "Nothing makes the Secrets of the InternalReleaseImage's registry anew: without them its nodes cannot serve the \
          release bundles and no configuration is rendered for any node. Deleting the CustomResourceDefinition deletes the \
          InternalReleaseImage with it, and no admission is asked about that object any more; nodes then empty their registry.",
    guards: &[Guard::BundleSecretDelete, Guard::BundleSecretEmptied, Guard::BundleCrdDelete],
    mode: Mode::Deny,
    on_unknown: OnUnknown::Warn,
    facts: &[FactKind::InternalReleaseImage],
    judge,
};

/// A request in words.
struct Loss {
    /// The object, and what happens to it.
    what: String,
    why: &'static str,
    works: String,
    field: &'static str,
    step: Step,
}

fn judge(context: &Context<'_>, judgement: &mut Judgement) {
    let Some(Loss { what, why, works, field, step }) = loss(&context.review.subject) else { return };
    let fact = &context.cluster.internal_release_image;
    judgement.used("InternalReleaseImage", fact.provenance());
    // One that was there a while ago holds as well: it does not go by itself.
    match (fact.known(), fact.reliable("InternalReleaseImage", context.now)) {
        (Some(iri), _) => {
            let text =
                Text::new(format!("{what} while InternalReleaseImage {} exists", shown(&iri.metadata.name)), why);
            let text = if iri.metadata.terminating() {
                text.works("it is being deleted already; try again once it is gone:")
            } else {
                text.works(works).works("it can go after the InternalReleaseImage, which release-in-use guards:")
            };
            judgement.deny(field, text.works("oc get internalreleaseimage cluster"), vec![step]);
        }
        (None, Ok(_)) => {}
        (None, Err(missing)) => {
            let unknown = format!("{what}, and whether an InternalReleaseImage depends on it cannot be judged");
            judgement.unknown(field, unknown, &missing, vec![step]);
        }
    }
}

fn loss(subject: &Subject<'_>) -> Option<Loss> {
    match subject {
        Subject::Secret(Change::Delete(old)) => {
            let name = shown(&old.metadata.name);
            Some(Loss {
                what: format!("Secret {name} in {NAMESPACE} is deleted"),
                why: secret_is_for(&old.metadata.name),
                works: format!("to rotate it, replace its values: oc set data secret/{name} -n {NAMESPACE} KEY=VALUE"),
                field: "metadata.name",
                step: Step { from: old.metadata.name.to_string(), target: "delete".into() },
            })
        }
        Subject::Secret(Change::Update { old, new }) => {
            let name = shown(&old.metadata.name);
            let mut keys = old.emptied_in(new).map(shown);
            let (first, more) = (keys.next()?, keys.count());
            let more = if more == 0 { String::new() } else { format!(" (and {more} more)") };
            Some(Loss {
                what: format!("Secret {name} in {NAMESPACE} loses the value of {first}{more}"),
                why: secret_is_for(&old.metadata.name),
                works: format!(
                    "to rotate it, give the key its new value: oc set data secret/{name} -n {NAMESPACE} {first}=VALUE"
                ),
                field: "data",
                step: Step { from: old.metadata.name.to_string(), target: old.metadata.name.to_string() },
            })
        }
        Subject::CustomResourceDefinition(Change::Delete(old)) => Some(Loss {
            what: format!("CustomResourceDefinition {} is deleted", shown(&old.metadata.name)),
            why: if &*old.metadata.name == crd::INTERNAL_RELEASE_IMAGES {
                "that deletes the object too, without asking anybody, and every control-plane node then empties \
                 /var/lib/iri-registry; it cannot be undone"
            } else {
                "its objects alone say which node holds which release bundle, and the machine-config-operator cannot work \
                 without them"
            },
            works:
                "change it in place, oc replace -f FILE; the cluster-version-operator restores what the release ships"
                    .into(),
            field: "metadata.name",
            step: Step { from: old.metadata.name.to_string(), target: "delete".into() },
        }),
        _ => None,
    }
}

fn secret_is_for(name: &str) -> &'static str {
    if name == NAMES[0] {
        "it is the certificate of the registry that serves the release bundles, on port 22625 of each control-plane node; \
         nothing makes it anew"
    } else {
        "without it no configuration is rendered for any node while an InternalReleaseImage exists; nothing makes it anew"
    }
}
