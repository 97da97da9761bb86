//! A model of random weights that a test computes in no time.

use safetensors::tensor::{Dtype, TensorView};

use crate::config;
use crate::files::ModelFiles;
use crate::scratch::Scratch;
use crate::tokenize;
use std::sync::RwLock;

/// Peaks are counted for all of a process, and loading begins them anew: a test that looks at one writes here while it loads,
/// the others read.
pub(crate) static LOADING: RwLock<()> = RwLock::new(());

/// A named tensor: name, shape, elements.
type Named = (String, Vec<usize>, Vec<f32>);

/// Writes the files of the model into a directory.
pub(crate) fn write(scratch: &Scratch) -> ModelFiles {
    ModelFiles {
        weights: scratch.write("model.safetensors", file_of(&tensors())),
        config: scratch.write("config.json", config::tests::tiny().to_string()),
        tokenizer: scratch.write("tokenizer.json", tokenize::tests::tiny()),
    }
}

/// The tensors that a model of [`config::tests::tiny`] has, and one that nobody asks for, as real files have.
fn tensors() -> Vec<Named> {
    let size = |key: &str| usize::try_from(config::tests::tiny()[key].as_u64().unwrap()).unwrap();
    let [hidden, wide] = ["hidden_size", "intermediate_size"].map(size);
    let mut random = Random(7);
    let mut tensors = Vec::new();
    let mut add = |name: String, shape: &[usize]| {
        let values = (0..shape.iter().product()).map(|_| random.next()).collect();
        tensors.push((name, shape.to_vec(), values));
    };
    for (table, rows) in
        [("word", "vocab_size"), ("position", "max_position_embeddings"), ("token_type", "type_vocab_size")]
    {
        add(format!("embeddings.{table}_embeddings.weight"), &[size(rows), hidden]);
    }
    let mut norms = vec!["embeddings.LayerNorm".to_owned()];
    for layer in (0..size("num_hidden_layers")).map(|i| format!("encoder.layer.{i}")) {
        let linears = [
            ("attention.self.query", hidden, hidden),
            ("attention.self.key", hidden, hidden),
            ("attention.self.value", hidden, hidden),
            ("attention.output.dense", hidden, hidden),
            ("intermediate.dense", hidden, wide),
            ("output.dense", wide, hidden),
        ];
        for (name, inputs, outputs) in linears {
            add(format!("{layer}.{name}.weight"), &[outputs, inputs]);
            add(format!("{layer}.{name}.bias"), &[outputs]);
        }
        norms.extend(["attention.output", "output"].map(|part| format!("{layer}.{part}.LayerNorm")));
    }
    for norm in norms {
        add(format!("{norm}.weight"), &[hidden]);
        add(format!("{norm}.bias"), &[hidden]);
    }
    add("pooler.dense.bias".to_owned(), &[hidden]);
    tensors
}

/// Numbers from -1 to 1 of which none is like the next.
struct Random(u64);

impl Random {
    fn next(&mut self) -> f32 {
        // The step of Knuth's MMIX generator; its upper bits are the random ones.
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 40) as f32 / (1_u32 << 23) as f32 - 1.0
    }
}

/// The bytes of a safetensors file of f32 tensors.
fn file_of(tensors: &[Named]) -> Vec<u8> {
    let bytes: Vec<Vec<u8>> = tensors
        .iter()
        .map(|(_, _, values)| values.iter().flat_map(|value| value.to_le_bytes()).collect())
        .collect();
    let views = tensors.iter().zip(&bytes).map(|((name, shape, _), bytes)| {
        (name.as_str(), TensorView::new(Dtype::F32, shape.clone(), bytes).unwrap())
    });
    safetensors::serialize(views, None).unwrap()
}
