//! The header of a safetensors file, checked against the file's length: what it says is only used if it can be true.
//!
//! The form is that of <https://github.com/huggingface/safetensors>: 8 bytes with the length of a JSON object, the object
//! (`name: {dtype, shape, data_offsets}`), and the data, which the tensors fill without gaps and overlaps.

use crate::read_at::read_at;
use safetensors::Dtype;
use safetensors::tensor::TensorInfo;
use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::fs::File;

/// The bytes of the number at the start.
const LENGTH: u64 = 8;

/// The longest header that is read, as in the reference implementation: a lying length must not ask for all memory.
const LONGEST: u64 = 100_000_000;

/// Where a tensor lies in a file.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    /// The type of its elements in the file.
    pub(crate) dtype: Dtype,
    /// Its global shape.
    pub(crate) shape: Vec<usize>,
    /// The first byte, from the start of the file.
    pub(crate) start: u64,
}

/// Tensors by name.
pub(crate) type Entries = BTreeMap<String, Entry>;

/// Reads and checks the header of a file of that length.
///
/// # Errors
/// What is wrong, as text.
pub(crate) fn read(file: &File, length: u64) -> Result<Entries, String> {
    if length < LENGTH {
        return Err(format!("it has {length} bytes, and a header alone has more"));
    }
    let at = |bytes: &mut [u8], offset| read_at(file, bytes, offset).map_err(|error| error.to_string());
    let mut number = [0; LENGTH as usize];
    at(&mut number, 0)?;
    let size = u64::from_le_bytes(number);
    let room = length - LENGTH;
    if size > room {
        return Err(format!(
            "its header is to have {size} bytes, and {room} follow: it is cut short, or not safetensors"
        ));
    }
    if size > LONGEST {
        return Err(format!("its header is to have {size} bytes; no more than {LONGEST} are read"));
    }
    let mut header = vec![0; usize::try_from(size).map_err(|error| error.to_string())?];
    at(&mut header, LENGTH)?;
    parse(&header, LENGTH + size, room - size)
}

/// Checks a header whose data begins at `start` and has `room` bytes.
fn parse(header: &[u8], start: u64, room: u64) -> Result<Entries, String> {
    if header.first() != Some(&b'{') {
        return Err("its header is no JSON object".to_owned());
    }
    let Listed(listed) =
        serde_json::from_slice(header).map_err(|error| format!("its header cannot be read: {error}"))?;
    let mut spans = Vec::with_capacity(listed.len());
    let mut entries = Entries::new();
    for (name, info) in listed {
        let (from, to) = info.data_offsets;
        let wanted = bytes_of(&info).ok_or_else(|| {
            format!("'{name}' is {}{:?}: more than can be counted, or no whole bytes", info.dtype, info.shape)
        })?;
        if to.checked_sub(from) != Some(wanted) {
            return Err(format!(
                "'{name}' is {}{:?}, {wanted} bytes, and lies at {from}..{to} of the data",
                info.dtype, info.shape
            ));
        }
        if to as u64 > room {
            return Err(format!(
                "'{name}' lies at {from}..{to} of the data, of which the file has {room} bytes: it is cut short"
            ));
        }
        spans.push((from, to, name.clone()));
        let entry = Entry { dtype: info.dtype, shape: info.shape, start: start + from as u64 };
        if entries.insert(name.clone(), entry).is_some() {
            return Err(format!("'{name}' is listed twice"));
        }
    }
    spans.sort_unstable();
    let mut end = 0;
    let mut before = "the header".to_owned();
    for (from, to, name) in spans {
        match from.cmp(&end) {
            std::cmp::Ordering::Less => {
                return Err(format!(
                    "'{before}' and '{name}' overlap: one ends at {end} of the data, the other begins at {from}"
                ));
            }
            std::cmp::Ordering::Greater => {
                return Err(format!(
                    "nothing is said of the bytes {end}..{from} of the data, before '{name}'"
                ));
            }
            std::cmp::Ordering::Equal => (end, before) = (to, name),
        }
    }
    if end as u64 != room {
        return Err(format!("its tensors end at {end} of the data, and it has {room} bytes"));
    }
    Ok(entries)
}

/// The bytes that a tensor needs; `None` if they are no number of this machine, or no whole bytes.
fn bytes_of(info: &TensorInfo) -> Option<usize> {
    let bits = info.shape.iter().try_fold(info.dtype.bitsize(), |bits, extent| bits.checked_mul(*extent))?;
    bits.is_multiple_of(8).then_some(bits / 8)
}

