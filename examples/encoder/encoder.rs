//! The sentence encoder all-MiniLM-L6-v2 over a device mesh: see `--help`.

use std::io::{self, Write};
use std::process::ExitCode;

use encoder_example::{Outcome, run};

fn main() -> ExitCode {
    let mut out = io::stdout().lock();
    let outcome = run(std::env::args_os().skip(1), &mut out)
        .and_then(|outcome| out.flush().map(|()| outcome).map_err(encoder_example::output_error));
    match outcome {
        Ok(Outcome::Done) => ExitCode::SUCCESS,
        Ok(Outcome::Differs) => ExitCode::from(1),
        // Whoever read the output has seen enough, as `head` does.
        Err(error) if encoder_example::is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}
