//! A program as text.

use super::Program;
use crate::backend::Step;
use crate::plan::{CostModel, CostUnit};
use crate::{Result, Scope, TensorLayout, dispatch, text};
use std::fmt;

/// What a transfer would do; prints as a table.
#[derive(Clone, Debug)]
pub struct Explanation {
    program: Program,
    /// What the model that it was explained under counts.
    unit: CostUnit,
    /// Of each step its price under that model.
    prices: Vec<f64>,
}

impl Explanation {
    /// A program, priced by a model; it may be another one than it was planned by.
    ///
    /// # Errors
    /// [`ErrorKind::Kernel`](crate::ErrorKind::Kernel) if the model panics.
    pub fn of(program: Program, model: &dyn CostModel) -> Result<Self> {
        let price = || Ok((model.unit(), program.steps.iter().map(|step| step.price(model)).collect()));
        let (unit, prices) = dispatch::guarded("the cost model", price)?;
        Ok(Self { program, unit, prices })
    }

    /// The program.
    pub fn program(&self) -> &Program {
        &self.program
    }
    /// Bytes that one device sends in all steps together; receives, for permute and move. By the volume model, whatever
    /// model is in force.
    pub fn bytes(&self) -> f64 {
        // A sum of none is -0.
        0.0 + self.program.steps.iter().map(Step::bytes).sum::<f64>()
    }
    /// Modelled seconds of all steps together; `None` under a model that counts something else.
    pub fn seconds(&self) -> Option<f64> {
        (self.unit == CostUnit::Seconds).then(|| 0.0 + self.prices.iter().sum::<f64>())
    }
    /// The most bytes that one device holds at a time: for each step its piece of what it reads and of what it makes, and behind
    /// the first its piece of the source, which whoever asks for the transfer still has.
    pub fn peak(&self) -> usize {
        let Some((first, rest)) = self.program.steps.split_first() else { return 0 };
        let source = self.program.source.largest_shard_bytes();
        let made_by = |step: &Step| if step.makes() { step.target.largest_shard_bytes() } else { 0 };
        let (mut most, mut between) = (first.peak(), made_by(first));
        for step in rest {
            let made = made_by(step);
            most = most.max(source.saturating_add(between).saturating_add(made));
            between = if step.makes() { made } else { between };
        }
        most
    }

    /// A price for the table, if it is one in seconds.
    fn time(&self, price: f64) -> String {
        text::seconds((self.unit == CostUnit::Seconds).then_some(price))
    }
}

