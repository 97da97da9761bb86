//! Starting other programs, with errors that say what was run.

use std::error::Error;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::thread;

/// What every task returns: the error is a text for a person.
pub(crate) type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// The root directory of the workspace, wherever the command was started.
pub(crate) fn root() -> PathBuf {
    // Cargo sets the variable for `cargo run`, so a build directory shared by several checkouts reads the right one.
    let xtask = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    xtask.parent().map_or_else(|| PathBuf::from("."), Path::to_path_buf)
}

/// A cargo command in the workspace's root, of the cargo that runs this task.
pub(crate) fn cargo<I>(arguments: I) -> Command
where
    I: IntoIterator,
    I::Item: AsRef<OsStr>,
{
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).current_dir(root());
    command
}

/// A program of the package `proof`, in release: it measures, or replays thousands of cases. Without `-p`, as the README runs
/// the examples: cargo then turns on the same features of what they share, and builds it once for all of them.
pub(crate) fn proof(program: &str) -> Command {
    cargo(["run", "--release", "--bin", program, "--"])
}

/// The command as a person would type it.
pub(crate) fn describe(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or(command.get_program());
    let words = std::iter::once(program).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// Runs a command that shares our terminal and answers whether it succeeded.
pub(crate) fn succeeds(command: &mut Command) -> Result<bool> {
    let status = command.status().map_err(|error| cannot_start(command, &error))?;
    Ok(status.success())
}

/// Runs a command that shares our terminal; anything but success is an error.
pub(crate) fn check(command: &mut Command) -> Result<()> {
    let status = command.status().map_err(|error| cannot_start(command, &error))?;
    if status.success() { Ok(()) } else { Err(failed(command, status)) }
}

/// Runs a command and returns what it wrote to its standard output.
pub(crate) fn capture(command: &mut Command) -> Result<String> {
    let output = command.stderr(Stdio::inherit()).output().map_err(|error| cannot_start(command, &error))?;
    if !output.status.success() {
        return Err(failed(command, output.status));
    }
    String::from_utf8(output.stdout).map_err(|_| format!("`{}` wrote no UTF-8", describe(command)).into())
}

/// Which of its two streams a command wrote a line to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stream {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

/// Runs a command without input and shows each of its lines to `each`, in order within a stream.
pub(crate) fn watch(command: &mut Command, mut each: impl FnMut(Stream, &str)) -> Result<ExitStatus> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| cannot_start(command, &error))?;
    let (sender, lines) = channel();
    let readers = [
        child.stdout.take().map(|pipe| forward(pipe, Stream::Out, sender.clone())),
        child.stderr.take().map(|pipe| forward(pipe, Stream::Err, sender)),
    ];
    for (stream, line) in lines {
        each(stream, &line);
    }
    for reader in readers.into_iter().flatten() {
        reader.join().map_err(|_| format!("a reader of `{}` stopped", describe(command)))?;
    }
    Ok(child.wait()?)
}

/// Sends the lines of one stream, from a thread of its own: a full pipe would stop the child.
fn forward(
    pipe: impl Read + Send + 'static,
    stream: Stream,
    to: Sender<(Stream, String)>,
) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        let mut pipe = BufReader::new(pipe);
        let mut line = Vec::new();
        while matches!(pipe.read_until(b'\n', &mut line), Ok(read) if read > 0) {
            let text = String::from_utf8_lossy(&line).trim_end_matches(['\n', '\r']).to_owned();
            if to.send((stream, text)).is_err() {
                return;
            }
            line.clear();
        }
    })
}

fn cannot_start(command: &Command, error: &std::io::Error) -> Box<dyn Error> {
    let program = command.get_program().to_string_lossy();
    format!("could not start `{}`: {error}; is `{program}` installed?", describe(command)).into()
}

fn failed(command: &Command, status: ExitStatus) -> Box<dyn Error> {
    format!("`{}` failed ({status})", describe(command)).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let error = check(Command::new("no-such-program").arg("now")).unwrap_err().to_string();
        assert!(error.starts_with("could not start `no-such-program now`"), "{error}");
    }

    #[test]
    fn a_failure_names_the_command() {
        let mut command = cargo(["no-such-subcommand"]);
        command.stderr(Stdio::null());
        let error = check(&mut command).unwrap_err().to_string();
        assert!(error.starts_with("`cargo no-such-subcommand` failed"), "{error}");
        assert!(!succeeds(&mut command).unwrap());
    }

    #[test]
    fn watching_sees_every_line_of_both_streams() {
        let mut seen = Vec::new();
        let status =
            watch(&mut cargo(["no-such-subcommand"]), |stream, line| seen.push((stream, line.to_owned())))
                .unwrap();
        assert!(!status.success());
        assert!(seen.iter().any(|(stream, line)| *stream == Stream::Err && line.contains("no such command")));
        let version = capture(&mut cargo(["--version"])).unwrap();
        let mut lines = Vec::new();
        watch(&mut cargo(["--version"]), |stream, line| lines.push((stream, line.to_owned()))).unwrap();
        assert_eq!(lines, [(Stream::Out, version.trim_end().to_owned())]);
    }
}
