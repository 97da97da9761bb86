//! What states are made of: tensors, and the containers that states stand in.

use super::{ByName, Leaf, Many, See, SeeMut, ShardedState, Site, StatePath};
use crate::Tensor;
use std::collections::BTreeMap;

impl ShardedState for Tensor {
    const TAKES_SPEC: bool = true;
    type Init<'s> = Leaf<'s>;
    fn init_at<'s>(at: &Site<'s>) -> Leaf<'s> {
        Leaf::new(at)
    }
    fn visit<'a>(&'a self, at: &StatePath<'_>, see: &mut See<'_, 'a>) {
        see(at, self);
    }
    fn visit_mut<'a>(&'a mut self, at: &StatePath<'_>, see: &mut SeeMut<'_, 'a>) {
        see(at, self);
    }
}

/// What is in it is made as if it were not in it: the initialiser says whether it is there.
impl<T: ShardedState> ShardedState for Option<T> {
    const TAKES_SPEC: bool = T::TAKES_SPEC;
    type Init<'s> = T::Init<'s>;
    fn init_at<'s>(at: &Site<'s>) -> T::Init<'s> {
        T::init_at(at)
    }
    fn visit<'a>(&'a self, at: &StatePath<'_>, see: &mut See<'_, 'a>) {
        if let Some(inner) = self {
            inner.visit(at, see);
        }
    }
    fn visit_mut<'a>(&'a mut self, at: &StatePath<'_>, see: &mut SeeMut<'_, 'a>) {
        if let Some(inner) = self {
            inner.visit_mut(at, see);
        }
    }
}

impl<T: ShardedState> ShardedState for Box<T> {
    const TAKES_SPEC: bool = T::TAKES_SPEC;
    type Init<'s> = T::Init<'s>;
    fn init_at<'s>(at: &Site<'s>) -> T::Init<'s> {
        T::init_at(at)
    }
    fn visit<'a>(&'a self, at: &StatePath<'_>, see: &mut See<'_, 'a>) {
        (**self).visit(at, see);
    }
    fn visit_mut<'a>(&'a mut self, at: &StatePath<'_>, see: &mut SeeMut<'_, 'a>) {
        (**self).visit_mut(at, see);
    }
}

/// Named by index.
impl<T: ShardedState> ShardedState for Vec<T> {
    const TAKES_SPEC: bool = T::TAKES_SPEC;
    type Init<'s> = Many<'s, T>;
    fn init_at<'s>(at: &Site<'s>) -> Many<'s, T> {
        Many::new(at)
    }
    fn visit<'a>(&'a self, at: &StatePath<'_>, see: &mut See<'_, 'a>) {
        self.iter().enumerate().for_each(|(i, inner)| inner.visit(&at.index(i), see));
    }
    fn visit_mut<'a>(&'a mut self, at: &StatePath<'_>, see: &mut SeeMut<'_, 'a>) {
        self.iter_mut().enumerate().for_each(|(i, inner)| inner.visit_mut(&at.index(i), see));
    }
}

/// Named by index.
impl<T: ShardedState, const N: usize> ShardedState for [T; N] {
    const TAKES_SPEC: bool = T::TAKES_SPEC;
    type Init<'s> = Many<'s, T>;
    fn init_at<'s>(at: &Site<'s>) -> Many<'s, T> {
        Many::new(at)
    }
    fn visit<'a>(&'a self, at: &StatePath<'_>, see: &mut See<'_, 'a>) {
        self.iter().enumerate().for_each(|(i, inner)| inner.visit(&at.index(i), see));
    }
    fn visit_mut<'a>(&'a mut self, at: &StatePath<'_>, see: &mut SeeMut<'_, 'a>) {
        self.iter_mut().enumerate().for_each(|(i, inner)| inner.visit_mut(&at.index(i), see));
    }
}

/// Named by key, in the order of keys.
impl<T: ShardedState> ShardedState for BTreeMap<String, T> {
    const TAKES_SPEC: bool = T::TAKES_SPEC;
    type Init<'s> = ByName<'s, T>;
    fn init_at<'s>(at: &Site<'s>) -> ByName<'s, T> {
        ByName::new(at)
    }
    fn visit<'a>(&'a self, at: &StatePath<'_>, see: &mut See<'_, 'a>) {
        self.iter().for_each(|(key, inner)| inner.visit(&at.entry(key), see));
    }
    fn visit_mut<'a>(&'a mut self, at: &StatePath<'_>, see: &mut SeeMut<'_, 'a>) {
        self.iter_mut().for_each(|(key, inner)| inner.visit_mut(&at.entry(key), see));
    }
}

/// Tuples are named by index: what `eager_sharded_init` gives may be a model and its optimizer.
macro_rules! tuple {
    ($($index:tt $name:ident),*) => {
        impl<$($name: ShardedState),*> ShardedState for ($($name,)*) {
            const TAKES_SPEC: bool = true $(&& $name::TAKES_SPEC)*;
            type Init<'s> = ($($name::Init<'s>,)*);
            fn init_at<'s>(at: &Site<'s>) -> Self::Init<'s> {
                ($($name::init_at(&at.index($index)),)*)
            }
            fn visit<'a>(&'a self, at: &StatePath<'_>, see: &mut See<'_, 'a>) {
                $(self.$index.visit(&at.index($index), see);)*
            }
            fn visit_mut<'a>(&'a mut self, at: &StatePath<'_>, see: &mut SeeMut<'_, 'a>) {
                $(self.$index.visit_mut(&at.index($index), see);)*
            }
        }
    };
}
tuple!(0 A, 1 B);
tuple!(0 A, 1 B, 2 C);
tuple!(0 A, 1 B, 2 C, 3 D);
