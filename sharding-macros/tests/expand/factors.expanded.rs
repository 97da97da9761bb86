/// A matrix product.
#[must_use]
#[track_caller]
pub fn matmul(
    lhs: &::sharding_core::__private::Tensor,
    rhs: &::sharding_core::__private::Tensor,
) -> ::sharding_core::__private::Result<::sharding_core::__private::Tensor> {
    ::sharding_core::__private::dispatch::<
        matmul,
    >(
            &mut [
                ::sharding_core::__private::Operand::Tensor(lhs),
                ::sharding_core::__private::Operand::Tensor(rhs),
            ],
            matmul {},
        )
        .and_then(::sharding_core::__private::Results::one)
}
///The op [`matmul`](fn@matmul) and its plain arguments.
#[allow(non_camel_case_types)]
#[derive(::core::clone::Clone, ::core::fmt::Debug)]
pub struct matmul {}
impl ::sharding_core::__private::OpArgs for matmul {
    #[allow(unused_variables)]
    fn key(&self, key: &mut ::sharding_core::__private::KeyWriter) {}
    fn as_any(&self) -> &dyn ::core::any::Any {
        self
    }
    fn boxed(&self) -> ::std::boxed::Box<dyn ::sharding_core::__private::OpArgs> {
        ::std::boxed::Box::new(::core::clone::Clone::clone(self))
    }
}
const _: () = {
    const __RULE: ::sharding_core::__private::FactorRule = ::sharding_core::__private::FactorRule {
        alternatives: &[
            ::sharding_core::__private::Factors {
                names: &["m", "n", "k"],
                operands: &[
                    &[
                        ::sharding_core::__private::Term::Dots,
                        ::sharding_core::__private::Term::Factor(0),
                        ::sharding_core::__private::Term::Factor(2),
                    ],
                    &[
                        ::sharding_core::__private::Term::Dots,
                        ::sharding_core::__private::Term::Factor(2),
                        ::sharding_core::__private::Term::Factor(1),
                    ],
                ],
                results: &[
                    &[
                        ::sharding_core::__private::Term::Dots,
                        ::sharding_core::__private::Term::Factor(0),
                        ::sharding_core::__private::Term::Factor(1),
                    ],
                ],
                reduced: &[(2, ::sharding_core::__private::ReduceOp::Sum)],
                whole: &[],
            },
            ::sharding_core::__private::Factors {
                names: &["n", "k"],
                operands: &[
                    &[::sharding_core::__private::Term::Factor(1)],
                    &[
                        ::sharding_core::__private::Term::Dots,
                        ::sharding_core::__private::Term::Factor(1),
                        ::sharding_core::__private::Term::Factor(0),
                    ],
                ],
                results: &[
                    &[
                        ::sharding_core::__private::Term::Dots,
                        ::sharding_core::__private::Term::Factor(0),
                    ],
                ],
                reduced: &[(1, ::sharding_core::__private::ReduceOp::Sum)],
                whole: &[],
            },
        ],
        linear: &[::sharding_core::__private::Linear::Each],
    };
    fn __kernel(
        cx: &mut KernelCx,
        lhs: &LocalArray,
        rhs: &LocalArray,
    ) -> Result<LocalArray> {
        cx.dot(lhs, rhs)
    }
    #[allow(unused_variables)]
    impl ::sharding_core::__private::Op for matmul {
        type Args = Self;
        const DEF: &'static ::sharding_core::__private::OpDef = &::sharding_core::__private::OpDef::of::<
            Self,
        >(
            "matmul",
            &[
                ::sharding_core::__private::OperandDef {
                    name: "lhs",
                    kind: ::sharding_core::__private::OperandKind::Tensor,
                },
                ::sharding_core::__private::OperandDef {
                    name: "rhs",
                    kind: ::sharding_core::__private::OperandKind::Tensor,
                },
            ],
            ::core::option::Option::Some(1),
            (::core::file!(), ::core::line!()),
        );
        fn shape(
            __operands: ::sharding_core::__private::Grouped<
                '_,
                ::sharding_core::__private::TensorMeta,
            >,
            __args: &Self,
        ) -> ::sharding_core::__private::Result<::sharding_core::__private::Metas> {
            __RULE
                .shape(
                    <Self as ::sharding_core::__private::Op>::DEF.operands,
                    __operands,
                )
        }
        fn rows(
            __cx: &::sharding_core::__private::RuleCx<'_>,
            __args: &Self,
            __rows: &mut ::sharding_core::__private::Rows,
        ) -> ::sharding_core::__private::Result<()> {
            __RULE.rows(__cx, __rows)?;
            ::core::result::Result::Ok(())
        }
        fn kernel(
            __cx: &mut ::sharding_core::__private::KernelCx<'_>,
            __operands: ::sharding_core::__private::Grouped<
                '_,
                &::sharding_core::__private::LocalArray,
            >,
            __written: &mut [::sharding_core::__private::LocalArray],
            __args: &Self,
            __results: &mut ::sharding_core::__private::LocalArrays,
        ) -> ::sharding_core::__private::Result<()> {
            let result_0 = __kernel(__cx, __operands.one(0)?, __operands.one(1)?)?;
            __results.push(result_0);
            ::core::result::Result::Ok(())
        }
        fn stages(
            __cx: &mut ::sharding_core::__private::StageCx<'_>,
            __operands: ::sharding_core::__private::Grouped<
                '_,
                ::sharding_core::__private::Shards,
            >,
            __args: &Self,
        ) -> ::sharding_core::__private::Result<
            ::std::vec::Vec<::sharding_core::__private::Shards>,
        > {
            ::core::result::Result::Err(::sharding_core::__private::no_stages("matmul"))
        }
        fn cases(__cases: &mut ::sharding_core::__private::Cases) {
            __RULE
                .cases(
                    <Self as ::sharding_core::__private::Op>::DEF.operands,
                    matmul {},
                    __cases,
                );
        }
    }
    ::sharding_core::__private::inventory::submit! {
        * < matmul as ::sharding_core::__private::Op > ::DEF
    }
};
#[track_caller]
fn mul<'operand>(
    lhs: impl ::core::convert::Into<sharding_ops::__private::Operand<'operand>>,
    rhs: impl ::core::convert::Into<sharding_ops::__private::Operand<'operand>>,
) -> sharding_ops::__private::Result<sharding_ops::__private::Tensor> {
    sharding_ops::__private::dispatch::<
        mul,
    >(
            &mut [
                ::core::convert::Into::<
                    sharding_ops::__private::Operand<'operand>,
                >::into(lhs),
                ::core::convert::Into::<
                    sharding_ops::__private::Operand<'operand>,
                >::into(rhs),
            ],
            mul {},
        )
        .and_then(sharding_ops::__private::Results::one)
}
///The op [`mul`](fn@mul) and its plain arguments.
#[allow(non_camel_case_types)]
#[derive(::core::clone::Clone, ::core::fmt::Debug)]
struct mul {}
impl sharding_ops::__private::OpArgs for mul {
    #[allow(unused_variables)]
    fn key(&self, key: &mut sharding_ops::__private::KeyWriter) {}
    fn as_any(&self) -> &dyn ::core::any::Any {
        self
    }
    fn boxed(&self) -> ::std::boxed::Box<dyn sharding_ops::__private::OpArgs> {
        ::std::boxed::Box::new(::core::clone::Clone::clone(self))
    }
}
const _: () = {
    const __RULE: sharding_ops::__private::FactorRule = sharding_ops::__private::FactorRule {
        alternatives: &[
            sharding_ops::__private::Factors {
                names: &[],
                operands: &[
                    &[sharding_ops::__private::Term::Dots],
                    &[sharding_ops::__private::Term::Dots],
                ],
                results: &[&[sharding_ops::__private::Term::Dots]],
                reduced: &[],
                whole: &[],
            },
        ],
        linear: &[
            sharding_ops::__private::Linear::Operand(0),
            sharding_ops::__private::Linear::Operand(1),
        ],
    };
    fn __kernel(
        cx: &mut KernelCx,
        lhs: &LocalArray,
        rhs: &LocalArray,
    ) -> Result<LocalArray> {
        cx.binary(BinaryOp::Mul, lhs, rhs)
    }
    #[allow(unused_variables)]
    impl sharding_ops::__private::Op for mul {
        type Args = Self;
        const DEF: &'static sharding_ops::__private::OpDef = &sharding_ops::__private::OpDef::of::<
            Self,
        >(
            "mul",
            &[
                sharding_ops::__private::OperandDef {
                    name: "lhs",
                    kind: sharding_ops::__private::OperandKind::Scalar,
                },
                sharding_ops::__private::OperandDef {
                    name: "rhs",
                    kind: sharding_ops::__private::OperandKind::Scalar,
                },
            ],
            ::core::option::Option::Some(1),
            (::core::file!(), ::core::line!()),
        );
        fn shape(
            __operands: sharding_ops::__private::Grouped<
                '_,
                sharding_ops::__private::TensorMeta,
            >,
            __args: &Self,
        ) -> sharding_ops::__private::Result<sharding_ops::__private::Metas> {
            __RULE.shape(<Self as sharding_ops::__private::Op>::DEF.operands, __operands)
        }
        fn rows(
            __cx: &sharding_ops::__private::RuleCx<'_>,
            __args: &Self,
            __rows: &mut sharding_ops::__private::Rows,
        ) -> sharding_ops::__private::Result<()> {
            __RULE.rows(__cx, __rows)?;
            ::core::result::Result::Ok(())
        }
        fn kernel(
            __cx: &mut sharding_ops::__private::KernelCx<'_>,
            __operands: sharding_ops::__private::Grouped<
                '_,
                &sharding_ops::__private::LocalArray,
            >,
            __written: &mut [sharding_ops::__private::LocalArray],
            __args: &Self,
            __results: &mut sharding_ops::__private::LocalArrays,
        ) -> sharding_ops::__private::Result<()> {
            let result_0 = __kernel(__cx, __operands.one(0)?, __operands.one(1)?)?;
            __results.push(result_0);
            ::core::result::Result::Ok(())
        }
        fn stages(
            __cx: &mut sharding_ops::__private::StageCx<'_>,
            __operands: sharding_ops::__private::Grouped<
                '_,
                sharding_ops::__private::Shards,
            >,
            __args: &Self,
        ) -> sharding_ops::__private::Result<
            ::std::vec::Vec<sharding_ops::__private::Shards>,
        > {
            ::core::result::Result::Err(sharding_ops::__private::no_stages("mul"))
        }
        fn cases(__cases: &mut sharding_ops::__private::Cases) {
            __RULE
                .cases(
                    <Self as sharding_ops::__private::Op>::DEF.operands,
                    mul {},
                    __cases,
                );
        }
    }
    sharding_ops::__private::inventory::submit! {
        * < mul as sharding_ops::__private::Op > ::DEF
    }
};
