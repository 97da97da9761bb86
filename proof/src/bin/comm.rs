//! Behind `cargo xtask comm`: what the examples move, computed on simulated devices.

#[allow(dead_code, unreachable_pub, reason = "the example's own main is not called")]
#[path = "../../../examples/manual.rs"]
mod manual;
#[allow(dead_code, unreachable_pub, reason = "the example's own main is not called")]
#[path = "../../../examples/plan_llm.rs"]
mod plan_llm;
#[allow(dead_code, unreachable_pub, reason = "the example's own main is not called")]
#[path = "../../../examples/quickstart.rs"]
mod quickstart;
#[allow(
    dead_code,
    unreachable_pub,
    unexpected_cfgs,
    reason = "the example's own main is not called; its feature is not ours"
)]
#[path = "../../../examples/visualize.rs"]
mod visualize;

use encoder_example::batch::Batch;
use encoder_example::config::Config;
use encoder_example::model::Model;
use encoder_example::pool::pool;
use proof::comm::Program;
use sharding_ops::nn::{NamedTensors, Parallel};
use sharding_ops::{
    BackendKind, DType, DeviceMapping, DeviceMesh, Error, ErrorKind, Place, Result, Tensor, TensorMeta, full,
    matmul,
};
use std::collections::HashMap;
use std::process::ExitCode;

fn quickstart_over(devices: usize) -> Result<()> {
    let mesh = DeviceMesh::simulated(BackendKind::SIM, [devices], ["tp"])?;
    let (a, b) = quickstart::operands(&mesh)?;
    quickstart::product(&a, &b)?;
    quickstart::sum_of_squares(&a)?;
    Ok(())
}

/// The ring that is written by hand, and the product that the planner makes.
fn manual_over(devices: usize) -> Result<()> {
    let mesh = DeviceMesh::simulated(BackendKind::SIM, [devices], ["x"])?;
    let (a, w) = manual::operands(&mesh)?;
    manual::ring_matmul(&mesh)?.call([&a, &w])?;
    matmul(&a, &w).map(drop)
}

/// The sizes of all-MiniLM-L6-v2.
const MODEL: &str = r#"{
    "model_type": "bert", "hidden_act": "gelu", "vocab_size": 30522, "hidden_size": 384, "num_hidden_layers": 6,
    "num_attention_heads": 12, "intermediate_size": 1536, "max_position_embeddings": 512, "type_vocab_size": 2,
    "layer_norm_eps": 1e-12
}"#;

/// Weights of which only the sizes are known: simulated devices hold no more.
struct Sizes(HashMap<String, Vec<usize>>);

impl NamedTensors for Sizes {
    fn contains(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }
    fn meta(&self, name: &str) -> Result<TensorMeta> {
        let shape = self.0.get(name);
        let shape = shape.ok_or_else(|| Error::new(ErrorKind::Argument, format!("there is no '{name}'")))?;
        Ok(TensorMeta::new(DType::F32, shape.as_slice()))
    }
    fn tensor(&self, name: &str, mapping: &DeviceMapping) -> Result<Tensor> {
        let meta = self.meta(name)?;
        full(&meta.shape, 0.0, meta.dtype, mapping)
    }
}

/// One batch of 8 sentences of 32 tokens: `dp` splits the sentences, `tp` the weights.
fn encoder_over(dp: usize, tp: usize) -> Result<()> {
    let mesh = DeviceMesh::simulated(BackendKind::SIM, [dp, tp], ["dp", "tp"])?;
    let config: Config = serde_json::from_str(MODEL)
        .map_err(|error| Error::new(ErrorKind::Internal, "the sizes of the model").with_source(error))?;
    let weights = Sizes(config.tensors().into_iter().collect());
    let model = Model::load(&weights, &config, &Parallel::along(&mesh, "tp")?)?;
    let sentences = DeviceMapping::new(&mesh, [Place::Sharded(0), Place::Replicated])?;
    let (count, length) = (8, 32);
    let input = |shape: &[usize], dtype| full(shape, 0_i64, dtype, &sentences);
    let batch = Batch {
        sentences: (0..count).collect(),
        length,
        ids: input(&[count, length], DType::I64)?,
        bias: input(&[count, 1, 1, length], DType::F32)?,
        share: input(&[count, length, 1], DType::F32)?,
    };
    pool(&model.forward(&batch)?, &batch.share).map(drop)
}

const PROGRAMS: [Program; 8] = [
    ("quickstart tp=2", || quickstart_over(2)),
    ("quickstart tp=8", || quickstart_over(8)),
    ("encoder dp=1 tp=2", || encoder_over(1, 2)),
    ("encoder dp=2 tp=4", || encoder_over(2, 4)),
    ("manual x=4", || manual_over(4)),
    ("plan_llm dp=64 tp=8", || {
        plan_llm::simulate(64, 8, plan_llm::LAYERS, plan_llm::KEY_VALUE_HEADS).map(drop)
    }),
    ("plan_llm dp=4096 tp=16", || plan_llm::simulate(4096, 16, plan_llm::LAYERS, 16).map(drop)),
    ("visualize dp=2 tp=2", || visualize::pictures(BackendKind::SIM).map(drop)),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    proof::comm::run(&PROGRAMS, &arguments)
}
