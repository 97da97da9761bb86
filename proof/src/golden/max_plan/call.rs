//! A call of the suite as a call of ours: operands on their meshes, and plain arguments.

use super::signature::{SIGNATURES, Signature, lacking_dtype};
use crate::golden::data::{Wholes, on_one_device, read_one_device};
use crate::golden::json::{Node, Parsed};
use crate::golden::report::Verdict;
use crate::golden::room;
use crate::golden::spelling::{dtype, mesh, places, shape};
use sharding_core::conformance::host::HostArray;
use sharding_core::op::{Fill, OpArgs, OpDef, OperandKind, Registry};
use sharding_core::{
    Device, DeviceMapping, DeviceMesh, Error, ErrorKind, Operand, Place, Policy, Result, Scalar, Tensor,
    TensorBuffer, TensorLayout, auto_reshard, dispatch_dyn, plan::CallPlan, plan_call,
};
use std::sync::Arc;

/// What is passed for a declared operand: tensors by their number.
enum Passed {
    Tensor(usize),
    Number(Scalar),
    Many(Vec<usize>),
}

/// A tensor of a case.
pub(super) struct Given {
    pub(super) layout: TensorLayout,
    /// Whether it lies on a one-device mesh of its own.
    pub(super) single: bool,
    wholes: Wholes,
}

/// A call.
pub(super) struct Call {
    pub(super) def: &'static OpDef,
    pub(super) mesh: DeviceMesh,
    pub(super) given: Vec<Given>,
    args: Box<dyn OpArgs>,
    passed: Vec<Passed>,
}

/// A call, or the reason why there is none of ours.
type Read<T> = Parsed<std::result::Result<T, String>>;

impl Call {
    /// Reads a case; a verdict at once if we have no such op or form.
    pub(super) fn read(case: &Node<'_>) -> Parsed<std::result::Result<Self, Verdict>> {
        let positional = case.field("args")?.list()?;
        // Two tensors make `max` an elementwise op, which is another one.
        let op = match case.field("op")?.text()? {
            "max" if positional.len() > 1 => "elementwise_max",
            op => op,
        };
        let Some(signature) = SIGNATURES.iter().find(|signature| signature.name == op) else {
            return Ok(Err(lacking_op(op)));
        };
        let arguments = match by_parameter(case, signature, positional)? {
            Ok(arguments) => arguments,
            Err(lacking) => return Ok(Err(Verdict::Skipped(lacking))),
        };
        let mesh_node = case.field("mesh")?;
        let mesh = mesh(&mesh_node)?.map_err(|_| mesh_node.expected("a mesh"))?;
        let tensors = case.field("tensors")?.list()?;
        let layouts = match tensors
            .iter()
            .map(|tensor| layout(tensor, &mesh))
            .collect::<Parsed<Vec<_>>>()?
            .into_iter()
            .collect::<std::result::Result<Vec<_>, String>>()
        {
            Ok(layouts) => layouts,
            Err(lacking) => return Ok(Err(Verdict::Skipped(lacking))),
        };
        let shapes: Vec<Vec<usize>> = layouts.iter().map(|(layout, _)| layout.shape().to_vec()).collect();
        if signature.ours == "rms_norm" && shapes.get(1).is_some_and(|weight| weight.len() != 1) {
            return Ok(Err(Verdict::Skipped("a weight of several axes, where our op takes one".to_owned())));
        }
        let mut passed = Vec::new();
        for argument in &arguments[..signature.operands] {
            let Some(argument) = argument else {
                return Ok(Err(Verdict::Skipped("an operand that it needs is missing".to_owned())));
            };
            match operand(argument, layouts.len())? {
                Ok(operand) => passed.push(operand),
                Err(lacking) => return Ok(Err(Verdict::Skipped(lacking))),
            }
        }
        let plain = arguments.get(signature.operands..).unwrap_or(&[]);
        let args = match signature.arguments.read(plain, &shapes)? {
            Ok(args) => args,
            Err(lacking) => return Ok(Err(Verdict::Skipped(lacking))),
        };
        let def = match Registry::get().and_then(|registry| registry.op(signature.ours)) {
            Ok(def) => def,
            Err(error) => {
                return Ok(Err(Verdict::failed(format!("the op {}", signature.ours), error.to_string())));
            }
        };
        let fills = fills(signature, &passed, plain.first().and_then(Option::as_ref), &shapes);
        let given = layouts.into_iter().zip(fills).enumerate().map(|(i, ((layout, single), fill))| {
            let wholes = Wholes::new(&layout, fill, i as u64 + 1)?;
            Ok(Given { layout, single, wholes })
        });
        let given =
            given.collect::<Result<Vec<_>>>().map_err(|_| case.expected("tensors that can be made"))?;
        let call = Self { def, mesh, given, args, passed };
        let inputs = call.given.iter().map(|given| (given.layout.dtype(), given.layout.shape().clone()));
        room::call(case, inputs, |tensors| call.results(tensors).ok())?;
        Ok(Ok(call))
    }

