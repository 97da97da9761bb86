//! The ops of the suite that we have, run on our tensors.

use super::text::{Method, Text};
use super::value::Given;
use crate::golden::indices::indices;
use crate::golden::json::{Node, Parsed};
use crate::golden::room;
use crate::golden::spelling::array_dtype;
use sharding_core::conformance::host::HostArray;
use sharding_core::{DeviceMapping, Error, ErrorKind, Operand, Place, Result, Tensor, TensorBuffer};
use sharding_ops::{self as ops, Index, SplitSizes, TensorOps};

/// What layer normalisation adds to the variance where the text does not say.
const EPSILON: f64 = 1e-5;

/// Why a call is not made.
enum No {
    /// We have no such op, or read no such form.
    Lacking(String),
    Failed(Error),
}

impl From<Error> for No {
    fn from(error: Error) -> Self {
        No::Failed(error)
    }
}

type Made<T> = std::result::Result<T, No>;

/// The results of a call: they, or an error of ours, or the reason why there is no such call of ours.
pub(super) fn run(
    node: &Node<'_>,
    given: &[Given],
    want: &[HostArray],
) -> Parsed<std::result::Result<Result<Vec<Tensor>>, String>> {
    let words = node.text()?;
    let part = words.strip_prefix("in-place x[").and_then(|rest| rest.split_once(']'));
    let part = part.map(|(part, how)| Ok((indices(part, node)?, how.trim()))).transpose()?;
    let made = |inputs: Vec<Tensor>| match &part {
        Some((part, how)) => store_part(&inputs, part, how).map(|x| vec![x]),
        None => call(&Text::read(words), inputs, given, want),
    };
    let metas = given.iter().map(|given| (given.whole.dtype, given.whole.shape.clone()));
    room::call(node, metas, |inputs| made(inputs.to_vec()).ok())?;
    Ok(match place(given).and_then(made) {
        Ok(results) => Ok(Ok(results)),
        Err(No::Failed(error)) => Ok(Err(error)),
        Err(No::Lacking(reason)) => Err(reason),
    })
}

fn place(given: &[Given]) -> Made<Vec<Tensor>> {
    Ok(given.iter().map(Given::place).collect::<Result<Vec<_>>>()?)
}

fn lacking<T>(name: &str) -> Made<T> {
    Err(No::Lacking(format!("ops that we do not have: {name}")))
}

/// `?` on what a text does not say.
fn said<T>(value: Option<T>, name: &str) -> Made<T> {
    value.ok_or_else(|| No::Lacking(format!("a form that we do not read: {name}")))
}

fn call(text: &Text<'_>, mut inputs: Vec<Tensor>, given: &[Given], want: &[HostArray]) -> Made<Vec<Tensor>> {
    // There a strided shard is what is left of flattening a tensor that is split on another axis than the first.
    if text.words.contains(&"strided")
        && let Some(first) = inputs.first_mut()
    {
        *first = ops::flatten(first, 0, -1)?;
    }
    let Some((method, more)) = text.methods.split_first() else { return lacking("") };
    if let ("pad", ["last", "dim"], [x], [want]) = (method.name, &text.words[..], &inputs[..], want) {
        // The text leaves out by how much, and on which side: the first row of the result says it.
        let mut pads = vec![(0, 0); x.shape().len()];
        let first = given.first().and_then(|given| given.whole.values.first());
        if let (Some(last), Some(own), Some(more)) = (pads.last_mut(), x.shape().last(), want.shape.last()) {
            let added = more.saturating_sub(*own);
            let at = want.values.iter().take(*more).position(|value| Some(value) == first);
            let before = at.unwrap_or(0).min(added);
            *last = (before, added - before);
        }
        return Ok(vec![x.pad(&pads, 0_i64)?]);
    }
    let results = match method.name.strip_suffix('_') {
        Some(name) => vec![in_place(name, method, text, &inputs, given, want)?],
        None => apply(method.name, method, text, &inputs)?,
    };
    more.iter().try_fold(results, |results, method| apply(method.name, method, text, &results))
}

