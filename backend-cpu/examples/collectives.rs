//! Collectives at 64 MiB beside a plain copy or sum of the same bytes over the same threads, in one run:
//! `cargo run --release -p backend-cpu --example collectives`.

use backend_cpu as _;
use rayon::prelude::*;
use sharding_core::{BackendKind, DType, DeviceMapping, DeviceMesh, Place, Result, Tensor, TensorLayout};
use std::time::Instant;

const SIDE: usize = 4096;
const N: usize = SIDE * SIDE;
const CHUNK: usize = 1 << 16;
const TIMES: usize = 9;

/// Milliseconds of several runs, taken in turns so that all see the same machine: the medians.
fn medians(runs: &mut [(&str, &mut dyn FnMut() -> Result<()>)]) -> Result<Vec<f64>> {
    let mut samples = vec![Vec::new(); runs.len()];
    for _ in 0..TIMES {
        for ((_, run), samples) in runs.iter_mut().zip(&mut samples) {
            let start = Instant::now();
            run()?;
            samples.push(start.elapsed().as_secs_f64() * 1e3);
        }
    }
    Ok(samples
        .into_iter()
        .map(|mut samples| {
            samples.sort_by(f64::total_cmp);
            samples.get(TIMES / 2).copied().unwrap_or(f64::NAN)
        })
        .collect())
}

/// A tensor of ones of 64 MiB; every part of a Partial one is as large.
fn tensor(mesh: &DeviceMesh, place: Place) -> Result<Tensor> {
    let whole = |place| -> Result<TensorLayout> {
        TensorLayout::new(DType::F32, [SIDE, SIDE], DeviceMapping::new(mesh, [place])?)
    };
    let bytes: Vec<u8> = std::iter::repeat_n(1.0_f32.to_ne_bytes(), N).flatten().collect();
    if !place.is_partial() {
        return Tensor::from_bytes(&bytes, whole(place)?);
    }
    let backend = sharding_core::backend::backend_of(BackendKind::CPU)?;
    let layout = whole(place)?;
    let shard = |device| {
        let mut shard = backend.alloc(device, DType::F32, layout.shape())?;
        backend.write(&bytes, &mut shard)?;
        Ok(shard)
    };
    let shards = mesh.devices().map(shard).collect::<Result<_>>()?;
    Tensor::from_shards(layout, backend.positions(mesh)?, shards)
}

fn main() -> Result<()> {
    println!(
        "64 MiB of f32, {} threads, medians of {TIMES} in turns, milliseconds",
        rayon::current_num_threads()
    );
    println!(
        "{:16} {:>3} {:>9} {:>14} {:>14} {:>7} {:>7}",
        "collective", "n", "ours", "plain, fresh", "plain, reused", "fresh", "reused"
    );
    for n in [2, 8] {
        let mesh = DeviceMesh::simulated(BackendKind::CPU, [n], ["x"])?;
        let (s0, s1) = (Place::Sharded(0), Place::Sharded(1));
        for (name, from, to) in [
            ("all_reduce", Place::PARTIAL, Place::Replicated),
            ("reduce_scatter", Place::PARTIAL, s0),
            ("all_gather", s0, Place::Replicated),
            ("all_gather, cols", s1, Place::Replicated),
            ("all_to_all", s0, s1),
        ] {
            let source = tensor(&mesh, from)?;
            let target = DeviceMapping::new(&mesh, [to])?;
            let parts: Vec<Vec<f32>> =
                (0..if from.is_partial() { n } else { 1 }).map(|_| vec![1.0_f32; N]).collect();
            let plain = |out: &mut [f32]| {
                out.par_chunks_mut(CHUNK).enumerate().for_each(|(i, out)| {
                    let at = |k: usize| {
                        parts.get(k).and_then(|part| part.get(i * CHUNK..(i + 1) * CHUNK)).unwrap_or(&[])
                    };
                    match parts.len() {
                        1 => out.copy_from_slice(at(0)),
                        2 => out.iter_mut().zip(at(0)).zip(at(1)).for_each(|((o, a), b)| *o = a + b),
                        _ => {
                            let all: Vec<&[f32]> = (0..parts.len()).map(at).collect();
                            let [a, b, c, d, e, f, g, h] = all[..] else { return };
                            let left = a.iter().zip(b).zip(c).zip(d).zip(e).zip(f).zip(g).zip(h);
                            out.iter_mut().zip(left).for_each(|(o, (((((((a, b), c), d), e), f), g), h))| {
                                *o = ((a + b) + (c + d)) + ((e + f) + (g + h));
                            });
                        }
                    }
                });
            };
            let mut reused = vec![0.0_f32; N];
            let times = medians(&mut [
                ("ours", &mut || {
                    std::hint::black_box(source.transfer_to(&target)?);
                    Ok(())
                }),
                ("fresh", &mut || {
                    let mut out: Vec<f32> = vec![0.0; N];
                    plain(&mut out);
                    std::hint::black_box(&out);
                    Ok(())
                }),
                ("reused", &mut || {
                    plain(&mut reused);
                    std::hint::black_box(&reused);
                    Ok(())
                }),
            ])?;
            if let [ours, fresh, warm] = times[..] {
                println!(
                    "{name:16} {n:3} {ours:9.2} {fresh:14.2} {warm:14.2} {:7.2} {:7.2}",
                    fresh / ours,
                    warm / ours
                );
            }
        }
    }
    Ok(())
}
