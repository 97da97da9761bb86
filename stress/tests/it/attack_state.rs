//! What is kept between calls: plans, scopes, buffers, recorders; and what foreign code does wrong.

use super::{tensor, values};
use sharding_core::backend::LocalArray;
use sharding_core::op::{Op, OpDef};
use sharding_core::{Call, KernelCx, Mode, Recorder, TensorMeta, Transfer, dispatch_dyn, sharding_rule};
use sharding_ops::*;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

fn mesh(shape: &[usize]) -> DeviceMesh {
    DeviceMesh::simulated(BackendKind::CPU, shape, &["x", "y", "z"][..shape.len()]).unwrap()
}

fn same(x: &TensorMeta) -> Result<TensorMeta> {
    Ok(x.clone())
}
fn same_mode(x: &TensorMeta, mode: usize) -> Result<TensorMeta> {
    let _ = mode;
    Ok(x.clone())
}
fn mode_rule(cx: &RuleCx<'_>, mode: usize) -> Result<Rows> {
    let _ = mode;
    let mut rows = Rows::new();
    sharding_core::rule::replicated_rows(cx, &mut rows);
    rows.add([Sharded(0)], [Sharded(0)]);
    Ok(rows)
}
fn no_cases(cases: &mut Cases) {
    cases.add([CaseOperand::new(DType::F32, [4])], attack_misbehaves { mode: 0 });
}

/// Does what `mode` says: right, panic, another shape, another dtype, a transposed label.
#[sharding_rule(rule = mode_rule, shape = same_mode, cases = no_cases)]
pub fn attack_misbehaves(cx: &mut KernelCx, x: &LocalArray, mode: usize) -> Result<LocalArray> {
    match mode {
        1 => panic!("on purpose"),
        2 => Ok(x.slice(0, 0, 1)),
        3 => cx.fill(Scalar::Int(1), DType::I64, x.shape()),
        4 if cx.position() == 1 => Err(Error::new(ErrorKind::Kernel, "device 1 fails")),
        _ => Ok(x.clone()),
    }
}

fn both_rule(cx: &RuleCx<'_>, fails: bool) -> Result<Rows> {
    let _ = fails;
    let mut rows = Rows::new();
    rows.add([cx.place(0), cx.place(1)], []);
    Ok(rows)
}
fn both_shape(a: &TensorMeta, b: &TensorMeta, _: bool) -> Result<()> {
    match [a, b].iter().find(|buffer| buffer.dtype != DType::F32) {
        None => Ok(()),
        Some(other) => {
            Err(Error::new(ErrorKind::DType, format!("a buffer of {} holds no halves", other.dtype))
                .with_fix("use buffers of f32"))
        }
    }
}
fn both_cases(cases: &mut Cases) {
    cases.add(
        [CaseOperand::new(DType::F32, [4]), CaseOperand::new(DType::F32, [4])],
        attack_both { fails: false },
    );
}
/// Fills one buffer with 1 and another with 2, and may then fail on the second device.
#[sharding_rule(rule = both_rule, shape = both_shape, cases = both_cases)]
pub fn attack_both(cx: &mut KernelCx, a: &mut LocalArray, b: &mut LocalArray, fails: bool) -> Result<()> {
    for (buffer, value) in [(a, 1.0), (b, 2.0)] {
        let ones = cx.fill(Scalar::Float(value), DType::F32, buffer.shape())?;
        cx.store(buffer, &ones, &vec![0; ones.shape().len()])?;
    }
    if fails && cx.position() == 1 { Err(Error::new(ErrorKind::Kernel, "device 1 fails")) } else { Ok(()) }
}

