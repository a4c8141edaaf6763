//! One order out of several lists of mirrors for one source.

use std::collections::{BTreeSet, VecDeque};

use crate::objects::Str;

/// Mirrors in the order in which they are tried.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Merged<'a> {
    /// The source stands among them only where a list names it before another mirror: it is tried last anyway.
    pub mirrors: Vec<&'a str>,
    /// The lists want it in different orders.
    pub contradictory: bool,
}

/// Merges lists so that each keeps its order, as the machine-config-controller does when it writes what the nodes'
/// container runtime reads: ties go by name, and a contradiction is broken at the first name that is left.
pub(super) fn merged<'a>(source: &'a str, lists: &[&'a [Str<'a>]]) -> Merged<'a> {
    let of_lists = lists.iter().flat_map(|list| list.iter().map(|mirror| &**mirror));
    let names: Vec<&str> = of_lists.chain([source]).collect::<BTreeSet<_>>().into_iter().collect();
    // Every name is in there.
    let number = |name: &str| names.binary_search(&name).unwrap_or_default();
    let mut after: Vec<BTreeSet<usize>> = vec![BTreeSet::new(); names.len()];
    let mut before = vec![0_usize; names.len()];
    for list in lists {
        let last = (!list.iter().any(|mirror| &**mirror == source)).then_some(source);
        let all: Vec<usize> = list.iter().map(|mirror| &**mirror).chain(last).map(number).collect();
        for pair in all.windows(2) {
            if after[pair[0]].insert(pair[1]) {
                before[pair[1]] += 1;
            }
        }
    }
    let mut used = vec![false; names.len()];
    let mut ready: VecDeque<usize> = (0..names.len()).filter(|name| before[*name] == 0).collect();
    let mut left = 0..names.len();
    let mut merged = Merged { mirrors: vec![], contradictory: false };
    loop {
        let next = ready.pop_front().or_else(|| {
            let broken = left.find(|name| !used[*name]);
            merged.contradictory |= broken.is_some();
            broken
        });
        let Some(next) = next else { break };
        used[next] = true;
        merged.mirrors.push(names[next]);
        for later in &after[next] {
            before[*later] = before[*later].saturating_sub(1);
            if before[*later] == 0 && !used[*later] {
                ready.push_back(*later);
            }
        }
    }
    merged.mirrors.pop_if(|last| *last == source);
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(lists: &[&[&str]]) -> (String, bool) {
        let lists: Vec<Vec<Str<'_>>> =
            lists.iter().map(|list| list.iter().map(|mirror| Str::from(*mirror)).collect()).collect();
        let lists: Vec<&[Str<'_>]> = lists.iter().map(Vec::as_slice).collect();
        let merged = merged("s", &lists);
        (merged.mirrors.join(" "), merged.contradictory)
    }

    #[test]
    fn lists_are_merged_as_nodes_do_it() {
        for (lists, expected) in [
            (&[&["b", "a"][..]][..], "b a"),
            (&[&["b", "c"], &["a", "b"]], "a b c"),
            (&[&["z"], &["a"]], "a z"),
            (&[&["a", "s", "b"]], "a s b"),
            (&[&["a", "b", "s"]], "a b"),
            // By breadth: what became free first is tried first.
            (&[&["a", "z"], &["b", "c"]], "a b z c"),
        ] {
            assert_eq!(order(lists), (expected.to_owned(), false), "{lists:?}");
        }
        assert_eq!(order(&[&["a", "b"], &["b", "a"]]), ("a b".into(), true));
        assert_eq!(order(&[&["c", "b"], &["b", "c"], &["d", "c"]]), ("d b c".into(), true));
        assert_eq!(order(&[&["a", "a"]]), ("a".into(), true), "named twice in a row");
    }

    /// All pairs of lists of up to three of four names.
    #[test]
    fn every_list_keeps_its_order_unless_they_contradict() {
        let names = ["a", "b", "c", "s"];
        let mut lists: Vec<Vec<&str>> = vec![];
        for one in names {
            lists.push(vec![one]);
            for two in names.into_iter().filter(|two| *two != one) {
                lists.push(vec![one, two]);
                lists.extend(names.into_iter().filter(|n| *n != one && *n != two).map(|three| vec![one, two, three]));
            }
        }
        let mut contradictions = 0;
        for one in &lists {
            for two in &lists {
                let (text, contradictory) = order(&[one, two]);
                assert_eq!(
                    order(&[two, one]),
                    (text.clone(), contradictory),
                    "{one:?} {two:?}: their order is nothing"
                );
                let found: Vec<&str> = text.split(' ').filter(|name| !name.is_empty()).chain(["s"]).collect();
                let place = |name: &str| found.iter().position(|other| *other == name);
                assert!(one.iter().chain(two).all(|name| place(name).is_some()), "{one:?} {two:?}: {text}");
                contradictions += usize::from(contradictory);
                let kept = [one, two].into_iter().all(|list| list.is_sorted_by_key(|name| place(name)));
                assert!(kept || contradictory, "{one:?} {two:?}: {text}");
            }
        }
        assert!(contradictions > 100);
    }
}
