//! Layers on every mesh give what they give on one device, and communicate what their style needs.

use proptest::prelude::*;
use sharding_ops::nn::{
    Activation, Attention, Embedding, Heads, LayerNorm, Linear, LinearSplit, Mlp, NamedTensors, Parallel,
    RmsNorm, TableSplit,
};
use sharding_ops::*;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

/// Mesh shapes over `dp` and `tp`.
const MESHES: [[usize; 2]; 7] = [[1, 1], [1, 2], [1, 3], [1, 5], [2, 2], [3, 2], [2, 4]];

fn mesh([dp, tp]: [usize; 2]) -> DeviceMesh {
    DeviceMesh::simulated(BackendKind::CPU, [dp, tp], ["dp", "tp"]).unwrap()
}

fn one() -> DeviceMesh {
    DeviceMesh::simulated(BackendKind::CPU, [1], ["tp"]).unwrap()
}

/// Numbers from -1 to 1.
fn numbers(seed: &mut u64, n: usize) -> Vec<f32> {
    let mut next = || {
        *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*seed >> 40) as f32 / (1_u32 << 23) as f32 - 1.0
    };
    (0..n).map(|_| next()).collect()
}

/// Named tensors with elements from -1 to 1, on one device.
fn weights(shapes: &[(&str, &[usize])]) -> HashMap<String, Vec<f32>> {
    let mut seed = 11;
    shapes
        .iter()
        .map(|(name, shape)| ((*name).to_owned(), numbers(&mut seed, shape.iter().product())))
        .collect()
}

/// Weights by name, with their shapes, placed when asked for.
struct Named<'a>(&'a [(&'a str, &'a [usize])], HashMap<String, Vec<f32>>);

impl<'a> Named<'a> {
    fn new(shapes: &'a [(&'a str, &'a [usize])]) -> Self {
        Self(shapes, weights(shapes))
    }
    fn shape(&self, name: &str) -> Option<&'a [usize]> {
        self.0.iter().find(|(known, _)| *known == name).map(|(_, shape)| *shape)
    }
}

impl NamedTensors for Named<'_> {
    fn contains(&self, name: &str) -> bool {
        self.shape(name).is_some()
    }
    fn meta(&self, name: &str) -> Result<TensorMeta> {
        let shape = self.shape(name).ok_or_else(|| Error::new(ErrorKind::Argument, format!("no {name}")))?;
        Ok(TensorMeta::new(DType::F32, shape))
    }
    fn tensor(&self, name: &str, mapping: &DeviceMapping) -> Result<Tensor> {
        Tensor::from_slice(&self.1[name], self.meta(name)?.shape, mapping)
    }
}

/// The collectives that run inside: kind and mesh axes, by the spans that redistributions open.
fn collectives<T>(run: impl FnOnce() -> T) -> (T, Vec<String>) {
    let seen = Seen::default();
    let value = tracing::subscriber::with_default(seen.clone(), run);
    let list = seen.0.lock().unwrap().clone();
    (value, list)
}

#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<String>>>);

#[derive(Default)]
struct Step {
    kind: String,
    axes: String,
}

impl tracing::field::Visit for Step {
    fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
        match field.name() {
            "kind" => self.kind = format!("{value:?}").trim_matches('"').to_owned(),
            "axes" => self.axes = format!("{value:?}"),
            _ => {}
        }
    }
}

