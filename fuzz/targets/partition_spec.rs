//! The text of a `PartitionSpec`: what is read can be written, and read back as the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sharding_core::PartitionSpec;

fuzz_target!(|text: &str| {
    let Ok(spec) = text.parse::<PartitionSpec>() else { return };
    let written = spec.to_string();
    match written.parse::<PartitionSpec>() {
        Ok(again) => assert_eq!(again, spec, "{written:?}"),
        Err(error) => panic!("{written:?} is not read back: {error}"),
    }
    assert!(spec.trimmed().len() <= spec.entries().len());
});
