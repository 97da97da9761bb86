#[track_caller]
pub fn top(
    x: &::sharding_core::__private::Tensor,
    more: &[::sharding_core::__private::Tensor],
    bias: ::core::option::Option<&::sharding_core::__private::Tensor>,
    k: usize,
    axes: &[isize],
    mode: Option<&str>,
    seed: u64,
) -> ::sharding_core::__private::Result<
    (::sharding_core::__private::Tensor, ::sharding_core::__private::Tensor),
> {
    ::sharding_core::__private::dispatch::<
        top,
    >(
            &mut [
                ::sharding_core::__private::Operand::Tensor(x),
                ::sharding_core::__private::Operand::Many(more),
                ::sharding_core::__private::Operand::Optional(bias),
            ],
            top {
                k,
                axes: ::core::convert::From::from(axes),
                mode: mode.map(::core::convert::From::from),
                seed,
            },
        )
        .and_then(::sharding_core::__private::Results::array)
        .map(|[result_0, result_1]| (result_0, result_1))
}
///The op [`top`](fn@top) and its plain arguments.
#[allow(non_camel_case_types)]
#[derive(::core::clone::Clone, ::core::fmt::Debug)]
pub struct top {
    ///The argument `k`.
    pub k: usize,
    ///The argument `axes`.
    pub axes: ::sharding_core::__private::SmallVec<[isize; 4]>,
    ///The argument `mode`.
    pub mode: ::core::option::Option<::std::string::String>,
    ///The argument `seed`.
    pub seed: u64,
}
impl ::sharding_core::__private::OpArgs for top {
    #[allow(unused_variables)]
    fn key(&self, key: &mut ::sharding_core::__private::KeyWriter) {
        ::sharding_core::__private::KeyWriter::put(key, &self.k);
        ::sharding_core::__private::KeyWriter::put(key, &self.axes);
        ::sharding_core::__private::KeyWriter::put(key, &self.mode);
    }
    fn as_any(&self) -> &dyn ::core::any::Any {
        self
    }
    fn boxed(&self) -> ::std::boxed::Box<dyn ::sharding_core::__private::OpArgs> {
        ::std::boxed::Box::new(::core::clone::Clone::clone(self))
    }
}
const _: () = {
    #[allow(clippy::too_many_arguments)]
    fn __kernel(
        cx: &mut KernelCx,
        x: &LocalArray,
        more: &[&LocalArray],
        bias: Option<&LocalArray>,
        k: usize,
        axes: &[isize],
        mode: Option<&str>,
        seed: u64,
    ) -> Result<(LocalArray, LocalArray)> {
        body(cx, x, more, bias, k, axes, mode, seed)
    }
    #[allow(unused_variables)]
    impl ::sharding_core::__private::Op for top {
        type Args = Self;
        const DEF: &'static ::sharding_core::__private::OpDef = &::sharding_core::__private::OpDef::of::<
            Self,
        >(
            "top",
            &[
                ::sharding_core::__private::OperandDef {
                    name: "x",
                    kind: ::sharding_core::__private::OperandKind::Tensor,
                },
                ::sharding_core::__private::OperandDef {
                    name: "more",
                    kind: ::sharding_core::__private::OperandKind::Many,
                },
                ::sharding_core::__private::OperandDef {
                    name: "bias",
                    kind: ::sharding_core::__private::OperandKind::Optional,
                },
            ],
            ::core::option::Option::Some(2),
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
                    top_shape(
                        __operands.one(0)?,
                        __operands.many(1),
                        __operands.optional(2),
                        ::core::clone::Clone::clone(&__args.k),
                        &*__args.axes,
                        __args.mode.as_deref(),
                    )?,
                ),
            )
        }
        fn rows(
            __cx: &::sharding_core::__private::RuleCx<'_>,
            __args: &Self,
            __rows: &mut ::sharding_core::__private::Rows,
        ) -> ::sharding_core::__private::Result<()> {
            ::sharding_core::__private::Rows::append(
                __rows,
                rules::top(
                    __cx,
                    ::core::clone::Clone::clone(&__args.k),
                    &*__args.axes,
                    __args.mode.as_deref(),
                )?,
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
            let (result_0, result_1) = __kernel(
                __cx,
                __operands.one(0)?,
                __operands.many(1),
                __operands.optional(2).copied(),
                ::core::clone::Clone::clone(&__args.k),
                &*__args.axes,
                __args.mode.as_deref(),
                ::core::clone::Clone::clone(&__args.seed),
            )?;
            __results.push(result_0);
            __results.push(result_1);
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
            ::core::result::Result::Ok(
                ::sharding_core::__private::IntoShards::into_shards(
                    top_stages(
                        __cx,
                        __operands.one(0)?,
                        __operands.many(1),
                        __operands.optional(2),
                        ::core::clone::Clone::clone(&__args.k),
                        &*__args.axes,
                        __args.mode.as_deref(),
                        ::core::clone::Clone::clone(&__args.seed),
                    )?,
                ),
            )
        }
        fn cases(__cases: &mut ::sharding_core::__private::Cases) {
            top_cases(__cases);
        }
    }
    ::sharding_core::__private::inventory::submit! {
        * < top as ::sharding_core::__private::Op > ::DEF
    }
};
#[track_caller]
pub fn pieces(
    x: &::sharding_core::__private::Tensor,
    sizes: &[usize],
) -> ::sharding_core::__private::Result<
    ::std::vec::Vec<::sharding_core::__private::Tensor>,
> {
    ::sharding_core::__private::dispatch::<
        pieces,
    >(
            &mut [::sharding_core::__private::Operand::Tensor(x)],
            pieces {
                sizes: ::core::convert::From::from(sizes),
            },
        )
        .map(|results| results.all().into_vec())
}
///The op [`pieces`](fn@pieces) and its plain arguments.
#[allow(non_camel_case_types)]
#[derive(::core::clone::Clone, ::core::fmt::Debug)]
pub struct pieces {
    ///The argument `sizes`.
    pub sizes: ::sharding_core::__private::SmallVec<[usize; 4]>,
}
impl ::sharding_core::__private::OpArgs for pieces {
    #[allow(unused_variables)]
    fn key(&self, key: &mut ::sharding_core::__private::KeyWriter) {
        ::sharding_core::__private::KeyWriter::put(key, &self.sizes);
    }
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
        x: &LocalArray,
        sizes: &[usize],
    ) -> Result<Vec<LocalArray>> {
        cut(cx, x, sizes)
    }
    #[allow(unused_variables)]
    impl ::sharding_core::__private::Op for pieces {
        type Args = Self;
        const DEF: &'static ::sharding_core::__private::OpDef = &::sharding_core::__private::OpDef::of::<
            Self,
        >(
            "pieces",
            &[
                ::sharding_core::__private::OperandDef {
                    name: "x",
                    kind: ::sharding_core::__private::OperandKind::Tensor,
                },
            ],
            ::core::option::Option::None,
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
                    pieces_shape(__operands.one(0)?, &*__args.sizes)?,
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
                        ],
                        results: &[::sharding_core::__private::LiteralPlace::Sharded(0)],
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
            let result_0 = __kernel(__cx, __operands.one(0)?, &*__args.sizes)?;
            __results.extend(result_0);
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
            ::core::result::Result::Err(::sharding_core::__private::no_stages("pieces"))
        }
        fn cases(__cases: &mut ::sharding_core::__private::Cases) {}
    }
    ::sharding_core::__private::inventory::submit! {
        * < pieces as ::sharding_core::__private::Op > ::DEF
    }
};
