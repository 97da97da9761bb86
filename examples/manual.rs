//! A matrix product in which no device ever holds the whole of an operand: blocks travel around a ring, while each device
//! multiplies the one it has. Written by hand in a manual region, with `ppermute`, and checked against `matmul`.
//!
//! `cargo run --release --example manual`

use sharding_ops::*;

const DEVICES: usize = 4;

fn main() -> Result<()> {
    let mesh = DeviceMesh::simulated(BackendKind::CPU, [DEVICES], ["x"])?;
    let (a, w) = operands(&mesh)?;
    println!("a: {}\nw: {}\n", a.layout(), w.layout());

    // What the ring moves, and what it makes.
    let ring = ring_matmul(&mesh)?;
    let explained = explain(|| ring.call([&a, &w]));
    println!("what moved:\n{}", explained.report);
    let [product] = explained.value?;
    // The region's mesh is the same one, with an axis type that says that its ops move nothing.
    let product = product.on(&mesh)?;
    println!("ring product: {}", product.layout());

    // The op joins the rows of `a` on every device first.
    let explained = explain(|| a.matmul(&w));
    println!("\nmatmul moves instead:\n{}", explained.report);
    let want = explained.value?.to_vec::<f32>()?;
    let most = product.to_vec::<f32>()?.iter().zip(&want).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    println!("largest difference of the two products: {most}");
    if most > 1e-4 {
        return Err(Error::new(ErrorKind::Kernel, format!("the products differ by {most}")));
    }

    // A device that does not do what the others do: all of them are told, and nothing hangs.
    let error = diverging(&mesh)?.call([&a]).err();
    println!(
        "\na region whose devices disagree says:\n{}",
        error.map(|error| error.to_string()).unwrap_or_default()
    );
    Ok(())
}

/// `a` is split by rows, `w` by columns.
pub fn operands(mesh: &DeviceMesh) -> Result<(Tensor, Tensor)> {
    let values = |n: usize| (0..n).map(|i| ((i * 37) % 101) as f32 / 50.0 - 1.0).collect::<Vec<f32>>();
    let a = Tensor::from_slice(&values(64 * 48), [64, 48], &DeviceMapping::new(mesh, [Sharded(0)])?)?;
    let w = Tensor::from_slice(&values(48 * 32), [48, 32], &DeviceMapping::new(mesh, [Sharded(1)])?)?;
    Ok((a, w))
}

/// `a @ w`, split by columns: every device multiplies each block of `a`'s rows by its own columns of `w`, while the blocks go
/// around.
pub fn ring_matmul(mesh: &DeviceMesh) -> Result<ShardMap<2, 1>> {
    shard_map(&mesh.with_axis_types([AxisType::Manual])?)
        .in_specs([spec!["x", None], spec![None, "x"]])
        .out_specs([spec![None, "x"]])
        .wrap(|cx, [a, w]| {
            let (n, own) = (cx.axis_size("x")?, cx.coord("x")?);
            let next: Vec<(usize, usize)> = (0..n).map(|device| (device, (device + 1) % n)).collect();
            let mut block = a;
            let mut rows: Vec<(usize, Tensor)> = Vec::new();
            for step in 0..n {
                // After so many steps the block is that of the device so many places before.
                rows.push(((own + n - step) % n, block.matmul(&w)?));
                if step + 1 < n {
                    block = cx.ppermute(&block, "x", &next)?;
                }
            }
            rows.sort_by_key(|(owner, _)| *owner);
            let rows: Vec<Tensor> = rows.into_iter().map(|(_, rows)| rows).collect();
            Ok([concat(&rows, 0)?])
        })
}

/// The first device sums, the others want the greatest.
pub fn diverging(mesh: &DeviceMesh) -> Result<ShardMap<1, 1>> {
    shard_map(&mesh.with_axis_types([AxisType::Manual])?).in_specs([spec!["x"]]).out_specs([spec![]]).wrap(
        |cx, [a]| {
            let first = cx.coord("x")? == 0;
            Ok([if first { cx.psum(&a, "x")? } else { cx.pmax(&a, "x")? }])
        },
    )
}

#[test]
fn the_ring_is_the_product() {
    let mesh = DeviceMesh::simulated(BackendKind::CPU, [DEVICES], ["x"]).unwrap();
    let (a, w) = operands(&mesh).unwrap();
    let [ring] = ring_matmul(&mesh).unwrap().call([&a, &w]).unwrap();
    let want = a.matmul(&w).unwrap().to_vec::<f32>().unwrap();
    for (got, want) in ring.to_vec::<f32>().unwrap().iter().zip(want) {
        assert!((got - want).abs() < 1e-4, "{got} and not {want}");
    }
    assert_eq!(ring.layout().places(), [Sharded(1)]);
    assert_eq!(diverging(&mesh).unwrap().call([&a]).unwrap_err().kind(), ErrorKind::Manual);
}
