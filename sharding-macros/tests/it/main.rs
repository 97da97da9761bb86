//! What the attributes declare, and what they refuse, seen from a crate that uses them.

#![forbid(unsafe_code)]

mod declare;
mod state;

/// One mistake per file. The texts are those of the pinned toolchain.
#[test]
fn misuses_are_refused_at_the_guilty_token() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
