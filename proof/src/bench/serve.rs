//! `bench --serve`: benchmarks one at a time, as somebody asks for them, so that the answers of several systems are taken
//! in turn. The drivers of the others, in `proof/peers`, speak the same lines.

use super::{BENCHES, Outcome};
use crate::print::line;
use serde_json::json;
use std::io::BufRead;
use std::process::ExitCode;

/// Prints one JSON object about itself (`peer`, `version`, `way`, `means`, `items`), then measures each name that it reads.
pub(super) fn run() -> ExitCode {
    let items: Vec<&str> = BENCHES.iter().map(|(name, _)| *name).collect();
    line(json!({
        "peer": "this project", "version": env!("CARGO_PKG_VERSION"), "way": "eager",
        "means": "simulated devices of the cpu", "items": items,
    }));
    for name in std::io::stdin().lock().lines().map_while(Result::ok) {
        line(answer(name.trim()));
    }
    ExitCode::SUCCESS
}

/// What `bench --json` prints of the benchmark, or its name and the `error`.
fn answer(name: &str) -> String {
    let error = |text: String| -> String { json!({"name": name, "error": text}).to_string() };
    match BENCHES.iter().find(|(known, _)| *known == name) {
        None => error("there is no such benchmark".to_owned()),
        Some((_, bench)) => match bench(name) {
            Ok(Outcome::Measured(measured)) => measured.json(),
            Ok(Outcome::Skipped(reason)) => error(reason),
            Err(why) => error(why.to_string()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn an_answer_is_seconds_or_an_error() {
        let read = |name: &str| serde_json::from_str::<Value>(&answer(name)).unwrap();
        let measured = read("redistribute/S0-S1/4KiB");
        assert!(measured["seconds"].as_f64().unwrap() > 0.0 && measured["name"] == "redistribute/S0-S1/4KiB");
        assert!(read("redistribute/S0").get("seconds").is_none());
        assert!(read("redistribute/S0")["error"].as_str().unwrap().contains("no such benchmark"));
    }
}
