//! Collectives against what they say, element by element.

use super::*;
use proptest::prelude::*;

/// A block by its shape and values.
#[derive(Clone, Debug, PartialEq)]
struct Block(Vec<usize>, Vec<f64>);

impl Block {
    fn new(shape: &[usize], mut value: impl FnMut(&[usize]) -> f64) -> Self {
        let mut index = vec![0; shape.len()];
        let values = (0..shape.iter().product()).map(|flat: usize| {
            let mut rest = flat;
            for axis in (0..shape.len()).rev() {
                index[axis] = rest % shape[axis];
                rest /= shape[axis];
            }
            value(&index)
        });
        let values = values.collect();
        Self(shape.to_vec(), values)
    }
    fn at(&self, index: &[usize]) -> f64 {
        self.1[index.iter().zip(&self.0).fold(0, |flat, (i, n)| flat * n + i)]
    }
    fn of(x: &Tensor) -> Self {
        Self(x.shape().to_vec(), x.cast(DType::F64).unwrap().to_vec::<f64>().unwrap())
    }
}

fn with(index: &[usize], axis: usize, value: usize) -> Vec<usize> {
    let mut index = index.to_vec();
    index[axis] = value;
    index
}
fn inserted(index: &[usize], axis: usize, value: usize) -> Vec<usize> {
    let mut index = index.to_vec();
    index.insert(axis, value);
    index
}
fn removed(index: &[usize], axis: usize) -> Vec<usize> {
    let mut index = index.to_vec();
    index.remove(axis);
    index
}

/// One of the collectives, with tensor axes as they are written.
#[derive(Clone, Debug)]
enum Ask {
    Sum,
    Max,
    Min,
    Mean,
    Gather(isize, bool),
    Scatter(isize, bool),
    AllToAll(isize, isize, bool),
    Permute(Vec<(usize, usize)>),
    Shuffle(Vec<usize>),
}

impl Ask {
    fn call(&self, cx: &ManualCx, x: &Tensor, over: &Over) -> Result<Tensor> {
        match self {
            Ask::Sum => cx.psum(x, over),
            Ask::Max => cx.pmax(x, over),
            Ask::Min => cx.pmin(x, over),
            Ask::Mean => cx.pmean(x, over),
            Ask::Gather(axis, false) => cx.all_gather(x, over, *axis),
            Ask::Gather(axis, true) => cx.all_gather_tiled(x, over, *axis),
            Ask::Scatter(axis, false) => cx.psum_scatter(x, over, *axis),
            Ask::Scatter(axis, true) => cx.psum_scatter_tiled(x, over, *axis),
            Ask::AllToAll(split, concat, false) => cx.all_to_all(x, over, *split, *concat),
            Ask::AllToAll(split, concat, true) => cx.all_to_all_tiled(x, over, *split, *concat),
            Ask::Permute(pairs) => cx.ppermute(x, over, pairs),
            Ask::Shuffle(perm) => cx.pshuffle(x, over, perm),
        }
    }

