//! Host arrays laid out over devices and read back: in any order in memory, borrowed and owned.

use ndarray::{ArcArray, Array, ArrayD, ArrayViewD, Axis, IxDyn, Slice};
use proptest::prelude::*;
use sharding_ops::{
    AxisType, BackendKind, DType, Device, DeviceMapping, DeviceMesh, ErrorKind, GspmdSharding, HostCopy,
    HostData, HostSource, Interleaved, NamedSharding, Place, PmapSharding, PositionalSharding, Ragged,
    Result, Sharding, SingleDeviceSharding, Tensor, ToNdarray, full, layout, make_mesh, matmul,
    place_host_array, relu, reshape, set_mesh, shard_view, spec, transfer_to, zeros,
};
use std::sync::Arc;

fn mesh() -> DeviceMesh {
    DeviceMesh::simulated(BackendKind::CPU, [2, 2], ["x", "y"]).unwrap()
}

/// Another view of the same elements: axes permuted, turned around, thinned out, one of them broadcast.
#[derive(Clone, Debug)]
struct Turn {
    order: Vec<usize>,
    back: Vec<bool>,
    step: Vec<isize>,
    broadcast: Option<usize>,
}

fn turn() -> impl Strategy<Value = (Vec<usize>, Turn)> {
    (0_usize..4).prop_flat_map(|n| {
        let shape = proptest::collection::vec(0_usize..5, n);
        let order = Just((0..n).collect::<Vec<_>>()).prop_shuffle();
        let back = proptest::collection::vec(any::<bool>(), n);
        let step = proptest::collection::vec(1_isize..3, n);
        let broadcast = proptest::option::of(1_usize..4);
        (shape, order, back, step, broadcast)
            .prop_map(|(shape, order, back, step, broadcast)| (shape, Turn { order, back, step, broadcast }))
    })
}

impl Turn {
    fn of<'a>(&self, array: &'a ArrayD<i64>) -> ArrayViewD<'a, i64> {
        let mut view = array.view().permuted_axes(IxDyn(&self.order));
        for (axis, (back, step)) in self.back.iter().zip(&self.step).enumerate() {
            view.slice_axis_inplace(Axis(axis), Slice::new(0, None, if *back { -step } else { *step }));
        }
        view
    }
    fn broadcast<'a>(&self, view: &'a ArrayViewD<'a, i64>) -> ArrayViewD<'a, i64> {
        let Some(rows) = self.broadcast else { return view.view() };
        let shape: Vec<usize> = std::iter::once(rows).chain(view.shape().iter().copied()).collect();
        view.broadcast(shape).unwrap()
    }
}

fn places(shape: &[usize], pick: [u8; 2]) -> [Place; 2] {
    let place = |i: usize| {
        let (axis, other) = (usize::from(pick[i] % 4), usize::from(pick[1 - i] % 4));
        match shape.get(axis) {
            None => Place::Replicated,
            Some(n) if pick[i] >= 8 && axis != other && n % 2 == 0 => {
                Interleaved::place(axis, [n / 2, n - n / 2])
            }
            Some(n) if pick[i] >= 4 && axis != other => Ragged::place(axis, [*n, 0]),
            Some(_) => Place::Sharded(axis as u8),
        }
    };
    [place(0), place(1)]
}

