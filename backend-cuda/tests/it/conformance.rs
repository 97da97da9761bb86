//! The conformance suite. On a machine without a GPU it is skipped, aloud.

use backend_cuda::CudaBackend;
use sharding_core::BackendKind;
use sharding_core::conformance::backend::{GROUPS, run_group};

const NO_MEMORY: &str = "nothing runs before there is memory on the device";

/// What cannot pass yet, with or without a GPU.
const EXPECTED: [(&str, &str); 17] = [
    ("memory/round_trip", NO_MEMORY),
    ("memory/peek", NO_MEMORY),
    ("memory/broadcast", NO_MEMORY),
    ("memory/views_of_views", NO_MEMORY),
    ("memory/shared_write", NO_MEMORY),
    ("memory/storages", NO_MEMORY),
    ("memory/live_bytes", NO_MEMORY),
    ("memory/shared_bytes", NO_MEMORY),
    ("memory/other_slots", NO_MEMORY),
    ("memory/threads", NO_MEMORY),
    ("copies", NO_MEMORY),
    ("map/Div.by_zero", NO_MEMORY),
    ("reduce/repeats", NO_MEMORY),
    ("gather/out_of_range", NO_MEMORY),
    ("collectives/relabel", NO_MEMORY),
    ("exchange", NO_MEMORY),
    ("lowering", NO_MEMORY),
];

sharding_core::backend_suite!(kind = BackendKind::CUDA, expectations = EXPECTED);

#[test]
fn what_is_expected_to_fail_does_so_without_a_panic() {
    for group in GROUPS {
        let report = run_group(group, &CudaBackend, true);
        assert_eq!(report.problems(&EXPECTED), Vec::<String>::new());
        let panics = |(_, outcome): &&(String, Result<(), String>)| {
            outcome.as_ref().is_err_and(|message| message.contains("panics"))
        };
        assert_eq!(report.checks.iter().find(panics), None);
    }
}