impl tracing::Subscriber for Seen {
    fn enabled(&self, of: &tracing::Metadata<'_>) -> bool {
        of.name() == "redistribute"
    }
    fn new_span(&self, span: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        let mut step = Step::default();
        span.record(&mut step);
        self.0.lock().unwrap().push(format!("{} {}", step.kind, step.axes));
        tracing::span::Id::from_u64(1)
    }
    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, _: &tracing::Event<'_>) {}
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

/// An activation `[sentences, tokens, width]`, its sentences split over `dp`, if there is one.
fn activation(mesh: &DeviceMesh, shape: [usize; 3]) -> Tensor {
    let values = numbers(&mut 5, shape.iter().product());
    Tensor::from_slice(&values, shape, &batch(mesh)).unwrap()
}

fn batch(mesh: &DeviceMesh) -> DeviceMapping {
    let place = |name: &str| if name == "dp" { Sharded(0) } else { Replicated };
    DeviceMapping::new(mesh, mesh.axis_names().map(place).collect::<Vec<_>>()).unwrap()
}

fn assert_close(got: &Tensor, want: &Tensor, what: &str) {
    assert_eq!(got.shape(), want.shape(), "{what}");
    let (got, want) = (got.to_vec::<f32>().unwrap(), want.to_vec::<f32>().unwrap());
    for (i, (got, want)) in got.iter().zip(&want).enumerate() {
        assert!((got - want).abs() <= 2e-5 * want.abs().max(1.0), "{what}: element {i} is {got}, not {want}");
    }
}

/// Runs a layer on one device and on every mesh: equal results, and these collectives over `tp`.
fn check(
    shape: [usize; 3],
    want_collectives: &[&str],
    forward: impl Fn(&Parallel, &Tensor) -> Result<Tensor>,
) {
    let alone = one();
    let want = forward(&Parallel::along(&alone, "tp").unwrap(), &activation(&alone, shape)).unwrap();
    for sizes in MESHES {
        let mesh = mesh(sizes);
        let x = activation(&mesh, shape);
        let parallel = Parallel::along(&mesh, "tp").unwrap();
        let (got, ran) = collectives(|| forward(&parallel, &x).unwrap());
        assert_close(&got, &want, &mesh.to_string());
        if sizes[1] > 1 {
            assert_eq!(ran, want_collectives, "{mesh}");
        }
    }
}

const LINEAR: [(&str, &[usize]); 2] = [("l.weight", &[7, 10]), ("l.bias", &[7])];

#[test]
fn linear_column() {
    check([4, 3, 10], &[], |parallel, x| {
        let layer = Linear::load(&Named::new(&LINEAR), "l", parallel, LinearSplit::Column)?;
        let y = layer.forward(x)?;
        if parallel.ways() > 1 {
            assert_eq!(y.mapping().places().last(), Some(&Sharded(2)));
        }
        Ok(y)
    });
}

#[test]
fn linear_row_ends_with_one_all_reduce() {
    // The input is sliced where it lies: that is local.
    check([4, 3, 10], &["local_slice tp", "all_reduce tp"], |parallel, x| {
        Linear::load(&Named::new(&LINEAR), "l", parallel, LinearSplit::Row)?.forward(x)
    });
}

#[test]
fn linear_row_may_leave_parts_and_the_bias_counts_once() {
    check([4, 3, 10], &["local_slice tp"], |parallel, x| {
        let layer = Linear::load(&Named::new(&LINEAR), "l", parallel, LinearSplit::Row)?;
        let y = Linear { reduce: false, ..layer }.forward(x)?;
        if parallel.ways() > 1 {
            assert_eq!(y.mapping().places().last(), Some(&Partial(ReduceOp::Sum)));
        }
        Ok(y)
    });
}

#[test]
fn linear_replicated() {
    check([4, 3, 10], &[], |parallel, x| {
        Linear::load(&Named::new(&LINEAR), "l", parallel, LinearSplit::Replicated)?.forward(x)
    });
}

#[test]
fn linear_of_parts_counts_the_bias_once() {
    let mesh = one();
    let sum = |mesh: &DeviceMesh| {
        let x = activation(mesh, [1, 3, 10]);
        let halves = DeviceMapping::new(mesh, vec![Partial(ReduceOp::Sum); mesh.ndim()]).unwrap();
        let parallel = Parallel::replicated(mesh);
        let layer = Linear::load(&Named::new(&LINEAR), "l", &parallel, LinearSplit::Replicated).unwrap();
        layer.forward(&x.transfer_to(&halves).unwrap()).unwrap()
    };
    let two = DeviceMesh::simulated(BackendKind::CPU, [2], ["tp"]).unwrap();
    assert_close(&sum(&two), &sum(&mesh), "parts");
}

#[test]
fn embedding_by_vocabulary_hidden_and_whole() {
    let shapes: [(&str, &[usize]); 1] = [("e.weight", &[13, 6])];
    for (split, ran) in [
        (TableSplit::Vocabulary, &["all_reduce tp"][..]),
        (TableSplit::Hidden, &[]),
        (TableSplit::Replicated, &[]),
    ] {
        check([4, 3, 2], ran, |parallel, x| {
            let ids: Vec<i64> = (0..24).map(|i| i * 5 % 13).collect();
            let ids = Tensor::from_slice(&ids, [4, 3, 2], x.mapping())?;
            Embedding::load(&Named::new(&shapes), "e", parallel, split)?.forward(&ids)
        });
    }
}

#[test]
fn layer_norm_of_whole_and_of_split_rows() {
    let shapes: [(&str, &[usize]); 2] = [("n.weight", &[6]), ("n.bias", &[6])];
    check([4, 3, 6], &[], |parallel, x| {
        LayerNorm::load(&Named::new(&shapes), "n", parallel, 1e-6)?.forward(x)
    });
    let mesh = mesh([1, 4]);
    let parallel = Parallel::along(&mesh, "tp").unwrap();
    let norm = LayerNorm::load(&Named::new(&shapes), "n", &parallel, 1e-6).unwrap();
    let x = activation(&mesh, [4, 3, 6]);
    let split = x.transfer_to(&parallel.split(2, 6, 1).unwrap()).unwrap();
    let y = norm.forward(&split).unwrap();
    assert_eq!(y.mapping(), split.mapping());
    assert_close(&y, &norm.forward(&x).unwrap(), "split rows");
}

#[test]
fn rms_norm_of_whole_and_of_split_rows() {
    let shapes: [(&str, &[usize]); 1] = [("n.weight", &[6])];
    let load = |parallel: &Parallel| RmsNorm::load(&Named::new(&shapes), "n", parallel, 1e-6);
    check([4, 3, 6], &[], |parallel, x| load(parallel)?.forward(x));
    check([4, 3, 6], &["local_slice tp", "local_slice tp", "all_reduce tp"], |parallel, x| {
        let axis = |axis| if axis + 1 == x.mesh().ndim() { Sharded(2) } else { x.mapping().place(axis) };
        let split = DeviceMapping::new(x.mesh(), (0..x.mesh().ndim()).map(axis).collect::<Vec<_>>())?;
        load(parallel)?.forward(&x.transfer_to(&split)?)
    });
}

#[test]
fn mlp_with_and_without_a_gate() {
    let shapes: [(&str, &[usize]); 5] = [
        ("up.weight", &[11, 6]),
        ("up.bias", &[11]),
        ("gate.weight", &[11, 6]),
        ("down.weight", &[6, 11]),
        ("down.bias", &[6]),
    ];
    for activation in [Activation::Gelu, Activation::GeluTanh, Activation::Relu, Activation::Silu] {
        for gate in [None, Some("gate")] {
            check([4, 3, 6], &["all_reduce tp"], |parallel, x| {
                Mlp::load(&Named::new(&shapes), "up", gate, "down", parallel, activation)?.forward(x)
            });
        }
    }
}

/// Attention with heads of 2 elements.
fn attention(heads: Heads, masked: Option<&[usize]>) {
    let (wide, narrow) = (heads.query * 2, heads.key_value * 2);
    let (wide_by_8, narrow_by_8) = ([wide, 8], [narrow, 8]);
    let (out, wide_bias, narrow_bias) = ([8, wide], [wide], [narrow]);
    let shapes: [(&str, &[usize]); 8] = [
        ("q.weight", &wide_by_8),
        ("q.bias", &wide_bias),
        ("k.weight", &narrow_by_8),
        ("k.bias", &narrow_bias),
        ("v.weight", &narrow_by_8),
        ("v.bias", &narrow_bias),
        ("o.weight", &out),
        ("o.bias", &[8]),
    ];
    // A single head is not split.
    let ran = if heads.query > 1 { &["all_reduce tp"][..] } else { &[] };
    check([4, 3, 8], ran, |parallel, x| {
        let layer = Attention::load(&Named::new(&shapes), ["q", "k", "v", "o"], parallel, heads)?;
        let mask = masked.map(|shape| {
            let values = numbers(&mut 3, shape.iter().product()).iter().map(|v| v * 3.0).collect::<Vec<_>>();
            let mapping = if shape.len() == 4 { batch(x.mesh()) } else { parallel.whole() };
            Tensor::from_slice(&values, shape, &mapping).unwrap()
        });
        layer.forward(x, mask.as_ref())
    });
}

#[test]
fn attention_splits_by_whole_heads() {
    attention(Heads::equal(12), None);
    attention(Heads::equal(5), Some(&[4, 1, 1, 3]));
    attention(Heads::equal(2), Some(&[3, 3]));
    attention(Heads::equal(1), None);
}

#[test]
fn attention_with_fewer_heads_of_keys_and_values() {
    attention(Heads { query: 6, key_value: 3 }, None);
    attention(Heads { query: 10, key_value: 5 }, Some(&[4, 1, 1, 3]));
    attention(Heads { query: 4, key_value: 1 }, Some(&[3, 3]));
    attention(Heads { query: 8, key_value: 2 }, Some(&[4, 1, 3, 3]));
}

#[test]
fn attention_is_the_formula() {
    // One head of two elements, identity weights, two tokens: softmax of their dot products over the square root of 2.
    let whole = DeviceMapping::replicated(&one());
    let identity = Tensor::from_slice(&[1.0_f32, 0.0, 0.0, 1.0], [2, 2], &whole).unwrap();
    let linear = || Linear { weight: identity.clone(), bias: None, reduce: true };
    let layer = Attention {
        query: linear(),
        key: linear(),
        value: linear(),
        output: linear(),
        heads: Heads::equal(1),
        causal: false,
    };
    let x = Tensor::from_slice(&[1.0_f32, 0.0, 0.0, 2.0], [1, 2, 2], &whole).unwrap();
    let got = layer.forward(&x, None).unwrap().to_vec::<f32>().unwrap();
    let share = |mine: f32, other: f32| {
        let (a, b) = ((mine / 2_f32.sqrt()).exp(), (other / 2_f32.sqrt()).exp());
        a / (a + b)
    };
    let (first, second) = (share(1.0, 0.0), share(4.0, 0.0));
    let want = [first, 2.0 * (1.0 - first), 1.0 - second, 2.0 * second];
    assert!(got.iter().zip(want).all(|(got, want)| (got - want).abs() < 1e-6), "{got:?} is not {want:?}");

    let one_token = Tensor::from_slice(&[1.0_f32, 0.0], [2], &whole).unwrap();
    let error = layer.forward(&one_token, None).unwrap_err();
    assert_eq!((error.kind(), error.op()), (ErrorKind::Shape, Some("Attention")), "{error}");

    // The first token has nobody before it.
    let got = Attention { causal: true, ..layer }.forward(&x, None).unwrap().to_vec::<f32>().unwrap();
    let want = [1.0, 0.0, 1.0 - second, 2.0 * second];
    assert!(got.iter().zip(want).all(|(got, want)| (got - want).abs() < 1e-6), "{got:?} is not {want:?}");
}

#[test]
fn what_does_not_fit_is_named() {
    let mesh = one();
    let parallel = Parallel::along(&mesh, "tp").unwrap();
    let named = Named::new(&[("l.weight", &[7, 10]), ("l.bias", &[6]), ("v.weight", &[7])]);
    let text = |error: Error| error.to_string();
    let said = text(Linear::load(&named, "l", &parallel, LinearSplit::Column).unwrap_err());
    assert!(said.contains("the bias 'l.bias' is [6]") && said.contains("l.weight: [7, 10]"), "{said}");
    let said = text(Linear::load(&named, "v", &parallel, LinearSplit::Column).unwrap_err());
    assert!(said.contains("is a matrix") && said.contains("v.weight: [7]"), "{said}");
    let said = text(Embedding::load(&named, "v", &parallel, TableSplit::Hidden).unwrap_err());
    assert!(said.contains("an embedding table is a matrix"), "{said}");
    let said = text(Attention::load(&named, ["l", "l", "l", "l"], &parallel, Heads::equal(2)).unwrap_err());
    assert!(said.contains("no number of 2 heads"), "{said}");
    let none = Heads { query: 3, key_value: 0 };
    let said = text(Attention::load(&named, ["l", "l", "l", "l"], &parallel, none).unwrap_err());
    assert!(said.contains("3 heads of queries cannot share 0"), "{said}");
    let empty: HashMap<String, Tensor> = HashMap::new();
    let said = text(Linear::load(&empty, "x", &parallel, LinearSplit::Row).unwrap_err());
    assert!(said.contains("no tensor 'x.weight' among 0"), "{said}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    /// A column- and a row-parallel layer, of any widths (also less than there are devices), under any mesh.
    #[test]
    fn a_pair_of_layers_on_any_mesh(
        sizes in [1_usize..4, 1_usize..6],
        [inner, wide, outer] in [1_usize..8, 1_usize..14, 1_usize..5],
        sentences in 1_usize..5,
    ) {
        let (up, down) = ([wide, inner], [outer, wide]);
        let (up_bias, down_bias) = ([wide], [outer]);
        let shapes: [(&str, &[usize]); 4] =
            [("up.weight", &up), ("up.bias", &up_bias), ("down.weight", &down), ("down.bias", &down_bias)];
        let run = |mesh: &DeviceMesh| {
            let parallel = Parallel::along(mesh, "tp").unwrap();
            let mlp = Mlp::load(&Named::new(&shapes), "up", None, "down", &parallel, Activation::Relu).unwrap();
            mlp.forward(&activation(mesh, [sentences, 2, inner])).unwrap()
        };
        assert_close(&run(&mesh(sizes)), &run(&one()), "a pair");
    }
}
