use super::flights::{Scope, Source};
use crate::catalog::Finding;
use crate::policy::Want;
use crate::release::Release;
use std::sync::Arc;
use tokio::time::Instant;
#[derive(Debug)]
pub struct Registries;
impl Source for Registries {
    fn names(&self, _: &Want, _: Scope) -> Arc<str> {
        "x".into()
    }
    async fn read(&self, _: &Want, _: Scope, _: Instant) -> Result<Finding, String> {
        Err("no".into())
    }
    fn publish(&self, _: Release) {}
}
