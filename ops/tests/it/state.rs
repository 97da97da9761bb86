//! Sharded state: layouts, initialisation on every mesh, names, shardings by annotation, and loading.

use sharding_core::state::{AbstractTensor, Init, Leaf, StateSharding};
use sharding_core::{
    AbstractMesh, AxisType, BackendKind, DType, Device, DeviceMapping, DeviceMesh, Error, ErrorKind,
    NamedSharding, NamedTensors, Place, RandomKey, Result, ShardedState, Sharding, Tensor, spec,
};
use sharding_ops::{
    LeafOps, StateTensors, abstract_sharded_state, add, eager_sharded_init, mul, sharded_load,
    state_shardings,
};
use std::collections::{BTreeMap, HashMap};

#[derive(Clone, Debug, ShardedState)]
struct Linear {
    #[sharding("tp", None)]
    weight: Tensor,
    #[sharding("tp")]
    bias: Option<Tensor>,
}

impl Linear {
    fn new(init: &Init<'_, Self>, outputs: usize, inputs: usize, bias: bool) -> Result<Self> {
        Ok(Self {
            weight: init.weight.shape([outputs, inputs]).uniform(-0.5..0.5)?,
            bias: bias.then(|| init.bias.shape([outputs]).normal(0.0, 0.1)).transpose()?,
        })
    }
}

/// A struct without names of fields.
#[derive(Clone, Debug, ShardedState)]
struct Pair(#[sharding(None, ("dp", "tp"))] Tensor, #[sharding(skip)] u8, Tensor);

#[derive(Clone, Debug, ShardedState)]
struct Model {
    #[sharding("tp", None, shape = [8, 4], dtype = BF16, name = "embed.table")]
    embed: Tensor,
    layers: Vec<Linear>,
    pairs: [Pair; 2],
    #[sharding(("tp", "dp"))]
    scales: BTreeMap<String, Tensor>,
    #[sharding(placed)]
    heads: Tensor,
    head: Box<Linear>,
    #[sharding(skip)]
    eps: f64,
}

fn heads(mesh: &DeviceMesh) -> DeviceMapping {
    // Uneven, which specs refuse.
    let places: Vec<Place> = mesh
        .axis_names()
        .map(|name| if name == "tp" { Place::Sharded(0) } else { Place::Replicated })
        .collect();
    DeviceMapping::new(mesh, places).unwrap()
}

impl Model {
    fn new(init: &Init<'_, Self>, layers: usize) -> Result<Self> {
        Ok(Self {
            embed: init.embed.normal(0.0, 0.02)?,
            layers: init.layers.each(layers, |init, i| Linear::new(init, 8, 4, i % 2 == 0))?,
            pairs: init.pairs.array(|init, _| {
                Ok(Pair(init.0.shape([3, 8]).uniform(0.0..1.0)?, 7, init.2.shape([2]).ones()?))
            })?,
            scales: init
                .scales
                .each(["b", "a"], |leaf, key| leaf.shape([4]).full(if key == "a" { 1.0 } else { 2.0 }))?,
            heads: init.heads.shape([5, 2]).mapping(&heads(init.heads.mesh())).uniform(0.0..1.0)?,
            head: Box::new(Linear::new(&init.head, 4, 8, false)?),
            eps: 1e-5,
        })
    }
}

const NAMES: [&str; 13] = [
    "embed.table",
    "layers.0.weight",
    "layers.0.bias",
    "layers.1.weight",
    "layers.2.weight",
    "layers.2.bias",
    "pairs.0.0",
    "pairs.0.2",
    "pairs.1.0",
    "pairs.1.2",
    "scales.a",
    "scales.b",
    "heads",
];

fn mesh(shape: [usize; 2]) -> DeviceMesh {
    DeviceMesh::simulated(BackendKind::CPU, shape, ["dp", "tp"]).unwrap()
}

fn model(mesh: &DeviceMesh, key: impl Into<RandomKey>) -> Model {
    eager_sharded_init::<Model>(mesh, key, |init| Model::new(init, 3)).unwrap()
}

fn bytes(model: &Model) -> Vec<(String, Vec<u8>)> {
    model.tensors().into_iter().map(|(name, tensor)| (name, tensor.to_bytes().unwrap())).collect()
}

#[test]
fn the_same_seed_gives_the_same_values_on_every_mesh() {
    let want = bytes(&model(&mesh([1, 1]), 42));
    let names: Vec<&str> = want.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, [&NAMES[..], &["head.weight"]].concat());
    for shape in [[2, 1], [1, 2], [2, 2], [1, 4], [4, 1]] {
        assert_eq!(bytes(&model(&mesh(shape), 42)), want, "{shape:?}");
    }
    let explicit = mesh([2, 2]).with_axis_types([AxisType::Explicit; 2]).unwrap();
    assert_eq!(bytes(&model(&explicit, 42)), want);
    // Tensors of one shape have numbers of their own, and another seed gives others.
    let of = |all: &[(String, Vec<u8>)], name: &str| {
        all.iter().find(|(known, _)| known == name).unwrap().1.clone()
    };
    assert_ne!(of(&want, "layers.0.weight"), of(&want, "layers.1.weight"));
    assert_ne!(of(&want, "layers.0.weight"), of(&bytes(&model(&mesh([1, 1]), 43)), "layers.0.weight"));
}

