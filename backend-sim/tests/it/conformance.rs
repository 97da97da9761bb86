//! The conformance suite, as far as it needs no data.

use backend_sim as _;
use sharding_core::BackendKind;

sharding_core::backend_suite!(kind = BackendKind::SIM, data = false, expectations = []);
