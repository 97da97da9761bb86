//! Bad input: every error names what it is about, has the right kind and a remedy; nothing panics and nothing is lost.

use sharding_core::placement::{Placement, PlacementKey, Ranges, Transition, sharded};
use sharding_ops::*;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

fn mesh(shape: &[usize]) -> DeviceMesh {
    DeviceMesh::simulated(BackendKind::CPU, shape, &["x", "y", "z"][..shape.len()]).unwrap()
}

fn on(places: &[Place]) -> DeviceMapping {
    DeviceMapping::new(&mesh(&[2, 3][..places.len()]), places).unwrap()
}

#[derive(Default)]
struct Faults(Vec<String>);

impl Faults {
    /// The call errs with this kind, says these words, and has a remedy.
    fn check<T>(&mut self, name: &str, kind: ErrorKind, words: &[&str], call: impl FnOnce() -> Result<T>) {
        let outcome = match catch_unwind(AssertUnwindSafe(call)) {
            Ok(outcome) => outcome,
            Err(_) => return self.0.push(format!("{name}: PANICS")),
        };
        let Err(error) = outcome else { return self.0.push(format!("{name}: is accepted")) };
        let text = error.to_string();
        if error.kind() != kind {
            self.0.push(format!("{name}: kind {:?}, not {kind:?}: {text}", error.kind()));
        }
        if error.fix().is_none() {
            self.0.push(format!("{name}: no remedy: {text}"));
        }
        for word in words.iter().filter(|word| !text.contains(**word)) {
            self.0.push(format!("{name}: does not say '{word}': {text}"));
        }
    }
    fn finish(self) {
        assert!(self.0.is_empty(), "{} faults\n{}", self.0.len(), self.0.join("\n"));
    }
}

#[test]
fn meshes() {
    let mut f = Faults::default();
    let cpu = |i| Device::cpu().with_slot(i);
    let none: [&str; 0] = [];
    f.check("no device", ErrorKind::Mesh, &["at least one device"], || DeviceMesh::new(&[], [0], ["x"]));
    f.check("size 0", ErrorKind::Mesh, &["[2, 0]"], || {
        DeviceMesh::simulated(BackendKind::CPU, [2, 0], ["x", "y"])
    });
    f.check("9 axes", ErrorKind::Mesh, &["9", "8"], || {
        DeviceMesh::simulated(BackendKind::CPU, [1; 9], ["a", "b", "c", "d", "e", "f", "g", "h", "i"])
    });
    f.check("overflow", ErrorKind::Overflow, &["18446744073709551615"], || {
        DeviceMesh::simulated(BackendKind::CPU, [usize::MAX, 2], ["x", "y"])
    });
    f.check("too many", ErrorKind::Overflow, &["4294967296"], || {
        DeviceMesh::simulated(BackendKind::CPU, [1 << 16, 1 << 16], ["x", "y"])
    });
    f.check("name twice", ErrorKind::Mesh, &["'x'"], || {
        DeviceMesh::simulated(BackendKind::CPU, [2, 2], ["x", "x"])
    });
    f.check("empty name", ErrorKind::Mesh, &["empty name"], || {
        DeviceMesh::simulated(BackendKind::CPU, [2], [""])
    });
    f.check("no names", ErrorKind::Mesh, &["[2]"], || DeviceMesh::simulated(BackendKind::CPU, [2], none));
    f.check("device twice", ErrorKind::Mesh, &["twice"], || DeviceMesh::new(&[cpu(0), cpu(0)], [2], ["x"]));
    f.check("count", ErrorKind::Mesh, &["[3]", "2"], || DeviceMesh::new(&[cpu(0), cpu(1)], [3], ["x"]));
    f.check("half simulated", ErrorKind::Mesh, &["slots"], || {
        DeviceMesh::new(&[cpu(0), cpu(1), Device::new(BackendKind::CPU, 1)], [3], ["x"])
    });
    f.check("axis types", ErrorKind::Mesh, &["axis types"], || {
        mesh(&[2]).with_axis_types([AxisType::Auto; 2])
    });
    f.check("axis name", ErrorKind::Axis, &["'q'", "x"], || mesh(&[2]).axis_index("q"));
    f.check("axis size", ErrorKind::Axis, &["7"], || mesh(&[2]).axis_size(&[7]));
    f.check("device coord", ErrorKind::Axis, &["9"], || mesh(&[2]).device_coord(9, &[0]));
    f.check("sub mesh axis", ErrorKind::Axis, &["7"], || mesh(&[2]).sub_mesh(0, &[7]));
    f.check("sub mesh twice", ErrorKind::DuplicateAxis, &["twice"], || mesh(&[2, 2]).sub_mesh(0, &[0, 0]));
    f.check("sub mesh none", ErrorKind::Mesh, &[], || mesh(&[2]).sub_mesh(0, &[]));
    f.finish();
}