/// `x.op_(..)`: the result is stored in `x`, placed as `x` is.
fn in_place(
    name: &str,
    method: &Method<'_>,
    text: &Text<'_>,
    inputs: &[Tensor],
    given: &[Given],
    want: &[HostArray],
) -> Made<Tensor> {
    let Some(x) = inputs.first() else { return lacking(name) };
    let made = match (name, inputs) {
        ("zero", _) => ops::zeros_like(x)?,
        ("fill", _) => ops::full_like(x, said(method.number().or_else(|| text.number()), name)?)?,
        // The text may leave out which number; then the first elements say it, and the others are compared.
        ("add", [_]) if text.number().is_none() && method.number().is_none() => {
            let firsts = (want.first().and_then(|want| want.values.first()), given.first());
            let (Some(sum), Some(given)) = firsts else { return lacking(name) };
            let own = given.whole.values.first().map_or(0.0, |value| value.as_f64());
            ops::add(x, sum.as_f64() - own)?
        }
        _ => match &apply(name, method, text, inputs)?[..] {
            [one] => one.clone(),
            _ => return lacking(name),
        },
    };
    let made = made.transfer_to(x.mapping())?;
    let mut buffer = TensorBuffer::new(x.clone());
    ops::buffer_store(&mut buffer, &made)?;
    Ok(buffer.to_tensor())
}

/// `x[part] = 7`, `x[part].add_(100)`, `x[part].zero_()`.
fn store_part(inputs: &[Tensor], part: &[Index], how: &str) -> Made<Tensor> {
    let [x] = inputs else { return lacking("a store into several tensors") };
    let old = ops::slice(x, part)?;
    let new = if let Some(value) = how.strip_prefix('=') {
        let value = value.trim().parse::<f64>().ok();
        ops::full_like(&old, said(value, how)?)?
    } else {
        let text = Text::read(how.trim_start_matches('.'));
        let [method] = &text.methods[..] else { return said(None, how) };
        let number = method.number();
        match method.name {
            "zero_" => ops::zeros_like(&old)?,
            "fill_" => ops::full_like(&old, said(number, how)?)?,
            "add_" => ops::add(&old, Operand::Scalar(said(number, how)?))?,
            "sub_" => ops::sub(&old, Operand::Scalar(said(number, how)?))?,
            "mul_" => ops::mul(&old, Operand::Scalar(said(number, how)?))?,
            name => return lacking(name),
        }
    };
    // A store moves nothing: where the buffer is split the source is whole, where it is in parts the source is too.
    let places = x.layout().places().iter();
    let places: Vec<Place> =
        places.map(|place| if place.tensor_axis().is_some() { Place::Replicated } else { *place }).collect();
    let new = new.transfer_to(&DeviceMapping::new(x.mesh(), places)?)?;
    let mut buffer = TensorBuffer::new(x.clone());
    ops::buffer_store_slice(&mut buffer, &new, part)?;
    Ok(buffer.to_tensor())
}

