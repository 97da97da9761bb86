//! How long a cold plan takes; run with `--release -- --ignored --nocapture`.

use super::Call;
use crate::plan::{PlanRequest, plan};
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
