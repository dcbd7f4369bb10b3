//! Why a layer did not start, in words that say what to do.

use super::Keeper;
use crate::error::Error;

impl Keeper<'_> {
    pub(super) fn layer_failed(&self, layer: &str, reason: &str) -> Error {
        let layer = match layer {
            "veil" => "veil",
            "pen" => "pen",
            "server" => "server",
            "client" => "client",
            _ => "inner",
        };
        let log = self.log.tail();
        let tier = self.plan.tier;
        // The veil and an isolated pen are made of user namespaces.
        if (layer == "veil" || layer == "pen" && tier.isolates_network())
            && let Some(setting) = forbidding_setting(&log)
        {
            return Error::NoNamespaces {
                tier: tier.name(),
                reason: format!("the {layer} layer did not start: {reason}{log}"),
                setting,
            };
        }
        Error::LayerStart { layer, reason: reason.to_owned(), log }
    }
}

/// Which setting of the host keeps a plain user from making namespaces, when
/// that is what the log says (`user_namespaces(7)`, and two that distributions
/// add).
fn forbidding_setting(log: &str) -> Option<String> {
    let about_namespaces = ["namespace", "uid map"];
    if !about_namespaces.iter().any(|words| log.contains(words)) {
        return None;
    }
    let is = |file: &str, value: &str| {
        std::fs::read_to_string(file).is_ok_and(|text| text.trim() == value)
    };
    let settings = [
        ("/proc/sys/user/max_user_namespaces", "0", "sysctl user.max_user_namespaces=10000"),
        (
            "/proc/sys/kernel/unprivileged_userns_clone",
            "0",
            "sysctl kernel.unprivileged_userns_clone=1",
        ),
        (
            "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
            "1",
            "an AppArmor profile for bwrap, or sysctl kernel.apparmor_restrict_unprivileged_userns=0",
        ),
    ];
    let found = settings.iter().find(|(file, value, _)| is(file, value));
    Some(found.map_or_else(
        || {
            "the host (a container, perhaps) refuses user namespaces; allow them for this user"
                .into()
        },
        |(file, value, change)| format!("{file} is {value}; allow it with: {change}"),
    ))
}
