//! Every op on every placement equals the op on one device: random layouts of the cases' operands, with parts of all
//! combinations, splits that do not nest, custom placements, one-device operands and numbers among them.

use crate::Numbers;
use sharding_core::backend::StepKind;
use sharding_core::conformance::host::{rounded, scalars, tolerance, wrapped};
use sharding_core::op::{Case, Fill, OpDef, OperandKind, Registry};
use sharding_core::{AxisType, DType, dispatch_dyn, plan_call};
use sharding_ops::{
    BackendKind, Device, DeviceMapping, DeviceMesh, ErrorKind, Interleaved, Operand, Place, Policy, Ragged,
    ReduceOp, Result, Scalar, Tensor, TensorBuffer, TensorLayout, auto_reshard,
};
use std::collections::BTreeMap;
use stress::zigzag::Zigzag;

/// Host values: all dtypes as f64, exact for what the tests use; see [`element`].
#[derive(Clone, Debug)]
struct Host {
    dtype: DType,
    shape: Vec<usize>,
    values: Vec<f64>,
}

/// A number as an element: wrapped to an integer dtype, rounded to a float one.
fn element(value: f64, dtype: DType) -> Scalar {
    match dtype {
        DType::Bool => Scalar::Bool(value > 0.0),
        _ if dtype.is_float() => rounded(value, dtype),
        _ => wrapped(value as i128, dtype),
    }
}

fn upload(host: &Host, mapping: &DeviceMapping) -> Result<Tensor> {
    let layout = TensorLayout::new(host.dtype, host.shape.as_slice(), mapping.clone())?;
    let elements = host.values.iter().map(|value| element(*value, host.dtype));
    let bytes: Vec<u8> =
        elements.flat_map(|element| element.to_bytes(host.dtype).unwrap_or_default()).collect();
    Tensor::from_bytes(&bytes, layout)
}

fn read(x: &Tensor) -> Result<Vec<f64>> {
    let bytes = x.to_bytes()?;
    Ok(scalars(x.dtype(), &bytes).into_iter().map(Scalar::as_f64).collect())
}

fn values(numbers: &mut Numbers, dtype: DType, fill: Fill, n: usize) -> Vec<f64> {
    (0..n)
        .map(|_| match (fill, dtype) {
            (Fill::Below(bound), _) => numbers.below(bound) as f64,
            (_, DType::Bool) => numbers.below(2) as f64,
            (Fill::Positive, _) if dtype.is_float() => 0.5 + numbers.below(9) as f64 / 2.0,
            (Fill::Positive, _) => 1.0 + numbers.below(5) as f64,
            _ => {
                let v = numbers.below(12) as f64 - 6.0;
                let v = if v < 0.0 { v } else { v + 1.0 };
                if dtype.is_float() || dtype.is_signed() { v } else { v.abs() }
            }
        })
        .collect()
}

/// Unequal parts, of both signs or wrapped, whose combination is `value`.
fn parts(numbers: &mut Numbers, dtype: DType, op: ReduceOp, value: f64, n: usize) -> Vec<f64> {
    let signed = dtype.is_float() || dtype.is_signed();
    let at = numbers.below(n);
    let mut parts: Vec<f64> = (0..n)
        .map(|_| match op {
            ReduceOp::Sum => numbers.below(9) as f64 - 4.0,
            ReduceOp::Max if signed => value - numbers.below(4) as f64,
            ReduceOp::Max => (value - numbers.below(4) as f64).max(0.0),
            ReduceOp::Min => value + numbers.below(4) as f64,
            ReduceOp::Prod => [1.0, -1.0][numbers.below(2)],
        })
        .collect();
    let others = |parts: &[f64], f: fn(f64, f64) -> f64, start: f64| {
        parts.iter().enumerate().filter(|(i, _)| *i != at).fold(start, |a, (_, b)| f(a, *b))
    };
    parts[at] = match op {
        ReduceOp::Sum => value - others(&parts, |a, b| a + b, 0.0),
        ReduceOp::Max | ReduceOp::Min => value,
        ReduceOp::Prod => value * others(&parts, |a, b| a * b, 1.0),
    };
    parts
}