    /// What member `k` of a group gets; `None` where the sizes do not fit.
    fn want(&self, group: &[Block], k: usize) -> Option<Block> {
        let (n, own) = (group.len(), &group[k].0);
        let axis =
            |axis: isize, ndim: usize| if axis < 0 { (axis + ndim as isize) as usize } else { axis as usize };
        let fold = |f: fn(f64, f64) -> f64, index: &[usize]| {
            group.iter().map(|block| block.at(index)).reduce(f).unwrap()
        };
        let sum = |index: &[usize]| fold(|a, b| a + b, index);
        Some(match self {
            Ask::Sum => Block::new(own, sum),
            Ask::Max => Block::new(own, |index| fold(f64::max, index)),
            Ask::Min => Block::new(own, |index| fold(f64::min, index)),
            Ask::Mean => Block::new(own, |index| sum(index) / n as f64),
            Ask::Gather(at, false) => {
                let at = axis(*at, own.len() + 1);
                Block::new(&inserted(own, at, n), |index| group[index[at]].at(&removed(index, at)))
            }
            Ask::Gather(at, true) => {
                let at = axis(*at, own.len());
                let extent = own[at];
                Block::new(&with(own, at, n * extent), |index| {
                    group[index[at] / extent].at(&with(index, at, index[at] % extent))
                })
            }
            Ask::Scatter(at, false) => {
                let at = axis(*at, own.len());
                if own[at] != n {
                    return None;
                }
                Block::new(&removed(own, at), |index| sum(&inserted(index, at, k)))
            }
            Ask::Scatter(at, true) => {
                let at = axis(*at, own.len());
                if own[at] % n != 0 {
                    return None;
                }
                let part = own[at] / n;
                Block::new(&with(own, at, part), |index| sum(&with(index, at, k * part + index[at])))
            }
            Ask::AllToAll(split, concat, false) => {
                let (split, concat) = (axis(*split, own.len()), axis(*concat, own.len()));
                if own[split] != n {
                    return None;
                }
                Block::new(&inserted(&removed(own, split), concat, n), |index| {
                    group[index[concat]].at(&inserted(&removed(index, concat), split, k))
                })
            }
            Ask::AllToAll(split, concat, true) => {
                let (split, concat) = (axis(*split, own.len()), axis(*concat, own.len()));
                if own[split] % n != 0 {
                    return None;
                }
                let part = own[split] / n;
                let chunk = with(own, split, part);
                Block::new(&with(&chunk, concat, n * chunk[concat]), |index| {
                    let (sender, inside) = (index[concat] / chunk[concat], index[concat] % chunk[concat]);
                    let source = with(index, concat, inside);
                    group[sender].at(&with(&source, split, source[split] + k * part))
                })
            }
            Ask::Permute(pairs) => match pairs.iter().find(|pair| pair.1 == k) {
                Some((from, _)) => group[*from].clone(),
                None => Block::new(own, |_| 0.0),
            },
            Ask::Shuffle(perm) => group[perm[k]].clone(),
        })
    }
}

/// Runs it on every device of the mesh, with blocks along the first axis, and compares.
fn check(
    mesh: &DeviceMesh,
    over: &[&str],
    groups: Option<Vec<Vec<usize>>>,
    block: &[usize],
    dtype: DType,
    ask: &Ask,
) {
    let names: Vec<String> = mesh.axis_names().map(str::to_owned).collect();
    let all: Vec<&str> = names.iter().map(String::as_str).collect();
    let devices = mesh.num_devices();
    let mut shape = block.to_vec();
    shape[0] *= devices;
    let x = iota(&shape, mesh).cast(DType::F32);
    // Ops do not run on a mesh whose axes are manual.
    assert!(x.is_err());
    let auto = mesh.with_axis_types(vec![AxisType::Auto; mesh.ndim()]).unwrap();
    let x = iota(&shape, &auto).cast(dtype).unwrap();
    let left = Left::new();
    let (saw, asked) = (left.clone(), ask.clone());
    let along = groups.iter().fold(Over::from(over), |over, groups| over.within(groups.clone()));
    let order: Vec<String> = names.clone();
    let region = shard_map(mesh)
        .in_specs([PartitionSpec::new([all.as_slice()].map(sharding_core::SpecEntry::several))])
        .out_specs([])
        .wrap(move |cx, [x]| {
            let order: Vec<&str> = order.iter().map(String::as_str).collect();
            let y = asked.call(cx, &x, &along);
            saw.put(cx.coord(order.as_slice())?, (x, y.as_ref().ok().cloned()));
            y?;
            Ok([])
        })
        .unwrap();
    let called = region.call([&x]);
    let left = left.take();
    let blocks: Vec<Block> = left.iter().map(|(x, _)| Block::of(x)).collect();
    let axes: Vec<usize> = over.iter().map(|name| mesh.axis_index(name).unwrap()).collect();
    let mut refused = false;
    for (device, (_, got)) in left.iter().enumerate() {
        let mut group = mesh.group(device, &axes).to_vec();
        if let Some(groups) = &groups {
            let own = mesh.device_coord(device, &axes).unwrap();
            group =
                groups.iter().find(|group| group.contains(&own)).unwrap().iter().map(|i| group[*i]).collect();
        }
        let members: Vec<Block> = group.iter().map(|device| blocks[*device].clone()).collect();
        let k = group.iter().position(|other| *other == device).unwrap();
        match ask.want(&members, k) {
            Some(want) => {
                assert_eq!(Block::of(got.as_ref().unwrap()), want, "{ask:?} over {over:?} on device {device}")
            }
            None => {
                assert!(got.is_none(), "{ask:?} over {over:?} of {block:?} should be refused");
                refused = true;
            }
        }
    }
    assert_eq!(called.is_err(), refused, "{called:?}");
    if refused {
        assert_eq!(called.unwrap_err().kind(), ErrorKind::Indivisible);
    }
}

