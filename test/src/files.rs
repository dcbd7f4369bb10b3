//! What is in a directory tree, and what became different in it.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

/// Every path below a directory, each with what can be told of it.
pub type Listing = BTreeMap<PathBuf, String>;

/// Lists everything below `root`, itself left out: kind, mode, owner, size,
/// times of change, and the hash of the content or target. Directories have no size and no
/// times: those change with what is in them, which is listed itself.
pub fn listing(root: &Path) -> Listing {
    let mut found = Listing::new();
    let mut pending = vec![root.to_owned()];
    while let Some(directory) = pending.pop() {
        for entry in std::fs::read_dir(&directory).into_iter().flatten().flatten() {
            let path = entry.path();
            let Ok(metadata) = std::fs::symlink_metadata(&path) else {
                continue;
            };
            let mut told = format!("{:o} {}", metadata.mode(), metadata.uid());
            if metadata.is_dir() {
                pending.push(path.clone());
            } else {
                let content = if metadata.is_symlink() {
                    std::fs::read_link(&path).map(|target| target.as_os_str().as_bytes().to_vec())
                } else {
                    std::fs::read(&path)
                };
                let (size, seconds, nanos) =
                    (metadata.size(), metadata.mtime(), metadata.mtime_nsec());
                // An agent can have hundreds of megabytes in its home.
                let content = content.map(Sha256::digest);
                let _ = write!(told, " {size} {seconds}.{nanos} {content:?}");
            }
            found.insert(path, told);
        }
    }
    found
}

/// Paths that are new, gone or different, in order.
pub fn changes(before: &Listing, after: &Listing) -> Vec<PathBuf> {
    let mut changed: Vec<PathBuf> = after
        .iter()
        .filter(|(path, told)| before.get(*path) != Some(told))
        .chain(before.iter().filter(|(path, _)| !after.contains_key(*path)))
        .map(|(path, _)| path.clone())
        .collect();
    changed.sort();
    changed.dedup();
    changed
}

/// Files below `root` that contain `needle`.
pub fn containing(root: &Path, needle: &[u8]) -> Vec<PathBuf> {
    let files = listing(root).into_keys();
    files
        .filter(|path| {
            std::fs::read(path)
                .is_ok_and(|text| text.windows(needle.len()).any(|window| window == needle))
        })
        .collect()
}
