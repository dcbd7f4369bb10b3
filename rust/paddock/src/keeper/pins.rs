//! What the launch found about its pins, written down.

use super::Keeper;
use crate::error::Error;
use crate::launch::Directories;
use crate::pins::Outcome;

impl Keeper<'_> {
    pub(super) fn note_pins(&self) {
        match &self.pinned.outcome {
            Outcome::Same => {}
            Outcome::First(hashes) => self.ledger.add("pinned", hashes.clone()),
            Outcome::Changed { details, .. } => self.ledger.add("pin-changed", details.clone()),
        }
    }

    /// Once every layer is proved.
    pub(super) fn record_pins(&self, directories: &Directories) -> Result<(), Error> {
        self.pinned.record(directories)
    }
}
