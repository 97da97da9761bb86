//! Bad input gives an error that names op, operand, layout and remedy, and never a panic.

use sharding_ops::*;

fn mesh() -> DeviceMesh {
    DeviceMesh::simulated(BackendKind::CPU, [2], ["tp"]).unwrap()
}

fn on(places: impl AsRef<[Place]>) -> DeviceMapping {
    DeviceMapping::new(&mesh(), places).unwrap()
}

fn floats(shape: impl Into<Shape>, place: Place) -> Tensor {
    full(shape, 1.0, DType::F32, &on([place])).unwrap()
}

fn integers(shape: impl Into<Shape>) -> Tensor {
    full(shape, 1_i64, DType::I64, &on([Replicated])).unwrap()
}

fn truths(shape: impl Into<Shape>) -> Tensor {
    full(shape, true, DType::Bool, &on([Replicated])).unwrap()
}

/// The error names the op, an operand with dtype, shape and placement, and a remedy, and is of this kind.
#[track_caller]
fn check<T: std::fmt::Debug>(op: &str, kind: ErrorKind, result: Result<T>, words: &[&str]) {
    let error = result.unwrap_err();
    let text = error.to_string();
    assert_eq!(error.kind(), kind, "{text}");
    assert_eq!(error.op(), Some(op), "{text}");
    assert!(error.fix().is_some(), "no remedy: {text}");
    assert!(!error.operands().is_empty(), "no operands: {text}");
    let placed = |operand: &String| operand.contains("{tp: ") || operand.ends_with(": a number");
    assert!(error.operands().iter().all(placed), "no layout: {text}");
    let begins_with_a_type = error.message().starts_with("DeviceMesh(");
    assert!(begins_with_a_type || !error.message().starts_with(char::is_uppercase), "{text}");
    assert!(!error.message().ends_with('.'), "{text}");
    for word in words {
        assert!(text.contains(word), "no '{word}' in: {text}");
    }
}

#[test]
fn shapes_that_do_not_fit() {
    let (a, b) = (floats([4, 8], Sharded(0)), floats([6, 2], Replicated));
    check("matmul", ErrorKind::Shape, matmul(&a, &b), &["lhs: f32[4, 8] {tp: Sharded(0)}", "8", "6"]);
    check("matmul", ErrorKind::Shape, matmul(&a, &floats([3, 8], Replicated)), &["permute(&rhs, &[1, 0])"]);
    check("matmul", ErrorKind::Shape, matmul(&a, &floats([], Replicated)), &["mul(&lhs, &rhs)"]);
    let batches = (floats([2, 3, 4], Replicated), floats([5, 4, 6], Replicated));
    check("matmul", ErrorKind::Shape, matmul(&batches.0, &batches.1), &["batch", "[2]", "[5]"]);
    check("add", ErrorKind::Shape, add(&a, &b), &["[4, 8]", "[6, 2]", "broadcast"]);
    check("sub", ErrorKind::Shape, &a - &b, &["broadcast"]);
    check("where", ErrorKind::Shape, where_(&truths([3]), &a, 0.0), &["condition"]);
    check("layer_norm", ErrorKind::Shape, layer_norm(&a, &b, &b, 1e-5), &["gamma", "[8]"]);
    check("layer_norm", ErrorKind::Shape, layer_norm(&floats([], Replicated), &b, &b, 1e-5), &["axis"]);
    check("rms_norm", ErrorKind::Shape, rms_norm(&a, &b, 1e-5), &["weight", "[8]"]);
    check("lt", ErrorKind::Shape, lt(&a, &b), &["broadcast"]);
    check("clamp", ErrorKind::Shape, clamp(&a, &b, 1.0), &["low", "[6, 2]"]);
    check("linear", ErrorKind::Shape, linear(&a, &b, None), &["[6, 2]", "takes 2", "[6, 8]"]);
    check(
        "linear",
        ErrorKind::Shape,
        linear(&a, &floats([8, 3], Replicated), None),
        &["matmul(&x, &weight)"],
    );
    check("linear", ErrorKind::Shape, linear(&a, &floats([8], Replicated), None), &["[out, in]"]);
    let weight = floats([6, 8], Replicated);
    check("linear", ErrorKind::Shape, linear(&a, &weight, Some(&floats([8], Replicated))), &["bias", "[6]"]);
    check("linear", ErrorKind::Shape, linear(&floats([], Replicated), &weight, None), &["axis"]);
    check("min", ErrorKind::Shape, min(&floats([4, 0], Replicated), 1, true), &["extent 0"]);
    check("concat", ErrorKind::Shape, concat(&[a.clone(), b.clone()], 0), &["xs.1", "xs.0: f32[4, 8]"]);
    check("reshape", ErrorKind::Shape, reshape(&a, &[5, 7]), &["32"]);
    check("reshape", ErrorKind::Shape, reshape(&a, &[-1, 0]), &["-1"]);
    check("max", ErrorKind::Shape, max(&floats([4, 0], Replicated), 1, true), &["extent 0"]);
    check("mean", ErrorKind::Shape, mean(&floats([4, 0], Replicated), 1, true), &["extent 0"]);
    check(
        "embedding",
        ErrorKind::Shape,
        embedding(&floats([0, 3], Replicated), &integers([2])),
        &["extent 0"],
    );
    let mut buffer = TensorBuffer::new(a.clone());
    check("buffer_store", ErrorKind::Shape, buffer_store(&mut buffer, &b), &["buffer_store_slice"]);
    check(
        "buffer_store_slice",
        ErrorKind::Shape,
        buffer_store_slice(&mut buffer, &b, &index![0..2]),
        &["[2, 8]"],
    );
}

