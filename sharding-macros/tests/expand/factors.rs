/// A matrix product.
#[sharding_rule(["... m k, ... k n -> ... m n", "k, ... k n -> ... n"], reduce(k = sum), linear(each))]
#[must_use]
pub fn matmul(cx: &mut KernelCx, lhs: &LocalArray, rhs: &LocalArray) -> Result<LocalArray> {
    cx.dot(lhs, rhs)
}

#[sharding_rule(["..., ... -> ..."], linear(lhs, rhs), crate = sharding_ops)]
fn mul(cx: &mut KernelCx, #[scalar] lhs: &LocalArray, #[scalar] rhs: &LocalArray) -> Result<LocalArray> {
    cx.binary(BinaryOp::Mul, lhs, rhs)
}
