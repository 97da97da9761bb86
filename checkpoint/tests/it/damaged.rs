//! Files that are cut short, lie or are missing.

use crate::scratch::{Scratch, file_of, floats, le_bytes};
use proptest::prelude::*;
use safetensors::tensor::Dtype;
use sharding_checkpoint::WeightFile;
use sharding_ops::*;
use std::path::Path;

fn example() -> Vec<u8> {
    file_of(&[
        ("a", Dtype::F32, &[2, 3], le_bytes(&floats(6))),
        ("b", Dtype::I64, &[1], 5_i64.to_le_bytes().to_vec()),
    ])
}

fn refused(bytes: &[u8]) -> String {
    let scratch = Scratch::new(bytes);
    let error = WeightFile::open(scratch.path()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::File);
    let text = error.to_string();
    assert!(
        text.contains(scratch.path().to_str().unwrap()) && text.contains("fix: copy or download"),
        "{text}"
    );
    text
}

#[test]
fn a_file_cut_short_is_an_error_wherever_it_is_cut() {
    let whole = example();
    for length in 0..whole.len() {
        refused(&whole[..length]);
    }
    assert!(refused(&[&whole[..], &[0]].concat()).contains("the data, and it has"));
    assert!(refused(&whole[..whole.len() - 1]).contains("cut short"));
    assert!(refused(&[]).contains("it has 0 bytes"));
}

#[test]
fn a_lying_length_of_the_header_asks_for_no_memory() {
    for length in [u64::MAX, u64::MAX - 7, 1 << 40, 100_000_001, 0, 1] {
        let mut lying = example();
        lying[..8].copy_from_slice(&length.to_le_bytes());
        refused(&lying);
    }
}

#[test]
fn what_is_no_file_is_named() {
    let error = WeightFile::open(Path::new("no/such/file")).unwrap_err().to_string();
    assert!(error.contains("cannot read no/such/file"), "{error}");
    let error = WeightFile::open(std::env::temp_dir()).unwrap_err().to_string();
    assert!(error.contains("is not a file") || error.contains("cannot read"), "{error}");
}

#[test]
fn a_shape_that_is_long_and_empty_takes_no_time() {
    let header = br#"{"a":{"dtype":"F32","shape":[100000000000000000,4,0],"data_offsets":[0,0]}}"#;
    let bytes = [&(header.len() as u64).to_le_bytes()[..], header].concat();
    let scratch = Scratch::new(&bytes);
    let mesh = DeviceMesh::simulated(BackendKind::CPU, [2], ["tp"]).unwrap();
    let file = WeightFile::open(scratch.path()).unwrap();
    for axis in 0..3 {
        let x = file.read("a", &DeviceMapping::new(&mesh, [Sharded(axis)]).unwrap()).unwrap();
        assert_eq!(x.shape().elements(), 0);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]
    /// Whatever bytes are changed: an error, or a file whose tensors can all be read.
    #[test]
    fn a_changed_file_is_refused_or_read(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4)) {
        let mut bytes = example();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let scratch = Scratch::new(&bytes);
        let mesh = DeviceMesh::simulated(BackendKind::CPU, [2], ["tp"]).unwrap();
        if let Ok(file) = WeightFile::open(scratch.path()) {
            for name in file.names() {
                // Only a dtype that tensors do not have is an error here, or an axis that the changed shape lacks.
                for place in [Replicated, Sharded(0), Sharded(1)] {
                    let read = file.read(name, &DeviceMapping::new(&mesh, [place]).unwrap());
                    let kind = read.err().map(|error| error.kind());
                    prop_assert!(matches!(kind, None | Some(ErrorKind::DType | ErrorKind::Mapping)), "{kind:?}");
                }
            }
        }
    }
}
