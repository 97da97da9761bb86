//! Collectives at 64 MiB beside a plain copy or sum of the same bytes over the same threads, in one run:
//! `cargo run --release -p backend-cpu --example collectives`. Sums of bf16 and f16 follow in a table of their own.

use backend_cpu as _;
use bytemuck::{Pod, cast_slice, cast_slice_mut};
use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use sharding_core::placement::Ragged;
use sharding_core::{
    BackendKind, DType, DeviceMapping, DeviceMesh, ErrorKind, Place, Result, Tensor, TensorLayout,
};
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

const SIDE: usize = 4096;
const N: usize = SIDE * SIDE;
const CHUNK: usize = 1 << 16;
const TIMES: usize = 25;

/// Floats in memory as the backend has it: huge pages, where the system grants them on request. A plain copy between small
/// pages takes longer, and would make every collective look better.
struct Floats(NonNull<f32>);

// SAFETY: it owns its memory, which is read and written by the rules of its borrow.
unsafe impl Sync for Floats {}

impl Floats {
    const HUGE_PAGE: usize = 2 << 20;

    fn layout() -> Result<Layout> {
        Layout::from_size_align(N * size_of::<f32>(), Self::HUGE_PAGE)
            .map_err(|error| sharding_core::Error::new(ErrorKind::Internal, error.to_string()))
    }

    /// `N` times this number, each written once.
    fn new(value: f32) -> Result<Self> {
        let layout = Self::layout()?;
        // SAFETY: the size is not 0.
        let memory = unsafe { alloc_zeroed(layout) };
        #[cfg(target_os = "linux")]
        // SAFETY: the pages are those of the block, which begins with one; the advice leaves their content as it is.
        unsafe {
            libc::madvise(memory.cast(), layout.size(), libc::MADV_HUGEPAGE);
        }
        let mut floats = Self(NonNull::new(memory.cast()).unwrap_or_else(|| handle_alloc_error(layout)));
        floats.fill(value);
        Ok(floats)
    }
}

impl Drop for Floats {
    fn drop(&mut self) {
        if let Ok(layout) = Self::layout() {
            // SAFETY: the block was made with this layout.
            unsafe { dealloc(self.0.as_ptr().cast(), layout) };
        }
    }
}

impl Deref for Floats {
    type Target = [f32];
    fn deref(&self) -> &[f32] {
        // SAFETY: the block holds `N` floats, which were zero at first.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr(), N) }
    }
}

impl DerefMut for Floats {
    fn deref_mut(&mut self) -> &mut [f32] {
        // SAFETY: as above; the borrow is unique.
        unsafe { std::slice::from_raw_parts_mut(self.0.as_ptr(), N) }
    }
}

