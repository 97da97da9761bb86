//! An open file of weights.

use crate::cast::{Cast, dtype_of};
use crate::header::{self, Entries, Entry};
use crate::ranges::{Reader, each_run};
use safetensors::Dtype;
use sharding_core::{
    DType, DeviceMapping, Error, ErrorKind, Region, Result, Shape, Tensor, TensorLayout, TensorMeta,
};
use sharding_ops::nn::NamedTensors;
use std::fmt;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// An open safetensors file: tensors by name, read piece by piece onto the devices that hold them.
///
/// Opening reads the header only. Reading a tensor reads the ranges that the devices of this process hold, each once
/// (runs of less than 512 bytes with less than that between them together with what is between them), through one buffer
/// of the size of the largest piece: no device, and not the host, ever holds more of a tensor than its piece.
///
/// The file must not change while it is open. One that is cut short later is an error of the read that notices it.
pub struct WeightFile {
    path: PathBuf,
    file: File,
    entries: Entries,
    read: AtomicU64,
}

impl WeightFile {
    /// Opens a file and checks its header against its length: every tensor lies inside, has the bytes that its dtype and
    /// shape need, overlaps no other and is there once, and no byte belongs to none.
    ///
    /// # Errors
    /// [`ErrorKind::File`], naming the file and what is wrong.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let unreadable = |error: io::Error| {
            Error::new(ErrorKind::File, format!("cannot read {}", path.display())).with_source(error)
        };
        let file = File::open(path).map_err(unreadable)?;
        let about = file.metadata().map_err(unreadable)?;
        if !about.is_file() {
            return Err(Error::new(ErrorKind::File, format!("{} is not a file", path.display()))
                .with_fix("name the .safetensors file itself"));
        }
        let entries = header::read(&file, about.len()).map_err(|wrong| {
            Error::new(
                ErrorKind::File,
                format!("{} is not a whole safetensors file: {wrong}", path.display()),
            )
            .with_fix("copy or download it again")
        })?;
        Ok(Self { path: path.to_owned(), file, entries, read: AtomicU64::new(0) })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The names of its tensors, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.keys().map(String::as_str)
    }

    /// Whether it has a tensor of this name.
    pub fn contains(&self, name: &str) -> bool {
        self.entries.contains_key(name)
    }

    /// The global shape of a tensor.
    ///
    /// # Errors
    /// [`ErrorKind::File`] if there is none of this name, with names that are near.
    pub fn shape(&self, name: &str) -> Result<Shape> {
        Shape::new(&*self.entry(name)?.shape).map_err(|error| self.about(name, error))
    }

    /// The type of a tensor's elements in the file, which may be one that tensors do not have.
    ///
    /// # Errors
    /// [`ErrorKind::File`] if there is none of this name.
    pub fn file_dtype(&self, name: &str) -> Result<Dtype> {
        Ok(self.entry(name)?.dtype)
    }

    /// A tensor in the dtype of the file, laid out by `mapping`.
    ///
    /// # Errors
    /// [`ErrorKind::File`] if there is none of this name or the file cannot be read; [`ErrorKind::DType`] if tensors have
    /// no such dtype; [`ErrorKind::Mapping`] if the mapping does not fit the shape, or is Partial or Unknown; else what the
    /// backend says.
    pub fn read(&self, name: &str, mapping: &DeviceMapping) -> Result<Tensor> {
        let meta = self.meta_of(name)?;
        let layout = TensorLayout::new(meta.dtype, meta.shape, mapping.clone());
        self.read_layout(name, layout.map_err(|error| self.about(name, error))?)
    }

    /// A tensor that must be of this dtype and shape in the file.
    ///
    /// # Errors
    /// [`ErrorKind::Shape`] or [`ErrorKind::DType`] if it is not, else as [`WeightFile::read`].
    pub fn read_layout(&self, name: &str, layout: TensorLayout) -> Result<Tensor> {
        let entry = self.entry(name)?;
        if dtype_of(entry.dtype) != Some(layout.dtype()) {
            return Err(self
                .wrong(ErrorKind::DType, format!("'{name}' is {} there, and {layout} is wanted", entry.dtype))
                .with_fix(format!("ask for a cast: read_cast(\"{name}\", layout)")));
        }
        self.place(name, entry, layout)
    }

    /// A tensor whose elements are converted to the dtype of the layout while they are read: floats to integers towards
    /// zero, anything but 0 to true. The shape must be that of the file.
    ///
    /// # Errors
    /// [`ErrorKind::Shape`] if it is not, [`ErrorKind::DType`] if there is no such conversion, [`ErrorKind::File`] for an
    /// integer that the wanted dtype does not have, else as [`WeightFile::read`].
    pub fn read_cast(&self, name: &str, layout: TensorLayout) -> Result<Tensor> {
        self.place(name, self.entry(name)?, layout)
    }

    /// The bytes that were read so far, the header not among them.
    pub fn bytes_read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    fn place(&self, name: &str, entry: &Entry, layout: TensorLayout) -> Result<Tensor> {
        if *entry.shape != **layout.shape() {
            return Err(self
                .wrong(
                    ErrorKind::Shape,
                    format!(
                        "'{name}' has the shape {:?} there, and {} is wanted",
                        entry.shape,
                        layout.shape()
                    ),
                )
                .with_fix("use the weights and the configuration of one model"));
        }
        let Some(cast) = Cast::between(entry.dtype, layout.dtype()) else {
            return Err(self
                .wrong(ErrorKind::DType, format!("'{name}' is {} there, which cannot be read", entry.dtype))
                .with_fix("convert the file to F32, F16 or BF16"));
        };
        let size = entry.dtype.bitsize() / 8;
        let fill = |region: &Region, bytes: &mut [u8]| {
            let mut reader = Reader::new(&self.file, &self.read, cast, bytes);
            each_run(&entry.shape, region, |start, len| {
                reader.take(entry.start + (start * size) as u64, len * size)
            })
            .and_then(|()| reader.finish())
            .map_err(|error| {
                let changed = match error.kind() {
                    io::ErrorKind::UnexpectedEof => "; it was cut short since it was opened",
                    _ => "",
                };
                self.wrong(ErrorKind::File, format!("'{name}' cannot be read{changed}")).with_source(error)
            })
        };
        Tensor::from_callback(layout, fill).map_err(|error| self.about(name, error))
    }

    fn entry(&self, name: &str) -> Result<&Entry> {
        self.entries.get(name).ok_or_else(|| {
            // A prefix too much or too little is what usually differs.
            let near = |known: &&String| known.ends_with(name) || name.ends_with(known.as_str());
            let names: Vec<&str> = self.entries.keys().filter(near).take(3).map(String::as_str).collect();
            let error = self
                .wrong(ErrorKind::File, format!("there is no tensor '{name}' among {}", self.entries.len()));
            match (names.is_empty(), self.entries.keys().next()) {
                (false, _) => error.with_fix(format!("ask for one of: {}", names.join(", "))),
                (true, Some(first)) => error.with_fix(format!("ask for one of names(), as in '{first}'")),
                (true, None) => error.with_fix("use the file of the model: this one is empty"),
            }
        })
    }

    fn meta_of(&self, name: &str) -> Result<TensorMeta> {
        let dtype = self.file_dtype(name)?;
        let dtype: DType = dtype_of(dtype).ok_or_else(|| {
            self.wrong(ErrorKind::DType, format!("'{name}' is {dtype} there, which tensors have not"))
                .with_fix(format!("ask for a cast: read_cast(\"{name}\", layout)"))
        })?;
        Ok(TensorMeta::new(dtype, self.shape(name)?))
    }

    /// An error that names the file.
    fn wrong(&self, kind: ErrorKind, message: String) -> Error {
        Error::new(kind, format!("{}: {message}", self.path.display()))
    }

    /// An error beneath, with the file and the tensor named.
    fn about(&self, name: &str, error: Error) -> Error {
        if error.kind() == ErrorKind::File {
            return error;
        }
        let fix = error.fix().map(str::to_owned);
        let outer = self.wrong(error.kind(), format!("'{name}' cannot be placed")).with_source(error);
        match fix {
            Some(fix) => outer.with_fix(fix),
            None => outer,
        }
    }
}

impl NamedTensors for WeightFile {
    fn contains(&self, name: &str) -> bool {
        self.contains(name)
    }
    fn meta(&self, name: &str) -> Result<TensorMeta> {
        self.meta_of(name)
    }
    fn tensor(&self, name: &str, mapping: &DeviceMapping) -> Result<Tensor> {
        self.read(name, mapping)
    }
}

impl fmt::Debug for WeightFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WeightFile({}, {} tensors)", self.path.display(), self.entries.len())
    }
}
