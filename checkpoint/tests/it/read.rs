//! What is read is what a whole tensor in memory would give.

use crate::scratch::{Scratch, file_of, floats, le_bytes};
use proptest::prelude::*;
use safetensors::tensor::Dtype;
use sharding_checkpoint::WeightFile;
use sharding_ops::nn::{Linear, LinearSplit, Parallel};
use sharding_ops::*;
use std::fs;

fn open(bytes: &[u8]) -> (Scratch, WeightFile) {
    let scratch = Scratch::new(bytes);
    let file = WeightFile::open(scratch.path()).unwrap();
    (scratch, file)
}

/// A file of one f32 tensor `w` behind another one.
fn with_w(shape: &[usize]) -> (Scratch, WeightFile) {
    let n = shape.iter().product();
    open(&file_of(&[
        ("a", Dtype::F32, &[3], le_bytes(&floats(3))),
        ("w", Dtype::F32, shape, le_bytes(&floats(n))),
    ]))
}

fn tp(ways: usize) -> DeviceMesh {
    DeviceMesh::simulated(BackendKind::CPU, [ways], ["tp"]).unwrap()
}

fn mapping(mesh: &DeviceMesh, place: Place) -> DeviceMapping {
    DeviceMapping::new(mesh, [place]).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    #[test]
    fn every_shard_is_that_of_the_tensor_in_memory(
        sizes in [1_usize..4, 1_usize..4],
        // Rows from some bytes to some thousands: read together, and each for itself.
        shape in (0_usize..6, 0_usize..4, prop_oneof![0_usize..5, 300_usize..700]),
        kinds in [0_usize..6, 0_usize..4],
    ) {
        let mesh = DeviceMesh::simulated(BackendKind::CPU, sizes, ["x", "y"]).unwrap();
        let shape = [shape.0, shape.1, shape.2];
        let places = [
            match kinds[0] {
                0 => Replicated,
                // All on the last device.
                4 => {
                    let mut all = vec![0; sizes[0]];
                    *all.last_mut().unwrap() = shape[0];
                    Ragged::place(0, all)
                }
                5 => Place::custom(Interleaved::new(2, [shape[2] / 3, shape[2] - shape[2] / 3])),
                axis => Sharded(axis as u8 - 1),
            },
            match kinds[1] {
                0 => Replicated,
                // A placement of its own has its axis for itself.
                1 if kinds[0] >= 4 => Replicated,
                3 if kinds[0] >= 4 => Replicated,
                axis => Sharded(axis as u8 - 1),
            },
        ];
        let mapping = DeviceMapping::new(&mesh, places).unwrap();
        let (_scratch, file) = with_w(&shape);
        let got = file.read("w", &mapping).unwrap();
        let want = Tensor::from_slice(&floats(shape.iter().product()), shape, &mapping).unwrap();
        prop_assert_eq!(got.layout(), want.layout());
        for position in want.positions().iter() {
            prop_assert_eq!(
                got.shard_to_vec::<f32>(*position).unwrap(),
                want.shard_to_vec::<f32>(*position).unwrap()
            );
        }
        // No slice is longer than the whole.
        prop_assert!(file.bytes_read() <= (mesh.num_devices() * want.layout().bytes()) as u64);
    }
}

#[test]
fn only_the_ranges_that_are_needed_are_read() {
    let bytes = 64 * 1024 * 4;
    for (place, want) in [
        // Every byte once, however many devices share it.
        (Replicated, bytes),
        (Sharded(0), bytes),
        (Sharded(1), bytes),
        (Ragged::place(1, [1000, 24, 0]), bytes),
    ] {
        let (_scratch, file) = with_w(&[64, 1024]);
        file.read("w", &mapping(&tp(3), place)).unwrap();
        // Runs of 24 elements are short, but too far apart to be read together.
        assert_eq!(file.bytes_read(), want, "{place}");
    }
    let (_scratch, file) = with_w(&[64, 1024]);
    assert_eq!(file.bytes_read(), 0);
    // Short runs with short gaps are read with the gaps: nearly all of it, for each of the two.
    let alternating = Place::custom(Interleaved::new(1, vec![64; 16]));
    file.read("w", &mapping(&tp(2), alternating)).unwrap();
    assert!((2 * bytes - 1024..=2 * bytes).contains(&file.bytes_read()), "{}", file.bytes_read());
}

#[test]
fn scalars_and_empty_tensors_are_read() {
    let (_scratch, file) = open(&file_of(&[
        ("empty", Dtype::I64, &[0, 3], Vec::new()),
        ("one", Dtype::F32, &[], le_bytes(&[7.5])),
    ]));
    let whole = DeviceMapping::replicated(&tp(2));
    assert_eq!(file.read("one", &whole).unwrap().to_vec::<f32>().unwrap(), [7.5]);
    let empty = file.read("empty", &mapping(&tp(2), Sharded(0))).unwrap();
    assert_eq!((empty.dtype(), empty.to_vec::<i64>().unwrap()), (DType::I64, vec![]));
    assert_eq!(file.names().collect::<Vec<_>>(), ["empty", "one"]);
}