/// The shards are those of a slice of the same elements, and the whole is read back.
fn same(x: &Tensor, want: ArrayViewD<'_, i64>, mapping: &DeviceMapping) {
    let values: Vec<i64> = want.iter().copied().collect();
    let slice = Tensor::from_slice(&values, want.shape(), mapping).unwrap();
    assert_eq!(x.layout(), slice.layout());
    for (a, b) in x.addressable_shards().zip(slice.addressable_shards()) {
        let (a_values, b_values) = (a.to_ndarray::<i64>().unwrap(), b.to_ndarray::<i64>().unwrap());
        assert_eq!(a_values, b_values);
        assert_eq!((a.device(), a.index(), a.replica_id()), (b.device(), b.index(), b.replica_id()));
        // What is looked at where it lies is the same, in whatever order it lies.
        assert_eq!(shard_view::<i64>(&a).unwrap().unwrap(), a_values);
        assert!(shard_view::<f32>(&a).unwrap().is_none());
    }
    assert_eq!(x.to_ndarray::<i64>().unwrap(), want);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn an_array_in_any_order_lies_where_it_belongs((shape, turn) in turn(), pick in [0_u8..12, 0_u8..12]) {
        let n: usize = shape.iter().product();
        let array = Array::from_iter(0..n as i64).into_shape_with_order(IxDyn(&shape)).unwrap();
        let view = turn.of(&array);
        let wide = turn.broadcast(&view);
        let Ok(mapping) = DeviceMapping::new(&mesh(), places(wide.shape(), pick)) else { return Ok(()) };
        prop_assume!(mapping.check(&wide.shape().into()).is_ok());
        for copy in [HostCopy::Always, HostCopy::WhereNeeded] {
            same(&place_host_array(wide.view(), &mapping, copy).unwrap(), wide.view(), &mapping);
            // The same elements in owned arrays: row-major, in Fortran order, and as they lie.
            let rows = wide.to_owned();
            let mut columns = ArrayD::zeros(ndarray::ShapeBuilder::f(IxDyn(wide.shape())));
            columns.assign(&wide);
            same(&place_host_array(rows, &mapping, copy).unwrap(), wide.view(), &mapping);
            same(&place_host_array(columns, &mapping, copy).unwrap(), wide.view(), &mapping);
        }
        let Ok(mapping) = DeviceMapping::new(&mesh(), places(view.shape(), pick)) else { return Ok(()) };
        prop_assume!(mapping.check(&view.shape().into()).is_ok());
        let mut turned: ArcArray<i64, IxDyn> = array.clone().into_shared().permuted_axes(IxDyn(&turn.order));
        for (axis, (back, step)) in turn.back.iter().zip(&turn.step).enumerate() {
            turned.slice_axis_inplace(Axis(axis), Slice::new(0, None, if *back { -step } else { *step }));
        }
        for copy in [HostCopy::Always, HostCopy::WhereNeeded] {
            same(&place_host_array(turned.clone(), &mapping, copy).unwrap(), turned.view(), &mapping);
        }
    }

    /// Whatever happens to the source afterwards, the tensor keeps its values.
    #[test]
    fn a_tensor_is_a_snapshot((shape, turn) in turn(), shared in any::<bool>(), owned in any::<bool>()) {
        let n: usize = shape.iter().product();
        let copy = if shared { HostCopy::WhereNeeded } else { HostCopy::Always };
        let mut array = Array::from_iter(0..n as i64).into_shape_with_order(IxDyn(&shape)).unwrap();
        let want = turn.of(&array).to_owned();
        let mapping = DeviceMapping::new(&mesh(), places(want.shape(), [0, 1])).unwrap();
        let x = if owned {
            // Writing to an ArcArray that others hold copies it first.
            let mut held = array.clone().into_shared().permuted_axes(IxDyn(&turn.order));
            for (axis, (back, step)) in turn.back.iter().zip(&turn.step).enumerate() {
                held.slice_axis_inplace(Axis(axis), Slice::new(0, None, if *back { -step } else { *step }));
            }
            let x = place_host_array(held.clone(), &mapping, copy).unwrap();
            held.fill(-1);
            x
        } else {
            place_host_array(turn.of(&array), &mapping, copy).unwrap()
        };
        array.fill(-1);
        prop_assert_eq!(x.to_ndarray::<i64>().unwrap(), want);
    }
}

/// Where the bytes of a shard lie.
fn at(x: &Tensor, i: usize) -> *const u8 {
    let shard = x.addressable_shards().nth(i).unwrap();
    let view = shard.host_view().unwrap().unwrap();
    view.borrowed_memory().unwrap().as_ptr()
}

