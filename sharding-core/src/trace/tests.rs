use super::*;
use crate::backend::{Expr, FusedOp, Primitive};
use crate::{Error, ErrorKind};

#[test]
fn primitives_have_the_names_of_their_kernels() {
    assert_eq!(primitive_name(&Primitive::Map(Expr::input(0))), "map");
    assert_eq!(primitive_name(&Primitive::Dot), "dot");
    assert_eq!(primitive_name(&Primitive::Fused(FusedOp::Softmax { axis: 0 })), "softmax");
    assert_eq!(primitive_name(&Primitive::Fused(FusedOp::LayerNorm { eps: 1e-5 })), "layer_norm");
}

#[test]
fn places_have_no_detours() {
    // An error of a call at a path as cargo gives it to an example of a package beside it.
    let here = Location::caller();
    let text = Error::new(ErrorKind::Shape, "no").with_location(here).to_string();
    assert!(!text.contains("/../") && text.contains(&format!(":{}", here.line())), "{text}");
    assert_eq!(clean_path("ops/../examples/quickstart.rs"), "examples/quickstart.rs");
    assert_eq!(clean_path("./a/./b.rs"), "a/b.rs");
    assert_eq!(clean_path("../a/b.rs"), "../a/b.rs");
    assert_eq!(clean_path("../../a/b.rs"), "../../a/b.rs");
    assert_eq!(clean_path("/a/../b.rs"), "/b.rs");
    assert_eq!(clean_path("a\\..\\b.rs"), "b.rs");
}