/// The tensors of a header in its order, those of one name both there.
struct Listed(Vec<(String, TensorInfo)>);

impl<'de> Deserialize<'de> for Listed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;
        impl<'de> Visitor<'de> for Object {
            type Value = Listed;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of tensors")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Listed, A::Error> {
                let mut listed = Vec::new();
                while let Some(name) = map.next_key::<String>()? {
                    let of = |error: A::Error| A::Error::custom(format!("'{name}': {error}"));
                    if name == "__metadata__" {
                        // Free text of whoever wrote the file; it must be text, and is not used.
                        map.next_value::<HashMap<String, String>>().map_err(of)?;
                        continue;
                    }
                    let info = map.next_value().map_err(of)?;
                    listed.push((name, info));
                }
                Ok(Listed(listed))
            }
        }
        deserializer.deserialize_map(Object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(header: &str, room: u64) -> String {
        parse(header.as_bytes(), 100, room).unwrap_err()
    }

    /// A header of f32 tensors: name, extent, offsets.
    fn of(tensors: &[(&str, usize, [usize; 2])]) -> String {
        let one = |(name, extent, [from, to]): &(&str, usize, [usize; 2])| {
            format!(r#""{name}": {{"dtype": "F32", "shape": [{extent}], "data_offsets": [{from}, {to}]}}"#)
        };
        format!("{{{}}}", tensors.iter().map(one).collect::<Vec<_>>().join(", "))
    }

    #[test]
    fn tensors_are_found_wherever_they_stand_in_the_header() {
        let header = of(&[("b", 1, [8, 12]), ("none", 0, [8, 8]), ("a", 2, [0, 8])]);
        let entries = parse(header.as_bytes(), 100, 12).unwrap();
        let start = |name: &str| entries[name].start;
        assert_eq!([start("a"), start("b"), start("none")], [100, 108, 108]);
        assert_eq!(parse(b"{}  ", 0, 0).unwrap().len(), 0);
        assert_eq!(parse(br#"{"__metadata__": {"format": "pt"}}"#, 0, 0).unwrap().len(), 0);
    }

    #[test]
    fn what_cannot_be_true_is_said() {
        let check = |tensors: &[(&str, usize, [usize; 2])], room, want: &str| {
            let text = said(&of(tensors), room);
            assert!(text.contains(want), "{text}");
        };
        check(&[("a", 2, [0, 8])], 7, "'a' lies at 0..8 of the data, of which the file has 7 bytes");
        check(&[("a", 2, [0, 8])], 9, "end at 8 of the data, and it has 9");
        check(&[("a", 2, [0, 4])], 4, "'a' is F32[2], 8 bytes, and lies at 0..4");
        check(&[("a", 2, [8, 0])], 8, "lies at 8..0");
        check(&[("a", 2, [0, 8]), ("b", 2, [4, 12])], 12, "'a' and 'b' overlap");
        check(&[("a", 2, [0, 8]), ("b", 2, [0, 8])], 8, "'a' and 'b' overlap");
        check(&[("a", 2, [0, 8]), ("b", 1, [12, 16])], 16, "the bytes 8..12 of the data, before 'b'");
        check(&[("a", 2, [0, 8]), ("a", 1, [8, 12])], 12, "'a' is listed twice");
        check(&[("a", usize::MAX, [0, 8])], 8, "more than can be counted");
        check(&[("a", 1, [usize::MAX - 3, usize::MAX])], 8, "'a' is F32[1], 4 bytes");
    }

    #[test]
    fn what_cannot_be_read_is_said() {
        let check = |header: &str, want: &str| {
            let text = said(header, 8);
            assert!(text.contains(want), "{header} gave: {text}");
        };
        check("", "no JSON object");
        check(" {}", "no JSON object");
        check("[]", "no JSON object");
        check("{\"a\": ", "cannot be read");
        check("{\"a\": 1}", "'a': ");
        check(&of(&[("a", 2, [0, 8])]).replace("F32", "F33"), "'a': unknown variant `F33`");
        check(&of(&[("a", 2, [0, 8])]).replace("[2]", "[-2]"), "'a': ");
        check(&of(&[("a", 2, [0, 8])]).replace("\"shape\": [2], ", ""), "missing field `shape`");
        check(&format!("{{\"a\": {}", "[".repeat(100_000)), "'a': ");
        check(r#"{"__metadata__": {"a": 1}}"#, "'__metadata__': ");
        assert!(parse(&[b'{', 0xff], 0, 0).is_err());
    }
}
