//! `shard_mapped`: what is said when a function is wrapped, for a mesh of 4 by 2 devices `x`, `y`.

use super::misuse::{FLAG, FUNCTION, MESH, NAME, Outcome, SPECS};
use crate::golden::json::{Node, Parsed};
use serde_json::{Value, json};
use sharding_core::manual::shard_map;
use sharding_core::{AxisType, BackendKind, DeviceMesh, PartitionSpec, Result, SpecEntry};

/// What a text says of the call; where it says nothing the call is valid.
struct Call {
    types: [AxisType; 2],
    names: Option<Vec<String>>,
    input: PartitionSpec,
    output: PartitionSpec,
    check_vma: bool,
}

pub(super) fn replay(input: &Node<'_>) -> Parsed<Outcome> {
    let text = input.field("case")?.text()?;
    let x = || PartitionSpec::new(["x"]);
    let mut call =
        Call { types: [AxisType::Manual; 2], names: None, input: x(), output: x(), check_vma: true };
    for part in parts(text) {
        if let Err(outcome) = call.differ(part.trim()) {
            return Ok(outcome);
        }
    }
    Ok(Outcome::Called(call.wrapped()))
}

/// The parts between commas that stand in no brackets.
fn parts(text: &str) -> Vec<&str> {
    let mut depth = 0;
    text.split(move |c| {
        match c {
            '(' | '{' | '[' => depth += 1,
            ')' | '}' | ']' => depth -= 1,
            _ => {}
        }
        c == ',' && depth == 0
    })
    .collect()
}

impl Call {
    fn differ(&mut self, text: &str) -> std::result::Result<(), Outcome> {
        use AxisType::{Auto, Explicit, Manual};
        if let Some((input, output)) = text.split_once("->") {
            let specs = (spec(input.trim()), spec(output.trim()));
            let (Some(input), Some(output)) = specs else { return Err(unread(text)) };
            (self.input, self.output) = (input, output);
            return Ok(());
        }
        let words: Vec<&str> = text.split([' ', '=']).filter(|word| !word.is_empty()).collect();
        match words.as_slice() {
            ["all", "manual"] => self.types = [Manual; 2],
            ["all", "explicit"] => self.types = [Explicit; 2],
            ["all", "auto"] => self.types = [Auto; 2],
            ["mixed"] => self.types = [Manual, Explicit],
            ["axis_names", "unknown"] => self.names = Some(vec!["q".to_owned()]),
            ["axis_names", "is" | "has", ..] => return Err(Outcome::Unwritable(NAME)),
            ["axis_names", "empty" | "{}"] => self.names = None,
            ["axis_names", ..] => match text.split_once('{').and_then(|(_, rest)| rest.split_once('}')) {
                Some((names, _)) => {
                    self.names = Some(names.split(',').map(|name| quoted(name).to_owned()).collect());
                }
                None => return Err(unread(text)),
            },
            ["check_vma", "True"] => self.check_vma = true,
            ["check_vma", "False"] => self.check_vma = false,
            ["check_vma", ..] => return Err(Outcome::Unwritable(FLAG)),
            // None among specs is an argument that is no tensor: here the function captures it.
            ["in_specs", .., "None"] => {}
            ["in_specs" | "out_specs", "str" | "is" | "int" | "list" | "tuple", ..] => {
                return Err(Outcome::Unwritable(SPECS));
            }
            ["spec" | "in_spec" | "in_specs", "unknown", ..] => self.input = PartitionSpec::new(["q"]),
            ["out_spec" | "out_specs" | "out", "unknown", ..] => self.output = PartitionSpec::new(["q"]),
            ["in" | "in_specs", ..] => {
                match text.split_once("P(").and_then(|(_, rest)| spec(&format!("P({rest}"))) {
                    Some(spec) => self.input = spec,
                    None => return Err(unread(text)),
                }
            }
            ["out" | "out_specs", ..] => {
                match text.split_once("P(").and_then(|(_, rest)| spec(&format!("P({rest}"))) {
                    Some(spec) => self.output = spec,
                    None => return Err(unread(text)),
                }
            }
            ["mesh", .., last] if last.contains("Abstract") || last.contains("None") => {
                return Err(Outcome::Unwritable(MESH));
            }
            ["function" | "not", ..] => return Err(Outcome::Unwritable(FUNCTION)),
            [one] if one.starts_with("P(") => match spec(one) {
                Some(spec) => (self.input, self.output) = (spec.clone(), spec),
                None => return Err(unread(text)),
            },
            _ => return Err(unread(text)),
        }
        Ok(())
    }

    fn wrapped(self) -> Result<Value> {
        let mesh =
            DeviceMesh::simulated(BackendKind::CPU, [4, 2], ["x", "y"])?.with_axis_types(self.types)?;
        let builder =
            shard_map(&mesh).in_specs([self.input]).out_specs([self.output]).check_vma(self.check_vma);
        let builder = match self.names {
            Some(names) => builder.axis_names(names),
            None => builder,
        };
        builder.wrap_many(|_, blocks| Ok(blocks)).map(|_| json!({"accepted": true}))
    }
}

/// `P(x)`, `P(x, None)`, `P((x, y))`.
fn spec(text: &str) -> Option<PartitionSpec> {
    let inner = text.strip_prefix("P(")?.strip_suffix(')')?;
    let entries = parts(inner).into_iter().map(str::trim).filter(|entry| !entry.is_empty());
    let entry = |entry: &str| match entry.strip_prefix('(').and_then(|names| names.strip_suffix(')')) {
        Some(names) => SpecEntry::several(names.split(',').map(quoted).filter(|name| !name.is_empty())),
        None if entry == "None" => SpecEntry::none(),
        None => SpecEntry::from(quoted(entry)),
    };
    Some(PartitionSpec::new(entries.map(entry)))
}

fn quoted(name: &str) -> &str {
    name.trim().trim_matches(['\'', '"'])
}

fn unread(text: &str) -> Outcome {
    Outcome::Unread(format!("a call in words that are not read: {text}"))
}
