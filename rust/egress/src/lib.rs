//! The guard: where bytes may go.
//!
//! An HTTP forward proxy for a sandbox whose only way out it is. The sandbox
//! asks for a tunnel by name (`CONNECT host:port`) or for an `http://` URL, and
//! is not trusted in any of it; the [`Guard`] decides whether the name is
//! allowed, which addresses it stands for, whether those may be reached, and
//! connects to one of them. Each request goes through the same steps, and each
//! step ends it when it fails:
//!
//! 1. the host is brought into its one canonical form ([`Host`]);
//! 2. host and port are looked up in the [`Policy`], before any DNS query, so
//!    that a refused name leaves no trace on the network;
//! 3. the name is resolved, exactly once ([`Resolver`]);
//! 4. every address is checked against the special-purpose registries
//!    ([`check`]); one bad address refuses the request;
//! 5. the connection goes to one of the very addresses that were checked.
//!
//! What came of it is told to a [`Recorder`], as [`Record`]s, and a client that
//! is refused is told why.
//!
//! The policy can be replaced at any time ([`Guard::set_policy`]): what the new
//! one does not allow is cut. One request can be granted without it
//! ([`Guard::grant_once`]). A private destination needs an exception, which is an
//! address or a network ([`Place`]). What a connection may take, in time and
//! memory, is bounded; see [`Guard`].
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use egress::{Guard, Place, Policy, SystemResolver};
//!
//! # async fn example(stream: tokio::net::TcpStream) -> Result<(), Box<dyn std::error::Error>> {
//! let policy = Policy::new(
//!     ["api.example.com", "*.example.org:443", "db.internal:5432", "wiki.lan"],
//!     [("db.internal", "10.0.0.8".parse::<Place>()?), ("wiki.lan", "10.0.0.0/8".parse()?)],
//! )?;
//! let recorder = Arc::new(|record| println!("{record:?}"));
//! let guard = Guard::new(policy, SystemResolver::new(), recorder)
//!     .with_secret("agent", "a long random text")
//!     .with_hint(|host, port| format!("ask for {host}:{port}"));
//! let guard = Arc::new(guard);
//! tokio::spawn(Arc::clone(&guard).serve(stream)).await?;
//!
//! let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
//! let stop = std::future::pending();
//! tokio::spawn(guard.run(listener, stop)).await?;
//! # Ok(())
//! # }
//! ```

mod address;
mod credential;
mod dial;
mod entry;
mod forward;
mod guard;
mod hop;
mod host;
mod listen;
mod once;
mod opened;
mod permit;
mod place;
mod policy;
mod record;
mod refusal;
mod relay;
mod reply;
mod resolver;
mod target;
mod traffic;
mod tunnel;

pub use address::check;
pub use entry::{DEFAULT_PORTS, Entry};
pub use guard::Guard;
pub use host::{Host, HostError};
pub use place::Place;
pub use policy::{Policy, PolicyError, Route};
pub use record::{Decision, Event, Record, Recorder};
pub use refusal::Refusal;
pub use resolver::{Resolver, SystemResolver};
pub use target::{parse_port, split_port};
