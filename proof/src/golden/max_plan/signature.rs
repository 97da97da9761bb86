//! The ops of the suite that we have: how their arguments map to ours.

use crate::golden::json::{Node, Parsed};
use crate::golden::spelling::dtype;
use sharding_core::op::OpArgs;
use sharding_core::{DType, Scalar};
use sharding_ops as ops;
use sharding_ops::{Index, SplitSizes};

/// An op's name there.
pub(super) struct Signature {
    pub(super) name: &'static str,
    /// The op's name in our registry.
    pub(super) ours: &'static str,
    /// Its parameters there, tensors first and in our order.
    pub(super) parameters: &'static [&'static str],
    /// How many of the parameters are operands.
    pub(super) operands: usize,
    pub(super) arguments: Arguments,
}

/// Two numbers for each axis.
type Pairs = Vec<(usize, usize)>;

/// The plain arguments.
#[derive(Clone, Copy)]
pub(super) enum Arguments {
    None(fn() -> Box<dyn OpArgs>),
    /// A tensor axis, the last one where it is not given.
    Axis(fn(isize) -> Box<dyn OpArgs>),
    /// Two tensor axes; these where they are not given.
    TwoAxes(Option<[isize; 2]>, fn(isize, isize) -> Box<dyn OpArgs>),
    /// The sizes of pieces, or one for all, and a tensor axis.
    Pieces(fn(SplitSizes, isize) -> Box<dyn OpArgs>),
    /// A number of pieces, and a tensor axis.
    Count(fn(usize, isize) -> Box<dyn OpArgs>),
    /// A number of repeats, and the tensor axis whose elements they are of; ours does not flatten.
    Repeats(fn(usize, isize) -> Box<dyn OpArgs>),
    /// Numbers of elements before and behind each axis, one list of all; a mode, and a value.
    Pads(fn(Pairs, Scalar) -> Box<dyn OpArgs>),
    /// A list of extents.
    Extents(fn(Vec<isize>) -> Box<dyn OpArgs>),
    /// A list of extents, none of them negative.
    Shape(fn(Vec<usize>) -> Box<dyn OpArgs>),
    /// What is taken of each axis.
    Indices(fn(Vec<Index>) -> Box<dyn OpArgs>),
    /// A number.
    Number(fn(f64) -> Box<dyn OpArgs>),
    /// A dtype.
    DType(fn(DType) -> Box<dyn OpArgs>),
}

const fn binary(name: &'static str, arguments: fn() -> Box<dyn OpArgs>) -> Signature {
    renamed(name, name, arguments)
}
const fn renamed(name: &'static str, ours: &'static str, arguments: fn() -> Box<dyn OpArgs>) -> Signature {
    Signature { name, ours, parameters: &["lhs", "rhs"], operands: 2, arguments: Arguments::None(arguments) }
}
const fn unary(name: &'static str, arguments: fn() -> Box<dyn OpArgs>) -> Signature {
    Signature { name, ours: name, parameters: &["x"], operands: 1, arguments: Arguments::None(arguments) }
}
const fn reduction(name: &'static str, arguments: fn(isize) -> Box<dyn OpArgs>) -> Signature {
    Signature {
        name,
        ours: name,
        parameters: &["x", "axis"],
        operands: 1,
        arguments: Arguments::Axis(arguments),
    }
}

