//! What collectives give at the edges: dtypes, overflow, bits of sums, shapes without elements or axes, tuples of axes.

use super::*;

/// A region over a mesh of this shape whose blocks are pieces of the first axis, over all mesh axes as named.
fn run(
    shape: &'static [usize],
    over: &'static [&'static str],
    x: Tensor,
    function: impl Fn(&ManualCx, &Tensor) -> Result<Tensor> + Send + Sync + 'static,
) -> Result<Tensor> {
    watched(move || {
        let blocks = || PartitionSpec::new([SpecEntry::several(over.iter().copied())]);
        let region = shard_map(&manual(shape)).in_specs([blocks()]).out_specs([blocks()]);
        Ok(region.wrap(move |cx, [x]| Ok([function(cx, &x)?]))?.call([&x])?.into_iter().next().unwrap())
    })
}

fn host<T: Element>(values: &[T]) -> Tensor {
    Tensor::from_slice(values, [values.len()], &DeviceMapping::replicated(&manual(&[2, 2]))).unwrap()
}

const XY: &[&str] = &["x", "y"];

#[test]
fn every_dtype_through_every_collective() {
    let _alone = alone();
    type Function = fn(&ManualCx, &Tensor) -> Result<Tensor>;
    type Gives = fn(DType) -> DType;
    let functions: [(&str, Function, Gives); 9] = [
        ("psum", |cx, x| cx.psum(x, XY), |d| if d == DType::Bool { DType::I32 } else { d }),
        ("pmax", |cx, x| cx.pmax(x, XY), |d| d),
        ("pmin", |cx, x| cx.pmin(x, XY), |d| d),
        (
            "pmean",
            |cx, x| cx.pmean(x, XY),
            |d| match d {
                DType::I64 | DType::U64 => DType::F64,
                d if d.is_float() => d,
                _ => DType::F32,
            },
        ),
        ("all_gather", |cx, x| cx.all_gather_tiled(x, XY, 0), |d| d),
        (
            "psum_scatter",
            |cx, x| cx.psum_scatter_tiled(x, XY, 0),
            |d| if d == DType::Bool { DType::I32 } else { d },
        ),
        ("all_to_all", |cx, x| cx.all_to_all_tiled(x, XY, 0, 0), |d| d),
        ("ppermute", |cx, x| cx.ppermute(x, XY, [(0, 1), (3, 0)]), |d| d),
        ("pshuffle", |cx, x| cx.pshuffle(x, XY, [3, 2, 1, 0]), |d| d),
    ];
    let ones = Tensor::from_slice(
        &[1_i32; 16],
        [16],
        &DeviceMapping::replicated(&DeviceMesh::single(Device::cpu())),
    )
    .unwrap();
    for dtype in DType::ALL {
        let x = if dtype == DType::Bool { ones.eq(1).unwrap() } else { ones.cast(dtype).unwrap() };
        for (name, function, want) in functions {
            let y = run(&[2, 2], XY, x.clone(), function);
            let y = y.unwrap_or_else(|error| panic!("{name} of {dtype}: {error}"));
            assert_eq!(y.dtype(), want(dtype), "{name} of {dtype}");
            let y = y.on(&manual(&[2, 2]).with_axis_types([AxisType::Auto; 2]).unwrap()).unwrap();
            let first = y.cast(DType::F64).unwrap().to_vec::<f64>().unwrap()[0];
            let sum = ["psum", "psum_scatter"].contains(&name);
            assert_eq!(first, if sum { 4.0 } else { 1.0 }, "{name} of {dtype}");
        }
    }
}

