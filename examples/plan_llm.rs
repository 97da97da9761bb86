//! What a forward pass of a decoder of 70 billion parameters would move, hold and take, on 512 and on 65,536 GPUs; without a
//! GPU, without data, in less than a second each.
//!
//! `cargo run --release --example plan_llm --features sim`
//!
//! The sizes are those of Llama 3 70B (Grattafiori et al., "The Llama 3 Herd of Models", 2024, table 3). Sequences of 4096
//! tokens, one for each row of the mesh, in bf16; weights are split over `tp` and repeated over `dp`. The program is
//! written on ops as any other: what is moved is what planning its calls finds to be needed.

use backend_sim::{CollectiveUse, Log, Machine, Simulation};
use sharding_core::plan::{AlphaBetaCost, fabric, roofline};
use sharding_ops::*;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Decoder layers.
pub const LAYERS: usize = 80;
const HIDDEN: usize = 8192;
const HEADS: usize = 64;
/// Heads of keys and values: eight heads of queries share each.
pub const KEY_VALUE_HEADS: usize = 8;
const HEAD: usize = 128;
const MLP: usize = 28672;
const VOCABULARY: usize = 128_256;
const SEQUENCE: usize = 4096;
const EPSILON: f64 = 1e-5;

fn main() -> Result<()> {
    println!("{}", report(&simulate(64, 8, LAYERS, KEY_VALUE_HEADS)?));
    // Eight heads of keys and values do not split over sixteen devices. As usual with so many, each head is there twice:
    // twice the (few) weights and products of keys and values, and nothing more to move.
    println!("{}", report(&simulate(4096, 16, LAYERS, 16)?));
    // What one layer moves if they are not repeated: the planner keeps the result right, at this price.
    let of = |heads| -> Result<(f64, f64)> {
        let log = simulate(4096, 16, 1, heads)?.log;
        Ok((log.bytes_moved(), log.communication_seconds().unwrap_or(f64::NAN)))
    };
    let ((bytes, seconds), (repeated_bytes, repeated)) = (of(KEY_VALUE_HEADS)?, of(16)?);
    println!(
        "one layer and both ends with 8 heads of keys and values over tp=16: {} and {} of communication; with each head \
         twice: {} and {}",
        Bytes(bytes),
        Seconds(seconds),
        Bytes(repeated_bytes),
        Seconds(repeated)
    );
    Ok(())
}

/// One layer's weights; those of linear layers are `[out, in]`.
struct Layer {
    attention_norm: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    output: Tensor,
    mlp_norm: Tensor,
    gate: Tensor,
    up: Tensor,
    down: Tensor,
}

struct Model {
    table: Tensor,
    layers: Vec<Layer>,
    norm: Tensor,
    head: Tensor,
    /// The tables of rotary embeddings (Su et al., RoFormer, 2021), `[token, component]`.
    cosines: Tensor,
    sines: Tensor,
    /// `[token, token]`, added to the scores.
    mask: Tensor,
    key_value_heads: usize,
}

impl Model {
    fn new(mesh: &DeviceMesh, layers: usize, key_value_heads: usize) -> Result<Self> {
        let weight = |shape: &[usize], place: Place| {
            full(shape, 0.0, DType::BF16, &DeviceMapping::new(mesh, [Replicated, place])?)
        };
        // Columns: each device some outputs. Rows: each device some inputs, and a part of every sum.
        let (columns, rows) = (Sharded(0), Sharded(1));
        let layer = || {
            Ok(Layer {
                attention_norm: weight(&[HIDDEN], Replicated)?,
                query: weight(&[HEADS * HEAD, HIDDEN], columns)?,
                key: weight(&[key_value_heads * HEAD, HIDDEN], columns)?,
                value: weight(&[key_value_heads * HEAD, HIDDEN], columns)?,
                output: weight(&[HIDDEN, HEADS * HEAD], rows)?,
                mlp_norm: weight(&[HIDDEN], Replicated)?,
                gate: weight(&[MLP, HIDDEN], columns)?,
                up: weight(&[MLP, HIDDEN], columns)?,
                down: weight(&[HIDDEN, MLP], rows)?,
            })
        };
        Ok(Self {
            table: weight(&[VOCABULARY, HIDDEN], Sharded(0))?,
            layers: (0..layers).map(|_| layer()).collect::<Result<_>>()?,
            norm: weight(&[HIDDEN], Replicated)?,
            head: weight(&[VOCABULARY, HIDDEN], columns)?,
            cosines: weight(&[SEQUENCE, HEAD], Replicated)?,
            sines: weight(&[SEQUENCE, HEAD], Replicated)?,
            mask: weight(&[SEQUENCE, SEQUENCE], Replicated)?,
            key_value_heads,
        })
    }

