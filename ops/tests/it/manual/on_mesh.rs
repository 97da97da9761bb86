//! `call_on_mesh`, values per shard, and claims about what came back.

use super::*;

fn mesh() -> DeviceMesh {
    DeviceMesh::simulated(BackendKind::CPU, [2, 2], ["x", "y"]).unwrap()
}

fn on(mesh: &DeviceMesh, places: [Place; 2]) -> DeviceMapping {
    DeviceMapping::new(mesh, places).unwrap()
}

fn split() -> Tensor {
    iota(&[4, 6], &mesh()).transfer_to(&on(&mesh(), [Sharded(0), Sharded(1)])).unwrap()
}

#[test]
fn each_device_sees_its_shard_and_its_value() {
    let (mesh, x) = (mesh(), split());
    let names = PerShard::from_fn(&mesh, |position| format!("device {position}"));
    let one =
        Tensor::from_slice(&[2.0_f32], [1], &DeviceMapping::replicated(&DeviceMesh::single(Device::cpu())))
            .unwrap();
    let mut seen = Vec::new();
    let [y, z] = call_on_mesh(&mesh)
        .per_device([&x, &one, &x], |cx, [shard, one, again]| {
            assert!(shard.shards()[0].same_as(&again.shards()[0]));
            assert_eq!(shard.shape()[..], [2, 3]);
            seen.push((names.at(cx)?.clone(), cx.device()));
            Ok([shard.mul(&one)?, shard.sum(0, false)?])
        })
        .unwrap();
    let devices: Vec<_> =
        (0..4).map(|i| (format!("device {i}"), Device::cpu().with_slot(i as u32))).collect();
    assert_eq!(seen, devices);
    assert_eq!((y.layout().places(), z.layout().places()), (&[Unknown; 2][..], &[Unknown; 2][..]));
    assert!(y.to_vec::<f32>().is_err());
    let y = y.rebind_mapping(x.mapping(), [4, 6]).unwrap();
    let want: Vec<f32> = x.to_vec::<f32>().unwrap().iter().map(|x| 2.0 * x).collect();
    assert_eq!(y.to_vec::<f32>().unwrap(), want);
    // Sums of the rows that each has: parts along x.
    let z = z.rebind_mapping(&on(&mesh, [Partial(ReduceOp::Sum), Sharded(0)]), [6]).unwrap();
    assert_eq!(z.to_vec::<f32>().unwrap(), x.sum(0, false).unwrap().to_vec::<f32>().unwrap());
}

#[test]
fn out_specs_say_how_results_lie() {
    let (mesh, x) = (mesh(), split());
    let same =
        |out: Vec<DeviceMapping>| call_on_mesh(&mesh).out_specs(out).per_device([&x], |_, [x]| Ok([x]));
    let [y] = same(vec![x.mapping().clone()]).unwrap();
    assert_eq!((y.layout(), y.to_vec::<f32>().unwrap()), (x.layout(), x.to_vec::<f32>().unwrap()));
    let [y] = same(vec![on(&mesh, [Sharded(0), Partial(ReduceOp::Sum)])]).unwrap();
    assert_eq!(y.shape()[..], [4, 3]);
    assert_eq!(same(vec![x.mapping().clone(); 2]).unwrap_err().kind(), ErrorKind::Argument);
    let other = DeviceMesh::simulated(BackendKind::CPU, [4], ["x"]).unwrap();
    assert_eq!(same(vec![DeviceMapping::replicated(&other)]).unwrap_err().kind(), ErrorKind::Mesh);
}

#[test]
fn groups_get_lists() {
    let (mesh, x) = (mesh(), split());
    let weights = PerShard::new(&mesh, [1.0, 2.0, 3.0, 4.0]).unwrap();
    let mut groups = Vec::new();
    // Each group swaps the shards of its two devices.
    let [y] = call_on_mesh(&mesh)
        .out_specs([on(&mesh, [Sharded(0), Sharded(1)])])
        .per_group(["y"], [&x], |cx, [mut shards]| {
            groups.push((cx.positions().to_vec(), weights.group(cx)?.into_iter().copied().sum::<f64>()));
            shards.reverse();
            let moved = shards.iter().zip(cx.positions()).map(|(shard, position)| {
                let device = mesh.device(*position).unwrap();
                shard.transfer_to(&DeviceMapping::replicated(&DeviceMesh::single(device)))
            });
            Ok([moved.collect::<Result<Vec<_>>>()?])
        })
        .unwrap();
    assert_eq!(groups, [(vec![0, 1], 3.0), (vec![2, 3], 7.0)]);
    let (x, y) = (x.to_vec::<f32>().unwrap(), y.to_vec::<f32>().unwrap());
    let swapped: Vec<f32> = x.chunks(6).flat_map(|row| [&row[3..], &row[..3]].concat()).collect();
    assert_eq!(y, swapped);
    let short = call_on_mesh(&mesh).per_group(["x", "y"], [&split()], |_, [mut shards]| {
        shards.pop();
        Ok([shards])
    });
    assert_eq!(short.unwrap_err().kind(), ErrorKind::Argument);
}

