//! Storage: round trips, views, writes to shared storages, region copies.

use super::{Bench, Checked, DTYPES, FORMS, Form, caught, signed, text, typed};
use crate::backend::{LocalArray, MemoryUse, Move};
use crate::conformance::host::HostArray;
use crate::{DType, Device, Result, Shape};
use smallvec::SmallVec;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

fn shapes() -> [Shape; 6] {
    [[].into(), [1].into(), [7].into(), [3, 5].into(), [4, 0, 2].into(), [2, 1, 3].into()]
}

pub(super) fn memory(bench: &mut Bench<'_>) {
    for dtype in DTYPES {
        for shape in shapes() {
            for form in FORMS {
                let host = signed(dtype, &shape, 3);
                bench.check(format!("memory/round_trip {dtype} {shape} {form:?}"), |bench| {
                    let array = caught(|| bench.put(&host, form))?;
                    bench.holds(&array, &host, true)
                });
            }
        }
        bench.check(format!("memory/broadcast {dtype}"), |bench| broadcast(bench, dtype));
        bench.check(format!("memory/views_of_views {dtype}"), |bench| views(bench, dtype));
        bench.check(format!("memory/shared_write {dtype}"), |bench| shared_write(bench, dtype));
    }
    super::adopt::adopt(bench);
    bench.check("memory/storages", storages);
    bench.check("memory/live_bytes", live_bytes);
    bench.check("memory/shared_bytes", shared_bytes);
    bench.check("memory/other_slots", other_slots);
    bench.check("memory/too_much", |bench| {
        // 2^57 bytes: more than any machine's address space.
        let huge = Shape::from([1 << 55]);
        match catch_unwind(AssertUnwindSafe(|| bench.backend.alloc(bench.device, DType::F32, &huge))) {
            Err(_) => Err("it panics".to_owned()),
            Ok(Err(error)) => typed(&error),
            Ok(Ok(_)) if bench.data => Err("it gives 2^57 bytes".to_owned()),
            Ok(Ok(_)) => Ok(()),
        }
    });
    bench.check("memory/synchronize", |bench| caught(|| bench.backend.synchronize(bench.device)));
    if !bench.data {
        bench.check("memory/no_data", |bench| {
            let array = bench.put(&signed(DType::F32, [2], 1), Form::Dense).map_err(text)?;
            match bench.backend.read(&array, &mut [0; 8]) {
                Ok(()) => Err("it has no data, and reads some".to_owned()),
                Err(error) => typed(&error),
            }
        });
    }
    bench.check("memory/threads", |bench| {
        let host = signed(DType::I64, [64, 3], 5);
        std::thread::scope(|scope| {
            let work = || -> Checked {
                for _ in 0..20 {
                    let array = bench.put(&host, Form::Sliced).map_err(text)?;
                    bench.holds(&array, &host, true)?;
                }
                Ok(())
            };
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(work)).collect();
            threads.into_iter().try_for_each(|thread| thread.join().unwrap_or(Err("it panics".to_owned())))
        })
    });
}

fn broadcast(bench: &Bench<'_>, dtype: DType) -> Checked {
    let row = signed(dtype, [1, 3], 4);
    let array = bench.put(&row, Form::Dense).map_err(text)?;
    let wide = array.broadcast_to(&Shape::from([2, 4, 3])).ok_or("it does not broadcast")?;
    let values = row.values.iter().copied().cycle().take(24).collect();
    bench.holds(&wide, &HostArray { dtype, shape: [2, 4, 3].into(), values }, true)
}

fn views(bench: &Bench<'_>, dtype: DType) -> Checked {
    let host = signed(dtype, [4, 3, 5], 6);
    let array = bench.put(&host, Form::Dense).map_err(text)?;
    // [4, 3, 5] -> axes (2, 0, 1) -> 1..4 of the first -> 2.. of the second
    let view = array.permute(&[2, 0, 1]).slice(0, 1, 3).slice(1, 2, 2);
    let at = |i: usize, j: usize, k: usize| host.values.get((j * 3 + k) * 5 + i).copied();
    let mut values = Vec::new();
    for i in 1..4 {
        for j in 2..4 {
            values.extend((0..3).filter_map(|k| at(i, j, k)));
        }
    }
    bench.holds(&view, &HostArray { dtype, shape: [3, 2, 3].into(), values }, true)?;
    let flat = array.reshaped(&Shape::from([60])).ok_or("a contiguous array reshapes")?;
    bench.holds(&flat, &HostArray { shape: [60].into(), ..host }, true)
}

