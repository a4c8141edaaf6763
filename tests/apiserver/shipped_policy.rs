//! The policy that OpenShift ships for the InternalReleaseImage beside airgate: one after the other on the same API
//! server, in every situation in which a cluster was seen to lose a release. The outcome is docs/shipped-policy.md.

mod bench;
mod report;
mod situations;

use std::path::Path;
use std::{env, fs};

use bench::Bench;
use report::{document, faults};
use situations::{Answers, Crd, Situations};

#[test]
fn airgate_is_right_where_the_shipped_policy_is_not() {
    let situations = Situations::load();
    let mut bench = Bench::start(&situations);
    let mut answers = Answers::default();
    for crd in [Crd::Shipped, Crd::Open, Crd::V1alpha1] {
        bench.run(&situations, crd, &mut answers);
    }
    let faults: Vec<String> = situations.rows.iter().flat_map(|row| faults(&situations, row, &answers)).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));

    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/shipped-policy.md");
    let measured = document(&situations, &answers);
    if env::var_os("AIRGATE_WRITE_DOCS").is_some() {
        fs::write(&path, &measured).expect("write the document");
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == measured,
        "docs/shipped-policy.md is not what was measured; with AIRGATE_WRITE_DOCS=1 this test writes it anew. Measured:\n{measured}"
    );
}
