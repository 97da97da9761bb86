//! Results on any placement equal the one-device result: every op, by its cases, on random meshes and placements, with
//! uneven and empty shards and unequal Partial parts of both signs.

use sharding_core::backend::backend_of;
use sharding_core::conformance::host::{HostArray, Random, parts};
use sharding_core::op::{Case, Cases, OpDef, OperandKind, Registry};
use sharding_core::placement::{Interleaved, Ragged, sharded};
use sharding_core::{
    BackendKind, DType, Device, DeviceMapping, DeviceMesh, ErrorKind, Operand, Place, Policy, ReduceOp,
    Result, Shape, Tensor, TensorBuffer, TensorLayout, auto_reshard, dispatch_dyn,
};
use sharding_ops as _;

/// Random placements of every case.
const TRIALS: usize = 24;

fn meshes() -> Vec<DeviceMesh> {
    let mesh =
        |shape: &[usize], names: &[&str]| DeviceMesh::simulated(BackendKind::CPU, shape, names).unwrap();
    vec![
        mesh(&[2], &["tp"]),
        mesh(&[3], &["tp"]),
        mesh(&[4], &["tp"]),
        mesh(&[2, 2], &["dp", "tp"]),
        mesh(&[3, 2], &["dp", "tp"]),
        mesh(&[2, 1, 2], &["dp", "one", "tp"]),
    ]
}

/// A random placement of a tensor over so many devices.
fn place(shape: &Shape, dtype: DType, ways: usize, random: &mut Random) -> Place {
    let axis = |random: &mut Random| random.below(shape.len());
    match random.below(8) {
        0..=3 if !shape.is_empty() => sharded(axis(random)),
        4 if dtype != DType::Bool => Place::PARTIAL,
        5 if !shape.is_empty() => {
            let axis = axis(random);
            let mut left = shape.extent(axis);
            let mut sizes: Vec<usize> = (1..ways)
                .map(|_| {
                    let size = random.below(left + 1);
                    left -= size;
                    size
                })
                .collect();
            sizes.push(left);
            Ragged::place(axis, sizes)
        }
        6 if !shape.is_empty() => {
            let axis = axis(random);
            let first = random.below(shape.extent(axis) + 1);
            Interleaved::place(axis, [first, shape.extent(axis) - first])
        }
        _ => Place::Replicated,
    }
}

/// A random mapping that is valid for the shape.
fn mapping(mesh: &DeviceMesh, shape: &Shape, dtype: DType, random: &mut Random) -> DeviceMapping {
    loop {
        let places: Vec<Place> = mesh.shape().iter().map(|ways| place(shape, dtype, *ways, random)).collect();
        if let Ok(mapping) = DeviceMapping::new(mesh, places)
            && mapping.check(shape).is_ok()
        {
            return mapping;
        }
    }
}

/// A tensor of these elements, with unequal parts where it is Partial.
fn tensor(whole: &HostArray, mapping: &DeviceMapping, random: &mut Random) -> Result<Tensor> {
    let mesh = mapping.mesh();
    let layout = TensorLayout::new(whole.dtype, &whole.shape, mapping.clone())?;
    let backend = &**backend_of(BackendKind::CPU)?;
    let axes: Vec<usize> = (0..mesh.ndim()).filter(|axis| mapping.place(*axis).is_partial()).collect();
    let op = axes.first().and_then(|axis| mapping.place(*axis).reduce_op()).unwrap_or_default();
    let terms = parts(whole, op, mesh.axis_size(&axes)?, random);
    let positions = backend.positions(mesh)?;
    let shards = positions
        .iter()
        .map(|position| {
            let device = mesh.device(*position).unwrap_or(Device::cpu());
            let term = &terms[mesh.device_coord(*position, &axes)?];
            term.cut(&layout.region(*position)).put(backend, device)
        })
        .collect::<Result<_>>()?;
    Tensor::from_shards(layout, positions, shards)
}