    /// Tokens `[sequence, token]` to scores `[sequence, token, word]`, which stay split by words.
    fn forward(&self, tokens: &Tensor) -> Result<Tensor> {
        let mut x = all_reduce(&embedding(&self.table, tokens)?, "tp")?;
        for layer in &self.layers {
            let mixed = self.attention(layer, &rms_norm(&x, &layer.attention_norm, EPSILON)?)?;
            x = add(&x, &mixed)?;
            let expanded = mlp(layer, &rms_norm(&x, &layer.mlp_norm, EPSILON)?)?;
            x = add(&x, &expanded)?;
        }
        linear(&rms_norm(&x, &self.norm, EPSILON)?, &self.head, None)
    }

    /// Grouped-query attention: `[sequence, token, width]` to the same, in parts over `tp`.
    fn attention(&self, layer: &Layer, x: &Tensor) -> Result<Tensor> {
        let (key_value, group) = (self.key_value_heads as isize, (HEADS / self.key_value_heads) as isize);
        let (tokens, head) = (SEQUENCE as isize, HEAD as isize);
        // [sequence, head of keys, head of queries in its group, token, component]
        let by_head = |x: &Tensor, weight: &Tensor, group: isize| -> Result<Tensor> {
            let x = reshape(&linear(x, weight, None)?, &[-1, tokens, key_value, group, head])?;
            permute(&x, &[0, 2, 3, 1, 4])
        };
        let queries = self.rotated(&by_head(x, &layer.query, group)?)?;
        let keys = self.rotated(&by_head(x, &layer.key, 1)?)?;
        let values = by_head(x, &layer.value, 1)?;
        let queries = mul(&queries, 1.0 / (HEAD as f64).sqrt())?;
        let scores = matmul(&queries, &permute(&keys, &[0, 1, 2, 4, 3])?)?;
        let weights = softmax(&add(&scores, &self.mask)?, -1)?;
        let mixed = permute(&matmul(&weights, &values)?, &[0, 3, 1, 2, 4])?;
        let joined = reshape(&mixed, &[-1, tokens, (HEADS * HEAD) as isize])?;
        linear(&joined, &layer.output, None)
    }

    /// Each half of the components turned by the other.
    fn rotated(&self, x: &Tensor) -> Result<Tensor> {
        let halves = chunk(x, 2, -1)?;
        let (Some(first), Some(second)) = (halves.first(), halves.get(1)) else { return Ok(x.clone()) };
        let turned = concat(&[neg(second)?, first.clone()], -1)?;
        add(&mul(x, &self.cosines)?, &mul(&turned, &self.sines)?)
    }
}

/// `[sequence, token, width]` to the same, in parts over `tp`.
fn mlp(layer: &Layer, x: &Tensor) -> Result<Tensor> {
    let gate = silu(&linear(x, &layer.gate, None)?)?;
    linear(&mul(&gate, &linear(x, &layer.up, None)?)?, &layer.down, None)
}

/// What a pass did, and how long it took to find out.
pub struct Pass {
    mesh: DeviceMesh,
    layers: usize,
    key_value_heads: usize,
    machine: Machine,
    fabric: &'static str,
    log: Log,
    own: Duration,
}

