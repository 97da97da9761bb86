//! Cargo accepts `links` only beside a build script; it keeps two versions of this crate, and so two op
//! registries, out of one build.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
}
