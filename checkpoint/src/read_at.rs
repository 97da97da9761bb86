//! Positional reads: no seek, no shared cursor, so that threads do not disturb each other.

use std::fs::File;
use std::io;

/// Fills `bytes` from a file, from `offset` on.
///
/// # Errors
/// What the system says; [`io::ErrorKind::UnexpectedEof`] if the file ends before.
#[cfg(unix)]
pub(crate) fn read_at(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, bytes, offset)
}

/// Fills `bytes` from a file, from `offset` on.
///
/// # Errors
/// What the system says; [`io::ErrorKind::UnexpectedEof`] if the file ends before.
#[cfg(windows)]
pub(crate) fn read_at(file: &File, mut bytes: &mut [u8], mut offset: u64) -> io::Result<()> {
    use std::os::windows::fs::FileExt;
    while !bytes.is_empty() {
        match file.seek_read(bytes, offset) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(n) => {
                bytes = bytes.get_mut(n..).unwrap_or_default();
                offset += n as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