#[test]
fn two_buffers_of_one_call_keep_their_shards() {
    let m = mesh(&[2]);
    let split = DeviceMapping::new(&m, [Sharded(0)]).unwrap();
    // The second one's elements share memory until it is written.
    let repeated =
        broadcast_to(&full([1], 5.0, DType::F32, &DeviceMapping::replicated(&m)).unwrap(), &[4]).unwrap();
    let new = || {
        let a = TensorBuffer::new(full([4], 3.0, DType::F32, &split).unwrap());
        (a, TensorBuffer::new(repeated.clone()))
    };
    let (mut a, mut b) = new();
    attack_both(&mut a, &mut b, false).unwrap();
    assert_eq!(a.to_tensor().to_vec::<f32>().unwrap(), [1.0; 4]);
    assert_eq!(b.to_tensor().to_vec::<f32>().unwrap(), [2.0; 4]);
    assert_eq!(repeated.to_vec::<f32>().unwrap(), [5.0; 4]);
    let (mut a, mut b) = new();
    let error = attack_both(&mut a, &mut b, true).unwrap_err();
    assert!(error.message().contains("device 1 fails"), "{error}");
    // What was written before stays; no shard is lost, and neither buffer has one of the other's.
    assert_eq!(a.to_tensor().to_vec::<f32>().unwrap(), [1.0; 4]);
    assert_eq!(b.to_tensor().to_vec::<f32>().unwrap(), [2.0; 4]);
    attack_both(&mut a, &mut b, false).unwrap();
    // One on a device alone is not spread over the mesh of the other: it would not be written there.
    let one = DeviceMapping::replicated(&DeviceMesh::single(Device::cpu()));
    let mut alone = TensorBuffer::new(full([4], 5.0, DType::F32, &one).unwrap());
    let error = attack_both(&mut a, &mut alone, false).unwrap_err();
    assert!(error.kind() == ErrorKind::Sharding && error.fix().is_some(), "{error}");
    assert_eq!(alone.to_tensor().to_vec::<f32>().unwrap(), [5.0; 4]);
}

fn scaled_cases(cases: &mut Cases) {
    cases.add([CaseOperand::new(DType::F32, [4])], attack_scaled { factor: 2.0 });
}
fn scaled_rule(cx: &RuleCx<'_>) -> Result<Rows> {
    let mut rows = Rows::new();
    sharding_core::rule::replicated_rows(cx, &mut rows);
    Ok(rows)
}
/// `factor x`; only the kernel knows the factor.
#[sharding_rule(rule = scaled_rule, shape = same, cases = scaled_cases)]
pub fn attack_scaled(cx: &mut KernelCx, x: &LocalArray, #[kernel_only] factor: f64) -> Result<LocalArray> {
    let factor = cx.fill(Scalar::Float(factor), x.dtype(), &Shape::from([]))?;
    cx.binary(BinaryOp::Mul, x, &factor)
}

fn spoil_cases(cases: &mut Cases) {
    cases.add([CaseOperand::new(DType::F32, [4]), CaseOperand::new(DType::F32, [4])], attack_spoil { at: 9 });
}
fn spoil_rule(cx: &RuleCx<'_>) -> Result<Rows> {
    let mut rows = Rows::new();
    sharding_core::rule::match_operand_placement(cx, 0, &mut rows)?;
    Ok(rows)
}
fn spoil_shape(destination: &TensorMeta, source: &TensorMeta) -> Result<()> {
    match destination == source {
        true => Ok(()),
        false => Err(Error::new(ErrorKind::Shape, "attack_spoil stores equal shapes")),
    }
}
/// Stores, but fails or panics on one device.
#[sharding_rule(rule = spoil_rule, shape = spoil_shape, cases = spoil_cases)]
pub fn attack_spoil(
    cx: &mut KernelCx,
    destination: &mut LocalArray,
    source: &LocalArray,
    #[kernel_only] at: usize,
) -> Result<()> {
    cx.store(destination, source, &[0])?;
    assert!(at != cx.position(), "device {at} gives up");
    Ok(())
}

#[test]
fn kernels_that_misbehave_are_named() {
    let x = tensor(&mesh(&[2]), &[4], &[Sharded(0)]).unwrap();
    for (mode, words) in [(1, "on purpose"), (2, "check_rule"), (3, "i64[2]"), (4, "device 1 fails")] {
        let error = attack_misbehaves(&x, mode).unwrap_err();
        let text = error.to_string();
        assert_eq!((error.kind(), error.op()), (ErrorKind::Kernel, Some("attack_misbehaves")), "{text}");
        assert!(text.contains(words) && text.contains("x: f32[4] {x: Sharded(0)}"), "{text}");
    }
    assert_eq!(attack_misbehaves(&x, 0).unwrap().to_vec::<f32>().unwrap(), values(4));
}

