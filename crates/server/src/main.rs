//! The `cellar` daemon.
fn main() {}
