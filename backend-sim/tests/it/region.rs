//! What is seen of the devices of a region, whichever threads come first.

use backend_sim::SimBackend;
use sharding_core::backend::Backend;
use sharding_core::manual::{ManualCx, shard_map};
use sharding_core::trace::{CommReport, explain};
use sharding_core::{
    AxisType, BackendKind, DType, DeviceMapping, DeviceMesh, ErrorKind, Place, Result, Tensor, TensorLayout,
    assert_comm, spec,
};
use std::sync::{Arc, Mutex};

/// Threads come in another order every time: so many calls show it.
const CALLS: usize = 60;

/// A mesh of these sizes that regions take over.
fn mesh(dp: usize, tp: usize) -> DeviceMesh {
    let mesh = DeviceMesh::simulated(BackendKind::SIM, [dp, tp], ["dp", "tp"]).unwrap();
    mesh.with_axis_types([AxisType::Manual; 2]).unwrap()
}

/// A tensor that has a block of f32[8, 2], 64 bytes, for every device.
fn blocks(mesh: &DeviceMesh) -> Tensor {
    let mapping = DeviceMapping::new(mesh, [Place::Sharded(0), Place::Sharded(1)]).unwrap();
    let layout = TensorLayout::new(DType::F32, [8 * mesh.size(0), 2 * mesh.size(1)], mapping).unwrap();
    let positions = SimBackend.positions(mesh).unwrap();
    let shard = |position: &usize| {
        SimBackend.alloc(mesh.device(*position).unwrap(), DType::F32, &layout.local_shape(*position)).unwrap()
    };
    let shards = positions.iter().map(shard).collect();
    Tensor::from_shards(layout, positions, shards).unwrap()
}

/// Runs a program on the blocks of a mesh.
fn run(
    mesh: &DeviceMesh,
    program: impl Fn(&ManualCx, &Tensor) -> Result<Tensor> + Send + Sync + 'static,
) -> Result<()> {
    let region = shard_map(mesh)
        .in_specs([spec!["dp", "tp"]])
        .out_specs([spec!["dp", "tp"]])
        .wrap(move |cx, [x]| Ok([program(cx, &x)?]))?;
    region.call([&blocks(mesh)]).map(|_| ())
}

/// The collectives of a report with how often they ran, and the bytes that a device sends.
fn seen(report: &CommReport) -> (Vec<(String, usize)>, f64) {
    let step = |axes: &[String]| axes.join(",");
    (report.steps.iter().map(|one| (step(&one.axes), one.count)).collect(), report.bytes())
}

mod watched {
    use super::*;

    /// Every device of 2x2 explains a program: what each sees is compared, by coordinates.
    fn check(
        program: impl Fn(&ManualCx, &Tensor) -> Result<Tensor> + Send + Sync + 'static,
        want: impl Fn(usize, usize) -> (&'static [(&'static str, usize)], f64),
    ) {
        let program = Arc::new(program);
        for _ in 0..CALLS {
            let left = Arc::new(Mutex::new(Vec::new()));
            let (program, all) = (program.clone(), left.clone());
            run(&mesh(2, 2), move |cx, x| {
                let explained = explain(|| program(cx, x));
                all.lock().unwrap().push((cx.coord("dp")?, cx.coord("tp")?, explained.report));
                explained.value
            })
            .unwrap();
            for (dp, tp, report) in left.lock().unwrap().iter() {
                let (steps, bytes) = want(*dp, *tp);
                let steps = steps.iter().map(|(axes, count)| ((*axes).to_owned(), *count)).collect();
                assert_eq!(seen(report), (steps, bytes), "on ({dp}, {tp}): {report}");
            }
        }
    }

    #[test]
    fn every_device_sees_its_own_collectives_once() {
        check(|cx, x| cx.psum(x, "tp"), |_, _| (&[("tp", 1)], 64.0));
        check(
            |cx, x| {
                let sum = cx.psum(&cx.psum(x, "tp")?, "dp")?;
                if cx.coord("dp")? == 1 { cx.psum(&sum, "tp") } else { Ok(sum) }
            },
            |dp, _| {
                if dp == 1 {
                    (&[("tp", 1), ("dp", 1), ("tp", 1)], 192.0)
                } else {
                    (&[("tp", 1), ("dp", 1)], 128.0)
                }
            },
        );
    }

    /// Who watches inside sees what the others of its group bring, whatever they are watched by.
    #[test]
    fn one_device_watches_and_the_others_do_not() {
        for _ in 0..CALLS {
            run(&mesh(2, 2), |cx, x| {
                if cx.coord("tp")? == 0 {
                    return assert_comm!([all_reduce("tp") <= 64.0], cx.psum(x, "tp"));
                }
                cx.psum(x, "tp")
            })
            .unwrap();
            let error = run(&mesh(2, 2), |cx, x| {
                if cx.coord("tp")? == 0 { assert_comm!([], cx.psum(x, "tp")) } else { cx.psum(x, "tp") }
            });
            assert_eq!(error.unwrap_err().kind(), ErrorKind::Manual);
        }
    }

    /// Who watches the caller sees each step once, not once per device that inherits it or watches more.
    #[test]
    fn who_watches_around_is_told_once() {
        for _ in 0..CALLS {
            let explained =
                explain(|| run(&mesh(1, 4), |cx, x| explain(|| explain(|| cx.psum(x, "tp")).value).value));
            explained.value.unwrap();
            assert_eq!(seen(&explained.report), (vec![("tp".to_owned(), 1)], 96.0), "{}", explained.report);
        }
    }

    /// Calls that are equal may stand on several lines; the first device's is shown.
    #[test]
    fn the_line_is_that_of_the_first_device() {
        let lines = || {
            let explained = explain(|| {
                run(&mesh(1, 2), |cx, x| {
                    if cx.coord("tp")? == 0 {
                        return cx.psum(x, "tp"); // the first device's
                    }
                    cx.psum(x, "tp")
                })
            });
            explained.value.unwrap();
            explained.report.steps.into_iter().map(|step| step.at).collect::<Vec<_>>()
        };
        let source = include_str!("region.rs");
        let line = source.lines().position(|line| line.ends_with("// the first device's")).unwrap() + 1;
        for _ in 0..CALLS {
            let lines = lines();
            assert!(lines.len() == 1 && lines[0].ends_with(&format!("region.rs:{line}")), "{lines:?}");
        }
    }
}