#[test]
fn a_store_that_fails_half_way_loses_nothing() {
    for place in [Replicated, Sharded(0)] {
        for at in 0..3 {
            let m = mesh(&[3]);
            let x = tensor(&m, &[6], &[place]).unwrap();
            let mut buffer = TensorBuffer::new(x.clone());
            let zeros = full([6], 0.0, DType::F32, x.mapping()).unwrap();
            assert!(attack_spoil(&mut buffer, &zeros, at).is_err());
            assert_eq!(buffer.as_tensor().shards().len(), 3);
            // Devices before the one that failed have written, and no shard is lost; snapshots are as they were.
            for position in 0..3 {
                let now = buffer.as_tensor().shard_to_vec::<f32>(position).unwrap();
                let before = x.shard_to_vec::<f32>(position).unwrap();
                assert_eq!(now.len(), before.len());
                assert!(position <= at || now == before, "{place} {at} {position}: {now:?}");
            }
            assert_eq!(x.to_vec::<f32>().unwrap(), values(6));
            buffer_store(&mut buffer, &zeros).unwrap();
            assert_eq!(buffer.to_tensor().to_vec::<f32>().unwrap(), [0.0; 6]);
        }
    }
}

#[test]
fn kernel_only_arguments_do_not_mix() {
    let x = tensor(&mesh(&[2]), &[4], &[Replicated]).unwrap();
    for factor in [2.0, 3.0, -1.0, 2.0] {
        let want: Vec<f32> = values(4).iter().map(|v| v * factor as f32).collect();
        assert_eq!(attack_scaled(&x, factor).unwrap().to_vec::<f32>().unwrap(), want);
    }
}

#[test]
fn plans_of_other_definitions_of_one_name_do_not_mix() {
    // A definition that is not registered, under the name of one that is.
    let impostor: &'static OpDef = Box::leak(Box::new(OpDef { name: "relu", ..*gelu::DEF }));
    let x = tensor(&mesh(&[2]), &[6], &[Sharded(0)]).unwrap();
    let own = relu(&x).unwrap().to_vec::<f32>().unwrap();
    let args = gelu {};
    let other = dispatch_dyn(impostor, &mut [Operand::Tensor(&x)], &args);
    let want = gelu(&x).unwrap().to_vec::<f32>().unwrap();
    match other {
        Ok(results) => assert_eq!(results.one().unwrap().to_vec::<f32>().unwrap(), want, "relu's plan ran"),
        Err(error) => assert!(!error.to_string().contains("another type"), "relu's plan ran: {error}"),
    }
    assert_eq!(relu(&x).unwrap().to_vec::<f32>().unwrap(), own);
}

fn only_replicated(cx: &RuleCx<'_>, _: &dyn std::any::Any, rows: &mut Rows) -> Result<()> {
    sharding_core::rule::replicated_rows(cx, rows);
    Ok(())
}

#[test]
fn plans_under_other_scopes_do_not_mix() {
    let m = mesh(&[2]);
    let x = tensor(&m, &[4], &[Sharded(0)]).unwrap();
    let parts =
        full([4], 2.0, DType::F32, &DeviceMapping::new(&m, [Partial(ReduceOp::Sum)]).unwrap()).unwrap();
    for _ in 0..3 {
        assert_eq!(relu(&x).unwrap().layout().places(), [Sharded(0)]);
        let replaced = (*Scope::current()).clone().with_rule("relu", only_replicated);
        replaced.enter(|| assert_eq!(relu(&x).unwrap().layout().places(), [Replicated]));
        assert!(relu(&parts).is_ok());
        assert!(auto_reshard(Policy::raise(), || relu(&parts)).is_err());
        assert!(auto_reshard(Policy::silent().allow(TransitionSet::of(&[])), || relu(&parts)).is_err());
        for (kind, fine) in [(AxisType::Auto, true), (AxisType::Explicit, false), (AxisType::Manual, false)] {
            let typed = parts.on(&m.with_axis_types([kind]).unwrap()).unwrap();
            assert_eq!(relu(&typed).is_ok(), fine, "{kind:?}");
            assert_eq!(add(&typed, &parts).is_ok(), kind != AxisType::Manual, "{kind:?} first");
            assert!(typed.transfer_to(&DeviceMapping::replicated(&m)).is_ok());
            assert!(typed.to_vec::<f32>().is_ok());
        }
    }
}

