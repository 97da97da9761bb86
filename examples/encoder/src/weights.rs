//! `model.safetensors`: named tensors of a file, placed on the mesh.

use std::path::{Path, PathBuf};

use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, Metadata};
use sharding_ops::{DeviceMapping, Tensor};

use crate::files::read_bytes;
use crate::{Result, wrong};

/// The length of the number at the start of a file that says how long its header is.
const LENGTH: usize = 8;

/// An open file of weights.
pub struct Weights {
    path: PathBuf,
    bytes: Vec<u8>,
    /// Where the data begins.
    start: usize,
    metadata: Metadata,
}

impl Weights {
    /// Reads a file and checks that its header and its length agree.
    ///
    /// # Errors
    /// If the file cannot be read, is no safetensors file, or is cut short.
    pub fn open(path: &Path) -> Result<Self> {
        let bytes = read_bytes(path)?;
        let (header, metadata) = SafeTensors::read_metadata(&bytes).map_err(|error| {
            wrong(format!("{} ({} bytes) is not a whole safetensors file", path.display(), bytes.len()))
                .with_source(error)
                .with_fix("download it again")
        })?;
        Ok(Self { path: path.to_owned(), start: LENGTH + header, bytes, metadata })
    }

    /// Whether the file has a tensor of this name.
    pub fn has(&self, name: &str) -> bool {
        self.metadata.info(name).is_some()
    }

    /// A tensor of the file, which must be f32 of this shape there. It is read as one of the shape `view`, of as many
    /// elements, and lies as `mapping` says of that: rows of heads are split between heads if `view` tells them apart.
    ///
    /// # Errors
    /// If the file has no such tensor, or one of another dtype or shape, else as [`Tensor::from_slice`].
    pub fn tensor(
        &self,
        name: &str,
        shape: &[usize],
        view: &[usize],
        mapping: &DeviceMapping,
    ) -> Result<Tensor> {
        let values = self.values(name, shape)?;
        Tensor::from_slice(&values, view, mapping)
            .map_err(|error| wrong(format!("cannot place {name}")).with_source(error))
    }

    /// The elements of a tensor, row-major.
    fn values(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>> {
        let at = |message: String| wrong(format!("{}: {message}", self.path.display()));
        let Some(info) = self.metadata.info(name) else {
            return Err(at(format!("there is no tensor '{name}' among {}", self.metadata.tensors().len()))
                .with_fix("use the files of one model, a BERT encoder without a prefix before its names"));
        };
        if info.dtype != Dtype::F32 {
            return Err(at(format!("'{name}' is {:?}; only F32 is read", info.dtype)));
        }
        if info.shape != shape {
            return Err(at(format!(
                "'{name}' has the shape {:?}, and config.json says {shape:?}",
                info.shape
            ))
            .with_fix("use the files of one model"));
        }
        let (start, end) = info.data_offsets;
        let bytes = self
            .bytes
            .get(self.start..)
            .and_then(|data| data.get(start..end))
            .ok_or_else(|| at(format!("the data of '{name}' lies outside of the file")))?;
        let (words, _) = bytes.as_chunks();
        Ok(words.iter().map(|word| f32::from_le_bytes(*word)).collect())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::mappings::Mappings;
    use crate::scratch::Scratch;
    use safetensors::tensor::TensorView;

    /// The bytes of a safetensors file of f32 tensors.
    pub(crate) fn file_of(tensors: &[(String, Vec<usize>, Vec<f32>)]) -> Vec<u8> {
        let bytes: Vec<Vec<u8>> = tensors
            .iter()
            .map(|(_, _, values)| values.iter().flat_map(|value| value.to_le_bytes()).collect())
            .collect();
        let views = tensors.iter().zip(&bytes).map(|((name, shape, _), bytes)| {
            (name.as_str(), TensorView::new(Dtype::F32, shape.clone(), bytes).unwrap())
        });
        safetensors::serialize(views, None).unwrap()
    }

    fn example() -> Vec<u8> {
        file_of(&[
            ("a".to_owned(), vec![2, 3], vec![0.0, 1.0, 2.0, 3.0, 4.0, 5.0]),
            ("b".to_owned(), vec![1], vec![7.5]),
        ])
    }

    fn opened(test: &str, bytes: &[u8]) -> Result<Weights> {
        let scratch = Scratch::new(&format!("weights-{test}"));
        Weights::open(&scratch.write("model.safetensors", bytes))
    }

    #[test]
    fn a_tensor_is_read_and_split() {
        let weights = opened("read", &example()).unwrap();
        let mappings = Mappings::parse("tp=2").unwrap();
        let a = weights.tensor("a", &[2, 3], &[2, 3, 1], &mappings.split(1).unwrap()).unwrap();
        assert_eq!(a.shard_to_vec::<f32>(0).unwrap(), [0.0, 1.0, 3.0, 4.0]);
        assert_eq!(a.shard_to_vec::<f32>(1).unwrap(), [2.0, 5.0]);
        let b = weights.tensor("b", &[1], &[1], &mappings.whole()).unwrap();
        assert_eq!(b.to_vec::<f32>().unwrap(), [7.5]);
    }

    #[test]
    fn a_damaged_file_is_an_error_wherever_it_is_cut() {
        let whole = example();
        for length in 0..whole.len() {
            let error = opened("cut", &whole[..length]).err().unwrap().to_string();
            assert!(error.contains("not a whole safetensors file"), "{length} bytes gave: {error}");
        }
        let longer = [&whole[..], &[0]].concat();
        assert!(opened("long", &longer).is_err());
        let mut lying = whole;
        lying[..LENGTH].copy_from_slice(&u64::MAX.to_le_bytes());
        assert!(opened("lying", &lying).is_err());
    }

    #[test]
    fn what_is_not_as_expected_is_named() {
        let weights = opened("named", &example()).unwrap();
        let whole = Mappings::parse("tp=2").unwrap().whole();
        let check = |name: &str, shape: &[usize], want: &str| {
            let error = weights.tensor(name, shape, shape, &whole).err().unwrap().to_string();
            assert!(error.contains(want), "{name} gave: {error}");
        };
        check("c", &[1], "no tensor 'c' among 2");
        check("a", &[3, 2], "'a' has the shape [2, 3], and config.json says [3, 2]");
        check("a", &[6], "'a' has the shape [2, 3]");
        let halves = TensorView::new(Dtype::F16, vec![1], &[0, 0]).unwrap();
        let file = safetensors::serialize([("h", halves)], None).unwrap();
        let error =
            opened("dtype", &file).unwrap().tensor("h", &[1], &[1], &whole).err().unwrap().to_string();
        assert!(error.contains("'h' is F16; only F32"), "{error}");
    }
}
