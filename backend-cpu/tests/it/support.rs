//! Arrays, views of every kind, and how a primitive is run.

use backend_cpu::CpuBackend;
use proptest::prelude::*;
use sharding_core::backend::{Backend, LocalArray, LocalMeta, Primitive, Support, Work};
use sharding_core::{DType, Device, Element, Result, Shape};

/// An element that tests can make and read.
pub(crate) trait Sample: Element + PartialOrd {
    /// The `i`-th of a fixed sequence of uneven values of both signs.
    fn sample(i: u64) -> Self;
}

/// Steele, Lea and Flood's mixing function: neighbours give unrelated numbers.
pub(crate) fn mix(i: u64) -> u64 {
    let z = i.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Sample for f32 {
    fn sample(i: u64) -> Self {
        match mix(i) % 64 {
            0 => 0.0,
            1 => -0.0,
            other => (mix(i) >> 40) as f32 / f32::powi(2.0, 20 + (other % 8) as i32) - 1.5,
        }
    }
}
impl Sample for i64 {
    fn sample(i: u64) -> Self {
        match mix(i) % 16 {
            0 => i64::MIN,
            1 => i64::MAX,
            2 => 0,
            other => (mix(i) >> (8 + other * 3)) as i64 - 40,
        }
    }
}
impl Sample for bool {
    fn sample(i: u64) -> Self {
        mix(i) & 1 == 1
    }
}

pub(crate) fn array<T: Element>(shape: impl Into<Shape>, values: &[T]) -> LocalArray {
    let mut array = CpuBackend.alloc(Device::cpu(), T::DTYPE, &shape.into()).unwrap();
    CpuBackend.write(&T::to_bytes(values), &mut array).unwrap();
    array
}

pub(crate) fn values<T: Element>(array: &LocalArray) -> Vec<T> {
    assert_eq!(array.dtype(), T::DTYPE);
    let mut bytes = vec![0; array.bytes()];
    CpuBackend.read(array, &mut bytes).unwrap();
    T::from_bytes(&bytes)
}

/// Runs a primitive, which `supports` must have announced.
pub(crate) fn launch(
    primitive: &Primitive,
    inputs: &[&LocalArray],
    dtype: DType,
    shape: &Shape,
) -> Result<LocalArray> {
    let metas: Vec<LocalMeta> = inputs.iter().map(|x| x.meta().clone()).collect();
    assert_eq!(CpuBackend.supports(primitive, &metas), Support::Yes);
    force(primitive, inputs, dtype, shape)
}

/// Runs a primitive whatever `supports` says.
pub(crate) fn force(
    primitive: &Primitive,
    inputs: &[&LocalArray],
    dtype: DType,
    shape: &Shape,
) -> Result<LocalArray> {
    let device = Device::cpu();
    let mut outputs = [CpuBackend.alloc(device, dtype, shape)?];
    CpuBackend.launch(primitive, &mut [Work { op: "test", device, inputs, outputs: &mut outputs }])?;
    let [output] = outputs;
    assert!(output.is_contiguous());
    Ok(output)
}

/// Runs a primitive for several devices at once.
pub(crate) fn launch_all(
    primitive: &Primitive,
    inputs: &[Vec<&LocalArray>],
    dtype: DType,
    shapes: &[Shape],
) -> Vec<LocalArray> {
    let device = Device::cpu();
    let mut outputs: Vec<[LocalArray; 1]> =
        shapes.iter().map(|shape| [CpuBackend.alloc(device, dtype, shape).unwrap()]).collect();
    let work = inputs.iter().zip(&mut outputs);
    let mut work: Vec<Work<'_>> =
        work.map(|(inputs, outputs)| Work { op: "test", device, inputs, outputs }).collect();
    CpuBackend.launch(primitive, &mut work).unwrap();
    outputs.into_iter().flatten().collect()
}

/// Every index of a shape, in row-major order.
pub(crate) fn indices(shape: &[usize]) -> Vec<Vec<usize>> {
    let mut all = vec![vec![]];
    for extent in shape {
        all = all
            .iter()
            .flat_map(|index: &Vec<usize>| (0..*extent).map(|i| [index.as_slice(), &[i]].concat()))
            .collect();
    }
    all
}

/// The row-major number of an index.
pub(crate) fn number(shape: &[usize], index: &[usize]) -> usize {
    shape.iter().zip(index).fold(0, |at, (extent, i)| at * extent + i)
}

/// Extents with 0 and 1 as normal cases.
pub(crate) fn extent() -> impl Strategy<Value = usize> {
    prop_oneof![1 => Just(0_usize), 3 => Just(1), 8 => 2..6_usize, 2 => 6..40_usize]
}

pub(crate) fn shape(axes: std::ops::RangeInclusive<usize>) -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(extent(), axes)
}