/// A function of tensors.
fn apply(name: &str, method: &Method<'_>, text: &Text<'_>, inputs: &[Tensor]) -> Made<Vec<Tensor>> {
    let [x, others @ ..] = inputs else { return lacking(name) };
    let dims = || method.integers();
    let axis = || method.axis(0).or_else(|| text.dim());
    let one = match (name, others) {
        ("mm" | "bmm" | "matmul", [y]) => ops::matmul(x, y)?,
        ("addmm", [y, z]) => ops::add(x, &ops::matmul(y, z)?)?,
        ("add" | "sub" | "mul" | "div" | "maximum" | "minimum" | "pow", [y]) => binary(name, x, y)?,
        ("where", [y, z]) => ops::where_(x, y, z)?,
        ("add" | "sub" | "mul" | "div" | "maximum" | "minimum" | "pow", [])
        | ("add_scalar" | "sub_scalar" | "mul_scalar" | "div_scalar" | "pow_scalar", []) => {
            let number = said(method.number().or_else(|| text.number()), name)?;
            binary(name.trim_end_matches("_scalar"), x, Operand::Scalar(number))?
        }
        ("to", []) => {
            let dtype = text.words.first().or(method.arguments.first());
            let value = dtype.map(|dtype| serde_json::Value::from(*dtype)).unwrap_or_default();
            let dtype = array_dtype(&Node::root(&value, "")).ok().and_then(|dtype| dtype.ok());
            ops::cast(x, said(dtype, name)?)?
        }
        ("sum" | "mean" | "max" | "min" | "prod" | "amax" | "amin", []) => {
            // Over one axis PyTorch gives values and indices.
            if matches!(name, "max" | "min") && !method.arguments.is_empty() {
                return lacking(&format!("{name} with indices"));
            }
            reduced(name, method, x)?
        }
        ("t", []) => ops::transpose(x, 0, 1)?,
        ("transpose", []) => {
            let [a, b] = dims()[..] else { return said(None, name) };
            ops::transpose(x, a, b)?
        }
        ("permute", []) => ops::permute(x, &dims())?,
        ("view" | "reshape", []) => ops::reshape(x, &dims())?,
        ("flatten", []) => match dims()[..] {
            [] => ops::flatten(x, 0, -1)?,
            [start] => ops::flatten(x, start, -1)?,
            [start, end, ..] => ops::flatten(x, start, end)?,
        },
        ("squeeze", []) => match axis() {
            Some(axis) => ops::squeeze(x, axis)?,
            None => {
                let ones = (0..x.shape().len()).rev().filter(|axis| x.shape().extent(*axis) == 1);
                ones.clone().try_fold(x.clone(), |x, axis| ops::squeeze(&x, axis as isize))?
            }
        },
        ("unsqueeze", []) => ops::unsqueeze(x, said(axis(), name)?)?,
        ("expand", []) => {
            // -1 is the extent that is there.
            let new = dims().len().saturating_sub(x.shape().len());
            let extent = |(axis, n): (usize, &isize)| match *n {
                -1 => axis.checked_sub(new).map(|axis| x.shape().extent(axis)),
                n => usize::try_from(n).ok(),
            };
            let extents: Option<Vec<usize>> = dims().iter().enumerate().map(extent).collect();
            ops::broadcast_to(x, &said(extents, name)?)?
        }
        ("slice", []) => ops::slice(x, &said(rows_and_columns(text), name)?)?,
        ("cat", _) => ops::concat(inputs, text.dim().or_else(|| method.axis(0)).unwrap_or(0))?,
        ("stack", _) => ops::stack(inputs, text.dim().or_else(|| method.axis(0)).unwrap_or(0))?,
        ("split", []) => {
            let each = || method.integers().first().and_then(|n| usize::try_from(*n).ok());
            let sizes = match method.list() {
                Some(sizes) => SplitSizes::from(sizes),
                None => SplitSizes::from(said(each(), name)?),
            };
            return Ok(ops::split(x, sizes, method.axis(1).or_else(|| text.dim()).unwrap_or(0))?);
        }
        ("chunk", []) => {
            let count = method.integers().first().and_then(|n| usize::try_from(*n).ok());
            let axis = method.axis(1).or_else(|| text.dim()).unwrap_or(0);
            return Ok(ops::chunk(x, said(count, name)?, axis)?);
        }
        ("unbind", []) => {
            let axis = axis().unwrap_or(0);
            let pieces = ops::split(x, SplitSizes::Each(1), axis)?;
            return Ok(pieces.iter().map(|piece| ops::squeeze(piece, axis)).collect::<Result<_>>()?);
        }
        ("flip", []) => ops::flip(x, &dims())?,
        ("roll", []) => {
            let [shift, axis] = dims()[..] else { return said(None, name) };
            ops::roll(x, shift, axis)?
        }
        ("repeat" | "tile", []) => {
            let repeats: Option<Vec<usize>> = dims().iter().map(|n| usize::try_from(*n).ok()).collect();
            ops::tile(x, &said(repeats, name)?)?
        }
        ("repeat_interleave", []) => {
            let [times, axis] = dims()[..] else { return said(None, name) };
            ops::repeat(x, said(usize::try_from(times).ok(), name)?, axis)?
        }
        ("softmax", []) => ops::softmax(x, axis().unwrap_or(-1))?,
        ("layer_norm", [scale, shift]) => ops::layer_norm(x, scale, shift, EPSILON)?,
        ("embedding", [indices]) => ops::embedding(x, indices)?,
        ("index_select", [indices]) => ops::gather(x, indices, said(axis(), name)?)?,
        (_, []) => match unary(name, x)? {
            Some(y) => y,
            None => return lacking(name),
        },
        _ => return lacking(name),
    };
    Ok(vec![one])
}

