#[sharding_rule(rule = rule, shapes = shape)]
pub fn arguments(cx: &mut KernelCx, x: &LocalArray, k: usize) -> Result<LocalArray> {
    body(cx, x, k)
}

#[sharding_rule(["m -> m"])]
pub async fn signature<T>(cx: &mut KernelCx, x: LocalArray, (a, b): (T, T), k: usize) -> Result<LocalArray> {
    body(cx, x, a, b, k)
}