fn permutation(n: usize) -> impl Strategy<Value = Vec<usize>> {
    Just((0..n).collect::<Vec<usize>>()).prop_shuffle()
}

/// Some pairs of distinct sources and destinations.
fn pairs(n: usize) -> impl Strategy<Value = Vec<(usize, usize)>> {
    (permutation(n), permutation(n), 0..=n)
        .prop_map(|(from, to, some)| from.into_iter().zip(to).take(some).collect())
}

fn ask(n: usize, ndim: isize) -> impl Strategy<Value = Ask> {
    let axis = -ndim..ndim;
    prop_oneof![
        Just(Ask::Sum),
        Just(Ask::Max),
        Just(Ask::Min),
        Just(Ask::Mean),
        (-ndim - 1..=ndim).prop_map(|axis| Ask::Gather(axis, false)),
        axis.clone().prop_map(|axis| Ask::Gather(axis, true)),
        (axis.clone(), any::<bool>()).prop_map(|(axis, tiled)| Ask::Scatter(axis, tiled)),
        (axis.clone(), axis, any::<bool>())
            .prop_map(|(split, concat, tiled)| Ask::AllToAll(split, concat, tiled)),
        pairs(n).prop_map(Ask::Permute),
        permutation(n).prop_map(Ask::Shuffle),
    ]
}