#[test]
fn types_of_mesh_axes_are_those_of_the_strictest_operand() {
    // One operand on the mesh with an Explicit or Manual axis, the other on the same mesh without: either order.
    let m = mesh(&[2]);
    for kind in [AxisType::Explicit, AxisType::Manual] {
        let strict = m.with_axis_types([kind]).unwrap();
        let a = tensor(&m, &[4, 4], &[Sharded(0)]).unwrap();
        let b = tensor(&m, &[4, 4], &[Sharded(1)]).unwrap();
        let (sa, sb) = (a.on(&strict).unwrap(), b.on(&strict).unwrap());
        assert!(add(&a, &b).is_ok());
        for (i, outcome) in [add(&sa, &sb), add(&sa, &b), add(&a, &sb)].into_iter().enumerate() {
            assert!(outcome.is_err(), "{kind:?} {i}: communicates on a {kind:?} axis");
        }
    }
}

#[test]
fn guards_end_in_any_order() {
    let ambient = Scope::current().policy();
    let a = auto_reshard_guard(Policy::raise());
    let b = auto_reshard_guard(Policy::warn());
    drop(a);
    drop(b);
    let after = Scope::current().policy();
    // Whatever follows on this thread must not inherit a policy that ended.
    assert_eq!(after, ambient, "an ended policy is in force");
}

#[test]
fn nested_blocks_and_panics_restore_the_policy() {
    let ambient = Scope::current().policy();
    auto_reshard(Policy::raise(), || {
        auto_reshard(Policy::warn(), || assert_eq!(Scope::current().policy().mode, Mode::Warn));
        assert_eq!(Scope::current().policy().mode, Mode::Raise);
        let out = catch_unwind(AssertUnwindSafe(|| auto_reshard(Policy::silent(), || panic!("inside"))));
        assert!(out.is_err());
        assert_eq!(Scope::current().policy().mode, Mode::Raise);
    });
    assert_eq!(Scope::current().policy(), ambient);
}

struct Errs;
impl Recorder for Errs {
    fn record(&self, _: &Call<'_>) -> Result<()> {
        Err(Error::new(ErrorKind::Argument, "the tape is full"))
    }
    fn transfer(&self, _: &Transfer<'_>) -> Result<()> {
        Err(Error::new(ErrorKind::Argument, "the tape is full"))
    }
}
struct Panics;
impl Recorder for Panics {
    fn record(&self, _: &Call<'_>) -> Result<()> {
        panic!("the tape tore")
    }
    fn transfer(&self, _: &Transfer<'_>) -> Result<()> {
        panic!("the tape tore")
    }
}
#[derive(Default)]
struct CallsOps(AtomicUsize, Mutex<Vec<&'static str>>);
impl Recorder for CallsOps {
    fn record(&self, call: &Call<'_>) -> Result<()> {
        self.0.fetch_add(1, Ordering::Relaxed);
        self.1.lock().unwrap().push(call.def.name);
        relu(&call.results[0]).map(drop)
    }
    fn transfer(&self, transfer: &Transfer<'_>) -> Result<()> {
        self.1.lock().unwrap().push(transfer.op);
        assert_eq!(transfer.operand.shape(), transfer.result.shape());
        assert_ne!(transfer.operand.mapping(), transfer.result.mapping());
        relu(transfer.result).map(drop)
    }
}

#[test]
fn recorders_see_transfers_that_a_user_calls() {
    let m = mesh(&[2]);
    let (split, whole) = (DeviceMapping::new(&m, [Sharded(0)]).unwrap(), DeviceMapping::replicated(&m));
    let x = tensor(&m, &[4], &[Sharded(0)]).unwrap();
    let seen = Arc::new(CallsOps::default());
    (*Scope::current()).clone().with_recorder(seen.clone()).enter(|| {
        let y = x.transfer_to(&whole).unwrap();
        // It lies so already: the same tensor.
        y.transfer_to(&whole).unwrap();
        sharding_ops::all_gather(&x, "x", 0).unwrap();
        // What an op moves is part of its call; what a reader moves is nobody's.
        sharding_ops::softmax(&x, 0).unwrap();
        x.to_vec::<f32>().unwrap();
        y.transfer_to(&split).unwrap();
    });
    assert_eq!(*seen.1.lock().unwrap(), ["transfer_to", "all_gather", "softmax", "transfer_to"]);
    for recorder in [Arc::new(Errs) as Arc<dyn Recorder>, Arc::new(Panics)] {
        let moved = || (*Scope::current()).clone().with_recorder(recorder).enter(|| x.transfer_to(&whole));
        let error = catch_unwind(AssertUnwindSafe(moved)).expect("an error, not a panic").unwrap_err();
        let text = error.to_string();
        assert!(text.contains("the tape") && text.contains("x: f32[4]"), "{text}");
    }
}

#[test]
fn recorders_that_err_panic_or_call_ops() {
    let x = tensor(&mesh(&[2]), &[4], &[Sharded(0)]).unwrap();
    let under = |recorder: Arc<dyn Recorder>, f: &dyn Fn() -> Result<Tensor>| {
        (*Scope::current()).clone().with_recorder(recorder).enter(f)
    };
    let error = under(Arc::new(Errs), &|| gelu(&x)).unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("the tape is full") && text.contains("gelu") && text.contains("x: f32[4]"),
        "{text}"
    );
    let outcome = catch_unwind(AssertUnwindSafe(|| under(Arc::new(Panics), &|| gelu(&x))));
    let text = outcome.expect("a recorder's panic comes out of the op").unwrap_err().to_string();
    assert!(text.contains("the tape tore") && text.contains("gelu"), "{text}");
    let calls = Arc::new(CallsOps::default());
    under(calls.clone(), &|| gelu(&x)).unwrap();
    under(calls.clone(), &|| gelu(&x)).unwrap();
    assert_eq!((calls.0.load(Ordering::Relaxed), calls.1.lock().unwrap().clone()), (2, vec!["gelu", "gelu"]));
    // An error of the recorder must not lose a buffer either.
    let mut buffer = TensorBuffer::new(x.clone());
    let scope = (*Scope::current()).clone().with_recorder(Arc::new(Errs));
    assert!(scope.enter(|| buffer_store(&mut buffer, &x)).is_err());
    assert_eq!(buffer.to_tensor().to_vec::<f32>().unwrap(), values(4));
}

