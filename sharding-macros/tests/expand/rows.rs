#[sharding_rule(rows = [(S(0), S(-1)) => (), (R, P(max)) => ()], shape = store_shape, cases = store_cases)]
pub(crate) fn store(cx: &mut KernelCx, into: &mut LocalArray, source: &LocalArray) -> Result<()> {
    cx.store(into, source, &[0])
}