    /// The results of the op with these tensors.
    fn results(&self, tensors: &[Tensor]) -> Result<Vec<Tensor>> {
        self.with_operands(tensors, |operands| {
            Ok(dispatch_dyn(self.def, operands, self.args())?.all().into_vec())
        })
    }

    /// The tensors of flat operands, `None` for numbers.
    pub(super) fn flat(&self) -> Vec<Option<&Given>> {
        let mut flat = Vec::new();
        for passed in &self.passed {
            match passed {
                Passed::Tensor(i) => flat.push(self.given.get(*i)),
                Passed::Number(_) => flat.push(None),
                Passed::Many(many) => flat.extend(many.iter().map(|i| self.given.get(*i))),
            }
        }
        flat
    }

    /// How many flat operands each declared operand stands for.
    pub(super) fn groups(&self) -> Vec<u16> {
        let count = |passed: &Passed| match passed {
            Passed::Many(many) => u16::try_from(many.len()).unwrap_or(u16::MAX),
            Passed::Tensor(_) | Passed::Number(_) => 1,
        };
        self.passed.iter().map(count).collect()
    }

    /// Whether the op writes into an operand.
    pub(super) fn writes(&self) -> bool {
        self.def.operands.iter().any(|operand| operand.kind == OperandKind::Written)
    }

    /// The plain arguments.
    pub(super) fn args(&self) -> &dyn OpArgs {
        self.args.as_ref()
    }

    /// The plan under a policy.
    pub(super) fn plan(&self, policy: Policy) -> Result<Arc<CallPlan>> {
        let tensors = self.place(None)?;
        self.with_operands(&tensors, |operands| {
            auto_reshard(policy, || plan_call(self.def, operands, self.args()))
        })
    }

    /// Runs it on data, with the tensors placed as given, or otherwise; the results.
    pub(super) fn run(&self, policy: Policy, placed: Option<&[Vec<Place>]>) -> Result<Vec<Tensor>> {
        let tensors = self.place(placed)?;
        auto_reshard(policy, || self.results(&tensors))
    }

    /// What is wrong with the results of a run: compared with those on one device, for every coordinate of Unknown.
    pub(super) fn difference(&self, results: &[Tensor]) -> Result<Option<String>> {
        let mut unknown: Vec<usize> = self
            .given
            .iter()
            .filter(|given| !given.single)
            .flat_map(|given| given.wholes.unknown().to_vec())
            .collect();
        unknown.sort_unstable();
        unknown.dedup();
        let mut whole: Vec<Vec<HostArray>> = vec![Vec::new(); results.len()];
        for coordinate in 0..self.mesh.axis_size(&unknown)? {
            let position = (0..self.mesh.num_devices()).find(|position| {
                self.mesh.device_coord(*position, &unknown).is_ok_and(|at| at == coordinate)
            });
            let one = self.one_device(position.unwrap_or(0))?;
            if one.len() != results.len() {
                return Ok(Some(format!("{} results, {} on one device", results.len(), one.len())));
            }
            whole.iter_mut().zip(one).for_each(|(arrays, array)| arrays.push(array));
        }
        for (result, arrays) in results.iter().zip(whole) {
            if let Some(array) = arrays.first().filter(|array| array.shape != *result.shape()) {
                return Ok(Some(format!("the shape {} instead of {}", result.shape(), array.shape)));
            }
            if let Some(difference) = Wholes::of(unknown.clone(), arrays).difference(result)? {
                return Ok(Some(difference));
            }
        }
        Ok(None)
    }