/// What a parameter is does not depend on what there is beside it.
#[test]
fn a_name_keeps_its_values() {
    let mesh = mesh([1, 2]);
    let two = eager_sharded_init::<Vec<Linear>>(&mesh, 5, |init| {
        init.each(2, |init, _| Linear::new(init, 4, 4, true))
    })
    .unwrap();
    let five = eager_sharded_init::<Vec<Linear>>(&mesh, 5, |init| {
        init.each(5, |init, _| Linear::new(init, 4, 4, true))
    })
    .unwrap();
    assert_eq!(two[1].weight.to_vec::<f32>().unwrap(), five[1].weight.to_vec::<f32>().unwrap());
}

#[test]
fn tensors_lie_as_their_fields_say() {
    let mesh = mesh([2, 2]);
    let model = model(&mesh, 1);
    let places = |name: &str| model.tensor_named(name).unwrap().layout().places().to_vec();
    let (r, s) = (Place::Replicated, Place::Sharded);
    assert_eq!(places("embed.table"), [r, s(0)]);
    assert_eq!(places("layers.2.bias"), [r, s(0)]);
    assert_eq!(places("pairs.1.0"), [s(1), s(1)]);
    assert_eq!(places("pairs.1.2"), [r, r]);
    assert_eq!(places("heads"), [r, s(0)]);
    assert_eq!(model.embed.dtype(), DType::BF16);
    assert_eq!((model.eps, model.pairs[0].1), (1e-5, 7));
    // ("tp", "dp") is no mesh order: the same devices in another order, the first name the most significant.
    let scales = &model.scales["a"];
    let want = NamedSharding::new(&mesh, spec![("tp", "dp")]).unwrap();
    let indices = scales.mapping().devices_indices_map(scales.shape()).unwrap();
    for (device, region) in want.devices_indices_map(scales.shape()).unwrap() {
        assert_eq!(indices.of(device).unwrap(), region);
    }
}

#[test]
fn every_device_makes_its_own_piece_only() {
    // Slots that no other test counts the memory of.
    let devices: Vec<Device> = (0..4).map(|i| Device::cpu().with_slot(9000 + i)).collect();
    let mesh = DeviceMesh::new(&devices, [1, 4], ["dp", "tp"]).unwrap();
    let layouts = abstract_sharded_state::<Model>(&mesh.to_abstract(), |init| Model::new(init, 3)).unwrap();
    mesh.reset_peak_memory().unwrap();
    let before: Vec<u64> = mesh.memory().unwrap().into_iter().map(|(_, memory)| memory.live).collect();
    let model = model(&mesh, 3);
    for ((device, memory), before) in mesh.memory().unwrap().into_iter().zip(before) {
        let most = (memory.live - before) as usize;
        if device == mesh.device(0).unwrap() {
            // Replicas share the buffers of the first device; `scales` and `heads` are its own.
            assert_eq!(most, layouts.bytes_per_device().unwrap(), "{device}");
        }
        assert!(memory.peak - before <= most as u64, "{device}: {memory}");
    }
    assert!(layouts.bytes_per_device().unwrap() < layouts.bytes() / 2);
    drop(model);
}

