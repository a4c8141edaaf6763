//! Catalogs of operators that are served from the InternalReleaseImage: a bundle holds operators' images as well, and no
//! object says which bundle holds which. So this only ever warns.

use crate::bundle::Bundle;
use crate::cluster::{Fact, Missing};
use crate::mirrors::{IRI_PORT, MirrorRules, Pull};
use crate::policy::{Context, Judgement};
use crate::pullspec::{self, Repository};
use crate::text::{Text, shown};

use super::{FIELD, SHOWN, names};

/// Warns where what leaves may be what a catalog is served from.
pub(super) fn warn(context: &Context<'_>, judgement: &mut Judgement, removed: &[Bundle], whole_object: bool) {
    let cluster = context.cluster;
    let mut found: Vec<(String, &str)> = vec![];
    let sources = listed(context, judgement, "CatalogSources", &cluster.catalog_sources);
    found.extend(
        sources.iter().map(|source| (format!("CatalogSource {}", &*source.metadata.name), &*source.spec.image)),
    );
    let catalogs = listed(context, judgement, "ClusterCatalogs", &cluster.cluster_catalogs);
    let served = catalogs.iter().filter(|catalog| &*catalog.spec.availability_mode != "Unavailable");
    found.extend(
        served.map(|catalog| {
            (format!("ClusterCatalog {}", &*catalog.metadata.name), &*catalog.spec.source.image.pullspec)
        }),
    );
    let rules = MirrorRules::of(cluster).ok();
    let affected = |image: &str| {
        whole_object || removed.iter().any(|bundle| minor_of_tag(image).is_none_or(|minor| is_of_minor(bundle, minor)))
    };
    found.retain(|(_, image)| served_from_iri(image, rules.as_ref()) && affected(image));
    if found.is_empty() {
        return;
    }
    let mut all: Vec<String> =
        found.iter().take(SHOWN).map(|(name, image)| format!("{} ({})", shown(name), shown(image))).collect();
    if found.len() > SHOWN {
        all.push(format!("and {} more", found.len() - SHOWN));
    }
    let leaves = if whole_object { "the InternalReleaseImage".to_owned() } else { names(removed) };
    let what = format!("operators may still be served from what leaves with {leaves}");
    judgement.warn(FIELD, Text::new(what, all.join(", ")));
}

/// What is known of one kind; that it is not known is a warning too.
fn listed<'a, T>(context: &Context<'a>, judgement: &mut Judgement, what: &str, fact: &'a Fact<Vec<T>>) -> &'a [T] {
    judgement.used(what, fact.provenance());
    match fact.reliable(what, context.now) {
        Ok(objects) => objects.map_or(&[], Vec::as_slice),
        Err(Missing { why, .. }) => {
            judgement.warn(FIELD, Text::new(format!("whether {what} are served from what leaves is not known"), why));
            &[]
        }
    }
}

/// Whether nodes pull it from the registries of the InternalReleaseImage, by its own name or as the first of its mirrors.
fn served_from_iri(image: &str, rules: Option<&MirrorRules>) -> bool {
    let Some(Ok(repository)) = pullspec::repository(image).map(Repository::parse) else { return false };
    if repository.host.ends_with(IRI_PORT) {
        return true;
    }
    let pull = if image.contains('@') { Pull::Digest } else { Pull::Tag };
    let places = rules.map(|rules| rules.places_for(&repository, pull));
    places.is_some_and(|places| places.places.first().is_some_and(|place| place.host.ends_with(IRI_PORT)))
}

/// `4.22` of `...redhat-operator-index:v4.22`.
fn minor_of_tag(image: &str) -> Option<&str> {
    let (_, tag) = image.split('@').next()?.rsplit_once(":v")?;
    let (major, minor) = tag.split_once('.')?;
    let number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    (number(major) && number(minor)).then_some(tag)
}

/// Whether a bundle's name is of this minor, or does not say of which it is.
fn is_of_minor(bundle: &Bundle, minor: &str) -> bool {
    let rest = bundle.name.trim_start_matches("ocp-release-bundle-");
    !rest.starts_with(|c: char| c.is_ascii_digit())
        || rest.strip_prefix(minor).is_some_and(|rest| rest.starts_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_that_is_a_minor_says_which_bundles_it_came_with() {
        for (image, minor) in [
            ("api-int.c.example:22625/redhat/redhat-operator-index:v4.22", Some("4.22")),
            ("api-int.c.example:22625/redhat/redhat-operator-index:v4.22@sha256:x", Some("4.22")),
            ("api-int.c.example:22625/redhat/redhat-operator-index@sha256:x", None),
            ("api-int.c.example:22625/redhat/redhat-operator-index:latest", None),
            ("api-int.c.example:22625/redhat/redhat-operator-index:v4.22.1", None),
            ("api-int.c.example:22625/redhat/redhat-operator-index", None),
        ] {
            assert_eq!(minor_of_tag(image), minor, "{image}");
        }
        let of = |name: &str, minor| is_of_minor(&Bundle { name: name.into(), digests: vec![] }, minor);
        assert!(of("ocp-release-bundle-4.22.1-x86_64", "4.22") && of("ocp-release-bundle-site", "4.22"));
        assert!(!of("ocp-release-bundle-4.22.1-x86_64", "4.2") && !of("ocp-release-bundle-4.21.1-x86_64", "4.22"));
    }
}