#[test]
fn misuse_is_an_error() {
    let (mesh, x) = (mesh(), split());
    let other = DeviceMesh::simulated(BackendKind::CPU, [4], ["x"]).unwrap();
    let elsewhere = iota(&[4], &other);
    let kind = |result: Result<[Tensor; 1]>| result.unwrap_err().kind();
    assert_eq!(kind(call_on_mesh(&mesh).per_device([&elsewhere], |_, [x]| Ok([x]))), ErrorKind::Mesh);
    assert_eq!(kind(call_on_mesh(&mesh).per_device([&x], |_, [_]| Ok([elsewhere.clone()]))), ErrorKind::Mesh);
    assert_eq!(kind(call_on_mesh(&mesh).per_device([&x], |_, [_]| panic!("here"))), ErrorKind::Kernel);
    assert_eq!(kind(call_on_mesh(&mesh).per_group(["z"], [&x], |_, [x]| Ok([x]))), ErrorKind::Axis);
    let twice = call_on_mesh(&mesh).per_group(["x", "x"], [&x], |_, [x]| Ok([x]));
    assert_eq!(kind(twice), ErrorKind::DuplicateAxis);
    assert_eq!(mesh.sub_mesh(0, &[1, 1]).unwrap_err().kind(), ErrorKind::DuplicateAxis);
    assert_eq!(mesh.to_abstract().sub_mesh(&[1, 1]).unwrap_err().kind(), ErrorKind::DuplicateAxis);
    let labels = PerShard::new(&other, ["a"; 4]).unwrap();
    let foreign = call_on_mesh(&mesh).per_device([&x], |cx, [x]| labels.at(cx).map(|_| [x]));
    assert_eq!(kind(foreign), ErrorKind::Mesh);
    let dtypes = call_on_mesh(&mesh)
        .per_device([&x], |cx, [x]| Ok([if cx.position() == 0 { x } else { x.cast(DType::F64)? }]));
    assert_eq!(kind(dtypes), ErrorKind::Mapping);
}

#[test]
fn replicas_that_differ_are_found() {
    let (mesh, x) = (mesh(), split());
    let claim = || x.rebind_mapping(&on(&mesh, [Sharded(0), Replicated]), [4, 3]);
    if cfg!(debug_assertions) {
        let error = claim().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Mapping);
        assert!(error.to_string().contains("cpu:0 and cpu:0/1 are said to hold the same"), "{error}");
    } else {
        assert_eq!(claim().unwrap().check_replicas().unwrap_err().kind(), ErrorKind::Mapping);
    }
    let whole = iota(&[4, 6], &mesh);
    whole.check_replicas().unwrap();
    let [copies] = call_on_mesh(&mesh).per_device([&whole], |_, [x]| Ok([x.add(&x)?])).unwrap();
    let claimed = copies.rebind_mapping(&on(&mesh, [Replicated; 2]), [4, 6]).unwrap();
    claimed.check_replicas().unwrap();
    assert_eq!(claimed.to_vec::<f32>().unwrap(), whole.add(&whole).unwrap().to_vec::<f32>().unwrap());
}

#[cfg(feature = "sim")]
#[test]
fn a_large_simulated_mesh_holds_some_shards_only() {
    let mesh = DeviceMesh::simulated(BackendKind::SIM, [128], ["x"]).unwrap();
    let rows = DeviceMapping::new(&mesh, [Sharded(0)]).unwrap();
    let x = zeros([256], DType::F32, &rows).unwrap();
    let call =
        |outs: Vec<DeviceMapping>| call_on_mesh(&mesh).out_specs(outs).per_device([&x], |_, [x]| Ok([x]));
    let error = call(vec![rows.clone()]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Mesh);
    assert!(
        error.to_string().contains("of the 128 devices of a mesh this large the sim backend holds 2"),
        "{error}"
    );
    assert!(error.fix().unwrap().contains("y.rebind_mapping(&mapping, shape)"), "{error}");
    // What it says to write works.
    let [y] = call(Vec::new()).unwrap();
    assert_eq!(y.rebind_mapping(&rows, [256]).unwrap().layout(), x.layout());
}
