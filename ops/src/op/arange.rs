//! Numbers at equal distances.

use crate::made::{Wanted, mapping_of};
use sharding_core::backend::{IndexMap, Iota, LocalArray};
use sharding_core::placement::Ranges;
use sharding_core::{DType, Error, ErrorKind, KernelCx, Result, Scalar, Shape, Target, Tensor};

/// Whole numbers up to this size have an `f64` of their own: 2^53.
const EXACT: i64 = 1 << 53;

/// The numbers `start`, `start + step`, .. before `stop`, on one axis laid out by `target`: every device makes its own
/// piece, nothing is sent. `stop` is left out; a negative `step` counts down; where `stop` lies in the other direction there
/// are none. The mapping may split the axis in any way; on a Partial axis the numbers count once.
///
/// An integer dtype takes integers. Floating-point numbers are `start + step * i`, computed in `f64` and rounded once, so
/// that each is the same wherever the axis is cut; there are `ceil((stop - start) / step)` of them, as in NumPy.
///
/// ```
/// use sharding_ops::*;
/// let mesh = DeviceMesh::simulated(BackendKind::CPU, [2], ["tp"])?;
/// let x = arange(0, 5, 1, DType::I64, &DeviceMapping::new(&mesh, [Sharded(0)])?)?;
/// assert_eq!(x.to_vec::<i64>()?, [0, 1, 2, 3, 4]);
/// assert_eq!(x.shard_to_vec::<i64>(1)?, [3, 4]);
/// let y = arange(1.0, 0.0, -0.25, DType::F32, &DeviceMapping::replicated(&mesh))?;
/// assert_eq!(y.to_vec::<f32>()?, [1.0, 0.75, 0.5, 0.25]);
/// # Ok::<(), sharding_ops::Error>(())
/// ```
///
/// # Errors
/// [`ErrorKind::Argument`](crate::ErrorKind::Argument) for a step of 0 or a number that is not finite,
/// [`ErrorKind::DType`](crate::ErrorKind::DType) for truth values, fractions as integers, or integers that the dtype does not
/// hold, [`ErrorKind::Overflow`](crate::ErrorKind::Overflow) for integers beyond 2^53 or more numbers than a shape can have,
/// [`ErrorKind::Mapping`](crate::ErrorKind::Mapping) for Unknown or a mapping that does not fit.
#[track_caller]
pub fn arange(
    start: impl Into<Scalar>,
    stop: impl Into<Scalar>,
    step: impl Into<Scalar>,
    dtype: DType,
    target: &(impl Target + ?Sized),
) -> Result<Tensor> {
    const OP: &str = "arange";
    let Count { n, start, step } = count(start.into(), stop.into(), step.into(), dtype)
        .map_err(|error| error.with_op(OP).with_operands([format!("value: {dtype}")]))?;
    let shape = Shape::from([n]);
    let mapping = mapping_of(OP, dtype, &shape, target)?;
    let wanted = Wanted { op: OP, dtype, shape, mapping: &mapping };
    let identity = mapping.places().iter().find_map(|place| place.reduce_op()).map(|op| op.identity(dtype));
    let none = Ranges::new;
    wanted.make(
        // The global indices, and the value of parts that count for nothing.
        |cx| match identity {
            Some(identity) if !cx.is_first_part(0)? => Ok((none(), Some((identity, cx.result_shape(0)?)))),
            _ => Ok((cx.result_region(0)?.into_iter().next().unwrap_or_else(none), None)),
        },
        |cx, (indices, filled)| match filled {
            Some((identity, shape)) => cx.fill(*identity, dtype, shape),
            None => numbers(cx, indices, Iota { axis: 0, first: 0, start, step, dtype }),
        },
    )
}

/// The numbers at these indices, one range after the other.
fn numbers(cx: &mut KernelCx<'_>, indices: &Ranges, iota: Iota) -> Result<LocalArray> {
    let mut run = |first: usize, len: usize| cx.iota(Iota { first, ..iota.clone() }, &Shape::from([len]));
    match indices.as_slice() {
        [] => run(0, 0),
        [one] => run(one.start, one.len()),
        several => {
            let runs = several.iter().map(|one| run(one.start, one.len())).collect::<Result<Vec<_>>>()?;
            let shapes: Vec<Shape> = runs.iter().map(|run| run.shape().clone()).collect();
            let map = IndexMap::concat(&shapes, 0)
                .ok_or_else(|| Error::new(ErrorKind::Internal, format!("runs of {shapes:?} do not join")))?;
            cx.copy(map, &runs.iter().collect::<Vec<_>>())
        }
    }
}

/// How many numbers there are, and which.
#[derive(Debug, PartialEq)]
struct Count {
    n: usize,
    start: f64,
    step: f64,
}

