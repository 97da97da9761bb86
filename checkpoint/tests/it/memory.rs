//! No device ever holds more than its own share, and one buffer.

use crate::scratch::{Scratch, file_of, floats, le_bytes};
use safetensors::tensor::Dtype;
use sharding_checkpoint::WeightFile;
use sharding_ops::*;

#[test]
fn loading_over_four_devices_holds_the_shares_and_no_more() {
    let shapes: [(&str, &[usize], Place); 5] = [
        ("table", &[1001, 96], Sharded(0)),
        ("up", &[385, 96], Sharded(0)),
        ("down", &[96, 385], Sharded(1)),
        ("heads", &[192, 96], Ragged::place(0, [64, 64, 32, 32])),
        ("norm", &[96], Replicated),
    ];
    let tensors: Vec<_> = shapes
        .iter()
        .map(|(name, shape, _)| (*name, Dtype::F32, *shape, le_bytes(&floats(shape.iter().product()))))
        .collect();
    let scratch = Scratch::new(&file_of(&tensors));
    let file = WeightFile::open(scratch.path()).unwrap();
    // Slots of the CPU that no other test uses, so that what is alive there is of this one.
    let devices: Vec<Device> = (0..4).map(|i| Device::cpu().with_slot(9000 + i)).collect();
    let mesh = DeviceMesh::new(&devices, [4], ["tp"]).unwrap();
    let use_of = |device: &Device| {
        let MemoryUse { live, peak } = device.memory().unwrap();
        (live, peak)
    };
    let mut loaded = Vec::new();
    let mut shares = [0_u64; 4];
    for (name, shape, place) in shapes {
        let x = file.read(name, &DeviceMapping::new(&mesh, [place]).unwrap()).unwrap();
        for (i, share) in shares.iter_mut().enumerate() {
            // Memory is shared: what is Replicated lies on the first device, once.
            let holds = place != Replicated || i == 0;
            *share += if holds { x.layout().local_shape(i).elements() as u64 * 4 } else { 0 };
        }
        assert!(place == Replicated || (0..4).all(|i| *x.layout().local_shape(i) != *shape));
        loaded.push(x);
        for (device, share) in devices.iter().zip(shares) {
            assert_eq!(use_of(device), (share, share), "{name} on {device}");
        }
    }
    let whole: u64 = shapes.iter().map(|(_, shape, _)| shape.iter().product::<usize>() as u64 * 4).sum();
    assert_eq!(shares.iter().sum::<u64>(), whole);
    assert_eq!(file.bytes_read(), whole);
    drop(loaded);
    assert!(devices.iter().all(|device| use_of(device).0 == 0));
}