#[test]
fn owned_memory_is_kept_and_borrowed_memory_is_not() {
    let mapping = DeviceMapping::new(&mesh(), [Place::Sharded(0), Place::Sharded(1)]).unwrap();
    let array = Array::from_iter(0..24_i64).into_shape_with_order((4, 6)).unwrap().into_shared();
    let (before, held) = (array.as_ptr().cast::<u8>(), array.clone());
    let kept = place_host_array(array, &mapping, HostCopy::WhereNeeded).unwrap();
    assert!((0..4).all(|i| at(&kept, i) == before), "a shard lies elsewhere");
    let copied = place_host_array(held.clone(), &mapping, HostCopy::Always).unwrap();
    let borrowed = place_host_array(held.view(), &mapping, HostCopy::WhereNeeded).unwrap();
    assert!((0..4).all(|i| at(&copied, i) != before && at(&borrowed, i) != before));
    // Replicas and devices that share memory hold it once.
    let replicated = DeviceMapping::replicated(&mesh());
    let vector = HostData::owned(vec![1.0_f32, 2.0], [2]).unwrap();
    let x = place_host_array(&vector, &replicated, HostCopy::WhereNeeded).unwrap();
    assert!((1..4).all(|i| at(&x, i) == at(&x, 0)));
    assert_eq!((x.logical_payload_nbytes(), x.addressable_payload_nbytes()), (8, 32));
    // It is free again when the tensors are gone.
    let mut array = held;
    drop(kept);
    let own = array.as_ptr();
    array[[0, 0]] = 7;
    assert_eq!(array.as_ptr(), own, "somebody still holds the array");
}

#[test]
fn ops_and_stores_work_on_kept_memory_and_leave_it_alone() -> Result<()> {
    use sharding_ops::{TensorBuffer, buffer_store, matmul};
    let mapping = DeviceMapping::new(&mesh(), [Place::Sharded(1), Place::Replicated])?;
    let array = Array::from_iter((0..16).map(f64::from)).into_shape_with_order((4, 4)).unwrap();
    let array = array.into_shared().reversed_axes();
    let x = place_host_array(array.clone(), &mapping, HostCopy::WhereNeeded)?;
    let y = place_host_array(array.view(), &mapping, HostCopy::Always)?;
    assert_eq!(matmul(&x, &x)?.to_vec::<f64>()?, matmul(&y, &y)?.to_vec::<f64>()?);
    let mut buffer = TensorBuffer::new(x.clone());
    buffer_store(&mut buffer, &zeros([4, 4], DType::F64, &mapping)?)?;
    assert_eq!(buffer.to_tensor().to_vec::<f64>()?, [0.0; 16]);
    assert_eq!(x.to_ndarray::<f64>()?, array.into_dyn());
    Ok(())
}

#[test]
fn bytes_of_any_alignment_are_taken() -> Result<()> {
    let mapping = DeviceMapping::new(&mesh(), [Place::Sharded(0), Place::Replicated])?;
    let values = [1.5_f32, -2.0, 3.25, 4.0];
    let bytes: Vec<u8> = std::iter::once(0).chain(values.iter().flat_map(|v| v.to_ne_bytes())).collect();
    let part = |from: usize| HostData::part(DType::F32, [4], Arc::new(bytes.clone()), from..from + 16);
    for from in [0, 1] {
        let x = place_host_array(part(from)?, &mapping, HostCopy::WhereNeeded)?;
        if from == 1 {
            assert_eq!(x.to_vec::<f32>()?, values);
        }
    }
    let borrowed = HostData::from_bytes(DType::F32, [4], &bytes[1..])?;
    assert_eq!(place_host_array(&borrowed, &mapping, HostCopy::Always)?.to_vec::<f32>()?, values);
    assert_eq!(
        HostData::part(DType::F32, [4], Arc::new(bytes.clone()), 9..40).unwrap_err().kind(),
        ErrorKind::Shape
    );
    // Bytes that are no truth values become ones.
    let truth = HostData::shared(DType::Bool, [2], Arc::new(vec![0_u8, 7]))?;
    let x = place_host_array(truth, &mapping, HostCopy::WhereNeeded)?;
    assert_eq!(x.to_vec::<bool>()?, [false, true]);
    Ok(())
}