#[test]
fn layouts_take_no_memory_and_are_those_of_the_state() {
    // Far more than any machine has.
    let mesh = AbstractMesh::new([64, 1024], ["dp", "tp"]).unwrap();
    let huge = abstract_sharded_state::<Vec<Linear>>(&mesh, |init| {
        init.each(100, |init, _| {
            let made = Linear::new(init, 1 << 20, 1 << 20, true)?;
            // Ops compute shapes.
            Ok(Linear { weight: add(&made.weight, &made.weight)?, ..made })
        })
    })
    .unwrap();
    assert_eq!(huge.len(), 200);
    assert_eq!(huge.bytes(), 100 * 4 * ((1 << 40) + (1 << 20)));
    assert_eq!(huge.bytes_per_device().unwrap(), 100 * 4 * ((1 << 30) + (1 << 10)));
    let weight = huge.get("layers").or(huge.get("17.weight")).unwrap();
    assert_eq!(weight.sharding().named().unwrap().spec(), &spec!["tp", None]);

    let mesh = self::mesh([2, 2]);
    let layouts = abstract_sharded_state::<Model>(&mesh.to_abstract(), |init| Model::new(init, 3)).unwrap();
    let model = model(&mesh, 0);
    let on = layouts.on(&mesh).unwrap();
    assert_eq!(on.len(), model.tensors().len());
    for ((name, layout), (want, tensor)) in on.iter().zip(model.tensors()) {
        assert_eq!((name, layout), (&want, tensor.layout()));
    }
    assert_eq!(layouts.on(&self::mesh([1, 2])).unwrap_err().kind(), ErrorKind::Mesh);
    let texts: Vec<String> = layouts.iter().take(1).map(AbstractTensor::to_string).collect();
    assert!(texts[0].contains("embed.table: bf16[8, 4]"), "{texts:?}");
}

/// A moment is split otherwise than its parameter, and a counter not at all: tinax's own test.
#[derive(Clone, ShardedState)]
struct Sgd {
    #[sharding("tp", None)]
    moment: Tensor,
    step: Tensor,
}

#[derive(Clone, ShardedState)]
struct Kernel {
    #[sharding(None, "tp")]
    kernel: Tensor,
}

/// An optimizer of any model, with a moment of the form of the model.
#[derive(Clone, ShardedState)]
struct Adam<S> {
    moments: S,
    count: Tensor,
}

