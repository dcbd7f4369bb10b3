//! Programs that fetch, each in a launch: through the guard at the first try, from a
//! registry-shaped server on the test host; and how a refusal looks to them.

// What a helper needs and does not find fails the test that uses it.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod fetch;
mod files;
mod packages;
mod runtimes;
mod ssh;
