//! How files that matter are opened and replaced, and how bytes are hashed.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use rustix::fs::OFlags;
use sha2::{Digest, Sha256};

/// Opens a plain file: no link is followed, and nothing that would block, as a
/// pipe does.
pub(crate) fn open_plain(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = match options.custom_flags(flags.bits().cast_signed()).open(path) {
        // What the kernel says about a link is "too many levels".
        Err(e) if e.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => {
            return Err(io::Error::other("it is a symbolic link"));
        }
        opened => opened?,
    };
    if file.metadata()?.is_file() {
        return Ok(file);
    }
    Err(io::Error::other("it is not a plain file"))
}

/// Reads a plain file of at most `most` bytes, opened once.
pub(crate) fn read_plain(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let file = open_plain(File::options().read(true), path)?;
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes)?;
    if u64::try_from(bytes.len()).is_ok_and(|length| length <= most) {
        return Ok(bytes);
    }
    Err(io::Error::other(format!("it is larger than {most} bytes")))
}

/// Puts a file with that text in the place of whatever is at `path`; `temporary`
/// is in the same directory and nobody else's.
pub(crate) fn replace(path: &Path, temporary: &Path, text: &[u8]) -> io::Result<()> {
    replace_with_mode(path, temporary, text, 0o600)
}

/// As [`replace`], and the file has that mode, whatever the umask.
pub(crate) fn replace_with_mode(
    path: &Path,
    temporary: &Path,
    text: &[u8],
    mode: u32,
) -> io::Result<()> {
    let written = write_new(temporary, text)
        .and_then(|file| {
            file.set_permissions(std::fs::Permissions::from_mode(mode))?;
            file.sync_data()
        })
        .and_then(|()| std::fs::rename(temporary, path));
    if written.is_err() {
        let _ = std::fs::remove_file(temporary);
    }
    written
}

/// Writes a file that was not there, for this user alone.
pub(crate) fn write_new(path: &Path, text: &[u8]) -> io::Result<File> {
    let mut file = File::options().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text)?;
    Ok(file)
}

/// The sha256 of `bytes`, in hexadecimal.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// The sha256 of what is left to read, in hexadecimal.
pub(crate) fn sha256_of(mut file: impl Read) -> io::Result<String> {
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 17];
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Ok(hex(&hash.finalize())),
            Ok(length) => hash.update(&buffer[..length]),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
}

/// Bytes in hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_plain_file_that_is_not_too_large_is_read() {
        use rustix::fs::{CWD, FileType, Mode, mknodat};
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("file");
        std::fs::write(&path, "four").unwrap();
        assert_eq!(read_plain(&path, 4).unwrap(), b"four");
        assert!(read_plain(&path, 3).is_err());
        let link = root.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert_eq!(read_plain(&link, 4).unwrap_err().to_string(), "it is a symbolic link");
        let pipe = root.path().join("pipe");
        mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        assert_eq!(read_plain(&pipe, 4).unwrap_err().to_string(), "it is not a plain file");
    }

    #[test]
    fn a_file_takes_the_place_of_a_link_and_the_target_stays() {
        let root = tempfile::tempdir().unwrap();
        let (path, target) = (root.path().join("a"), root.path().join("target"));
        std::fs::write(&target, "kept").unwrap();
        std::os::unix::fs::symlink(&target, &path).unwrap();
        replace(&path, &root.path().join("new"), b"text").unwrap();
        assert_eq!(read_plain(&path, 9).unwrap(), b"text");
        assert_eq!(std::fs::read(&target).unwrap(), b"kept");
        assert!(!root.path().join("new").exists());
    }

    #[test]
    fn the_hash_is_the_one_of_the_standard() {
        // FIPS 180-2, appendix B.1.
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sha256(b"abc"), abc);
        assert_eq!(sha256_of(&b"abc"[..]).unwrap(), abc);
    }
}
