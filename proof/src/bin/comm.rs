//! Behind `cargo xtask comm`: what the examples move, computed on simulated devices.

#[allow(dead_code, unreachable_pub, reason = "the example's own main is not called")]
#[path = "../../../examples/quickstart.rs"]
mod quickstart;
#[allow(
    dead_code,
    unreachable_pub,
    unexpected_cfgs,
    reason = "the example's own main is not called; its feature is not ours"
)]
#[path = "../../../examples/visualize.rs"]
mod visualize;

use proof::comm::Program;
use sharding_ops::{BackendKind, DeviceMesh, Result};
use std::process::ExitCode;

fn quickstart_over(devices: usize) -> Result<()> {
    let mesh = DeviceMesh::simulated(BackendKind::SIM, [devices], ["tp"])?;
    let (a, b) = quickstart::operands(&mesh)?;
    quickstart::product(&a, &b)?;
    quickstart::sum_of_squares(&a)?;
    Ok(())
}

const PROGRAMS: [Program; 3] = [
    ("quickstart tp=2", || quickstart_over(2)),
    ("quickstart tp=8", || quickstart_over(8)),
    ("visualize dp=2 tp=2", || visualize::pictures(BackendKind::SIM).map(drop)),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    proof::comm::run(&PROGRAMS, &arguments)
}
