//! Every rule is checked: each row against the kernel on whole inputs.

use sharding_core::BackendKind;
use sharding_core::conformance::rule::assert_rule;
use sharding_core::op::Registry;

macro_rules! rules {
    ($($op:ident),* $(,)?) => {
        sharding_core::check_rule!($($op),*);

        /// The ops with a test here.
        const CHECKED: &[&str] = &[$(stringify!($op)),*, "where"];
    };
}

rules!(
    abs,
    add,
    broadcast_to,
    buffer_store,
    buffer_store_slice,
    cast,
    chunk,
    clamp,
    concat,
    div,
    embedding,
    eq,
    erf,
    exp,
    flatten,
    flip,
    gather,
    ge,
    gelu,
    gelu_tanh,
    gt,
    layer_norm,
    le,
    linear,
    log,
    logical_and,
    logical_not,
    logical_or,
    logical_xor,
    lt,
    matmul,
    max,
    maximum,
    mean,
    min,
    minimum,
    mul,
    ne,
    neg,
    pad,
    permute,
    pow,
    prod,
    relu,
    repeat,
    reshape,
    rms_norm,
    roll,
    rsqrt,
    sigmoid,
    silu,
    scaled_dot_product_attention,
    slice,
    softmax,
    split,
    sqrt,
    squeeze,
    stack,
    sub,
    sum,
    tanh,
    tile,
    transpose,
    unsqueeze,
);

#[test]
fn where_is_sound() {
    assert_rule("where", BackendKind::CPU);
}

#[test]
fn no_op_is_left_out() {
    use sharding_ops as _;
    let registered: Vec<_> = Registry::get().unwrap().ops().map(|def| def.name).collect();
    let missing: Vec<_> = registered.iter().filter(|name| !CHECKED.contains(name)).collect();
    assert!(missing.is_empty() && registered.len() == CHECKED.len(), "no test for {missing:?}");
}
