//! Every registered op on its cases and on mutations of them: a call gives a result or an error, never a panic, and an
//! error says which op it came from.

use crate::Numbers;
use sharding_core::op::{Case, OpDef, OperandKind, Registry};
use sharding_core::{DType, dispatch_dyn};
use sharding_ops::{
    BackendKind, DeviceMapping, DeviceMesh, Operand, Place, Policy, ReduceOp, Result, Tensor, TensorBuffer,
    auto_reshard,
};
use std::sync::atomic::{AtomicUsize, Ordering};

fn mutate_shape(numbers: &mut Numbers, shape: &mut Vec<usize>) {
    match numbers.below(6) {
        0 if !shape.is_empty() => {
            let axis = numbers.below(shape.len());
            shape[axis] = [0, 1, 2, 3, 5, 7][numbers.below(6)];
        }
        1 if !shape.is_empty() => {
            shape.remove(numbers.below(shape.len()));
        }
        2 if shape.len() < 5 => shape.insert(numbers.below(shape.len() + 1), numbers.below(4)),
        3 => shape.reverse(),
        _ => {}
    }
}

/// An operand of a case, perhaps with another shape or dtype, somewhere on the mesh.
fn operand(numbers: &mut Numbers, case: &Case, i: usize, mesh: &DeviceMesh, bend: bool) -> Result<Tensor> {
    let meta = &case.operands[i].meta;
    let mut shape = meta.shape.to_vec();
    let mut dtype = meta.dtype;
    if bend && numbers.chance(2) {
        mutate_shape(numbers, &mut shape);
    }
    if bend && numbers.chance(8) {
        dtype = [DType::Bool, DType::I64, DType::F32][numbers.below(3)];
    }
    let n = shape.iter().product();
    let whole = DeviceMapping::replicated(mesh);
    let x = match dtype {
        DType::Bool => {
            Tensor::from_slice(&(0..n).map(|i| i % 3 == 0).collect::<Vec<_>>(), shape.as_slice(), &whole)?
        }
        // Mostly indices that are in range somewhere, sometimes not.
        DType::I64 => {
            let values: Vec<i64> =
                (0..n).map(|_| numbers.below(8) as i64 - i64::from(numbers.chance(20)) * 9).collect();
            Tensor::from_slice(&values, shape.as_slice(), &whole)?
        }
        _ => {
            Tensor::from_slice(&(0..n).map(|i| i as f32 - 3.0).collect::<Vec<_>>(), shape.as_slice(), &whole)?
        }
    };
    let places: Vec<Place> = (0..mesh.ndim())
        .map(|_| match numbers.below(6) {
            0 | 1 => Place::Replicated,
            2 => Place::Partial(ReduceOp::Sum),
            _ => Place::Sharded(numbers.below(shape.len().max(1)) as u8),
        })
        .collect();
    // A placement that does not fit the shape is an error of the transfer: then it stays whole.
    Ok(DeviceMapping::new(mesh, places).and_then(|mapping| x.transfer_to(&mapping)).unwrap_or(x))
}

fn call(def: &'static OpDef, case: &Case, tensors: &[Tensor], buffers: &mut [TensorBuffer]) -> Result<()> {
    let mut operands = Vec::new();
    let (mut next, mut buffers) = (0, buffers.iter_mut());
    for (declared, n) in def.operands.iter().zip(&case.groups) {
        let own = &tensors[next..next + usize::from(*n)];
        next += usize::from(*n);
        operands.push(match declared.kind {
            OperandKind::Many => Operand::Many(own),
            OperandKind::Optional => Operand::Optional(own.first()),
            OperandKind::Written => match buffers.next() {
                Some(buffer) => Operand::Written(buffer),
                None => continue,
            },
            OperandKind::Tensor | OperandKind::Scalar => Operand::Tensor(&own[0]),
        });
    }
    let results = dispatch_dyn(def, &mut operands, &*case.args)?;
    // Results must be readable too.
    for result in results.all() {
        if !result.layout().places().contains(&Place::Unknown) {
            result.transfer_to(&DeviceMapping::replicated(result.mesh()))?;
        }
    }
    Ok(())
}

#[test]
fn no_op_panics() -> Result<()> {
    static PANICS: AtomicUsize = AtomicUsize::new(0);
    let meshes = [
        DeviceMesh::simulated(BackendKind::CPU, [1], ["x"])?,
        DeviceMesh::simulated(BackendKind::CPU, [2], ["x"])?,
        DeviceMesh::simulated(BackendKind::CPU, [3], ["x"])?,
        DeviceMesh::simulated(BackendKind::CPU, [2, 2], ["x", "y"])?,
        DeviceMesh::simulated(BackendKind::CPU, [1, 3], ["x", "y"])?,
    ];
    let policies = [Policy::silent(), Policy::silent().all(), Policy::raise(), Policy::warn()];
    // Other tests panic on purpose.
    let here = std::thread::current().id();
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if std::thread::current().id() == here {
            PANICS.fetch_add(1, Ordering::Relaxed);
        }
        usual(info);
    }));
    let mut numbers = Numbers(0x9E37_79B9_7F4A_7C15);
    let (mut fine, mut refused) = (0, 0);
    for def in Registry::get()?.ops() {
        let mut cases = sharding_core::op::Cases::new();
        (def.cases)(&mut cases);
        assert!(cases.iter().next().is_some(), "{} has no cases", def.name);
        for case in cases.iter() {
            for round in 0..24 {
                let mesh = &meshes[numbers.below(meshes.len())];
                let tensors = (0..case.operands.len())
                    .map(|i| {
                        // Now and then an operand lies on another mesh.
                        let other =
                            if numbers.chance(12) { &meshes[numbers.below(meshes.len())] } else { mesh };
                        operand(&mut numbers, case, i, other, round > 3)
                    })
                    .collect::<Result<Vec<_>>>()?;
                let mut buffers: Vec<TensorBuffer> = tensors.iter().cloned().map(TensorBuffer::new).collect();
                let outcome = auto_reshard(policies[numbers.below(policies.len())], || {
                    call(def, case, &tensors, &mut buffers)
                });
                match outcome {
                    Ok(()) => fine += 1,
                    Err(error) => {
                        refused += 1;
                        let text = error.to_string();
                        assert!(!text.contains("panicked"), "{} panicked: {text}", def.name);
                        assert!(error.kind() != sharding_core::ErrorKind::Internal, "{}: {text}", def.name);
                        assert!(text.contains(def.name), "the error does not name {}: {text}", def.name);
                    }
                }
            }
        }
    }
    let _ = std::panic::take_hook();
    assert_eq!(PANICS.load(Ordering::Relaxed), 0, "something panicked");
    assert!(
        fine > 100 && refused > 100,
        "{fine} calls ran and {refused} were refused: the mutations are off"
    );
    Ok(())
}
