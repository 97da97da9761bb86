//! Collectives between the slots of one CPU, and what they run: sums of parts, and copies of regions into results.

pub(crate) mod halves;
pub(crate) mod sum;

use crate::CpuBackend;
use crate::copy::{self, Lines, Transfer, put_line};
use crate::device::{self, is_large};
use crate::element::{Cell, kind};
use crate::memory::Beside;
use crate::storage::{View, as_slots, in_bounds, internal, owned, places, with_word, written};
use sharding_core::backend::{
    Collectives, Exchange, InProcess, LocalArray, LocalArrays, Move, Step, Support,
};
use sharding_core::{Result, Shape};
use smallvec::SmallVec;
use std::mem::MaybeUninit;

/// The collectives of this backend.
pub(crate) static COLLECTIVES: CpuCollectives = CpuCollectives { generic: InProcess(&CpuBackend) };

/// All shards are in this process.
pub(crate) struct CpuCollectives {
    generic: InProcess<'static>,
}

impl Collectives for CpuCollectives {
    fn supports(&self, step: &Step) -> Support {
        // Every dtype that there is combines by every op: programs ask at every step, so nothing is worked out.
        match kind(step.source.dtype()) {
            Ok(_) => Support::Yes,
            Err(_) => self.generic.supports(step),
        }
    }

    fn run(&self, op: &'static str, step: &Step, shards: LocalArrays) -> Result<LocalArrays> {
        self.generic.run(op, step, shards)
    }

    fn exchange(
        &self,
        op: &'static str,
        exchange: &Exchange<'_>,
        shards: &[LocalArrays],
    ) -> Result<LocalArrays> {
        self.generic.exchange(op, exchange, shards)
    }
}

