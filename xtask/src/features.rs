//! The features of the public crate that link backends: the one list that the tasks go by.

/// The package whose features link backends.
pub(crate) const OPS: &str = "sharding-ops";

/// Its features that link one, in the order in which the matrix adds them; the first is the default.
pub(crate) const BACKENDS: [&str; 3] = ["cpu", "sim", "cuda"];

/// Its feature that brings the suites for tests of custom ops and backends.
pub(crate) const TESTING: &str = "testing";

/// Its feature with which an example's test opens a browser.
pub(crate) const BROWSER: &str = "browser";

/// Its default feature that takes and gives host arrays of ndarray.
pub(crate) const NDARRAY: &str = "ndarray";

/// Features of [`OPS`] as cargo takes them beside several packages: `sharding-ops/cpu,sharding-ops/sim`.
pub(crate) fn spell<'a>(features: impl IntoIterator<Item = &'a str>) -> String {
    features.into_iter().map(|feature| format!("{OPS}/{feature}")).collect::<Vec<_>>().join(",")
}

/// All of them, spelled: without these clippy and rustdoc would not see the whole crate.
pub(crate) fn all() -> String {
    spell(BACKENDS.into_iter().chain([TESTING, BROWSER, NDARRAY]))
}
