//! All of it, in the order of the table.

use std::path::{Path, PathBuf};

use super::advice::name_what_remains;
use super::cause::Surroundings;
use super::probe::{Probe, Running};
use super::{
    Feature, HostReport, cgroup, confined, kernel, landlock, namespaces, places, programs, seccomp,
};
use crate::launch::{Config, Directories, lowered_landlock_abi};

/// What is examined, and how.
pub(crate) struct Subject<'a> {
    pub(super) config: &'a Config,
    pub(super) directories: &'a Directories,
    /// This program, which tries some things in a process of their own.
    pub(super) program: PathBuf,
    /// Tests lower the Landlock ABI; it cannot be raised.
    pub(super) landlock_limit: Option<i32>,
    pub(super) around: Surroundings,
}

impl<'a> Subject<'a> {
    /// The host that this process runs on.
    pub(crate) fn here(config: &'a Config, directories: &'a Directories) -> Self {
        Self {
            config,
            directories,
            program: PathBuf::from("/proc/self/exe"),
            landlock_limit: lowered_landlock_abi(),
            around: Surroundings::look(Path::new("/")),
        }
    }
}

/// Tries every feature. Nothing of this process is changed by it, and nothing is
/// left on the host.
pub(crate) fn examine(subject: &Subject<'_>) -> HostReport {
    let around = &subject.around;
    // It works while the others are looked at.
    let apart = Running::start(Probe::Namespaces, &subject.program);
    let mut other = Running::another(&subject.program);
    let mut kernel = kernel::examine(around);
    let plain_user: Vec<Feature> = kernel.drain(..1).collect();
    let mut features = plain_user;
    let pid = match &other {
        Ok(other) => other.pid(),
        Err(e) => Err(std::io::Error::from(e.kind())),
    };
    features.extend(landlock::examine(subject, pid));
    features.extend(seccomp::examine(around));
    let mut watched = confined::examine(&mut other, &subject.program, around);
    let told = apart.and_then(|mut apart| apart.line());
    features.extend(namespaces::features(&told, around));
    features.extend(kernel);
    features.append(&mut watched);
    features.push(cgroup::examine());
    features.extend(places::examine(subject.directories));
    features.extend(programs::examine(subject.config, subject.directories));
    let tier = name_what_remains(&mut features);
    HostReport { features, tier }
}

/// The names of all features, whatever came of them here.
#[cfg(test)]
pub(crate) fn feature_names() -> Vec<String> {
    examine(&Subject::for_tests()).features.into_iter().map(|feature| feature.name).collect()
}

#[cfg(test)]
impl Subject<'static> {
    /// One of which only parts are examined.
    pub(super) fn for_tests() -> Self {
        use std::sync::LazyLock;
        static CONFIG: LazyLock<Config> = LazyLock::new(Config::default);
        static DIRECTORIES: LazyLock<Directories> =
            LazyLock::new(|| Directories::find().expect("a home"));
        Self {
            config: &CONFIG,
            directories: &DIRECTORIES,
            program: PathBuf::from("/bin/false"),
            landlock_limit: None,
            around: Surroundings::default(),
        }
    }
}