/// Mesh, axes to go over, block and collective.
fn cases() -> impl Strategy<Value = (Vec<usize>, Vec<&'static str>, Vec<usize>, DType, Ask)> {
    const NAMES: [&str; 3] = ["x", "y", "z"];
    let sizes = prop_oneof![
        Just(vec![3]),
        Just(vec![4, 2]),
        Just(vec![2, 3]),
        Just(vec![2, 2, 2]),
        Just(vec![1, 2]),
    ];
    let over = sizes.prop_flat_map(|sizes| {
        let n = sizes.len();
        (Just(sizes), permutation(n), 1..=n)
    });
    over.prop_flat_map(|(sizes, order, some)| {
        let over: Vec<usize> = order.into_iter().take(some).collect();
        let n: usize = over.iter().map(|axis| sizes[*axis]).product();
        let names: Vec<&str> = over.iter().map(|axis| NAMES[*axis]).collect();
        let extent = move || prop_oneof![Just(n), Just(2 * n), Just(3), Just(1)];
        let block = proptest::collection::vec(extent(), 1..=3);
        let dtype = prop_oneof![Just(DType::F32), Just(DType::F64), Just(DType::I32)];
        (Just(sizes), Just(names), block, dtype).prop_flat_map(move |(sizes, names, block, dtype)| {
            let ndim = block.len() as isize;
            (Just(sizes), Just(names), Just(block), Just(dtype), ask(n, ndim))
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(160))]
    #[test]
    fn every_device_gets_what_the_collective_says((sizes, over, block, dtype, ask) in cases()) {
        let _alone = alone();
        let names = ["x", "y", "z"];
        // Means of numbers that f32 does not divide exactly are compared in f64.
        let dtype = if matches!(ask, Ask::Mean) && dtype != DType::F64 { DType::F64 } else { dtype };
        check(&manual(0, &sizes, &names[..sizes.len()]), &over, None, &block, dtype, &ask);
    }
}

#[test]
fn within_groups() {
    let _alone = alone();
    let mesh = manual(0, &[2, 3], &["x", "y"]);
    let even = || Some(vec![vec![0, 4, 2], vec![5, 1, 3]]);
    let over = ["y", "x"];
    for ask in [
        Ask::Sum,
        Ask::Gather(0, true),
        Ask::Scatter(0, true),
        Ask::AllToAll(0, 1, true),
        Ask::Permute(vec![(2, 0)]),
    ] {
        check(&mesh, &over, even(), &[3, 2], DType::F32, &ask);
    }
    let uneven = || Some(vec![vec![3], vec![0, 1, 2, 4, 5]]);
    for ask in [Ask::Sum, Ask::Max, Ask::Min] {
        check(&mesh, &over, uneven(), &[3, 2], DType::F32, &ask);
    }
}

/// The value of one collective on a mesh of two devices that hold these.
fn pair<T: Element>(values: [T; 2], call: fn(&ManualCx, &Tensor) -> Result<Tensor>) -> Result<Tensor> {
    let mesh = manual(0, &[2], &["x"]);
    let region = shard_map(&mesh)
        .in_specs([spec!["x"]])
        .out_specs([spec!["x"]])
        .wrap(move |cx, [x]| Ok([call(cx, &x)?]))?;
    let x = Tensor::from_slice(&values, [2], &DeviceMapping::new(&mesh, [Sharded(0)])?)?;
    let [y] = region.call([&x])?;
    Ok(y)
}

#[test]
fn what_dtypes_become() {
    let _alone = alone();
    assert_eq!(pair([true, true], |cx, x| cx.psum(x, "x")).unwrap().to_vec::<i32>().unwrap(), [2, 2]);
    assert_eq!(pair([true, false], |cx, x| cx.pmax(x, "x")).unwrap().to_vec::<bool>().unwrap(), [true, true]);
    assert_eq!(
        pair([true, false], |cx, x| cx.pmin(x, "x")).unwrap().to_vec::<bool>().unwrap(),
        [false, false]
    );
    assert_eq!(pair([true, false], |cx, x| cx.pmean(x, "x")).unwrap().to_vec::<f32>().unwrap(), [0.5, 0.5]);
    // The sum does not fit i8.
    assert_eq!(
        pair([100_i8, 101], |cx, x| cx.pmean(x, "x")).unwrap().to_vec::<f32>().unwrap(),
        [100.5, 100.5]
    );
    assert_eq!(pair([1_i64, 2], |cx, x| cx.pmean(x, "x")).unwrap().to_vec::<f64>().unwrap(), [1.5, 1.5]);
    let wide = half::f16::MAX;
    assert_eq!(
        pair([wide, wide], |cx, x| cx.pmean(x, "x")).unwrap().to_vec::<half::f16>().unwrap(),
        [wide, wide]
    );
    assert_eq!(
        pair([5_u8, 7], |cx, x| cx.ppermute(x, "x", [(0, 1)])).unwrap().to_vec::<u8>().unwrap(),
        [0, 5]
    );
    assert_eq!(
        pair([true, true], |cx, x| cx.ppermute(x, "x", [])).unwrap().to_vec::<bool>().unwrap(),
        [false, false]
    );
}

#[test]
fn a_sum_is_that_of_the_op_outside() {
    let _alone = alone();
    for n in [2_usize, 3, 5, 8] {
        let mesh = manual(0, &[n], &["x"]);
        let auto = mesh.with_axis_types([AxisType::Auto]).unwrap();
        let values: Vec<f32> = (0..n * 300).map(|i| ((i * 7919) % 1009) as f32 / 37.0 - 13.0).collect();
        let x =
            Tensor::from_slice(&values, [n, 300], &DeviceMapping::new(&auto, [Sharded(0)]).unwrap()).unwrap();
        let region = shard_map(&mesh)
            .in_specs([spec!["x"]])
            .out_specs([spec![]])
            .wrap(|cx, [x]| Ok([cx.psum(&x.reshape(&[300])?, "x")?]))
            .unwrap();
        let [inside] = region.call([&x]).unwrap();
        let outside = x.sum(0, false).unwrap();
        assert_eq!(inside.to_vec::<f32>().unwrap(), outside.to_vec::<f32>().unwrap());
    }
}

#[test]
fn misuse_says_what_to_write() {
    let _alone = alone();
    let check = |call: fn(&ManualCx, &Tensor) -> Result<Tensor>, kind: ErrorKind, text: &str| {
        let error = pair([1.0_f32, 2.0], call).unwrap_err();
        assert!(error.kind() == kind && error.to_string().contains(text), "{error:?}");
    };
    check(|cx, x| cx.psum(x, "y"), ErrorKind::Axis, "no mesh axis 'y'");
    check(|cx, x| cx.psum(x, ["x", "x"]), ErrorKind::DuplicateAxis, "given twice");
    check(|cx, x| cx.psum(x, []), ErrorKind::Axis, "at least one mesh axis");
    check(|cx, x| cx.ppermute(x, "x", [(0, 1), (0, 0)]), ErrorKind::Argument, "0 is the source of two pairs");
    check(|cx, x| cx.ppermute(x, "x", [(0, 1), (1, 1)]), ErrorKind::Argument, "1 is the destination of two");
    check(|cx, x| cx.ppermute(x, "x", [(0, 2)]), ErrorKind::Argument, "destination 2 is out of range");
    check(|cx, x| cx.pshuffle(x, "x", [0]), ErrorKind::Argument, "1 numbers for a group of 2");
    check(|cx, x| cx.all_gather(x, "x", 2), ErrorKind::Axis, "axis 2 is out of range");
    check(|cx, x| cx.psum_scatter(x, "x", 0), ErrorKind::Indivisible, "not one element for each of the 2");
    check(|cx, x| cx.psum_scatter_tiled(x, "x", 0), ErrorKind::Indivisible, "does not divide by the 2");
    check(|cx, x| cx.all_to_all_tiled(x, "x", 0, -1), ErrorKind::Indivisible, "pad it to 2");
    check(|cx, x| cx.psum(x, Over::from("x").within([[0]])), ErrorKind::Argument, "1 is not in exactly one");
    check(|cx, x| cx.psum(x, Over::from("x").within([[0, 2]])), ErrorKind::Argument, "name the index 2");
    check(|cx, x| cx.psum(x, Over::from("x").invarying()), ErrorKind::Argument, "only what all_gather gives");
    check(|cx, x| cx.axis_size("z").and(cx.psum(x, "x")), ErrorKind::Axis, "no mesh axis 'z'");
}

/// Errors from before the devices meet say where and of what, as those of the meeting do.
#[test]
fn all_errors_name_operand_and_line() {
    let _alone = alone();
    let unknown = |x: &Tensor| x.rebind_mapping(&DeviceMapping::new(x.mesh(), [Unknown])?, x.shape().clone());
    let check = |result: Result<Tensor>| {
        let error = result.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Sharding, "{error}");
        assert!(error.location().is_some_and(|at| at.file().ends_with("collective.rs")), "{error:?}");
        assert!(error.to_string().contains("x: "), "{error}");
    };
    let mesh = manual(0, &[1], &["x"]);
    let x = Tensor::from_slice(&[true], [1], &DeviceMapping::replicated(&mesh)).unwrap();
    let region = shard_map(&mesh)
        .in_specs([spec![]])
        .out_specs([])
        .wrap(move |cx, [x]| {
            let x = unknown(&x)?;
            check(cx.psum(&x, "x"));
            check(cx.pmean(&x, "x"));
            check(cx.psum_scatter_tiled(&x, "x", 0));
            check(cx.all_to_all(&x, "x", 0, 0));
            check(cx.all_to_all_tiled(&x, "x", 0, 0));
            Ok([])
        })
        .unwrap();
    let [] = region.call([&x]).unwrap();
}