#[test]
fn shardings_are_those_of_each_annotation() {
    let mesh = mesh([1, 2]);
    let (model, optimizer): (Kernel, Sgd) =
        eager_sharded_init::<(Kernel, Sgd)>(&mesh, 0, |(model, optimizer)| {
            let model = Kernel { kernel: model.kernel.shape([4, 6]).normal(0.0, 1.0)? };
            let optimizer = Sgd {
                moment: optimizer.moment.shape([4, 6]).zeros()?,
                step: optimizer.step.shape([]).dtype(DType::I64).zeros()?,
            };
            Ok((model, optimizer))
        })
        .unwrap();
    let of = |shardings: Vec<(String, StateSharding)>| -> Vec<(String, String)> {
        shardings
            .into_iter()
            .map(|(name, sharding)| (name, sharding.named().unwrap().spec().to_string()))
            .collect()
    };
    let text = |name: &str, spec: &str| (name.to_owned(), spec.to_owned());
    assert_eq!(of(state_shardings(&model, &mesh).unwrap()), [text("kernel", r#"PartitionSpec(None, "tp")"#)]);
    assert_eq!(
        of(state_shardings(&optimizer, &mesh).unwrap()),
        [text("moment", r#"PartitionSpec("tp", None)"#), text("step", "PartitionSpec()")]
    );
    // Where they lie now does not count.
    let whole = model.map_tensors(|_, x| x.transfer_to(&DeviceMapping::replicated(&mesh))).unwrap();
    assert_eq!(whole.kernel.layout().places(), [Place::Replicated; 2]);
    assert_eq!(state_shardings(&whole, &mesh).unwrap(), state_shardings(&model, &mesh).unwrap());

    let adam = Adam { moments: model.map_tensors(|_, x| mul(x, 0.0)).unwrap(), count: optimizer.step };
    let names: Vec<String> =
        state_shardings(&adam, &mesh).unwrap().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["moments.kernel", "count"]);
}

#[test]
fn a_step_of_an_optimizer_changes_tensors_in_place() {
    let mesh = mesh([2, 2]);
    let mut model = model(&mesh, 1);
    let gradients = model.map_tensors(|_, x| mul(x, 1.0)).unwrap();
    for ((name, parameter), (same, gradient)) in model.tensors_mut().into_iter().zip(gradients.tensors()) {
        assert_eq!(name, same);
        *parameter = (&*parameter - gradient).unwrap();
    }
    assert!(model.tensors().iter().all(|(_, x)| x.to_bytes().unwrap().iter().all(|byte| *byte == 0)));
    let failed = model.map_tensors(|name, _| Err(Error::new(ErrorKind::Argument, name))).unwrap_err();
    assert_eq!(failed.message(), "embed.table");
}

#[test]
fn states_are_loaded_by_their_names() {
    let saved = model(&mesh([1, 1]), 9);
    let mesh = mesh([2, 2]);
    // A state is a source itself; so is a map.
    let map: HashMap<String, Tensor> =
        saved.tensors().into_iter().map(|(name, x)| (name, x.clone())).collect();
    for source in [&saved as &dyn NamedTensors, &map] {
        let loaded = sharded_load::<Model>(&mesh, source, |init| Model::new(init, 3)).unwrap();
        assert_eq!(bytes(&loaded), bytes(&saved));
        assert_eq!(loaded.embed.layout().places(), [Place::Replicated, Place::Sharded(0)]);
    }
    let kind =
        |layers: usize| sharded_load::<Model>(&mesh, &map, |init| Model::new(init, layers)).unwrap_err();
    let error = kind(4);
    assert!(error.kind() == ErrorKind::Argument && error.to_string().contains("layers.3.weight"), "{error}");
    let error = sharded_load::<Vec<Linear>>(&mesh, &map, |init| {
        init.each(1, |init, _| Linear::new(init, 8, 4, true))
    });
    assert!(error.unwrap_err().to_string().contains("'0.weight'"));
    // Shapes and dtypes are those of the source, or said.
    let linear = |shape: [usize; 2], dtype: Option<DType>| {
        sharded_load::<Linear>(&mesh, &saved.layers[0], |init| {
            let leaf = init.weight.shape(shape);
            let leaf = dtype.map_or(leaf.clone(), |dtype| leaf.dtype(dtype));
            Ok(Linear {
                weight: leaf.zeros()?,
                bias: init.bias.is_there().then(|| init.bias.zeros()).transpose()?,
            })
        })
    };
    let loaded = linear([8, 4], None).unwrap();
    assert!(loaded.bias.is_some_and(|bias| bias.shape()[..] == [8]));
    assert_eq!(linear([4, 8], None).unwrap_err().kind(), ErrorKind::Shape);
    assert_eq!(linear([8, 4], Some(DType::F64)).unwrap_err().kind(), ErrorKind::DType);
}

#[test]
fn what_is_made_otherwise_is_moved_to_its_field() {
    let mesh = mesh([1, 2]);
    let whole = DeviceMapping::replicated(&mesh);
    let mut runs = 0;
    let linear = eager_sharded_init::<Linear>(&mesh, 0, |_| {
        runs += 1;
        Ok(Linear { weight: Tensor::from_slice(&[1.0_f32; 8], [4, 2], &whole)?, bias: None })
    })
    .unwrap();
    assert_eq!((runs, linear.weight.layout().places()), (1, &[Place::Replicated, Place::Sharded(0)][..]));
    // Also what the maker of a leaf gives.
    let linear = eager_sharded_init::<Linear>(&mesh, 0, |init| {
        let weight = init
            .weight
            .shape([4, 2])
            .build(|layout, _| Tensor::from_slice(&[1.0_f32; 8], layout.shape().clone(), &whole))?;
        assert_eq!(weight.layout().places(), [Place::Replicated, Place::Sharded(0)]);
        Ok(Linear { weight, bias: None })
    });
    assert!(linear.is_ok());
}

#[test]
fn mistakes_are_named() {
    fn fails(mesh: &DeviceMesh, make: impl Fn(&Leaf<'_>) -> Result<Tensor>) -> Error {
        eager_sharded_init::<Linear>(mesh, 0, |init| Ok(Linear { weight: make(&init.weight)?, bias: None }))
            .unwrap_err()
    }
    let grid = mesh([2, 2]);
    let zeros = |leaf: &Leaf<'_>| leaf.shape([4, 2]).zeros();
    let replicated = DeviceMapping::replicated(&grid);
    for (error, kind) in [
        (fails(&grid, |leaf| leaf.zeros()), ErrorKind::Argument),
        (fails(&grid, |leaf| leaf.shape([4, 2]).mapping(&replicated).zeros()), ErrorKind::Argument),
        (fails(&grid, |leaf| leaf.shape([3, 2]).zeros()), ErrorKind::Indivisible),
        (fails(&grid, |leaf| leaf.shape([4]).zeros()), ErrorKind::Dimensions),
        (
            fails(&grid, |leaf| {
                leaf.shape([4, 2]).build(|layout, _| Tensor::from_slice(&[0.0_f32], [1], layout.mapping()))
            }),
            ErrorKind::Shape,
        ),
        (
            fails(&grid, |leaf| {
                leaf.shape([4, 2]).build(|_, _| Tensor::from_slice(&[0.0_f32], [1], &replicated))
            }),
            ErrorKind::Shape,
        ),
        (
            fails(&grid, |leaf| {
                leaf.shape([4, 2]).build(|_, _| Tensor::from_slice(&[0.0_f64; 8], [4, 2], &replicated))
            }),
            ErrorKind::DType,
        ),
        (fails(&DeviceMesh::simulated(BackendKind::CPU, [2], ["dp"]).unwrap(), zeros), ErrorKind::Axis),
    ] {
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains("'weight'"), "{error}");
    }
    let types = |types: [AxisType; 2]| fails(&grid.with_axis_types(types).unwrap(), zeros);
    for error in [types([AxisType::Auto, AxisType::Manual]), types([AxisType::Auto, AxisType::Explicit])] {
        assert_eq!((error.kind(), error.op()), (ErrorKind::Mesh, Some("eager_sharded_init")), "{error}");
    }
    let manual = grid.with_axis_types([AxisType::Manual; 2]).unwrap();
    let nothing = BTreeMap::<String, Tensor>::new();
    assert_eq!(state_shardings(&nothing, &manual).unwrap_err().kind(), ErrorKind::Mesh);
    assert_eq!(
        abstract_sharded_state::<BTreeMap<String, Tensor>>(&manual.to_abstract(), |_| Ok(BTreeMap::new()))
            .unwrap_err()
            .kind(),
        ErrorKind::Mesh
    );
    // Names that a dot makes equal.
    type Nested = BTreeMap<String, BTreeMap<String, Tensor>>;
    let error = eager_sharded_init::<Nested>(&grid, 0, |init| {
        let one = |key: &str, inner: &str| {
            Ok((
                key.to_owned(),
                BTreeMap::from([(inner.to_owned(), init.entry(key).entry(inner).shape([1]).zeros()?)]),
            ))
        };
        [one("a", "b.c"), one("a.b", "c")].into_iter().collect::<Result<Nested>>()
    });
    assert!(error.unwrap_err().to_string().contains("'a.b.c'"));
}

#[test]
fn what_nobody_reads_of_a_source_is_told() {
    use sharding_core::state::{Renamed, Tracked};
    let mesh = mesh([1, 2]);
    let linear = |init: &Init<'_, Linear>| Linear::new(init, 4, 2, true);
    let own = eager_sharded_init::<Linear>(&mesh, 1, linear).unwrap();
    let mut file: HashMap<String, Tensor> =
        own.tensors().into_iter().map(|(name, tensor)| (format!("model.{name}"), tensor.clone())).collect();
    let read = Tracked::new(&file);
    let names = || file.keys().map(String::as_str);
    assert_eq!(read.unread(names()).len(), 2);
    // Under other names than the state's, it is those of the file that count.
    let source = Renamed::new(&read, |name: &str| format!("model.{name}"));
    let loaded = sharded_load::<Linear>(&mesh, &source, linear).unwrap();
    assert_eq!(loaded.weight.to_bytes().unwrap(), own.weight.to_bytes().unwrap());
    assert!(read.unread(names()).is_empty() && read.check_all_read(names()).is_ok());

    for (i, name) in ["model.head", "model.extra.b", "model.extra.a"].into_iter().enumerate() {
        file.insert(name.to_owned(), own.weight.clone());
        let read = Tracked::new(&file);
        // Without its bias: asking whether it is there, and of what shape, is no reading.
        let source = Renamed::new(&read, |name: &str| format!("model.{name}"));
        assert!(source.contains("bias") && source.meta("bias").is_ok());
        sharded_load::<Linear>(&mesh, &source, |init| Linear::new(init, 4, 2, false)).unwrap();
        let error = read.check_all_read(file.keys()).unwrap_err();
        assert_eq!((error.kind(), read.unread(file.keys()).len()), (ErrorKind::Argument, i + 2));
        assert!(error.message().contains("'model.bias'") && error.message().contains(name), "{error}");
        assert!(!error.message().contains("model.weight"), "{error}");
        let wanted = file
            .keys()
            .filter(|name| !name.contains("extra") && !name.contains("head") && !name.contains("bias"));
        assert!(read.check_all_read(wanted).is_ok());
    }
    // What failed to be read was not read.
    let read = Tracked::new(&file);
    assert!(read.tensor("nowhere", own.weight.mapping()).is_err());
    assert_eq!(read.unread(["nowhere"]), ["nowhere"]);
}