/// A tensor of these values in any placement but Unknown, with real parts on Partial axes.
fn place(numbers: &mut Numbers, host: &Host, mesh: &DeviceMesh, places: &[Place]) -> Result<Tensor> {
    let mapping = DeviceMapping::new(mesh, places)?;
    let layout = TensorLayout::new(host.dtype, host.shape.as_slice(), mapping.clone())?;
    let Some(op) = places.iter().find_map(|place| place.reduce_op()) else {
        return upload(host, &mapping);
    };
    let axes: Vec<usize> = (0..places.len()).filter(|axis| places[*axis].is_partial()).collect();
    let ways: usize = axes.iter().map(|axis| mesh.size(*axis)).product();
    let whole: Vec<Place> =
        places.iter().map(|place| if place.is_partial() { Place::Replicated } else { *place }).collect();
    let whole = DeviceMapping::new(mesh, whole)?;
    let split: Vec<Vec<f64>> = host.values.iter().map(|v| parts(numbers, host.dtype, op, *v, ways)).collect();
    let terms: Vec<Tensor> = (0..ways)
        .map(|part| upload(&Host { values: split.iter().map(|p| p[part]).collect(), ..host.clone() }, &whole))
        .collect::<Result<_>>()?;
    let positions = terms[0].positions().clone();
    let shards = positions
        .iter()
        .enumerate()
        .map(|(i, position)| {
            let part = mesh.device_coord(*position, &axes).unwrap();
            terms[part].shards()[i].clone()
        })
        .collect();
    Tensor::from_shards(layout, positions, shards)
}

fn random_place(numbers: &mut Numbers, host: &Host, ways: usize, op: ReduceOp) -> Place {
    let axis = numbers.below(host.shape.len());
    let extent = host.shape.get(axis).copied().unwrap_or(1);
    if host.shape.is_empty() {
        return if numbers.chance(2) { Place::Replicated } else { Place::Partial(op) };
    }
    match numbers.below(9) {
        0 | 1 => Place::Replicated,
        2..=4 => Place::Sharded(axis as u8),
        5 => {
            let first = numbers.below(extent + 1);
            Place::custom(Interleaved::new(axis, [first, extent - first]))
        }
        6 => {
            let mut sizes = vec![0; ways];
            for _ in 0..extent {
                sizes[numbers.below(ways)] += 1;
            }
            Ragged::place(axis, sizes)
        }
        7 => Place::custom(Zigzag { axis }),
        _ => Place::Partial(op),
    }
}

fn call(
    def: &'static OpDef,
    case: &Case,
    tensors: &[Tensor],
    numbers: &[Option<Scalar>],
) -> Result<Vec<Tensor>> {
    let mut buffers: Vec<TensorBuffer> = tensors.iter().cloned().map(TensorBuffer::new).collect();
    let mut operands = Vec::new();
    let mut next = 0;
    let mut free = buffers.iter_mut();
    for (declared, n) in def.operands.iter().zip(&case.groups) {
        let own = &tensors[next..next + usize::from(*n)];
        let number = numbers.get(next).copied().flatten();
        next += usize::from(*n);
        operands.push(match (declared.kind, number) {
            (OperandKind::Many, _) => Operand::Many(own),
            (OperandKind::Optional, _) => Operand::Optional(own.first()),
            (OperandKind::Written, _) => Operand::Written(free.next().unwrap()),
            (_, Some(number)) => Operand::Scalar(number),
            _ => Operand::Tensor(&own[0]),
        });
    }
    let results = dispatch_dyn(def, &mut operands, &*case.args)?;
    let mut all: Vec<Tensor> = results.all().into_vec();
    drop(operands);
    if def.operands.iter().any(|operand| operand.kind == OperandKind::Written) {
        all.push(buffers[0].to_tensor());
    }
    Ok(all)
}

/// Equal within `bound`, relative to the greater of 1 and their size.
fn close(a: f64, b: f64, bound: f64) -> bool {
    a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= bound * a.abs().max(b.abs()).max(1.0)
}

