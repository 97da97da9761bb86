//! Conversions between any two kinds.

use super::*;
use crate::Error;

/// Conversions that may fail and those that cannot, alike.
trait Failure {
    fn error(self) -> Error;
}
impl Failure for Error {
    fn error(self) -> Error {
        self
    }
}
impl Failure for std::convert::Infallible {
    fn error(self) -> Error {
        match self {}
    }
}

/// Converts there and back: what lies where, the memory and the order of devices stay. Whether there is a way.
macro_rules! there_and_back {
    ($from:ty, $into:ty, $sharding:expr, $ndim:expr) => {{
        let sharding: &$from = $sharding;
        match <$into>::try_from(sharding).map_err(Failure::error) {
            Ok(there) => {
                assert!(there.is_equivalent_to(sharding, $ndim).unwrap(), "{sharding} as {there}");
                let back = <$from>::try_from(&there).map_err(Failure::error).unwrap();
                // A mapping does not know how many axes its tensors have beyond the last that it cuts.
                let ndim = back.tiling($ndim).map_or_else(|_| cut_axes(&there, $ndim), |_| $ndim);
                assert!(back.is_equivalent_to(&there, ndim).unwrap(), "{sharding} as {there} as {back}");
                // In canonical form nothing changes any more.
                let again = <$into>::try_from(&back).map_err(Failure::error).unwrap();
                assert_eq!(<$from>::try_from(&again).map_err(Failure::error).unwrap(), back);
                true
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Conversion, "{error}");
                assert!(error.fix().is_some_and(|fix| !fix.is_empty()), "{error}");
                false
            }
        }
    }};
}

/// The number of axes up to the last that is cut.
fn cut_axes(sharding: &dyn Sharding, ndim: usize) -> usize {
    let tiling = sharding.tiling(ndim).unwrap();
    (0..ndim).rev().find(|axis| tiling.ways(*axis) > 1).map_or(0, |last| last + 1)
}

fn pinned<T: Clone>(sharding: &T, pinned: bool, in_memory: impl Fn(T, MemoryKind) -> Result<T>) -> T {
    in_memory(sharding.clone(), if pinned { MemoryKind::PinnedHost } else { MemoryKind::Device }).unwrap()
}

/// Whether some order of axes of a mesh gives this, and whether each tensor axis then has them in the order of the devices.
fn factors(sharding: &dyn Sharding, ndim: usize) -> (bool, bool) {
    let tiling = sharding.tiling(ndim).unwrap();
    let digits: Vec<Option<Vec<(usize, usize)>>> = (0..ndim)
        .map(|axis| Parts::digits_of(tiling.ways(axis), |at| tiling.part(axis, at), tiling.num_devices()))
        .collect();
    let all = digits.iter().all(Option::is_some);
    let falling = |digits: &Vec<(usize, usize)>| digits.is_sorted_by(|a, b| a.1 > b.1);
    (all, all && digits.iter().flatten().all(falling))
}

impl Parts {
    /// The digits that give the same parts, by trying every order of factors of the positions.
    fn digits_of(
        ways: usize,
        part: impl Fn(usize) -> usize,
        positions: usize,
    ) -> Option<Vec<(usize, usize)>> {
        fn search(
            left: usize,
            digits: &mut Vec<(usize, usize)>,
            part: &dyn Fn(usize) -> usize,
            positions: usize,
        ) -> bool {
            if left == 1 {
                let parts = Parts::digits(digits.iter().copied());
                return (0..positions).all(|at| parts.part(at) == part(at));
            }
            for size in (2..=left).filter(|size| left.is_multiple_of(*size)) {
                for stride in (1..positions).filter(|stride| positions.is_multiple_of(stride * size)) {
                    digits.push((size, stride));
                    if search(left / size, digits, part, positions) {
                        return true;
                    }
                    digits.pop();
                }
            }
            false
        }
        let mut digits = Vec::new();
        let found = search(ways, &mut digits, &part, positions);
        // The canonical form, which merges neighbours.
        found.then(|| Parts::digits(digits).as_digits().unwrap().to_vec())
    }
}

