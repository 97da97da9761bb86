//! Random numbers: what they are, that every piece of a whole has the numbers of the whole, and what is refused.

use super::{Bench, Checked, DTYPES, FLOATS, caught, text};
use crate::backend::{Distribution, LocalArray, Primitive, Random, RandomKey};
use crate::conformance::host::HostArray;
use crate::conformance::naive;
use crate::placement::{Interleaved, Ragged};
use crate::{DType, DeviceMapping, DeviceMesh, Place, Region, Shape};

const UNIFORM: [Distribution; 3] = [
    Distribution::Uniform { low: 0.0, high: 1.0 },
    // Sums that round, some of them to `high`.
    Distribution::Uniform { low: -0.75, high: 3.0 },
    Distribution::Uniform { low: 1024.0, high: 1032.0 },
];
const NORMAL: [Distribution; 2] =
    [Distribution::Normal { mean: 0.0, std: 1.0 }, Distribution::Normal { mean: -2.5, std: 0.125 }];
const BERNOULLI: [Distribution; 4] = [
    Distribution::Bernoulli { p: 0.0 },
    Distribution::Bernoulli { p: 0.3 },
    Distribution::Bernoulli { p: 0.75 },
    Distribution::Bernoulli { p: 1.0 },
];

fn key() -> RandomKey {
    RandomKey { seed: 0x0123_4567_89ab_cdef, stream: 0xfedc_ba98_7654_3210 }
}

fn all(shape: &Shape) -> Region {
    shape.iter().map(|extent| std::iter::once(0..*extent).collect()).collect()
}

fn of(distribution: Distribution, dtype: DType, whole: &Shape, region: Region) -> Random {
    Random { distribution, key: key(), whole: whole.clone(), region, dtype }
}

fn name(distribution: Distribution, dtype: DType) -> String {
    match distribution {
        Distribution::Uniform { .. } => format!("random/uniform({dtype})"),
        Distribution::Normal { .. } => format!("random/normal({dtype})"),
        Distribution::Bernoulli { .. } => format!("random/bernoulli({dtype})"),
    }
}

pub(super) fn random(bench: &mut Bench<'_>) {
    for dtype in DTYPES {
        // Those that the dtype does not have must be refused.
        for distribution in UNIFORM.iter().chain(&NORMAL).chain(&BERNOULLI) {
            for shape in
                [Shape::from([]), [0].into(), [1].into(), [13].into(), [3, 0, 2].into(), [5, 7].into()]
            {
                let random = of(*distribution, dtype, &shape, all(&shape));
                let name = name(*distribution, dtype);
                bench.compare(name, &Primitive::Random(random), &[], dtype, &shape);
            }
        }
    }
    for (distribution, dtype) in drawn() {
        if bench
            .backend
            .supports(&Primitive::Random(of(distribution, dtype, &Shape::default(), Region::new())), &[])
            .is_yes()
        {
            let name = name(distribution, dtype);
            bench.check(format!("{name} exact"), |bench| exact(bench, distribution, dtype));
            bench.check(format!("{name} pieces"), |bench| pieces(bench, distribution, dtype));
            bench.check(format!("{name} far"), |bench| far(bench, distribution, dtype));
        }
    }
}

/// One of each kind that there is.
fn drawn() -> impl Iterator<Item = (Distribution, DType)> {
    let floats = FLOATS.into_iter().flat_map(|dtype| {
        let [_, uniform, _] = UNIFORM;
        let [_, normal] = NORMAL;
        [(uniform, dtype), (normal, dtype)]
    });
    floats.chain(std::iter::once((Distribution::Bernoulli { p: 0.3 }, DType::Bool)))
}

fn run(bench: &Bench<'_>, random: &Random) -> std::result::Result<LocalArray, String> {
    caught(|| bench.launch(&Primitive::Random(random.clone()), &[], random.dtype, &random.shape()))
}

/// Uniform numbers and truth values are those of the definition, to the last bit, also in large arrays.
fn exact(bench: &Bench<'_>, distribution: Distribution, dtype: DType) -> Checked {
    let whole = Shape::from([70, 61]);
    let random = of(distribution, dtype, &whole, all(&whole));
    let exact = !matches!(distribution, Distribution::Normal { .. });
    let want = naive::primitive(&Primitive::Random(random.clone()), &[], dtype, &whole).map_err(text)?;
    bench.holds(&run(bench, &random)?, &want, exact)
}

/// Every piece has the numbers of the whole, to the last bit: balanced, uneven and empty ones, several ranges.
fn pieces(bench: &Bench<'_>, distribution: Distribution, dtype: DType) -> Checked {
    let whole = Shape::from([10, 3, 14]);
    let host = match bench.data {
        true => {
            let array = run(bench, &of(distribution, dtype, &whole, all(&whole)))?;
            HostArray::read(bench.backend, &array).map_err(text)?
        }
        false => HostArray::filled(dtype, &whole, dtype.lowest()),
    };
    let mesh = DeviceMesh::simulated(bench.backend.kind(), [2, 3], ["x", "y"]).map_err(text)?;
    let r = Place::Replicated;
    for places in [
        [r, Place::Sharded(0)],
        [r, Place::Sharded(2)],
        [Place::Sharded(0), Place::Sharded(1)],
        [Place::Sharded(2), Place::Sharded(2)],
        [Place::Sharded(0), Ragged::place(2, [0, 13, 1])],
        [r, Interleaved::place(2, [4, 4, 6])],
        [Place::Sharded(1), Interleaved::place(0, [7, 3])],
    ] {
        let mapping = DeviceMapping::new(&mesh, places).map_err(text)?;
        for position in 0..6 {
            let region = mapping.region(&whole, position);
            let piece = run(bench, &of(distribution, dtype, &whole, region.clone()))?;
            bench
                .holds(&piece, &host.cut(&region), true)
                .map_err(|wrong| format!("{mapping}, device {position}: {wrong}"))?;
        }
    }
    Ok(())
}

/// Elements whose number needs more than 32 bits.
fn far(bench: &Bench<'_>, distribution: Distribution, dtype: DType) -> Checked {
    let whole = Shape::from([1 << 18, 1 << 19]);
    // The naive reference numbers the elements of the region only.
    let rows = (1 << 17) + 1;
    let one = |range: std::ops::Range<usize>| std::iter::once(range).collect();
    let region: Region = [one(rows..rows + 2), one(5..42)].into_iter().collect();
    let random = of(distribution, dtype, &whole, region);
    let shape = random.shape();
    let want = naive::primitive(&Primitive::Random(random.clone()), &[], dtype, &shape).map_err(text)?;
    bench.holds(&run(bench, &random)?, &want, !matches!(distribution, Distribution::Normal { .. }))
}
