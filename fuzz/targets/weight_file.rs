//! A safetensors file: opened or refused, and what it says of its tensors can be true.
//!
//! The first byte says whether the rest is a header, which gets its length in front and as many bytes of data as that byte, or
//! a whole file: a fuzzer alone would hardly ever find a length that is right.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sharding_checkpoint::WeightFile;

fn file_of(bytes: &[u8]) -> Vec<u8> {
    match bytes {
        [0, file @ ..] => file.to_vec(),
        [room, header @ ..] => {
            let length = (header.len() as u64).to_le_bytes();
            [&length, header, &vec![0; usize::from(*room)]].concat()
        }
        [] => Vec::new(),
    }
}

fuzz_target!(|bytes: &[u8]| {
    let bytes = file_of(bytes);
    let path = std::env::temp_dir().join(format!("fuzz-weights-{}.safetensors", std::process::id()));
    std::fs::write(&path, &bytes).unwrap();
    if let Ok(file) = WeightFile::open(&path) {
        for name in file.names() {
            let elements = file.shape(name).unwrap().elements();
            file.file_dtype(name).unwrap();
            assert!(elements / 2 <= bytes.len(), "{elements} elements in {} bytes", bytes.len());
        }
        assert!(file.bytes_read() <= bytes.len() as u64);
    }
    std::fs::remove_file(&path).unwrap();
});