fn count(start: Scalar, stop: Scalar, step: Scalar, dtype: DType) -> Result<Count> {
    let all = [("start", start), ("stop", stop), ("step", step)];
    if dtype == DType::Bool || all.iter().any(|(_, value)| matches!(value, Scalar::Bool(_))) {
        return Err(Error::new(ErrorKind::DType, "truth values are not counted")
            .with_fix("pass numbers, and DType::I64 or a floating-point dtype"));
    }
    if let Some((name, value)) = all.iter().find(|(_, value)| !value.as_f64().is_finite()) {
        return Err(Error::new(ErrorKind::Argument, format!("{name} is {value}"))
            .with_fix("pass finite numbers; the count follows from them"));
    }
    if step.as_f64() == 0.0 {
        return Err(
            Error::new(ErrorKind::Argument, "a step of 0 never arrives").with_fix("use another step, 1 say")
        );
    }
    let many = |n: String| {
        Error::new(ErrorKind::Overflow, format!("{start}..{stop} by {step} has {n} numbers"))
            .with_fix("use a larger step or a nearer stop")
    };
    if dtype.is_float() {
        let (start, stop, step) = (start.as_f64(), stop.as_f64(), step.as_f64());
        let n = ((stop - start) / step).ceil().max(0.0);
        // `isize::MAX` as f64 rounds up: what is below it fits.
        return if n < isize::MAX as f64 {
            Ok(Count { n: n as usize, start, step })
        } else {
            Err(many(n.to_string()))
        };
    }
    let [start, stop, step] = [start, stop, step].map(|value| match value {
        Scalar::Int(value) => Ok(value),
        other => Err(Error::new(
            ErrorKind::DType,
            format!("{other} is no integer, and {dtype} counts in integers"),
        )
        .with_fix("pass integers, or a floating-point dtype")),
    });
    let (start, stop, step) = (start?, stop?, step?);
    let distance = (i128::from(stop) - i128::from(start)) * i128::from(step.signum());
    let n = (distance.max(0).unsigned_abs()).div_ceil(u128::from(step.unsigned_abs()));
    let n = isize::try_from(n).map_err(|_| many(n.to_string()))?;
    let last = i128::from(start) + i128::from(step) * (i128::from(n as i64) - 1).max(0);
    let beyond = |value: i128| value.unsigned_abs() > u128::from(EXACT.unsigned_abs());
    if n > 0 && (beyond(start.into()) || beyond(last) || (n > 1 && beyond(step.into()))) {
        return Err(Error::new(
            ErrorKind::Overflow,
            format!("{start}..={last} reaches beyond {EXACT}, up to which numbers are counted exactly"),
        )
        .with_fix("count from 0 and add the start: (&arange(0, ..)? + start)?"));
    }
    let holds = |value: i128| i64::try_from(value).is_ok_and(|v| Scalar::Int(v).to_bytes(dtype).is_some());
    if n > 0 && !(holds(start.into()) && holds(last)) {
        return Err(Error::new(ErrorKind::DType, format!("{dtype} does not hold all of {start}..={last}"))
            .with_fix("use a wider dtype"));
    }
    // A step that is not exact goes with at most one number, which does not look at it.
    Ok(Count { n: n.unsigned_abs(), start: start as f64, step: step as f64 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BackendKind, DeviceMapping, DeviceMesh, Interleaved, Place, Ragged, ReduceOp};
    use proptest::prelude::*;

    fn of(
        start: impl Into<Scalar>,
        stop: impl Into<Scalar>,
        step: impl Into<Scalar>,
        dtype: DType,
    ) -> Result<usize> {
        count(start.into(), stop.into(), step.into(), dtype).map(|count| count.n)
    }

    proptest! {
        #[test]
        fn integers_are_those_of_a_loop(start in -20_i64..20, stop in -20_i64..20, step in -7_i64..8) {
            prop_assume!(step != 0);
            let mut want = 0;
            let mut at = start;
            while if step > 0 { at < stop } else { at > stop } {
                want += 1;
                at += step;
            }
            prop_assert_eq!(of(start, stop, step, DType::I64).unwrap(), want);
            prop_assert_eq!(of(start, stop, step, DType::F32).unwrap(), want);
        }
    }

    #[test]
    fn what_cannot_be_counted_is_refused() {
        let kind = |result: Result<usize>| result.unwrap_err().kind();
        assert_eq!(kind(of(0, 4, 0, DType::I64)), ErrorKind::Argument);
        assert_eq!(kind(of(0.0, f64::NAN, 1.0, DType::F32)), ErrorKind::Argument);
        assert_eq!(kind(of(0, 4, 0.5, DType::I64)), ErrorKind::DType);
        assert_eq!(kind(of(false, true, true, DType::Bool)), ErrorKind::DType);
        assert_eq!(kind(of(i64::MIN, i64::MAX, 1, DType::I64)), ErrorKind::Overflow);
        assert_eq!(kind(of(0, EXACT + 2, EXACT + 1, DType::I64)), ErrorKind::Overflow);
        assert_eq!(kind(of(0.0, 1e300, 1.0, DType::F32)), ErrorKind::Overflow);
        assert_eq!(kind(of(-EXACT, 2, EXACT + 1, DType::I64)), ErrorKind::Overflow);
        assert_eq!(of(EXACT - 2, EXACT + 1, 1, DType::I64).unwrap(), 3);
    }

    #[test]
    fn every_placement_has_the_same_numbers() {
        let mesh = DeviceMesh::simulated(BackendKind::CPU, [2, 3], ["dp", "tp"]).unwrap();
        let r = Place::Replicated;
        let placements: [[Place; 2]; 7] = [
            [r, r],
            [r, Place::Sharded(0)],
            [Place::Sharded(0), Place::Sharded(0)],
            [r, Ragged::place(0, [1, 9, 0])],
            [r, Interleaved::place(0, [4, 6])],
            [Place::Partial(ReduceOp::Max), Place::Sharded(0)],
            [Place::PARTIAL, r],
        ];
        // Tenths are no binary fractions: to start again at each border would round differently.
        let want: Vec<f32> = (0..10).map(|i| (0.3 + 0.1 * f64::from(i)) as f32).collect();
        for places in placements {
            let x = arange(0.3, 1.25, 0.1, DType::F32, &DeviceMapping::new(&mesh, places).unwrap()).unwrap();
            assert_eq!(x.to_vec::<f32>().unwrap(), want, "{places:?}");
            assert_eq!(x.layout().places(), places);
        }
    }
}
