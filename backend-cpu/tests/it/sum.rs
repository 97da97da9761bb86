//! Parts on several mesh axes, combined on the way to a placement: the bits are those of gathering all and scattering it.

use crate::support::Sample;
use backend_cpu::CpuBackend;
use half::{bf16, f16};
use sharding_core::backend::{Backend, LocalArrays};
use sharding_core::{
    BackendKind, DeviceMapping, DeviceMesh, Element, Place, ReduceOp, Shape, Tensor, TensorLayout,
};

/// Every way to place a tensor of two axes on so many mesh axes.
fn ways(mesh_axes: u32) -> impl Iterator<Item = Vec<Place>> {
    let options = [Place::Replicated, Place::Sharded(0), Place::Sharded(1)];
    (0..3_usize.pow(mesh_axes))
        .map(move |word| (0..mesh_axes).map(|axis| options[word / 3_usize.pow(axis) % 3]).collect())
}

fn check<T: Element>(sizes: &[usize], op: ReduceOp, of: impl Fn(f32) -> T) {
    let names = ["a", "b", "c", "d"];
    let mesh = DeviceMesh::simulated(BackendKind::CPU, sizes, &names[..sizes.len()]).unwrap();
    let parts = DeviceMapping::new(&mesh, vec![Place::Partial(op); sizes.len()]).unwrap();
    let shape = Shape::from([24, 5]);
    let layout = TensorLayout::new(T::DTYPE, shape.clone(), parts).unwrap();
    let mut shards = LocalArrays::new();
    for (position, device) in mesh.devices().enumerate() {
        let mut shard = CpuBackend.alloc(device, T::DTYPE, &shape).unwrap();
        let values: Vec<T> = (0..120).map(|i| of(f32::sample(i + 1000 * position as u64))).collect();
        CpuBackend.write(&T::to_bytes(&values), &mut shard).unwrap();
        shards.push(shard);
    }
    let source = Tensor::from_shards(layout, (0..mesh.num_devices()).collect(), shards).unwrap();
    let gathered = source.transfer_to(&DeviceMapping::replicated(&mesh)).unwrap();
    for places in ways(sizes.len() as u32) {
        let target = DeviceMapping::new(&mesh, places).unwrap();
        let (moved, scattered) =
            (source.transfer_to(&target).unwrap(), gathered.transfer_to(&target).unwrap());
        for position in 0..mesh.num_devices() {
            let bytes = |tensor: &Tensor| T::to_bytes(&tensor.shard_to_vec::<T>(position).unwrap());
            assert_eq!(bytes(&moved), bytes(&scattered), "{op:?} of {} to {target}", T::DTYPE);
        }
    }
}

#[test]
fn has_the_bits_of_gathering_all() {
    for sizes in [&[2, 2][..], &[2, 3], &[3, 2], &[4, 4], &[2, 2, 2], &[2, 3, 2]] {
        for op in [ReduceOp::Sum, ReduceOp::Prod] {
            check(sizes, op, |x| x);
            check(sizes, op, f64::from);
            check(sizes, op, bf16::from_f32);
            check(sizes, op, f16::from_f32);
        }
    }
}
