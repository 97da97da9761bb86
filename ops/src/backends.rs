//! The backends that are linked: the one place where features choose them.

#[cfg(feature = "cpu")]
use backend_cpu as _;
#[cfg(feature = "cuda")]
use backend_cuda as _;
#[cfg(feature = "sim")]
use backend_sim as _;
