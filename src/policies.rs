//! The catalogue: one line a policy, in the order of design (which is the order of findings in an answer).

mod bundle_change;
mod bundle_support;
mod clusterversion_singleton;
mod digest_only;
mod mirror_in_use;
mod release_complete;
mod release_identity;
mod release_in_use;
mod release_ready;
mod release_signature;
mod upgrade_path;

use crate::policy::Policy;

pub const POLICIES: &[&Policy] = &[
    &upgrade_path::POLICY,
    &digest_only::POLICY,
    &release_in_use::POLICY,
    &release_identity::POLICY,
    &clusterversion_singleton::POLICY,
    &release_signature::POLICY,
    &release_ready::POLICY,
    &release_complete::POLICY,
    &mirror_in_use::POLICY,
    &bundle_change::POLICY,
    &bundle_support::POLICY,
];

#[must_use]
pub fn by_id(id: &str) -> Option<&'static Policy> {
    POLICIES.iter().find(|policy| policy.id == id).copied()
}