#[test]
fn integers_wrap_and_means_do_not() {
    let _alone = alone();
    let sum = run(&[2, 2], XY, host(&[i8::MAX, 1, 1, 1]), |cx, x| cx.psum(x, XY)).unwrap();
    assert_eq!(sum.to_vec::<i8>().unwrap(), [i8::MIN + 2; 4]);
    let sum = run(&[2, 2], XY, host(&[i64::MAX, 1, 0, 0]), |cx, x| cx.psum(x, XY)).unwrap();
    assert_eq!(sum.to_vec::<i64>().unwrap(), [i64::MIN; 4]);
    let mean = run(&[2, 2], XY, host(&[u8::MAX; 4]), |cx, x| cx.pmean(x, XY)).unwrap();
    assert_eq!(mean.to_vec::<f32>().unwrap(), [255.0; 4]);
    let mean = run(&[2, 2], XY, host(&[true, false, true, true]), |cx, x| cx.pmean(x, XY)).unwrap();
    assert_eq!(mean.to_vec::<f32>().unwrap(), [0.75; 4]);
    let mean =
        run(&[2, 2], XY, host(&[i32::MAX, i32::MAX, i32::MIN, i32::MIN]), |cx, x| cx.pmean(x, XY)).unwrap();
    assert_eq!(mean.to_vec::<f32>().unwrap(), [-0.5; 4]);
    let most = run(&[2, 2], XY, host(&[1.0_f32, f32::NAN, 3.0, -0.0]), |cx, x| cx.pmax(x, XY)).unwrap();
    assert!(most.to_vec::<f32>().unwrap().iter().all(|x| x.is_nan()));
}

#[test]
fn sums_have_the_bits_of_the_op_outside() {
    let _alone = alone();
    for n in [1_usize, 5, 1000] {
        let values: Vec<f32> =
            (0..8 * n).map(|i| ((i * 7919) % 10_007) as f32 / 3.0 * [1.0, -1e-3][i % 2]).collect();
        let mesh = manual(&[2, 2, 2]);
        let auto = mesh.with_axis_types([AxisType::Auto; 3]).unwrap();
        let rows = DeviceMapping::new(&auto, [Sharded(0); 3]).unwrap();
        let x = Tensor::from_slice(&values, [8, n], &rows).unwrap();
        let outside = x.sum(0, true).unwrap().transfer_to(&DeviceMapping::replicated(&auto)).unwrap();
        let inside = watched(move || {
            let region = shard_map(&mesh).in_specs([spec![("x", "y", "z")]]).out_specs([spec![]]);
            region.wrap(|cx, [x]| Ok([cx.psum(&x, ["x", "y", "z"])?]))?.call([&x])
        });
        assert_eq!(inside.unwrap()[0].to_bytes().unwrap(), outside.to_bytes().unwrap());
    }
}

#[test]
fn axes_in_every_order_and_of_size_one() {
    let _alone = alone();
    const ORDERS: [&[&str]; 6] = [
        &["x", "y", "z"],
        &["x", "z", "y"],
        &["y", "x", "z"],
        &["y", "z", "x"],
        &["z", "x", "y"],
        &["z", "y", "x"],
    ];
    for shape in [&[2, 3, 2], &[2, 1, 3], &[1, 1, 1]] {
        let n: usize = shape.iter().product();
        let values: Vec<i32> = (0..n as i32).collect();
        let x = Tensor::from_slice(&values, [n], &DeviceMapping::replicated(&manual(shape))).unwrap();
        for order in ORDERS {
            let given = |function: fn(&ManualCx, &Tensor, &'static [&'static str]) -> Result<Tensor>| {
                run(shape, order, x.clone(), move |cx, x| function(cx, x, order))
                    .unwrap()
                    .to_vec::<i32>()
                    .unwrap()
            };
            // Blocks are numbered in this order, and so are devices.
            assert_eq!(given(|cx, _, order| cx.axis_index(order)?.reshape(&[1])), values, "{order:?}");
            let all = given(|cx, x, order| cx.all_gather_tiled(x, order, -1));
            assert_eq!(all, values.repeat(n), "{order:?}");
            let back = given(|cx, x, order| {
                let perm: Vec<usize> = (0..cx.axis_size(order)?).rev().collect();
                cx.pshuffle(x, order, perm)
            });
            assert_eq!(back, values.iter().rev().copied().collect::<Vec<_>>(), "{order:?}");
            let sums = given(|cx, x, order| cx.psum(x, order));
            assert_eq!(sums, vec![values.iter().sum::<i32>(); n], "{order:?}");
        }
    }
}

