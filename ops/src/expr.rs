//! Constant expressions per dtype, so that the common ops build nothing per call.

/// The [`Expr`](sharding_core::backend::Expr) of `$nodes(dtype)`, a constant function that gives an array of nodes, for
/// every dtype of numbers.
macro_rules! expr_of {
    ($dtype:expr, $nodes:path) => {
        $crate::expr::expr_of!(@match $dtype, $nodes; I8, I16, I32, I64, U8, U16, U32, U64, F16, BF16, F32, F64)
    };
    (@match $dtype:expr, $nodes:path; $($variant:ident),*) => {
        match $dtype {
            $(::sharding_core::DType::$variant => {
                static NODES: &[::sharding_core::backend::Node] = &$nodes(::sharding_core::DType::$variant);
                Ok(::sharding_core::backend::Expr::from_static(NODES))
            })*
            other => Err(::sharding_core::Error::new(
                ::sharding_core::ErrorKind::DType,
                ::std::format!("there is no such expression on {other}"),
            )),
        }
    };
}
pub(crate) use expr_of;
