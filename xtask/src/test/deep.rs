//! What is too slow for every change, or needs more than the toolchain: `cargo xtask test --deep`.

use super::matrix::{Row, Work};

/// Threads in every order, unsafe code under a sanitizer, and the fuzzer for longer than in `ci`.
pub(super) fn rows(host: &str) -> Vec<Row> {
    vec![loom(), address_sanitizer(host), miri(), fuzz()]
}

/// The models of what threads of regions do, which stand beside it.
fn loom() -> Row {
    let work = cargo(&["test", "-p", "sharding-core", "--lib", "--target-dir", "target/deep", "models::"]);
    Row { environment: &[("RUSTFLAGS", "--cfg loom")], ..Row::new("loom", "models", work) }
}

/// The tests of the crate with unsafe code. The variable only lets a stable compiler take the flag: no unstable feature is
/// used. A target that is named keeps the flag away from build scripts. Tests ask for more memory than there is, and expect an
/// error.
fn address_sanitizer(host: &str) -> Row {
    let work =
        ["test", "-p", "backend-cpu", "--lib", "--tests", "--target-dir", "target/deep", "--target", host];
    Row {
        environment: &[
            ("RUSTC_BOOTSTRAP", "1"),
            ("RUSTFLAGS", "-Zsanitizer=address"),
            ("ASAN_OPTIONS", "allocator_may_return_null=1"),
        ],
        ..Row::new("address sanitizer", "tests of backend-cpu", cargo(&work))
    }
}

fn miri() -> Row {
    let reason = "miri comes with nightly toolchains only, and a stable one is pinned; the address sanitizer runs instead";
    Row::new("miri", "unsafe code", Work::Skip(reason.to_owned()))
}

fn fuzz() -> Row {
    Row::new("fuzz", "120 s for each target", cargo(&["xtask", "fuzz", "--seconds", "120"]))
}

fn cargo(arguments: &[&str]) -> Work {
    Work::Cargo(arguments.iter().map(|word| (*word).to_owned()).collect())
}
