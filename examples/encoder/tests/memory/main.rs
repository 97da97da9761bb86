//! What the devices hold while the real model is loaded. A program of its own: bytes are counted for all of a process.

use encoder_example::mappings::Mappings;
use encoder_example::{Encoder, ModelFiles};

/// Bytes of the largest weight, the table of word pieces.
const LARGEST: u64 = 30_522 * 384 * 4;

#[test]
fn loading_over_four_devices_holds_their_shares_and_one_buffer() {
    let Ok(files) = ModelFiles::find(None) else {
        println!("SKIPPED encoder: run cargo xtask model");
        return;
    };
    let file = std::fs::metadata(&files.weights).unwrap().len();
    let encoder = Encoder::load(&files, Mappings::parse("tp=4").unwrap()).unwrap();
    let memory = encoder.memory().unwrap();
    assert_eq!(memory.len(), 4);
    for (device, weights, peak) in &memory {
        // Shared memory: what is Replicated lies on the first device.
        let replicated = if device.slot == 0 { 2 << 20 } else { 0 };
        assert!(*weights < file / 4 + replicated, "{device} holds {weights} of {file} bytes");
        assert!(
            *peak <= weights + LARGEST.div_ceil(4),
            "{device}: {peak} bytes at the peak, {weights} after it"
        );
    }
    let whole: u64 = memory.iter().map(|(_, weights, _)| weights).sum();
    // Nothing is there twice, and only what nobody asks for is not there.
    assert!(whole < file && whole > file - (2 << 20), "{whole} of {file} bytes");
}
