//! `from_process_local_data` where a text says what differs from a valid call: 16 numbers of float32, a mesh of 8 devices, `P("x")`.

use super::misuse::{CHOICE, FLAG, HOST, Outcome, SHAPE, SHARDING, SIZE};
use super::place::dtype;
use super::values;
use crate::golden::json::{Node, Parsed};
use crate::golden::spelling::unspellable;
use serde_json::{Value, json};
use sharding_core::{
    AbstractMesh, AxisType, DType, Device, Error, HostCopy, LocalDataOptions, NamedSharding, ReplicaPolicy,
    Result, Shape, Tensor, layout, make_mesh, spec,
};

/// The arguments of the call.
struct Call {
    local: Shape,
    global: Shape,
    dtype: DType,
    axis_type: AxisType,
    is_abstract: bool,
    policy: ReplicaPolicy,
    copy: HostCopy,
    process_index: Option<u32>,
    process_count: Option<u32>,
    /// A value that is no value of its type.
    bad: Option<Error>,
}

pub(super) fn replay(input: &Node<'_>) -> Parsed<Outcome> {
    let text = input.field("override")?.text()?;
    let mut call = Call {
        local: [16].into(),
        global: [16].into(),
        dtype: DType::F32,
        axis_type: AxisType::Explicit,
        is_abstract: false,
        policy: ReplicaPolicy::Disallow,
        copy: HostCopy::Always,
        process_index: None,
        process_count: None,
        bad: None,
    };
    for part in text.split([',', ';']) {
        if let Err(outcome) = call.differ(part.trim()) {
            return Ok(outcome);
        }
    }
    Ok(Outcome::Called(call.made()))
}

impl Call {
    /// Reads what differs, by its words.
    fn differ(&mut self, text: &str) -> std::result::Result<(), Outcome> {
        let words: Vec<&str> = text.split([' ', '=']).filter(|word| !word.is_empty()).collect();
        match words.as_slice() {
            ["none"] => {}
            ["local_data", "is", ..] => return Err(Outcome::Unwritable(HOST)),
            ["local_data", "dtype", name] => self.dtype = dtype(&json!(name))?,
            ["global_shape", "is", ..] => return Err(Outcome::Unwritable(SHAPE)),
            ["global_shape", "has", "bool" | "float" | "str" | "None"] => {
                return Err(Outcome::Unwritable(SIZE));
            }
            ["global_shape", .., last] if *last == "negative" || number(last).is_some_and(|n| n < 0) => {
                self.bad = Some(unspellable(last));
            }
            ["rank", "differs"] => self.local = [16, 1].into(),
            ["indivisible"] => (self.local, self.global) = ([15].into(), [15].into()),
            ["copy", "True"] => self.copy = HostCopy::Always,
            ["copy", "False"] => self.copy = HostCopy::WhereNeeded,
            ["copy", ..] => return Err(Outcome::Unwritable(FLAG)),
            ["policy" | "replica_policy", value] => {
                self.policy = match *value {
                    "disallow" => ReplicaPolicy::Disallow,
                    "assume_consistent" => ReplicaPolicy::AssumeConsistent,
                    _ => return Err(Outcome::Unwritable(CHOICE)),
                };
            }
            ["policy" | "replica_policy", ..] => return Err(Outcome::Unwritable(CHOICE)),
            [what @ ("process_index" | "process_count"), value] => match number(value) {
                None => return Err(Outcome::Unwritable(SIZE)),
                Some(n) => match u32::try_from(n) {
                    Err(_) => self.bad = Some(unspellable(value)),
                    Ok(n) if *what == "process_index" => self.process_index = Some(n),
                    Ok(n) => self.process_count = Some(n),
                },
            },
            ["sharding", .., "NamedSharding"] => return Err(Outcome::Unwritable(SHARDING)),
            ["sharding" | "mesh", ..] => {
                let text = text.to_ascii_lowercase();
                let says = |word: &str| text.contains(word);
                self.is_abstract = says("abstract");
                match [
                    ("auto", AxisType::Auto),
                    ("manual", AxisType::Manual),
                    ("explicit", AxisType::Explicit),
                ]
                .into_iter()
                .find(|(word, _)| says(word))
                {
                    Some((_, axis_type)) => self.axis_type = axis_type,
                    None if self.is_abstract => {}
                    None => return Err(unread(&text)),
                }
            }
            _ => return Err(unread(text)),
        }
        Ok(())
    }

    fn made(self) -> Result<Value> {
        if let Some(bad) = self.bad {
            return Err(bad);
        }
        let sharding = if self.is_abstract {
            let mesh = AbstractMesh::new([8], ["x"])?.with_axis_types([self.axis_type])?;
            NamedSharding::on_abstract(&mesh, spec!["x"])?
        } else {
            let devices: Vec<Device> = (0..8).map(|slot| Device::cpu().with_slot(slot)).collect();
            layout(&make_mesh(&devices, [8], ["x"], [self.axis_type])?, spec!["x"])?
        };
        let source = values::iota(self.dtype, self.local.elements());
        let data = values::host(self.dtype, &self.local, &source, self.copy)?;
        let mut options = LocalDataOptions::new(self.policy).with_copy(self.copy);
        if let Some(index) = self.process_index {
            options = options.with_process_index(index);
        }
        if let Some(count) = self.process_count {
            options = options.with_process_count(count);
        }
        let x = Tensor::from_process_local_data(&data, self.global, &sharding, options)?;
        values::check(&x, &self.local, &source)?;
        Ok(json!({"shape": x.shape().to_vec()}))
    }
}

fn number(word: &str) -> Option<i64> {
    word.parse().ok()
}

fn unread(text: &str) -> Outcome {
    Outcome::Unread(format!("a difference in words that are not read: {text}"))
}