#[test]
fn snapshots_and_aliases_keep_their_values() {
    for place in [Replicated, Sharded(0), Partial(ReduceOp::Sum)] {
        let m = mesh(&[2, 2]);
        let mapping = DeviceMapping::new(&m, [place, Replicated]).unwrap();
        let one = full([5], 1.0, DType::F32, &mapping).unwrap();
        let two = full([5], 2.0, DType::F32, &mapping).unwrap();
        let (mut a, mut b) = (TensorBuffer::new(one.clone()), TensorBuffer::new(one.clone()));
        let before = a.to_tensor();
        let view = slice(&before, &index![1..3]).unwrap();
        buffer_store(&mut a, &two).unwrap();
        let middle = a.to_tensor();
        let part = full([2], 7.0, DType::F32, &mapping)
            .map(|x| {
                x.transfer_to(
                    &DeviceMapping::new(
                        &m,
                        [if place == Sharded(0) { Replicated } else { place }, Replicated],
                    )
                    .unwrap(),
                )
                .unwrap()
            })
            .unwrap();
        buffer_store_slice(&mut a, &part, &index![2..4]).unwrap();
        let own = a.to_tensor();
        buffer_store(&mut a, &own).unwrap();
        let read = |x: &Tensor| x.to_vec::<f32>().unwrap();
        assert_eq!(read(&a.to_tensor()), [2.0, 2.0, 7.0, 7.0, 2.0], "{place}");
        assert_eq!((read(&before), read(&view), read(&one)), (vec![1.0; 5], vec![1.0; 2], vec![1.0; 5]));
        assert_eq!(read(&middle), [2.0; 5]);
        assert_eq!(read(b.as_tensor()), [1.0; 5]);
        buffer_store(&mut b, &middle).unwrap();
        assert_eq!(read(&b.to_tensor()), [2.0; 5]);
    }
}

#[test]
fn stores_across_the_borders_of_shards() {
    for (shape, places) in [
        (&[3][..], &[Sharded(0)][..]),
        (&[2, 2], &[Sharded(0), Sharded(0)]),
        (&[2, 3], &[Sharded(1), Sharded(0)]),
        (&[2], &[Interleaved::place(0, [3, 4])]),
        (&[3], &[Ragged::place(0, [0, 6, 1])]),
        (&[2], &[Place::custom(stress::zigzag::Zigzag { axis: 0 })]),
        (&[5], &[Replicated]),
    ] {
        let m = mesh(shape);
        let whole = DeviceMapping::replicated(&m);
        for start in 0..7_isize {
            for end in start..=7 {
                let mut want = vec![0_i64; 14];
                let n = (end - start) as usize;
                let source: Vec<i64> = (1..=2 * n as i64).collect();
                want[start as usize * 2..end as usize * 2].copy_from_slice(&source);
                let zeros =
                    full([7, 2], 0_i64, DType::I64, &DeviceMapping::new(&m, places).unwrap()).unwrap();
                let mut buffer = TensorBuffer::new(zeros);
                let source = Tensor::from_slice(&source, [n, 2], &whole).unwrap();
                buffer_store_slice(&mut buffer, &source, &index![start..end]).unwrap();
                assert_eq!(buffer.to_tensor().to_vec::<i64>().unwrap(), want, "{places:?} {start}..{end}");
            }
        }
    }
}