/// How a view lies in a larger storage.
#[derive(Clone, Debug)]
pub(crate) struct Form {
    /// Per axis: gap before, gap after, whether it is read backwards, whether it broadcasts.
    axes: Vec<(usize, usize, bool, bool)>,
    /// The order of axes in memory.
    order: Vec<usize>,
    seed: u64,
}

impl Form {
    /// The same with an element for every index, so that it can be written to.
    pub(crate) fn without_broadcast(&self) -> Self {
        let axes = self.axes.iter().map(|(before, after, flip, _)| (*before, *after, *flip, false)).collect();
        Form { axes, ..self.clone() }
    }
}

pub(crate) fn form(axes: usize) -> impl Strategy<Value = Form> {
    let dense = prop::bool::weighted(0.3);
    let gap = || prop_oneof![3 => Just(0_usize), 1 => 1..3_usize];
    let axis = (gap(), gap(), prop::bool::weighted(0.2), prop::bool::weighted(0.15));
    let order = Just((0..axes).collect::<Vec<_>>()).prop_shuffle();
    (dense, prop::collection::vec(axis, axes), order, any::<u64>()).prop_map(
        move |(dense, list, order, seed)| {
            if dense {
                Form { axes: vec![(0, 0, false, false); axes], order: (0..axes).collect(), seed }
            } else {
                Form { axes: list, order, seed }
            }
        },
    )
}

/// A view of the given shape and form, and its elements in row-major order.
pub(crate) fn view<T: Sample>(shape: &[usize], form: &Form) -> (LocalArray, Vec<T>) {
    assert_eq!(shape.len(), form.axes.len());
    let held = |axis: usize| {
        let (before, after, _, broadcast) = form.axes[axis];
        if broadcast { 1 } else { before + shape[axis] + after }
    };
    let extents: Vec<usize> = form.order.iter().map(|axis| held(*axis)).collect();
    let count: usize = extents.iter().product();
    let data: Vec<T> = (0..count as u64).map(|i| T::sample(form.seed.wrapping_add(i))).collect();
    let base = array(extents.as_slice(), &data);
    let back: Vec<usize> =
        (0..shape.len()).map(|axis| form.order.iter().position(|other| *other == axis).unwrap()).collect();
    let mut found = base.permute(&back);
    for (axis, (before, _, flip, broadcast)) in form.axes.iter().enumerate() {
        if *broadcast {
            continue;
        }
        found = found.slice(axis, *before, shape[axis]);
        if *flip && shape.iter().all(|n| *n > 0) {
            let mut meta = found.meta().clone();
            let stride = meta.strides[axis];
            meta.offset = meta.offset.checked_add_signed(stride * (shape[axis] as isize - 1)).unwrap();
            meta.strides[axis] = -stride;
            found = LocalArray::new(meta, found.storage().clone());
        }
    }
    let found = found.broadcast_to(&shape.into()).unwrap();
    let place = |index: &Vec<usize>| {
        let at: Vec<usize> = form
            .order
            .iter()
            .map(|axis| {
                let (before, _, flip, broadcast) = form.axes[*axis];
                let i = if flip { shape[*axis] - 1 - index[*axis] } else { index[*axis] };
                if broadcast { 0 } else { before + i }
            })
            .collect();
        number(&extents, &at)
    };
    let expected = indices(shape).iter().map(|index| data[place(index)]).collect();
    (found, expected)
}

/// Equal to the bit, where every NaN is the same.
pub(crate) fn assert_same<T: Element>(got: &[T], want: &[T]) {
    assert_eq!(got.len(), want.len());
    for (i, (got, want)) in got.iter().zip(want).enumerate() {
        let nan = |x: &T| x.scalar().as_f64().is_nan();
        let same = T::to_bytes(&[*got]) == T::to_bytes(&[*want]) || (nan(got) && nan(want));
        assert!(same, "element {i} is {got:?}, not {want:?}");
    }
}

/// Within a bound relative to `scale`.
pub(crate) fn assert_close(got: &[f32], want: &[f64], scale: &[f64]) {
    assert_eq!(got.len(), want.len());
    for (i, ((got, want), scale)) in got.iter().zip(want).zip(scale).enumerate() {
        let bound = 4.0 * f64::from(f32::EPSILON) * scale.abs() + 1e-38;
        assert!((f64::from(*got) - want).abs() <= bound, "element {i} is {got}, not {want}");
    }
}
