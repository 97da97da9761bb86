//! The cuda backend.
