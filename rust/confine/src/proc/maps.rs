//! What a process executes parts of (`proc_pid_maps(5)`).

use std::ffi::OsStr;
use std::io::{self, BufRead, BufReader};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::FileId;
use crate::Pid;

/// Directories that hold programs and libraries and that no sandbox may write, unless it
/// was granted a place in one.
const SYSTEM: [&[u8]; 10] = [
    b"/usr/",
    b"/bin/",
    b"/sbin/",
    b"/lib/",
    b"/lib32/",
    b"/lib64/",
    b"/libx32/",
    b"/nix/",
    b"/gnu/",
    b"/etc/",
];

/// The first file that process `pid` has mapped to be executed and that is neither
/// `program` nor of the system: a library that was loaded into it from elsewhere. What
/// lies in one of the `writable` places is not the system's. Its path as the kernel has
/// it, which may be followed by ` (deleted)`.
///
/// `program` is what `/proc/P/exe` leads to, and the path that this link shows. A file is
/// it by its device and inode, or by its inode and path: of btrfs and overlayfs the maps
/// show another device than `stat(2)`.
///
/// # Errors
/// `EACCES` where the reader may not look.
pub fn foreign_code(
    pid: Pid,
    program: Option<(FileId, &[u8])>,
    writable: &[PathBuf],
) -> io::Result<Option<Vec<u8>>> {
    let maps = std::fs::File::open(super::proc_path(pid, "maps"))?;
    for line in BufReader::new(maps).split(b'\n') {
        if let Some((file, path)) = executable_file(&line?)
            && !program.is_some_and(|program| is_program(program, file, &path))
            && !is_of_system(&path, writable)
        {
            return Ok(Some(path));
        }
    }
    Ok(None)
}

fn is_program((program, its_path): (FileId, &[u8]), file: FileId, path: &[u8]) -> bool {
    file == program || (file.inode == program.inode && path == its_path)
}

fn is_of_system(path: &[u8], writable: &[PathBuf]) -> bool {
    let named = Path::new(OsStr::from_bytes(path.strip_suffix(b" (deleted)").unwrap_or(path)));
    SYSTEM.iter().any(|system| path.starts_with(system))
        && !writable.iter().any(|place| named.starts_with(place))
}

/// The file of a mapping that can be executed; `None` of memory without a file.
fn executable_file(line: &[u8]) -> Option<(FileId, Vec<u8>)> {
    let mut rest = line;
    let mut fields = [&[][..]; 5];
    for field in &mut fields {
        let start = rest.iter().position(|b| *b != b' ')?;
        let end = rest[start..].iter().position(|b| *b == b' ').map_or(rest.len(), |at| start + at);
        *field = &rest[start..end];
        rest = &rest[end..];
    }
    let text = |field: &[u8]| str::from_utf8(field).ok().map(str::to_owned);
    let inode: u64 = text(fields[4])?.parse().ok()?;
    if inode == 0 || fields[1].get(2) != Some(&b'x') {
        return None;
    }
    let device = text(fields[3])?;
    let (major, minor) = device.split_once(':')?;
    let number = |digits: &str| u32::from_str_radix(digits, 16).ok();
    let device = rustix::fs::makedev(number(major)?, number(minor)?);
    let path = rest.iter().position(|b| *b != b' ').map_or(&[][..], |at| &rest[at..]);
    Some((FileId { device, inode }, path.to_vec()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::Strategy;

    use super::*;

    #[test]
    fn only_what_can_be_executed_and_has_a_file_counts() {
        for (line, wanted) in [
            ("7f00-7f01 r-xp 00000000 fe:01 1234    /tmp/a b.so", Some(&b"/tmp/a b.so"[..])),
            ("7f00-7f01 r-xp 00000000 fe:01 1234    /x (deleted)", Some(b"/x (deleted)")),
            ("7f00-7f01 r--p 00000000 fe:01 1234    /tmp/a.so", None),
            ("7f00-7f01 rwxp 00000000 00:00 0 ", None),
            ("7ffd-7ffe r-xp 00000000 00:00 0       [vdso]", None),
            ("nonsense", None),
            ("", None),
        ] {
            let found = executable_file(line.as_bytes()).map(|(_, path)| path);
            assert_eq!(found.as_deref(), wanted, "{line}");
        }
    }

    #[test]
    fn this_program_itself_is_not_foreign_and_without_its_name_it_is() {
        let me = Pid::of_self();
        let own = crate::proc::executable(me).unwrap();
        let path = std::env::current_exe().unwrap().into_os_string();
        let by = |file, path| foreign_code(me, Some((file, path)), &[]).unwrap();
        assert_eq!(by(own, path.as_bytes()), None);
        assert_eq!(by(own, b"/elsewhere"), None, "a file has any number of names");
        let shown_otherwise = FileId { device: own.device + 1, ..own };
        assert_eq!(by(shown_otherwise, path.as_bytes()), None);
        assert!(by(shown_otherwise, b"/elsewhere").is_some());
        assert!(by(FileId { inode: own.inode + 1, ..own }, path.as_bytes()).is_some());
        assert!(foreign_code(me, None, &[]).unwrap().is_some(), "control: it is not the system's");
    }

    #[test]
    fn what_lies_where_the_launch_may_write_is_not_the_systems() {
        let writable = [PathBuf::from("/usr/local/lib/mine"), PathBuf::from("/etc/one.so")];
        for (path, is_system) in [
            ("/usr/lib/a.so", true),
            ("/usr/local/lib/mine.so", true),
            ("/usr/local/lib/mine/a.so", false),
            ("/usr/local/lib/mine/a.so (deleted)", false),
            ("/etc/one.so", false),
            ("/etc/one.so (deleted)", false),
            ("/etc/one.sox", true),
            ("/tmp/a.so", false),
        ] {
            assert_eq!(is_of_system(path.as_bytes(), &writable), is_system, "{path}");
            let known = path.starts_with("/usr") || path.starts_with("/etc");
            assert_eq!(is_of_system(path.as_bytes(), &[]), known, "control: {path}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_a_mapping_or_none(line: Vec<u8>) {
            let _ = executable_file(&line);
        }

        /// The kernel writes a newline in a path as `\\012`, and all else as it is.
        #[test]
        fn a_mapping_has_the_path_that_the_kernel_wrote(
            path in proptest::collection::vec((1u8..=255).prop_filter("", |b| *b != b'\n'), 0..40),
            major in 0u32..4096, minor in 0u32..1_048_576, inode in 1u64..,
        ) {
            let path = [b"/", &path[..]].concat();
            let start = format!("7f00-7f01 r-xp 00000000 {major:02x}:{minor:02x} {inode}    ");
            let line = [start.as_bytes(), &path[..]].concat();
            let device = rustix::fs::makedev(major, minor);
            let wanted = Some((FileId { device, inode }, path));
            proptest::prop_assert_eq!(executable_file(&line), wanted);
        }
    }
}