/// A write to an array whose storage others hold does not reach them.
fn shared_write(bench: &Bench<'_>, dtype: DType) -> Checked {
    let (old, new) = (signed(dtype, [6], 7), signed(dtype, [6], 8));
    let mut array = bench.put(&old, Form::Dense).map_err(text)?;
    let snapshot = array.clone();
    caught(|| bench.backend.write(&new.to_bytes(), &mut array))?;
    bench.holds(&snapshot, &old, true).map_err(|message| format!("the other holder: {message}"))?;
    bench.holds(&array, &new, true)
}

fn storages(bench: &Bench<'_>) -> Checked {
    let shape = Shape::from([3, 4]);
    let alloc = || bench.backend.alloc(bench.device, DType::I64, &shape).map_err(text);
    let (a, b) = (alloc()?, alloc()?);
    if Arc::ptr_eq(a.storage(), b.storage()) {
        return Err("two arrays share a storage".to_owned());
    }
    if a.storage().bytes() < 96 || a.device() != bench.device || !a.is_contiguous() {
        return Err(format!(
            "{} bytes on {} for i64[3, 4] on {}",
            a.storage().bytes(),
            a.device(),
            bench.device
        ));
    }
    let other = bench.device.with_slot(1);
    let c = bench.backend.alloc(other, DType::I64, &shape).map_err(text)?;
    if c.device() != other {
        return Err(format!("allocated on {other}, it lies on {}", c.device()));
    }
    if !bench.backend.shares_memory(bench.device, bench.device) {
        return Err("a device does not share memory with itself".to_owned());
    }
    Ok(())
}

/// A slot that no other check allocates on, also of suites that run beside this one.
fn own_slot(bench: &Bench<'_>) -> Device {
    static NEXT: AtomicU32 = AtomicU32::new(1000);
    bench.device.with_slot(NEXT.fetch_add(1, Ordering::Relaxed))
}

/// What is alive on a device, and the peak.
fn in_use(bench: &Bench<'_>, device: Device) -> std::result::Result<[u64; 2], String> {
    let MemoryUse { live, peak } = caught(|| bench.backend.memory(device))?;
    Ok([live, peak])
}

fn expect(what: &str, got: [u64; 2], want: [u64; 2]) -> Checked {
    if got == want {
        return Ok(());
    }
    Err(format!(
        "{what}: wanted {} bytes live and {} at the peak, got {} and {}",
        want[0], want[1], got[0], got[1]
    ))
}

/// Bytes count while their storage is alive; the peak stays until it is reset, to what is alive then.
fn live_bytes(bench: &Bench<'_>) -> Checked {
    let device = own_slot(bench);
    expect("before any array", in_use(bench, device)?, [0, 0])?;
    let put = |host: &HostArray| host.put(bench.backend, device).map_err(text);
    let a = put(&signed(DType::F32, [3, 5], 1))?;
    let first = a.storage().bytes() as u64;
    expect("one array", in_use(bench, device)?, [first, first])?;
    let b = put(&signed(DType::I64, [2], 2))?;
    let both = first + b.storage().bytes() as u64;
    let view = a.slice(0, 1, 1);
    expect("two arrays and a view", in_use(bench, device)?, [both, both])?;
    drop(a);
    expect("a view keeps its storage", in_use(bench, device)?, [both, both])?;
    drop(view);
    expect("one array dropped", in_use(bench, device)?, [both - first, both])?;
    caught(|| bench.backend.reset_peak_memory(device))?;
    expect("the peak reset", in_use(bench, device)?, [both - first; 2])?;
    drop(b);
    expect("all dropped", in_use(bench, device)?, [0, both - first])
}

/// A write to a shared storage makes a second one.
fn shared_bytes(bench: &Bench<'_>) -> Checked {
    let device = own_slot(bench);
    let (old, new) = (signed(DType::F32, [6], 1), signed(DType::F32, [6], 2));
    let mut array = old.put(bench.backend, device).map_err(text)?;
    let one = array.storage().bytes() as u64;
    let snapshot = array.clone();
    expect("shared", in_use(bench, device)?, [one, one])?;
    caught(|| bench.backend.write(&new.to_bytes(), &mut array))?;
    expect("written", in_use(bench, device)?, [2 * one, 2 * one])?;
    drop(snapshot);
    expect("alone again", in_use(bench, device)?, [one, 2 * one])
}

/// Bytes count on their own slot.
fn other_slots(bench: &Bench<'_>) -> Checked {
    let (here, there) = (own_slot(bench), own_slot(bench));
    let array = signed(DType::F32, [4], 1).put(bench.backend, here).map_err(text)?;
    let bytes = array.storage().bytes() as u64;
    expect("here", in_use(bench, here)?, [bytes; 2])?;
    expect("on another slot", in_use(bench, there)?, [0, 0])
}

