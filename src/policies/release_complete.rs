//! `release-complete`: every component image of the payload is found through the mirrors.

use crate::cluster::Missing;
use crate::policy::{Context, FactUse, Guard, Judgement, Policy};
use crate::release::completeness::{Checked, Gap, Verdict};
use crate::settings::{Mode, OnUnknown};
use crate::text::{Text, counted, shown};
use crate::upgrade::Upgrade;

pub const POLICY: Policy = Policy {
    id: "release-complete",
    title: "every component image of the payload is found through the mirrors",
    why: "A release names some 190 images by digest, and an update pulls them one after the other while it runs. One that \
          was not mirrored stops it half-way, with nodes on both sides. They are looked for ahead of time, by asking the \
          mirrors for each manifest without reading it.",
    guards: &[Guard::ClusterVersionStep],
    mode: Mode::Deny,
    on_unknown: OnUnknown::Allow,
    facts: &[],
    judge,
};

const FIELD: &str = "spec.desiredUpdate";
/// Names said before "and more".
const NAMED: usize = 4;

fn judge(context: &Context<'_>, judgement: &mut Judgement) {
    let Some(upgrade) = Upgrade::of(context) else { return };
    let Some(digest) = upgrade.target_digest().filter(|digest| upgrade.current_digest != Some(*digest)) else { return };
    // What the payload is made of is asked for by upgrade-path: one cause, one finding.
    let Some(release) = context.catalog.get(digest) else { return };
    judgement.look_for_components = Some(digest);
    let version = &release.version;
    let Some(checked) = context.checks.get(&digest) else {
        let missing = Missing {
            why: "they have not been looked for yet".into(),
            remedy: "airgate release missing PULLSPEC looks for them now".into(),
        };
        let what = format!("whether every component image of {version} is on this site is not known");
        return judgement.unknown(FIELD, what, &missing, upgrade.steps());
    };
    judgement.facts.push(FactUse {
        name: format!("components of {version}"),
        source: "the mirrors".into(),
        as_of: checked.at,
    });
    let Checked { found, .. } = &**checked;
    match found.verdict() {
        Verdict::Complete => {}
        Verdict::Missing => {
            let are = if found.absent.len() == 1 { "is" } else { "are" };
            let what = format!(
                "{} of the {} of {version} {are} found on no mirror: {}",
                found.absent.len(),
                counted(found.asked(), "component image"),
                names(&found.absent)
            );
            let text = Text::new(what, "an update that cannot pull one of them stops half-way")
                .works("mirror the release again, then list what is still missing: airgate release missing PULLSPEC");
            judgement.warn(FIELD, text);
        }
        Verdict::Unknown => {
            let missing = Missing {
                why: found.unknown.first().map_or_else(
                    || format!("no source says what {version} is made of"),
                    |gap| {
                        format!(
                            "{} could not be looked for: {}; {}",
                            found.unknown.len(),
                            names(&found.unknown),
                            shown(&gap.why)
                        )
                    },
                ),
                remedy: "airgate release missing PULLSPEC looks for them again".into(),
            };
            let what = format!("whether every component image of {version} is on this site is not known");
            judgement.unknown(FIELD, what, &missing, upgrade.steps());
        }
    }
}

fn names(gaps: &[Gap]) -> String {
    let name = |gap: &Gap| gap.image.names.first().map_or_else(|| gap.image.pullspec(), Clone::clone);
    let first: Vec<String> = gaps.iter().take(NAMED).map(|gap| shown(&name(gap)).into_owned()).collect();
    match gaps.len().saturating_sub(NAMED) {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
    }
}
