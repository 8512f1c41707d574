//! gush
fn main() {}
