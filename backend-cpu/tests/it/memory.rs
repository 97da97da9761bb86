//! Allocation, transfers, sharing and placement.

use crate::support::{Sample, array, assert_same, form, shape, values, view};
use backend_cpu::CpuBackend;
use proptest::prelude::*;
use sharding_core::backend::{Backend, BinaryOp, Expr, LocalArray, LocalMeta, Primitive, Work, backend_of};
use sharding_core::{BackendKind, DType, Device, DeviceMesh, Element, ErrorKind, Scope, Shape};

fn check_read<T: Sample>(shape: &[usize], form: &crate::support::Form) {
    let (found, expected) = view::<T>(shape, form);
    assert_same(&values::<T>(&found), &expected);
}

proptest! {
    #[test]
    fn reads_any_view((shape, form) in shape(0..=4).prop_flat_map(|s| { let n = s.len(); (Just(s), form(n)) })) {
        check_read::<f32>(&shape, &form);
        check_read::<i64>(&shape, &form);
        check_read::<bool>(&shape, &form);
    }
}

#[test]
fn bytes_of_bool_become_0_or_1() {
    let mut x = CpuBackend.alloc(Device::cpu(), DType::Bool, &Shape::from([3])).unwrap();
    CpuBackend.write(&[0, 7, 255], &mut x).unwrap();
    let mut bytes = [9; 3];
    CpuBackend.read(&x, &mut bytes).unwrap();
    assert_eq!(bytes, [0, 1, 1]);
}

#[test]
fn what_was_never_written_is_an_error_not_memory() {
    let x = CpuBackend.alloc(Device::cpu(), DType::F32, &Shape::from([4])).unwrap();
    let error = CpuBackend.read(&x, &mut [0; 16]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Internal);
}

#[test]
fn a_write_of_other_size_or_into_gaps_is_an_error() {
    let mut x = array([2, 2], &[1_i64, 2, 3, 4]);
    assert!(CpuBackend.write(&[0; 31], &mut x).is_err());
    assert!(CpuBackend.write(&[0; 16], &mut x.slice(1, 0, 1)).is_err());
    assert!(CpuBackend.read(&x, &mut [0; 33]).is_err());
}

#[test]
fn writing_a_shared_array_leaves_the_others_alone() {
    let mut x = array([2], &[1.0_f32, 2.0]);
    let other = x.clone();
    CpuBackend.write(&f32::to_bytes(&[5.0, 6.0]), &mut x).unwrap();
    assert_eq!(values::<f32>(&other), [1.0, 2.0]);
    assert_eq!(values::<f32>(&x), [5.0, 6.0]);
}

#[test]
fn writing_part_of_a_storage_keeps_the_rest() {
    let mut x = array([2, 3], &[1_i64, 2, 3, 4, 5, 6]);
    let mut row = x.slice(0, 1, 1);
    // The row is the only owner once `x` is replaced.
    x = array([1], &[0_i64]);
    CpuBackend.write(&i64::to_bytes(&[7, 8, 9]), &mut row).unwrap();
    assert_eq!(values::<i64>(&row), [7, 8, 9]);
    drop(x);
}

#[test]
fn a_view_out_of_bounds_is_an_error() {
    let x = array([2, 2], &[1.0_f32, 2.0, 3.0, 4.0]);
    for (shape, strides, offset) in
        [([3, 2], [2, 1], 0), ([2, 2], [2, 1], 1), ([2, 2], [-2, 1], 0), ([2, 2], [isize::MAX, 1], 0)]
    {
        let meta =
            LocalMeta { dtype: DType::F32, shape: shape.into(), strides: strides.as_slice().into(), offset };
        let bad = LocalArray::new(meta, x.storage().clone());
        let mut bytes = vec![0; bad.bytes()];
        assert_eq!(CpuBackend.read(&bad, &mut bytes).unwrap_err().kind(), ErrorKind::Internal);
    }
}

#[test]
fn an_impossible_size_is_an_error() {
    let shape = Shape::new([1_usize << 58]).unwrap();
    let error = CpuBackend.alloc(Device::cpu(), DType::I64, &shape).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Backend);
    assert!(error.message().contains("not enough host memory"), "{error}");
}

#[test]
fn an_error_names_the_op() {
    let (a, b) = (array([2], &[1_i64, 2]), array([2], &[1_i64, 0]));
    let device = Device::cpu();
    let expr = Expr::binary(BinaryOp::Div, Expr::input(0), Expr::input(1));
    let mut outputs = [CpuBackend.alloc(device, DType::I64, a.shape()).unwrap()];
    let work = Work { op: "quotient", device, inputs: &[&a, &b], outputs: &mut outputs };
    let error = CpuBackend.launch(&Primitive::Map(expr), &mut [work]).unwrap_err();
    assert_eq!((error.op(), error.kind()), (Some("quotient"), ErrorKind::Kernel));
    assert!(error.message().contains("by zero"), "{error}");
}

#[test]
fn positions_are_those_of_this_process() {
    let devices: Vec<Device> = (0..4).map(|i| Device::cpu().with_process(i / 2).with_slot(i % 2)).collect();
    let mesh = DeviceMesh::new(&devices, [4], ["x"]).unwrap();
    assert_eq!(*CpuBackend.positions(&mesh).unwrap(), [0, 1]);
    let other = (*Scope::current()).clone().with_process(1);
    assert_eq!(other.enter(|| CpuBackend.positions(&mesh).unwrap()).to_vec(), [2, 3]);
}

#[test]
fn a_second_cpu_is_an_error() {
    let devices = vec![Device::new(BackendKind::CPU, 0), Device::new(BackendKind::CPU, 1)];
    let mesh = DeviceMesh::new(&devices, [2], ["x"]).unwrap();
    let error = CpuBackend.positions(&mesh).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Backend);
    assert!(error.fix().is_some());
}

#[test]
fn is_registered() {
    let cpu = backend_of(BackendKind::CPU).unwrap();
    assert_eq!(cpu.devices().unwrap(), [Device::cpu()]);
    assert!(cpu.shares_memory(Device::cpu(), Device::cpu().with_slot(3)));
    assert!(!cpu.shares_memory(Device::cpu(), Device::cpu().with_process(1)));
}
