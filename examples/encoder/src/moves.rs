//! What moves between the devices, and a record of it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use sharding_core::backend::StepKind;
use sharding_core::redistribute::explain_transfer;
use sharding_core::{Call, Recorder};
use sharding_ops::{DeviceMapping, Place, Tensor};

use crate::Result;

/// Moves that the model asks for, and moves that ops added.
///
/// It is off unless somebody wants to see it: a record costs a search for the steps of every move.
#[derive(Clone, Debug, Default)]
pub struct Moves(Option<Arc<Mutex<Record>>>);

/// How often each move ran and how many bytes a device sent each time, by its place in the model and what it did.
#[derive(Debug, Default)]
struct Record(BTreeMap<(String, String), (usize, f64)>);

impl Moves {
    /// Moves of which a record is kept.
    pub fn recorded() -> Self {
        Self(Some(Arc::default()))
    }

    /// The sum of the parts of a Partial tensor on every device: one all_reduce. Other mesh axes stay as they are, and
    /// without a Partial one nothing happens.
    ///
    /// # Errors
    /// What the backend says.
    pub fn reduce(&self, place: &'static str, x: &Tensor) -> Result<Tensor> {
        let whole = |place: &Place| if place.is_partial() { Place::Replicated } else { *place };
        let places: Vec<Place> = x.mapping().places().iter().map(whole).collect();
        self.transfer(place, x, &DeviceMapping::new(x.mesh(), places)?)
    }

    /// The whole tensor on every device.
    ///
    /// # Errors
    /// What the backend says.
    pub fn gather(&self, place: &'static str, x: &Tensor) -> Result<Tensor> {
        self.transfer(place, x, &DeviceMapping::replicated(x.mesh()))
    }

    fn transfer(&self, place: &'static str, x: &Tensor, target: &DeviceMapping) -> Result<Tensor> {
        if self.0.is_some() && x.mapping() != target {
            let moved = explain_transfer(x.layout(), &x.layout().with_mapping(target.clone())?)?;
            let steps = &moved.program().steps;
            for step in steps.iter().filter(|step| step.kind != StepKind::Relabel) {
                let axes: Vec<&str> = step.axis_names().collect();
                self.add(place, format!("{}({})", step.kind.name(), axes.join(", ")), step.cost);
            }
        }
        x.transfer_to(target)
    }

    fn add(&self, place: &str, what: String, bytes: f64) {
        if let Some(record) = &self.0 {
            let mut record = record.lock().unwrap_or_else(PoisonError::into_inner);
            let entry = record.0.entry((place.to_owned(), what)).or_default();
            entry.0 += 1;
            entry.1 += bytes;
        }
    }

    /// How often each move ran: place, what, times.
    pub fn counts(&self) -> Vec<(String, String, usize)> {
        let Some(record) = &self.0 else { return Vec::new() };
        let record = record.lock().unwrap_or_else(PoisonError::into_inner);
        record.0.iter().map(|((place, what), (times, _))| (place.clone(), what.clone(), *times)).collect()
    }

    /// What is to be in force where ops run, for the record to have what they move on their own.
    pub fn recorder(&self) -> Option<Arc<dyn Recorder>> {
        self.0.is_some().then(|| Arc::new(self.clone()) as Arc<dyn Recorder>)
    }
}

impl Recorder for Moves {
    fn record(&self, call: &Call<'_>) -> Result<()> {
        if call.cost > 0.0 {
            self.add("added by an op", call.def.name.to_owned(), call.cost);
        }
        Ok(())
    }
}

/// The table of `--report`.
impl fmt::Display for Moves {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(record) = &self.0 else { return Ok(()) };
        let record = record.lock().unwrap_or_else(PoisonError::into_inner);
        if record.0.is_empty() {
            return writeln!(f, "moved: nothing");
        }
        writeln!(f, "moved:                                times  bytes sent by a device")?;
        for ((place, what), (times, bytes)) in &record.0 {
            writeln!(f, "  {place:<18} {what:<16} {times:>5}  {bytes:>12.0}")?;
        }
        Ok(())
    }
}