#[test]
fn whatever_says_where_a_tensor_lies_is_taken() -> Result<()> {
    let mesh = mesh();
    let values: Vec<f32> = (0..8_u8).map(f32::from).collect();
    let order = NamedSharding::new(&mesh, spec![("y", "x")])?;
    let x = Tensor::from_slice(&values, [8], &order)?;
    // The first name is the most significant: device (x, y) = (0, 1) holds the third piece.
    let third = x.addressable_shards().find(|shard| Some(shard.device()) == mesh.device(1)).unwrap();
    assert_eq!(third.to_vec::<f32>()?, [4.0, 5.0]);
    let alone = Tensor::from_slice(&values, [8], &SingleDeviceSharding::new(Device::cpu()))?;
    assert_eq!(alone.mesh().num_devices(), 1);
    set_mesh(&mesh, || -> Result<()> {
        let rows = spec!["x"];
        assert_eq!(
            Tensor::from_slice(&values, [8], &rows)?.mapping().places(),
            [Place::Sharded(0), Place::Replicated]
        );
        assert_eq!(
            full([4, 2], 1.0, DType::F32, &spec![None, "y"])?.mapping().places(),
            [Place::Replicated, Place::Sharded(1)]
        );
        assert_eq!(transfer_to(&alone, &spec!["x"])?.shard_to_vec::<f32>(0)?, values[..4]);
        // Shardings by name cut evenly or not at all.
        let odd = zeros([3], DType::F32, &rows).unwrap_err();
        assert_eq!((odd.kind(), odd.op()), (ErrorKind::Indivisible, Some("zeros")));
        assert_eq!(zeros([], DType::F32, &rows).unwrap_err().kind(), ErrorKind::Dimensions);
        Ok(())
    })?;
    let bare = zeros([4], DType::F32, &spec!["x"]).unwrap_err();
    assert_eq!(bare.kind(), ErrorKind::Mesh);
    assert!(bare.fix().is_some_and(|fix| fix.contains("set_mesh")), "{bare}");
    Ok(())
}

#[test]
fn on_partial_axes_the_value_counts_once() -> Result<()> {
    let devices = [0, 1].map(|slot| Device::cpu().with_slot(slot));
    let mesh = make_mesh(&devices, [2], ["x"], [AxisType::Explicit])?;
    let terms = layout(&mesh, spec![].with_unreduced(["x"])?)?;
    let x = place_host_array(ndarray::array![1.0_f32, 2.0], &terms, HostCopy::WhereNeeded)?;
    assert_eq!((x.shard_to_vec::<f32>(0)?, x.shard_to_vec::<f32>(1)?), (vec![1.0, 2.0], vec![0.0; 2]));
    assert_eq!(x.to_vec::<f32>()?, [1.0, 2.0]);
    Ok(())
}

#[test]
fn host_data_is_valid_from_construction() {
    let kind = |data: Result<HostData<'_>>| data.unwrap_err().kind();
    assert_eq!(kind(HostData::borrowed(&[1_i64], [2])), ErrorKind::Shape);
    assert_eq!(kind(HostData::from_bytes(DType::I64, [1], &[0; 7])), ErrorKind::Shape);
    let data = || HostData::borrowed(&[1_i64, 2, 3], [3]).unwrap();
    for (shape, strides, offset) in [
        (vec![4], vec![1], 0),
        (vec![2], vec![1], 2),
        (vec![2], vec![-1], 0),
        (vec![2, 2], vec![1], 0),
        (vec![2], vec![isize::MAX], 0),
        (vec![1], vec![1], usize::MAX),
    ] {
        assert_eq!(kind(data().with_strides(shape, &strides, offset)), ErrorKind::Shape);
    }
    assert_eq!(data().with_strides([3], &[-1], 2).unwrap().to_vec::<i64>().unwrap(), [3, 2, 1]);
    assert_eq!(data().with_strides([2, 3], &[0, 1], 0).unwrap().to_vec::<i64>().unwrap(), [1, 2, 3, 1, 2, 3]);
    assert!(data().with_strides([0], &[5], 90).unwrap().to_vec::<i64>().unwrap().is_empty());
    // Along strides that are never taken nothing is counted, whatever they are.
    for shape in [[0, 4, 4], [4, 0, 4], [4, 4, 0]] {
        let empty = data().with_strides(shape, &[isize::MAX, isize::MIN, isize::MAX], usize::MAX).unwrap();
        let mapping = DeviceMapping::new(&mesh(), [Place::Sharded(0), Place::Sharded(2)]).unwrap();
        for copy in [HostCopy::Always, HostCopy::WhereNeeded] {
            let x = place_host_array(&empty, &mapping, copy).unwrap();
            assert!(x.to_vec::<i64>().unwrap().is_empty());
        }
    }
    // One element on an axis: some devices hold none of it, wherever a step would lead.
    let one = HostData::owned(vec![1_i64, 2, 3], [3]).unwrap();
    let one = one.with_strides([3, 1], &[-1, isize::MIN + 1], 2).unwrap();
    for axis in [0, 1] {
        let mapping = DeviceMapping::new(&mesh(), [Place::Sharded(axis), Place::Replicated]).unwrap();
        for copy in [HostCopy::Always, HostCopy::WhereNeeded] {
            assert_eq!(place_host_array(&one, &mapping, copy).unwrap().to_vec::<i64>().unwrap(), [3, 2, 1]);
        }
    }
    assert_eq!(data().to_vec::<f32>().unwrap_err().kind(), ErrorKind::DType);
    let pieces = HostData::pieces(DType::I64, [3], |_, _| ()).unwrap();
    assert_eq!(kind(pieces.with_strides([1], &[1], 0)), ErrorKind::Argument);
    let view = ndarray::arr0(5_i64);
    assert_eq!((&view).host_data().unwrap().to_vec::<i64>().unwrap(), [5]);
}