pub(super) fn copies(bench: &mut Bench<'_>) {
    for dtype in DTYPES {
        for form in FORMS {
            bench.check(format!("copies/regions {dtype} {form:?}"), |bench| regions(bench, dtype, form));
        }
        bench.check(format!("copies/into_view {dtype}"), |bench| into_view(bench, dtype));
        bench.check(format!("copies/shared_target {dtype}"), |bench| shared_target(bench, dtype));
        bench.check(format!("copies/overlap {dtype}"), |bench| overlap(bench, dtype));
        bench.check(format!("copies/other_device {dtype}"), |bench| other_device(bench, dtype));
    }
}

/// What copies must leave.
fn stored(target: &HostArray, source: &HostArray, at: &[usize]) -> HostArray {
    let region = source.shape.iter().zip(at).map(|(n, at)| std::iter::once(*at..at + n).collect()).collect();
    let mut want = target.clone();
    for (flat, value) in
        crate::conformance::host::flat_indices(&target.shape, &region).into_iter().zip(&source.values)
    {
        if let Some(slot) = want.values.get_mut(flat) {
            *slot = *value;
        }
    }
    want
}

fn copy(
    bench: &Bench<'_>,
    pieces: &[(LocalArray, &[usize])],
    into: &mut LocalArray,
) -> std::result::Result<(), String> {
    let pieces: Vec<(LocalArray, SmallVec<[usize; 4]>)> =
        pieces.iter().map(|(piece, at)| (piece.clone(), SmallVec::from_slice(at))).collect();
    caught(|| -> Result<()> { bench.backend.copy(&mut [Move { op: super::OP, pieces: &pieces, into }]) })
}

fn regions(bench: &Bench<'_>, dtype: DType, form: Form) -> Checked {
    let target = signed(dtype, [5, 4], 1);
    let (a, b, empty) = (signed(dtype, [2, 3], 2), signed(dtype, [1, 4], 3), signed(dtype, [0, 2], 4));
    let mut array = bench.put(&target, Form::Dense).map_err(text)?;
    let put = |host: &HostArray| bench.put(host, form).map_err(text);
    let pieces: [(LocalArray, &[usize]); 3] =
        [(put(&a)?, &[1, 1]), (put(&b)?, &[4, 0]), (put(&empty)?, &[5, 2])];
    copy(bench, &pieces, &mut array)?;
    bench.holds(&array, &stored(&stored(&target, &a, &[1, 1]), &b, &[4, 0]), true)?;
    copy(bench, &[], &mut array)
}

/// A target that is a view of an only holder's storage is written where it lies.
fn into_view(bench: &Bench<'_>, dtype: DType) -> Checked {
    let (target, source) = (signed(dtype, [3, 4], 1), signed(dtype, [2, 2], 2));
    for form in [Form::Sliced, Form::Permuted] {
        let mut view = bench.put(&target, form).map_err(text)?;
        let piece = bench.put(&source, Form::Dense).map_err(text)?;
        copy(bench, &[(piece, &[1, 2])], &mut view)?;
        bench.holds(&view, &stored(&target, &source, &[1, 2]), true)?;
    }
    Ok(())
}

fn shared_target(bench: &Bench<'_>, dtype: DType) -> Checked {
    let (target, source) = (signed(dtype, [6], 1), signed(dtype, [2], 2));
    let mut array = bench.put(&target, Form::Dense).map_err(text)?;
    let snapshot = array.clone();
    let piece = bench.put(&source, Form::Dense).map_err(text)?;
    copy(bench, &[(piece, &[3])], &mut array)?;
    bench.holds(&snapshot, &target, true).map_err(|message| format!("the other holder: {message}"))?;
    bench.holds(&array, &stored(&target, &source, &[3]), true)
}

/// A piece that is a view of the target itself is read as it was before.
fn overlap(bench: &Bench<'_>, dtype: DType) -> Checked {
    let target = signed(dtype, [6], 1);
    let mut array = bench.put(&target, Form::Dense).map_err(text)?;
    let piece = array.slice(0, 0, 4);
    let moved = target.cut(&std::iter::once(std::iter::once(0..4).collect()).collect());
    copy(bench, &[(piece, &[2])], &mut array)?;
    bench.holds(&array, &stored(&target, &moved, &[2]), true)
}

fn other_device(bench: &Bench<'_>, dtype: DType) -> Checked {
    let (target, source) = (signed(dtype, [4], 1), signed(dtype, [3], 2));
    let mut array = target.put(bench.backend, bench.device.with_slot(1)).map_err(text)?;
    let piece = bench.put(&source, Form::Dense).map_err(text)?;
    copy(bench, &[(piece, &[1])], &mut array)?;
    if array.device() != bench.device.with_slot(1) {
        return Err(format!("the target moved to {}", array.device()));
    }
    bench.holds(&array, &stored(&target, &source, &[1]), true)
}
