//! Lines for people: a reader who goes away (`| head`) is no error.

use std::fmt::Display;
use std::io::Write;

/// Writes a line to standard output.
pub(crate) fn line(text: impl Display) {
    // Nobody reads on: there is nobody to tell either.
    let _ = writeln!(std::io::stdout().lock(), "{text}");
}
