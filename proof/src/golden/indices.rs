//! Indices as Python spells them: `1:4`, `:, 1:3`, `::-1`, `2`.

use super::json::{Node, Parsed};
use sharding_ops::Index;

/// What stands between the brackets of `x[..]`; `node` is where it was read.
pub(super) fn indices(text: &str, node: &Node<'_>) -> Parsed<Vec<Index>> {
    text.split(',').map(|index| self::index(index.trim()).ok_or_else(|| node.expected("indices"))).collect()
}

fn index(text: &str) -> Option<Index> {
    let bound = |text: &str| match text.trim() {
        "" => Some(None),
        bound => bound.parse().ok().map(Some),
    };
    match text.split(':').collect::<Vec<_>>()[..] {
        ["..."] => Some(Index::Ellipsis),
        [at] => at.parse().ok().map(Index::At),
        [start, stop] => Some(Index::Range { start: bound(start)?, stop: bound(stop)?, step: 1 }),
        [start, stop, step] => {
            Some(Index::Range { start: bound(start)?, stop: bound(stop)?, step: bound(step)?.unwrap_or(1) })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_steps_and_single_indices() {
        let value = serde_json::json!("");
        let check = |text: &str, want: &[Index]| {
            let read = indices(text, &Node::root(&value, "f.json")).ok();
            assert_eq!(read, (!want.is_empty()).then(|| want.to_vec()), "{text}");
        };
        check(":, -3:-1", &[Index::ALL, Index::from(-3..-1)]);
        check("::-2", &[Index::ALL.step(-2)]);
        check("...,3", &[Index::Ellipsis, Index::At(3)]);
        check("", &[]);
        check("a:b", &[]);
        check("1:2:3:4", &[]);
    }
}
