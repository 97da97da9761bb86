//! Constant expressions per dtype, so that the common ops build nothing per call.

/// The [`Expr`](sharding_core::backend::Expr) of `$nodes(dtype)`, a constant function that gives an array of nodes.
macro_rules! expr_of {
    ($dtype:expr, $nodes:path) => {
        match $dtype {
            ::sharding_core::DType::F32 => {
                static NODES: &[::sharding_core::backend::Node] = &$nodes(::sharding_core::DType::F32);
                Ok(::sharding_core::backend::Expr::from_static(NODES))
            }
            ::sharding_core::DType::I64 => {
                static NODES: &[::sharding_core::backend::Node] = &$nodes(::sharding_core::DType::I64);
                Ok(::sharding_core::backend::Expr::from_static(NODES))
            }
            other => Err(::sharding_core::Error::new(
                ::sharding_core::ErrorKind::DType,
                ::std::format!("there is no such expression on {other}"),
            )),
        }
    };
}
pub(crate) use expr_of;
