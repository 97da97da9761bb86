//! From hidden states to one embedding a sentence.

use sharding_ops::{Tensor, mul, sum};

use crate::Result;
use crate::moves::Moves;

/// The shortest vector that is divided by its length; a shorter one is divided by this, as PyTorch's `normalize` does.
const SHORTEST: f32 = 1e-12;

/// The mean of `[sentence, token, hidden]` over tokens, by the `share` of each token, scaled to the length 1.
///
/// # Errors
/// What an op says.
pub fn pool(hidden: &Tensor, share: &Tensor, moves: &Moves) -> Result<Vec<Vec<f32>>> {
    let mean = moves.gather("embeddings", &sum(&mul(hidden, share)?, 1, false)?)?;
    let width = mean.shape().get(1).copied().unwrap_or(0).max(1);
    // There is no square root among the ops yet; these are few numbers.
    Ok(mean.to_vec::<f32>()?.chunks(width).map(normalized).collect())
}

fn normalized(vector: &[f32]) -> Vec<f32> {
    let squares: f64 = vector.iter().map(|value| f64::from(*value).powi(2)).sum();
    let length = (squares.sqrt() as f32).max(SHORTEST);
    vector.iter().map(|value| value / length).collect()
}

#[cfg(test)]
mod tests {
    use super::normalized;

    #[test]
    fn a_vector_gets_the_length_one_unless_it_has_none() {
        assert_eq!(normalized(&[3.0, -4.0]), [0.6, -0.8]);
        assert_eq!(normalized(&[0.0, 0.0]), [0.0, 0.0]);
        let long = normalized(&[f32::MAX, 0.0]);
        assert_eq!(long, [1.0, 0.0]);
    }
}