/// Reductions keep the axis with extent 1.
pub(super) const SIGNATURES: &[Signature] = &[
    unary("relu", || Box::new(ops::relu {})),
    unary("gelu", || Box::new(ops::gelu {})),
    unary("abs", || Box::new(ops::abs {})),
    unary("exp", || Box::new(ops::exp {})),
    unary("log", || Box::new(ops::log {})),
    unary("sqrt", || Box::new(ops::sqrt {})),
    unary("rsqrt", || Box::new(ops::rsqrt {})),
    unary("tanh", || Box::new(ops::tanh {})),
    unary("erf", || Box::new(ops::erf {})),
    unary("sigmoid", || Box::new(ops::sigmoid {})),
    unary("logical_not", || Box::new(ops::logical_not {})),
    Signature {
        name: "negate",
        ours: "neg",
        parameters: &["x"],
        operands: 1,
        arguments: Arguments::None(|| Box::new(ops::neg {})),
    },
    Signature {
        name: "cast",
        ours: "cast",
        parameters: &["x", "dtype"],
        operands: 1,
        arguments: Arguments::DType(|dtype| Box::new(ops::cast { dtype })),
    },
    binary("logical_and", || Box::new(ops::logical_and {})),
    binary("logical_or", || Box::new(ops::logical_or {})),
    binary("logical_xor", || Box::new(ops::logical_xor {})),
    renamed("equal", "eq", || Box::new(ops::eq {})),
    renamed("not_equal", "ne", || Box::new(ops::ne {})),
    renamed("greater", "gt", || Box::new(ops::gt {})),
    renamed("greater_equal", "ge", || Box::new(ops::ge {})),
    renamed("elementwise_max", "maximum", || Box::new(ops::maximum {})),
    renamed("elementwise_min", "minimum", || Box::new(ops::minimum {})),
    binary("pow", || Box::new(ops::pow {})),
    binary("add", || Box::new(ops::add {})),
    binary("sub", || Box::new(ops::sub {})),
    binary("mul", || Box::new(ops::mul {})),
    binary("div", || Box::new(ops::div {})),
    binary("matmul", || Box::new(ops::matmul {})),
    Signature {
        name: "where",
        ours: "where",
        parameters: &["condition", "x", "y"],
        operands: 3,
        arguments: Arguments::None(|| Box::new(ops::where_ {})),
    },
    reduction("sum", |axis| Box::new(ops::sum { axis, keepdims: true })),
    reduction("max", |axis| Box::new(ops::max { axis, keepdims: true })),
    reduction("min", |axis| Box::new(ops::min { axis, keepdims: true })),
    reduction("prod", |axis| Box::new(ops::prod { axis, keepdims: true })),
    reduction("mean", |axis| Box::new(ops::mean { axis, keepdims: true })),
    Signature {
        name: "softmax",
        ours: "softmax",
        parameters: &["value", "axis"],
        operands: 1,
        arguments: Arguments::Axis(|axis| Box::new(ops::softmax { axis })),
    },
    Signature {
        name: "layer_norm",
        ours: "layer_norm",
        parameters: &["input", "gamma", "beta", "epsilon"],
        operands: 3,
        arguments: Arguments::Number(|eps| Box::new(ops::layer_norm { eps })),
    },
    Signature {
        name: "rms_norm",
        ours: "rms_norm",
        parameters: &["input", "weight", "epsilon"],
        operands: 2,
        arguments: Arguments::Number(|eps| Box::new(ops::rms_norm { eps })),
    },
    Signature {
        name: "reshape",
        ours: "reshape",
        parameters: &["x", "shape"],
        operands: 1,
        arguments: Arguments::Extents(|dims| Box::new(ops::reshape { dims: dims.into() })),
    },
    Signature {
        name: "permute",
        ours: "permute",
        parameters: &["x", "dims"],
        operands: 1,
        arguments: Arguments::Extents(|axes| Box::new(ops::permute { axes: axes.into() })),
    },
    Signature {
        name: "transpose",
        ours: "transpose",
        parameters: &["x", "axis_1", "axis_2"],
        operands: 1,
        arguments: Arguments::TwoAxes(None, |a, b| Box::new(ops::transpose { a, b })),
    },
    Signature {
        name: "flatten",
        ours: "flatten",
        parameters: &["x", "start_dim", "end_dim"],
        operands: 1,
        arguments: Arguments::TwoAxes(Some([0, -1]), |start, end| Box::new(ops::flatten { start, end })),
    },
    reduction("squeeze", |axis| Box::new(ops::squeeze { axis })),
    reduction("unsqueeze", |axis| Box::new(ops::unsqueeze { axis })),
    Signature {
        name: "broadcast_to",
        ours: "broadcast_to",
        parameters: &["x", "shape"],
        operands: 1,
        arguments: Arguments::Shape(|dims| Box::new(ops::broadcast_to { dims: dims.into() })),
    },
    Signature {
        name: "split",
        ours: "split",
        parameters: &["x", "split_size_or_sections", "axis"],
        operands: 1,
        arguments: Arguments::Pieces(|sizes, axis| Box::new(ops::split { sizes, axis })),
    },
    Signature {
        name: "chunk",
        ours: "chunk",
        parameters: &["x", "chunks", "axis"],
        operands: 1,
        arguments: Arguments::Count(|chunks, axis| Box::new(ops::chunk { chunks, axis })),
    },
    Signature {
        name: "stack",
        ours: "stack",
        parameters: &["values", "axis"],
        operands: 1,
        arguments: Arguments::Axis(|axis| Box::new(ops::stack { axis })),
    },
    Signature {
        name: "concat",
        ours: "concat",
        parameters: &["original_vals", "axis"],
        operands: 1,
        arguments: Arguments::Axis(|axis| Box::new(ops::concat { axis })),
    },
    Signature {
        name: "slice_tensor",
        ours: "slice",
        parameters: &["x", "indices"],
        operands: 1,
        arguments: Arguments::Indices(|indices| Box::new(ops::slice { indices: indices.into() })),
    },
    Signature {
        name: "pad",
        ours: "pad",
        parameters: &["input", "paddings", "mode", "value"],
        operands: 1,
        arguments: Arguments::Pads(|pads, value| Box::new(ops::pad { pads: pads.into(), value })),
    },
    Signature {
        name: "tile",
        ours: "tile",
        parameters: &["x", "repeats"],
        operands: 1,
        arguments: Arguments::Shape(|repeats| Box::new(ops::tile { repeats: repeats.into() })),
    },
    Signature {
        name: "repeat_interleave",
        ours: "repeat",
        parameters: &["x", "repeats", "axis", "out_dim"],
        operands: 1,
        arguments: Arguments::Repeats(|times, axis| Box::new(ops::repeat { times, axis })),
    },
    Signature {
        name: "gather",
        ours: "gather",
        parameters: &["input", "indices", "axis"],
        operands: 2,
        arguments: Arguments::Axis(|axis| Box::new(ops::gather { axis })),
    },
    Signature {
        name: "buffer_store",
        ours: "buffer_store",
        parameters: &["destination", "source"],
        operands: 2,
        arguments: Arguments::None(|| Box::new(ops::buffer_store {})),
    },
    Signature {
        name: "buffer_store_slice",
        ours: "buffer_store_slice",
        parameters: &["destination", "source", "indices"],
        operands: 2,
        arguments: Arguments::Indices(|indices| {
            Box::new(ops::buffer_store_slice { indices: indices.into() })
        }),
    },
];

