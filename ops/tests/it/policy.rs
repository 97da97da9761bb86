//! Policies, on every case of every op: what runs under `raise` moves nothing, and what moves is said under `warn`.

use crate::joint::{Placed, mesh};
use sharding_core::backend::StepKind;
use sharding_core::conformance::host::Random;
use sharding_core::op::{Cases, Registry};
use sharding_core::rule::AxisAssignment;
use sharding_core::trace::explain;
use sharding_ops::{
    AxisType, BackendKind, DType, DeviceMapping, DeviceMesh, Place, Policy, Ragged, Replicated, Result,
    Scope, Sharded, Tensor, TransitionSet, add, auto_reshard, concat, full, stack,
};
use std::fmt::Debug;
use std::sync::{Arc, Mutex};

fn under(policy: Policy) -> Scope {
    (*Scope::current()).clone().with_policy(policy)
}

/// A call is refused under `raise` exactly if it would move an operand, or exchange elements inside; and what runs there
/// brings no element to another device.
#[test]
fn what_runs_under_raise_moves_nothing() -> Result<()> {
    let meshes = [mesh(&[3]), mesh(&[2, 2]), mesh(&[2, 1, 2])];
    let mut random = Random::new(9);
    let (mut ran, mut refused, mut exchanged) = (0, 0, 0);
    for def in Registry::get()?.ops() {
        let mut cases = Cases::new();
        (def.cases)(&mut cases);
        for case in cases.iter() {
            for mesh in meshes.iter().flat_map(|mesh| (0..6).map(move |_| mesh)) {
                let call = Placed::new(def, case, mesh, Some(&mut random));
                let Ok(silent) = call.plan(&under(Policy::silent())) else { continue };
                let exchanges = silent.plan().rows.iter().any(AxisAssignment::exchanges);
                let moves = silent.moves().any(|program| program.is_some()) || exchanges;
                let raised = explain(|| call.layouts(&under(Policy::raise())));
                let layouts = || call.tensors().map(|x| x.layout().to_string()).collect::<Vec<_>>();
                assert_eq!(raised.value.is_err(), moves, "{} of {:?}", def.name, layouts());
                let mut steps = raised.report.steps.iter();
                let moved = steps.find(|step| step.kind == StepKind::Permute && step.bytes > 0.0);
                assert!(moved.is_none(), "{} of {:?}: {moved:?}", def.name, layouts());
                ran += usize::from(!moves);
                refused += usize::from(moves);
                exchanged += usize::from(exchanges);
            }
        }
    }
    assert!(ran > 500 && refused > 500 && exchanged > 20, "{ran} {refused} {exchanged}");
    Ok(())
}

fn rows(mesh: &DeviceMesh, place: Place) -> Tensor {
    let values: Vec<f32> = (0..64).map(|i| i as f32).collect();
    Tensor::from_slice(&values, [8, 8], &DeviceMapping::new(mesh, [place]).unwrap()).unwrap()
}

/// What a program warns of.
fn warnings<T>(run: impl FnOnce() -> T) -> (T, Vec<String>) {
    let seen = Seen::default();
    let value = tracing::subscriber::with_default(seen.clone(), || auto_reshard(Policy::warn(), run));
    let list = seen.0.lock().unwrap().clone();
    (value, list)
}

#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<String>>>);

struct Message<'a>(&'a mut Vec<String>);

impl tracing::field::Visit for Message<'_> {
    fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn Debug) {
        if field.name() == "message" {
            self.0.push(format!("{value:?}"));
        }
    }
}

impl tracing::Subscriber for Seen {
    fn enabled(&self, of: &tracing::Metadata<'_>) -> bool {
        *of.level() == tracing::Level::WARN
    }
    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }
    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        event.record(&mut Message(&mut self.0.lock().unwrap()));
    }
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

#[test]
fn an_exchange_inside_an_op_is_a_reshard() {
    let mesh = DeviceMesh::simulated(BackendKind::CPU, [2], ["tp"]).unwrap();
    let pair = [rows(&mesh, Sharded(0)), rows(&mesh, Sharded(0))];
    let (joined, said) = warnings(|| concat(&pair, 0).unwrap());
    let [report] = &said[..] else { panic!("{said:?}") };
    assert!(report.contains("exchanges elements of its operands between devices"), "{report}");
    assert!(report.contains("bytes inside") && report.contains("policy.rs"), "{report}");

    let error = auto_reshard(Policy::raise(), || concat(&pair, 0)).unwrap_err();
    let (text, fix) = (error.to_string(), error.fix().unwrap());
    assert!(text.contains("would have to exchange elements of its operands"), "{text}");
    assert!(text.contains("refused: exchanges elements inside"), "{text}");
    assert!(fix.contains("auto_reshard(Policy::silent(), || concat(..))"), "{fix}");
    // The lines of the fix, done by hand.
    let to = match fix {
        _ if fix.contains("[Place::Sharded(1)]") => Sharded(1),
        _ if fix.contains("replicated(xs[0].mesh())") => Replicated,
        _ => panic!("{fix}"),
    };
    assert!(fix.contains("let xs_1 = xs[1].transfer_to(&"), "{fix}");
    let by_hand = pair.map(|x| x.transfer_to(&DeviceMapping::new(&mesh, [to]).unwrap()).unwrap());
    let again = auto_reshard(Policy::raise(), || concat(&by_hand, 0)).unwrap();
    assert_eq!(again.to_vec::<f32>().unwrap(), joined.to_vec::<f32>().unwrap());

    // Not among what the policy allows, it is as if it were a change of an operand.
    let none = Policy::silent().allow(TransitionSet::of(&[]));
    let mixed = [rows(&mesh, Sharded(0)), rows(&mesh, Sharded(1))];
    let error = auto_reshard(none, || stack(&mixed, 0)).unwrap_err();
    assert!(error.to_string().contains("which the policy in force does not allow"), "{error}");
    assert!(
        warnings(|| concat(&[rows(&mesh, Sharded(1)), rows(&mesh, Sharded(1))], 0).unwrap()).1.is_empty()
    );
}

/// The line that mends it is Rust, whatever placement stays beside the one that has to move.
#[test]
fn what_an_explicit_mesh_axis_forbids_is_mended_by_rust() {
    let mesh = DeviceMesh::simulated(BackendKind::CPU, [2, 2, 2], ["a", "b", "c"]).unwrap();
    let mesh = mesh.with_axis_types([AxisType::Auto, AxisType::Auto, AxisType::Explicit]).unwrap();
    let x = |places: [Place; 3]| {
        let replicated = full([2, 8], 1.0, DType::F32, &DeviceMapping::replicated(&mesh)).unwrap();
        replicated.transfer_to(&DeviceMapping::new(&mesh, places).unwrap()).unwrap()
    };
    let check = |lhs: Tensor, rhs: Tensor, want: &str| {
        let error = auto_reshard(Policy::silent(), || add(&lhs, &rhs)).unwrap_err();
        let fix = error.fix().unwrap();
        assert!(fix.contains(want), "{error}");
    };
    let ragged = Ragged::place(1, [5, 3]);
    let (lhs, rhs) =
        (x([Place::PARTIAL, Replicated, Sharded(1)]), x([Place::PARTIAL, Sharded(1), Replicated]));
    check(lhs, rhs, "[Place::PARTIAL, Place::Sharded(1), Place::Sharded(1)]");
    let (lhs, rhs) = (x([Sharded(0), Replicated, Sharded(1)]), x([Sharded(0), ragged, Replicated]));
    check(lhs, rhs, "Place::Sharded(0), ");
}
