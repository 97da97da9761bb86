//! Views of safetensors: onto devices, and from them.

use crate::scratch::{file_of, floats, le_bytes};
use safetensors::tensor::{Dtype, TensorView};
use safetensors::{SafeTensors, View};
use sharding_checkpoint::{HostView, host_data};
use sharding_ops::*;
use std::borrow::Cow;

fn mesh() -> DeviceMesh {
    DeviceMesh::simulated(BackendKind::CPU, [2], ["x"]).unwrap()
}

/// Every dtype that both have, with bytes that are all different; truth values are 0 and 1.
#[test]
fn every_dtype_goes_there_and_back() {
    let rows = NamedSharding::new(&mesh(), spec!["x"]).unwrap();
    let all = [
        (Dtype::BOOL, 1),
        (Dtype::I8, 1),
        (Dtype::U8, 1),
        (Dtype::I16, 2),
        (Dtype::U16, 2),
        (Dtype::F16, 2),
        (Dtype::BF16, 2),
        (Dtype::I32, 4),
        (Dtype::U32, 4),
        (Dtype::F32, 4),
        (Dtype::I64, 8),
        (Dtype::U64, 8),
        (Dtype::F64, 8),
    ];
    for (dtype, size) in all {
        let byte = |i: usize| if dtype == Dtype::BOOL { i as u8 % 2 } else { i as u8 };
        let data: Vec<u8> = (0..4 * 3 * size).map(byte).collect();
        let file = file_of(&[("w", dtype, &[4, 3], data.clone())]);
        let view = SafeTensors::deserialize(&file).unwrap().tensor("w").unwrap();
        let host = host_data(&view).unwrap();
        assert!(host.borrowed_memory().unwrap().as_ptr() == view.data().as_ptr(), "{dtype}: it is copied");
        let x = place_host_array(host, &rows, HostCopy::Always).unwrap();
        let whole = HostView::of(&x).unwrap();
        assert_eq!(
            (View::dtype(&whole), View::shape(&whole), &*View::data(&whole)),
            (dtype, &[4, 3][..], &*data)
        );
        for (shard, part) in x.addressable_shards().zip(data.chunks(data.len() / 2)) {
            let own = HostView::of_shard(&shard).unwrap();
            assert_eq!(
                (View::dtype(&own), View::shape(&own), &*View::data(&own)),
                (dtype, &[2, 3][..], part)
            );
            assert_eq!(own.data_len(), part.len());
        }
    }
}

#[test]
fn what_lies_row_by_row_is_not_copied() {
    let replicated = DeviceMapping::replicated(&mesh());
    let x = Tensor::from_slice(&floats(6), [2, 3], &replicated).unwrap();
    let at = |view: &HostView<'_>| match View::data(view) {
        Cow::Borrowed(bytes) => bytes.as_ptr(),
        Cow::Owned(_) => panic!("a copy"),
    };
    let first = |x: &Tensor| {
        x.addressable_shards().next().unwrap().host_view().unwrap().unwrap().memory().unwrap().as_ptr()
    };
    assert_eq!(at(&HostView::of(&x).unwrap()), first(&x));
    assert_eq!(at(&HostView::of_shard(&x.addressable_shards().next().unwrap()).unwrap()), first(&x));
    // A part of it, and what lies otherwise.
    let row = slice(&x, &[Index::from(1..2)]).unwrap();
    assert_eq!(&*View::data(&HostView::of(&row).unwrap()), le_bytes(&floats(6)[3..]));
    let turned = permute(&x, &[1, 0]).unwrap();
    let want = [0, 3, 1, 4, 2, 5].map(|i| floats(6)[i]);
    let view = HostView::of(&turned).unwrap();
    assert_eq!((View::shape(&view), &*View::data(&view)), (&[3, 2][..], &*le_bytes(&want)));
    let shard = turned.addressable_shards().next().unwrap();
    assert_eq!(&*View::data(&HostView::of_shard(&shard).unwrap()), le_bytes(&want));
    // Parts of a sum are added up.
    let parts = x.transfer_to(&DeviceMapping::new(&mesh(), [Partial(ReduceOp::Sum)]).unwrap()).unwrap();
    assert_eq!(&*View::data(&HostView::of(&parts).unwrap()), le_bytes(&floats(6)));
    for shape in [vec![0, 3], vec![]] {
        let n = shape.iter().product();
        let x = Tensor::from_slice(&floats(n), &*shape, &replicated).unwrap();
        let view = HostView::of(&x).unwrap();
        assert_eq!((View::shape(&view), View::data_len(&view)), (&*shape, 4 * n));
    }
}

#[test]
fn elements_that_tensors_do_not_have_are_an_error() {
    let view = TensorView::new(Dtype::F8_E4M3, vec![2], &[0, 1]).unwrap();
    let error = host_data(&view).unwrap_err();
    assert!(error.kind() == ErrorKind::DType && error.fix().is_some(), "{error}");
}