proptest! {
    #[test]
    fn gspmd_there_and_back(sharding in any_gspmd(), host: bool) {
        let sharding = pinned(&sharding, host, GspmdSharding::in_memory);
        let (has_mesh, ordered) = factors(&sharding, 3);
        prop_assert!(there_and_back!(GspmdSharding, PositionalSharding, &sharding, 3));
        prop_assert_eq!(there_and_back!(GspmdSharding, PmapSharding, &sharding, 3), has_mesh);
        prop_assert_eq!(there_and_back!(GspmdSharding, NamedSharding, &sharding, 3), has_mesh);
        prop_assert_eq!(there_and_back!(GspmdSharding, DeviceMapping, &sharding, 3), ordered, "{}", sharding);
        let single = there_and_back!(GspmdSharding, SingleDeviceSharding, &sharding, 3);
        prop_assert_eq!(single, sharding.num_devices() == 1);
        // The text brings all back but devices and memory.
        let read = GspmdSharding::new(&sharding.devices().collect::<Vec<_>>(), sharding.hlo().to_string().parse().unwrap());
        prop_assert_eq!(pinned(&read.unwrap(), host, GspmdSharding::in_memory), sharding);
    }

    #[test]
    fn positional_there_and_back(sharding in any_positional(), host: bool) {
        let sharding = pinned(&sharding, host, PositionalSharding::in_memory);
        prop_assert!(there_and_back!(PositionalSharding, GspmdSharding, &sharding, 3));
        prop_assert!(there_and_back!(PositionalSharding, NamedSharding, &sharding, 3));
        prop_assert!(there_and_back!(PositionalSharding, PmapSharding, &sharding, 3));
        prop_assert_eq!(there_and_back!(PositionalSharding, DeviceMapping, &sharding, 3), factors(&sharding, 3).1);
        prop_assert!(!there_and_back!(PositionalSharding, SingleDeviceSharding, &sharding, 3));
        let gspmd = GspmdSharding::try_from(&sharding).unwrap();
        if gspmd.hlo().kind() == HloKind::Tiled {
            prop_assert_eq!(PositionalSharding::try_from(&gspmd).unwrap(), sharding);
        }
    }

    #[test]
    fn named_there_and_back(named in any_named(true), host: bool) {
        let named = pinned(&named, host, NamedSharding::in_memory);
        let ndim = named.spec().entries().len();
        let unreduced = !named.unreduced_axes().iter().all(|axis| named.mesh_shape()[*axis] == 1);
        prop_assert!(there_and_back!(NamedSharding, GspmdSharding, &named, ndim));
        prop_assert_eq!(there_and_back!(NamedSharding, PositionalSharding, &named, ndim), !unreduced);
        prop_assert_eq!(there_and_back!(NamedSharding, PmapSharding, &named, ndim), !unreduced);
        prop_assert!(!there_and_back!(NamedSharding, SingleDeviceSharding, &named, ndim));
        // On its own mesh it comes back as it is written, but for what names nothing.
        let gspmd = GspmdSharding::of_named(&named, 3).unwrap();
        let back = NamedSharding::try_from(&gspmd).unwrap();
        prop_assert_eq!(back.mesh().unwrap(), named.mesh().unwrap());
        prop_assert!(back.is_equivalent_to(&named, 3).unwrap());
        prop_assert_eq!(GspmdSharding::of_named(&back, 3).unwrap(), gspmd);
    }

    #[test]
    fn mappings_there_and_back(mapping in any_mapping(true), host: bool) {
        let mapping = pinned(&mapping, host, |mapping, kind| Ok(DeviceMapping::with_memory_kind(mapping, kind)));
        let ndim = mapping.places().iter().filter_map(|place| place.tensor_axis()).max().map_or(0, |axis| axis + 1);
        let plain = |place: &Place| matches!(place, Place::Replicated | Place::Sharded(_));
        let said = mapping.places().iter().all(|place| plain(place) || *place == Place::PARTIAL);
        let thin = |mapping: &DeviceMapping| {
            mapping.places().iter().zip(mapping.mesh().shape()).all(|(place, size)| plain(place) || *size == 1)
        };
        prop_assert_eq!(there_and_back!(DeviceMapping, GspmdSharding, &mapping, ndim), said);
        prop_assert_eq!(there_and_back!(DeviceMapping, PositionalSharding, &mapping, ndim), said && thin(&mapping));
        prop_assert_eq!(there_and_back!(DeviceMapping, PmapSharding, &mapping, ndim), said && thin(&mapping));
        prop_assert!(!there_and_back!(DeviceMapping, SingleDeviceSharding, &mapping, ndim));
    }

    #[test]
    fn single_devices_there_and_back(slot in 0..DEVICES, host: bool) {
        let kind = if host { MemoryKind::PinnedHost } else { MemoryKind::Device };
        let single = SingleDeviceSharding::in_memory(Device::cpu().with_slot(slot), kind).unwrap();
        prop_assert!(there_and_back!(SingleDeviceSharding, GspmdSharding, &single, 2));
        prop_assert!(there_and_back!(SingleDeviceSharding, NamedSharding, &single, 2));
        prop_assert!(there_and_back!(SingleDeviceSharding, DeviceMapping, &single, 2));
        prop_assert!(there_and_back!(SingleDeviceSharding, PositionalSharding, &single, 2));
        prop_assert!(there_and_back!(SingleDeviceSharding, PmapSharding, &single, 2));
        prop_assert_eq!(SingleDeviceSharding::try_from(&GspmdSharding::from(&single)).unwrap(), single);
    }
}

#[test]
fn what_another_kind_cannot_say_is_a_conversion_error() {
    let on = |text: &str| GspmdSharding::on(&mesh(&[8], &["x"]), text.parse().unwrap()).unwrap();
    let error = |result: Result<()>| assert_eq!(result.unwrap_err().kind(), ErrorKind::Conversion);
    for text in ["{manual}", "{unknown}", "{unreduced}", "{devices=[2,4]<=[8] last_tile_dims={unreduced}}"] {
        error(PositionalSharding::try_from(&on(text)).map(drop));
        error(PmapSharding::try_from(&on(text)).map(drop));
        error(SingleDeviceSharding::try_from(&on(text)).map(drop));
    }
    error(DeviceMapping::try_from(&on("{manual}")).map(drop));
    error(DeviceMapping::try_from(&on("{unknown}")).map(drop));
    error(NamedSharding::try_from(&on("{unknown}")).map(drop));
    // What is unreduced or manual is so on a mesh whose axes are of that type.
    let named = NamedSharding::try_from(&on("{unreduced}")).unwrap();
    assert_eq!(named.abstract_mesh().axis_types(), [AxisType::Explicit]);
    assert_eq!(GspmdSharding::try_from(&named).unwrap(), on("{unreduced}"));
    let manual = NamedSharding::try_from(&on("{devices=[2,4]<=[8] last_tile_dims={manual}}")).unwrap();
    assert_eq!(manual.abstract_mesh().axis_types(), [AxisType::Auto, AxisType::Manual]);
    let nowhere = NamedSharding::on_abstract(&grid().to_abstract(), PartitionSpec::default()).unwrap();
    error(GspmdSharding::try_from(&nowhere).map(drop));
    let deep = DeviceMapping::new(&grid(), [Place::Sharded(200), Place::Replicated]).unwrap();
    error(GspmdSharding::try_from(&deep).map(drop));
}
