//! What the veil keeps read-only in the workspace, confirmed; and at the end of a launch
//! what changed there that the host runs or obeys later.

use std::path::PathBuf;

use super::Keeper;
use crate::error::Error;
use crate::launch::{Directories, check_mounts};
use crate::obeyed::Began;

impl Keeper<'_> {
    /// The mounts are those that were planned: nobody has put a link in the place of one,
    /// nor another directory in that of one that is shared.
    pub(super) fn check_what_the_veil_keeps(&self) -> Result<(), Error> {
        if !self.plan.tier.has_veil() {
            return Ok(());
        }
        let failed = |what: String| self.layer_failed("veil", &what);
        let init = self.roster.entries().init();
        let init = init.ok_or_else(|| failed("it has no first process".into()))?;
        let table = std::fs::read(format!("/proc/{}/mountinfo", init.pid))
            .map_err(|e| failed(format!("its mounts cannot be read: {e}")))?;
        check_mounts(&table, &self.plan.kept_of_git).map_err(failed)?;
        let root = PathBuf::from(format!("/proc/{}/root", init.pid));
        self.plan.shared.iter().try_for_each(|shared| shared.check_in(&root)).map_err(failed)
    }

    pub(super) fn remember_what_is_obeyed(&mut self, directories: &Directories) {
        let own = &self.plan.paths.launch;
        match Began::now(self.plan.places_to_look(), own, &directories.home) {
            Ok(began) => self.began = Some(began),
            Err(e) => self
                .notices
                .warn(&format!("what changes in the workspace will not be told at the end: {e}")),
        }
    }

    /// Once nothing of the agent runs any more. It costs no launch its status.
    pub(super) fn tell_what_is_obeyed(&mut self) {
        let Some(began) = self.began.take() else { return };
        let found = began.look().as_json();
        self.notices.obeyed(self.plan, &found);
        self.ledger.add("obeyed", found);
    }
}