/// A small program over many ops.
fn program(m: &DeviceMesh) -> Result<Vec<u32>> {
    let x = tensor(m, &[7, 12], &[Sharded(0), Sharded(1)])?;
    let w = tensor(m, &[12, 9], &[Replicated, Sharded(0)])?;
    let h = gelu(&matmul(&x, &w)?)?;
    let s = softmax(&h.transfer_to(&DeviceMapping::new(m, [Sharded(1), Sharded(1)])?)?, -1)?;
    let n = layer_norm(
        &s,
        &tensor(m, &[9], &[Replicated, Sharded(0)])?,
        &tensor(m, &[9], &[Replicated, Replicated])?,
        1e-5,
    )?;
    let y = add(&mean(&n, 0, true)?, &sum(&h, 0, true)?)?;
    Ok(y.to_vec::<f32>()?.into_iter().map(f32::to_bits).collect())
}

#[test]
fn programs_are_the_same_every_time_on_every_thread() {
    let m = mesh(&[2, 3]);
    let want = program(&m).unwrap();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|_| scope.spawn(|| (0..20).map(|_| program(&m).unwrap()).collect::<Vec<_>>()))
            .collect();
        for thread in threads {
            assert!(thread.join().unwrap().iter().all(|got| *got == want));
        }
    });
}

