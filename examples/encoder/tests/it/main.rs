//! Tests with the real model; the comparison of embeddings is `cargo xtask test`'s, in release mode.

use std::path::Path;

use encoder_example::check::Reference;
use encoder_example::mappings::Mappings;
use encoder_example::tokenize::Tokenizer;
use encoder_example::{Encoder, LONGEST, ModelFiles};

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

#[test]
fn every_mesh_gives_other_sentences_the_same_embeddings_and_moves_what_it_must() {
    let Ok(files) = ModelFiles::find(None) else {
        println!("SKIPPED encoder: run cargo xtask model");
        return;
    };
    let sentences =
        ["Rivers bend where the ground is soft.", "", "42", "Ein Satz, der nicht im Vergleich steht."];
    let sentences = sentences.map(str::to_owned);
    let embed = |mesh: &str| {
        let encoder = Encoder::load(&files, Mappings::parse(mesh).unwrap()).unwrap();
        let embeddings = encoder.encode(&sentences).unwrap().embeddings;
        let ran = encoder.collectives().ran();
        (embeddings, ran.into_iter().map(|(place, step, ran)| (place, step, ran.times)).collect::<Vec<_>>())
    };
    let (want, ran) = embed("tp=1");
    assert_eq!(ran, []);
    for mesh in ["tp=2", "tp=5", "dp=3,tp=2"] {
        let (got, ran) = embed(mesh);
        for (got, want) in got.iter().flatten().zip(want.iter().flatten()) {
            assert!((got - want).abs() < 1e-6, "{mesh}: {got} is not {want}");
        }
        let step = |place, step: &str, times| (place, step.to_owned(), times);
        let mut list = vec![step("attention", "all_reduce(tp)", 6), step("mlp", "all_reduce(tp)", 6)];
        if mesh.starts_with("dp") {
            list.push(step("pooling", "all_gather(dp)", 1));
        }
        list.push(step("word embedding", "all_reduce(tp)", 1));
        assert_eq!(ran, list, "{mesh}");
    }
}
