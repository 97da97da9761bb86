//! The registry of ops and kernels: collected once, sorted, duplicates refused.

use super::{ErasedKernel, KernelDef, OpDef};
use crate::{BackendKind, Error, ErrorKind, Result};
use std::collections::BTreeMap;
use std::sync::OnceLock;

/// All linked ops and kernels.
pub struct Registry {
    ops: BTreeMap<&'static str, &'static OpDef>,
    kernels: BTreeMap<(&'static str, &'static str), &'static KernelDef>,
}

static REGISTRY: OnceLock<std::result::Result<Registry, String>> = OnceLock::new();

impl Registry {
    /// The registry of this program.
    ///
    /// # Errors
    /// [`ErrorKind::Registry`] if two ops have one name, or two kernels one op and backend, naming both places.
    pub fn get() -> Result<&'static Self> {
        let built =
            REGISTRY.get_or_init(|| Self::build(inventory::iter::<OpDef>, inventory::iter::<KernelDef>));
        built.as_ref().map_err(|message| {
            Error::new(ErrorKind::Registry, message.clone()).with_fix("rename one of them")
        })
    }

    fn build(
        ops: impl IntoIterator<Item = &'static OpDef>,
        kernels: impl IntoIterator<Item = &'static KernelDef>,
    ) -> std::result::Result<Self, String> {
        let mut registry = Self { ops: BTreeMap::new(), kernels: BTreeMap::new() };
        for def in ops {
            if let Some(other) = registry.ops.insert(def.name, def) {
                return Err(two(&format!("ops named {}", def.name), def.at, other.at));
            }
        }
        for def in kernels {
            if let Some(other) = registry.kernels.insert((def.op.name, def.backend), def) {
                return Err(two(
                    &format!("kernels of {} for {}", def.op.name, def.backend),
                    def.at,
                    other.at,
                ));
            }
        }
        Ok(registry)
    }

    /// All ops by name.
    pub fn ops(&self) -> impl ExactSizeIterator<Item = &'static OpDef> {
        self.ops.values().copied()
    }

    /// The op of that name.
    ///
    /// # Errors
    /// [`ErrorKind::Registry`] with near names, or how to link ops if there are none.
    pub fn op(&self, name: &str) -> Result<&'static OpDef> {
        if let Some(def) = self.ops.get(name) {
            return Ok(def);
        }
        let error = Error::new(ErrorKind::Registry, format!("no op named '{name}' is registered"));
        if self.ops.is_empty() {
            return Err(error.with_fix("no op is linked at all: use sharding_ops as _;"));
        }
        let mut near: Vec<_> = self.ops.keys().map(|known| (distance(name, known), *known)).collect();
        near.sort_unstable();
        let near: Vec<_> = near.iter().take(3).map(|(_, known)| *known).collect();
        Err(error.with_fix(format!("did you mean {}?", near.join(", "))))
    }

    /// The registered op of a name, if there is one.
    pub(crate) fn find(&self, name: &str) -> Option<&'static OpDef> {
        self.ops.get(name).copied()
    }

    /// The kernel that replaces an op's portable one on a backend.
    pub fn kernel(&self, op: &str, backend: BackendKind) -> Option<ErasedKernel> {
        self.kernels.get(&(op, backend.name())).map(|def| def.run)
    }
}

fn two(what: &str, (file, line): (&str, u32), (other, at): (&str, u32)) -> String {
    format!("two {what}: at {file}:{line} and at {other}:{at}")
}

/// The number of single-letter edits between two names.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.chars().count()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        for (slot, y) in row.iter_mut().skip(1).zip(b.chars()) {
            let cost = (diagonal + usize::from(x != y)).min(left + 1).min(*slot + 1);
            diagonal = *slot;
            *slot = cost;
            left = cost;
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::any::TypeId;

    /// An op of this name, declared on that line.
    fn op(name: &'static str, line: u32) -> &'static OpDef {
        Box::leak(Box::new(OpDef {
            name,
            operands: &[],
            results: Some(0),
            args: TypeId::of::<()>,
            shape: |_, _| Ok(crate::Metas::new()),
            rows: |_, _, _| Ok(()),
            kernel: |_, _, _, _, _| Ok(()),
            stages: |_, _, _| Ok(Vec::new()),
            cases: |_| {},
            at: ("ops.rs", line),
        }))
    }

    fn kernel(op: &'static OpDef, line: u32) -> &'static KernelDef {
        Box::leak(Box::new(KernelDef { op, backend: "cpu", run: op.kernel, at: ("kernels.rs", line) }))
    }

    #[test]
    fn distance_counts_edits() {
        assert_eq!(distance("matmul", "matmul"), 0);
        assert_eq!(distance("matmull", "matmul"), 1);
        assert_eq!(distance("sfotmax", "softmax"), 2);
        assert_eq!(distance("", "add"), 3);
    }

    #[test]
    fn ops_are_sorted_whatever_the_order_of_linking() {
        let registry = Registry::build([op("mul", 1), op("add", 2)], []).unwrap();
        assert_eq!(registry.ops().map(|def| def.name).collect::<Vec<_>>(), ["add", "mul"]);
    }

    #[test]
    fn two_of_one_name_are_refused_with_both_places() {
        let refused = |ops: Vec<_>, kernels: Vec<_>| Registry::build(ops, kernels).map(|_| ()).unwrap_err();
        let message = refused(vec![op("add", 1), op("mul", 2), op("add", 3)], vec![]);
        assert!(
            message.contains("ops named add") && message.contains("ops.rs:1") && message.contains("ops.rs:3"),
            "{message}"
        );
        let add = op("add", 1);
        let message = refused(vec![add], vec![kernel(add, 4), kernel(add, 5)]);
        assert!(message.contains("kernels of add for cpu") && message.contains("kernels.rs:4"), "{message}");
    }

    #[test]
    fn an_unknown_op_names_its_neighbours_or_how_to_link_any() {
        let registry = Registry::build([op("softmax", 1), op("add", 2)], []).unwrap();
        let fix = |registry: &Registry| {
            registry.op("sofmax").map(|_| ()).unwrap_err().fix().unwrap_or_default().to_owned()
        };
        assert!(fix(&registry).starts_with("did you mean softmax"));
        assert!(fix(&Registry::build([], []).unwrap()).contains("use sharding_ops as _;"));
    }
}