/// Memory whose owner panics, or gives less than before, after so many questions.
struct Fickle {
    left: std::sync::atomic::AtomicUsize,
    panics: bool,
    bytes: Vec<u8>,
}

impl sharding_core::backend::HostMemory for Fickle {
    fn bytes(&self) -> &[u8] {
        use std::sync::atomic::Ordering::SeqCst;
        match self.left.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1)) {
            Ok(_) => &self.bytes,
            Err(_) if self.panics => panic!("the owner's panic"),
            Err(_) => &self.bytes[..4],
        }
    }
}

#[test]
fn host_memory_that_fails_is_an_error() {
    let mesh = DeviceMesh::simulated(BackendKind::CPU, [2], ["x"]).unwrap();
    let rows = DeviceMapping::new(&mesh, [Place::Sharded(0)]).unwrap();
    let after = |questions: usize, panics| {
        let memory = Fickle { left: questions.into(), panics, bytes: vec![1; 16] };
        HostData::shared(DType::F32, [4], std::sync::Arc::new(memory)).unwrap()
    };
    let fickle = |panics| after(1, panics);
    let pieces = || HostData::pieces(DType::F32, [4], |_, _| panic!("the owner's panic")).unwrap();
    let check = |panics, kind, text: &str| {
        let data = || fickle(panics);
        for copy in [HostCopy::Always, HostCopy::WhereNeeded] {
            let error = Tensor::place_host_array(&data(), &rows, copy).unwrap_err();
            assert_eq!(error.kind(), kind, "{error}");
        }
        // A tensor that keeps it: uses are right until the owner fails, and this error from then on.
        type Use = fn(&Tensor) -> Result<()>;
        let uses: [(&str, Use); 5] = [
            ("to_vec", |x| x.to_vec::<f32>().map(drop)),
            ("shard_to_vec", |x| x.shard_to_vec::<f32>(1).map(drop)),
            ("host_view", |x| x.addressable_shards().try_for_each(|shard| shard.host_view().map(drop))),
            ("relu", |x| relu(x).map(drop)),
            ("matmul", |x| reshape(x, &[2, 2]).and_then(|x| matmul(&x, &x)).map(drop)),
        ];
        for (what, used) in uses {
            for questions in 2..6 {
                let data = after(questions, panics);
                let x = Tensor::place_host_array(&data, &rows, HostCopy::WhereNeeded).unwrap();
                let error = (0..20).find_map(|_| used(&x).err());
                let error = error.unwrap_or_else(|| panic!("{what} never asks for the bytes"));
                assert_eq!(error.kind(), kind, "{what} after {questions} questions: {error}");
            }
        }
        let error = data().to_vec::<f32>().unwrap_err();
        assert!(error.kind() == kind && error.to_string().contains(text), "{error}");
    };
    check(true, ErrorKind::Kernel, "HostMemory::bytes panicked: the owner's panic");
    check(false, ErrorKind::Backend, "4 bytes of host memory are fewer than f32[4]");
    let error = Tensor::place_host_array(&pieces(), &rows, HostCopy::Always).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Kernel, "{error}");
    assert!(pieces().to_vec::<f32>().unwrap_err().to_string().contains("HostData::pieces panicked"));
}

