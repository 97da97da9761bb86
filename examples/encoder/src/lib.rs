//! The encoder example lives in `examples/encoder`; this library is empty on purpose.
