//! What `#[derive(ShardedState)]` makes, seen from a crate that uses it.

use sharding_core::state::{Init, StateTensors, abstract_sharded_state};
use sharding_core::{AbstractMesh, DType, Result, ShardedState, Tensor, spec};
use std::collections::BTreeMap;

mod inner {
    use super::*;

    /// Fields of every visibility, and all forms of attributes.
    #[derive(ShardedState)]
    pub(super) struct Part {
        #[sharding(("dp", "tp"), None)]
        pub(super) a: Tensor,
        #[sharding(name = "renamed.b", shape = [WIDTH, 2 + 1], dtype = I64)]
        pub(crate) b: Option<Tensor>,
        #[sharding(skip)]
        pub(super) note: &'static str,
    }

    const WIDTH: usize = 4;

    impl Part {
        pub(super) fn new(init: &Init<'_, Self>) -> Result<Self> {
            Ok(Self { a: made(&init.a.shape([8, 3]))?, b: Some(made(&init.b)?), note: "kept" })
        }
    }
}

fn made(leaf: &sharding_core::state::Leaf<'_>) -> Result<Tensor> {
    leaf.build(|layout, _| Tensor::from_callback(layout.clone(), |_, _| Ok(())))
}

/// Generic over types, constants and lifetimes; with a bound, a default and a where clause.
#[derive(ShardedState)]
struct Generic<'a, S: Clone, T = u8, const N: usize = 2>
where
    T: PartialEq<T> + ?Sized,
    S: 'a,
{
    parts: [S; N],
    map: BTreeMap<String, S>,
    #[sharding(skip)]
    word: &'a str,
    #[sharding(skip)]
    unused: std::marker::PhantomData<T>,
}

#[derive(Clone, ShardedState)]
struct Tuple(#[sharding(skip)] u8, #[sharding(None, "tp")] Tensor);

#[derive(ShardedState)]
struct Unit;

#[derive(ShardedState)]
struct Nothing {
    #[sharding(skip)]
    number: u8,
}

type Whole<'a> = (inner::Part, Generic<'a, Tuple, u8, 3>, (Unit, Nothing));

#[test]
fn every_form_of_a_struct_is_a_state() {
    let mesh = AbstractMesh::new([2, 2], ["dp", "tp"]).unwrap();
    let mut kept = None;
    let layouts = abstract_sharded_state::<Whole<'_>>(&mesh, |(part, generic, _)| {
        let tuple = |init: &Init<'_, Tuple>| Ok(Tuple(1, made(&init.1.shape([2, 2]))?));
        let whole: Whole<'_> = (
            inner::Part::new(part)?,
            Generic {
                parts: generic.parts.array(|init, _| tuple(init))?,
                map: generic.map.each(["x"], |init, _| tuple(init))?,
                word: "w",
                unused: std::marker::PhantomData,
            },
            (Unit, Nothing { number: 3 }),
        );
        kept = Some((whole.0.note, whole.1.word, whole.1.parts[0].0, whole.2.1.number));
        assert_eq!(whole.tensors().len(), 6);
        Ok(whole)
    })
    .unwrap();
    assert_eq!(kept, Some(("kept", "w", 1, 3)));
    let names: Vec<&str> = layouts.iter().map(|tensor| tensor.name()).collect();
    assert_eq!(names, ["0.a", "0.renamed.b", "1.parts.0.1", "1.parts.1.1", "1.parts.2.1", "1.map.x.1"]);
    let b = layouts.get("0.renamed.b").unwrap();
    assert_eq!((b.meta().dtype, &b.meta().shape[..]), (DType::I64, &[4, 3][..]));
    let spec_of = |name: &str| layouts.get(name).unwrap().sharding().named().unwrap().spec().clone();
    assert_eq!(spec_of("0.a"), spec![("dp", "tp"), None]);
    assert_eq!(spec_of("0.renamed.b"), spec![]);
    assert_eq!(spec_of("1.map.x.1"), spec![None, "tp"]);
}

/// A state that holds itself, spelled in both ways; without a parameter and with one.
#[derive(ShardedState)]
struct Tree {
    #[sharding("tp")]
    weight: Tensor,
    children: Vec<Self>,
}

#[derive(ShardedState)]
struct Branch<T: Clone>
where
    Self: Sized,
    Option<T>: Clone,
{
    leaf: T,
    by_name: BTreeMap<String, Branch<T>>,
    children: Vec<Self>,
}

/// A name that is a word of the language.
#[derive(ShardedState)]
struct Raw {
    r#type: Tensor,
}

#[test]
fn a_state_may_hold_itself() {
    fn tree(init: &Init<'_, Tree>, depth: usize) -> Result<Tree> {
        let children = init.children.each(depth, |init, _| tree(init, depth - 1))?;
        Ok(Tree { weight: made(&init.weight.shape([2]))?, children })
    }
    fn branch(init: &Init<'_, Branch<Tensor>>, depth: usize) -> Result<Branch<Tensor>> {
        Ok(Branch {
            leaf: made(&init.leaf.shape([2]))?,
            by_name: init.by_name.each((0..depth).map(|_| "only"), |init, _| branch(init, 0))?,
            children: init.children.each(depth, |init, _| branch(init, depth - 1))?,
        })
    }
    let mesh = AbstractMesh::new([2], ["tp"]).unwrap();
    let names = |layouts: sharding_core::state::StateLayouts| -> Vec<String> {
        layouts.iter().map(|tensor| tensor.name().to_owned()).collect()
    };
    let all = abstract_sharded_state::<Tree>(&mesh, |init| tree(init, 2)).unwrap();
    assert_eq!(
        all.get("children.1.children.0.weight").unwrap().sharding().named().unwrap().spec(),
        &spec!["tp"]
    );
    let want = [
        "weight",
        "children.0.weight",
        "children.0.children.0.weight",
        "children.1.weight",
        "children.1.children.0.weight",
    ];
    assert_eq!(names(all), want);
    let all = abstract_sharded_state::<Branch<Tensor>>(&mesh, |init| branch(init, 1)).unwrap();
    assert_eq!(names(all), ["leaf", "by_name.only.leaf", "children.0.leaf"]);
    let raw = abstract_sharded_state::<Raw>(&mesh, |init| Ok(Raw { r#type: made(&init.r#type.shape([2]))? }));
    assert_eq!(names(raw.unwrap()), ["type"]);
}