#[test]
fn arrays_are_placed_by_shardings_of_every_kind() -> Result<()> {
    let devices: Vec<Device> = [2, 0, 3, 1].map(|slot| Device::cpu().with_slot(slot)).into();
    let mesh = DeviceMesh::new(&devices, [2, 2], ["x", "y"])?;
    let array = Array::from_iter(0..16_i64).into_shape_with_order(IxDyn(&[4, 4])).unwrap();
    let positional = PositionalSharding::new(&devices, [4])?.reshape(&[2, 2])?;
    let gspmd = |text: &str| GspmdSharding::new(&devices, text.parse()?);
    let kinds: Vec<Arc<dyn Sharding>> = vec![
        Arc::new(positional.transpose(&[1, 0])?),
        Arc::new(positional.replicate(Some(&[0]), true)?),
        Arc::new(positional.replicate(None, true)?),
        Arc::new(PmapSharding::default(&[4, 4].into(), Some(1), Some(&devices))?),
        Arc::new(PmapSharding::default(&[4, 4].into(), None, Some(&devices))?),
        Arc::new(gspmd("{replicated}")?),
        Arc::new(gspmd("{maximal device=2}")?),
        Arc::new(gspmd("{devices=[1,4]<=[4]}")?),
        // In no order of mesh axes.
        Arc::new(gspmd("{devices=[2,2]0,1,3,2}")?),
        Arc::new(NamedSharding::new(&mesh, spec![None, ("y", "x")])?),
        Arc::new(SingleDeviceSharding::new(devices[1])),
        Arc::new(DeviceMapping::new(&mesh, [Place::Sharded(1), Place::Replicated])?),
    ];
    for sharding in kinds {
        let indices = sharding.devices_indices_map(&[4, 4].into())?;
        for copy in [HostCopy::Always, HostCopy::WhereNeeded] {
            let x = place_host_array(array.view(), &*sharding, copy)?;
            assert_eq!(x.addressable_shards().len(), sharding.num_devices(), "{sharding}");
            for shard in x.addressable_shards() {
                assert_eq!(shard.index(), &indices.of(shard.device())?, "{sharding}");
                let part = array.slice_each_axis(|axis| {
                    let range = shard.index()[axis.axis.index()][0].clone();
                    Slice::from(range.start as isize..range.end as isize)
                });
                assert_eq!(shard.to_ndarray::<i64>()?, part, "{sharding}");
            }
            assert_eq!(x.to_ndarray::<i64>()?, array, "{sharding}");
            // And moved there.
            let whole =
                Tensor::from_slice(&x.to_vec::<i64>()?, [4, 4], &SingleDeviceSharding::new(Device::cpu()))?;
            assert_eq!(transfer_to(&whole, &sharding)?.to_ndarray::<i64>()?, array, "{sharding}");
        }
    }
    let refused = |sharding: Result<GspmdSharding>| {
        place_host_array(array.view(), &sharding.unwrap(), HostCopy::Always).unwrap_err().kind()
    };
    assert_eq!(refused(gspmd("{manual}")), ErrorKind::Sharding);
    assert_eq!(refused(gspmd("{unknown}")), ErrorKind::Sharding);
    assert_eq!(refused(gspmd("{devices=[4]<=[4]}")), ErrorKind::Dimensions);
    // Parts of a sum: the first has the value.
    let parts = place_host_array(array.view(), &gspmd("{unreduced}")?, HostCopy::Always)?;
    assert_eq!(parts.shard_to_vec::<i64>(1)?, [0; 16]);
    assert_eq!(parts.to_ndarray::<i64>()?, array);
    Ok(())
}