    /// The results on one device, of the values that the device at a position sees.
    fn one_device(&self, position: usize) -> Result<Vec<HostArray>> {
        let tensors = self
            .given
            .iter()
            .map(|given| {
                on_one_device(
                    given.wholes.at(given.layout.mesh(), if given.single { 0 } else { position })?,
                    Device::cpu(),
                )
            })
            .collect::<Result<Vec<_>>>()?;
        self.results(&tensors)?.iter().map(read_one_device).collect()
    }

    fn place(&self, placed: Option<&[Vec<Place>]>) -> Result<Vec<Tensor>> {
        let place = |(i, given): (usize, &Given)| {
            let layout = match placed.and_then(|placed| placed.get(i)).filter(|_| !given.single) {
                Some(places) => given.layout.with_mapping(DeviceMapping::new(&self.mesh, places)?)?,
                None => given.layout.clone(),
            };
            given.wholes.place(&layout, 1000 + i as u64)
        };
        self.given.iter().enumerate().map(place).collect()
    }

    fn with_operands<T>(
        &self,
        tensors: &[Tensor],
        f: impl FnOnce(&mut [Operand<'_>]) -> Result<T>,
    ) -> Result<T> {
        let tensor = |i: usize| {
            tensors.get(i).ok_or_else(|| Error::new(ErrorKind::Internal, format!("no tensor {i}")))
        };
        let many = self.passed.iter().map(|passed| match passed {
            Passed::Many(many) => many.iter().map(|i| tensor(*i).cloned()).collect::<Result<Vec<_>>>(),
            _ => Ok(Vec::new()),
        });
        let many = many.collect::<Result<Vec<_>>>()?;
        let mut buffers = Vec::new();
        for (passed, declared) in self.passed.iter().zip(self.def.operands) {
            if let (Passed::Tensor(i), OperandKind::Written) = (passed, declared.kind) {
                buffers.push(TensorBuffer::new(tensor(*i)?.clone()));
            }
        }
        let mut buffers = buffers.iter_mut();
        let mut operands = Vec::new();
        for ((passed, declared), many) in self.passed.iter().zip(self.def.operands).zip(&many) {
            operands.push(match passed {
                Passed::Many(_) => Operand::Many(many),
                Passed::Number(value) => Operand::Scalar(*value),
                Passed::Tensor(i) => match (declared.kind, tensor(*i)?) {
                    (OperandKind::Written, _) => match buffers.next() {
                        Some(buffer) => Operand::Written(buffer),
                        None => return Err(Error::new(ErrorKind::Internal, "no buffer")),
                    },
                    (OperandKind::Optional, tensor) => Operand::Optional(Some(tensor)),
                    (_, tensor) => Operand::Tensor(tensor),
                },
            });
        }
        f(&mut operands)
    }
}

fn lacking_op(name: &str) -> Verdict {
    Verdict::Skipped(format!("ops that we do not have yet: {name}"))
}

/// The arguments in the order of the parameters.
fn by_parameter<'a>(
    case: &Node<'a>,
    signature: &Signature,
    positional: Vec<Node<'a>>,
) -> Read<Vec<Option<Node<'a>>>> {
    if positional.len() > signature.parameters.len() {
        return Ok(Err("arguments that our op does not have".to_owned()));
    }
    let mut arguments: Vec<Option<Node<'a>>> = positional.into_iter().map(Some).collect();
    arguments.resize(signature.parameters.len(), None);
    let Some(named) = case.optional("kwargs") else { return Ok(Ok(arguments)) };
    for name in named.value().as_object().into_iter().flat_map(|fields| fields.keys()) {
        let at = signature.parameters.iter().position(|parameter| parameter == name);
        match at.and_then(|at| arguments.get_mut(at)) {
            Some(slot) => *slot = Some(named.field(name)?),
            None => return Ok(Err("arguments that our op does not have".to_owned())),
        }
    }
    Ok(Ok(arguments))
}

