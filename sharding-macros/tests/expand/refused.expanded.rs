::core::compile_error! {
    "unknown key `shapes`: the keys are `reduce`, `linear`, `whole`, `rows`, `rule`, `shape`, `cases`, `stages`, `rule_also`, `crate`; did you mean `shape`?"
}
::core::compile_error! {
    "`rule` does not say which shapes the results have: add `shape = path`, a `fn(x: &TensorMeta, ..) -> Result<TensorMeta>` of the operands and the plain arguments"
}
#[track_caller]
pub fn arguments(
    x: &::sharding_core::__private::Tensor,
    k: usize,
) -> ::sharding_core::__private::Result<::sharding_core::__private::Tensor> {
    ::sharding_core::__private::dispatch::<
        arguments,
    >(&mut [::sharding_core::__private::Operand::Tensor(x)], arguments { k })
        .and_then(::sharding_core::__private::Results::one)
}
///The op [`arguments`](fn@arguments) and its plain arguments.
#[allow(non_camel_case_types)]
#[derive(::core::clone::Clone, ::core::fmt::Debug)]
pub struct arguments {
    ///The argument `k`.
    pub k: usize,
}
impl ::sharding_core::__private::OpArgs for arguments {
    #[allow(unused_variables)]
    fn key(&self, key: &mut ::sharding_core::__private::KeyWriter) {
        ::sharding_core::__private::KeyWriter::put(key, &self.k);
    }
    fn as_any(&self) -> &dyn ::core::any::Any {
        self
    }
    fn boxed(&self) -> ::std::boxed::Box<dyn ::sharding_core::__private::OpArgs> {
        ::std::boxed::Box::new(::core::clone::Clone::clone(self))
    }
}
const _: () = {
    #[allow(dead_code)]
    fn __kernel(cx: &mut KernelCx, x: &LocalArray, k: usize) -> Result<LocalArray> {
        body(cx, x, k)
    }
    #[allow(unused_variables)]
    impl ::sharding_core::__private::Op for arguments {
        type Args = Self;
        const DEF: &'static ::sharding_core::__private::OpDef = &::sharding_core::__private::OpDef::of::<
            Self,
        >(
            "arguments",
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
            ::core::result::Result::Err(
                ::sharding_core::__private::not_compiled("arguments"),
            )
        }
        fn rows(
            __cx: &::sharding_core::__private::RuleCx<'_>,
            __args: &Self,
            __rows: &mut ::sharding_core::__private::Rows,
        ) -> ::sharding_core::__private::Result<()> {
            ::core::result::Result::Err(
                ::sharding_core::__private::not_compiled("arguments"),
            )
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
                ::sharding_core::__private::not_compiled("arguments"),
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
            ::core::result::Result::Err(
                ::sharding_core::__private::not_compiled("arguments"),
            )
        }
        fn cases(__cases: &mut ::sharding_core::__private::Cases) {
            let _ = rule;
        }
    }
};
::core::compile_error! {
    "a local kernel is not async: remove `async`, kernels run to their end on one device"
}
::core::compile_error! {
    "an op is not generic: remove the parameters; local arrays carry their dtype, `x.dtype()`, and the primitives of `cx` take any"
}
::core::compile_error! {
    "a local kernel borrows its operands: write `&LocalArray` (`&mut LocalArray` if the op writes it)"
}
::core::compile_error! {
    "write a plain name here (`x: &LocalArray`): it is the operand's or argument's name in errors and reports"
}
#[allow(unused_variables)]
#[track_caller]
pub fn signature<T>(
    _: LocalArray,
    _: (T, T),
    k: usize,
) -> ::sharding_core::__private::Result<::sharding_core::__private::Tensor> {
    ::core::result::Result::Err(::sharding_core::__private::not_compiled("signature"))
}
///The op [`signature`](fn@signature) and its plain arguments.
#[allow(non_camel_case_types)]
#[derive(::core::clone::Clone, ::core::fmt::Debug)]
pub struct signature {}
impl ::sharding_core::__private::OpArgs for signature {
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
                whole: &[],
            },
        ],
        linear: &[],
    };
    #[allow(warnings)]
    fn __kernel<T>(
        cx: &mut KernelCx,
        x: LocalArray,
        (a, b): (T, T),
        k: usize,
    ) -> Result<LocalArray> {
        ::core::unimplemented!()
    }
    #[allow(unused_variables)]
    impl ::sharding_core::__private::Op for signature {
        type Args = Self;
        const DEF: &'static ::sharding_core::__private::OpDef = &::sharding_core::__private::OpDef::of::<
            Self,
        >(
            "signature",
            &[],
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
            ::core::result::Result::Err(
                ::sharding_core::__private::not_compiled("signature"),
            )
        }
        fn rows(
            __cx: &::sharding_core::__private::RuleCx<'_>,
            __args: &Self,
            __rows: &mut ::sharding_core::__private::Rows,
        ) -> ::sharding_core::__private::Result<()> {
            ::core::result::Result::Err(
                ::sharding_core::__private::not_compiled("signature"),
            )
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
                ::sharding_core::__private::not_compiled("signature"),
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
            ::core::result::Result::Err(
                ::sharding_core::__private::not_compiled("signature"),
            )
        }
        fn cases(__cases: &mut ::sharding_core::__private::Cases) {}
    }
};