fn whole(tensor: &Tensor) -> Result<HostArray> {
    let one = tensor.transfer_to(&DeviceMapping::replicated(tensor.mesh()))?;
    HostArray::read(&**backend_of(BackendKind::CPU)?, &one.shards()[0])
}

/// All results of a call, or the buffers it wrote.
fn call(def: &'static OpDef, case: &Case, inputs: Vec<Tensor>) -> Result<Vec<Tensor>> {
    let mut inputs = inputs.into_iter();
    let mut groups: Vec<Vec<Tensor>> =
        case.groups.iter().map(|n| inputs.by_ref().take(usize::from(*n)).collect()).collect();
    let is_written = |i: usize| def.operands[i].kind == OperandKind::Written;
    let mut buffers: Vec<TensorBuffer> = groups
        .iter_mut()
        .enumerate()
        .filter(|(i, _)| is_written(*i))
        .map(|(_, group)| TensorBuffer::new(group.remove(0)))
        .collect();
    let mut written = buffers.iter_mut();
    let mut operands: Vec<Operand<'_>> = groups
        .iter()
        .zip(def.operands)
        .map(|(group, operand)| match operand.kind {
            OperandKind::Many => Operand::Many(group),
            OperandKind::Optional => Operand::Optional(group.first()),
            OperandKind::Written => Operand::Written(written.next().unwrap()),
            OperandKind::Tensor | OperandKind::Scalar => Operand::Tensor(&group[0]),
        })
        .collect();
    let results = dispatch_dyn(def, &mut operands, &*case.args)?;
    drop(operands);
    Ok(if buffers.is_empty() {
        results.all().into_vec()
    } else {
        buffers.iter().map(TensorBuffer::to_tensor).collect()
    })
}

/// Where the operands of one trial lie. What is written never moves, and decides where its source may lie.
fn mappings(def: &OpDef, case: &Case, mesh: &DeviceMesh, random: &mut Random) -> Vec<DeviceMapping> {
    let mut all: Vec<DeviceMapping> = case
        .operands
        .iter()
        .map(|operand| mapping(mesh, &operand.meta.shape, operand.meta.dtype, random))
        .collect();
    if def.name == "buffer_store" {
        all[1] = all[0].clone();
    } else if def.name == "buffer_store_slice" {
        // Partial beside Partial, and whole otherwise.
        let places: Vec<Place> =
            all[0].places().iter().map(|to| if to.is_partial() { *to } else { Place::Replicated }).collect();
        all[1] = DeviceMapping::new(mesh, places).unwrap();
    }
    all
}

fn check(name: &str) {
    let def = Registry::get().unwrap().op(name).unwrap();
    let mut cases = Cases::new();
    (def.cases)(&mut cases);
    let one = DeviceMesh::single(Device::cpu());
    let (mut ran, mut random) = (0, Random::new(name.len() as u64));
    for case in cases.iter() {
        let inputs: Vec<HostArray> = case
            .operands
            .iter()
            .enumerate()
            .map(|(i, operand)| HostArray::of_case(operand, 7 + i as u64))
            .collect();
        let on_one = |input: &HostArray| tensor(input, &DeviceMapping::replicated(&one), &mut Random::new(1));
        let on_one = inputs.iter().map(on_one).collect::<Result<Vec<_>>>().unwrap();
        let wants: Vec<HostArray> =
            call(def, case, on_one).unwrap().iter().map(|x| whole(x).unwrap()).collect();
        for mesh in meshes().iter().cycle().take(TRIALS) {
            let mappings = mappings(def, case, mesh, &mut random);
            let said = || format!("{name} {:?} on {mesh}: {mappings:?}", case.args);
            let placed: Result<Vec<Tensor>> = inputs
                .iter()
                .zip(&mappings)
                .map(|(input, mapping)| tensor(input, mapping, &mut random))
                .collect();
            let placed = placed.unwrap_or_else(|error| panic!("{}: {error}", said()));
            let policy = if random.below(2) == 0 { Policy::silent() } else { Policy::silent().all() };
            let results = match auto_reshard(policy, || call(def, case, placed)) {
                Ok(results) => results,
                Err(error) => panic!("{}: {error}", said()),
            };
            for (want, result) in wants.iter().zip(&results) {
                let got = whole(result).unwrap_or_else(|error| panic!("{}: {error}", said()));
                assert_eq!((want.dtype, &want.shape), (got.dtype, &got.shape), "{}", said());
                if let Some(difference) = want.first_difference(&got) {
                    panic!("{}: {difference:?} in {}", said(), result.layout());
                }
            }
            ran += 1;
        }
    }
    assert!(ran > 0, "{name} has no case");
}