#[test]
fn without_elements_and_without_axes() {
    let _alone = alone();
    let empty = host::<f32>(&[]);
    for function in [
        (|cx, x| cx.psum(x, XY)) as fn(&ManualCx, &Tensor) -> Result<Tensor>,
        |cx, x| cx.pmax(x, XY),
        |cx, x| cx.pmean(x, XY),
        |cx, x| cx.all_gather_tiled(x, XY, 0),
        |cx, x| cx.psum_scatter_tiled(x, XY, 0),
        |cx, x| cx.all_to_all_tiled(x, XY, 0, 0),
        |cx, x| cx.ppermute(x, XY, []),
        |cx, x| cx.pshuffle(x, XY, [1, 0, 3, 2]),
    ] {
        assert_eq!(run(&[2, 2], XY, empty.clone(), function).unwrap().shape()[..], [0]);
    }
    let got = watched(|| {
        let mesh = manual(&[2, 2]);
        let region = shard_map(&mesh).in_specs([spec![]]).out_specs([spec![], spec!["x"]]);
        let region = region.wrap(|cx, [x]| {
            let gathered = cx.all_gather(&x, Over::from("x").invarying(), -1)?;
            assert!(cx.all_gather(&x, "x", 1).is_err() && cx.all_gather_tiled(&x, "x", 0).is_err());
            assert!(cx.psum_scatter(&x, "x", 0).is_err() && cx.all_to_all(&x, "x", 0, 0).is_err());
            Ok([cx.psum(&x, XY)?, gathered])
        })?;
        let one = Tensor::from_slice(&[3.0_f32], [], &DeviceMapping::replicated(&mesh))?;
        let [sum, gathered] = region.call([&one])?;
        Ok::<_, Error>((sum.to_vec::<f32>()?, gathered.to_vec::<f32>()?))
    });
    assert_eq!(got.unwrap(), (vec![12.0], vec![3.0; 4]));
}

#[test]
fn sixteen_axes_are_the_most() {
    let _alone = alone();
    let mesh = manual(&[2, 2]);
    let x =
        Tensor::from_slice(&[1.0_f32; 4], [&[4][..], &[1; 15]].concat(), &DeviceMapping::replicated(&mesh))
            .unwrap();
    let y = run(&[2, 2], XY, x.clone(), |cx, x| cx.psum(x, XY)).unwrap();
    assert_eq!(y.to_vec::<f32>().unwrap(), [4.0; 4]);
    let error = run(&[2, 2], XY, x, |cx, x| cx.all_gather(x, "x", 0)).unwrap_err();
    assert!(error.fix().is_some(), "{error}");
}

#[test]
fn specs_and_arguments_that_do_not_fit() {
    let _alone = alone();
    let mesh = manual(&[2, 2]);
    let whole = |ins: Vec<PartitionSpec>, outs: Vec<PartitionSpec>| {
        shard_map(&mesh).in_specs(ins).out_specs(outs).wrap(|_, [x]| Ok([x])).map(|_| ()).unwrap_err()
    };
    for (error, text) in [
        (whole(vec![], vec![spec![]]), "0 in_specs for a function of 1 arguments"),
        (whole(vec![spec![]; 2], vec![spec![]]), "2 in_specs for a function of 1 arguments"),
        (whole(vec![spec![]], vec![spec![]; 3]), "3 out_specs for a function of 1 results"),
        (whole(vec![spec![]], vec![]), "0 out_specs for a function of 1 results"),
    ] {
        assert_eq!(error.kind(), ErrorKind::Argument);
        assert!(error.to_string().contains(text) && error.fix().is_some(), "{error}");
    }
    // What comes out as parts or as nobody knows what keeps its name on the axes that remain, and adds up.
    let mesh = mesh.with_axis_types([AxisType::Manual, AxisType::Auto]).unwrap();
    let auto = mesh.with_axis_types([AxisType::Auto; 2]).unwrap();
    let parts =
        numbers(&[2, 2], &auto).transfer_to(&DeviceMapping::new(&auto, [Replicated, Sharded(1)]).unwrap());
    let parts = parts.unwrap();
    let [y] = watched(move || {
        let region = shard_map(&mesh).axis_names(["x"]).in_specs([spec!["x"]]).out_specs([spec!["x"]]);
        region.wrap(|_, [x]| Ok([x.sum(1, true)?])).unwrap().call([&parts])
    })
    .unwrap();
    assert_eq!(y.layout().places(), [Sharded(0), Partial(ReduceOp::Sum)]);
    let values = super::super::values(4);
    assert_eq!(y.to_vec::<f32>().unwrap(), [values[0] + values[1], values[2] + values[3]]);
}