/// A tensor's layout, and whether it is on a mesh of one device.
pub(super) fn layout(node: &Node<'_>, mesh: &DeviceMesh) -> Read<(TensorLayout, bool)> {
    let name = node.field("dtype")?;
    let Some(dtype) = dtype(&name)? else { return Ok(Err(lacking_dtype(&name))) };
    let shape_node = node.field("shape")?;
    let shape = match shape(&shape_node)? {
        Ok(shape) => shape,
        Err(_) => return Ok(Err("shapes that we have no form for".to_owned())),
    };
    room::elements(&shape_node, &shape)?;
    let single = match node.optional("device") {
        None => false,
        Some(device) if device.text()? == "single" => true,
        Some(device) => return Err(device.expected("\"single\"")),
    };
    let own = match (single, node.optional("axis_names")) {
        (true, _) => DeviceMesh::single(Device::cpu()),
        (false, None) => mesh.clone(),
        (false, Some(names)) => {
            let devices: Vec<Device> = mesh.devices().collect();
            DeviceMesh::new(&devices, mesh.shape(), names.list_of(Node::text)?)
                .map_err(|_| names.expected("axis names"))?
        }
    };
    let places_node = node.field("placements")?;
    let mapping = places(&places_node)?.and_then(|places| DeviceMapping::new(&own, places));
    let layout = mapping.and_then(|mapping| TensorLayout::new(dtype, shape, mapping));
    layout
        .map(|layout| Ok((layout, single)))
        .map_err(|_| places_node.expected("placements that fit mesh and shape"))
}

/// An operand: `{t: i}`, a number, or a list of tensors.
fn operand(node: &Node<'_>, tensors: usize) -> Read<Passed> {
    let number = |node: &Node<'_>| -> Parsed<usize> {
        let at = node.field("t")?;
        Ok(at.size()?)
            .and_then(|i| if i < tensors { Ok(i) } else { Err(at.expected("the number of a tensor")) })
    };
    let value = node.value();
    Ok(Ok(if value.is_array() {
        Passed::Many(node.list_of(number)?)
    } else if let Some(truth) = value.as_bool() {
        Passed::Number(Scalar::Bool(truth))
    } else if let Some(integer) = value.as_i64() {
        Passed::Number(Scalar::Int(integer))
    } else if let Some(float) = value.as_f64() {
        Passed::Number(Scalar::Float(float))
    } else if node.has("t") {
        Passed::Tensor(number(node)?)
    } else {
        return Ok(Err("operands that we have no form for".to_owned()));
    }))
}

/// What the elements of each tensor are: indices stay in range, nothing is divided by 0.
fn fills(
    signature: &Signature,
    passed: &[Passed],
    plain: Option<&Node<'_>>,
    shapes: &[Vec<usize>],
) -> Vec<Fill> {
    let mut fills = vec![Fill::Signed; shapes.len()];
    let mut set = |operand: Option<&Passed>, fill: Fill| {
        if let Some(Passed::Tensor(i)) = operand
            && let Some(slot) = fills.get_mut(*i)
        {
            *slot = fill;
        }
    };
    match (signature.ours, passed) {
        ("div", [_, divisor]) => set(Some(divisor), Fill::Positive),
        ("gather", [Passed::Tensor(table), indices]) => {
            let shape = shapes.get(*table).map_or(&[][..], Vec::as_slice);
            let axis = plain.and_then(|axis| axis.value().as_i64()).unwrap_or(-1);
            let axis = if axis < 0 { axis + shape.len() as i64 } else { axis };
            let extent = usize::try_from(axis).ok().and_then(|axis| shape.get(axis));
            set(Some(indices), Fill::Below(extent.copied().unwrap_or(1)));
        }
        _ => {}
    }
    fills
}
