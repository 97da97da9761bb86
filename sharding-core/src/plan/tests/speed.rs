//! How long a cold plan takes; for the measurement run with `--release -- --ignored --nocapture`.

use super::Call;
use crate::plan::{PlanRequest, VolumeCost, plan};
use crate::redistribute::Program;
use crate::rule::{Rows, RuleCx};
use crate::{Place, Result};
use std::any::Any;
use std::time::Instant;

/// matmul's rows as a rule would write them: no text, no lists of lists.
fn matmul(_: &RuleCx<'_>, _: &dyn Any, rows: &mut Rows) -> Result<()> {
    use Place::{Replicated as R, Sharded as S};
    const P: Place = Place::PARTIAL;
    rows.add([R, R], [R]);
    rows.add([S(0), R], [S(0)]);
    rows.add([R, S(1)], [S(1)]);
    rows.add([S(1), S(0)], [P]);
    rows.add([P, R], [P]);
    rows.add([R, P], [P]);
    Ok(())
}

/// Planning depends on the number of mesh axes, not of devices: a mesh of 1,048,576 costs at most twice what 8 cost.
/// The fastest of many runs of each, taken in turn, so that what else runs on the machine hits both.
#[test]
fn a_million_devices_are_planned_like_eight() {
    let times = |sizes: [usize; 2]| {
        let call = Call::new(&sizes, "[8192, 8192] S0,S1 | [8192, 8192] R,S1", "R,R->R");
        move || {
            let request = PlanRequest { rows: matmul, ..call.request() };
            let start = Instant::now();
            for _ in 0..20 {
                let plan = plan(std::hint::black_box(&request)).unwrap();
                assert!(!plan.moved.is_empty());
                for (operand, places) in call.operands.iter().zip(&plan.operands) {
                    let lay = |places: &crate::mapping::Places| {
                        let mapping = crate::DeviceMapping::new(&call.mesh, places).unwrap();
                        crate::TensorLayout::new(operand.meta.dtype, &operand.meta.shape, mapping).unwrap()
                    };
                    let program = Program::search(&lay(&operand.places), &lay(places), &VolumeCost);
                    std::hint::black_box(program.unwrap());
                }
            }
            start.elapsed().as_secs_f64()
        }
    };
    let (few, many) = (times([2, 4]), times([1024, 1024]));
    let (mut least_few, mut least_many) = (f64::INFINITY, f64::INFINITY);
    for _ in 0..100 {
        least_few = least_few.min(few());
        least_many = least_many.min(many());
    }
    println!("8 devices: {:.2} us, 1,048,576 devices: {:.2} us", least_few * 5e4, least_many * 5e4);
    assert!(least_many <= 2.0 * least_few, "{least_many} s, {least_few} s for 8 devices");
}

#[test]
#[ignore = "a measurement"]
fn a_cold_plan_of_matmul() {
    for (mesh, operands) in [
        (&[2][..], "[4, 8] S1 | [8, 6] S0"),
        (&[2], "[4, 8] S1 | [8, 6] R"),
        (&[2, 2, 2], "[16, 16] S0,S1,R | [16, 16] R,S0,S1"),
    ] {
        let call = Call::new(mesh, operands, "R,R->R");
        let request = PlanRequest { rows: matmul, ..call.request() };
        let mut seconds: Vec<f64> = (0..200)
            .map(|_| {
                let start = Instant::now();
                for _ in 0..100 {
                    std::hint::black_box(plan(std::hint::black_box(&request)).unwrap());
                }
                start.elapsed().as_secs_f64() / 100.0
            })
            .collect();
        seconds.sort_by(f64::total_cmp);
        println!("{mesh:?} {operands}: {:.2} us median, {:.2} us min", seconds[100] * 1e6, seconds[0] * 1e6);
    }
}
