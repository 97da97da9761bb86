//! Stub.
use super::PlanRequest;
/// Stub.
#[derive(Debug)]
pub struct Report(String);
impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}
/// Stub.
pub fn trace(_: &PlanRequest<'_>) -> Report {
    todo!()
}