#[test]
fn questions_about_what_is_not_there_do_not_panic() {
    let m = mesh(&[2, 3]);
    assert_eq!((m.size(usize::MAX), m.coord(5, usize::MAX), m.stride(usize::MAX)), (1, 0, 1));
    assert_eq!(m.device(usize::MAX), None);
    let _ = m.group(usize::MAX, &[0, usize::MAX]);
    let _ = m.coord(usize::MAX, 0);
    let huge = Shape::from([usize::MAX, 2]);
    assert_eq!(huge.elements(), usize::MAX);
    let _ = (huge.strides(), huge.axis(isize::MIN), huge.axis(isize::MAX), huge.without(usize::MAX));
    assert_eq!(TensorMeta::new(DType::I64, [usize::MAX, 2]).bytes(), usize::MAX);
    assert_eq!(Shape::from([usize::MAX, 2, 0]).elements(), 0);
    let mapping = on(&[Sharded(0), Sharded(0)]);
    let _ = mapping.local_shape(&huge, 5);
    let _ = mapping.local_shape(&huge, usize::MAX);
    let _ = mapping.region(&Shape::from([3]), usize::MAX);
    assert_eq!(sharded(usize::MAX), Sharded(u8::MAX));
}

#[test]
fn tensors() {
    let mut f = Faults::default();
    let whole = on(&[Replicated]);
    let shape = |n: usize| vec![1_usize; n];
    for dims in [vec![usize::MAX, 2], vec![1 << 40, 1 << 40], vec![1 << 62], vec![0, 1 << 40, 1 << 40]] {
        let words = &["has more elements"][..];
        f.check("full", ErrorKind::Overflow, &[words, &["full"]].concat(), || {
            full(dims.as_slice(), 1.0, DType::F32, &whole)
        });
        f.check("from_slice", ErrorKind::Overflow, &[words, &["from_slice"]].concat(), || {
            Tensor::from_slice(&[1_f32], dims.as_slice(), &whole)
        });
    }
    // It fits the arithmetic but no memory.
    f.check("full big", ErrorKind::Backend, &["full", "memory", "f32[1099511627776, 8192]"], || {
        full([1 << 40, 1 << 13], 1.0, DType::F32, &whole)
    });
    f.check("17 axes", ErrorKind::Shape, &["17", "16"], || Tensor::from_slice(&[1_f32], shape(17), &whole));
    f.check("17 axes full", ErrorKind::Shape, &["17", "16"], || full(shape(17), 1.0, DType::F32, &whole));
    f.check("count", ErrorKind::Shape, &["from_slice", "[2, 2]", "3 values"], || {
        Tensor::from_slice(&[1_f32; 3], [2, 2], &whole)
    });
    f.check("axis", ErrorKind::Mapping, &["from_slice", "Sharded(2)", "'x' of size 2"], || {
        Tensor::from_slice(&[1_f32; 4], [2, 2], &on(&[Sharded(2)]))
    });
    f.check("partial", ErrorKind::Mapping, &["from_slice", "Partial(sum)"], || {
        Tensor::from_slice(&[1_f32; 4], [2, 2], &on(&[Partial(ReduceOp::Sum)]))
    });
    f.check("bytes", ErrorKind::Shape, &["from_bytes", "3 bytes"], || {
        Tensor::from_bytes(&[0; 3], TensorLayout::new(DType::F32, [2], whole.clone())?)
    });
    f.check("mapping length", ErrorKind::Mapping, &["2"], || {
        DeviceMapping::new(&mesh(&[2]), [Replicated; 2])
    });
    f.check("mixed partial", ErrorKind::Mapping, &["max", "sum"], || {
        DeviceMapping::new(&mesh(&[2, 3]), [Partial(ReduceOp::Max), Partial(ReduceOp::Sum)])
    });
    f.check("shared custom", ErrorKind::Mapping, &["custom"], || {
        DeviceMapping::new(&mesh(&[2, 3]), [Ragged::place(0, [1, 2]), Sharded(0)])
    });
    let x = Tensor::from_slice(&[1_f32; 4], [2, 2], &whole).unwrap();
    f.check("dtype", ErrorKind::DType, &["f32[2, 2]"], || x.to_vec::<i64>());
    f.check("position", ErrorKind::Axis, &["7", "f32[2, 2]"], || x.shard_to_vec::<f32>(7));
    f.check("transfer axis", ErrorKind::Mapping, &["transfer_to", "f32[2, 2]"], || {
        x.transfer_to(&on(&[Sharded(2)]))
    });
    f.check("transfer unknown", ErrorKind::Sharding, &["transfer_to", "f32[2, 2]"], || {
        x.transfer_to(&on(&[Unknown]))
    });
    f.check("transfer ragged", ErrorKind::Mapping, &["transfer_to", "f32[2, 2]"], || {
        x.transfer_to(&on(&[Ragged::place(0, [1, 2])]))
    });
    f.check("transfer ragged ways", ErrorKind::Mapping, &["transfer_to", "f32[2, 2]"], || {
        x.transfer_to(&on(&[Ragged::place(0, [1, 0, 1])]))
    });
    f.check("rebind shape", ErrorKind::Mapping, &["rebind_mapping", "[2, 2]"], || {
        rebind_mapping(&x, &on(&[Sharded(0)]), [2, 2])
    });
    f.check("rebind mesh", ErrorKind::Mesh, &["rebind_mapping"], || {
        rebind_mapping(&x, &on(&[Sharded(0), Replicated]), [2, 2])
    });
    f.check("rebind core", ErrorKind::Mapping, &["rebind_mapping", "f32[2, 2]"], || {
        x.rebind_mapping(&on(&[Sharded(0)]), [2, 2])
    });
    f.check("on", ErrorKind::Mesh, &["DeviceMesh(x=2)", "f32[2, 2]"], || x.on(&mesh(&[3])));
    f.check("shards", ErrorKind::Mapping, &["1 local"], || {
        Tensor::from_shards(x.layout().clone(), x.positions().clone(), x.shards()[..1].into())
    });
    let unknown = rebind_mapping(&x, &on(&[Unknown]), [2, 2]).unwrap();
    f.check("unknown to_vec", ErrorKind::Sharding, &["Unknown", "f32[2, 2]"], || unknown.to_vec::<f32>());
    f.check("unknown move", ErrorKind::Sharding, &["Unknown", "rebind_mapping"], || {
        unknown.transfer_to(&whole)
    });
    f.check("unknown op", ErrorKind::Sharding, &["relu", "Unknown", "rebind_mapping"], || relu(&unknown));
    f.check("unknown store", ErrorKind::Sharding, &["all_gather", "Unknown"], || {
        all_gather(&unknown, "x", 0)
    });
    f.finish();
}

