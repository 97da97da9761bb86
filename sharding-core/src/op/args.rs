//! Plain arguments, and the words of them that plans depend on.

use crate::{DType, Scalar, Shape};
use smallvec::SmallVec;
use std::any::Any;
use std::fmt::Debug;

/// The plain arguments of one op: the type that `#[sharding_rule]` makes of them.
pub trait OpArgs: Debug + Any + Send + Sync {
    /// Writes what rule and shape function receive; kernel-only arguments stay out.
    fn key(&self, key: &mut KeyWriter);
    /// For the op's own functions.
    fn as_any(&self) -> &dyn Any;
    /// A copy, for recorders.
    fn boxed(&self) -> Box<dyn OpArgs>;
}

impl OpArgs for () {
    fn key(&self, _: &mut KeyWriter) {}
    fn as_any(&self) -> &dyn Any {
        self
    }
    fn boxed(&self) -> Box<dyn OpArgs> {
        Box::new(())
    }
}

/// Words of a plan key. Values of different lengths never give the same words: sequences write their length first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct KeyWriter(SmallVec<[u64; 8]>);

impl KeyWriter {
    /// No words.
    pub fn new() -> Self {
        Self::default()
    }
    /// Adds one value.
    pub fn put(&mut self, value: &(impl PlanKey + ?Sized)) {
        value.put(self);
    }
    /// Adds one word.
    pub fn word(&mut self, word: u64) {
        self.0.push(word);
    }
    /// The words.
    pub fn words(&self) -> &[u64] {
        &self.0
    }
}

/// A type that a plain argument may have.
#[diagnostic::on_unimplemented(
    message = "a plain argument of type `{Self}` cannot be part of a plan's key",
    note = "write `#[kernel_only]` before the argument if neither rule nor shape function needs it, or `impl PlanKey for {Self}`"
)]
pub trait PlanKey {
    /// Writes what tells this value from others.
    fn put(&self, key: &mut KeyWriter);
}

macro_rules! integer_key {
    ($($type:ty),*) => {$(
        impl PlanKey for $type {
            fn put(&self, key: &mut KeyWriter) { key.word(*self as u64); }
        }
    )*};
}
integer_key!(u8, u16, u32, u64, usize, i8, i16, i32, i64, isize, bool);

impl PlanKey for f64 {
    fn put(&self, key: &mut KeyWriter) {
        key.word(self.to_bits());
    }
}
impl PlanKey for f32 {
    fn put(&self, key: &mut KeyWriter) {
        key.word(u64::from(self.to_bits()));
    }
}
impl PlanKey for DType {
    fn put(&self, key: &mut KeyWriter) {
        key.word(*self as u64);
    }
}
impl PlanKey for Scalar {
    fn put(&self, key: &mut KeyWriter) {
        let (tag, bits) = self.key_bits();
        key.word(u64::from(tag));
        key.word(bits);
    }
}
impl PlanKey for str {
    fn put(&self, key: &mut KeyWriter) {
        key.word(self.len() as u64);
        for chunk in self.as_bytes().chunks(8) {
            key.word(chunk.iter().fold(0, |word, byte| word << 8 | u64::from(*byte)));
        }
    }
}
impl PlanKey for String {
    fn put(&self, key: &mut KeyWriter) {
        self.as_str().put(key);
    }
}
impl PlanKey for Shape {
    fn put(&self, key: &mut KeyWriter) {
        (**self).put(key);
    }
}
impl<T: PlanKey> PlanKey for [T] {
    fn put(&self, key: &mut KeyWriter) {
        key.word(self.len() as u64);
        self.iter().for_each(|value| value.put(key));
    }
}
impl<T: PlanKey> PlanKey for Vec<T> {
    fn put(&self, key: &mut KeyWriter) {
        self.as_slice().put(key);
    }
}
impl<A: smallvec::Array<Item: PlanKey>> PlanKey for SmallVec<A> {
    fn put(&self, key: &mut KeyWriter) {
        self.as_slice().put(key);
    }
}
impl<T: PlanKey, const N: usize> PlanKey for [T; N] {
    fn put(&self, key: &mut KeyWriter) {
        self.as_slice().put(key);
    }
}
impl<T: PlanKey> PlanKey for Option<T> {
    fn put(&self, key: &mut KeyWriter) {
        key.word(u64::from(self.is_some()));
        if let Some(value) = self {
            value.put(key);
        }
    }
}
impl<T: PlanKey + ?Sized> PlanKey for &T {
    fn put(&self, key: &mut KeyWriter) {
        (**self).put(key);
    }
}
impl<T: PlanKey> PlanKey for std::ops::Range<T> {
    fn put(&self, key: &mut KeyWriter) {
        self.start.put(key);
        self.end.put(key);
    }
}
impl<A: PlanKey, B: PlanKey> PlanKey for (A, B) {
    fn put(&self, key: &mut KeyWriter) {
        self.0.put(key);
        self.1.put(key);
    }
}
