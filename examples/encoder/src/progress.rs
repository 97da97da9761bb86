//! How far the loading of weights is.

use std::cell::Cell;
use std::io::{self, IsTerminal, Write};

use sharding_ops::nn::NamedTensors;
use sharding_ops::{DeviceMapping, Tensor, TensorMeta};

use crate::Result;

/// The width of the bar, in characters.
const WIDTH: usize = 30;

/// Named tensors of which is told how many are loaded.
pub(crate) struct Told<'a, S, F> {
    source: &'a S,
    total: usize,
    done: Cell<usize>,
    tell: F,
}

impl<'a, S: NamedTensors, F: Fn(usize, usize)> Told<'a, S, F> {
    /// Calls `tell(done, total)` after each tensor.
    pub(crate) fn new(source: &'a S, total: usize, tell: F) -> Self {
        Self { source, total, done: Cell::new(0), tell }
    }
}

impl<S: NamedTensors, F: Fn(usize, usize)> NamedTensors for Told<'_, S, F> {
    fn contains(&self, name: &str) -> bool {
        self.source.contains(name)
    }
    fn meta(&self, name: &str) -> Result<TensorMeta> {
        self.source.meta(name)
    }
    fn tensor(&self, name: &str, mapping: &DeviceMapping) -> Result<Tensor> {
        let tensor = self.source.tensor(name, mapping)?;
        self.done.set(self.done.get() + 1);
        (self.tell)(self.done.get(), self.total);
        Ok(tensor)
    }
}

/// Draws a bar on a terminal; a log or a pipe gets nothing.
pub(crate) fn bar(done: usize, total: usize) {
    let mut err = io::stderr().lock();
    if err.is_terminal() {
        // A terminal that cannot be written to has nobody who waits.
        let _ = err.write_all(line(done, total).as_bytes()).and_then(|()| err.flush());
    }
}

/// The bar over the line that was there; when all is done, nothing.
fn line(done: usize, total: usize) -> String {
    if done >= total {
        return format!("\r{:1$}\r", "", WIDTH + 32);
    }
    let filled = done * WIDTH / total.max(1);
    format!("\rloading [{}{}] {done} of {total} tensors", "#".repeat(filled), " ".repeat(WIDTH - filled))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sharding_ops::{BackendKind, DType, DeviceMesh, full};
    use std::cell::RefCell;
    use std::collections::HashMap;

    #[test]
    fn every_tensor_is_told_and_none_that_is_only_asked_about() {
        let mesh = DeviceMesh::simulated(BackendKind::CPU, [1], ["tp"]).unwrap();
        let whole = DeviceMapping::replicated(&mesh);
        let one = || full([1], 1.0, DType::F32, &whole).unwrap();
        let tensors = HashMap::from([("a".to_owned(), one()), ("b".to_owned(), one())]);
        let told = RefCell::new(Vec::new());
        let source = Told::new(&tensors, 2, |done, total| told.borrow_mut().push((done, total)));
        assert!(source.contains("a") && source.meta("b").is_ok());
        source.tensor("a", &whole).unwrap();
        assert!(source.tensor("c", &whole).is_err());
        source.tensor("b", &whole).unwrap();
        assert_eq!(*told.borrow(), [(1, 2), (2, 2)]);
    }

    #[test]
    fn the_bar_fills_and_goes() {
        assert_eq!(line(1, 2), format!("\rloading [{}{}] 1 of 2 tensors", "#".repeat(15), " ".repeat(15)));
        let last = line(2, 2);
        assert!(last.trim().is_empty() && last.len() > line(99, 100).len());
    }
}
