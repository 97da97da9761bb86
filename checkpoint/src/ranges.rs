//! The runs of a row-major tensor that a slice of it is made of, and their bytes from a file.

use crate::cast::Cast;
use crate::read_at::read_at;
use sharding_core::Region;
use sharding_core::placement::Ranges;
use std::fs::File;
use std::io;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};

/// Runs shorter than this, with gaps shorter than this between them, are read together with the gaps: a call for each
/// would cost more than the bytes.
const SHORT: usize = 512;

/// The most bytes that are read into the buffer at once.
const BUFFER: usize = 1 << 16;

/// The most runs that are read together.
const TOGETHER: usize = 4096;

/// Calls `run(start, len)` for every run of elements of a region, in the order of the shard. Runs that touch are one.
///
/// # Errors
/// The first error of `run`.
pub(crate) fn each_run<E>(
    shape: &[usize],
    region: &Region,
    mut run: impl FnMut(usize, usize) -> Result<(), E>,
) -> Result<(), E> {
    // A slice of nothing has no runs; the axes before an empty one may be as long as a file cares to say.
    if region.iter().any(|ranges| ranges.iter().all(|range| range.is_empty())) {
        return Ok(());
    }
    // What came so far and may go on.
    let mut open = (0, 0);
    let broken = walk(shape, region, 0, &mut |start, len| {
        if open.0 + open.1 == start {
            open.1 += len;
            return ControlFlow::Continue(());
        }
        let (start, len) = std::mem::replace(&mut open, (start, len));
        if len == 0 {
            return ControlFlow::Continue(());
        }
        run(start, len).map_or_else(ControlFlow::Break, ControlFlow::Continue)
    });
    match broken {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) if open.1 == 0 => Ok(()),
        ControlFlow::Continue(()) => run(open.0, open.1),
    }
}

/// The runs of the axes of `shape`, from the element at `base`. Axes that are whole are one run with the axis before.
fn walk<E>(
    shape: &[usize],
    region: &[Ranges],
    base: usize,
    run: &mut impl FnMut(usize, usize) -> ControlFlow<E>,
) -> ControlFlow<E> {
    let (Some((_, shape)), Some((ranges, region))) = (shape.split_first(), region.split_first()) else {
        return run(base, 1);
    };
    let step: usize = shape.iter().product();
    let whole = shape
        .iter()
        .zip(region)
        .all(|(extent, ranges)| matches!(ranges.as_slice(), [range] if *range == (0..*extent)));
    for range in ranges {
        if whole {
            if range.len() * step > 0 {
                run(base + range.start * step, range.len() * step)?;
            }
            continue;
        }
        for i in range.clone() {
            walk(shape, region, base + i * step, run)?;
        }
    }
    ControlFlow::Continue(())
}

/// Takes runs of bytes from a file, in the order in which they come, into a buffer of the wanted elements.
pub(crate) struct Reader<'a> {
    file: &'a File,
    /// What is counted: bytes that were read.
    counter: &'a AtomicU64,
    cast: Option<Cast>,
    out: &'a mut [u8],
    /// Short runs that are still to be read, ascending.
    waiting: Vec<(u64, usize)>,
    buffer: Vec<u8>,
}

impl<'a> Reader<'a> {
    /// A reader that fills `out`; through `cast`, if elements are to change.
    pub(crate) fn new(file: &'a File, counter: &'a AtomicU64, cast: Option<Cast>, out: &'a mut [u8]) -> Self {
        Self { file, counter, cast, out, waiting: Vec::new(), buffer: Vec::new() }
    }

    /// Takes `len` bytes from `start`.
    ///
    /// # Errors
    /// What the system says, or what cannot be cast.
    pub(crate) fn take(&mut self, start: u64, len: usize) -> io::Result<()> {
        if let (Some((first, _)), Some((last, n))) = (self.waiting.first(), self.waiting.last()) {
            let end = last + *n as u64;
            let near = start.checked_sub(end).is_some_and(|gap| gap < SHORT as u64);
            let fits = (start + len as u64).checked_sub(*first).is_some_and(|span| span <= BUFFER as u64);
            if !near || !fits || len >= SHORT || self.waiting.len() == TOGETHER {
                self.finish()?;
            }
        }
        if len < SHORT {
            self.waiting.push((start, len));
            return Ok(());
        }
        let Some(cast) = self.cast else {
            let out = self.place(len)?;
            self.counter.fetch_add(len as u64, Ordering::Relaxed);
            return read_at(self.file, out, start);
        };
        // A whole number of elements at a time: elements have 1, 2, 4 or 8 bytes.
        for from in (0..len).step_by(BUFFER) {
            let n = BUFFER.min(len - from);
            self.fill(start + from as u64, n)?;
            let bytes = std::mem::take(&mut self.buffer);
            cast.put(&bytes, self.place(cast.bytes_of(n))?)?;
            self.buffer = bytes;
        }
        Ok(())
    }