/// How far results may be apart where this dtype takes part: parts are up to ten times as large as what they add up to,
/// and each is rounded.
fn bound(dtype: DType) -> f64 {
    10.0 * tolerance(dtype)
}

/// A mesh of devices in the order of their slots, and one of other devices in another order.
fn in_both_orders(shape: &[usize]) -> [DeviceMesh; 2] {
    let names = &["v", "w", "x", "y", "z"][..shape.len()];
    let n = shape.iter().product::<usize>() as u32;
    let turned: Vec<Device> = (0..n).rev().map(|i| Device::cpu().with_slot(3 + i)).collect();
    [
        DeviceMesh::simulated(BackendKind::CPU, shape, names).unwrap(),
        DeviceMesh::new(&turned, shape, names).unwrap(),
    ]
}

#[test]
fn any_placement_gives_the_one_device_result() -> Result<()> {
    let shapes: [&[usize]; 11] =
        [&[1], &[2], &[3], &[4], &[5], &[2, 3], &[2, 2], &[3, 2], &[1, 1], &[2, 1, 2], &[2, 1, 2, 1, 3]];
    let meshes: Vec<DeviceMesh> = shapes.into_iter().flat_map(in_both_orders).collect();
    let rounds: usize = std::env::var("ATTACK_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(40);
    let mut numbers = Numbers(
        std::env::var("ATTACK_SEED").ok().and_then(|n| n.parse().ok()).unwrap_or(0x9E37_79B9_7F4A_7C15),
    );
    let one = DeviceMesh::single(Device::cpu());
    let elsewhere = DeviceMesh::single(Device::cpu().with_slot(9));
    let mut wrong: BTreeMap<String, (usize, String)> = BTreeMap::new();
    let mut note = |key: String, text: String| {
        wrong.entry(key).and_modify(|(n, _)| *n += 1).or_insert((1, text));
    };
    let (mut compared, mut refused) = (0, 0);
    for def in Registry::get()?.ops() {
        if def.at.0.contains("attack") {
            continue;
        }
        let mut cases = sharding_core::op::Cases::new();
        (def.cases)(&mut cases);
        let written = def.operands.iter().any(|operand| operand.kind == OperandKind::Written);
        for case in cases.iter() {
            for _ in 0..rounds {
                let mesh = &meshes[numbers.below(meshes.len())];
                let mut hosts: Vec<Host> = Vec::new();
                for operand in &case.operands {
                    let meta = &operand.meta;
                    let n = meta.shape.elements();
                    hosts.push(Host {
                        dtype: meta.dtype,
                        shape: meta.shape.to_vec(),
                        values: values(&mut numbers, meta.dtype, operand.fill, n),
                    });
                }
                let mut numbers_given: Vec<Option<Scalar>> = vec![None; hosts.len()];
                if def.operands.len() == case.operands.len() && numbers.chance(3) {
                    let i = numbers.below(hosts.len());
                    if def.operands[i].kind == OperandKind::Scalar && hosts.len() > 1 {
                        let v = hosts[i].values.first().copied().unwrap_or(3.0);
                        numbers_given[i] = Some(match hosts[i].dtype {
                            DType::Bool => Scalar::Bool(v != 0.0),
                            dtype if dtype.is_float() => Scalar::Float(v),
                            _ => Scalar::Int(v as i64),
                        });
                    }
                }
                let whole: Vec<Tensor> = hosts
                    .iter()
                    .map(|host| upload(host, &DeviceMapping::replicated(&one)))
                    .collect::<Result<_>>()?;
                let want = call(def, case, &whole, &numbers_given)?;
                let want: Vec<Vec<f64>> = want.iter().map(read).collect::<Result<_>>()?;
                let op = if numbers.chance(2) {
                    ReduceOp::Sum
                } else {
                    [ReduceOp::Max, ReduceOp::Min, ReduceOp::Prod][numbers.below(3)]
                };
                let mut placed = Vec::new();
                let mut first_places: Option<Vec<Place>> = None;
                for host in &hosts {
                    if !written && numbers.chance(8) && hosts.len() > 1 {
                        placed.push(upload(host, &DeviceMapping::replicated(&elsewhere))?);
                        continue;
                    }
                    let mut places: Vec<Place> = (0..mesh.ndim())
                        .map(|axis| random_place(&mut numbers, host, mesh.size(axis), op))
                        .collect();
                    // Written operands move nothing: the source lies alike, so that something runs.
                    if let Some(first) = &first_places
                        && (written || numbers.chance(3))
                    {
                        places = first.clone();
                    }
                    let partial_ok = host.dtype != DType::Bool;
                    if !partial_ok {
                        places.iter_mut().filter(|p| p.is_partial()).for_each(|p| *p = Place::Replicated);
                    }
                    let made = place(&mut numbers, host, mesh, &places);
                    let made = match made {
                        Ok(x) => x,
                        Err(error) => {
                            assert_eq!(error.kind(), ErrorKind::Mapping, "{error}");
                            places = vec![Place::Replicated; mesh.ndim()];
                            upload(host, &DeviceMapping::replicated(mesh))?
                        }
                    };
                    first_places.get_or_insert(places);
                    // The parts are right.
                    if numbers.chance(4)
                        && read(&made)?
                            != host
                                .values
                                .iter()
                                .map(|v| element(*v, host.dtype).as_f64())
                                .collect::<Vec<_>>()
                    {
                        note(
                            format!("{} to_vec {}", host.dtype, made.mapping()),
                            format!("{}: {:?} want {:?}", made.layout(), read(&made)?, host.values),
                        );
                    }
                    placed.push(made);
                }
                let layouts: Vec<String> = placed
                    .iter()
                    .zip(&numbers_given)
                    .map(|(x, s)| s.map_or(x.layout().to_string(), |s| format!("number {s}")))
                    .collect();
                let at = format!("{} {:?} on {mesh}: {}", def.name, case.args, layouts.join("; "));
                let got = auto_reshard(Policy::silent().all(), || {
                    call(def, case, &placed, &numbers_given).and_then(|all| {
                        all.iter()
                            .map(|x| Ok((x.layout().to_string(), x.dtype(), read(x)?)))
                            .collect::<Result<Vec<_>>>()
                    })
                });
                match got {
                    Err(error) => {
                        refused += 1;
                        let plain = placed
                            .iter()
                            .all(|x| x.layout().places().iter().all(|p| !matches!(p, Place::Custom(_))));
                        let bad = !matches!(error.kind(), ErrorKind::Sharding) || (plain && !written);
                        if bad {
                            note(
                                format!("{} refuses {:?}", def.name, error.kind()),
                                format!("{at}\n{error}"),
                            );
                        }
                        let text = error.to_string();
                        assert!(text.contains(def.name) && !error.operands().is_empty(), "{text}");
                    }
                    Ok(got) => {
                        compared += 1;
                        let operands = hosts.iter().map(|host| bound(host.dtype));
                        for ((layout, dtype, got), want) in got.iter().zip(&want) {
                            let bound = operands.clone().fold(bound(*dtype), f64::max);
                            if got.len() != want.len()
                                || !got.iter().zip(want).all(|(a, b)| close(*a, *b, bound))
                            {
                                note(
                                    format!("{} wrong", def.name),
                                    format!(
                                        "{at}\n  -> {layout}\n  got  {got:?}\n  want {want:?}\n  operands {hosts:?}"
                                    ),
                                );
                            }
                        }
                    }
                }
            }
        }
    }
    for (key, (n, text)) in &wrong {
        eprintln!("=== {key} ({n} times)\n{text}\n");
    }
    eprintln!("{compared} compared, {refused} refused");
    assert!(compared > 500, "{compared}");
    assert!(wrong.is_empty(), "{} kinds of faults", wrong.len());
    Ok(())
}

/// A plan on explicit axes never communicates, and one under a policy of no transitions moves nothing; where the plan
/// says so, the call does too.
#[test]
fn explicit_axes_and_strict_policies_hold_for_every_op() -> Result<()> {
    let mut numbers = Numbers(0xDEAD_BEEF_CAFE);
    let (mut fine, mut refused) = (0, 0);
    for def in Registry::get()?.ops().filter(|def| !def.at.0.contains("attack")) {
        let mut cases = sharding_core::op::Cases::new();
        (def.cases)(&mut cases);
        for case in cases.iter() {
            for round in 0..60 {
                let shape: &[usize] = [&[2][..], &[3], &[2, 2]][numbers.below(3)];
                let mesh = DeviceMesh::simulated(BackendKind::CPU, shape, &["x", "y"][..shape.len()])?;
                let explicit: Vec<AxisType> =
                    shape.iter().map(|_| [AxisType::Explicit, AxisType::Auto][numbers.below(2)]).collect();
                let mesh = mesh.with_axis_types(&explicit)?;
                let mut placed = Vec::new();
                for operand in &case.operands {
                    let meta = &operand.meta;
                    let values = values(&mut numbers, meta.dtype, operand.fill, meta.shape.elements());
                    let host = Host { dtype: meta.dtype, shape: meta.shape.to_vec(), values };
                    let places: Vec<Place> = (0..mesh.ndim())
                        .map(|axis| random_place(&mut numbers, &host, mesh.size(axis), ReduceOp::Sum))
                        .map(|place| {
                            if place.is_partial() && meta.dtype == DType::Bool {
                                Place::Replicated
                            } else {
                                place
                            }
                        })
                        .collect();
                    let made = place(&mut numbers, &host, &mesh, &places);
                    placed.push(made.or_else(|_| upload(&host, &DeviceMapping::replicated(&mesh)))?);
                }
                let policy = if round % 3 == 0 { Policy::raise().all() } else { Policy::silent().all() };
                let raise = round % 3 == 0;
                let mut buffers: Vec<TensorBuffer> = placed.iter().cloned().map(TensorBuffer::new).collect();
                let (mut operands, mut next, mut free) = (Vec::new(), 0, buffers.iter_mut());
                for (declared, n) in def.operands.iter().zip(&case.groups) {
                    let own = &placed[next..next + usize::from(*n)];
                    next += usize::from(*n);
                    operands.push(match declared.kind {
                        OperandKind::Many => Operand::Many(own),
                        OperandKind::Optional => Operand::Optional(own.first()),
                        OperandKind::Written => Operand::Written(free.next().unwrap()),
                        _ => Operand::Tensor(&own[0]),
                    });
                }
                let plan = auto_reshard(policy, || plan_call(def, &operands, &*case.args));
                drop(operands);
                let ran = auto_reshard(policy, || call(def, case, &placed, &vec![None; placed.len()]));
                let layouts: Vec<String> = placed.iter().map(|x| x.layout().to_string()).collect();
                let at = format!("{} {:?} on {explicit:?}: {}", def.name, case.args, layouts.join("; "));
                assert_eq!(plan.is_ok(), ran.is_ok(), "{at}");
                let Ok(plan) = plan else {
                    refused += 1;
                    continue;
                };
                fine += 1;
                for program in plan.moves().flatten() {
                    for step in &program.steps {
                        assert!(!raise || step.kind == StepKind::Relabel, "{at}: {step} under raise");
                        let local = matches!(step.kind, StepKind::Relabel | StepKind::LocalSlice);
                        let explicit = step.axes.iter().any(|axis| explicit[*axis] == AxisType::Explicit);
                        assert!(local || !explicit, "{at}: {step} on an explicit axis");
                    }
                }
                for (axis, row) in plan.plan().rows.iter().enumerate() {
                    assert!(
                        explicit[axis] == AxisType::Auto
                            || !row.stages.iter().any(|stage| stage.kind.communicates()),
                        "{at}: a staged row"
                    );
                }
                let results = ran?;
                for (result, layout) in results.iter().zip(plan.results()) {
                    assert_eq!(result.layout(), layout, "{at}");
                    assert_eq!(result.mesh().axis_types(), &explicit, "{at}: the result forgot the types");
                }
            }
        }
    }
    assert!(fine > 300 && refused > 300, "{fine} {refused}");
    Ok(())
}

/// Between any two layouts on one mesh, on two meshes, on one device: the same values, or an error of kind Sharding or
/// Mapping that names the op and the operand.
#[test]
fn transfers_keep_values() -> Result<()> {
    let mut numbers = Numbers(0x1234_5678_9ABC_DEF1);
    let shapes: [&[usize]; 7] = [&[1], &[2], &[5], &[2, 3], &[3, 2], &[2, 1, 2], &[2, 2]];
    let meshes: Vec<DeviceMesh> = shapes.into_iter().flat_map(in_both_orders).collect();
    let (mut moved, mut refused) = (0, BTreeMap::new());
    for _ in 0..20_000 {
        let dims: Vec<usize> =
            (0..numbers.below(4)).map(|_| [0, 1, 2, 3, 5, 7, 10][numbers.below(7)]).collect();
        let dtype = [DType::F32, DType::I64][numbers.below(2)];
        let n = dims.iter().product();
        let values = values(&mut numbers, dtype, Fill::Signed, n);
        let host = Host { dtype, shape: dims, values };
        let op = [ReduceOp::Sum, ReduceOp::Max, ReduceOp::Min, ReduceOp::Prod][numbers.below(4)];
        let from = meshes[numbers.below(meshes.len())].clone();
        let to = if numbers.chance(2) { from.clone() } else { meshes[numbers.below(meshes.len())].clone() };
        let places = |numbers: &mut Numbers, mesh: &DeviceMesh| -> Vec<Place> {
            (0..mesh.ndim()).map(|axis| random_place(numbers, &host, mesh.size(axis), op)).collect()
        };
        let (source, target) = (places(&mut numbers, &from), places(&mut numbers, &to));
        let Ok(x) = place(&mut numbers, &host, &from, &source) else { continue };
        let Ok(mapping) = DeviceMapping::new(&to, &target) else { continue };
        match x.transfer_to(&mapping) {
            Ok(y) => {
                moved += 1;
                let want: Vec<f64> = host.values.clone();
                assert_eq!(read(&y)?, want, "{} to {mapping} on {to}", x.layout());
                let checked =
                    Tensor::from_shards(y.layout().clone(), y.positions().clone(), y.shards().clone());
                assert!(checked.is_ok(), "{checked:?}");
                if target.iter().all(|place| !place.is_partial()) {
                    let direct = place(&mut numbers, &host, &to, &target)?;
                    for position in 0..to.num_devices() {
                        let bits = |x: &Tensor| -> Result<Vec<f64>> {
                            match dtype {
                                DType::I64 => {
                                    Ok(x.shard_to_vec::<i64>(position)?.iter().map(|v| *v as f64).collect())
                                }
                                _ => Ok(x
                                    .shard_to_vec::<f32>(position)?
                                    .iter()
                                    .map(|v| f64::from(*v))
                                    .collect()),
                            }
                        };
                        assert_eq!(
                            bits(&y)?,
                            bits(&direct)?,
                            "{} to {mapping} on {to} at {position}",
                            x.layout()
                        );
                    }
                }
            }
            Err(error) => {
                let text = error.to_string();
                assert!(
                    text.contains("transfer_to") && !error.operands().is_empty() && error.fix().is_some(),
                    "{text}"
                );
                let message = error
                    .message()
                    .split(':')
                    .next()
                    .unwrap_or("")
                    .chars()
                    .filter(|c| !c.is_ascii_digit())
                    .take(60)
                    .collect::<String>();
                refused
                    .entry((format!("{:?}", error.kind()), message))
                    .and_modify(|(n, _)| *n += 1)
                    .or_insert((1, text));
            }
        }
    }
    for (key, (n, text)) in &refused {
        eprintln!("{n} {key:?}\n{text}\n");
    }
    assert!(refused.keys().all(|(kind, _)| kind == "Sharding" || kind == "Mapping"), "{:?}", refused.keys());
    assert!(moved > 8000, "{moved}");
    Ok(())
}
