//! Two simulated devices: what a plan moves and says, what lies where, and an op of one's own.
//!
//! `cargo run --release --example quickstart`

use sharding_ops::*;

fn main() -> Result<()> {
    // Reports of reshards go out through `tracing`; any subscriber shows them.
    tracing_subscriber::fmt().without_time().with_target(false).with_writer(std::io::stdout).init();

    let mesh = DeviceMesh::simulated(BackendKind::CPU, [2], ["tp"])?;
    let (a, b) = operands(&mesh)?;
    show("a", &a)?;
    show("b", &b)?;

    // Each device multiplies its columns of `a` by its rows of `b`: the product is Partial, a sum in two parts.
    // relu needs the sum itself, so it is reduced first, and the policy says so.
    let y = auto_reshard(Policy::warn(), || product(&a, &b))?;
    show("relu(matmul(a, b))", &y)?;
    println!("as a whole: {:?}\n", y.to_vec::<f32>()?);

    // The op from below, on the same tensors: `a` is split along the axis that is summed, so the result is Partial.
    let squares = sum_of_squares(&a)?;
    show("sum_of_squares(a)", &squares)?;
    println!("as a whole: {:?}\n", squares.to_vec::<f32>()?);

    // Its rule, checked: every row, on several meshes, uneven and empty shards included, against the kernel on the whole.
    println!(
        "{}",
        sharding_core::conformance::rule::check_rule(<sum_of_squares as Op>::DEF, BackendKind::CPU)?
    );
    Ok(())
}

/// Two matrices, split along the axis that their product sums.
pub fn operands(mesh: &DeviceMesh) -> Result<(Tensor, Tensor)> {
    let a = full([4, 8], 1.0, DType::F32, &DeviceMapping::new(mesh, [Sharded(1)])?)?;
    let b = full([8, 2], 1.0, DType::F32, &DeviceMapping::new(mesh, [Sharded(0)])?)?;
    Ok((a, b))
}

/// What it moves is pinned: `assert_comm!` in a test, and `comm.lock` at the root of the repository.
pub fn product(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    relu(&matmul(a, b)?)
}

/// Which part of a tensor each device holds.
fn show(name: &str, tensor: &Tensor) -> Result<()> {
    println!("{name}: {}", tensor.layout());
    for position in 0..tensor.mesh().num_devices() {
        let region = tensor.layout().region(position);
        let axes: Vec<String> = region.iter().map(|ranges| format!("{:?}", ranges.as_slice())).collect();
        let values = tensor.shard_to_vec::<f32>(position)?;
        println!("  device {position} holds indices {}: {values:?}", axes.join(" x "));
    }
    Ok(())
}

/// The sum of the squares along the last axis. The text says that the axis `k` may be split, and that its parts add up;
/// the shape function, the rows and the cases for the check follow from it.
#[sharding_rule(["... k -> ..."], reduce(k = sum), crate = sharding_ops)]
pub fn sum_of_squares(cx: &mut KernelCx, x: &LocalArray) -> Result<LocalArray> {
    let squares = cx.binary(BinaryOp::Mul, x, x)?;
    let last = x.shape().axis(-1)?;
    Ok(cx.reduce(ReduceOp::Sum, &squares, &[last])?.without(last))
}

// The same check as a test: `cargo test --example quickstart`.
sharding_core::check_rule!(sum_of_squares);

#[test]
fn the_product_is_reduced_once() {
    let mesh = DeviceMesh::simulated(BackendKind::CPU, [2], ["tp"]).unwrap();
    let (a, b) = operands(&mesh).unwrap();
    assert_comm!([all_reduce("tp") <= 32], product(&a, &b)).unwrap();
}
