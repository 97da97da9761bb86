#[track_caller]
pub fn foreign(
    x: &::sharding_core::__private::Tensor,
) -> ::sharding_core::__private::Result<::sharding_core::__private::Tensor> {
    ::sharding_core::__private::dispatch::<
        foreign,
    >(&mut [::sharding_core::__private::Operand::Tensor(x)], foreign {})
        .and_then(::sharding_core::__private::Results::one)
}
///The op [`foreign`](fn@foreign) and its plain arguments.
#[allow(non_camel_case_types)]
#[derive(::core::clone::Clone, ::core::fmt::Debug)]
pub struct foreign {}
impl ::sharding_core::__private::OpArgs for foreign {
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
                names: &["m"],
                operands: &[&[::sharding_core::__private::Term::Factor(0)]],
                results: &[&[::sharding_core::__private::Term::Factor(0)]],
                reduced: &[],
                whole: &[0],
            },
        ],
        linear: &[],
    };
    #[allow(unused_variables)]
    impl ::sharding_core::__private::Op for foreign {
        type Args = Self;
        const DEF: &'static ::sharding_core::__private::OpDef = &::sharding_core::__private::OpDef::of::<
            Self,
        >(
            "foreign",
            &[
                ::sharding_core::__private::OperandDef {
                    name: "x",
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
            ::core::result::Result::Err(
                ::sharding_core::__private::no_portable_kernel(__cx),
            )
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
            ::core::result::Result::Err(::sharding_core::__private::no_stages("foreign"))
        }
        fn cases(__cases: &mut ::sharding_core::__private::Cases) {
            __RULE
                .cases(
                    <Self as ::sharding_core::__private::Op>::DEF.operands,
                    foreign {},
                    __cases,
                );
        }
    }
    ::sharding_core::__private::inventory::submit! {
        * < foreign as ::sharding_core::__private::Op > ::DEF
    }
};
fn top_k_cuda(
    cx: &mut KernelCx,
    x: &LocalArray,
    k: usize,
) -> Result<(LocalArray, LocalArray)> {
    launch(cx, x, k)
}
const _: () = {
    const __DEF: &::sharding_core::__private::OpDef = <sharding_ops::top_k as ::sharding_core::__private::Op>::DEF;
    const _: () = ::core::assert!(
        __DEF.declares(0, "x", ::sharding_core::__private::OperandKind::Tensor),
        "the op does not declare the operand `x` here, or not of this kind: write the operands in the op's order, with its names and types"
    );
    const _: () = ::core::assert!(
        __DEF.operands.len() == 1,
        "the op declares another number of operands: write the operands in the op's order, with its names and types"
    );
    const _: () = ::core::assert!(
        __DEF.gives(::core::option::Option::Some(2)),
        "the op declares another number of results: write the op's return type"
    );
    #[allow(unused_variables)]
    fn __run(
        __cx: &mut ::sharding_core::__private::KernelCx<'_>,
        __operands: ::sharding_core::__private::Grouped<
            '_,
            &::sharding_core::__private::LocalArray,
        >,
        __written: &mut [::sharding_core::__private::LocalArray],
        __args: &dyn ::core::any::Any,
        __results: &mut ::sharding_core::__private::LocalArrays,
    ) -> ::sharding_core::__private::Result<()> {
        let __args: &<sharding_ops::top_k as ::sharding_core::__private::Op>::Args = ::sharding_core::__private::typed(
            __DEF,
            __args,
        )?;
        let argument_1: &usize = &__args.k;
        let (result_0, result_1) = top_k_cuda(
            __cx,
            __operands.one(0)?,
            ::core::clone::Clone::clone(argument_1),
        )?;
        __results.push(result_0);
        __results.push(result_1);
        ::core::result::Result::Ok(())
    }
    ::sharding_core::__private::inventory::submit! {
        ::sharding_core::__private::KernelDef { op : __DEF, backend : "cuda", run :
        __run, at : (::core::file!(), ::core::line!()), }
    }
};