    /// Reads what is still waiting.
    ///
    /// # Errors
    /// As [`Reader::take`].
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        let waiting = std::mem::take(&mut self.waiting);
        let (Some((first, _)), Some((last, n))) = (waiting.first(), waiting.last()) else { return Ok(()) };
        self.fill(*first, (last - first) as usize + n)?;
        let bytes = std::mem::take(&mut self.buffer);
        for (start, len) in &waiting {
            let from = (start - first) as usize;
            let run = bytes.get(from..from + len).unwrap_or_default();
            match self.cast {
                None => self.place(*len)?.copy_from_slice(run),
                Some(cast) => cast.put(run, self.place(cast.bytes_of(*len))?)?,
            }
        }
        self.buffer = bytes;
        Ok(())
    }

    /// Reads bytes into the buffer.
    fn fill(&mut self, start: u64, len: usize) -> io::Result<()> {
        self.buffer.resize(len, 0);
        self.counter.fetch_add(len as u64, Ordering::Relaxed);
        read_at(self.file, &mut self.buffer, start)
    }

    /// The next `len` bytes of what is to be filled.
    fn place(&mut self, len: usize) -> io::Result<&'a mut [u8]> {
        let out = std::mem::take(&mut self.out);
        let (place, rest) = out
            .split_at_mut_checked(len)
            .ok_or_else(|| io::Error::other("the slice has more bytes than there is room for"))?;
        self.out = rest;
        Ok(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn runs(shape: &[usize], region: &[&[std::ops::Range<usize>]]) -> Vec<(usize, usize)> {
        let region: Region = region.iter().map(|ranges| ranges.iter().cloned().collect::<Ranges>()).collect();
        let mut runs = Vec::new();
        let outcome: Result<(), ()> = each_run(shape, &region, |start, len| {
            runs.push((start, len));
            Ok(())
        });
        outcome.unwrap();
        runs
    }

    #[allow(
        clippy::single_range_in_vec_init,
        reason = "a slice of one range is what a device holds of an axis"
    )]
    #[test]
    fn rows_that_touch_are_one_run() {
        assert_eq!(runs(&[], &[]), [(0, 1)]);
        assert_eq!(runs(&[6, 4], &[&[2..5], &[0..4]]), [(8, 12)]);
        assert_eq!(runs(&[6, 4], &[&[0..6], &[0..4]]), [(0, 24)]);
        assert_eq!(runs(&[2, 4], &[&[0..2], &[1..3]]), [(1, 2), (5, 2)]);
        assert_eq!(runs(&[2, 4], &[&[0..2], &[0..1, 3..4]]), [(0, 1), (3, 2), (7, 1)]);
        assert_eq!(runs(&[4, 2], &[&[0..1, 1..3], &[0..2]]), [(0, 6)]);
        assert_eq!(runs(&[4, 2], &[&[2..3, 0..1], &[0..2]]), [(4, 2), (0, 2)]);
        assert_eq!(runs(&[4, 2], &[&[2..2], &[0..2]]), []);
        assert_eq!(runs(&[4, 0], &[&[0..4], &[0..0]]), []);
        assert_eq!(runs(&[3, 1, 2], &[&[0..3], &[0..1], &[1..2]]), [(1, 1), (3, 1), (5, 1)]);
    }

    proptest! {
        #[test]
        fn runs_are_the_elements_of_the_region_in_order(
            axes in prop::collection::vec((0_usize..5).prop_flat_map(|n| (Just(n), 0..=n, 0..=n)), 0..4)
        ) {
            let shape: Vec<usize> = axes.iter().map(|(n, _, _)| *n).collect();
            let region: Vec<std::ops::Range<usize>> =
                axes.iter().map(|(_, a, b)| *a.min(b)..*a.max(b)).collect();
            let mut want = vec![0];
            for (n, range) in shape.iter().zip(&region) {
                want = want.iter().flat_map(|at| range.clone().map(move |i| at * n + i)).collect();
            }
            let slices: Vec<&[std::ops::Range<usize>]> = region.iter().map(std::slice::from_ref).collect();
            let runs = runs(&shape, &slices);
            let got: Vec<usize> = runs.iter().flat_map(|(start, len)| *start..start + len).collect();
            prop_assert_eq!(got, want);
            prop_assert!(runs.windows(2).all(|two| two[0].0 + two[0].1 != two[1].0));
        }
    }
}
