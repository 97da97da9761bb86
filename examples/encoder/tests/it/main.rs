//! Tests with the real model; the comparison of embeddings is `cargo xtask test`'s, in release mode.

use std::path::Path;

use encoder_example::check::Reference;
use encoder_example::tokenize::Tokenizer;
use encoder_example::{LONGEST, ModelFiles};

#[test]
fn token_ids_are_those_of_the_reference() {
    let Ok(files) = ModelFiles::find(None) else {
        println!("SKIPPED encoder: run cargo xtask model");
        return;
    };
    let reference = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/minilm_reference.json");
    let reference = Reference::read(&reference).unwrap();
    let tokenizer = Tokenizer::read(&files.tokenizer, LONGEST).unwrap();
    for (sentence, want) in reference.sentences.iter().zip(reference.token_ids()) {
        assert_eq!(tokenizer.tokens(sentence).unwrap().ids, *want, "{sentence}");
    }
}

#[test]
fn a_long_sentence_is_cut_and_keeps_both_ends() {
    let Ok(files) = ModelFiles::find(None) else {
        println!("SKIPPED encoder: run cargo xtask model");
        return;
    };
    let tokenizer = Tokenizer::read(&files.tokenizer, LONGEST).unwrap();
    let tokens = |words: usize| tokenizer.tokens(&"fox ".repeat(words)).unwrap();
    assert_eq!((tokens(254).ids.len(), tokens(254).cut), (256, false));
    let cut = tokens(255);
    assert_eq!((cut.ids.len(), cut.cut), (256, true));
    assert_eq!((cut.ids.first(), cut.ids.last()), (Some(&101), Some(&102)));
}
