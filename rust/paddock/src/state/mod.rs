//! What is known of launches on disk: a record each, and a ledger beside it.

mod ledger;
mod lock;
mod record;

pub(crate) use ledger::{Item, LEDGER, Ledger, LedgerEntry, LedgerReader, now_ms};
pub(crate) use lock::KeeperLock;
pub(crate) use record::{
    HerdrPane, Part, PenNamespaces, Phase, Record, Stored, find_launch, known_launches,
    launches_beside, stored_launches,
};
