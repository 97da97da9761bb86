//! Hand-made ops with right rules, for the checker to look at; wrong rules are put in their place.

use sharding_core::backend::StepKind;
use sharding_core::backend::{BinaryOp, Expr, Gather, IndexMap, LocalArray, LocalArrays, UnaryOp};
use sharding_core::op::{
    CaseOperand, Cases, Fill, Grouped, KeyWriter, Op, OpArgs, OpDef, OperandDef, OperandKind,
};
use sharding_core::placement::sharded;
use sharding_core::rule::{
    Role, Rows, RuleCx, StageCollective, elementwise_rows, match_operand_placement, pass_through_rows,
    replicated_rows,
};
use sharding_core::{
    DType, Error, ErrorKind, KernelCx, Metas, Place, ReduceOp, Result, Scalar, Shape, Shards, StageCx,
    TensorMeta, broadcast,
};
use std::any::Any;

pub use Place::Replicated as R;
pub const P: Place = Place::PARTIAL;
pub fn s(axis: usize) -> Place {
    sharded(axis)
}

/// The plain argument of most ops here: a tensor axis.
#[derive(Clone, Copy, Debug)]
pub struct Axis(pub usize);

impl OpArgs for Axis {
    fn key(&self, key: &mut KeyWriter) {
        key.put(&self.0);
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
    fn boxed(&self) -> Box<dyn OpArgs> {
        Box::new(*self)
    }
}

fn bad(message: &str) -> Error {
    Error::new(ErrorKind::Shape, message)
}
fn one(meta: TensorMeta) -> Result<Metas> {
    Ok([meta].into_iter().collect())
}
fn made(array: LocalArray) -> Result<LocalArrays> {
    Ok([array].into_iter().collect())
}
pub fn f32s(shape: impl Into<Shape>) -> CaseOperand {
    CaseOperand::new(DType::F32, shape)
}
pub fn i64s(shape: impl Into<Shape>) -> CaseOperand {
    CaseOperand::new(DType::I64, shape)
}

macro_rules! op {
    (
        $name:ident: $args:ty, [$($operand:literal $kind:ident),*],
        shape: $shape:expr, rows: $rows:expr, kernel: $kernel:expr, cases: $cases:expr $(, stages: $stages:expr)?
    ) => {
        pub struct $name;
        impl Op for $name {
            type Args = $args;
            const DEF: &'static OpDef = &OpDef::of::<$name>(
                stringify!($name),
                &[$(OperandDef { name: $operand, kind: OperandKind::$kind }),*],
                Some(1),
                (file!(), line!()),
            );
            fn shape(operands: Grouped<'_, TensorMeta>, args: &Self::Args) -> Result<Metas> {
                let shape: fn(Grouped<'_, TensorMeta>, &$args) -> Result<Metas> = $shape;
                shape(operands, args)
            }
            fn rows(cx: &RuleCx<'_>, args: &Self::Args, rows: &mut Rows) -> Result<()> {
                let rule: fn(&RuleCx<'_>, &$args, &mut Rows) -> Result<()> = $rows;
                rule(cx, args, rows)
            }
            fn kernel(
                cx: &mut KernelCx<'_>,
                operands: Grouped<'_, &LocalArray>,
                written: &mut [LocalArray],
                args: &Self::Args,
                results: &mut LocalArrays,
            ) -> Result<()> {
                type Kernel<A> = fn(
                    &mut KernelCx<'_>,
                    Grouped<'_, &LocalArray>,
                    &mut [LocalArray],
                    &A,
                ) -> Result<LocalArrays>;
                let kernel: Kernel<$args> = $kernel;
                results.extend(kernel(cx, operands, written, args)?);
                Ok(())
            }
            #[allow(unused_variables)]
            fn stages(
                cx: &mut StageCx<'_>,
                operands: Grouped<'_, Shards>,
                args: &Self::Args,
            ) -> Result<Vec<Shards>> {
                $(
                    type Stages<A> =
                        fn(&mut StageCx<'_>, Grouped<'_, Shards>, &A) -> Result<Vec<Shards>>;
                    let stages: Stages<$args> = $stages;
                    return stages(cx, operands, args);
                )?
                #[allow(unreachable_code)]
                Err(bad("no stages"))
            }
            fn cases(cases: &mut Cases) {
                let add: fn(&mut Cases) = $cases;
                add(cases);
            }
        }
    };
}

op!(Matmul: (), ["lhs" Tensor, "rhs" Tensor],
    shape: |operands, _| {
        let (a, b) = (operands.one(0)?, operands.one(1)?);
        let ([batch_a @ .., m, k], [batch_b @ .., l, n]) = (&*a.shape, &*b.shape) else {
            return Err(bad("matrices are needed"));
        };
        let mut shape = broadcast(batch_a, batch_b).ok_or_else(|| bad("batch axes differ"))?.to_vec();
        if k != l {
            return Err(bad("inner extents differ"));
        }
        shape.extend([*m, *n]);
        one(TensorMeta::new(a.dtype, shape))
    },
    rows: |cx, _, rows| matmul_rows(cx, rows, true),
    kernel: |cx, operands, _, _| made(cx.dot(operands.one(0)?, operands.one(1)?)?),
    cases: |cases| {
        cases.add([f32s([4, 6]), f32s([6, 3])], ());
        cases.add([f32s([2, 3, 4]), f32s([2, 4, 5])], ());
        cases.add([f32s([3, 2, 4]), f32s([4, 6])], ());
        cases.add([f32s([4, 3]), f32s([2, 3, 5])], ());
        cases.add([f32s([2, 3, 4, 5]), f32s([3, 5, 2])], ());
    }
);

/// The rows of matmul; batch axes aligned at the last one, or wrongly at the first.
pub fn matmul_rows(cx: &RuleCx<'_>, rows: &mut Rows, from_the_right: bool) -> Result<()> {
    replicated_rows(cx, rows);
    let (a, b, out) = (cx.ndim(0), cx.ndim(1), cx.results[0].shape.len());
    let own = |operand: usize, axis: usize| {
        let n = cx.ndim(operand);
        let own = if from_the_right { (axis + n).checked_sub(out)? } else { axis };
        (own + 2 < n && cx.extent(operand, own) != 1).then_some(own)
    };
    for axis in 0..out - 2 {
        let place = |operand| own(operand, axis).map_or(R, s);
        if (place(0), place(1)) != (R, R) {
            rows.add([place(0), place(1)], [s(axis)]);
        }
    }
    rows.add([s(a - 2), R], [s(out - 2)]);
    rows.add([R, s(b - 1)], [s(out - 1)]);
    rows.add([s(a - 1), s(b - 2)], [P]);
    rows.add([P, R], [P]);
    rows.add([R, P], [P]);
    Ok(())
}

op!(Add: (), ["lhs" Tensor, "rhs" Scalar],
    shape: |operands, _| {
        let (a, b) = (operands.one(0)?, operands.one(1)?);
        one(TensorMeta::new(a.dtype, broadcast(&a.shape, &b.shape).ok_or_else(|| bad("no broadcast"))?))
    },
    rows: |cx, _, rows| {
        replicated_rows(cx, rows);
        elementwise_rows(cx, rows);
        rows.add([P, P], [P]);
        Ok(())
    },
    kernel: |cx, operands, _, _| made(cx.binary(BinaryOp::Add, operands.one(0)?, operands.one(1)?)?),
    cases: |cases| {
        cases.add([f32s([4, 6]), f32s([4, 6])], ());
        cases.add([f32s([4, 6]), f32s([6])], ());
        cases.add([i64s([3, 5]), i64s([])], ());
    }
);

op!(Mul: (), ["lhs" Tensor, "rhs" Tensor],
    shape: |operands, _| {
        let (a, b) = (operands.one(0)?, operands.one(1)?);
        one(TensorMeta::new(a.dtype, broadcast(&a.shape, &b.shape).ok_or_else(|| bad("no broadcast"))?))
    },
    rows: |cx, _, rows| {
        replicated_rows(cx, rows);
        elementwise_rows(cx, rows);
        rows.add([P, R], [P]);
        rows.add([R, P], [P]);
        Ok(())
    },
    kernel: |cx, operands, _, _| made(cx.binary(BinaryOp::Mul, operands.one(0)?, operands.one(1)?)?),
    cases: |cases| {
        cases.add([i64s([4, 6]), i64s([4, 6])], ());
        cases.add([f32s([4, 6]), f32s([1, 6])], ());
    }
);

op!(Exp: (), ["x" Tensor],
    shape: |operands, _| one(operands.one(0)?.clone()),
    rows: |cx, _, rows| {
        replicated_rows(cx, rows);
        pass_through_rows(cx, 0, rows, Some);
        rows.add([Place::Partial(ReduceOp::Max)], [Place::Partial(ReduceOp::Max)]);
        Ok(())
    },
    kernel: |cx, operands, _, _| made(cx.unary(UnaryOp::Exp, operands.one(0)?)?),
    cases: |cases| cases.add([f32s([4, 6])], ())
);

op!(Relu: (), ["x" Tensor],
    shape: |operands, _| one(operands.one(0)?.clone()),
    rows: |cx, _, rows| {
        replicated_rows(cx, rows);
        pass_through_rows(cx, 0, rows, Some);
        Ok(())
    },
    kernel: |cx, operands, _, _| {
        let x = operands.one(0)?;
        let zero = Expr::constant(0_i64, x.dtype());
        made(cx.map(&Expr::binary(BinaryOp::Max, Expr::input(0), zero), &[x])?)
    },
    cases: |cases| {
        cases.add([f32s([4, 6])], ());
        cases.add([i64s([9])], ());
    }
);

fn reduced(operands: Grouped<'_, TensorMeta>, axis: usize) -> Result<Metas> {
    let x = operands.one(0)?;
    x.shape.axis(axis as isize)?;
    one(TensorMeta::new(x.dtype, x.shape.without(axis)))
}
fn reduce_rows(cx: &RuleCx<'_>, axis: usize, rows: &mut Rows, op: ReduceOp) {
    replicated_rows(cx, rows);
    pass_through_rows(cx, 0, rows, |own| (own != axis).then(|| own - usize::from(own > axis)));
    rows.add([s(axis)], [Place::Partial(op)]);
    rows.add([Place::Partial(op)], [Place::Partial(op)]);
}
fn reduce(cx: &mut KernelCx<'_>, op: ReduceOp, x: &LocalArray, axis: usize) -> Result<LocalArray> {
    let kept = cx.reduce(op, x, &[axis])?;
    cx.reshape(&kept, &x.shape().without(axis))
}

op!(Sum: Axis, ["x" Tensor],
    shape: |operands, axis| reduced(operands, axis.0),
    rows: |cx, axis, rows| {
        reduce_rows(cx, axis.0, rows, ReduceOp::Sum);
        Ok(())
    },
    kernel: |cx, operands, _, axis| made(reduce(cx, ReduceOp::Sum, operands.one(0)?, axis.0)?),
    cases: |cases| {
        cases.add([f32s([4, 6, 2])], Axis(1));
        cases.add([i64s([5, 3])], Axis(0));
    }
);

op!(Max: Axis, ["x" Tensor],
    shape: |operands, axis| reduced(operands, axis.0),
    rows: |cx, axis, rows| {
        reduce_rows(cx, axis.0, rows, ReduceOp::Max);
        Ok(())
    },
    kernel: |cx, operands, _, axis| made(reduce(cx, ReduceOp::Max, operands.one(0)?, axis.0)?),
    cases: |cases| cases.add([f32s([4, 6])], Axis(1))
);

op!(Mean: Axis, ["x" Tensor],
    shape: |operands, axis| reduced(operands, axis.0),
    rows: |cx, axis, rows| {
        reduce_rows(cx, axis.0, rows, ReduceOp::Sum);
        Ok(())
    },
    kernel: |cx, operands, _, axis| {
        let count = cx.operand(0)?.shape().extent(axis.0);
        mean(cx, operands.one(0)?, axis.0, count)
    },
    cases: |cases| cases.add([f32s([4, 6])], Axis(1))
);

fn mean(cx: &mut KernelCx<'_>, x: &LocalArray, axis: usize, count: usize) -> Result<LocalArrays> {
    let sum = reduce(cx, ReduceOp::Sum, x, axis)?;
    let count = Expr::constant(Scalar::Float(count.max(1) as f64), x.dtype());
    made(cx.map(&Expr::binary(BinaryOp::Div, Expr::input(0), count), &[&sum])?)
}

// The same mean, dividing by the local count: no rule mends that.
op!(LocalMean: Axis, ["x" Tensor],
    shape: |operands, axis| reduced(operands, axis.0),
    rows: |cx, axis, rows| {
        reduce_rows(cx, axis.0, rows, ReduceOp::Sum);
        Ok(())
    },
    kernel: |cx, operands, _, axis| {
        let x = *operands.one(0)?;
        mean(cx, x, axis.0, x.shape().extent(axis.0))
    },
    cases: |cases| cases.add([f32s([4, 6])], Axis(1))
);

op!(Concat: Axis, ["xs" Many],
    shape: |operands, axis| {
        let shapes: Vec<Shape> = operands.many(0).iter().map(|x| x.shape.clone()).collect();
        let map = IndexMap::concat(&shapes, axis.0).ok_or_else(|| bad("shapes differ"))?;
        one(TensorMeta::new(operands.many(0)[0].dtype, map.shape))
    },
    rows: |cx, axis, rows| {
        replicated_rows(cx, rows);
        let n = cx.operands.len();
        for other in (0..cx.ndim(0)).filter(|other| *other != axis.0) {
            rows.add((0..n).map(|_| s(other)), [s(other)]);
        }
        rows.add((0..n).map(|_| P), [P]);
        Ok(())
    },
    kernel: |cx, operands, _, axis| {
        let shapes: Vec<Shape> = operands.many(0).iter().map(|x| x.shape().clone()).collect();
        let map = IndexMap::concat(&shapes, axis.0).ok_or_else(|| bad("local shapes differ"))?;
        made(cx.copy(map, operands.many(0))?)
    },
    cases: |cases| {
        cases.add_grouped([vec![f32s([4, 3]), f32s([4, 5])]], Axis(1));
        cases.add_grouped([vec![i64s([2, 4]), i64s([3, 4]), i64s([1, 4])]], Axis(0));
    }
);

op!(TakeRows: (), ["table" Tensor, "indices" Tensor],
    shape: |operands, _| {
        let (table, indices) = (operands.one(0)?, operands.one(1)?);
        if indices.dtype != DType::I64 || table.shape.is_empty() {
            return Err(bad("a table and indices are needed"));
        }
        let shape: Shape = indices.shape.iter().chain(table.shape.iter().skip(1)).copied().collect();
        one(TensorMeta::new(table.dtype, shape))
    },
    rows: |cx, _, rows| {
        replicated_rows(cx, rows);
        let k = cx.ndim(1);
        pass_through_rows(cx, 1, rows, Some);
        pass_through_rows(cx, 0, rows, |axis| (axis > 0).then(|| axis - 1 + k));
        rows.add([s(0), R], [P]);
        rows.add([P, R], [P]);
        Ok(())
    },
    kernel: |cx, operands, _, _| {
        let (table, indices) = (operands.one(0)?, operands.one(1)?);
        let bound = cx.operand(0)?.shape().extent(0) as i64;
        let base = cx.operand_region(0)?[0][0].start as i64;
        let gather = Gather { axis: 0, base, bound };
        made(cx.gather(gather, table, indices)?)
    },
    cases: |cases| {
        cases.add([f32s([7, 3]), i64s([2, 5]).with_fill(Fill::Below(7))], ());
    }
);

// A gather along an axis whose other axes are matched one to one and truncated: the table may be larger.
op!(GatherAlong: (), ["table" Tensor, "indices" Tensor],
    shape: |operands, _| {
        let (table, indices) = (operands.one(0)?, operands.one(1)?);
        match (&*table.shape, &*indices.shape) {
            ([a, _], [b, _]) if b <= a && indices.dtype == DType::I64 => {
                one(TensorMeta::new(table.dtype, &indices.shape))
            }
            _ => Err(bad("table and indices do not fit")),
        }
    },
    rows: |cx, _, rows| {
        replicated_rows(cx, rows);
        // Equal cuts only where extents are equal.
        if cx.extent(0, 0) == cx.extent(1, 0) {
            rows.add([s(0), s(0)], [s(0)]);
        }
        rows.add([R, s(1)], [s(1)]);
        rows.add([P, R], [P]);
        Ok(())
    },
    kernel: |cx, operands, _, _| {
        let (table, indices) = (*operands.one(0)?, *operands.one(1)?);
        let n = table.shape().extent(1) as i64;
        let mut rows = Vec::new();
        for row in 0..indices.shape().extent(0) {
            let gather = Gather { axis: 1, base: 0, bound: n };
            let picked = cx.gather(gather, &table.slice(0, row, 1), &indices.slice(0, row, 1))?;
            let width = picked.elements();
            rows.push(cx.reshape(&picked, &Shape::from([1, width]))?);
        }
        if rows.is_empty() {
            return made(cx.fill(Scalar::Int(0), table.dtype(), indices.shape())?);
        }
        let shapes: Vec<Shape> = rows.iter().map(|row| row.shape().clone()).collect();
        let map = IndexMap::concat(&shapes, 0).ok_or_else(|| bad("rows differ"))?;
        let rows: Vec<&LocalArray> = rows.iter().collect();
        made(cx.copy(map, &rows)?)
    },
    cases: |cases| {
        cases.add([f32s([6, 4]), i64s([6, 3]).with_fill(Fill::Below(4))], ());
        cases.add([f32s([6, 4]), i64s([3, 2]).with_fill(Fill::Below(4))], ());
    }
);

op!(Flatten: (), ["x" Tensor],
    shape: |operands, _| {
        let x = operands.one(0)?;
        one(TensorMeta::new(x.dtype, [x.shape.elements()]))
    },
    rows: |cx, _, rows| {
        replicated_rows(cx, rows);
        // Cuts of whole leading rows are cuts of the flat tensor only where they are equal in size.
        let ways = cx.ways() * cx.ways_elsewhere(0, 0);
        let others = (1..cx.ndim(0)).any(|axis| cx.ways_elsewhere(0, axis) > 1);
        if cx.ndim(0) > 0 && cx.extent(0, 0) % ways == 0 && !others {
            rows.add([s(0)], [s(0)]);
        }
        rows.add([P], [P]);
        Ok(())
    },
    kernel: |cx, operands, _, _| {
        let x = operands.one(0)?;
        made(cx.reshape(x, &Shape::from([x.elements()]))?)
    },
    cases: |cases| {
        cases.add([i64s([4, 3])], ());
        cases.add([i64s([5, 3])], ());
    }
);

op!(Softmax: Axis, ["x" Tensor],
    shape: |operands, axis| {
        operands.one(0)?.shape.axis(axis.0 as isize)?;
        one(operands.one(0)?.clone())
    },
    rows: |cx, axis, rows| {
        replicated_rows(cx, rows);
        pass_through_rows(cx, 0, rows, |own| (own != axis.0).then_some(own));
        let x = &cx.operands[0].meta;
        let bytes = TensorMeta::new(x.dtype, x.shape.with_extent(axis.0, 1)).bytes();
        let stage = |op| StageCollective { kind: StepKind::AllReduce(op), bytes };
        rows.add_staged([s(axis.0)], [s(axis.0)], [stage(ReduceOp::Max), stage(ReduceOp::Sum)]);
        Ok(())
    },
    kernel: |cx, operands, _, axis| {
        let x = *operands.one(0)?;
        let max = cx.reduce(ReduceOp::Max, x, &[axis.0])?;
        let exp = shifted_exp(cx, x, &max)?;
        let sum = cx.reduce(ReduceOp::Sum, &exp, &[axis.0])?;
        made(cx.binary(BinaryOp::Div, &exp, &sum)?)
    },
    cases: |cases| cases.add([f32s([4, 6])], Axis(1)),
    stages: |cx, operands, axis| {
        let x = operands.one(0)?.clone();
        let shape = cx.operand(0)?.shape().with_extent(axis.0, 1);
        let max = cx.each(|kernel, i| kernel.reduce(ReduceOp::Max, &x[i], &[axis.0]))?;
        let max = cx.all_reduce(ReduceOp::Max, 0, &shape, max)?;
        let exp = cx.each(|kernel, i| shifted_exp(kernel, &x[i], &max[i]))?;
        let sum = cx.each(|kernel, i| kernel.reduce(ReduceOp::Sum, &exp[i], &[axis.0]))?;
        let sum = cx.all_reduce(ReduceOp::Sum, 0, &shape, sum)?;
        Ok(vec![cx.each(|kernel, i| kernel.binary(BinaryOp::Div, &exp[i], &sum[i]))?])
    }
);

fn shifted_exp(cx: &mut KernelCx<'_>, x: &LocalArray, max: &LocalArray) -> Result<LocalArray> {
    let shifted = cx.binary(BinaryOp::Sub, x, max)?;
    cx.unary(UnaryOp::Exp, &shifted)
}

op!(Cumsum: (), ["x" Tensor],
    shape: |operands, _| match operands.one(0)?.shape.len() {
        1 => one(operands.one(0)?.clone()),
        _ => Err(bad("one axis is needed")),
    },
    rows: |cx, _, rows| {
        replicated_rows(cx, rows);
        rows.add([P], [P]);
        Ok(())
    },
    kernel: |cx, operands, _, _| {
        let x = *operands.one(0)?;
        let zero = cx.fill(Scalar::Int(0), x.dtype(), x.shape())?;
        let (mut total, n) = (zero, x.shape().extent(0));
        for lag in 0..n {
            // x moved up by `lag`, zeros before it.
            let moved = IndexMap {
                shape: x.shape().clone(),
                pieces: vec![sharding_core::backend::Piece {
                    operand: 0,
                    into: std::iter::once(lag..n).collect(),
                    offset: 0,
                    strides: std::iter::once(1).collect(),
                }],
                fill: Scalar::Int(0),
            };
            let moved = cx.copy(moved, &[x])?;
            total = cx.binary(BinaryOp::Add, &total, &moved)?;
        }
        made(total)
    },
    cases: |cases| cases.add([i64s([6])], ())
);

/// Writes a source over a buffer; the result is a copy of the source's first element count, to have one.
pub struct Store;
impl Op for Store {
    type Args = ();
    const DEF: &'static OpDef = &OpDef::of::<Store>(
        "Store",
        &[
            OperandDef { name: "into", kind: OperandKind::Written },
            OperandDef { name: "source", kind: OperandKind::Tensor },
        ],
        Some(0),
        (file!(), line!()),
    );
    fn shape(operands: Grouped<'_, TensorMeta>, (): &()) -> Result<Metas> {
        if operands.one(0)? != operands.one(1)? { Err(bad("shapes differ")) } else { Ok(Metas::new()) }
    }
    fn rows(cx: &RuleCx<'_>, (): &(), rows: &mut Rows) -> Result<()> {
        assert_eq!(cx.operands[0].role, Role::Written);
        match_operand_placement(cx, 0, rows)
    }
    fn kernel(
        cx: &mut KernelCx<'_>,
        operands: Grouped<'_, &LocalArray>,
        written: &mut [LocalArray],
        (): &(),
        _: &mut LocalArrays,
    ) -> Result<()> {
        let source = operands.one(1)?;
        cx.store(&mut written[0], source, &vec![0; source.shape().len()])
    }
    fn stages(_: &mut StageCx<'_>, _: Grouped<'_, Shards>, (): &()) -> Result<Vec<Shards>> {
        Err(bad("no stages"))
    }
    fn cases(cases: &mut Cases) {
        cases.add([f32s([4, 3]), f32s([4, 3])], ());
    }
}