/// The middle one of some numbers.
fn median(numbers: impl Iterator<Item = f64>) -> f64 {
    let mut numbers: Vec<f64> = numbers.collect();
    numbers.sort_by(f64::total_cmp);
    numbers.get(numbers.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Milliseconds of several runs, round by round.
fn rounds<const RUNS: usize>(mut runs: [&mut dyn FnMut() -> Result<()>; RUNS]) -> Result<Vec<[f64; RUNS]>> {
    let mut rounds = vec![[f64::NAN; RUNS]; TIMES];
    for round in &mut rounds {
        for (milliseconds, run) in round.iter_mut().zip(&mut runs) {
            let start = Instant::now();
            run()?;
            *milliseconds = start.elapsed().as_secs_f64() * 1e3;
        }
    }
    Ok(rounds)
}

fn medians<const RUNS: usize>(rounds: &[[f64; RUNS]]) -> [f64; RUNS] {
    std::array::from_fn(|run| median(rounds.iter().map(|round| round[run])))
}

/// A tensor of ones of 64 MiB; every part of a Partial one is as large.
fn tensor<T: Pod>(mesh: &DeviceMesh, place: Place, dtype: DType, one: T) -> Result<Tensor> {
    let rows = SIDE * size_of::<f32>() / size_of::<T>();
    let layout = TensorLayout::new(dtype, [rows, SIDE], DeviceMapping::new(mesh, [place])?)?;
    let ones = vec![one; rows * SIDE];
    let bytes = cast_slice::<T, u8>(&ones);
    if !place.is_partial() {
        return Tensor::from_bytes(bytes, layout);
    }
    let backend = sharding_core::backend::backend_of(BackendKind::CPU)?;
    let shard = |device| {
        let mut shard = backend.alloc(device, dtype, layout.shape())?;
        backend.write(bytes, &mut shard)?;
        Ok(shard)
    };
    let shards = mesh.devices().map(shard).collect::<Result<_>>()?;
    Tensor::from_shards(layout, backend.positions(mesh)?, shards)
}

/// Writes the first elements of the sum of the parts, or a copy of the one part, by the threads that ours runs on: this one,
/// and all workers of the pool but one, each taking the next chunk when it is done with one and writing it by
/// `write(parts, start, chunk)`.
fn plain<P: Sync>(
    parts: &[P],
    elements: usize,
    out: &mut [f32],
    write: impl Fn(&[P], usize, &mut [f32]) + Sync,
) {
    let chunks = Mutex::new(out[..elements].chunks_mut(CHUNK).enumerate());
    let next = || chunks.lock().unwrap_or_else(PoisonError::into_inner).next();
    let work = || {
        while let Some((i, out)) = next() {
            write(parts, i * CHUNK, out);
        }
    };
    rayon::in_place_scope(|scope| {
        (1..rayon::current_num_threads()).for_each(|_| scope.spawn(|_| work()));
        work();
    });
}

fn plain_chunk<P: Deref<Target = [f32]>>(parts: &[P], start: usize, out: &mut [f32]) {
    let all: Vec<&[f32]> = parts.iter().map(|part| &part[start..][..out.len()]).collect();
    match all[..] {
        [a] => out.copy_from_slice(a),
        [a, b] => out.iter_mut().zip(a).zip(b).for_each(|((o, a), b)| *o = a + b),
        [a, b, c, d] => {
            let left = a.iter().zip(b).zip(c).zip(d);
            out.iter_mut().zip(left).for_each(|(o, (((a, b), c), d))| *o = (a + b) + (c + d));
        }
        [a, b, c, d, e, f, g, h] => {
            let left = a.iter().zip(b).zip(c).zip(d).zip(e).zip(f).zip(g).zip(h);
            out.iter_mut().zip(left).for_each(|(o, (((((((a, b), c), d), e), f), g), h))| {
                *o = ((a + b) + (c + d)) + ((e + f) + (g + h));
            });
        }
        _ => unreachable!("{} parts", all.len()),
    }
}

/// As [`plain_chunk`], where the memory holds two halves of type `H` in the place of a float: blocks of every part are converted
/// to floats in the first cache, added there, and the sum is rounded once. The conversions are those of the crate `half`.
fn plain_halves<H: Pod>(parts: &[Floats], start: usize, out: &mut [f32])
where
    [H]: HalfFloatSliceExt,
{
    const BLOCK: usize = 512;
    let mut sum = [0.0; BLOCK];
    let mut wide = vec![vec![0.0; BLOCK]; parts.len()];
    let start = 2 * start;
    for (i, out) in cast_slice_mut::<f32, H>(out).chunks_mut(BLOCK).enumerate() {
        let sum = &mut sum[..out.len()];
        for (wide, part) in wide.iter_mut().zip(parts) {
            let part = &cast_slice::<f32, H>(part)[start + i * BLOCK..][..out.len()];
            part.convert_to_f32_slice(&mut wide[..out.len()]);
        }
        plain_chunk(&wide, 0, sum);
        out.convert_from_f32_slice(sum);
    }
}

/// The cuts by which every device but the last has half of its own piece and half of the next one's.
fn shifted(axis: usize, n: usize) -> Place {
    let (piece, half) = (SIDE / n, SIDE / n / 2);
    let size = |i: usize| if i == 0 { piece + half } else { piece - half * usize::from(i + 1 == n) };
    Ragged::place(axis, (0..n).map(size).collect::<Vec<_>>())
}

/// A line of the table: a transfer beside plain work that writes so many elements. The last column is the median of
/// each round's plain time over ours, not the quotient of medians: what slows the machine for some rounds slows both.
fn line(name: &str, n: usize, source: &Tensor, target: &DeviceMapping, elements: usize) -> Result<()> {
    let partial = source.layout().places().iter().any(|place| place.is_partial());
    let parts: Vec<Floats> =
        (0..if partial { n } else { 1 }).map(|_| Floats::new(1.0)).collect::<Result<_>>()?;
    let mut reused = Floats::new(0.0)?;
    // The first call pays for new memory.
    std::hint::black_box(source.transfer_to(target)?);
    let fresh = rounds([&mut || {
        let mut out: Vec<f32> = vec![0.0; N];
        plain(&parts, elements, &mut out, plain_chunk);
        std::hint::black_box(&out);
        Ok(())
    }])?;
    // In turns, with nothing between them. Ours begins with caches full of what the plain run has written, which it has to
    // write out, and leaves little in them where it writes past them: if that tells, it is for the plain run.
    let pairs = rounds([
        &mut || {
            plain(&parts, elements, &mut reused, plain_chunk);
            std::hint::black_box(&reused[0]);
            Ok(())
        },
        &mut || {
            std::hint::black_box(source.transfer_to(target)?);
            Ok(())
        },
    ])?;
    let [fresh] = medians(&fresh);
    let [warm, ours] = medians(&pairs);
    let by_warm = median(pairs.iter().map(|[warm, ours]| warm / ours));
    println!("{name:20} {n:3} {ours:9.3} {fresh:14.2} {warm:14.2} {:7.2} {by_warm:7.2}", fresh / ours);
    Ok(())
}

/// A line of the table of halves: a sum beside plain work on halves, and beside the plain sum of floats of as many bytes.
fn halves<H: Pod>(name: &str, n: usize, source: &Tensor, to: Place, one: H) -> Result<()>
where
    [H]: HalfFloatSliceExt,
{
    let target = DeviceMapping::new(source.layout().mesh(), [to])?;
    let parts: Vec<Floats> = (0..n)
        .map(|_| {
            let mut part = Floats::new(0.0)?;
            cast_slice_mut::<f32, H>(&mut part).fill(one);
            Ok(part)
        })
        .collect::<Result<_>>()?;
    let (mut reused, mut floats) = (Floats::new(0.0)?, Floats::new(0.0)?);
    std::hint::black_box(source.transfer_to(&target)?);
    let times = rounds([
        &mut || {
            plain(&parts, N, &mut reused, plain_halves::<H>);
            std::hint::black_box(&reused[0]);
            Ok(())
        },
        &mut || {
            plain(&parts, N, &mut floats, plain_chunk);
            std::hint::black_box(&floats[0]);
            Ok(())
        },
        &mut || {
            std::hint::black_box(source.transfer_to(&target)?);
            Ok(())
        },
    ])?;
    let [warm, float, ours] = medians(&times);
    let by_warm = median(times.iter().map(|[warm, _, ours]| warm / ours));
    let by_float = median(times.iter().map(|[_, float, ours]| float / ours));
    let dtype = source.layout().dtype();
    println!(
        "{name:20} {dtype:5} {n:3} {ours:9.3} {warm:14.2} {float:14.2} {by_warm:7.2} {by_float:7.2}",
        dtype = dtype.name()
    );
    Ok(())
}

/// The table of halves.
fn table_of_halves() -> Result<()> {
    println!();
    println!(
        "64 MiB of halves, the plain sums into memory written before: of halves, and of f32 of as many bytes"
    );
    println!(
        "{:20} {:5} {:>3} {:>9} {:>14} {:>14} {:>7} {:>7}",
        "collective", "dtype", "n", "ours", "plain", "plain, f32", "plain", "f32"
    );
    for n in [2, 4, 8] {
        let mesh = DeviceMesh::simulated(BackendKind::CPU, [n], ["x"])?;
        for (name, to) in [
            ("all_reduce", Place::Replicated),
            ("reduce_scatter", Place::Sharded(0)),
            ("reduce_scatter, cols", Place::Sharded(1)),
        ] {
            let one = bf16::ONE;
            halves(name, n, &tensor(&mesh, Place::PARTIAL, DType::BF16, one)?, to, one)?;
            let one = f16::ONE;
            halves(name, n, &tensor(&mesh, Place::PARTIAL, DType::F16, one)?, to, one)?;
        }
    }
    Ok(())
}

fn main() -> Result<()> {
    println!(
        "64 MiB of f32, {} threads, medians of {TIMES} rounds, milliseconds",
        rayon::current_num_threads()
    );
    println!(
        "{:20} {:>3} {:>9} {:>14} {:>14} {:>7} {:>7}",
        "collective", "n", "ours", "plain, fresh", "plain, reused", "fresh", "reused"
    );
    let floats = |mesh: &DeviceMesh, place| tensor(mesh, place, DType::F32, 1.0_f32);
    for n in [2, 8] {
        let mesh = DeviceMesh::simulated(BackendKind::CPU, [n], ["x"])?;
        let (s0, s1) = (Place::Sharded(0), Place::Sharded(1));
        // A permute leaves the last device a view of what it has: half a piece is not copied.
        let moved = N - N / n / 2;
        for (name, from, to, elements) in [
            ("all_reduce", Place::PARTIAL, Place::Replicated, N),
            ("reduce_scatter", Place::PARTIAL, s0, N),
            ("reduce_scatter, cols", Place::PARTIAL, s1, N),
            ("all_gather", s0, Place::Replicated, N),
            ("all_gather, cols", s1, Place::Replicated, N),
            ("all_to_all", s0, s1, N),
            ("all_to_all, back", s1, s0, N),
            ("permute", s0, shifted(0, n), moved),
            ("permute, cols", s1, shifted(1, n), moved),
        ] {
            line(name, n, &floats(&mesh, from)?, &DeviceMapping::new(&mesh, [to])?, elements)?;
        }
        // From one device to all: in one process they share its buffer, and nothing is copied.
        let one = DeviceMesh::simulated(BackendKind::CPU, [1], ["one"])?;
        let all = DeviceMapping::new(&mesh, [Place::Replicated])?;
        line("broadcast", n, &floats(&one, Place::Replicated)?, &all, N)?;
    }
    table_of_halves()
}