macro_rules! ops {
    ($($test:ident: $name:literal),* $(,)?) => {$(
        #[test]
        fn $test() {
            check($name);
        }
    )*};
}
ops! {
    add: "add", sub: "sub", mul: "mul", div: "div", relu: "relu", gelu: "gelu", where_: "where",
    matmul: "matmul", sum: "sum", max: "max", mean: "mean", softmax: "softmax", layer_norm: "layer_norm",
    reshape: "reshape", permute: "permute", concat: "concat", slice: "slice", embedding: "embedding",
    gather: "gather", buffer_store: "buffer_store", buffer_store_slice: "buffer_store_slice", abs: "abs",
    cast: "cast", clamp: "clamp", eq: "eq", erf: "erf", exp: "exp", ge: "ge", gelu_tanh: "gelu_tanh",
    gt: "gt", le: "le", linear: "linear", log: "log", logical_and: "logical_and", logical_not: "logical_not",
    logical_or: "logical_or", logical_xor: "logical_xor", lt: "lt", maximum: "maximum", min: "min",
    minimum: "minimum", ne: "ne", neg: "neg", pow: "pow", prod: "prod", rms_norm: "rms_norm", rsqrt: "rsqrt",
    sigmoid: "sigmoid", silu: "silu", sqrt: "sqrt", tanh: "tanh",
    attention: "scaled_dot_product_attention", split: "split", chunk: "chunk", stack: "stack", flip: "flip",
    roll: "roll", pad: "pad", tile: "tile", repeat: "repeat",
}

/// A number beside a Partial tensor counts once, however many devices hold parts.
#[test]
fn a_number_counts_once() {
    for mesh in meshes() {
        let mut random = Random::new(3);
        let x = HostArray::of_case(&sharding_core::op::CaseOperand::new(DType::F32, [5]), 1);
        for _ in 0..TRIALS {
            let mapping = mapping(&mesh, &x.shape, x.dtype, &mut random);
            let placed = tensor(&x, &mapping, &mut random).unwrap();
            let values = |x: &Tensor| x.to_vec::<f32>().unwrap();
            let sum = values(&(&placed + 2.0).unwrap());
            let difference = values(&(2.0 - &placed).unwrap());
            for ((x, sum), difference) in values(&placed).iter().zip(sum).zip(difference) {
                assert_eq!((x + 2.0, 2.0 - x), (sum, difference), "{mapping:?}");
            }
        }
    }
}

/// The identity of a reduction lies on devices without elements, and where there are none at all, every device errs alike.
#[test]
fn nothing_has_a_sum_and_no_maximum() {
    let mesh = DeviceMesh::simulated(BackendKind::CPU, [4], ["tp"]).unwrap();
    let rows = DeviceMapping::new(&mesh, [Place::Sharded(0)]).unwrap();
    let x = sharding_ops::full([2, 3], -1.0, DType::F32, &rows).unwrap();
    let greatest = sharding_ops::max(&x, 0, false).unwrap();
    assert_eq!(greatest.layout().places(), [Place::Partial(ReduceOp::Max)]);
    assert_eq!(greatest.to_vec::<f32>().unwrap(), [-1.0; 3]);
    let none = sharding_ops::full([0, 3], 1.0, DType::F32, &rows).unwrap();
    assert_eq!(sharding_ops::sum(&none, 0, false).unwrap().to_vec::<f32>().unwrap(), [0.0; 3]);
    assert_eq!(sharding_ops::max(&none, 0, false).unwrap_err().kind(), ErrorKind::Shape);
}
