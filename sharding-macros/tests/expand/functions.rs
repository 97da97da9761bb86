#[sharding_rule(rule = rules::top, shape = top_shape, cases = top_cases, stages = top_stages)]
pub fn top(
    cx: &mut KernelCx,
    x: &LocalArray,
    more: &[&LocalArray],
    bias: Option<&LocalArray>,
    k: usize,
    axes: &[isize],
    mode: Option<&str>,
    #[kernel_only] seed: u64,
) -> Result<(LocalArray, LocalArray)> {
    body(cx, x, more, bias, k, axes, mode, seed)
}

#[sharding_rule(rows = [S(0) => S(0)], shape = pieces_shape)]
pub fn pieces(cx: &mut KernelCx, x: &LocalArray, sizes: &[usize]) -> Result<Vec<LocalArray>> {
    cut(cx, x, sizes)
}