/// A forward pass on `dp` times `tp` devices.
pub fn simulate(dp: usize, tp: usize, layers: usize, key_value_heads: usize) -> Result<Pass> {
    let start = Instant::now();
    let mesh = DeviceMesh::simulated(BackendKind::SIM, [dp, tp], ["dp", "tp"])?;
    // A server has eight H100 on NVLink; what is larger, and what lies between servers, is InfiniBand.
    let inside = if tp <= 8 { fabric::NVLINK_4 } else { fabric::INFINIBAND_NDR };
    let network = AlphaBetaCost::new(fabric::INFINIBAND_NDR.link)?
        .with_axis("tp", inside.link)?
        .with_memory(roofline::H100_SXM.memory)?;
    let machine = Machine { device: roofline::H100_SXM, network: Arc::new(network) };
    // Plans are made by the model that they are timed by.
    let scope = (*Scope::current()).clone().with_cost(machine.network.clone());
    let simulation = Simulation::on(machine.clone());
    let (_, log) = scope.enter(|| {
        let (model, tokens) = simulation.enter(|| {
            let rows = DeviceMapping::new(&mesh, [Sharded(0), Replicated])?;
            Ok((Model::new(&mesh, layers, key_value_heads)?, full([dp, SEQUENCE], 0, DType::I64, &rows)?))
        })?;
        let (scores, log) = simulation.record(|| model.forward(&tokens));
        Ok::<_, Error>((scores?, log))
    })?;
    Ok(Pass { mesh, layers, key_value_heads, machine, fabric: inside.name, log, own: start.elapsed() })
}

fn report(pass: &Pass) -> String {
    let Pass { mesh, log, .. } = pass;
    let mut lines = vec![format!(
        "{} of {}, {} layers, {} heads of keys and values, tp over {}, dp over {}",
        mesh,
        pass.machine.device.name,
        pass.layers,
        pass.key_value_heads,
        pass.fabric,
        fabric::INFINIBAND_NDR.name
    )];
    let mut kinds: BTreeMap<(String, String), (u64, f64, f64)> = BTreeMap::new();
    for one in &log.collectives {
        let (count, bytes, seconds) =
            kinds.entry((one.kind.name().to_owned(), one.axes.join(", "))).or_default();
        *count += one.count;
        *bytes += one.total_bytes();
        *seconds += one.total_seconds().unwrap_or(f64::NAN);
    }
    lines.push(format!(
        "  {:<16} {:<10} {:>6} {:>14} {:>12}",
        "collective", "mesh axes", "count", "a device sends", "takes"
    ));
    for ((kind, axes), (count, bytes, seconds)) in &kinds {
        let (bytes, seconds) = (Bytes(*bytes).to_string(), Seconds(*seconds).to_string());
        lines.push(format!("  {kind:<16} {axes:<10} {count:>6} {bytes:>14} {seconds:>12}"));
    }
    lines.push("  the costliest, and who caused them:".to_owned());
    lines.extend(log.costliest().into_iter().take(3).map(cause));
    let held = log.peak_bytes();
    let fits = if held <= pass.machine.device.capacity { "fits" } else { "does not fit" };
    lines.push(format!(
        "  peak on a device: {}, which {fits} in the {} of an {}",
        Bytes(held as f64),
        Bytes(pass.machine.device.capacity as f64),
        pass.machine.device.name
    ));
    let time = |seconds: Option<f64>| Seconds(seconds.unwrap_or(f64::NAN)).to_string();
    lines.push(format!(
        "  modelled: {} = {} of kernels + {} of collectives, {:.3e} operations a device",
        time(log.seconds()),
        time(log.compute_seconds()),
        time(log.communication_seconds()),
        log.flops()
    ));
    lines.push(format!("  found out in {}\n", Seconds(pass.own.as_secs_f64())));
    lines.join("\n")
}

/// A collective and the line of this program that it comes from.
fn cause(one: &CollectiveUse) -> String {
    format!(
        "    {} times {} over {} for {}: {} each, {} together; {}",
        one.count,
        one.kind.name(),
        one.axes.join(", "),
        one.op,
        Bytes(one.bytes),
        Seconds(one.total_seconds().unwrap_or(f64::NAN)),
        one.at.map_or("no line".to_owned(), |line| line.to_string())
    )
}

