//! Whether this user may make control groups below its own (`cgroups(7)`,
//! "Cgroups delegation"). No tier needs it yet.

use std::io;
use std::path::{Path, PathBuf};

use super::Feature;
use super::errno::named;
use crate::output::shown;

const NAME: &str = "cgroup-delegation";
const ADVICE: &str = "no tier needs it; with systemd: systemd-run --user --scope -p Delegate=yes \
    paddock run ...";
/// Those that limit what a launch uses up.
const WANTED: [&str; 3] = ["cpu", "memory", "pids"];

/// Makes a group below this process's own, and removes it.
pub(super) fn examine() -> Feature {
    // Lossy: a path of another mount that is no text hides nothing of this one's.
    let read =
        |path: &str| String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).into_owned();
    let Some(own) = own_group(&read("/proc/self/mountinfo"), &read("/proc/self/cgroup")) else {
        return Feature::missing(NAME, "cgroup v2 is not mounted, or this process is in none")
            .advise(
                "no tier needs it; mount cgroup2, or boot with systemd.unified_cgroup_hierarchy=1",
            );
    };
    let group = own.join(format!("paddock-doctor-{}", std::process::id()));
    let made = std::fs::create_dir(&group);
    if made.is_ok() {
        let _ = std::fs::remove_dir(&group);
    }
    let controllers = std::fs::read_to_string(own.join("cgroup.controllers")).unwrap_or_default();
    judge(&own, &made, &controllers)
}

fn judge(own: &Path, made: &io::Result<()>, controllers: &str) -> Feature {
    let has: Vec<&str> =
        controllers.split_whitespace().filter(|name| WANTED.contains(name)).collect();
    match made {
        Err(e) => Feature::missing(NAME, format!("mkdir below {}: {}", shown(own), named(e)))
            .advise(ADVICE),
        Ok(()) if has.len() == WANTED.len() => {
            Feature::enforced(NAME, format!("a group was made, with {}", WANTED.join(", ")))
        }
        Ok(()) => Feature::partial(
            NAME,
            format!(
                "a group was made; of {} it has {}",
                WANTED.join(", "),
                if has.is_empty() { "none".to_owned() } else { has.join(", ") }
            ),
        )
        .advise(ADVICE),
    }
}

/// The directory of this process's group in the version 2 hierarchy
/// (`proc_pid_mountinfo(5)`, `proc_pid_cgroup(5)`).
fn own_group(mountinfo: &str, cgroup: &str) -> Option<PathBuf> {
    let place = cgroup.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let (root, mounted) = mountinfo.lines().find_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        let mut fields = before.split(' ').skip(3);
        (after.split(' ').next() == Some("cgroup2")).then(|| fields.next().zip(fields.next()))?
    })?;
    // In a container the hierarchy may be mounted from a group of it on.
    let place = Path::new("/").join(place);
    let below = place.strip_prefix(root).ok()?;
    // Joined with nothing a path ends in a slash.
    Some(Path::new(mounted).components().chain(below.components()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::State;

    #[test]
    fn the_own_group_is_found_where_it_is_mounted() {
        let unified = "25 1 0:20 / /proc rw - proc proc rw\n\
            30 1 0:25 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n";
        let legacy = "26 1 0:21 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
            30 1 0:25 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        let part = "30 1 0:25 /user.slice /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        for (mountinfo, cgroup, group) in [
            (unified, "0::/user.slice/a\n", Some("/sys/fs/cgroup/user.slice/a")),
            (unified, "0::/\n", Some("/sys/fs/cgroup")),
            (legacy, "4:memory:/x\n0::/\n", Some("/sys/fs/cgroup/unified")),
            (part, "0::/user.slice/a\n", Some("/sys/fs/cgroup/a")),
            (part, "0::/other\n", None),
            (unified, "4:memory:/x\n", None),
            ("", "0::/\n", None),
            ("", "", None),
        ] {
            assert_eq!(own_group(mountinfo, cgroup), group.map(PathBuf::from), "{cgroup}");
        }
    }

    #[test]
    fn a_group_counts_with_its_controllers() {
        let own = Path::new("/x");
        for (made, controllers, state) in [
            (Ok(()), "cpuset cpu io memory pids\n", State::Enforced),
            (Ok(()), "memory pids\n", State::Partial),
            (Ok(()), "", State::Partial),
            (Err(io::ErrorKind::PermissionDenied.into()), "cpu memory pids\n", State::Missing),
        ] {
            assert_eq!(judge(own, &made, controllers).state, state, "{controllers}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_a_group_or_none(mountinfo: String, cgroup: String) {
            let _ = own_group(&mountinfo, &cgroup);
            let _ = own_group(&mountinfo, &format!("0::/{cgroup}"));
            let mounted = format!("30 1 0:25 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n{mountinfo}");
            let found = own_group(&mounted, "0::/a b\n");
            proptest::prop_assert_eq!(found, Some(PathBuf::from("/sys/fs/cgroup/a b")));
        }
    }
}
