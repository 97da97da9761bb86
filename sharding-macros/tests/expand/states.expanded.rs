const _: () = {
    const _: () = ::core::assert!(
        < Tensor as ::sharding_core::__private::ShardedState > ::TAKES_SPEC,
        "a struct has the specs of its own fields: remove the spec here, and write them there"
    );
    const _: () = ::core::assert!(
        < Option < Tensor > as ::sharding_core::__private::ShardedState > ::TAKES_SPEC,
        "a struct has the specs of its own fields: remove the spec here, and write them there"
    );
    const _: () = ::core::assert!(
        < Tensor as ::sharding_core::__private::ShardedState > ::TAKES_SPEC,
        "a struct has the specs of its own fields: remove the spec here, and write them there"
    );
    #[doc(hidden)]
    #[allow(
        missing_docs,
        dead_code,
        unreachable_pub,
        private_bounds,
        private_interfaces
    )]
    pub struct __Init<'__s> {
        pub weight: <Tensor as ::sharding_core::__private::ShardedState>::Init<'__s>,
        bias: <Option<Tensor> as ::sharding_core::__private::ShardedState>::Init<'__s>,
        heads: <Tensor as ::sharding_core::__private::ShardedState>::Init<'__s>,
        __state: ::core::marker::PhantomData<(&'__s (), fn() -> Linear)>,
    }
    #[automatically_derived]
    #[allow(unused_variables)]
    impl ::sharding_core::__private::ShardedState for Linear {
        const TAKES_SPEC: bool = false;
        type Init<'__s> = __Init<'__s>;
        fn init_at<'__s>(
            __at: &::sharding_core::__private::state::Site<'__s>,
        ) -> Self::Init<'__s> {
            __Init {
                weight: <Tensor as ::sharding_core::__private::ShardedState>::init_at(
                    &__at
                        .field(
                            "weight",
                            ::sharding_core::__private::state::Declared::new()
                                .spec(
                                    <::sharding_core::__private::PartitionSpec as ::core::default::Default>::default()
                                        .with(::sharding_core::__private::SpecEntry::from("tp"))
                                        .with(::sharding_core::__private::SpecEntry::none()),
                                )
                                .shape([WIDTH, 4] as [usize; _])
                                .dtype(::sharding_core::__private::DType::BF16),
                        ),
                ),
                bias: <Option<
                    Tensor,
                > as ::sharding_core::__private::ShardedState>::init_at(
                    &__at
                        .field(
                            "b",
                            ::sharding_core::__private::state::Declared::new()
                                .spec(
                                    <::sharding_core::__private::PartitionSpec as ::core::default::Default>::default()
                                        .with(
                                            ::sharding_core::__private::SpecEntry::several(["dp", "tp"]),
                                        ),
                                ),
                        ),
                ),
                heads: <Tensor as ::sharding_core::__private::ShardedState>::init_at(
                    &__at
                        .field(
                            "heads",
                            ::sharding_core::__private::state::Declared::new().placed(),
                        ),
                ),
                __state: ::core::marker::PhantomData,
            }
        }
        fn visit<'__a>(
            &'__a self,
            __at: &::sharding_core::__private::state::StatePath<'_>,
            __see: &mut ::sharding_core::__private::state::See<'_, '__a>,
        ) {
            <Tensor as ::sharding_core::__private::ShardedState>::visit(
                &self.weight,
                &__at
                    .field(
                        "weight",
                        &::sharding_core::__private::state::Declared::new()
                            .spec(
                                <::sharding_core::__private::PartitionSpec as ::core::default::Default>::default()
                                    .with(::sharding_core::__private::SpecEntry::from("tp"))
                                    .with(::sharding_core::__private::SpecEntry::none()),
                            ),
                    ),
                __see,
            );
            <Option<
                Tensor,
            > as ::sharding_core::__private::ShardedState>::visit(
                &self.bias,
                &__at
                    .field(
                        "b",
                        &::sharding_core::__private::state::Declared::new()
                            .spec(
                                <::sharding_core::__private::PartitionSpec as ::core::default::Default>::default()
                                    .with(
                                        ::sharding_core::__private::SpecEntry::several(["dp", "tp"]),
                                    ),
                            ),
                    ),
                __see,
            );
            <Tensor as ::sharding_core::__private::ShardedState>::visit(
                &self.heads,
                &__at
                    .field(
                        "heads",
                        &::sharding_core::__private::state::Declared::new().placed(),
                    ),
                __see,
            );
        }
        fn visit_mut<'__a>(
            &'__a mut self,
            __at: &::sharding_core::__private::state::StatePath<'_>,
            __see: &mut ::sharding_core::__private::state::SeeMut<'_, '__a>,
        ) {
            <Tensor as ::sharding_core::__private::ShardedState>::visit_mut(
                &mut self.weight,
                &__at
                    .field(
                        "weight",
                        &::sharding_core::__private::state::Declared::new()
                            .spec(
                                <::sharding_core::__private::PartitionSpec as ::core::default::Default>::default()
                                    .with(::sharding_core::__private::SpecEntry::from("tp"))
                                    .with(::sharding_core::__private::SpecEntry::none()),
                            ),
                    ),
                __see,
            );
            <Option<
                Tensor,
            > as ::sharding_core::__private::ShardedState>::visit_mut(
                &mut self.bias,
                &__at
                    .field(
                        "b",
                        &::sharding_core::__private::state::Declared::new()
                            .spec(
                                <::sharding_core::__private::PartitionSpec as ::core::default::Default>::default()
                                    .with(
                                        ::sharding_core::__private::SpecEntry::several(["dp", "tp"]),
                                    ),
                            ),
                    ),
                __see,
            );
            <Tensor as ::sharding_core::__private::ShardedState>::visit_mut(
                &mut self.heads,
                &__at
                    .field(
                        "heads",
                        &::sharding_core::__private::state::Declared::new().placed(),
                    ),
                __see,
            );
        }
    }
};
const _: () = {
    #[doc(hidden)]
    #[allow(
        missing_docs,
        dead_code,
        unreachable_pub,
        private_bounds,
        private_interfaces
    )]
    pub struct __Init<'__s, T>(
        <T as ::sharding_ops::__private::ShardedState>::Init<'__s>,
        (),
        <Tensor as ::sharding_ops::__private::ShardedState>::Init<'__s>,
        ::core::marker::PhantomData<(&'__s (), fn() -> Pair<T>)>,
    )
    where
        T: ::sharding_ops::__private::ShardedState,
        Tensor: ::sharding_ops::__private::ShardedState;
    #[automatically_derived]
    #[allow(unused_variables)]
    impl<T> ::sharding_ops::__private::ShardedState for Pair<T>
    where
        T: ::sharding_ops::__private::ShardedState,
        Tensor: ::sharding_ops::__private::ShardedState,
    {
        const TAKES_SPEC: bool = false;
        type Init<'__s> = __Init<'__s, T>;
        fn init_at<'__s>(
            __at: &::sharding_ops::__private::state::Site<'__s>,
        ) -> Self::Init<'__s> {
            __Init(
                <T as ::sharding_ops::__private::ShardedState>::init_at(
                    &__at.field("0", ::sharding_ops::__private::state::Declared::new()),
                ),
                (),
                <Tensor as ::sharding_ops::__private::ShardedState>::init_at(
                    &__at.field("2", ::sharding_ops::__private::state::Declared::new()),
                ),
                ::core::marker::PhantomData,
            )
        }
        fn visit<'__a>(
            &'__a self,
            __at: &::sharding_ops::__private::state::StatePath<'_>,
            __see: &mut ::sharding_ops::__private::state::See<'_, '__a>,
        ) {
            <T as ::sharding_ops::__private::ShardedState>::visit(
                &self.0,
                &__at.field("0", &::sharding_ops::__private::state::Declared::new()),
                __see,
            );
            <Tensor as ::sharding_ops::__private::ShardedState>::visit(
                &self.2,
                &__at.field("2", &::sharding_ops::__private::state::Declared::new()),
                __see,
            );
        }
        fn visit_mut<'__a>(
            &'__a mut self,
            __at: &::sharding_ops::__private::state::StatePath<'_>,
            __see: &mut ::sharding_ops::__private::state::SeeMut<'_, '__a>,
        ) {
            <T as ::sharding_ops::__private::ShardedState>::visit_mut(
                &mut self.0,
                &__at.field("0", &::sharding_ops::__private::state::Declared::new()),
                __see,
            );
            <Tensor as ::sharding_ops::__private::ShardedState>::visit_mut(
                &mut self.2,
                &__at.field("2", &::sharding_ops::__private::state::Declared::new()),
                __see,
            );
        }
    }
};