/// In powers of ten, as data sheets count.
struct Bytes(f64);

impl std::fmt::Display for Bytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            x if x >= 1e9 => write!(f, "{:.2} GB", x / 1e9),
            x if x >= 1e6 => write!(f, "{:.2} MB", x / 1e6),
            x => write!(f, "{x:.0} B"),
        }
    }
}

struct Seconds(f64);

impl std::fmt::Display for Seconds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            x if x >= 1.0 => write!(f, "{x:.2} s"),
            x if x >= 1e-3 => write!(f, "{:.2} ms", x * 1e3),
            x => write!(f, "{:.2} us", x * 1e6),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parameters of all layers, of both ends and of the norms.
    const PARAMETERS: usize = LAYERS
        * (2 * HEADS * HEAD * HIDDEN + 2 * KEY_VALUE_HEADS * HEAD * HIDDEN + 3 * MLP * HIDDEN + 2 * HIDDEN)
        + 2 * VOCABULARY * HIDDEN
        + HIDDEN;

    #[test]
    fn the_model_has_seventy_billion_parameters() {
        assert_eq!(PARAMETERS, 70_553_706_496);
    }

    /// Two all_reduces a layer and one for the table, of what one row of the mesh has in activations; nothing else.
    #[test]
    fn only_sums_over_tp_are_moved() -> Result<()> {
        for (dp, tp, heads) in [(64, 8, 8), (4096, 16, 16)] {
            let pass = simulate(dp, tp, LAYERS, heads)?;
            let reduce = 2.0 * (tp as f64 - 1.0) / tp as f64 * (SEQUENCE * HIDDEN * 2) as f64;
            let uses = || pass.log.collectives.iter();
            assert!(
                uses()
                    .all(|one| one.kind.name() == "all_reduce" && one.axes == ["tp"] && one.bytes == reduce)
            );
            assert_eq!(uses().map(|one| one.count).sum::<u64>(), 2 * LAYERS as u64 + 1);
            assert!(uses().all(|one| one.at.is_some_and(|at| at.0.file().ends_with("plan_llm.rs"))));
            assert_eq!(pass.log.devices.len(), 4);
            // The weights of a device, and not much more than some activations beside them.
            let weights = (PARAMETERS * 2 / tp) as f64;
            let peak = pass.log.peak_bytes() as f64;
            assert!(peak > weights && peak < weights + 12e9, "{peak}");
            // Twice the parameters and tokens, and attention's two products; the work of a repeated head is small.
            let least = 2.0 * ((PARAMETERS - VOCABULARY * HIDDEN) * SEQUENCE / tp) as f64;
            assert!(pass.log.flops() > least && pass.log.flops() < 1.2 * least, "{}", pass.log.flops());
        }
        Ok(())
    }

    #[test]
    fn it_is_found_out_in_a_second() -> Result<()> {
        for (dp, tp, heads) in [(64, 8, KEY_VALUE_HEADS), (4096, 16, 16)] {
            let times: Vec<Duration> =
                (0..3).map(|_| Ok(simulate(dp, tp, LAYERS, heads)?.own)).collect::<Result<_>>()?;
            assert!(times.iter().min() < Some(&Duration::from_secs(1)), "{dp} x {tp}: {times:?}");
        }
        Ok(())
    }

    #[test]
    fn the_report_names_its_lines() -> Result<()> {
        let text = report(&simulate(64, 8, 2, 8)?);
        println!("{text}");
        assert!(text.contains("all_reduce       tp              5"), "{text}");
        assert!(text.matches("plan_llm.rs:").count() == 3 && text.contains("which fits"), "{text}");
        main()
    }

    #[test]
    fn heads_that_do_not_split_cost_more() -> Result<()> {
        let bytes = |heads| Ok::<f64, Error>(simulate(4096, 16, 1, heads)?.log.bytes_moved());
        assert!(bytes(8)? > bytes(16)?);
        Ok(())
    }
}
