//! Catalogs of operators: CatalogSources and ClusterCatalogs, and the image that each is served from.

use serde::Deserialize;

use super::{Metadata, Str, into_owned, object};

/// Where OLM looks for catalogs that every namespace sees.
pub const NAMESPACE: &str = "openshift-marketplace";

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default, expecting = "an object")]
pub struct CatalogSource<'a> {
    #[serde(borrow, deserialize_with = "object")]
    pub metadata: Metadata<'a>,
    #[serde(deserialize_with = "object")]
    pub spec: CatalogSourceSpec<'a>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default, expecting = "an object")]
pub struct CatalogSourceSpec<'a> {
    /// Empty for those that are served from an address or a ConfigMap.
    #[serde(borrow)]
    pub image: Str<'a>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default, expecting = "an object")]
pub struct ClusterCatalog<'a> {
    #[serde(borrow, deserialize_with = "object")]
    pub metadata: Metadata<'a>,
    #[serde(deserialize_with = "object")]
    pub spec: ClusterCatalogSpec<'a>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default, rename_all = "camelCase", expecting = "an object")]
pub struct ClusterCatalogSpec<'a> {
    #[serde(borrow, deserialize_with = "object")]
    pub source: Source<'a>,
    /// `Unavailable` where it was switched off.
    pub availability_mode: Str<'a>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default, expecting = "an object")]
pub struct Source<'a> {
    #[serde(borrow, deserialize_with = "object")]
    pub image: ImageSource<'a>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default, expecting = "an object")]
pub struct ImageSource<'a> {
    #[serde(borrow, rename = "ref")]
    pub pullspec: Str<'a>,
}

into_owned! {
    CatalogSource { metadata, spec }
    CatalogSourceSpec { image }
    ClusterCatalog { metadata, spec }
    ClusterCatalogSpec { source, availability_mode }
    Source { image }
    ImageSource { pullspec }
}
