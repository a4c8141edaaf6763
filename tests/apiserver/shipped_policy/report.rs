//! What is wrong with the answers, and the page that shows them.

use std::fmt::Write as _;

use super::situations::{Answers, Crd, Request, Row, Situations, Verdict};
use crate::api::Answer;

/// What is wrong with the answers to a row, and who gave them.
pub fn faults(situations: &Situations, row: &Row, answers: &Answers) -> Vec<String> {
    let expected = &situations.case(row).expect.outcome;
    let expected = if expected == "unknown" { "deny" } else { expected };
    let mut faults = vec![];
    let columns = [
        ("the shipped policy", &answers.shipped[&row.row], None),
        ("airgate", &answers.in_use[&row.row], Some(row.right)),
        ("airgate by default", &answers.default[&row.row], Some(row.default.unwrap_or(row.right))),
    ];
    for (who, answer, right) in columns {
        let (verdict, message) = (Verdict::of(answer), answer.body["message"].as_str().unwrap_or_default());
        if right.is_some_and(|right| right != verdict) {
            faults.push(format!("row {}: {who} says {verdict:?}, not {right:?}: {answer:?}", row.row));
        }
        let by = if right.is_some() { "airgate.io" } else { "ValidatingAdmissionPolicy" };
        if verdict == Verdict::Deny && !message.contains(by) {
            faults.push(format!("row {}: {who} did not say {message:?}", row.row));
        }
    }
    let in_use = Verdict::of(&answers.in_use[&row.row]).as_str();
    if in_use != expected && row.request != Request::Crd {
        faults.push(format!("row {}: airgate says {in_use}, its case {:?} expects {expected}", row.row, row.case));
    }
    faults
}

/// Why the policy's expression came to no result, where it did not.
fn breakage(answer: &Answer) -> Option<&str> {
    let message = answer.body["message"].as_str()?;
    let error = message.split_once("resulted in error: ").map(|(_, error)| error.trim());
    error.or_else(|| message.contains("no params found").then_some("no params found"))
}

const HEAD: &str = "\
# The shipped policy beside airgate

OpenShift guards the deletion of the InternalReleaseImage (IRI) with a ValidatingAdmissionPolicy of its own, which refuses it while
an entry of the IRI's status has the digest of the ClusterVersion's `status.desired.image`. airgate's policies release-in-use
and bundle-support guard the same object. This is what the two say in the situations in which a cluster was seen to lose a
release that it still needed ([the cases](../policies/release-in-use/cases/guard-cases.yaml)), measured on a real API server: an equivalent of the shipped
policy alone, then airgate alone, with `retain: in-use` (a site that cleans up after each upgrade; the right answers are for it)
and with its default, `retain: history`. A wrong answer is **bold**.

Both together: the API server asks policies first, so where the shipped policy refuses, airgate is not asked and cannot help.

";

pub fn document(situations: &Situations, answers: &Answers) -> String {
    let mut text = HEAD.to_owned();
    let mut notes = String::new();
    let (mut wrong, mut broken) = (0, 0);
    text.push_str("| | situation | right | shipped policy | airgate, `retain: in-use` | airgate, default |\n|---|---|---|---|---|---|\n");
    for row in &situations.rows {
        let cell = |answer: &Answer, right: Verdict, remark: Option<String>| {
            let verdict = Verdict::of(answer);
            let verdict =
                if verdict == right { verdict.as_str().to_owned() } else { format!("**{}**", verdict.as_str()) };
            remark.map_or(verdict.clone(), |remark| format!("{verdict} ({remark})"))
        };
        let title = row.text.as_deref().unwrap_or_else(|| row.case.split_once(' ').expect("an id and a name").1);
        let shipped = &answers.shipped[&row.row];
        wrong += usize::from(Verdict::of(shipped) != row.right);
        broken += usize::from(Verdict::of(shipped) == row.right && breakage(shipped).is_some());
        let shipped = cell(shipped, row.right, breakage(shipped).map(|error| format!("error: {error}")));
        let in_use = cell(&answers.in_use[&row.row], row.right, None);
        let default = cell(&answers.default[&row.row], row.default.unwrap_or(row.right), None);
        let right = row.right.as_str();
        writeln!(text, "| {} | {title} | {right} | {shipped} | {in_use} | {default} |", row.row).unwrap();
        if let Some(note) = &row.note {
            writeln!(notes, "- {}: {note}", row.row).unwrap();
        }
    }
    let list = |keep: fn(&Row) -> bool| {
        situations.rows.iter().filter(|row| keep(row)).map(|row| &*row.row).collect::<Vec<_>>().join(", ")
    };
    let rows = situations.rows.len();
    write!(
        text,
        "\nThe shipped policy is wrong in {wrong} of {rows} rows. Of the {} in which it is right, {broken} are so only because its \
         expression\nbreaks, and the person reads the error. airgate is right in all rows.\n\n\
         {notes}\
         - {}: today's CRD refuses such a status, so for these rows its schema was opened.\n\
         - {}: on a CRD with v1alpha1 only, as 4.21 has, whose policy compares whole pullspecs.\n\n\
         Written by a test: `AIRGATE_WRITE_DOCS=1 cargo test --test apiserver shipped_policy` writes it anew.\n",
        rows - wrong,
        list(|row| row.crd == Crd::Open),
        list(|row| row.crd == Crd::V1alpha1),
    )
    .unwrap();
    text
}
