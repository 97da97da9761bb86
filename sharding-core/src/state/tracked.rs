//! Which tensors of a source were read.

use super::NamedTensors;
use crate::{DeviceMapping, Error, ErrorKind, Result, Tensor, TensorMeta};
use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// A source that remembers which of its tensors were read, so that a file can be found to have some that nobody wanted: the
/// unexpected keys of PyTorch's `load_state_dict`. Under a [`Renamed`](super::Renamed) source it sees the names of the file.
///
/// ```
/// use sharding_core::state::{NamedTensors, Tracked, sharded_load};
/// use sharding_core::{BackendKind, DeviceMapping, DeviceMesh, ShardedState, Tensor};
/// use std::collections::HashMap;
///
/// #[derive(ShardedState)]
/// struct Model {
///     weight: Tensor,
/// }
/// # fn load(mesh: &DeviceMesh, file: &HashMap<String, Tensor>) -> sharding_core::Result<Model> {
/// let read = Tracked::new(file);
/// let model = sharded_load::<Model>(mesh, &read, |init| {
///     Ok(Model { weight: init.weight.build(|_, _| unreachable!("it is in the file"))? })
/// })?;
/// // Strict: an error that names what is in the file and not in the model. `unread` gives the names instead.
/// read.check_all_read(file.keys())?;
/// # Ok(model)
/// # }
/// ```
pub struct Tracked<'a> {
    source: &'a dyn NamedTensors,
    read: Mutex<BTreeSet<String>>,
}

/// How many names an error lists.
const LISTED: usize = 8;

impl<'a> Tracked<'a> {
    /// A source of which nothing was read.
    pub fn new(source: &'a impl NamedTensors) -> Self {
        Self { source, read: Mutex::new(BTreeSet::new()) }
    }

    /// Those of these names, in their order, whose tensors were not read. Asking for the dtype and shape of one is no reading.
    pub fn unread<N: AsRef<str>>(&self, names: impl IntoIterator<Item = N>) -> Vec<String> {
        let read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        let names = names.into_iter().filter(|name| !read.contains(name.as_ref()));
        names.map(|name| name.as_ref().to_owned()).collect()
    }

    /// That all tensors of these names were read.
    ///
    /// # Errors
    /// [`ErrorKind::Argument`], naming those that were not.
    pub fn check_all_read<N: AsRef<str>>(&self, names: impl IntoIterator<Item = N>) -> Result<()> {
        let mut unread = self.unread(names);
        if unread.is_empty() {
            return Ok(());
        }
        unread.sort_unstable();
        let more = unread.len().saturating_sub(LISTED);
        let listed =
            unread.iter().take(LISTED).map(|name| format!("'{name}'")).collect::<Vec<_>>().join(", ");
        let listed = if more == 0 { listed } else { format!("{listed}, and {more} more") };
        Err(Error::new(
            ErrorKind::Argument,
            format!("{} tensors of the source were not read: {listed}", unread.len()),
        )
        .with_fix("use the weights of this model, or leave out the names that it does without"))
    }
}

impl NamedTensors for Tracked<'_> {
    fn contains(&self, name: &str) -> bool {
        self.source.contains(name)
    }
    fn meta(&self, name: &str) -> Result<TensorMeta> {
        self.source.meta(name)
    }
    fn tensor(&self, name: &str, mapping: &DeviceMapping) -> Result<Tensor> {
        let tensor = self.source.tensor(name, mapping)?;
        self.read.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned());
        Ok(tensor)
    }
}