/// A placement of somebody else that keeps no promise.
#[derive(Debug)]
struct Broken(&'static str);

impl Placement for Broken {
    fn key(&self) -> PlacementKey {
        PlacementKey { name: self.0, words: smallvec::smallvec![] }
    }
    fn tensor_axis(&self) -> Option<usize> {
        Some(0)
    }
    fn on_axis(&self, _: usize) -> Arc<dyn Placement> {
        Arc::new(Self(self.0))
    }
    fn check(&self, _: usize, _: usize) -> Result<()> {
        assert_ne!(self.0, "fails in check", "out of order");
        Ok(())
    }
    fn ranges(&self, extent: usize, ways: usize, part: usize) -> Ranges {
        assert_ne!(self.0, "fails in ranges", "out of order");
        let range = sharding_core::split::balanced(extent, ways, part);
        match self.0 {
            "beyond" => smallvec::smallvec![range.start..range.end + 1],
            "all" => smallvec::smallvec![0..extent],
            "none" => Ranges::new(),
            _ => smallvec::smallvec![range],
        }
    }
    fn transition_to(&self, to: Place, _: usize, _: usize) -> Transition {
        assert_ne!(self.0, "fails in transition", "out of order");
        Transition::between_splits(Sharded(0), to)
    }
}

#[test]
fn placements_that_break_their_promise() {
    let mut f = Faults::default();
    let broken = |name| on(&[Place::custom(Broken(name))]);
    let x = Tensor::from_slice(&[1_f32; 6], [6], &on(&[Replicated])).unwrap();
    for (name, kind, words) in [
        ("beyond", ErrorKind::Mapping, &["3..7", "of 6 indices over 2 devices", "'x' of size 2"][..]),
        ("all", ErrorKind::Mapping, &["index 0 twice"]),
        ("none", ErrorKind::Mapping, &["leaves index 0 out"]),
        ("fails in ranges", ErrorKind::Kernel, &["the placement panicked", "out of order"]),
        ("fails in check", ErrorKind::Kernel, &["the placement panicked", "out of order"]),
    ] {
        f.check(name, kind, words, || Tensor::from_slice(&[1_f32; 6], [6], &broken(name)));
        f.check(name, kind, words, || full([6], 1.0, DType::F32, &broken(name)));
        f.check(name, kind, words, || x.transfer_to(&broken(name)));
        f.check(name, kind, words, || TensorLayout::new(DType::F32, [6], broken(name)));
    }
    let late = x.transfer_to(&broken("fails in transition")).unwrap();
    assert_eq!(late.to_vec::<f32>().unwrap(), [1.0; 6]);
    let error = flip(&late, &[0]).unwrap_err();
    assert!(error.kind() == ErrorKind::Kernel && error.to_string().contains("out of order"), "{error}");
    f.finish();
}

#[test]
fn broadcasts_that_do_not_fit_memory() {
    // Small operands whose result is enormous: an error of the backend or the size, not an abort.
    let mut f = Faults::default();
    let one = on(&[Replicated]);
    let row = full([1 << 22], 1.0, DType::F32, &one).unwrap();
    let column = reshape(&row, &[-1, 1]).unwrap();
    f.check("add", ErrorKind::Backend, &["add", "lhs: f32[4194304, 1]", "memory"], || add(&column, &row));
    let table = full([1, 1 << 22], 1.0, DType::F32, &one).unwrap();
    let ids = full([1 << 22], 0_i64, DType::I64, &one).unwrap();
    f.check("embedding", ErrorKind::Backend, &["embedding", "memory"], || embedding(&table, &ids));
    f.check("matmul", ErrorKind::Backend, &["matmul", "memory"], || {
        matmul(&column, &reshape(&row, &[1, -1])?)
    });
    let parts = DeviceMapping::new(&mesh(&[2]), [Sharded(0)]).unwrap();
    let (column, table) = (column.transfer_to(&parts).unwrap(), row);
    f.check("sharded add", ErrorKind::Backend, &["add", "memory"], || add(&column, &table));
    f.finish();
}

#[test]
fn a_mesh_of_all_devices_there_can_be() {
    let all = DeviceMesh::simulated(BackendKind::CPU, [u32::MAX as usize], ["x"]).unwrap();
    assert_eq!(all.position_of(Device::cpu().with_slot(u32::MAX - 1)), Some(u32::MAX as usize - 1));
    assert_eq!(all.device(u32::MAX as usize), None);
    let mut f = Faults::default();
    let mapping = DeviceMapping::new(&all, [Sharded(0)]).unwrap();
    assert_eq!(*mapping.local_shape(&Shape::from([5]), 4), [1]);
    f.check("full", ErrorKind::Backend, &["full", "4294967295"], || full([4], 1.0, DType::F32, &mapping));
    f.check("from_slice", ErrorKind::Backend, &["4294967295"], || {
        Tensor::from_slice(&[1_f32], [1], &mapping)
    });
    f.finish();
}

#[test]
fn a_mesh_of_two_kinds_of_devices_is_refused_where_it_is_used() {
    let mut f = Faults::default();
    let devices = [Device::cpu(), Device::new(stress::deferred::KIND, 0)];
    let mixed = DeviceMesh::new(&devices, [2], ["x"]);
    f.check("mixed", ErrorKind::Mesh, &["cpu", "deferred"], || {
        let x = full([4], 1.0, DType::F32, &DeviceMapping::new(&mixed?, [Sharded(0)])?)?;
        x.to_vec::<f32>()
    });
    let ghost = DeviceMesh::single(Device::new(BackendKind::new("ghost"), 0));
    f.check("ghost", ErrorKind::Registry, &["ghost"], || {
        full([4], 1.0, DType::F32, &DeviceMapping::replicated(&ghost))
    });
    let away = DeviceMesh::single(Device::cpu().with_process(3));
    f.check("away", ErrorKind::Process, &["process"], || {
        full([4], 1.0, DType::F32, &DeviceMapping::replicated(&away))?.to_vec::<f32>()
    });
    f.finish();
}

#[test]
fn a_failed_store_loses_nothing() {
    for place in [Replicated, Sharded(0)] {
        let x = Tensor::from_slice(&[1_f32, 2.0, 3.0, 4.0], [4], &on(&[place])).unwrap();
        let mut buffer = TensorBuffer::new(x.clone());
        let longer = full([5], 0.0, DType::F32, &on(&[place])).unwrap();
        let ids = full([4], 0_i64, DType::I64, &on(&[place])).unwrap();
        let other = full([4], 0.0, DType::F32, &DeviceMapping::replicated(&mesh(&[3]))).unwrap();
        assert!(buffer_store(&mut buffer, &longer).is_err());
        assert!(buffer_store(&mut buffer, &ids).is_err());
        assert!(buffer_store(&mut buffer, &other).is_err());
        assert!(buffer_store_slice(&mut buffer, &longer, &index![0..9]).is_err());
        assert!(buffer_store_slice(&mut buffer, &longer, &index![7]).is_err());
        assert_eq!(buffer.to_tensor().to_vec::<f32>().unwrap(), [1.0, 2.0, 3.0, 4.0]);
        assert_eq!(buffer.tensor_layout(), x.layout());
        buffer_store(&mut buffer, &full([4], 9.0, DType::F32, &on(&[place])).unwrap()).unwrap();
        assert_eq!(buffer.to_tensor().to_vec::<f32>().unwrap(), [9.0; 4]);
        assert_eq!(x.to_vec::<f32>().unwrap(), [1.0, 2.0, 3.0, 4.0]);
    }
}

#[test]
fn indices_out_of_range_err_wherever_the_table_is_split() {
    let mut f = Faults::default();
    for (shape, places) in [
        (&[2][..], &[Sharded(0)][..]),
        (&[5], &[Sharded(0)]),
        (&[2, 3], &[Sharded(0), Sharded(0)]),
        (&[2, 3], &[Sharded(0), Sharded(1)]),
        (&[3], &[Ragged::place(0, [0, 4, 0])]),
        (&[2], &[Interleaved::place(0, [2, 2])]),
    ] {
        let m = mesh(shape);
        let whole = DeviceMapping::replicated(&m);
        let table = full([4, 2], 1.0, DType::F32, &whole).unwrap();
        let table = table.transfer_to(&DeviceMapping::new(&m, places).unwrap()).unwrap();
        for bad in [4, -1, i64::MAX, i64::MIN, 1 << 40] {
            let ids = Tensor::from_slice(&[0, bad], [2], &whole).unwrap();
            f.check(
                &format!("{places:?} {bad}"),
                ErrorKind::Kernel,
                &["embedding", &bad.to_string(), "table: f32[4, 2]"],
                || embedding(&table, &ids),
            );
        }
    }
    f.finish();
}

#[test]
fn values_larger_than_memory_cannot_be_read() {
    // A broadcast view holds one element however large it is.
    let one = tensor_of_one();
    let wide = one.shards()[0].broadcast_to(&Shape::from([1 << 40, 1 << 10])).unwrap();
    let layout = TensorLayout::new(DType::F32, [1 << 40, 1 << 10], one.mapping().clone()).unwrap();
    let wide = Tensor::from_shards(layout, one.positions().clone(), [wide].into_iter().collect()).unwrap();
    let mut f = Faults::default();
    let words = &["memory", "f32[1099511627776, 1024]"][..];
    f.check("to_vec", ErrorKind::Backend, words, || wide.to_vec::<f32>());
    f.check("shard_to_vec", ErrorKind::Backend, words, || wide.shard_to_vec::<f32>(0));
    f.check("relu", ErrorKind::Backend, words, || relu(&wide));
    f.check("sub", ErrorKind::Backend, words, || sub(&wide, &wide));
    let away = DeviceMapping::replicated(&DeviceMesh::single(Device::new(stress::deferred::KIND, 0)));
    f.check("transfer", ErrorKind::Backend, words, || wide.transfer_to(&away));
    let beside = full(
        [1],
        1.0,
        DType::F32,
        &DeviceMapping::replicated(&DeviceMesh::simulated(stress::deferred::KIND, [2], ["x"]).unwrap()),
    );
    f.check("add", ErrorKind::Backend, words, || add(&beside?, &wide));
    f.finish();
}

fn tensor_of_one() -> Tensor {
    let single = DeviceMesh::single(Device::cpu());
    Tensor::from_slice(&[1_f32], [1, 1], &DeviceMapping::replicated(&single)).unwrap()
}
