//! Timing of something that is much shorter than the clock's resolution.

use sharding_core::Result;
use std::fmt;
use std::time::{Duration, Instant};

/// How long to run before measuring: caches fill, the processor leaves its idle state.
const WARM_UP: Duration = Duration::from_millis(50);
/// How long to measure. (`proof/peers/peer.py` measures other systems as long.)
const MEASURE: Duration = Duration::from_millis(250);
/// The fewest samples, of what takes long.
const LEAST: usize = 3;
/// How long a sample should be: long beside the clock's resolution, short beside a scheduler's time slice.
const SAMPLE: Duration = Duration::from_micros(50);

/// What was measured.
#[derive(Clone, Debug)]
pub(super) struct Measured {
    name: String,
    /// Seconds of one run: the median over samples.
    seconds: f64,
    /// Seconds of one run in the fastest sample; the number to trust on a busy machine.
    min: f64,
    /// How often it ran while measured.
    iterations: u64,
    bytes: Option<u64>,
    flops: Option<u64>,
}

/// Measures `run`, which is one run.
///
/// # Errors
/// The first error of a run.
pub(super) fn measure<T>(name: &str, mut run: impl FnMut() -> Result<T>) -> Result<Measured> {
    let (started, mut runs) = (Instant::now(), 0_u32);
    while started.elapsed() < WARM_UP || runs == 0 {
        std::hint::black_box(run()?);
        runs += 1;
    }
    let once = started.elapsed().as_secs_f64() / f64::from(runs);
    let batch = (SAMPLE.as_secs_f64() / once).clamp(1.0, 1e6) as u64;
    let (started, mut samples) = (Instant::now(), Vec::new());
    while started.elapsed() < MEASURE || samples.len() < LEAST {
        let sample = Instant::now();
        for _ in 0..batch {
            std::hint::black_box(run()?);
        }
        samples.push(sample.elapsed().as_secs_f64() / batch as f64);
    }
    samples.sort_by(f64::total_cmp);
    let at = |i: usize| samples.get(i).copied().unwrap_or(f64::NAN);
    Ok(Measured {
        name: name.to_owned(),
        seconds: at(samples.len() / 2),
        min: at(0),
        iterations: batch * samples.len() as u64,
        bytes: None,
        flops: None,
    })
}

impl Measured {
    /// With the bytes that one run moves or touches.
    pub(super) fn with_bytes(self, bytes: u64) -> Self {
        Self { bytes: Some(bytes), ..self }
    }
    /// With the floating-point operations of one run.
    pub(super) fn with_flops(self, flops: u64) -> Self {
        Self { flops: Some(flops), ..self }
    }

    /// One JSON object.
    pub(super) fn json(&self) -> String {
        let mut object = serde_json::json!({
            "name": self.name, "seconds": self.seconds, "min": self.min, "iterations": self.iterations,
        });
        for (key, value) in [("bytes", self.bytes), ("flops", self.flops)] {
            if let (Some(value), Some(fields)) = (value, object.as_object_mut()) {
                fields.insert(key.to_owned(), value.into());
            }
        }
        object.to_string()
    }
}

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micros = |seconds: f64| seconds * 1e6;
        write!(
            f,
            "{:32} {:>10.3} us median {:>10.3} us min {:>12} iterations",
            self.name,
            micros(self.seconds),
            micros(self.min),
            self.iterations
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sharding_core::{Error, ErrorKind};

    #[test]
    fn a_run_is_timed_and_an_error_ends_it() {
        let nap = Duration::from_millis(2);
        let measured = measure("nap", || {
            std::thread::sleep(nap);
            Ok(())
        })
        .unwrap();
        assert!(measured.min >= nap.as_secs_f64() && measured.seconds >= measured.min);
        let json: serde_json::Value = serde_json::from_str(&measured.with_bytes(8).json()).unwrap();
        assert!(
            json["iterations"].as_u64().unwrap() >= 10 && json["bytes"] == 8 && json.get("flops").is_none()
        );
        assert!(measure("bad", || -> Result<()> { Err(Error::new(ErrorKind::Backend, "none")) }).is_err());
    }
}
