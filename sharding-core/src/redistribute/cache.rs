//! Programs by source, target and cost model: one cache per thread, so that a hit takes no lock.

use super::Program;
use crate::plan::Generations;
use crate::{DeviceMapping, Result, Scope, TensorLayout};
use rustc_hash::FxHasher;
use std::cell::RefCell;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// Programs per generation; two generations are kept, so a thread holds at most twice as many.
const GENERATION: usize = 1024;

struct Entry {
    model: u64,
    program: Arc<Program>,
}

thread_local! {
    static CACHE: RefCell<Generations<Entry>> = RefCell::new(Generations::new(GENERATION));
}

/// The program from a layout to a mapping under the cost model in scope, searched once.
///
/// # Errors
/// As [`TensorLayout::with_mapping`] and [`Program::search`].
pub(crate) fn program(source: &TensorLayout, target: &DeviceMapping) -> Result<Arc<Program>> {
    let scope = Scope::in_force();
    let model = scope.cost_key();
    let mut hasher = FxHasher::default();
    (source.hash64(), model).hash(&mut hasher);
    target.hash(&mut hasher);
    let hash = hasher.finish();
    let fits = |entry: &Entry| {
        let Program { source: from, target: to, .. } = &*entry.program;
        let types = || to.mesh().axis_types() == target.mesh().axis_types();
        entry.model == model && from.plans_like(source) && to.mapping() == target && types()
    };
    let program = |entry: &Entry| entry.program.clone();
    if let Some(found) = CACHE.with(|cache| cache.borrow_mut().get(hash, fits, program)) {
        return Ok(found);
    }
    let target = source.with_mapping(target.clone())?;
    // Cost models are foreign code.
    let search = || Program::search(source, &target, scope.cost());
    let program = Arc::new(crate::dispatch::guarded("the cost model", search)?);
    let entry = Entry { model, program: program.clone() };
    CACHE.with(|cache| cache.borrow_mut().keep(hash, entry));
    Ok(program)
}

/// Forgets the programs of this thread.
pub(crate) fn clear() {
    CACHE.with(|cache| cache.borrow_mut().clear());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placement::Transition;
    use crate::plan::{CostModel, CostUnit, StepQuery, VolumeCost};
    use crate::{AxisType, BackendKind, DType, DeviceMesh, Place};

    /// Prices all alike, under a key of its own.
    #[derive(Debug)]
    struct Flat;

    impl CostModel for Flat {
        fn key(&self) -> u64 {
            77
        }
        fn unit(&self) -> CostUnit {
            CostUnit::Bytes
        }
        fn transition(&self, transition: Transition, bytes: f64, mesh: &DeviceMesh, axis: usize) -> f64 {
            VolumeCost.transition(transition, bytes, mesh, axis)
        }
        fn step(&self, _: &StepQuery<'_>) -> f64 {
            1.0
        }
    }

    #[test]
    fn a_program_is_searched_once_per_question() {
        let mesh = DeviceMesh::simulated(BackendKind::CPU, [2], ["a"]).unwrap();
        let mapping = |mesh: &DeviceMesh, place| DeviceMapping::new(mesh, [place]).unwrap();
        let source = TensorLayout::new(DType::F32, [4, 6], mapping(&mesh, Place::Sharded(0))).unwrap();
        let target = mapping(&mesh, Place::Sharded(1));
        let first = program(&source, &target).unwrap();
        assert!(Arc::ptr_eq(&first, &program(&source, &target).unwrap()));
        // A layout made anew asks the same; another cost model, mapping or axis type does not.
        let again = TensorLayout::new(DType::F32, [4, 6], mapping(&mesh, Place::Sharded(0))).unwrap();
        assert!(Arc::ptr_eq(&first, &program(&again, &target).unwrap()));
        let flat = (*Scope::current()).clone().with_cost(Arc::new(Flat));
        let other = flat.enter(|| program(&source, &target)).unwrap();
        assert_eq!((first.cost, other.cost), (24.0, 1.0));
        let explicit = mesh.with_axis_types([AxisType::Explicit]).unwrap();
        let typed = program(&source, &mapping(&explicit, Place::Sharded(1))).unwrap();
        assert_eq!(typed.target.mesh().axis_types(), [AxisType::Explicit]);
        clear();
        assert!(!Arc::ptr_eq(&first, &program(&source, &target).unwrap()));
    }

    #[test]
    fn the_cache_is_bounded_and_what_is_used_stays() {
        let mesh = DeviceMesh::simulated(BackendKind::CPU, [2], ["a"]).unwrap();
        let lay = |rows: usize| {
            let split = DeviceMapping::new(&mesh, [Place::Sharded(0)]).unwrap();
            TensorLayout::new(DType::F32, [rows], split).unwrap()
        };
        let whole = DeviceMapping::replicated(&mesh);
        let first = program(&lay(2), &whole).unwrap();
        for rows in 3..3 * GENERATION {
            program(&lay(rows), &whole).unwrap();
            assert!(Arc::ptr_eq(&first, &program(&lay(2), &whole).unwrap()));
        }
        let held = CACHE.with(|cache| cache.borrow().len());
        assert!(held <= 2 * GENERATION, "{held}");
    }
}
