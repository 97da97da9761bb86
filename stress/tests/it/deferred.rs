//! A backend whose devices finish out of order and fail late.

use super::tensor;
use sharding_core::BackendKind;
use sharding_ops::{DeviceMapping, DeviceMesh, Place, Result, Tensor, add, matmul, relu, sum};
use std::sync::Mutex;
use stress::deferred;

/// The backend is one per program: its log and its failures belong to one test at a time.
static ALONE: Mutex<()> = Mutex::new(());

fn program(mesh: &DeviceMesh) -> Result<Tensor> {
    let a = tensor(mesh, &[5, 8], &[Place::Sharded(1)])?;
    let b = tensor(mesh, &[8, 3], &[Place::Sharded(0)])?;
    let c = relu(&matmul(&a, &b)?)?;
    let d = c.transfer_to(&DeviceMapping::new(mesh, [Place::Sharded(0)])?)?;
    sum(&add(&d, 1.0)?, 0, true)
}

#[test]
fn gives_the_same_as_a_prompt_one() -> Result<()> {
    let _alone = ALONE.lock().unwrap_or_else(|poison| poison.into_inner());
    let before = deferred::backend().log().len();
    let late = program(&DeviceMesh::simulated(deferred::KIND, [2], ["tp"])?)?;
    let prompt = program(&DeviceMesh::simulated(BackendKind::CPU, [2], ["tp"])?)?;
    assert_eq!(late.to_vec::<f32>()?, prompt.to_vec::<f32>()?);
    let log = deferred::backend().log();
    let devices: Vec<u32> = log[before..].iter().map(|(device, _)| device.slot).collect();
    assert!(!devices.is_sorted() || devices.first() != Some(&0), "the devices took turns: {devices:?}");
    Ok(())
}

#[test]
fn what_moves_inside_an_op_is_the_same_too() -> Result<()> {
    use sharding_ops::{concat, flip, pad, roll, slice, split, tile};
    let _alone = ALONE.lock().unwrap_or_else(|poison| poison.into_inner());
    let program = |kind: BackendKind| -> Result<Vec<Vec<f32>>> {
        let mesh = DeviceMesh::simulated(kind, [2], ["tp"])?;
        let x = tensor(&mesh, &[7, 3], &[Place::Sharded(0)])?;
        let rolled = roll(&flip(&x, &[0])?, 2, 0)?;
        let all = [
            pad(&rolled, &[(1, 2), (0, 0)], 3.0.into())?,
            tile(&rolled, &[2, 1])?,
            concat(&[rolled.clone(), x], 0)?,
            slice(&rolled, &[sharding_ops::Index::from(1..6).step(2)])?,
        ];
        all.iter().chain(&split(&rolled, [3, 4].into(), 0)?).map(Tensor::to_vec::<f32>).collect()
    };
    assert_eq!(program(deferred::KIND)?, program(BackendKind::CPU)?);
    Ok(())
}

#[test]
fn a_late_failure_names_its_op_once() -> Result<()> {
    let _alone = ALONE.lock().unwrap_or_else(|poison| poison.into_inner());
    let mesh = DeviceMesh::simulated(deferred::KIND, [2], ["tp"])?;
    let x = tensor(&mesh, &[4, 2], &[Place::Sharded(0)])?;
    deferred::backend().fail_next("relu");
    let y = relu(&x)?; // the failure is not known yet
    let error = y.to_vec::<f32>().unwrap_err();
    assert!(error.to_string().contains("relu"), "{error}");
    // Told once; the device goes on, and what does not depend on the failure is right.
    for position in 0..2 {
        let device = mesh
            .device(position)
            .ok_or_else(|| sharding_core::Error::new(sharding_core::ErrorKind::Mesh, "no device"))?;
        let _ = sharding_core::backend::Backend::synchronize(&*deferred::backend(), device);
    }
    assert_eq!(add(&x, 0.0)?.to_vec::<f32>()?, super::values(8));
    Ok(())
}
