//! What a case may ask for. Files come from outside: a case of a mesh of a million devices, or of a tensor that no memory
//! holds, fails as one that cannot be read, before it is run.

use super::json::{Node, Parsed};
use backend_sim::Simulation;
use sharding_core::{BackendKind, DType, Device, DeviceMapping, DeviceMesh, Result, Shape, Tensor};
use sharding_ops::zeros;

/// Each device of a mesh has its shards, and in a region its thread.
const MOST_DEVICES: usize = 64;
/// The most elements of a tensor that a case gives.
const MOST_ELEMENTS: usize = 1 << 14;
/// The most that a call may hold on a device, and that its results may have together.
const MOST_BYTES: u64 = 1 << 22;
/// The most operations that its kernels may do.
const MOST_FLOPS: f64 = 1e9;

/// The number of devices of a mesh of these sizes, unless there are more than are played; `node` says them.
pub(super) fn devices(node: &Node<'_>, sizes: &[usize]) -> Parsed<usize> {
    within(node, sizes, MOST_DEVICES, "devices").map(|()| sizes.iter().product())
}

/// Refuses a tensor of more elements than are made.
pub(super) fn elements(node: &Node<'_>, shape: &[usize]) -> Parsed<()> {
    within(node, shape, MOST_ELEMENTS, "elements")
}

fn within(node: &Node<'_>, extents: &[usize], most: usize, what: &str) -> Parsed<()> {
    // An extent of 0 hides none of the others: what is made of them may have another.
    let product = extents.iter().try_fold(1_usize, |product, extent| product.checked_mul((*extent).max(1)));
    match product.is_some_and(|product| product <= most) {
        true => Ok(()),
        false => Err(node.expected(&format!("of at most {most} {what}"))),
    }
}

/// Refuses a call that needs too much, by what it needs on a device without data; `run` gives its results, if it has any.
pub(super) fn call(
    node: &Node<'_>,
    inputs: impl IntoIterator<Item = (DType, Shape)>,
    run: impl FnOnce(&[Tensor]) -> Option<Vec<Tensor>>,
) -> Parsed<()> {
    let device = DeviceMapping::replicated(&DeviceMesh::single(Device::new(BackendKind::SIM, 0)));
    let inputs = inputs.into_iter().map(|(dtype, shape)| zeros(shape, dtype, &device));
    // What cannot be made there is refused on a device with data too.
    let Ok(inputs) = inputs.collect::<Result<Vec<_>>>() else { return Ok(()) };
    let (results, log) = Simulation::new().record(|| run(&inputs));
    // A result that repeats its elements holds few of them, until it is read.
    let read = results.iter().flatten().map(|result| result.logical_payload_nbytes() as u64);
    let (bytes, flops) = (read.fold(log.peak_bytes(), u64::saturating_add), log.flops());
    if bytes <= MOST_BYTES && flops <= MOST_FLOPS {
        return Ok(());
    }
    Err(node.expected(&format!(
        "a call of at most {MOST_BYTES} bytes and {MOST_FLOPS} operations on a device (this one has {bytes} and {flops})"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sharding_ops::{TensorOps, broadcast_to};

    #[test]
    fn the_error_says_how_much_there_may_be() {
        let value = serde_json::json!([1_u64 << 40, 2]);
        let node = Node::root(&value, "f.json");
        let found = "should be of at most 64 devices, found [1099511627776,2]";
        assert_eq!(devices(&node, &[1 << 40, 2]).unwrap_err().to_string(), format!("f.json: {found}"));
        assert_eq!((devices(&node, &[8, 8]).unwrap(), devices(&node, &[8, 0]).unwrap()), (64, 0));
        assert!(devices(&node, &[usize::MAX, 2]).is_err() && devices(&node, &[0, 65]).is_err());
        assert!(elements(&node, &[0, 1 << 14]).is_ok() && elements(&node, &[0, 1 << 15]).is_err());
    }

    #[test]
    fn a_call_is_measured_by_memory_results_and_operations() {
        let value = serde_json::json!("a call");
        let node = Node::root(&value, "f.json");
        let input = || [(DType::F32, Shape::from([1 << 10, 1]))];
        let check = |run: fn(&Tensor) -> Result<Tensor>, fits: bool| {
            let outcome = call(&node, input(), |inputs| Some(vec![run(inputs.first()?).ok()?]));
            assert_eq!(outcome.is_ok(), fits, "{:?}", outcome.map_err(|error| error.to_string()));
        };
        check(|x| x + x, true);
        check(|x| x + &broadcast_to(x, &[1 << 10, 1 << 12])?, false);
        // A view of many elements is small until it is read.
        check(|x| broadcast_to(x, &[1 << 10, 1 << 12]), false);
        check(|x| (0..1 << 10).try_fold(x.clone(), |sum, _| &sum + x), true);
        check(|x| broadcast_to(x, &[1 << 10, 1 << 30])?.sum(1, false), false);
        check(|x| broadcast_to(x, &[1 << 10, 1 << 50]), true);
    }
}
