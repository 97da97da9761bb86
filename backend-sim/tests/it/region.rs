//! What is seen of the devices of a region, whichever threads come first.

use backend_sim::SimBackend;
use sharding_core::backend::Backend;
use sharding_core::manual::{ManualCx, Over, shard_map};
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

/// Groups that run at the same time: what one device sends is what it sends outside.
mod counted {
    use super::*;
    use backend_sim::{Log, Machine, Simulation};
    use sharding_core::plan::{AlphaBetaCost, Link, roofline::H100_SXM};

    /// What the simulator and a table say of a program on the blocks of a mesh: they must say the same.
    fn both(
        mesh: &DeviceMesh,
        program: impl Fn(&ManualCx, &Tensor) -> Result<Tensor> + Send + Sync + 'static,
    ) -> (CommReport, Log) {
        let network = Arc::new(AlphaBetaCost::new(Link::new(0.0, 1.0)).unwrap());
        let simulation = Simulation::on(Machine { device: H100_SXM, network });
        let (explained, log) = simulation.record(|| explain(|| run(mesh, program)));
        explained.value.unwrap();
        (explained.report, log)
    }

    /// A program on 2x4 devices, where an all_reduce of a block over tp sends 96 bytes and one over dp 64: a device sends
    /// these bytes, by steps that ran so often.
    fn check(
        program: impl Fn(&ManualCx, &Tensor) -> Result<Tensor> + Send + Sync + 'static,
        mut counts: Vec<usize>,
        bytes: f64,
    ) {
        let (report, log) = both(&mesh(2, 4), program);
        let mut seen: Vec<usize> = report.steps.iter().map(|step| step.count).collect();
        seen.sort_unstable();
        counts.sort_unstable();
        assert_eq!((seen, report.bytes()), (counts.clone(), bytes), "{report}");
        let mut seen: Vec<usize> = log.collectives.iter().map(|one| one.count as usize).collect();
        seen.sort_unstable();
        assert_eq!((seen, log.bytes_moved()), (counts, bytes), "{log}");
        // A byte takes a second.
        assert_eq!(log.communication_seconds(), Some(bytes), "{log}");
    }

    /// The one group sums on one line, the other on another.
    fn by_turns(cx: &ManualCx, x: &Tensor) -> Result<Tensor> {
        match cx.coord("dp")? {
            0 => cx.psum(x, "tp"),
            _ => cx.psum(x, "tp"),
        }
    }

    #[test]
    fn groups_of_one_call() {
        check(|cx, x| cx.psum(x, "tp"), vec![1], 96.0);
        check(|cx, x| cx.psum(x, "dp"), vec![1], 64.0);
        check(|cx, x| cx.psum(&cx.psum(x, "tp")?, "dp"), vec![1, 1], 160.0);
    }

    #[test]
    fn a_call_that_is_repeated() {
        check(|cx, x| (0..3).try_fold(x.clone(), |x, _| cx.psum(&x, "tp")), vec![3], 288.0);
    }

    #[test]
    fn groups_that_call_it_so_often_each() {
        check(
            |cx, x| (0..1 + 2 * cx.coord("dp")?).try_fold(x.clone(), |x, _| cx.psum(&x, "tp")),
            vec![3],
            288.0,
        );
    }

    /// No device does what two groups do by turns.
    #[test]
    fn groups_that_run_other_steps() {
        check(by_turns, vec![1, 1], 96.0);
        let groups = || Over::from("tp").within([vec![0, 1], vec![2, 3]]);
        check(move |cx, x| cx.psum(x, groups()), vec![1], 64.0);
        // Device 1 is in a pair both times.
        let pairs = [[vec![0, 1], vec![2], vec![3]], [vec![0], vec![1, 2], vec![3]]];
        let pairs = pairs.map(|groups| Over::from("tp").within(groups));
        check(
            move |cx, x| pairs.iter().try_fold(x.clone(), |x, pairs| cx.psum(&x, pairs.clone())),
            vec![2],
            128.0,
        );
    }

    #[test]
    fn assertions_are_about_one_device() {
        assert_comm!([all_reduce("tp") <= 96.0], run(&mesh(2, 4), by_turns)).unwrap();
    }

    /// Outside of regions steps follow each other; what a region does is added.
    #[test]
    fn steps_around_a_region() {
        let mesh = mesh(2, 4);
        let region = shard_map(&mesh)
            .in_specs([spec![None, "tp"]])
            .out_specs([spec![None, "tp"]])
            .wrap(|cx, [x]| Ok([cx.psum(&x, "tp")?]))
            .unwrap();
        let explained = explain(|| region.call([&blocks(&mesh)]));
        explained.value.unwrap();
        // The rows are gathered first, as f32[8, 2] are received, and the sum is of f32[16, 2].
        assert_eq!(seen(&explained.report), (vec![("dp".to_owned(), 1), ("tp".to_owned(), 1)], 64.0 + 192.0));
    }

    /// Whatever the other mesh axes are, also where corners stand for them.
    #[test]
    fn the_other_axes_do_not_count() {
        for dp in [1, 2, 8, 64, 1 << 17] {
            let (report, log) = both(&mesh(dp, 8), |cx, x| cx.psum(x, "tp"));
            let all = (report.bytes(), log.bytes_moved(), log.communication_seconds());
            assert_eq!(all, (112.0, 112.0, Some(112.0)), "dp={dp}: {log}");
        }
    }

    /// A region inside: each device of the outer one calls its own.
    #[test]
    fn regions_in_regions() {
        let mesh = mesh(2, 4);
        let region = shard_map(&mesh)
            .axis_names(["dp"])
            .in_specs([spec!["dp"]])
            .out_specs([spec!["dp"]])
            .wrap(|cx, [x]| {
                let inner = shard_map(cx.mesh()).in_specs([spec![None, "tp"]]).out_specs([spec![None, "tp"]]);
                inner.wrap(|cx, [x]| Ok([cx.psum(&x, "tp")?]))?.call([&x])
            })
            .unwrap();
        let explained = explain(|| region.call([&blocks(&mesh)]));
        explained.value.unwrap();
        assert_eq!(seen(&explained.report), (vec![("tp".to_owned(), 1)], 96.0), "{}", explained.report);
    }
}
