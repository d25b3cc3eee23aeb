//! Load generator and measurements.
fn main() {}
