//! Paddock.
fn main() {}
