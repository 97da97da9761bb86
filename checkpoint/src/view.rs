//! Views of safetensors as host data, and tensors and shards as such views: files by somebody else's hand.

use crate::cast::{dtype_of, file_dtype_of};
use safetensors::tensor::TensorView;
use safetensors::{Dtype, View};
use sharding_core::{DType, Error, ErrorKind, HostData, Result, Shape, Shard, Tensor};
use std::borrow::Cow;
use std::sync::Arc;

/// A tensor of a safetensors buffer as host data: its bytes where they lie, which
/// [`place_host_array`](sharding_ops::place_host_array) copies onto the devices, each its own piece, and nowhere else.
///
/// A buffer that is owned (`Arc<[u8]>`, a memory map) is kept without a copy by [`HostData::part`] of the tensor's range of bytes.
///
/// ```
/// use safetensors::SafeTensors;
/// use sharding_checkpoint::{HostView, host_data};
/// use sharding_ops::*;
///
/// # let header = r#"{"w": {"dtype": "F32", "shape": [3, 2], "data_offsets": [0, 24]}}"#;
/// # let data: Vec<u8> = (0..6_u8).flat_map(|i| f32::from(i).to_le_bytes()).collect();
/// # let bytes = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &data].concat();
/// # let failed = |error: safetensors::SafeTensorError| Error::new(ErrorKind::File, error.to_string());
/// let file = SafeTensors::deserialize(&bytes).map_err(failed)?;
/// let mesh = DeviceMesh::simulated(BackendKind::CPU, [3], ["tp"])?;
/// let rows = NamedSharding::new(&mesh, spec!["tp"])?;
/// let w = place_host_array(host_data(&file.tensor("w").map_err(failed)?)?, &rows, HostCopy::Always)?;
/// assert_eq!(w.shard_to_vec::<f32>(2)?, [4.0, 5.0]);
/// // And back: the whole, or what one device has.
/// let again = safetensors::serialize([("w", HostView::of(&w)?)], None).map_err(failed)?;
/// assert_eq!(SafeTensors::deserialize(&again).map_err(failed)?.tensor("w").map_err(failed)?.data(), data);
/// let shards = w.addressable_shards().map(|shard| Ok((format!("w.{}", shard.position()), HostView::of_shard(&shard)?)));
/// let pieces = safetensors::serialize(shards.collect::<Result<Vec<_>>>()?, None).map_err(failed)?;
/// assert_eq!(SafeTensors::deserialize(&pieces).map_err(failed)?.tensor("w.2").map_err(failed)?.shape(), [1, 2]);
/// # Ok::<(), Error>(())
/// ```
///
/// # Errors
/// [`ErrorKind::DType`] for elements that tensors do not have; as [`HostData::from_bytes`].
pub fn host_data<'a>(view: &TensorView<'a>) -> Result<HostData<'a>> {
    let dtype = dtype_of(view.dtype()).ok_or_else(|| {
        Error::new(ErrorKind::DType, format!("the view is of {}, which tensors have not", view.dtype()))
            .with_fix("convert the file to F32, F16 or BF16")
    })?;
    match little_endian(view.data().into(), dtype) {
        Cow::Borrowed(bytes) => HostData::from_bytes(dtype, view.shape(), bytes),
        Cow::Owned(bytes) => HostData::shared(dtype, view.shape(), Arc::new(bytes)),
    }
}

/// A tensor, or what one device has of it, as what `safetensors::serialize` takes: [`View`]. Where its elements lie row by row in
/// host memory nothing is copied.
#[derive(Clone, Debug)]
pub struct HostView<'a> {
    dtype: Dtype,
    shape: &'a Shape,
    data: Cow<'a, [u8]>,
}

impl<'a> HostView<'a> {
    /// The whole of a tensor; shards are brought together first.
    ///
    /// # Errors
    /// As [`Tensor::to_bytes`]; [`ErrorKind::DType`] for elements that safetensors does not have.
    pub fn of(tensor: &'a Tensor) -> Result<Self> {
        let alone = tensor.addressable_shards().next().filter(|_| tensor.mapping().is_fully_replicated());
        match alone.as_ref().map(dense).transpose()?.flatten() {
            Some(bytes) => Self::new(tensor.dtype(), tensor.shape(), bytes.into()),
            None => Self::new(tensor.dtype(), tensor.shape(), tensor.to_bytes()?.into()),
        }
    }

    /// What one device has of a tensor.
    ///
    /// # Errors
    /// As [`Shard::to_bytes`]; [`ErrorKind::DType`] for elements that safetensors does not have.
    pub fn of_shard(shard: &Shard<'a>) -> Result<Self> {
        match dense(shard)? {
            Some(bytes) => Self::new(shard.dtype(), shard.shape(), bytes.into()),
            None => Self::new(shard.dtype(), shard.shape(), shard.to_bytes()?.into()),
        }
    }

    fn new(dtype: DType, shape: &'a Shape, data: Cow<'a, [u8]>) -> Result<Self> {
        let of = file_dtype_of(dtype).ok_or_else(|| {
            Error::new(ErrorKind::DType, format!("safetensors has no {dtype}")).with_fix("x.cast(DType::F32)")
        })?;
        Ok(Self { dtype: of, shape, data: little_endian(data, dtype) })
    }
}

impl View for HostView<'_> {
    fn dtype(&self) -> Dtype {
        self.dtype
    }
    fn shape(&self) -> &[usize] {
        self.shape
    }
    fn data(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(&self.data)
    }
    fn data_len(&self) -> usize {
        self.data.len()
    }
}

/// The bytes of a shard, where they lie row by row in host memory.
fn dense<'a>(shard: &Shard<'a>) -> Result<Option<&'a [u8]>> {
    let Some(host) = shard.host_view()? else { return Ok(None) };
    let (meta, size) = (host.meta(), host.dtype().size());
    if !meta.is_contiguous() {
        return Ok(None);
    }
    let start = if host.nbytes() == 0 { 0 } else { meta.offset.saturating_mul(size) };
    Ok(host.borrowed_memory().and_then(|memory| memory.get(start..start.checked_add(host.nbytes())?)))
}

/// Files have the least byte first, memory what the machine has.
fn little_endian(bytes: Cow<'_, [u8]>, dtype: DType) -> Cow<'_, [u8]> {
    if cfg!(target_endian = "little") || dtype.size() == 1 {
        return bytes;
    }
    let mut bytes = bytes.into_owned();
    bytes.chunks_exact_mut(dtype.size()).for_each(<[u8]>::reverse);
    bytes.into()
}
