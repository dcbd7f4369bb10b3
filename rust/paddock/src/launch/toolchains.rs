//! Toolchains below the person's home: what is granted to be read is also found.
//!
//! A grant alone makes files readable. For `cargo` to start, its directory must be in
//! the search path, and rustup must be told where its toolchains are, since HOME is
//! another one inside.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use super::directories::real;
use super::plan::Grant;

/// Variables that say where a program's own files are, and where below the home they
/// are without one. None names what a program writes, or a credential.
const PLACES: [(&str, Option<&str>); 9] = [
    ("ASDF_DATA_DIR", Some(".asdf")),
    ("FNM_DIR", Some(".local/share/fnm")),
    ("GOROOT", None),
    ("JAVA_HOME", None),
    ("NVM_DIR", Some(".nvm")),
    ("PYENV_ROOT", Some(".pyenv")),
    ("RUSTUP_HOME", Some(".rustup")),
    ("SDKMAN_DIR", Some(".sdkman")),
    ("VOLTA_HOME", Some(".volta")),
];

/// What of them the server finds.
#[derive(Debug, Default)]
pub(super) struct Toolchains {
    pub(super) search_path: Vec<PathBuf>,
    pub(super) variables: Vec<(OsString, OsString)>,
}

impl Toolchains {
    /// Of what is granted, by the caller's environment.
    pub(super) fn find(granted: &[Grant], home: &Path) -> Self {
        Self {
            search_path: search_path(granted, std::env::var_os("PATH").as_deref()),
            variables: variables(granted, home, |name| std::env::var_os(name)),
        }
    }
}

/// Directories of the caller's search path that are granted, in its order.
fn search_path(granted: &[Grant], path: Option<&OsStr>) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = Vec::new();
    for entry in
        path.into_iter().flat_map(std::env::split_paths).filter(|entry| entry.is_absolute())
    {
        let entry = real(&entry);
        if is_granted(&entry, granted) && !found.contains(&entry) {
            found.push(entry);
        }
    }
    found
}

/// Variables that name what is granted: the caller's own, else where programs look.
fn variables(
    granted: &[Grant],
    home: &Path,
    of_caller: impl Fn(&str) -> Option<OsString>,
) -> Vec<(OsString, OsString)> {
    let place = |(name, usual): &(&str, Option<&str>)| {
        let place = of_caller(name).map(PathBuf::from);
        let place = place.or_else(|| Some(home.join((*usual)?)))?;
        let place = if place.is_absolute() { real(&place) } else { return None };
        is_granted(&place, granted).then(|| ((*name).into(), place.into()))
    };
    PLACES.iter().filter_map(place).collect()
}

/// A directory that lies in what is granted.
fn is_granted(directory: &Path, granted: &[Grant]) -> bool {
    directory.is_dir() && granted.iter().any(|grant| directory.starts_with(&grant.path))
}

#[cfg(test)]
mod tests {
    use super::super::plan::Access;
    use super::*;

    fn granted(paths: &[PathBuf]) -> Vec<Grant> {
        let grant = |path: &PathBuf| Grant {
            layer: "server",
            access: Access::Read,
            path: path.clone(),
            is_file: false,
        };
        paths.iter().map(grant).collect()
    }

    #[test]
    fn of_the_callers_search_path_remains_what_is_granted_by_where_it_is() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        for made in ["cargo/bin", "node/v1/bin", "secret/bin"] {
            std::fs::create_dir_all(root.join(made)).unwrap();
        }
        std::os::unix::fs::symlink(root.join("node/v1"), root.join("current")).unwrap();
        std::os::unix::fs::symlink(root.join("secret"), root.join("cargo/link")).unwrap();
        let entries =
            ["secret/bin", "current/bin", "cargo/bin", "cargo/link/bin", "node/v1/bin", "no"];
        let path = std::env::join_paths(entries.map(|entry| root.join(entry))).unwrap();
        let granted = granted(&[root.join("cargo/bin"), root.join("node")]);
        let found = search_path(&granted, Some(&path));
        assert_eq!(found, [root.join("node/v1/bin"), root.join("cargo/bin")]);
        assert!(search_path(&[], Some(&path)).is_empty());
        assert!(search_path(&granted, Some(OsStr::new("bin:.:"))).is_empty());
        assert!(search_path(&granted, None).is_empty());
    }

    #[test]
    fn a_place_is_named_where_it_is_granted() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        for made in [".rustup", ".nvm", "go"] {
            std::fs::create_dir_all(root.join(made)).unwrap();
        }
        let granted = granted(&[root.join(".rustup"), root.join("go"), root.join(".pyenv")]);
        let named = |caller: &[(&str, &str)]| {
            let of_caller = |name: &str| {
                caller.iter().find(|(n, _)| *n == name).map(|(_, value)| root.join(value).into())
            };
            let variables = variables(&granted, &root, of_caller);
            variables.into_iter().map(|(name, _)| name.into_string().unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(named(&[]), ["RUSTUP_HOME"]);
        assert_eq!(named(&[("GOROOT", "go"), ("NVM_DIR", ".nvm")]), ["GOROOT", "RUSTUP_HOME"]);
        // The caller's own is elsewhere, and not granted.
        assert!(named(&[("RUSTUP_HOME", ".nvm")]).is_empty());
    }
}