#[test]
fn axes_and_arguments_that_are_not_there() {
    let x = floats([4, 8], Sharded(0));
    for axis in [2, -3, isize::MAX, isize::MIN] {
        check("sum", ErrorKind::Axis, sum(&x, axis, true), &["x: f32[4, 8] {tp: Sharded(0)}", "-2..2"]);
        check("max", ErrorKind::Axis, max(&x, axis, false), &[]);
        check("mean", ErrorKind::Axis, mean(&x, axis, false), &[]);
        check("softmax", ErrorKind::Axis, softmax(&x, axis), &[]);
        check("concat", ErrorKind::Axis, concat(std::slice::from_ref(&x), axis), &[]);
        check("gather", ErrorKind::Axis, gather(&x, &integers([2]), axis), &[]);
        check("permute", ErrorKind::Axis, permute(&x, &[0, axis]), &[]);
        check("flip", ErrorKind::Axis, flip(&x, &[axis]), &[]);
        check("roll", ErrorKind::Axis, roll(&x, 1, axis), &[]);
        check("repeat", ErrorKind::Axis, repeat(&x, 2, axis), &[]);
        check("all_gather", ErrorKind::Axis, all_gather(&x, "tp", axis), &[]);
    }
    check("permute", ErrorKind::Axis, permute(&x, &[0, 0]), &["once"]);
    check("permute", ErrorKind::Axis, permute(&x, &[1]), &["once"]);
    check("flip", ErrorKind::Axis, flip(&x, &[0, -2]), &["twice"]);
    check("pad", ErrorKind::Argument, pad(&x, &[(1, 1)], 0.0.into()), &["(0, 0)"]);
    check("pad", ErrorKind::DType, pad(&integers([2]), &[(1, 1)], 0.5.into()), &["0.5", "i64"]);
    let large = (usize::MAX, 1);
    check("pad", ErrorKind::Overflow, pad(&x, &[large, (0, 0)], 0.0.into()), &["too many"]);
    check("tile", ErrorKind::Overflow, tile(&x, &[usize::MAX, 2]), &["too many"]);
    check("tile", ErrorKind::Shape, tile(&x, &[1; 17]), &["17"]);
    check("repeat", ErrorKind::Overflow, repeat(&x, usize::MAX, 0), &["axis 0"]);
    check("reshape", ErrorKind::Argument, reshape(&x, &[-1, -1]), &["-1"]);
    check("reshape", ErrorKind::Argument, reshape(&x, &[-2]), &["-2"]);
    check("reshape", ErrorKind::Overflow, reshape(&x, &[isize::MAX, isize::MAX]), &["too many"]);
    check("slice", ErrorKind::Argument, slice(&x, &index![4]), &["axis 0", "-4..4"]);
    check("slice", ErrorKind::Argument, slice(&x, &[Index::ALL.step(0)]), &["step"]);
    check("slice", ErrorKind::Argument, slice(&x, &index![0, 0, 0]), &["more indices"]);
    for eps in [-1.0, f64::NAN, f64::INFINITY] {
        let weight = floats([8], Replicated);
        check("layer_norm", ErrorKind::Argument, layer_norm(&x, &weight, &weight, eps), &["eps"]);
    }
    let mut buffer = TensorBuffer::new(x);
    let stepped = [Index::from(0..4).step(2)];
    check(
        "buffer_store_slice",
        ErrorKind::Argument,
        buffer_store_slice(&mut buffer, &floats([2, 8], Replicated), &stepped),
        &["step of 2"],
    );
}