#[test]
fn large_work_has_the_same_bits_on_any_number_of_threads() {
    let m = mesh(&[2]);
    let run = || -> Vec<u32> {
        let n = 640;
        let data: Vec<f32> =
            (0..n * n).map(|i| ((i * 2_654_435_761_usize) % 1000) as f32 / 997.0 - 0.5).collect();
        let x = Tensor::from_slice(&data, [n, n], &DeviceMapping::new(&m, [Sharded(1)]).unwrap()).unwrap();
        let w = Tensor::from_slice(&data, [n, n], &DeviceMapping::new(&m, [Sharded(0)]).unwrap()).unwrap();
        let y = softmax(&gelu(&matmul(&x, &w).unwrap()).unwrap(), -1).unwrap();
        let z = add(&sum(&y, 0, false).unwrap(), &sum(&x, 0, false).unwrap()).unwrap();
        z.to_vec::<f32>().unwrap().into_iter().map(f32::to_bits).collect()
    };
    if let Ok(path) = std::env::var("ATTACK_BITS") {
        let bits: Vec<u8> = run().iter().flat_map(|bits| bits.to_le_bytes()).collect();
        std::fs::write(path, bits).unwrap();
        return;
    }
    let exe = std::env::current_exe().unwrap();
    let of = |threads: usize| {
        let path = std::env::temp_dir().join(format!("attack-bits-{}-{threads}", std::process::id()));
        let status = std::process::Command::new(&exe)
            .args(["attack_state::large_work", "--test-threads", "1"])
            .env("ATTACK_BITS", &path)
            .env("RAYON_NUM_THREADS", threads.to_string())
            .output()
            .unwrap();
        assert!(status.status.success());
        let bits = std::fs::read(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        bits
    };
    let one = of(1);
    assert!(!one.is_empty());
    assert!(one == of(2) && one == of(5), "bits depend on the number of threads");
}

#[test]
fn nan_and_infinity_are_kept_by_every_split() {
    let (nan, inf) = (f32::NAN, f32::INFINITY);
    let data = [1.0, nan, -inf, 2.0, inf, 0.0, -0.0, -inf, -inf, -inf, 3.0, inf];
    let one = mesh(&[1]);
    let whole = Tensor::from_slice(&data, [3, 4], &DeviceMapping::replicated(&one)).unwrap();
    type Program = fn(&Tensor) -> Result<Tensor>;
    let programs: [(&str, Program); 7] = [
        ("max 0", |x| max(x, 0, true)),
        ("max 1", |x| max(x, 1, false)),
        ("softmax 0", |x| softmax(x, 0)),
        ("softmax 1", |x| softmax(x, 1)),
        ("relu", |x| relu(x)),
        ("sum", |x| sum(x, 1, false)),
        ("gelu", |x| gelu(x)),
    ];
    let bits = |x: &Tensor| -> Vec<String> {
        x.to_vec::<f32>()
            .unwrap()
            .iter()
            .map(|v| if v.is_nan() { "nan".into() } else { format!("{v:.5}") })
            .collect()
    };
    let mut faults = Vec::new();
    for (name, program) in programs {
        let want = bits(&program(&whole).unwrap());
        for (shape, places) in [
            (&[2][..], &[Sharded(0)][..]),
            (&[2], &[Sharded(1)]),
            (&[3], &[Sharded(1)]),
            (&[5], &[Sharded(1)]),
            (&[2, 2], &[Sharded(1), Sharded(1)]),
            (&[2, 2], &[Sharded(0), Sharded(1)]),
            (&[2], &[Partial(ReduceOp::Max)]),
            (&[2], &[Partial(ReduceOp::Min)]),
        ] {
            let m = mesh(shape);
            let x = Tensor::from_slice(&data, [3, 4], &DeviceMapping::replicated(&m)).unwrap();
            let x = x.transfer_to(&DeviceMapping::new(&m, places).unwrap()).unwrap();
            let got = bits(&program(&x).unwrap());
            if got != want {
                faults.push(format!("{name} {places:?}: {got:?} want {want:?}"));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn unknown_moves_only_as_it_is() {
    let m = mesh(&[2, 2]);
    let x = tensor(&m, &[4, 4], &[Sharded(0), Replicated]).unwrap();
    let unknown = x.rebind_mapping(&DeviceMapping::new(&m, [Unknown, Replicated]).unwrap(), [4, 4]).unwrap();
    let also = unknown.transfer_to(&DeviceMapping::new(&m, [Unknown, Sharded(1)]).unwrap());
    // Either an error, or right when claimed back.
    if let Ok(moved) = also {
        let back = moved.rebind_mapping(&DeviceMapping::new(&m, [Sharded(0), Sharded(1)]).unwrap(), [4, 4]);
        assert_eq!(back.unwrap().to_vec::<f32>().unwrap(), values(16));
    }
    for op in [
        relu(&unknown),
        sum(&unknown, 0, true),
        softmax(&unknown, 0),
        add(&unknown, 1.0),
        matmul(&unknown, &x),
    ] {
        let error = op.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Sharding, "{error}");
    }
    // On one device Unknown may have any local shape: it must not pass as the whole.
    let single = DeviceMesh::single(Device::cpu());
    let small = tensor(&single, &[2], &[Replicated]).unwrap();
    let lie = small.rebind_mapping(&DeviceMapping::new(&single, [Unknown]).unwrap(), [8]).unwrap();
    for outcome in [relu(&lie), add(&lie, &tensor(&m, &[8], &[Replicated, Replicated]).unwrap())] {
        let error = outcome.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Sharding, "{error}");
    }
}

#[test]
fn one_device_tensors_mix_with_meshes() {
    let m = mesh(&[3]);
    let x = tensor(&m, &[5, 4], &[Sharded(0)]).unwrap();
    let want = add(&x, &x).unwrap().to_vec::<f32>().unwrap();
    for kind in [BackendKind::CPU, stress::deferred::KIND] {
        let single =
            DeviceMesh::single(Device::new(kind, 0).with_slot(if kind == BackendKind::CPU { 40 } else { 0 }));
        let one = Tensor::from_slice(&values(20), [5, 4], &DeviceMapping::replicated(&single)).unwrap();
        assert_eq!(add(&x, &one).unwrap().to_vec::<f32>().unwrap(), want, "{kind}");
        assert_eq!(add(&one, &x).unwrap().mesh(), &m);
        // Two one-device tensors on different devices: the first decides.
        let other = tensor(&DeviceMesh::single(Device::cpu()), &[5, 4], &[Replicated]).unwrap();
        assert_eq!(add(&one, &other).unwrap().to_vec::<f32>().unwrap(), want, "{kind}");
        let mut buffer = TensorBuffer::new(x.clone());
        let _ = buffer_store(&mut buffer, &one);
        assert_eq!(buffer.to_tensor().to_vec::<f32>().unwrap(), values(20));
    }
}

/// Even on one device it holds the second half first.
#[derive(Debug)]
struct BackToFront;

impl Placement for BackToFront {
    fn key(&self) -> sharding_core::placement::PlacementKey {
        sharding_core::placement::PlacementKey { name: "stress::BackToFront", words: smallvec::smallvec![] }
    }
    fn tensor_axis(&self) -> Option<usize> {
        Some(0)
    }
    fn on_axis(&self, _: usize) -> Arc<dyn Placement> {
        Arc::new(BackToFront)
    }
    fn check(&self, _: usize, _: usize) -> Result<()> {
        Ok(())
    }
    fn ranges(&self, extent: usize, ways: usize, part: usize) -> sharding_core::placement::Ranges {
        let own = sharding_core::split::balanced(extent, ways, part);
        let middle = own.start + own.len() / 2;
        smallvec::smallvec![middle..own.end, own.start..middle]
    }
    fn transition_to(&self, to: Place, _: usize, _: usize) -> sharding_core::placement::Transition {
        sharding_core::placement::Transition::between_splits(Sharded(0), to)
    }
}

#[test]
fn the_whole_in_an_order_of_its_own_is_no_label_for_the_whole() {
    let odd = Place::custom(BackToFront);
    let m = mesh(&[2]);
    let single = DeviceMesh::single(Device::cpu());
    let zeros = full([6], 0.0, DType::F32, &DeviceMapping::replicated(&m)).unwrap();
    for (name, own) in [("one device", &single), ("two", &m), ("one of a mesh", &mesh(&[1]))] {
        let x = tensor(own, &[6], &[odd]).unwrap();
        assert_eq!(x.to_vec::<f32>().unwrap(), values(6), "{name}: to_vec");
        let back = x.transfer_to(&DeviceMapping::new(own, [Sharded(0)]).unwrap()).unwrap();
        assert_eq!(back.to_vec::<f32>().unwrap(), values(6), "{name}: to Sharded(0)");
        assert_eq!(add(&x, 0.0).unwrap().to_vec::<f32>().unwrap(), values(6), "{name}: add a number");
        assert_eq!(
            add(&back, &x).unwrap().to_vec::<f32>().unwrap(),
            add(&back, &back).unwrap().to_vec::<f32>().unwrap(),
            "{name}"
        );
        assert_eq!(add(&zeros, &x).unwrap().to_vec::<f32>().unwrap(), values(6), "{name}: beside a mesh");
    }
}

#[test]
fn many_slots_of_the_cpu_take_linear_time() {
    let n = 1 << 16;
    let m = mesh(&[n]);
    let start = std::time::Instant::now();
    let x = Tensor::from_slice(&vec![1_i64; n], [n], &DeviceMapping::new(&m, [Sharded(0)]).unwrap()).unwrap();
    let y = add(&x, &x).unwrap();
    assert_eq!(y.shard_to_vec::<i64>(n - 1).unwrap(), [2]);
    assert!(start.elapsed().as_secs() < 10, "{:?}", start.elapsed());
}

/// A kernel that goes on after a launch that it calls its last.
#[sharding_rule(["... -> ..."])]
pub fn attack_goes_on(cx: &mut KernelCx, x: &LocalArray) -> Result<LocalArray> {
    let twice = cx.last().binary(BinaryOp::Add, x, x)?;
    cx.binary(BinaryOp::Add, &twice, x)
}

/// A kernel that does not give what comes of the launch that it calls its last.
#[sharding_rule(["... -> ..."])]
pub fn attack_gives_another(cx: &mut KernelCx, x: &LocalArray) -> Result<LocalArray> {
    cx.last().binary(BinaryOp::Add, x, x)?;
    Ok(x.clone())
}

#[test]
fn a_promise_that_is_broken_is_an_error() {
    let x = tensor(&mesh(&[2]), &[150, 131], &[Sharded(0)]).unwrap();
    for (result, words) in [
        (attack_goes_on(&x), "goes on after a launch"),
        (attack_gives_another(&x), "does not give what comes of the launch"),
    ] {
        let error = result.unwrap_err();
        let text = error.to_string();
        assert_eq!(error.kind(), ErrorKind::Kernel, "{text}");
        assert!(text.contains(words) && text.contains("cx.last()"), "{text}");
    }
    // Small kernels and those of one device run at once, and are held to it all the same.
    assert!(attack_goes_on(&tensor(&mesh(&[1]), &[4], &[Sharded(0)]).unwrap()).is_err());
}
