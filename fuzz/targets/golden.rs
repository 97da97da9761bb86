//! A file of reference cases, replayed or refused: a case that is wrong or asks for too much fails, and nothing panics.
#![no_main]

use libfuzzer_sys::fuzz_target;
use proof::golden::replay_text;

fuzz_target!(|text: &str| {
    let _ = replay_text(text);
});
