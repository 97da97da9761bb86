//! Conformance: what every backend and every rule must pass.
//! Feature `testing`.
