//! Grants for one request each, until what they opened has ended.

use tokio::sync::watch;

use crate::target::Target;

/// Those that are not used yet, and those whose connections are open.
#[derive(Default)]
pub(crate) struct OnceGrants {
    unused: Vec<Target>,
    open: Vec<(Target, watch::Sender<bool>)>,
}

/// What a used grant allows: it is `true` once that was taken back.
pub(crate) type TakenBack = watch::Receiver<bool>;

impl OnceGrants {
    pub(crate) fn grant(&mut self, target: Target) {
        self.unused.push(target);
    }

    /// Uses up a grant for this target, if there is one.
    pub(crate) fn take(&mut self, target: &Target) -> Option<TakenBack> {
        let found = self.unused.iter().position(|granted| granted == target)?;
        self.open.retain(|(_, taken_back)| !taken_back.is_closed());
        let (sender, taken_back) = watch::channel(false);
        self.open.push((self.unused.swap_remove(found), sender));
        Some(taken_back)
    }

    /// Takes back all for this target; `false` when there was nothing.
    pub(crate) fn take_back(&mut self, target: &Target) -> bool {
        let before = self.unused.len();
        self.unused.retain(|granted| granted != target);
        let mut is_any = self.unused.len() != before;
        self.open.retain(|(granted, taken_back)| {
            if granted == target {
                // Whose connection has ended already hears nothing.
                is_any |= taken_back.send(true).is_ok();
            }
            granted != target
        });
        is_any
    }
}