fn binary<'a>(name: &str, x: &'a Tensor, y: impl Into<Operand<'a>>) -> Result<Tensor> {
    match name {
        "add" => ops::add(x, y),
        "sub" => ops::sub(x, y),
        "mul" => ops::mul(x, y),
        "div" => ops::div(x, y),
        "maximum" => ops::maximum(x, y),
        "minimum" => ops::minimum(x, y),
        "pow" => ops::pow(x, y),
        _ => Err(Error::new(ErrorKind::Internal, format!("{name} is no op of two tensors"))),
    }
}

fn unary(name: &str, x: &Tensor) -> Result<Option<Tensor>> {
    Ok(Some(match name {
        "neg" => x.neg()?,
        "relu" => x.relu()?,
        "exp" => x.exp()?,
        "log" => x.log()?,
        "abs" => x.abs()?,
        "sqrt" => x.sqrt()?,
        "rsqrt" => x.rsqrt()?,
        "tanh" => x.tanh()?,
        "erf" => x.erf()?,
        "sigmoid" => x.sigmoid()?,
        "gelu" => x.gelu()?,
        "silu" => x.silu()?,
        _ => return Ok(None),
    }))
}

/// Over the axes that are given, or all of them.
fn reduced(name: &str, method: &Method<'_>, x: &Tensor) -> Result<Tensor> {
    let keep = method.says("keepdim");
    let count = x.shape().len();
    let mut axes: Vec<usize> =
        method.integers().iter().map(|axis| x.shape().axis(*axis)).collect::<Result<_>>()?;
    if axes.is_empty() {
        axes = (0..count).collect();
    }
    axes.sort_unstable();
    axes.iter().rev().try_fold(x.clone(), |x, axis| {
        let axis = *axis as isize;
        match name {
            "sum" => ops::sum(&x, axis, keep),
            "mean" => ops::mean(&x, axis, keep),
            "max" | "amax" => ops::max(&x, axis, keep),
            "min" | "amin" => ops::min(&x, axis, keep),
            "prod" => ops::prod(&x, axis, keep),
            _ => Err(Error::new(ErrorKind::Internal, format!("{name} is no reduction"))),
        }
    })
}

/// `rows 1:4`, `cols ::2`, or both.
fn rows_and_columns(text: &Text<'_>) -> Option<Vec<Index>> {
    let value = serde_json::Value::Null;
    let node = Node::root(&value, "");
    let range = |word| match text.after(word) {
        Some(range) => indices(range, &node).ok()?.first().copied(),
        None => Some(Index::ALL),
    };
    (text.after("rows").is_some() || text.after("cols").is_some()).then_some(())?;
    Some(vec![range("rows")?, range("cols")?])
}
