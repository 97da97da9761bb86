#[sharding_rule(["m -> m"], whole(m))]
pub fn foreign(cx: &mut KernelCx, x: &LocalArray) -> Result<LocalArray>;

#[kernel(op = sharding_ops::top_k, backend = "cuda")]
fn top_k_cuda(cx: &mut KernelCx, x: &LocalArray, k: usize) -> Result<(LocalArray, LocalArray)> {
    launch(cx, x, k)
}
