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

/// Who watches and panics is alone with that.
#[test]
fn a_watcher_that_panics_breaks_nothing() {
    #[derive(Default)]
    struct Fails(std::sync::atomic::AtomicUsize);
    impl Fails {
        #[allow(clippy::panic, reason = "what is tested")]
        fn told(&self) {
            self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            panic!("it fails");
        }
    }
    impl Watch for Fails {
        fn begin(&self, _: &Event<'_>) {
            self.told();
        }
        fn end(&self, _: &Event<'_>) {
            self.told();
        }
        fn report(&self, _: &str, _: &'static str, _: &'static Location<'static>) {}
    }
    let fails = Arc::new(Fails::default());
    let scope = (*Scope::current()).clone().with_watcher(fails.clone());
    let explained = scope.enter(|| {
        explain(|| {
            let (name, at) = ("op", Location::caller());
            let _seen = Seen::new(|| Event::Op { name, at, operands: Vec::new(), results: Vec::new() });
            1
        })
    });
    assert_eq!((explained.value, explained.report.ops), (1, 1));
    assert_eq!(fails.0.load(std::sync::atomic::Ordering::Relaxed), 2);
}
