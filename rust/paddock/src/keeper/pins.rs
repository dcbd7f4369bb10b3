//! What the launch found about its pins, written down.

use super::Keeper;
use crate::pins::Outcome;

impl Keeper<'_> {
    pub(super) fn note_pins(&self) {
        match self.pinned {
            Outcome::Same => {}
            Outcome::First(hashes) => self.ledger.add("pinned", hashes.clone()),
            Outcome::Changed { details, .. } => self.ledger.add("pin-changed", details.clone()),
        }
    }
}
