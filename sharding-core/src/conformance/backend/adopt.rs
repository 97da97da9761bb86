//! Host memory that is used as it is, and local arrays that are looked at where they lie.

use super::{Bench, Checked, DTYPES, FORMS, caught, signed, text};
use crate::DType;
use crate::backend::{HostMemory, LocalArray, LocalMeta, Move};
use crate::conformance::host::{HostArray, scalars};
use smallvec::SmallVec;
use std::sync::Arc;

/// Bytes at some place of aligned words.
struct Room {
    words: Vec<u64>,
    start: usize,
    len: usize,
}

impl Room {
    fn new(bytes: &[u8], start: usize) -> Arc<Self> {
        let mut words = vec![0_u64; (start + bytes.len()).div_ceil(8)];
        let room: &mut [u8] = bytemuck::cast_slice_mut(&mut words);
        for (slot, byte) in room.iter_mut().skip(start).zip(bytes) {
            *slot = *byte;
        }
        Arc::new(Self { words, start, len: bytes.len() })
    }
}

impl HostMemory for Room {
    fn bytes(&self) -> &[u8] {
        let bytes: &[u8] = bytemuck::cast_slice(&self.words);
        bytes.get(self.start..self.start + self.len).unwrap_or(&[])
    }
}

pub(super) fn adopt(bench: &mut Bench<'_>) {
    for dtype in DTYPES {
        let host = signed(dtype, [3, 4], 11);
        bench.check(format!("memory/adopt {dtype}"), |bench| views(bench, &host));
        bench.check(format!("memory/adopt_write {dtype}"), |bench| writes(bench, &host));
        bench.check(format!("memory/adopt_unaligned {dtype}"), |bench| {
            let memory: Arc<dyn HostMemory> = Room::new(&host.to_bytes(), 1);
            let meta = LocalMeta::contiguous(dtype, host.shape.clone());
            match caught(|| bench.backend.adopt(bench.device, &memory, &meta))? {
                None => Ok(()),
                Some(array) => bench.holds(&array, &host, true),
            }
        });
        for form in FORMS {
            bench.check(format!("memory/peek {dtype} {form:?}"), |bench| {
                peek(bench, &bench.put(&host, form).map_err(text)?, &host)
            });
        }
    }
    bench.check("memory/adopt_empty", |bench| {
        let empty = HostArray { dtype: DType::F32, shape: [2, 0].into(), values: Vec::new() };
        let memory: Arc<dyn HostMemory> = Room::new(&[], 0);
        let meta = LocalMeta::contiguous(DType::F32, empty.shape.clone());
        match caught(|| bench.backend.adopt(bench.device, &memory, &meta))? {
            None => Ok(()),
            Some(array) => bench.holds(&array, &empty, true),
        }
    });
    bench.check("memory/adopt_beyond", |bench| {
        let memory: Arc<dyn HostMemory> = Room::new(&[0; 8], 0);
        let meta = LocalMeta::contiguous(DType::F32, [3].into());
        match caught(|| Ok(bench.backend.adopt(bench.device, &memory, &meta)))? {
            Ok(Some(array)) => Err(format!("it gives {array:?} over 8 bytes")),
            Ok(None) | Err(_) => Ok(()),
        }
    });
    bench.check("memory/adopt_truth", |bench| {
        let memory: Arc<dyn HostMemory> = Room::new(&[0, 1, 2], 0);
        let meta = LocalMeta::contiguous(DType::Bool, [3].into());
        let Some(array) = caught(|| bench.backend.adopt(bench.device, &memory, &meta))? else {
            return Ok(());
        };
        let mut bytes = [0; 3];
        caught(|| bench.backend.read(&array, &mut bytes))?;
        if bytes == [0, 1, 1] { Ok(()) } else { Err(format!("truth values are read as {bytes:?}")) }
    });
}