#[test]
fn dtypes_that_do_not_fit() {
    let (x, i, t) = (floats([4, 8], Sharded(0)), integers([4, 8]), truths([4, 8]));
    check("add", ErrorKind::DType, add(&x, &i), &["lhs is f32 and rhs is i64", "i64[4, 8]"]);
    check("mul", ErrorKind::DType, mul(&t, &t), &["truth values"]);
    check("matmul", ErrorKind::DType, matmul(&t, &t), &["truth values"]);
    check("div", ErrorKind::DType, div(&i, &i), &["floating-point"]);
    check("relu", ErrorKind::DType, relu(&t), &["truth values"]);
    check("gelu", ErrorKind::DType, gelu(&i), &["floating-point"]);
    check("exp", ErrorKind::DType, exp(&i), &["floating-point", "cast(&x, DType::F32)"]);
    check("pow", ErrorKind::DType, pow(&i, 2), &["base is i64"]);
    check("silu", ErrorKind::DType, silu(&i), &["floating-point"]);
    check("neg", ErrorKind::DType, -&t, &["truth values", "cast(&x, DType::I64)"]);
    check("logical_not", ErrorKind::DType, logical_not(&x), &["truth values", "ne(&x, 0)"]);
    check("logical_and", ErrorKind::DType, logical_and(&t, &x), &["rhs is f32"]);
    check("gt", ErrorKind::DType, gt(&t, &t), &["truth values"]);
    check("eq", ErrorKind::DType, eq(&x, &i), &["cast(&rhs, DType::F32)"]);
    check("maximum", ErrorKind::DType, maximum(&x, &i), &["rhs is i64"]);
    check("clamp", ErrorKind::DType, clamp(&i, 0, 1.5), &["1.5"]);
    check("rms_norm", ErrorKind::DType, rms_norm(&x, &integers([8]), 1e-5), &["weight is i64"]);
    check("linear", ErrorKind::DType, linear(&x, &integers([2, 8]), None), &["weight is i64"]);
    check("softmax", ErrorKind::DType, softmax(&i, 0), &["floating-point"]);
    check("mean", ErrorKind::DType, mean(&i, 0, true), &["floating-point"]);
    check("sum", ErrorKind::DType, sum(&t, 0, true), &["truth values"]);
    check("where", ErrorKind::DType, where_(&x, &x, &x), &["condition is f32"]);
    check("where", ErrorKind::DType, where_(&t, &x, &i), &["x is f32 and y is i64"]);
    check("embedding", ErrorKind::DType, embedding(&x, &x), &["indices are i64"]);
    check("gather", ErrorKind::DType, gather(&x, &t, 0), &["indices are i64"]);
    check("concat", ErrorKind::DType, concat(&[x.clone(), i.clone()], 0), &["xs.1"]);
    check("buffer_store", ErrorKind::DType, buffer_store(&mut TensorBuffer::new(x), &i), &["destination"]);
    check("add", ErrorKind::DType, add(&i, 1.5), &["1.5"]);
}

#[test]
fn placements_that_do_not_fit() {
    let (rows, whole, parts) =
        (floats([4, 8], Sharded(0)), floats([4, 8], Replicated), floats([4, 8], Partial(ReduceOp::Sum)));
    let columns = floats([4, 8], Sharded(1));
    let sharding = ErrorKind::Sharding;
    check(
        "buffer_store",
        sharding,
        buffer_store(&mut TensorBuffer::new(rows.clone()), &columns),
        &["never moves"],
    );
    check(
        "buffer_store",
        sharding,
        buffer_store(&mut TensorBuffer::new(whole.clone()), &parts),
        &["transfer_to"],
    );
    let part = floats([2, 8], Sharded(0));
    let stored = buffer_store_slice(&mut TensorBuffer::new(rows.clone()), &part, &index![2..4]);
    check("buffer_store_slice", sharding, stored, &["Replicated", "transfer_to"]);
    check("all_reduce", sharding, all_reduce(&rows, "tp"), &["'tp' of size 2", "all_gather(&x, \"tp\", 0)"]);
    check("all_reduce", sharding, all_reduce(&whole, "tp"), &["Replicated"]);
    check("all_gather", sharding, all_gather(&rows, "tp", 1), &["Sharded(0)", "tensor axis 1"]);
    check("all_gather", sharding, all_gather(&parts, 0, 0), &["all_reduce(&x, \"tp\")"]);
    check("reduce_scatter", sharding, reduce_scatter(&whole, ["tp"], 0), &["Sharded(0)"]);
    let refused = auto_reshard(Policy::raise(), || relu(&parts));
    let error = refused.unwrap_err();
    assert_eq!((error.kind(), error.op()), (sharding, Some("relu")));
    assert!(error.to_string().contains("all_reduce"), "{error}");
}

#[test]
fn mesh_axes_that_are_not_there() {
    let parts = floats([4], Partial(ReduceOp::Sum));
    check("all_reduce", ErrorKind::Axis, all_reduce(&parts, "dp"), &["'dp'", "tp"]);
    check("all_reduce", ErrorKind::Axis, all_reduce(&parts, 1), &["1"]);
    check("all_reduce", ErrorKind::DuplicateAxis, all_reduce(&parts, ["tp", "tp"]), &["twice"]);
    check("reduce_scatter", ErrorKind::Axis, reduce_scatter(&parts, "dp", 0), &["'dp'"]);
}

