//! Sockets of the host that lie where the agent may write: there mediation alone
//! stands between, and two threads can race it.

use confine::proc::unix_socket_paths;
use serde_json::json;

use super::Keeper;
use crate::output::shown;

impl Keeper<'_> {
    /// Tells of them, where neither the kernel's rule nor a filter holds.
    pub(super) fn note_sockets_in_reach(&self) {
        if self.survey.is_some() || self.plan.against_races.hold_without_veil() {
            return;
        }
        let granted = self.plan.writable();
        let sockets = unix_socket_paths().unwrap_or_default();
        let own = &self.plan.paths.launch;
        for path in sockets.iter().filter(|path| !path.starts_with(own)) {
            // As the kernel would resolve it.
            let real = path.canonicalize().unwrap_or_else(|_| path.clone());
            if granted.iter().any(|granted| real.starts_with(granted)) {
                self.ledger.add("socket-in-reach", json!({ "path": path.to_string_lossy() }));
                self.notices.warn(&format!(
                    "a program of yours listens at {}, where the agent may write: two of its threads \
                     could reach it (nono's mediation can be raced); move it, or set unix = \"strict\"",
                    shown(path)
                ));
            }
        }
    }
}