/// The array over the memory, and what is left of the owner's references when it is gone.
fn adopted(
    bench: &Bench<'_>,
    host: &HostArray,
    look: impl FnOnce(&Arc<Room>, LocalArray) -> Checked,
) -> Checked {
    let room = Room::new(&host.to_bytes(), 8);
    let memory: Arc<dyn HostMemory> = room.clone();
    let meta = LocalMeta::contiguous(host.dtype, host.shape.clone());
    let array = caught(|| bench.backend.adopt(bench.device, &memory, &meta))?;
    drop(memory);
    let Some(array) = array else { return Ok(()) };
    let storage = (array.device(), array.storage().bytes());
    if storage != (bench.device, host.to_bytes().len()) {
        return Err(format!("a storage on {} of {} bytes", storage.0, storage.1));
    }
    look(&room, array)?;
    match Arc::strong_count(&room) {
        1 => Ok(()),
        n => Err(format!("{} references are left", n - 1)),
    }
}

fn views(bench: &Bench<'_>, host: &HostArray) -> Checked {
    adopted(bench, host, |_, array| {
        bench.holds(&array, host, true)?;
        // Rows from the last to the first, as no slice of an allocated array lies.
        let rows = host.values.chunks(4).rev().flatten().copied().collect();
        let backwards = HostArray { values: rows, ..host.clone() };
        let meta = LocalMeta { strides: [-4, 1].into_iter().collect(), offset: 8, ..array.meta().clone() };
        bench.holds(&LocalArray::new(meta, array.storage().clone()), &backwards, true)?;
        let cut = array.slice(0, 1, 2).slice(1, 1, 3).permute(&[1, 0]);
        let at = |i: usize, j: usize| host.values.get((j + 1) * 4 + i + 1).copied();
        let values = (0..3).flat_map(|i| (0..2).filter_map(move |j| at(i, j))).collect();
        bench.holds(&cut, &HostArray { dtype: host.dtype, shape: [3, 2].into(), values }, true)
    })
}

/// A write does not reach the memory, whoever else holds the array.
fn writes(bench: &Bench<'_>, host: &HostArray) -> Checked {
    let new = signed(host.dtype, [3, 4], 12);
    let (before, bytes) = (host.to_bytes(), new.to_bytes());
    let row = signed(host.dtype, [1, 4], 13);
    for shared in [false, true] {
        adopted(bench, host, |room, mut array| {
            let snapshot = shared.then(|| array.clone());
            caught(|| bench.backend.write(&bytes, &mut array))?;
            bench.holds(&array, &new, true)?;
            if let Some(snapshot) = snapshot {
                bench.holds(&snapshot, host, true)?;
            }
            if room.bytes() == before { Ok(()) } else { Err("a write reached the memory".to_owned()) }
        })?;
        // Into a part: the rest keeps its values.
        adopted(bench, host, |room, mut array| {
            let snapshot = shared.then(|| array.clone());
            let pieces =
                [(row.put(bench.backend, bench.device).map_err(text)?, SmallVec::from_slice(&[1, 0]))];
            let into = &mut array;
            caught(|| bench.backend.copy(&mut [Move { op: super::OP, pieces: &pieces, into }]))?;
            let mut want = host.clone();
            for (slot, value) in want.values.iter_mut().skip(4).zip(&row.values) {
                *slot = *value;
            }
            bench.holds(&array, &want, true)?;
            if let Some(snapshot) = snapshot {
                bench.holds(&snapshot, host, true)?;
            }
            if room.bytes() == before { Ok(()) } else { Err("a copy reached the memory".to_owned()) }
        })?;
    }
    Ok(())
}

/// What is seen where it lies is what is read.
fn peek(bench: &Bench<'_>, array: &LocalArray, host: &HostArray) -> Checked {
    let Some(bytes) = caught(|| bench.backend.peek(array))? else { return Ok(()) };
    let all = scalars(host.dtype, bytes);
    let mut at: Vec<isize> = vec![array.meta().offset as isize];
    for (extent, stride) in array.shape().iter().zip(&array.meta().strides) {
        at = at.iter().flat_map(|at| (0..*extent as isize).map(move |i| at + i * stride)).collect();
    }
    let values: Option<Vec<_>> = at.iter().map(|at| all.get(*at as usize).copied()).collect();
    let got = values.ok_or("a view beyond the bytes that are shown")?;
    let same = got.len() == host.values.len()
        && got.iter().zip(&host.values).all(|(got, want)| got.key_bits() == want.key_bits());
    if same { Ok(()) } else { Err(format!("{got:?} is shown instead of {:?}", host.values)) }
}
