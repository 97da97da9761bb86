//! The sim backend.
