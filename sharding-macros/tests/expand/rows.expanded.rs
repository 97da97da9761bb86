#[track_caller]
pub(crate) fn store(
    into: &mut ::sharding_core::__private::TensorBuffer,
    source: &::sharding_core::__private::Tensor,
) -> ::sharding_core::__private::Result<()> {
    ::sharding_core::__private::dispatch::<
        store,
    >(
            &mut [
                ::sharding_core::__private::Operand::Written(into),
                ::sharding_core::__private::Operand::Tensor(source),
            ],
            store {},
        )
        .map(|_| ())
}
///The op [`store`](fn@store) and its plain arguments.
#[allow(non_camel_case_types)]
#[derive(::core::clone::Clone, ::core::fmt::Debug)]
pub(crate) struct store {}
impl ::sharding_core::__private::OpArgs for store {
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
    fn __kernel(
        cx: &mut KernelCx,
        into: &mut LocalArray,
        source: &LocalArray,
    ) -> Result<()> {
        cx.store(into, source, &[0])
    }
    #[allow(unused_variables)]
    impl ::sharding_core::__private::Op for store {
        type Args = Self;
        const DEF: &'static ::sharding_core::__private::OpDef = &::sharding_core::__private::OpDef::of::<
            Self,
        >(
            "store",
            &[
                ::sharding_core::__private::OperandDef {
                    name: "into",
                    kind: ::sharding_core::__private::OperandKind::Written,
                },
                ::sharding_core::__private::OperandDef {
                    name: "source",
                    kind: ::sharding_core::__private::OperandKind::Tensor,
                },
            ],
            ::core::option::Option::Some(0),
            (::core::file!(), ::core::line!()),
        );
        fn shape(
            __operands: ::sharding_core::__private::Grouped<
                '_,
                ::sharding_core::__private::TensorMeta,
            >,
            __args: &Self,
        ) -> ::sharding_core::__private::Result<::sharding_core::__private::Metas> {
            ::core::result::Result::Ok(
                ::sharding_core::__private::IntoMetas::into_metas(
                    store_shape(__operands.one(0)?, __operands.one(1)?)?,
                ),
            )
        }
        fn rows(
            __cx: &::sharding_core::__private::RuleCx<'_>,
            __args: &Self,
            __rows: &mut ::sharding_core::__private::Rows,
        ) -> ::sharding_core::__private::Result<()> {
            ::sharding_core::__private::literal_rows(
                __cx,
                &[
                    ::sharding_core::__private::LiteralRow {
                        operands: &[
                            ::sharding_core::__private::LiteralPlace::Sharded(0),
                            ::sharding_core::__private::LiteralPlace::Sharded(-1),
                        ],
                        results: &[],
                    },
                    ::sharding_core::__private::LiteralRow {
                        operands: &[
                            ::sharding_core::__private::LiteralPlace::Replicated,
                            ::sharding_core::__private::LiteralPlace::Partial(
                                ::sharding_core::__private::ReduceOp::Max,
                            ),
                        ],
                        results: &[],
                    },
                ],
                __rows,
            );
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
            let [written_0] = ::sharding_core::__private::written(__written)?;
            let () = __kernel(__cx, written_0, __operands.one(1)?)?;
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
            ::core::result::Result::Err(::sharding_core::__private::no_stages("store"))
        }
        fn cases(__cases: &mut ::sharding_core::__private::Cases) {
            store_cases(__cases);
        }
    }
    ::sharding_core::__private::inventory::submit! {
        * < store as ::sharding_core::__private::Op > ::DEF
    }
};
