//! Redistribution: changing the placements of a tensor by a program of steps.
//!
//! A step is one collective over one or several mesh axes at once. [`Program::search`] finds the cheapest program under
//! a cost model, [`Program::run`] runs it, and [`explain_transfer`] says what it is without running it.
//!
//! * A step is legal only if the indices that every device holds after it lie inside what its group held before; for
//!   local_slice, keep_one_copy and reduce_scatter inside what it held itself. Several mesh axes that split one tensor
//!   axis are one balanced split, so only the last of them can be added or removed without an exchange, and only where
//!   the cuts nest (10 rows are 5, 5 over 2 devices but 3, 3, 2, 2 over 2x2: one row crosses). Where they do not, the
//!   rows at the boundaries are permuted.
//! * On the way a mesh axis wears its source placement, Replicated, or its target placement, and no device holds more than
//!   the most that one holds before or after. One exception: where cuts are uneven, prices of collectives count fractions of
//!   an index and those of exchanges whole ones, so that under the volume model every program within that bound may cost more
//!   than combining, gathering and slicing one after the other. Then mesh axes may also go by splits of other tensor axes,
//!   and where that is too dear as well, the program is taken that holds least of those that are not.
//! * Sums and products of floats follow the tree of all parts combined at once, whatever steps combine them, so that a value has
//!   the same bits on every way; those of f16 and bf16, which are rounded after each step, take one step. `state` says when a
//!   step keeps the tree. Only where every program that keeps it costs more than combining, gathering and slicing one after the
//!   other, or a model gives all of them the price infinity, others are searched.
//! * Where parts are combined, a mesh axis that changes may go by a split of another tensor axis, its detour: the one that is most
//!   likely of use, and one that all devices cut evenly unless the tree leaves few ways. One that stays Replicated is left alone:
//!   its replicas could share the work of a reduction, for fewer bytes in more steps.
//! * Copies are given up (keep_one_copy) in the last step, unless that frees a split: given up before a gather they would cost
//!   less, by a 64th of what the gather adds at most.

mod axis_set;
mod cache;
mod explain;
mod floor;
pub(crate) mod index_cut;
mod mesh_move;
mod overlap;
mod price;
mod program;
mod reference;
mod run;
mod search;
mod state;

pub(crate) use cache::{clear as clear_programs, program};
pub use explain::{Explanation, explain_transfer};
pub(crate) use mesh_move::whole_shards;
pub(crate) use overlap::{Run, overlap};
pub use program::Program;
