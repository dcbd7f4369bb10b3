//! Sockets that have a path (`/proc/net/unix`, `proc_net(5)`).

use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// The paths of AF_UNIX sockets of this network namespace to which one can connect, as
/// whoever bound them wrote them. One with a newline in it is not found, or cut: the
/// kernel writes that as it is (`unix_seq_show` in its `net/unix/af_unix.c`).
///
/// # Errors
/// When the kernel's table cannot be read.
pub fn unix_socket_paths() -> io::Result<Vec<PathBuf>> {
    let table = std::fs::read("/proc/net/unix")?;
    Ok(table.split(|b| *b == b'\n').filter_map(path_of).collect())
}

/// `Num RefCount Protocol Flags Type St Inode Path`; stream and seqpacket sockets count
/// when they listen (`__SO_ACCEPTCON`, 0x10000), datagram sockets always.
fn path_of(line: &[u8]) -> Option<PathBuf> {
    let mut rest = line;
    let mut fields = [&[][..]; 7];
    for field in &mut fields {
        let start = rest.iter().position(|b| *b != b' ')?;
        let end = rest[start..].iter().position(|b| *b == b' ').map_or(rest.len(), |at| start + at);
        *field = &rest[start..end];
        rest = &rest[end..];
    }
    let path = rest.strip_prefix(b" ").filter(|path| path.first() == Some(&b'/'))?;
    let is_datagram = fields[4] == b"0002";
    (is_datagram || fields[3] == b"00010000")
        .then(|| PathBuf::from(std::ffi::OsString::from_vec(path.to_vec())))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::Strategy;

    use super::*;

    #[test]
    fn a_listening_socket_is_found_by_its_path_and_a_connected_one_is_not() {
        for (line, wanted) in [
            ("0000: 00000002 00000000 00010000 0001 01 123 /run/a b", Some("/run/a b")),
            ("0000: 00000002 00000000 00000000 0002 01 123 /run/d", Some("/run/d")),
            ("0000: 00000003 00000000 00000000 0001 03 123 /run/a", None),
            ("0000: 00000002 00000000 00010000 0001 01 123 @abstract", None),
            ("0000: 00000002 00000000 00010000 0001 01 123", None),
            ("Num       RefCount Protocol Flags    Type St Inode Path", None),
            ("", None),
        ] {
            let found = path_of(line.as_bytes());
            assert_eq!(found.as_deref(), wanted.map(std::path::Path::new), "{line}");
        }
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("socket");
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        assert!(unix_socket_paths().unwrap().contains(&path));
        drop(listener);
        assert!(!unix_socket_paths().unwrap().contains(&path));
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_a_path_or_none(line: Vec<u8>) {
            let _ = path_of(&line);
        }

        #[test]
        fn a_path_is_the_one_that_was_bound(
            path in proptest::collection::vec((1u8..=255).prop_filter("", |b| *b != b'\n'), 0..107),
            inode: u32,
        ) {
            let path = [b"/", &path[..]].concat();
            let start = format!("0000: 00000002 00000000 00010000 0001 01 {inode:5} ");
            let line = [start.as_bytes(), &path[..]].concat();
            let wanted = Some(PathBuf::from(std::ffi::OsString::from_vec(path)));
            proptest::prop_assert_eq!(path_of(&line), wanted);
        }
    }
}
