//! Mesh axes that a region does not take over: ops and collectives beside them, under every policy and axis type.

use super::*;

/// A mesh x=2, y=2 of which the region takes `x`; `y` is of this type.
fn half(kind: AxisType) -> DeviceMesh {
    manual(&[2, 2]).with_axis_types([AxisType::Manual, kind]).unwrap()
}

type Function = fn(&ManualCx, Tensor) -> Result<Tensor>;

/// `x` is f32[4, 4], its rows split over `x`, its columns over `y`.
fn run(kind: AxisType, policy: Policy, out: PartitionSpec, function: Function) -> Result<Vec<f32>> {
    watched(move || {
        let mesh = half(kind);
        let auto = mesh.with_axis_types([AxisType::Auto; 2])?;
        let x = numbers(&[4, 4], &auto).transfer_to(&DeviceMapping::new(&auto, [Sharded(0), Sharded(1)])?)?;
        let region = shard_map(&mesh).axis_names(["x"]).in_specs([spec!["x"]]).out_specs([out]);
        let region = region.wrap(move |cx, [x]| Ok([function(cx, x)?]))?;
        let [y] = auto_reshard(policy, || region.call([&x]))?;
        y.to_vec::<f32>()
    })
}

#[test]
fn policies_and_axis_types_hold_inside() {
    let _alone = alone();
    let moves: Function = |cx, x| x.add(&x.transfer_to(&DeviceMapping::new(cx.mesh(), [Sharded(0)])?)?);
    assert!(run(AxisType::Auto, Policy::silent(), spec!["x"], moves).is_ok());
    assert_eq!(
        run(AxisType::Auto, Policy::raise(), spec!["x"], moves).unwrap_err().kind(),
        ErrorKind::Sharding
    );
    assert_eq!(
        run(AxisType::Explicit, Policy::silent(), spec!["x"], moves).unwrap_err().kind(),
        ErrorKind::Sharding
    );
    // A collective of the region's own axis is what was asked for, and no reshard.
    let sums: Function = |cx, x| cx.psum(&x, "x");
    for (kind, policy) in [(AxisType::Auto, Policy::raise()), (AxisType::Explicit, Policy::silent())] {
        assert!(run(kind, policy, spec![], sums).is_ok());
    }
    // One that joins the tensor axis that `y` splits has to bring it together first: that is a reshard.
    let joins: Function = |cx, x| cx.all_gather_tiled(&x, Over::from("x").invarying(), 1);
    assert!(run(AxisType::Auto, Policy::silent(), spec![], joins).is_ok());
    for (kind, policy) in [(AxisType::Auto, Policy::raise()), (AxisType::Explicit, Policy::silent())] {
        let error = run(kind, policy, spec![], joins).unwrap_err();
        assert_eq!((error.kind(), error.mesh_axis()), (ErrorKind::Sharding, Some(("y", 2))), "{error}");
        assert!(
            error.to_string().contains("transfer_to(&DeviceMapping::new(cx.mesh(), [Replicated])?)"),
            "{error}"
        );
    }
}

#[test]
fn a_region_on_what_remains() {
    let _alone = alone();
    let got = watched(|| {
        let mesh = half(AxisType::Manual);
        let outer = shard_map(&mesh).axis_names(["x"]).in_specs([spec!["x"]]).out_specs([spec![]]);
        let outer = outer.wrap(|cx, [x]| {
            let inner = shard_map(cx.mesh()).in_specs([spec![None, "y"]]).out_specs([spec![]]);
            let inner = inner.wrap(|cx, [x]| Ok([cx.psum(&x.sum(1, false)?, "y")?]))?;
            let [y] = inner.call([&x])?;
            let y = y.on(&cx.mesh().with_axis_types([AxisType::Auto])?)?;
            Ok([cx.psum(&y.sum(0, false)?, "x")?])
        })?;
        let [y] = outer.call([&numbers(&[4, 4], &mesh)])?;
        y.to_vec::<f32>()
    });
    assert_eq!(got.unwrap(), [super::super::values(16).iter().sum::<f32>()]);
    // The inner region's claim does not hide what varies over the outer's axis.
    let error = watched(|| {
        let mesh = half(AxisType::Manual);
        let outer = shard_map(&mesh).axis_names(["x"]).in_specs([spec!["x"]]).out_specs([spec![]]);
        let outer = outer.wrap(|cx, [x]| {
            let inner = shard_map(cx.mesh()).in_specs([spec![]]).out_specs([spec![]]);
            inner.wrap(|_, [x]| Ok([x]))?.call([&x])
        })?;
        outer.call([&numbers(&[4, 4], &mesh)])
    });
    assert_eq!(error.unwrap_err().mesh_axis(), Some(("x", 2)));
}

#[test]
fn uneven_and_empty_shards_on_what_remains() {
    let _alone = alone();
    for columns in [0, 1, 3, 5] {
        let sums = watched(move || {
            let mesh = half(AxisType::Auto);
            let auto = mesh.with_axis_types([AxisType::Auto; 2])?;
            let x = numbers(&[2, columns], &auto);
            let x = x.transfer_to(&DeviceMapping::new(&auto, [Replicated, Sharded(1)])?)?;
            let region = shard_map(&mesh).axis_names(["x"]).in_specs([spec!["x"]]).out_specs([spec![]]);
            let [y] = region.wrap(|cx, [x]| Ok([cx.psum(&x, "x")?]))?.call([&x])?;
            assert_eq!(y.layout().places(), [Replicated, Sharded(1)]);
            y.to_vec::<f32>()
        });
        let values = super::super::values(2 * columns);
        let want: Vec<f32> = (0..columns).map(|i| values[i] + values[columns + i]).collect();
        assert_eq!(sums.unwrap(), want);
    }
}

#[test]
fn a_mesh_axis_named_as_two_joined() {
    let _alone = alone();
    let got = watched(|| {
        let devices: Vec<Device> = (0..8).map(|i| Device::cpu().with_slot(SLOT + i)).collect();
        let mesh = DeviceMesh::new(&devices, [2, 2, 2], ["a", "b", "a+b"])?;
        let mesh = mesh.with_axis_types([AxisType::Manual, AxisType::Manual, AxisType::Auto])?;
        let region = shard_map(&mesh)
            .axis_names(["a", "b"])
            .in_specs([spec![("a", "b")]])
            .out_specs([spec![("a", "b")]]);
        let region = region.wrap(|cx, [x]| {
            let x = cx.ppermute(&x, ["a", "b"], [(0, 3), (3, 0), (1, 1), (2, 2)])?;
            let pairs = Over::from(["a", "b"]).within([[0, 1], [2, 3]]);
            Ok([cx.psum(&x, &pairs)?])
        })?;
        let x = Tensor::from_slice(&[1, 2, 3, 4_i32], [4], &DeviceMapping::replicated(&mesh))?;
        let [y] = region.call([&x])?;
        y.to_vec::<i32>()
    });
    assert_eq!(got.unwrap(), [6, 6, 4, 4]);
}