/// Copies regions; see [`Backend::copy`](sharding_core::backend::Backend::copy).
pub(crate) fn regions(moves: &mut [Move<'_>]) -> Result<()> {
    if !is_large(moves.iter().map(|one| one.into.elements()).sum()) {
        return moves.iter_mut().try_for_each(one_by_one);
    }
    let bytes = moves.iter().map(|one| one.into.bytes()).sum();
    let kind = |one: &Move<'_>| (one.into.is_contiguous(), one.into.dtype().size());
    for alike in moves.chunk_by_mut(|a, b| kind(a) == kind(b)) {
        match alike {
            [first, ..] if first.into.is_contiguous() => {
                with_word!(first.into.dtype(), T => by_rows::<T>(alike, bytes)?);
            }
            _ => alike.iter_mut().try_for_each(one_by_one)?,
        }
    }
    Ok(())
}

/// A view and the index of the target at which it lands.
type Landing = (LocalArray, SmallVec<[usize; 4]>);

/// Copies the regions of one target.
fn one_by_one(Move { op, pieces, into }: &mut Move<'_>) -> Result<()> {
    let copied = pieces.iter().try_for_each(|(source, at)| region(source, at, into));
    copied.map_err(|error| error.with_op(*op))
}

/// Copies the regions of contiguous targets whose elements have the size of `T`, bands of their rows in parallel; what the
/// pieces cover is not cleared first. All targets of the call have so many bytes.
fn by_rows<T: Cell>(moves: &mut [Move<'_>], bytes: usize) -> Result<()> {
    let mut pastes: SmallVec<[Paste<'_, T>; 8]> = SmallVec::new();
    let mut targets: SmallVec<[&mut [MaybeUninit<T>]; 8]> = SmallVec::new();
    for Move { op, pieces, into } in &mut *moves {
        pastes.push(Paste::new(pieces, into).map_err(|error| error.with_op(*op))?);
        let places = if cover(pieces, into.elements()) {
            // SAFETY: `Band::write` puts nothing but values there.
            unsafe { places::<T>(into) }
        } else {
            // SAFETY: as above.
            unsafe { kept(into) }
        };
        targets.push(places.map_err(|error| error.with_op(*op))?);
    }
    let mut bands = bands(&pastes, targets);
    device::chunks(&mut bands, 1, |_, bands| bands.iter_mut().for_each(|band| band.write(bytes)));
    drop(bands);
    drop(pastes);
    moves.iter_mut().try_for_each(|Move { op, into, .. }| {
        // SAFETY: pieces that cover a target do not overlap, lie inside its shape and have as many elements as it, so that all
        // were written; of other targets all elements had values before.
        unsafe { written(into) }.map_err(|error| error.with_op(*op))
    })
}

/// The places of a contiguous array of which some keep their elements.
///
/// # Safety
/// Nothing but values is put there.
unsafe fn kept<T: Cell>(array: &mut LocalArray) -> Result<&mut [MaybeUninit<T>]> {
    let (start, len) = (array.meta().offset, array.elements());
    let data = owned(array)?.elements_mut::<T>()?;
    let part = start.checked_add(len).and_then(|end| data.get_mut(start..end));
    // SAFETY: the caller's promise.
    part.map(|part| unsafe { as_slots(part) }).ok_or_else(|| internal("an array exceeds its storage"))
}

/// Whether pieces that lie inside an array of so many elements write all of it: they are as many, and no two overlap.
/// Only looked at for a few pieces.
fn cover(pieces: &[Landing], elements: usize) -> bool {
    const MOST: usize = 64;
    let apart = |(a, at): &Landing, (b, bt): &Landing| {
        let axes = a.shape().iter().zip(at).zip(b.shape().iter().zip(bt));
        a.elements() == 0
            || b.elements() == 0
            || axes.into_iter().any(|((n, at), (m, bt))| at + n <= *bt || bt + m <= *at)
    };
    pieces.len() <= MOST
        && pieces.iter().map(|(source, _)| source.elements()).sum::<usize>() == elements
        && pieces.iter().enumerate().all(|(i, piece)| pieces[..i].iter().all(|other| apart(piece, other)))
}

/// The regions of one contiguous target whose elements have the size of `T`.
struct Paste<'a, T> {
    shape: Shape,
    /// Views, and where they land.
    views: SmallVec<[(View<'a, T>, &'a [usize]); 8]>,
    /// The outermost axis that can be cut, its extent, and the elements of a row of it.
    axis: usize,
    rows: usize,
    row: usize,
    /// Whether some view has a part of each of its array's rows: the rest is for other targets.
    shares_rows: bool,
}

impl<'a, T: Cell> Paste<'a, T> {
    fn new(pieces: &'a [Landing], into: &LocalArray) -> Result<Self> {
        let shape = into.shape().clone();
        let fits = |(source, at): &Landing| {
            let ends = source.shape().iter().zip(at).map(|(n, at)| n.saturating_add(*at));
            source.dtype() == into.dtype()
                && (source.shape().len(), at.len()) == (shape.len(), shape.len())
                && ends.zip(shape.iter()).all(|(end, extent)| end <= *extent)
        };
        if let Some((source, at)) = pieces.iter().find(|piece| !fits(piece)) {
            return Err(internal(format!("{source:?} does not fit {into:?} at {at:?}")));
        }
        let pieces = || pieces.iter().filter(|(source, _)| source.elements() > 0);
        let views = pieces().map(|(source, at)| Ok((View::of(source)?, &at[..]))).collect::<Result<_>>()?;
        let shares_rows = pieces().any(|(source, _)| !source.is_contiguous());
        let axis = shape.iter().position(|extent| *extent > 1).unwrap_or(0);
        let row = shape.iter().skip(axis + 1).product::<usize>().max(1);
        Ok(Self { axis, rows: into.elements() / row, row, shape, views, shares_rows })
    }

    /// What the views have of rows `first..first + count`, of which the target of the copies holds no others.
    fn of_rows(&self, first: usize, count: usize) -> impl Iterator<Item = (View<'a, T>, Transfer)> {
        let steps = self.shape.strides();
        self.views.iter().filter_map(move |(view, at)| {
            let meta = view.meta();
            let mut extents: SmallVec<[usize; 4]> = meta.shape.iter().copied().collect();
            let mut from = meta.offset as isize;
            let mut to = at.iter().zip(&steps).map(|(at, step)| *at as isize * step).sum::<isize>();
            if let (Some(extent), Some(at)) = (extents.get_mut(self.axis), at.get(self.axis)) {
                let (start, end) = ((*at).max(first), (at + *extent).min(first + count));
                if start >= end {
                    return None;
                }
                *extent = end - start;
                from += meta.strides[self.axis] * (start - at) as isize;
                to += steps[self.axis] * (start as isize - *at as isize - first as isize);
            }
            Some((*view, Transfer::new(&extents, (&steps, to), (&meta.strides, from))))
        })
    }
}

/// Rows of some targets, the work of one task.
struct Band<'p, 'a, T> {
    first: usize,
    parts: SmallVec<[Part<'p, 'a, T>; 2]>,
}

/// Rows of one target.
struct Part<'p, 'a, T> {
    paste: &'p Paste<'a, T>,
    out: &'a mut [MaybeUninit<T>],
}

/// The most targets that are written in turns: so many places in memory a processor follows at a time.
const TURNS: usize = 16;

/// Cuts targets into bands, a task each. Targets which have as many rows, and take parts of the rows of their sources, are cut
/// together: so one after the other reads its part of a row, and sources are read in the order of their memory.
fn bands<'p, 'a, T>(
    pastes: &'p [Paste<'a, T>],
    targets: impl IntoIterator<Item = &'a mut [MaybeUninit<T>]>,
) -> Vec<Band<'p, 'a, T>> {
    let mut bands: Vec<Band<'p, 'a, T>> = Vec::new();
    let mut targets = targets.into_iter();
    for alike in pastes.chunk_by(|a, b| a.shares_rows && b.shares_rows && a.rows == b.rows) {
        for together in alike.chunks(TURNS) {
            let row: usize = together.iter().map(|paste| paste.row).sum();
            let rows = (copy::TASK / row).max(1);
            let start = bands.len();
            for (paste, target) in together.iter().zip(&mut targets) {
                for (i, out) in target.chunks_mut(rows * paste.row).enumerate() {
                    if start + i == bands.len() {
                        bands.push(Band { first: i * rows, parts: SmallVec::new() });
                    }
                    bands[start + i].parts.push(Part { paste, out });
                }
            }
        }
    }
    bands
}

impl<T: Cell> Band<'_, '_, T> {
    /// Writes what the views have of its rows; the targets of the call have so many bytes.
    fn write(&mut self, bytes: usize) {
        let beside = Beside::new(bytes);
        let mut lines: SmallVec<[(Lines, View<'_, T>, usize); 8]> = SmallVec::new();
        for (i, Part { paste, out }) in self.parts.iter_mut().enumerate() {
            for (view, transfer) in paste.of_rows(self.first, out.len() / paste.row) {
                match transfer.lines() {
                    Some(of_it) => lines.push((of_it, view, i)),
                    None => transfer.run(view.data(), out, beside.as_ref()),
                }
            }
        }
        // In turns: what one target takes of a source lies beside what the next one takes, and what one view gives a target
        // beside what the next one gives.
        let longest = lines.iter().map(|(lines, ..)| lines.count).max().unwrap_or(0);
        for i in 0..longest {
            for (lines, view, part) in &lines {
                if let Some((to, from)) = lines.at(i) {
                    let out = &mut self.parts[*part].out;
                    put_line(&mut out[to..][..lines.len], &view.data()[from..][..lines.len], beside.as_ref());
                }
            }
        }
    }
}

fn region(source: &LocalArray, at: &[usize], into: &mut LocalArray) -> Result<()> {
    if source.elements() == 0 {
        return Ok(());
    }
    let meta = into.meta().clone();
    let target = source.shape();
    let fits = target.len() == meta.shape.len()
        && at.len() == meta.shape.len()
        && target
            .iter()
            .zip(at)
            .zip(meta.shape.iter())
            .all(|((n, at), extent)| extent.checked_sub(*n).is_some_and(|most| *at <= most));
    if !fits || source.dtype() != meta.dtype {
        return Err(internal(format!("{source:?} does not fit {into:?} at {at:?}")));
    }
    with_word!(meta.dtype, T => {
        // A source in the same storage holds it too, so that `owned` copies it and nothing overlaps.
        let view = View::<T>::of(source)?;
        let offset = at.iter().zip(&meta.strides).map(|(i, stride)| *i as isize * stride).sum::<isize>();
        let transfer = Transfer::new(
            target,
            (&meta.strides, meta.offset as isize + offset),
            (&view.meta().strides, view.meta().offset as isize),
        );
        let data = owned(into)?.elements_mut::<T>()?;
        in_bounds(&meta, data.len())?;
        transfer.run(view.data(), data, None);
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage;
    use sharding_core::backend::StepKind;
    use sharding_core::{
        BackendKind, DType, Device, DeviceMapping, DeviceMesh, Element, Place, ReduceOp, TensorLayout,
    };

    #[test]
    fn what_is_supported_without_a_look_is_so_by_the_primitives() {
        let mesh = DeviceMesh::simulated(BackendKind::CPU, [2], ["x"]).unwrap();
        for dtype in DType::ALL {
            let lay =
                |place| TensorLayout::new(dtype, [4], DeviceMapping::new(&mesh, [place]).unwrap()).unwrap();
            for op in [ReduceOp::Sum, ReduceOp::Prod, ReduceOp::Max, ReduceOp::Min] {
                for (kind, target) in [
                    (StepKind::AllReduce(op), Place::Replicated),
                    (StepKind::ReduceScatter(op), Place::Sharded(0)),
                ] {
                    let (source, target) = (lay(Place::Partial(op)), lay(target));
                    let step = Step { kind, axes: [0].into_iter().collect(), source, target, cost: 0.0 };
                    assert_eq!(COLLECTIVES.supports(&step), COLLECTIVES.generic.supports(&step), "{step}");
                }
            }
        }
    }

    pub(super) fn array(shape: &[usize], first: usize) -> LocalArray {
        let shape = Shape::from(shape);
        let values: Vec<i64> = (first..first + shape.elements()).map(|i| i as i64).collect();
        let mut array = storage::alloc(Device::cpu(), DType::I64, &shape).unwrap();
        storage::write(&i64::to_bytes(&values), &mut array).unwrap();
        array
    }

    pub(super) fn values(array: &LocalArray) -> Vec<i64> {
        let mut bytes = vec![0; array.bytes()];
        storage::read(array, &mut bytes).unwrap();
        i64::from_bytes(&bytes)
    }

    /// Large copies by rows do what copies piece by piece do.
    fn check(shape: &[usize], pieces: &[Landing]) {
        let into = || array(shape, 10_000_000);
        let (mut by_rows, mut by_pieces) = (into(), into());
        assert!(is_large(by_rows.elements()));
        regions(&mut [Move { op: "test", pieces, into: &mut by_rows }]).unwrap();
        for (source, at) in pieces {
            region(source, at, &mut by_pieces).unwrap();
        }
        assert_eq!(values(&by_rows), values(&by_pieces), "{shape:?}");
    }

    fn at(index: &[usize]) -> SmallVec<[usize; 4]> {
        index.into()
    }

    #[test]
    fn large_copies_by_rows() {
        let turned = |rows, columns, first| array(&[columns, rows], first).permute(&[1, 0]);
        // Pieces that cover all, of which some are transposed and one is empty.
        let quarters = [
            (array(&[300, 401], 0), at(&[0, 0])),
            (turned(300, 599, 200_000), at(&[0, 401])),
            (turned(223, 1000, 500_000), at(&[300, 0])),
            (array(&[0, 1000], 0), at(&[523, 0])),
        ];
        check(&[523, 1000], &quarters);
        // The outermost axis of extent 1, and a part that keeps its values.
        check(&[1, 700_001], &[(array(&[1, 400_000], 3), at(&[0, 200_000]))]);
        check(&[2, 1, 300_000], &[(array(&[1, 1, 300_000], 3), at(&[1, 0, 0]))]);
        // As many elements as the whole, but one region twice: the rest keeps its values.
        let half = array(&[400, 500], 7);
        check(&[800, 500], &[(half.clone(), at(&[0, 0])), (half, at(&[0, 0]))]);
    }

    /// Cuts an array along an axis.
    fn cuts(whole: &LocalArray, axis: usize, sizes: &[usize]) -> Vec<LocalArray> {
        let mut start = 0;
        let cut = |size: &usize| {
            start += size;
            whole.slice(axis, start - size, *size)
        };
        sizes.iter().map(cut).collect()
    }

    /// Several targets at once, by threads together, are what each is alone.
    #[test]
    fn large_copies_into_several_targets() {
        let sources = [array(&[70, 901], 0), array(&[0, 901], 0), array(&[231, 901], 1_000_000)];
        let sizes = [[300, 301, 0, 300], [1, 899, 1, 0], [225, 225, 226, 225]];
        for sizes in sizes {
            // Target `i` has columns `i` of all sources; the last lies in memory of its own strides.
            let parts: Vec<_> = sources.iter().map(|source| cuts(source, 1, &sizes)).collect();
            let pieces: Vec<Vec<Landing>> = (0..sizes.len())
                .map(|i| vec![(parts[0][i].clone(), at(&[0, 0])), (parts[2][i].clone(), at(&[70, 0]))])
                .collect();
            let targets = || {
                let mut all: Vec<_> = sizes.iter().map(|size| array(&[301, *size], 5)).collect();
                all.push(array(&[901, 301], 5).permute(&[1, 0]));
                all
            };
            let whole = [(sources[0].clone(), at(&[0, 0])), (sources[2].clone(), at(&[70, 0]))];
            let (mut together, mut alone) = (targets(), targets());
            let landings = pieces.iter().map(Vec::as_slice).chain([&whole[..]]);
            let mut moves: Vec<Move<'_>> = together
                .iter_mut()
                .zip(landings.clone())
                .map(|(into, pieces)| Move { op: "test", pieces, into })
                .collect();
            regions(&mut moves).unwrap();
            for (into, pieces) in alone.iter_mut().zip(landings) {
                pieces.iter().for_each(|(source, at)| region(source, at, into).unwrap());
            }
            for (together, alone) in together.iter().zip(&alone) {
                assert_eq!(values(together), values(alone), "{sizes:?}");
            }
        }
    }

    /// So large that it goes past the caches, in rows of no round number of bytes.
    #[test]
    fn very_large_copies() {
        let (rows, columns) = (1500, 3001);
        let source = array(&[rows, columns], 3);
        let parts = cuts(&source, 1, &[1000, 1, 2000]);
        let pieces: Vec<Landing> =
            parts.iter().zip([2001, 2000, 0]).map(|(part, to)| (part.clone(), at(&[0, to]))).collect();
        let mut into = array(&[rows, columns], 0);
        assert_eq!(Beside::new(into.bytes()).is_some(), cfg!(all(target_arch = "x86_64", not(miri))));
        regions(&mut [Move { op: "test", pieces: &pieces, into: &mut into }]).unwrap();
        let found = values(&into);
        let want = |row: usize, column: usize| {
            let from = match column {
                0..2000 => 1001 + column,
                2000 => 1000,
                _ => column - 2001,
            };
            (3 + row * columns + from) as i64
        };
        for (row, found) in found.chunks(columns).enumerate() {
            assert!(found.iter().enumerate().all(|(column, x)| *x == want(row, column)), "row {row}");
        }
    }

    #[test]
    fn pieces_that_do_not_fit_are_refused() {
        let mut into = array(&[600, 500], 0);
        let pieces = [(array(&[600, 500], 0), at(&[1, 0]))];
        assert!(regions(&mut [Move { op: "test", pieces: &pieces, into: &mut into }]).is_err());
    }
}
