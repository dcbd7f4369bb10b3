//! The guard: where bytes may go.
