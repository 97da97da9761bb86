//! XLA's text of a sharding: what is read can be written, and read back as the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sharding_core::sharding::HloSharding;

fuzz_target!(|text: &str| {
    let Ok(sharding) = text.parse::<HloSharding>() else { return };
    let written = sharding.to_string();
    match written.parse::<HloSharding>() {
        Ok(again) => assert_eq!(again, sharding, "{written:?}"),
        Err(error) => panic!("{written:?} is not read back: {error}"),
    }
});
