//! Movement inside a device copies nothing where strides can say it, and such views are values like any other.

use sharding_ops::*;
use std::sync::Arc;

fn x() -> Tensor {
    let mesh = DeviceMesh::simulated(BackendKind::CPU, [2], ["tp"]).unwrap();
    let values: Vec<i64> = (0..12).collect();
    Tensor::from_slice(&values, [4, 1, 3], &DeviceMapping::new(&mesh, [Sharded(0)]).unwrap()).unwrap()
}

fn one(result: Result<Tensor>) -> Vec<Tensor> {
    vec![result.unwrap()]
}

#[test]
fn nothing_is_copied() {
    let x = x();
    for (name, results) in [
        ("transpose", one(x.transpose(0, 2))),
        ("squeeze", one(x.squeeze(1))),
        ("unsqueeze", one(x.unsqueeze(2))),
        // Not contiguous, so that a reshape would copy.
        ("unsqueeze of a transpose", one(x.transpose(0, 2).unwrap().unsqueeze(1))),
        ("broadcast_to", one(x.broadcast_to(&[5, 4, 7, 3]))),
        ("flatten", one(x.flatten(0, 1))),
        ("split", x.split([1, 2], 2).unwrap()),
        ("chunk", x.chunk(3, 2).unwrap()),
    ] {
        for result in &results {
            for (shard, own) in result.shards().iter().zip(x.shards()) {
                assert!(Arc::ptr_eq(shard.storage(), own.storage()), "{name} copied");
            }
        }
    }
}

#[test]
fn a_store_over_repeated_elements_writes_each_of_them() {
    let wide = x().broadcast_to(&[4, 2, 3]).unwrap();
    let mut buffer = TensorBuffer::new(wide.clone());
    let values: Vec<i64> = (100..124).collect();
    let source = Tensor::from_slice(&values, [4, 2, 3], wide.mapping()).unwrap();
    buffer_store(&mut buffer, &source).unwrap();
    assert_eq!(buffer.to_tensor().to_vec::<i64>().unwrap(), values);
    let row = Tensor::from_slice(&[7_i64; 12], [4, 1, 3], wide.mapping()).unwrap();
    let mut buffer = TensorBuffer::new(wide);
    buffer_store_slice(&mut buffer, &row, &index![.., 1..]).unwrap();
    let stored = buffer.to_tensor().to_vec::<i64>().unwrap();
    assert_eq!(stored[..6], [0, 1, 2, 7, 7, 7]);
}

/// Each row of the operand would be a move of its own: the operand is brought together instead.
#[test]
fn a_reshape_of_very_many_rows_does_not_move_them_one_by_one() {
    let mesh = DeviceMesh::simulated(BackendKind::CPU, [2], ["tp"]).unwrap();
    let values: Vec<i64> = (0..40_000).collect();
    let columns = DeviceMapping::new(&mesh, [Sharded(1)]).unwrap();
    let few = Tensor::from_slice(&values[..40], [10, 4], &columns).unwrap();
    let many = Tensor::from_slice(&values, [10_000, 4], &columns).unwrap();
    for (x, collective) in [(few, "permute"), (many, "all_gather")] {
        let explained = explain(|| reshape(&x, &[-1]));
        let table = explained.report.to_string();
        assert!(table.contains(collective), "{table}");
        assert_eq!(explained.value.unwrap().to_vec::<i64>().unwrap(), values[..x.shape().elements()]);
    }
}