#[test]
fn meshes_that_differ() {
    let other = DeviceMesh::simulated(BackendKind::CPU, [2], ["dp"]).unwrap();
    let y = full([4], 1.0, DType::F32, &DeviceMapping::new(&other, [Sharded(0)]).unwrap()).unwrap();
    let error = add(&floats([4], Sharded(0)), &y).unwrap_err();
    assert_eq!((error.kind(), error.op()), (ErrorKind::Sharding, Some("add")));
    assert!(error.fix().is_some_and(|fix| fix.contains("transfer_to")), "{error}");
}

#[test]
fn indices_out_of_range() {
    for place in [Replicated, Sharded(0)] {
        let table = floats([4, 2], place);
        for bad in [4, -1, i64::MAX, i64::MIN] {
            let ids = Tensor::from_slice(&[0, bad], [2], &on([Replicated])).unwrap();
            let error = embedding(&table, &ids).unwrap_err();
            assert_eq!(error.op(), Some("embedding"));
            assert!(error.to_string().contains(&bad.to_string()), "{error}");
        }
    }
}

#[test]
fn nothing_to_work_on() {
    let error = concat(&[], 0).unwrap_err();
    assert_eq!((error.kind(), error.op()), (ErrorKind::Argument, Some("concat")));
    let error = add(1.0, 2.0).unwrap_err();
    assert_eq!((error.kind(), error.op()), (ErrorKind::Argument, Some("add")));
    assert!(error.fix().is_some());
}

#[test]
fn values_that_cannot_be_placed() {
    for (value, dtype) in [(Scalar::Float(0.5), DType::I64), (Scalar::Int(1), DType::Bool)] {
        let error = full([2], value, dtype, &on([Replicated])).unwrap_err();
        assert_eq!((error.kind(), error.op()), (ErrorKind::DType, Some("full")));
    }
    assert_eq!(full([2], 1.0, DType::F32, &on([Unknown])).unwrap_err().kind(), ErrorKind::Mapping);
    assert_eq!(full([2], 1.0, DType::F32, &on([Sharded(1)])).unwrap_err().kind(), ErrorKind::Mapping);
    assert_eq!(
        full([usize::MAX, 2], 1.0, DType::F32, &on([Replicated])).unwrap_err().kind(),
        ErrorKind::Overflow
    );
}

#[test]
fn attention_that_does_not_fit() {
    let query = floats([2, 4, 3, 8], Sharded(1));
    let attend =
        |query: &Tensor, key: &[usize], value: &[usize], mask: Option<&Tensor>, scale: Option<f64>| {
            let (key, value) = (floats(key, Replicated), floats(value, Replicated));
            scaled_dot_product_attention(query, &key, &value, mask, false, scale)
        };
    let check = |kind, result, words: &[&str]| check("scaled_dot_product_attention", kind, result, words);
    let kv: &[usize] = &[2, 4, 5, 8];
    check(
        ErrorKind::Shape,
        attend(&query, &[4, 5, 8], &[4, 5, 8], None, None),
        &["key", "as many", "reshape(&key"],
    );
    check(ErrorKind::Shape, attend(&query, &[3, 4, 5, 8], &[3, 4, 5, 8], None, None), &["batch axis 0"]);
    check(ErrorKind::Shape, attend(&query, kv, &[2, 4, 6, 8], None, None), &["axis 2", "one value"]);
    check(ErrorKind::Shape, attend(&query, &[2, 4, 5, 7], &[2, 4, 5, 7], None, None), &["last axis"]);
    check(ErrorKind::Shape, attend(&query, &[2, 3, 5, 8], &[2, 3, 5, 8], None, None), &["4 heads", "the 3"]);
    check(ErrorKind::Shape, attend(&query, &[2, 0, 5, 8], &[2, 0, 5, 8], None, None), &["4 heads", "the 0"]);
    check(
        ErrorKind::Shape,
        attend(&query, kv, kv, Some(&floats([3, 4], Replicated)), None),
        &["[2, 4, 3, 5]"],
    );
    check(ErrorKind::DType, attend(&query, kv, kv, Some(&integers([3, 5])), None), &["bool", "f32"]);
    check(ErrorKind::Argument, attend(&query, kv, kv, None, Some(f64::NAN)), &["scale", "None"]);
    let whole = integers([2, 4, 3, 8]);
    check(
        ErrorKind::DType,
        scaled_dot_product_attention(&whole, &whole, &whole, None, false, None),
        &["query"],
    );
}
