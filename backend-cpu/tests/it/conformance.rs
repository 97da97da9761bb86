//! The conformance suite.

use backend_cpu as _;
use sharding_core::BackendKind;

sharding_core::backend_suite!(kind = BackendKind::CPU, expectations = []);
