//! Planning alone: calls of matmul, and redistributions.

use super::Outcome;
use super::made::{part, tensor};
use super::measure::measure;
use sharding_core::op::{OpDef, Registry};
use sharding_core::plan::VolumeCost;
use sharding_core::redistribute::Program;
use sharding_core::{
    BackendKind, DType, DeviceMapping, DeviceMesh, Operand, Place, Result, Tensor, TensorLayout,
    clear_plan_cache, plan_call,
};
use std::cmp::Reverse;
use std::time::{Duration, Instant};

fn matmul() -> Result<&'static OpDef> {
    Registry::get()?.op("matmul")
}

/// The operands of a product that one operand has to move for.
fn operands() -> Result<(Tensor, Tensor)> {
    let mesh = DeviceMesh::simulated(BackendKind::CPU, [2], ["tp"])?;
    Ok((tensor(&mesh, [8, 8], &[Place::Sharded(1)])?, tensor(&mesh, [8, 8], &[Place::Replicated])?))
}

/// Rows, their costs, the redistribution of what moves and all that dispatch then needs, with an empty cache.
pub(super) fn cold(name: &str) -> Result<Outcome> {
    let (def, (lhs, rhs)) = (matmul()?, operands()?);
    measure(name, || {
        clear_plan_cache();
        plan_call(def, &[Operand::Tensor(&lhs), Operand::Tensor(&rhs)], &sharding_ops::matmul {})
    })
    .map(Outcome::from)
}

/// The same from the cache.
pub(super) fn cached(name: &str) -> Result<Outcome> {
    let (def, (lhs, rhs)) = (matmul()?, operands()?);
    measure(name, || {
        plan_call(def, &[Operand::Tensor(&lhs), Operand::Tensor(&rhs)], &sharding_ops::matmul {})
    })
    .map(Outcome::from)
}

/// The same on a mesh of 1024x1024 devices without data.
pub(super) fn cached_on_a_million_devices(name: &str) -> Result<Outcome> {
    let mesh = DeviceMesh::simulated(BackendKind::SIM, [1024, 1024], ["dp", "tp"])?;
    let lhs = tensor(&mesh, [8192, 8192], &[Place::Sharded(0), Place::Sharded(1)])?;
    let rhs = tensor(&mesh, [8192, 8192], &[Place::Replicated, Place::Sharded(0)])?;
    let def = matmul()?;
    measure(name, || {
        plan_call(def, &[Operand::Tensor(&lhs), Operand::Tensor(&rhs)], &sharding_ops::matmul {})
    })
    .map(Outcome::from)
}

/// The cheapest program between two mappings that differ on all four mesh axes.
pub(super) fn redistribution(name: &str) -> Result<Outcome> {
    let mesh = DeviceMesh::simulated(BackendKind::CPU, [2, 2, 2, 2], ["pp", "dp", "tp", "cp"])?;
    let layout =
        |places: [Place; 4]| TensorLayout::new(DType::F32, [64, 48, 32], DeviceMapping::new(&mesh, places)?);
    let source = layout([Place::Sharded(0), Place::Sharded(1), Place::PARTIAL, Place::Replicated])?;
    let target = layout([Place::Sharded(1), Place::Replicated, Place::Sharded(0), Place::Sharded(2)])?;
    measure(name, || Program::search(&source, &target, &VolumeCost)).map(Outcome::from)
}

/// The layouts on four mesh axes, each Replicated, Partial or split along any tensor axis: `even` of extents that every cut
/// divides, `uneven` of some that none does, and `small` of three of those that some cuts leave empty.
fn layouts(extents: &str) -> Result<Vec<TensorLayout>> {
    let mesh = DeviceMesh::simulated(BackendKind::CPU, [2, 2, 2, 2], ["pp", "dp", "tp", "cp"])?;
    let extents: &[usize] = match extents {
        "even" => &[64, 48],
        "uneven" => &[33, 35],
        _ => &[5, 7, 3],
    };
    let splits = [0, 1, 2].map(Place::Sharded).into_iter().take(extents.len());
    let options: Vec<Place> = [Place::Replicated, Place::PARTIAL].into_iter().chain(splits).collect();
    let place = |i: usize, axis: u32| {
        options.get(i / options.len().pow(axis) % options.len()).copied().unwrap_or(Place::Replicated)
    };
    let layouts = (0..options.len().pow(4)).map(|i| {
        let places = [0, 1, 2, 3].map(|axis| place(i, axis));
        TensorLayout::new(DType::F32, extents, DeviceMapping::new(&mesh, places)?)
    });
    layouts.collect()
}

/// All changes from one of the [`layouts`] to another, one after the other in no order that means anything.
pub(super) fn any_search(name: &str) -> Result<Outcome> {
    let layouts = layouts(part(name, 2)?)?;
    // A prime that divides no number of pairs: all are come to.
    const STEP: usize = 40_009;
    let n = layouts.len();
    let mut at = 0;
    measure(name, || {
        at = (at + STEP) % (n * n);
        match (layouts.get(at / n), layouts.get(at % n)) {
            (Some(source), Some(target)) => Program::search(source, target, &VolumeCost).map(Some),
            _ => Ok(None),
        }
    })
    .map(Outcome::from)
}

/// Of all changes from one of the [`layouts`] to another the one whose search takes longest: by the best of three, and of the
/// slowest by the best of thirty, for while a machine is slow any looks slow.
pub(super) fn worst_search(name: &str) -> Result<Outcome> {
    let layouts = layouts(part(name, 2)?)?;
    let pairs = layouts.iter().flat_map(|from| layouts.iter().map(move |to| (from, to)));
    let best_of = |rounds: usize, source: &TensorLayout, target: &TensorLayout| -> Result<Duration> {
        let mut least = Duration::MAX;
        for _ in 0..rounds {
            let started = Instant::now();
            std::hint::black_box(Program::search(source, target, &VolumeCost)?);
            least = least.min(started.elapsed());
        }
        Ok(least)
    };
    let mut timed = pairs
        .map(|(source, target)| Ok((best_of(3, source, target)?, source, target)))
        .collect::<Result<Vec<_>>>()?;
    timed.sort_unstable_by_key(|(least, ..)| Reverse(*least));
    timed.truncate(64);
    for (least, source, target) in &mut timed {
        *least = best_of(30, source, target)?;
    }
    let Some((_, source, target)) = timed.into_iter().max_by_key(|(least, ..)| *least) else {
        return Ok(Outcome::Skipped("there is no pair".to_owned()));
    };
    measure(name, || Program::search(source, target, &VolumeCost)).map(Outcome::from)
}
