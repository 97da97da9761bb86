//! Two pretended processes run one program over a mesh that spans them.

use super::tensor;
use sharding_core::{BackendKind, Device, Scope};
use sharding_ops::{DeviceMapping, DeviceMesh, Place, Result, Tensor, matmul, relu};
use std::thread;
use stress::pretend;

/// Two devices in each of two processes: `dp` crosses processes, `tp` does not.
fn mesh() -> Result<DeviceMesh> {
    let device = |process, slot| Device::new(pretend::KIND, 0).with_process(process).with_slot(slot);
    DeviceMesh::new(&[device(0, 0), device(0, 1), device(1, 0), device(1, 1)], [2, 2], ["dp", "tp"])
}

/// Runs `program` in both processes and gives what each of them says.
fn both<T: Send>(number: u64, program: impl Fn(u32) -> Result<T> + Sync) -> [Result<T>; 2] {
    let run = |process: u32| {
        pretend::begin(number);
        (*Scope::current()).clone().with_process(process).enter(|| program(process))
    };
    thread::scope(|scope| {
        let handles = [0, 1].map(|process| scope.spawn(move || run(process)));
        handles.map(|handle| handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}

fn layer(mesh: &DeviceMesh, places: [[Place; 2]; 2]) -> Result<Tensor> {
    let x = tensor(mesh, &[6, 8], &places[0])?;
    let w = tensor(mesh, &[8, 5], &places[1])?;
    relu(&matmul(&x, &w)?)
}

#[test]
fn one_program_over_two_processes() -> Result<()> {
    use Place::{Replicated, Sharded};
    let one = DeviceMesh::simulated(BackendKind::CPU, [1, 1], ["dp", "tp"])?;
    let want = layer(&one, [[Replicated; 2]; 2])?.to_vec::<f32>()?;
    // Row-parallel over tp (inside a process), then over dp (across processes), then over both.
    let cases = [
        [[Sharded(0), Sharded(1)], [Replicated, Sharded(0)]],
        [[Sharded(1), Replicated], [Sharded(0), Replicated]],
        [[Sharded(1), Sharded(1)], [Sharded(0), Sharded(0)]],
    ];
    for (i, places) in cases.into_iter().enumerate() {
        for result in both(1 + i as u64, |_| layer(&mesh()?, places)?.to_vec::<f32>()) {
            assert_eq!(result?, want, "{places:?}");
        }
    }
    Ok(())
}

#[test]
fn each_process_addresses_its_own_shards() -> Result<()> {
    for (process, result) in both(10, |_| {
        let x = tensor(&mesh()?, &[4, 2], &[Place::Sharded(0), Place::Replicated])?;
        let addressed = x.positions().to_vec();
        let elsewhere = x.shard_to_vec::<f32>(if addressed[0] == 0 { 3 } else { 0 }).map(|_| ());
        Ok((addressed, elsewhere.is_err()))
    })
    .into_iter()
    .enumerate()
    {
        assert_eq!(result?, (vec![2 * process, 2 * process + 1], true));
    }
    Ok(())
}

#[test]
fn disagreement_is_an_error_on_both_sides() -> Result<()> {
    for result in both(20, |process| {
        let mesh = mesh()?;
        let x = tensor(&mesh, &[4, 4], &[Place::Sharded(process as u8), Place::Replicated])?;
        x.transfer_to(&DeviceMapping::replicated(&mesh))
    }) {
        let error = result.map(|_| ()).unwrap_err().to_string();
        assert!(
            error.contains("disagree") && error.contains("process 0") && error.contains("process 1"),
            "{error}"
        );
    }
    Ok(())
}

#[test]
fn a_lost_process_is_an_error_and_not_a_hang() -> Result<()> {
    let [first, second] = both(30, |process| {
        let mesh = mesh()?;
        let x = tensor(&mesh, &[4, 4], &[Place::Sharded(0), Place::Replicated])?;
        if process == 1 {
            return Ok(Vec::new());
        }
        x.to_vec::<f32>()
    });
    assert!(second?.is_empty());
    let error = first.unwrap_err().to_string();
    assert!(error.contains("process [1] did not come"), "{error}");
    Ok(())
}