/// The program that [`Tensor::transfer_to`](crate::Tensor::transfer_to) would run under the cost model in scope, without
/// running it: step, collective, mesh axes, bytes per device, modelled seconds, peak bytes, and the placements before and
/// after. What a column means says [`explain`](crate::trace::explain), which runs a program.
///
/// ```
/// use sharding_core::redistribute::explain_transfer;
/// use sharding_core::{BackendKind, DType, DeviceMapping, DeviceMesh, Place, TensorLayout};
/// let mesh = DeviceMesh::simulated(BackendKind::CPU, [2], ["tp"])?;
/// let source = TensorLayout::new(DType::F32, [4, 8], DeviceMapping::new(&mesh, [Place::PARTIAL])?)?;
/// let target = source.with_mapping(DeviceMapping::replicated(&mesh))?;
/// let text = explain_transfer(&source, &target)?.to_string();
/// let want = "
/// f32[4, 8] on DeviceMesh(tp=2)
///   step   collective  mesh axes  bytes/device  seconds  peak bytes  before              after
///   1      all_reduce  tp                  128        -         256  {tp: Partial(sum)}  {tp: Replicated}
///   total                                  128        -         256
/// ";
/// assert_eq!(text, want.trim());
/// # Ok::<(), sharding_core::Error>(())
/// ```
///
/// # Errors
/// As [`Program::search`]; [`ErrorKind::Kernel`](crate::ErrorKind::Kernel) if the model panics.
pub fn explain_transfer(source: &TensorLayout, target: &TensorLayout) -> Result<Explanation> {
    let scope = Scope::current();
    let search = || Program::search(source, target, scope.cost());
    let explained = dispatch::guarded("the cost model", search)
        .and_then(|program| Explanation::of(program, scope.cost()));
    explained.map_err(|error| error.with_op("explain_transfer"))
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Program { source, target, steps, .. } = &self.program;
        write!(f, "{} on {}", source.meta(), source.mesh())?;
        if source.mesh() != target.mesh() {
            write!(f, " to {}", target.mesh())?;
        }
        if steps.is_empty() {
            return write!(f, "\n  nothing moves: it lies as {} already", target.mapping());
        }
        let head =
            ["step", "collective", "mesh axes", "bytes/device", "seconds", "peak bytes", "before", "after"];
        let mut rows = vec![head.map(str::to_owned)];
        for (i, (step, price)) in steps.iter().zip(&self.prices).enumerate() {
            let axes: Vec<&str> = step.axis_names().collect();
            rows.push([
                (i + 1).to_string(),
                step.kind.name().to_owned(),
                axes.join(", "),
                format!("{:.0}", step.bytes()),
                self.time(*price),
                step.peak().to_string(),
                step.source.mapping().to_string(),
                step.target.mapping().to_string(),
            ]);
        }
        let none = String::new;
        rows.push([
            "total".to_owned(),
            none(),
            none(),
            format!("{:.0}", self.bytes()),
            self.time(self.prices.iter().sum()),
            self.peak().to_string(),
            none(),
            none(),
        ]);
        writeln!(f)?;
        text::table(f, "  ", &rows, 3..=5)?;
        if self.unit == CostUnit::Score {
            write!(f, "\n  price by the model in force: {}", self.prices.iter().sum::<f64>())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placement::Ragged;
    use crate::plan::{AlphaBetaCost, Link, StepQuery};
    use crate::{BackendKind, DType, Device, DeviceMapping, DeviceMesh, ErrorKind, Place};
    use std::sync::Arc;

    fn transfer() -> (TensorLayout, TensorLayout) {
        let mesh = DeviceMesh::simulated(BackendKind::CPU, [2, 2], ["dp", "tp"]).unwrap();
        let lay = |places: [Place; 2]| {
            TensorLayout::new(DType::F32, [4, 8], DeviceMapping::new(&mesh, places).unwrap()).unwrap()
        };
        (lay([Place::PARTIAL, Place::Sharded(0)]), lay([Place::Sharded(1), Place::Replicated]))
    }

    fn under(model: impl CostModel + 'static) -> Result<Explanation> {
        let (source, target) = transfer();
        let scope = (*Scope::current()).clone().with_cost(Arc::new(model));
        scope.enter(|| explain_transfer(&source, &target))
    }

    #[test]
    fn prints_a_table() {
        let (source, target) = transfer();
        let text = explain_transfer(&source, &target).unwrap().to_string();
        let want = "
f32[4, 8] on DeviceMesh(dp=2, tp=2)
  step   collective      mesh axes  bytes/device  seconds  peak bytes  before                                after
  1      reduce_scatter  dp                   32        -          96  {dp: Partial(sum), tp: Sharded(0)}    {dp: Sharded(1), tp: Sharded(0)}
  2      all_gather      tp                   32        -          96  {dp: Sharded(1), tp: Sharded(0)}      {dp: Sharded(1), tp: Replicated}
  total                                       64        -         160";
        let squeeze = |text: &str| {
            text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect::<Vec<_>>()
        };
        assert_eq!(squeeze(&text), squeeze(want.trim()));
        assert!(explain_transfer(&source, &source).unwrap().to_string().contains("nothing moves"));
    }

    fn over_2x2(shape: [usize; 2], from: [Place; 2], to: [Place; 2]) -> Explanation {
        let mesh = DeviceMesh::simulated(BackendKind::CPU, [2, 2], ["a", "b"]).unwrap();
        let lay = |places: [Place; 2]| {
            TensorLayout::new(DType::F32, shape, DeviceMapping::new(&mesh, places).unwrap()).unwrap()
        };
        explain_transfer(&lay(from), &lay(to)).unwrap()
    }

    /// The caller still has the source when the second step runs.
    #[test]
    fn the_source_is_held_to_the_end() {
        let (r, p, s0, s1) = (Place::Replicated, Place::PARTIAL, Place::Sharded(0), Place::Sharded(1));
        // 512 of the source, 256 in between, 512 of the result.
        assert_eq!(over_2x2([16, 16], [p, s1], [s1, r]).peak(), 1280);
        assert_eq!(over_2x2([64, 16], [s0, p], [p, s1]).peak(), 5120);
    }

    #[test]
    fn a_slice_is_a_view_and_sends_nothing() {
        let (r, s0) = (Place::Replicated, Place::Sharded(0));
        let explained = over_2x2([16, 16], [r, r], [s0, r]);
        assert_eq!((explained.bytes(), explained.peak()), (0.0, 1024), "{explained}");
        let cells: Vec<String> =
            explained.to_string().lines().nth(2).unwrap().split_whitespace().map(str::to_owned).collect();
        assert_eq!(cells[1..6], ["local_slice", "a", "0", "-", "1024"]);
        let nothing = over_2x2([16, 16], [r, r], [r, r]);
        assert!(nothing.bytes().is_sign_positive() && nothing.peak() == 0, "{nothing}");
    }

    /// An axis of one device gets another label: what it holds stays the one buffer that it was.
    #[test]
    fn what_is_relabelled_is_held_once() {
        let mesh = DeviceMesh::simulated(BackendKind::CPU, [2, 1], ["dp", "tp"]).unwrap();
        let lay = |places: [Place; 2]| {
            TensorLayout::new(DType::F32, [4, 8], DeviceMapping::new(&mesh, places).unwrap()).unwrap()
        };
        let (source, target) =
            (lay([Place::Sharded(0), Place::PARTIAL]), lay([Place::Sharded(0), Place::Replicated]));
        let explained = explain_transfer(&source, &target).unwrap();
        assert_eq!((explained.bytes(), explained.peak()), (0.0, 64), "{explained}");
    }

    /// Of each device what it holds itself: others hold what the source leaves, or most of the source.
    #[test]
    fn the_peak_is_of_one_device() {
        let devices = |slots: std::ops::Range<u32>| slots.map(|slot| Device::cpu().with_slot(slot)).collect();
        let lay = |slots, place| {
            let devices: Vec<Device> = devices(slots);
            let mesh = DeviceMesh::new(&devices, [devices.len()], ["x"]).unwrap();
            TensorLayout::new(DType::F32, [8], DeviceMapping::new(&mesh, [place]).unwrap()).unwrap()
        };
        let peak = |source, target| explain_transfer(&source, &target).unwrap().peak();
        let (r, s) = (Place::Replicated, Place::Sharded(0));
        assert_eq!(peak(lay(0..2, s), lay(2..5, r)), 32);
        assert_eq!(peak(lay(0..2, s), lay(1..4, r)), 16 + 32);
        assert_eq!(peak(lay(0..2, s), lay(0..2, r)), 16 + 32);
        let ragged = |a, b| Ragged::place(0, [a, b]);
        assert_eq!(peak(lay(0..2, ragged(7, 1)), lay(0..2, ragged(1, 7))), 32);
        assert_eq!(peak(lay(0..2, ragged(7, 1)), lay(0..2, ragged(6, 2))), 28 + 24);
    }

    /// Bytes are bytes, and seconds stand in their own column, whatever the model counts.
    #[test]
    fn a_model_in_seconds_gives_seconds() {
        let explained = under(AlphaBetaCost::new(Link::new(1e-3, 1e9)).unwrap()).unwrap();
        let seconds: Vec<f64> = explained.program().steps.iter().map(|step| step.cost).collect();
        assert_eq!(explained.seconds(), Some(seconds.iter().sum()));
        let text = explained.to_string();
        for (line, step) in text.lines().skip(2).zip(&explained.program().steps) {
            let cells: Vec<&str> = line.split_whitespace().collect();
            assert_eq!(cells[3..6], [&*format!("{:.0}", step.bytes()), &format!("{:.3e}", step.cost), "96"]);
        }
    }

    #[derive(Debug)]
    struct Odd(CostUnit, f64);

    impl CostModel for Odd {
        fn key(&self) -> u64 {
            0x0dd
        }
        fn unit(&self) -> CostUnit {
            self.0
        }
        fn transition(&self, _: crate::placement::Transition, _: f64, _: &DeviceMesh, _: usize) -> f64 {
            self.1
        }
        fn step(&self, _: &StepQuery<'_>) -> f64 {
            assert_ne!(self.1, 1e10, "priced out");
            self.1
        }
    }

    #[test]
    fn models_of_users_are_shown_or_refused() {
        let text = under(Odd(CostUnit::Score, 2.5)).unwrap().to_string();
        assert!(text.lines().last().is_some_and(|line| line.ends_with("in force: 5")), "{text}");
        assert_eq!(under(Odd(CostUnit::Bytes, f64::NAN)).unwrap_err().kind(), ErrorKind::Argument);
        let error = under(Odd(CostUnit::Bytes, 1e10)).unwrap_err();
        assert!(error.to_string().starts_with("explain_transfer: the cost model panicked: "), "{error}");
    }

    #[test]
    fn layouts_of_two_tensors_are_refused() {
        let (source, _) = transfer();
        let target = TensorLayout::new(DType::BF16, [4, 8], source.mapping().clone()).unwrap();
        let error = explain_transfer(&source, &target).unwrap_err();
        let text = error.to_string();
        assert!(error.op() == Some("explain_transfer") && error.fix().is_some(), "{error}");
        assert!(text.contains(&source.to_string()) && text.contains(&target.to_string()), "{error}");
    }
}