/// What reading an argument gives: a value of ours, or what we have no form for.
type Read<T> = Parsed<Result<T, String>>;

impl Arguments {
    /// Our arguments from those that are given, in the order of the parameters.
    pub(super) fn read(self, given: &[Option<Node<'_>>], shapes: &[Vec<usize>]) -> Read<Box<dyn OpArgs>> {
        let nth = |i: usize| given.get(i).and_then(Option::as_ref);
        let axis_or = |i: usize, absent: isize| nth(i).map_or(Ok(Ok(absent)), integer);
        Ok(match (self, nth(0)) {
            (Arguments::None(make), _) => Ok(make()),
            (Arguments::Axis(make), _) => axis_or(0, -1)?.map(make),
            (Arguments::TwoAxes(absent, make), _) => match (absent, nth(0), nth(1)) {
                (None, None, _) | (None, _, None) => missing(),
                _ => {
                    let [a, b] = absent.unwrap_or_default();
                    let (a, b) = (axis_or(0, a)?, axis_or(1, b)?);
                    a.and_then(|a| Ok(make(a, b?)))
                }
            },
            (Arguments::Extents(make), Some(list)) => extents(list, shapes)?.map(make),
            (Arguments::Shape(make), Some(list)) => {
                extents(list, shapes)?.and_then(|list| not_negative(&list)).map(make)
            }
            (Arguments::Pieces(make), Some(sizes)) => {
                let sizes = match sizes.value().is_array() {
                    true => {
                        extents(sizes, shapes)?.and_then(|list| not_negative(&list)).map(SplitSizes::from)
                    }
                    false => size(sizes, shapes)?.map(SplitSizes::from),
                };
                let axis = axis_or(1, -1)?;
                sizes.and_then(|sizes| Ok(make(sizes, axis?)))
            }
            (Arguments::Count(make), Some(count)) => {
                let (count, axis) = (size(count, shapes)?, axis_or(1, -1)?);
                count.and_then(|count| Ok(make(count, axis?)))
            }
            (Arguments::Repeats(make), Some(count)) => {
                let Some(axis) = nth(1) else {
                    return Ok(Err("we have no form for repeats of the flattened tensor".to_owned()));
                };
                let (count, axis) = (size(count, shapes)?, integer(axis)?);
                count.and_then(|count| Ok(make(count, axis?)))
            }
            (Arguments::Pads(make), Some(list)) => {
                if nth(1).is_some_and(|mode| mode.value() != "constant") {
                    return Ok(Err("we pad with a constant only".to_owned()));
                }
                let value = nth(2).map_or(Ok(0.0), Node::number)?;
                let pairs =
                    |flat: Vec<usize>| flat.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect::<Pairs>();
                let flat = extents(list, shapes)?.and_then(|list| not_negative(&list));
                flat.map(|flat| make(pairs(flat), Scalar::Float(value)))
            }
            (Arguments::Indices(make), Some(indices)) => self::indices(indices)?.map(make),
            (Arguments::Number(make), Some(number)) => Ok(make(number.number()?)),
            (Arguments::DType(make), Some(name)) => {
                let name = name.field("dtype")?;
                dtype(&name)?.map(make).ok_or_else(|| lacking_dtype(&name))
            }
            (
                Arguments::Extents(_)
                | Arguments::Shape(_)
                | Arguments::Pieces(_)
                | Arguments::Count(_)
                | Arguments::Repeats(_)
                | Arguments::Pads(_)
                | Arguments::Indices(_)
                | Arguments::Number(_)
                | Arguments::DType(_),
                None,
            ) => missing(),
        })
    }
}

/// The reason to skip a case with a dtype that we do not have.
pub(super) fn lacking_dtype(name: &Node<'_>) -> String {
    format!("dtypes that we do not have yet: {}", name.value().as_str().unwrap_or_default())
}

fn missing<T>() -> Result<T, String> {
    Err("an argument that it needs is missing".to_owned())
}

fn not_negative(list: &[isize]) -> Result<Vec<usize>, String> {
    let sizes: Option<Vec<usize>> = list.iter().map(|extent| usize::try_from(*extent).ok()).collect();
    sizes.ok_or_else(|| "we have no form for a negative extent".to_owned())
}

fn size(node: &Node<'_>, shapes: &[Vec<usize>]) -> Read<usize> {
    Ok(extent(node, shapes)?.and_then(|size| {
        usize::try_from(size).map_err(|_| "we have no form for a negative extent".to_owned())
    }))
}

fn integer(node: &Node<'_>) -> Read<isize> {
    if node.is_null() {
        return Ok(Err("we have no form for the argument null".to_owned()));
    }
    isize::try_from(node.integer()?).map(Ok).map_err(|_| node.expected("an axis"))
}

/// Extents: integers, or `{dim_of: [tensor, axis]}` and `{dim_mul: [..]}`.
pub(super) fn extents(node: &Node<'_>, shapes: &[Vec<usize>]) -> Read<Vec<isize>> {
    Ok(node.list_of(|extent| self::extent(extent, shapes))?.into_iter().collect())
}

fn extent(node: &Node<'_>, shapes: &[Vec<usize>]) -> Read<isize> {
    if let Some(of) = node.optional("dim_of") {
        let [tensor, axis] = of.list_of(Node::size)?[..] else {
            return Err(of.expected("a tensor and an axis"));
        };
        let extent = shapes.get(tensor).and_then(|shape| shape.get(axis));
        return match extent {
            Some(extent) => Ok(Ok(*extent as isize)),
            None => Err(of.expected("a tensor and an axis that are there")),
        };
    }
    if let Some(factors) = node.optional("dim_mul") {
        let factors: Result<Vec<isize>, String> = extents(&factors, shapes)?;
        return Ok(
            factors.map(|factors| factors.iter().fold(1_isize, |product, n| product.saturating_mul(*n)))
        );
    }
    if node.value().is_object() || node.value().is_string() {
        return Ok(Err("we have no form for such an extent".to_owned()));
    }
    integer(node)
}

/// Indices: `{tuple: [..]}` or a list of integers, `{slice: [start, stop, step]}` and `{ellipsis}`; or one of them.
fn indices(node: &Node<'_>) -> Read<Vec<Index>> {
    let items = match node.optional("tuple") {
        Some(items) => items.list()?,
        None if node.value().is_array() => node.list()?,
        None => vec![node.clone()],
    };
    Ok(items.iter().map(index).collect::<Parsed<Vec<_>>>()?.into_iter().collect())
}

fn index(node: &Node<'_>) -> Read<Index> {
    if node.has("ellipsis") {
        return Ok(Ok(Index::Ellipsis));
    }
    let Some(slice) = node.optional("slice") else {
        return Ok(match node.value().as_i64() {
            Some(_) => integer(node)?.map(Index::At),
            None => Err("we have no form for such an index".to_owned()),
        });
    };
    let bounds =
        slice.list_of(|bound| if bound.is_null() { Ok(Ok(None)) } else { Ok(integer(bound)?.map(Some)) })?;
    let bounds: Result<Vec<Option<isize>>, String> = bounds.into_iter().collect();
    Ok(match bounds.as_deref() {
        Ok([start, stop, step]) => Ok(Index::Range { start: *start, stop: *stop, step: step.unwrap_or(1) }),
        Ok(_) => return Err(slice.expected("start, stop and step")),
        Err(error) => Err(error.clone()),
    })
}