#[test]
fn a_cast_is_made_where_it_is_asked_for() {
    let halves: Vec<u8> =
        [0x3c00_u16, 0xc000, 0x3800, 0x4200].iter().flat_map(|half| half.to_le_bytes()).collect();
    let (_scratch, file) = open(&file_of(&[
        ("h", Dtype::F16, &[2, 2], halves),
        ("u", Dtype::U64, &[1], u64::MAX.to_le_bytes().to_vec()),
        ("q", Dtype::F8_E4M3, &[1], vec![0]),
        ("w", Dtype::F32, &[2, 700], le_bytes(&floats(1400))),
    ]));
    let columns = mapping(&tp(2), Sharded(1));
    let layout = |dtype, shape: &[usize], mapping: &DeviceMapping| {
        TensorLayout::new(dtype, shape, mapping.clone()).unwrap()
    };
    assert_eq!(file.read("h", &columns).unwrap().dtype(), DType::F16);
    let cast = file.read_cast("h", layout(DType::F32, &[2, 2], &columns)).unwrap();
    assert_eq!(cast.to_vec::<f32>().unwrap(), [1.0, -2.0, 0.5, 3.0]);
    assert_eq!(cast.shard_to_vec::<f32>(1).unwrap(), [-2.0, 3.0]);
    // Long runs go through the buffer.
    let cast = file.read_cast("w", layout(DType::I64, &[2, 700], &columns)).unwrap();
    let want: Vec<i64> = floats(1400).iter().map(|value| *value as i64).collect();
    assert_eq!(cast.to_vec::<i64>().unwrap(), want);

    let text = |outcome: Result<Tensor>| outcome.unwrap_err().to_string();
    let said = text(file.read_layout("w", layout(DType::I64, &[2, 700], &columns)));
    assert!(
        said.contains("'w' is F32 there, and i64[2, 700]") && said.contains("fix: ask for a cast"),
        "{said}"
    );
    let one = mapping(&tp(1), Replicated);
    let said = text(file.read_cast("u", layout(DType::I64, &[1], &one)));
    assert!(said.contains("'u' cannot be read") && said.contains("is no i64"), "{said}");
    let said = text(file.read_cast("q", layout(DType::F32, &[1], &one)));
    assert!(said.contains("'q' is F8_E4M3 there, which cannot be read"), "{said}");
    let said = text(file.read("q", &one));
    assert!(said.contains("'q' is F8_E4M3 there, which tensors have not"), "{said}");
}

#[test]
fn what_does_not_fit_is_named() {
    let (scratch, file) = open(&file_of(&[("layer.w", Dtype::F32, &[4, 6], le_bytes(&floats(24)))]));
    let whole = DeviceMapping::replicated(&tp(2));
    let check = |outcome: Result<Tensor>, kind: ErrorKind, wants: &[&str]| {
        let error = outcome.unwrap_err();
        let text = error.to_string();
        assert_eq!(error.kind(), kind, "{text}");
        for want in wants.iter().chain([&scratch.path().to_str().unwrap()]) {
            assert!(text.contains(want), "{text}");
        }
    };
    let missing = ["no tensor 'model.layer.w' among 1", "fix: ask for one of: layer.w"];
    check(file.read("model.layer.w", &whole), ErrorKind::File, &missing);
    check(file.read("b", &whole), ErrorKind::File, &["as in 'layer.w'"]);
    let layout = TensorLayout::new(DType::F32, [6, 4], whole.clone()).unwrap();
    let shapes = ["'layer.w' has the shape [4, 6] there, and [6, 4] is wanted", "fix: "];
    check(file.read_layout("layer.w", layout), ErrorKind::Shape, &shapes);
    let out_of_range =
        ["'layer.w' cannot be placed", "Sharded(2) is out of range", "fix: name a tensor axis"];
    check(file.read("layer.w", &mapping(&tp(2), Sharded(2))), ErrorKind::Mapping, &out_of_range);
    let parts = mapping(&tp(2), Partial(ReduceOp::Sum));
    check(file.read("layer.w", &parts), ErrorKind::Mapping, &["cannot be placed Partial(sum)"]);
    // Cut short after it was opened.
    fs::OpenOptions::new().write(true).open(scratch.path()).unwrap().set_len(100).unwrap();
    check(file.read("layer.w", &whole), ErrorKind::File, &["'layer.w' cannot be read; it was cut short"]);
}

#[test]
fn layers_are_loaded_from_it() {
    let (_scratch, file) = open(&file_of(&[
        ("up.bias", Dtype::F32, &[3], le_bytes(&floats(3))),
        ("up.weight", Dtype::F32, &[3, 2], le_bytes(&floats(6))),
    ]));
    let parallel = Parallel::along(&tp(2), "tp").unwrap();
    let layer = Linear::load(&file, "up", &parallel, LinearSplit::Column).unwrap();
    assert_eq!(layer.weight.layout().places(), [Sharded(0)]);
    let x = Tensor::from_slice(&[1.0_f32, 2.0], [1, 2], &parallel.whole()).unwrap();
    assert_eq!(layer.forward(&x).unwrap().to_vec::<f32>().unwrap(), [0.0, 7.0, 14.0]);
    assert_eq!(file.bytes_read(), 36);
}
