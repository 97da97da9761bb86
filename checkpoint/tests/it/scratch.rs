//! Files of tests.

use safetensors::tensor::{Dtype, TensorView};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{env, fs, process};

/// A file of its own for a test, removed at its end.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new(content: &[u8]) -> Self {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = env::temp_dir().join(format!("checkpoint-{}-{number}.safetensors", process::id()));
        fs::write(&path, content).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What stays is clutter in a directory for temporary files.
        let _ = fs::remove_file(&self.0);
    }
}

/// The bytes of a file of these tensors: name, dtype, shape, data.
pub(crate) fn file_of(tensors: &[(&str, Dtype, &[usize], Vec<u8>)]) -> Vec<u8> {
    let views = tensors
        .iter()
        .map(|(name, dtype, shape, data)| (*name, TensorView::new(*dtype, shape.to_vec(), data).unwrap()));
    safetensors::serialize(views, None).unwrap()
}

/// Elements that are all different.
pub(crate) fn floats(n: usize) -> Vec<f32> {
    (0..n).map(|i| i as f32 - 0.5).collect()
}

pub(crate) fn le_bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}
