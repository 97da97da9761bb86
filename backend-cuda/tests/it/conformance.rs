//! The conformance suite. On a machine without a GPU it is skipped, aloud.

use backend_cuda as _;
use sharding_core::BackendKind;

sharding_core::backend_suite!(
    kind = BackendKind::CUDA,
    expectations = [
        ("memory/synchronize", ""),
        ("", "nothing runs before there is memory on the device")
    ]
);
