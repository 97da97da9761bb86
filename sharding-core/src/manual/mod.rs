//! Manual regions: a function that runs once per device, and says itself what moves between them.

mod varies;

pub(crate) use varies::Varies;
