//! Which part of which shard goes where in an exchange: worked out once for a map and its layouts.

use super::{Share, index_of, shares};
use crate::backend::{Backend, Exchange, IndexMap};
use crate::plan::Generations;
use crate::redistribute::index_cut::{self, Part};
use crate::{Error, ErrorKind, Result, Shape, TensorLayout};
use rustc_hash::FxHasher;
use smallvec::SmallVec;
use std::cell::RefCell;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// Recipes per generation; a thread keeps at most twice as many.
const GENERATION: usize = 256;
/// Recipes of more parts are not kept: copying those takes longer than finding them.
const MOST_PARTS: usize = 256;

/// What the devices of this process make of the map of an exchange, whatever memory the shards lie in.
pub(super) struct Recipe {
    /// For each position whether it has the shard of an earlier one.
    pub(super) shares: SmallVec<[Share; 8]>,
    /// The shards that are made, in the order of their positions.
    pub(super) made: Vec<Made>,
}

/// A shard of the result.
pub(super) struct Made {
    pub(super) position: usize,
    pub(super) shape: Shape,
    pub(super) parts: Vec<Taken>,
    /// Whether the parts cover it; else the rest is the map's fill.
    pub(super) full: bool,
}

/// A part of a shard of an operand.
pub(super) struct Taken {
    pub(super) operand: usize,
    /// The number of the shard among those of the process.
    pub(super) shard: usize,
    pub(super) part: Part,
}

struct Entry {
    map: IndexMap,
    operands: SmallVec<[TensorLayout; 2]>,
    result: TensorLayout,
    positions: Arc<[usize]>,
    recipe: Arc<Recipe>,
}

thread_local! {
    static RECIPES: RefCell<Generations<Entry>> = RefCell::new(Generations::new(GENERATION));
}

/// The recipe of an exchange, from the cache of this thread if it was asked for before.
///
/// # Errors
/// [`ErrorKind::Process`] for a shard that is in another process, [`ErrorKind::Internal`] for a map that does not fit.
pub(super) fn recipe(
    backend: &dyn Backend,
    op: &'static str,
    exchange: &Exchange<'_>,
) -> Result<Arc<Recipe>> {
    let positions = backend.positions(exchange.result.mesh())?;
    let hash = hash(exchange);
    let fits = |entry: &Entry| {
        entry.result == *exchange.result
            && entry.operands[..] == *exchange.operands
            && entry.map == *exchange.map
            && entry.positions == positions
    };
    if let Some(found) =
        RECIPES.with(|cache| cache.borrow_mut().get(hash, fits, |entry| entry.recipe.clone()))
    {
        return Ok(found);
    }
    let recipe = Arc::new(Recipe::new(backend, exchange, &positions).map_err(|error| error.with_op(op))?);
    if recipe.made.iter().map(|made| made.parts.len()).sum::<usize>() <= MOST_PARTS {
        let entry = Entry {
            map: exchange.map.clone(),
            operands: exchange.operands.into(),
            result: exchange.result.clone(),
            positions,
            recipe: recipe.clone(),
        };
        RECIPES.with(|cache| cache.borrow_mut().keep(hash, entry));
    }
    Ok(recipe)
}

fn hash(exchange: &Exchange<'_>) -> u64 {
    let mut hasher = FxHasher::default();
    exchange.result.hash64().hash(&mut hasher);
    exchange.operands.iter().for_each(|layout| layout.hash64().hash(&mut hasher));
    exchange.map.pieces.hash(&mut hasher);
    hasher.finish()
}

impl Recipe {
    fn new(backend: &dyn Backend, exchange: &Exchange<'_>, positions: &[usize]) -> Result<Self> {
        let shares = shares(backend, exchange.result, positions)?;
        let own = positions.iter().zip(&shares).filter(|(_, share)| **share == Share::Own);
        let made =
            own.map(|(position, _)| Made::new(exchange, positions, *position)).collect::<Result<_>>()?;
        Ok(Self { shares, made })
    }
}

impl Made {
    fn new(exchange: &Exchange<'_>, positions: &[usize], position: usize) -> Result<Self> {
        let shape = exchange.result.local_shape(position);
        let mut parts = Vec::new();
        let mut covered = 0;
        for cut in exchange.cuts(position)? {
            let wanted = cut.elements();
            let mut found = 0;
            let (operand, layout) = (cut.operand, exchange.operand(cut.operand)?);
            for owner in exchange.owners(operand, position)? {
                if found == wanted {
                    break;
                }
                let shard = index_of(positions, owner).ok_or_else(|| {
                    Error::new(
                        ErrorKind::Process,
                        format!("the shard of device {owner} of {layout} is in another process"),
                    )
                    .with_fix("use a backend with collectives between processes")
                })?;
                found += index_cut::parts(&cut, &layout.region(owner), |part| {
                    parts.push(Taken { operand, shard, part });
                });
            }
            if found != wanted {
                return Err(Error::new(
                    ErrorKind::Internal,
                    format!("device {position} lacks elements of {layout} for {}", exchange.result),
                ));
            }
            covered += wanted;
        }
        let full = covered == shape.elements();
        Ok(Self { position, shape, parts, full })
    }
}

/// Forgets the recipes of this thread.
pub(crate) fn clear() {
    RECIPES.with(|cache| cache.borrow_mut().clear());
}
