//! The tree that sums follow: the same on every way to a placement, so that its bits are those of gathering all.

use crate::host::{ALONE, APART, HOST};
use crate::memory::{self, Bounded};
use crate::transfer::{extents, lay, mesh_of, meshes, places, slots, whole, words};
use crate::{reference, value};
use proptest::prelude::*;
use sharding_core::backend::StepKind;
use sharding_core::plan::VolumeCost;
use sharding_core::redistribute::Program;
use sharding_core::{DType, DeviceMapping, DeviceMesh, Place, ReduceOp, TensorLayout};

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];

proptest! {
    /// Devices hold the bits that gathering all and scattering it would give them, in every run; unless that would cost more
    /// than to combine, gather and slice, and even then devices agree.
    #[test]
    fn parts_are_summed_as_in_a_gather_and_scatter(
        mesh in meshes(),
        shape in extents(),
        from in words(),
        to in words(),
        parts in 1_usize..32,
        op in prop::sample::select(vec![ReduceOp::Sum, ReduceOp::Prod]),
        apart in any::<bool>(),
        slots in slots(),
        seed in any::<u64>(),
    ) {
        let grid = mesh_of(if apart { APART } else { HOST }, &mesh, &NAMES[..mesh.len()], &slots);
        let mut before = whole(places(&from, &shape, &mesh, op));
        for (_, place) in before.iter_mut().enumerate().filter(|(axis, _)| parts >> axis & 1 == 1) {
            *place = Place::Partial(op);
        }
        let source = value::floats(&lay(DType::F32, &shape, &grid, before), seed);
        let target = DeviceMapping::new(&grid, whole(places(&to, &shape, &mesh, op))).unwrap();
        let (moved, gathered) = (source.transfer_to(&target).unwrap(), source.transfer_to(&DeviceMapping::replicated(&grid)).unwrap());
        let scattered = gathered.transfer_to(&target).unwrap();
        for position in 0..grid.num_devices() {
            let region = moved.layout().region(position);
            let like = (0..position).find(|other| moved.layout().region(*other) == region).unwrap_or(position);
            prop_assert_eq!(value::bytes(&moved, position), value::bytes(&moved, like));
            if value::bytes(&moved, position) != value::bytes(&scattered, position) {
                let (from, to) = (source.layout(), moved.layout());
                let conforming = Program::search(from, to, &Bounded).unwrap();
                prop_assert!(conforming.cost > reference::price(from, to), "{from} to {to}: {:?}", conforming.steps);
            }
        }
    }
}

/// Whether the steps of a program sum in the tree that all parts at once are summed in: that one halves the positions of
/// their group, the first half the larger. In bf16, which is rounded after each step, only one step may sum.
fn follows(program: &Program) -> bool {
    let Program { source, target, .. } = program;
    let sums = |kind: StepKind| matches!(kind, StepKind::ReduceScatter(_) | StepKind::AllReduce(_));
    if source.dtype() == DType::BF16 && program.steps.iter().filter(|step| sums(step.kind)).count() > 1 {
        return false;
    }
    let mesh = source.mesh();
    let mut parts: Vec<usize> = (0..mesh.ndim())
        .filter(|axis| source.places()[*axis].is_partial() && !target.places()[*axis].is_partial())
        .collect();
    /// Positions in brackets, as they are combined.
    fn tree(parts: &[String]) -> String {
        match parts {
            [one] => one.clone(),
            _ => {
                let (left, right) = parts.split_at(parts.len().div_ceil(2));
                format!("({}+{})", tree(left), tree(right))
            }
        }
    }
    let group = |axes: &[usize]| mesh.group(0, axes);
    let mut terms: Vec<(usize, String)> =
        group(&parts).into_iter().map(|position| (position, position.to_string())).collect();
    let at_once = tree(&terms.iter().map(|(_, term)| term.clone()).collect::<Vec<_>>());
    for step in &program.steps {
        if !sums(step.kind) {
            continue;
        }
        parts.retain(|axis| !step.axes.contains(axis));
        let sum = |position: usize| {
            let members = mesh.group(position, &step.axes);
            let term = |member| terms.iter().find(|(at, _)| at == member).unwrap().1.clone();
            (position, tree(&members.iter().map(term).collect::<Vec<_>>()))
        };
        terms = group(&parts).into_iter().map(sum).collect();
    }
    assert!(parts.is_empty());
    terms[0].1 == at_once
}

/// Every change of placements in which several mesh axes are combined. Few do not follow the tree, and only where no program
/// that does costs as little as to combine, gather and slice.
#[test]
fn sums_follow_one_tree() {
    let options = [Place::Replicated, Place::PARTIAL, Place::Sharded(0), Place::Sharded(1)];
    let (mut summed, mut others, mut others_in_bf16) = (0, 0, 0);
    let meshes = [&[2, 2][..], &[2, 3], &[3, 2], &[3, 3], &[2, 4], &[2, 2, 2], &[2, 3, 2]];
    for (sizes, dtype) in meshes.into_iter().flat_map(|sizes| [(sizes, DType::F32), (sizes, DType::BF16)]) {
        let mesh = DeviceMesh::simulated(ALONE, sizes, &NAMES[..sizes.len()]).unwrap();
        for shape in [&[16, 48][..], &[96], &[7], &[1], &[3, 5], &[6, 10], &[7, 1], &[33, 35], &[1025, 1023]]
        {
            let layouts: Vec<TensorLayout> = memory::places(sizes.len(), &options[..2 + shape.len()])
                .into_iter()
                .map(|places| lay(dtype, shape, &mesh, places))
                .collect();
            for (from, to) in layouts.iter().flat_map(|from| layouts.iter().map(move |to| (from, to))) {
                let combined =
                    |axis: &usize| from.places()[*axis].is_partial() && !to.places()[*axis].is_partial();
                if (0..sizes.len()).filter(combined).count() < 2 {
                    continue;
                }
                summed += 1;
                assert!(follows(&Program::search(from, to, &Bounded).unwrap()), "{from} to {to}");
                let program = Program::search(from, to, &VolumeCost).unwrap();
                if !follows(&program) {
                    let others = if dtype == DType::BF16 { &mut others_in_bf16 } else { &mut others };
                    *others += 1;
                    let conforming = Program::search(from, to, &Bounded).unwrap();
                    assert!(
                        conforming.cost > reference::price(from, to),
                        "{from} to {to}: {:?}",
                        program.steps
                    );
                }
            }
        }
    }
    println!(
        "of {summed} programs that combine several mesh axes {others} follow another tree, {others_in_bf16} in bf16"
    );
    assert!(
        summed > 10_000 && others <= 3 && others_in_bf16 <= 40,
        "{others} and {others_in_bf16} of {summed}"
    );
}
