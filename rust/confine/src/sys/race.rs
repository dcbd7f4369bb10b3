//! Races on who inspects the address of a call before the kernel does: one thread
//! changes it while another makes the call.

use std::cell::UnsafeCell;
use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::check;

/// An address of `path`, and its length.
#[allow(clippy::cast_possible_truncation)] // 1 and 110
pub(super) fn address_of(path: &Path) -> io::Result<(libc::sockaddr_un, libc::socklen_t)> {
    // SAFETY: all zeroes is a valid `sockaddr_un`.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    let bytes = path.as_os_str().as_bytes();
    if bytes.len() >= address.sun_path.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (to, from) in address.sun_path.iter_mut().zip(bytes) {
        #[allow(clippy::cast_possible_wrap, clippy::unnecessary_cast)] // signed on some
        {
            *to = *from as libc::c_char;
        }
    }
    Ok((address, size_of::<libc::sockaddr_un>() as libc::socklen_t))
}

/// How a socket is to be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// `connect(2)` of a new stream socket.
    Connect,
    /// `sendto(2)` by a datagram socket that was made as one of a pair: it can
    /// reach any other (`unix(7)`), and no `socket(2)` made it.
    Send,
}

/// What the racing calls by one way came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Calls with the address, and tries to have a socket for one.
    pub attempts: u64,
    /// No socket was to be had.
    pub without_socket: u64,
    /// The forbidden socket was reached.
    pub reached: u64,
    /// Another one was.
    pub elsewhere: u64,
}

/// An address that one thread changes while another uses it.
struct Swapped(UnsafeCell<libc::sockaddr_un>);

// SAFETY: the fields are written and read by volatile accesses to raw pointers
// alone, and a torn address is what the race is about.
unsafe impl Sync for Swapped {}

/// Tries each of `forbidden` by its way, in turn and again and again, while another
/// thread swaps the path of the address with `allowed`, and when `with_family` says
/// so its family with `AF_INET`. Until `limit`, or until all were reached when that
/// is `enough`. What inspects the address before the kernel does may have seen
/// another one.
///
/// # Errors
/// When a path is too long, or there are no descriptors left.
pub fn race_for_sockets(
    forbidden: &[(&Path, Way)],
    allowed: &Path,
    with_family: bool,
    limit: Duration,
    enough: bool,
) -> io::Result<Vec<Tally>> {
    let (harmless, length) = address_of(allowed)?;
    let wanted: Vec<libc::sockaddr_un> = forbidden
        .iter()
        .map(|(path, _)| address_of(path).map(|(address, _)| address))
        .collect::<io::Result<_>>()?;
    let shared: Vec<Swapped> = wanted.iter().map(|_| Swapped(UnsafeCell::new(harmless))).collect();
    let mut tallies = vec![Tally::default(); wanted.len()];
    let over = AtomicBool::new(false);
    let deadline = Instant::now() + limit;
    std::thread::scope(|scope| {
        let (shared, wanted, over) = (&shared, &wanted, &over);
        scope.spawn(move || {
            while !over.load(Ordering::Relaxed) {
                for (cell, wanted) in shared.iter().zip(wanted) {
                    swap(cell, wanted, &harmless, with_family);
                }
            }
        });
        let mut result = Ok(());
        while result.is_ok()
            && Instant::now() < deadline
            && !(enough && tallies.iter().all(|tally| tally.reached > 0))
        {
            for (n, (_, way)) in forbidden.iter().enumerate() {
                let once = try_once(*way, &shared[n], length, &wanted[n], &mut tallies[n]);
                result = result.and(once);
            }
            // Where other work has the processors, too, the other thread gets one.
            if tallies.iter().all(|tally| tally.attempts % 64 == 0) {
                std::thread::yield_now();
            }
        }
        over.store(true, Ordering::Relaxed);
        result
    })?;
    Ok(tallies)
}

/// There and back: what was harmless is wanted, with another family and with its
/// own, and harmless again. By one thread, which has a processor to itself while
/// caller and inspector wait for each other on a second.
fn swap(
    cell: &Swapped,
    wanted: &libc::sockaddr_un,
    harmless: &libc::sockaddr_un,
    with_family: bool,
) {
    #[allow(clippy::cast_possible_truncation)] // 1 and 2
    const OTHER_AND_OWN: [libc::sa_family_t; 2] =
        [libc::AF_INET as libc::sa_family_t, libc::AF_UNIX as libc::sa_family_t];
    for address in [wanted, harmless] {
        // SAFETY: the cell is live, and nobody holds a reference into it.
        unsafe { (&raw mut (*cell.0.get()).sun_path).write_volatile(address.sun_path) };
        for family in OTHER_AND_OWN.into_iter().filter(|_| with_family) {
            // SAFETY: as above.
            unsafe { (&raw mut (*cell.0.get()).sun_family).write_volatile(family) };
        }
    }
}

fn try_once(
    way: Way,
    shared: &Swapped,
    length: libc::socklen_t,
    wanted: &libc::sockaddr_un,
    tally: &mut Tally,
) -> io::Result<()> {
    tally.attempts += 1;
    let socket = match way {
        Way::Connect => stream_socket(),
        Way::Send => half_of_a_pair(),
    };
    let socket = match socket {
        Ok(socket) => socket,
        Err(error) if error.raw_os_error() == Some(libc::EMFILE) => return Err(error),
        Err(_) => {
            tally.without_socket += 1;
            return Ok(());
        }
    };
    let reached = match way {
        Way::Connect => {
            connect(&socket, shared, length).map(|peer| peer.sun_path == wanted.sun_path)
        }
        // Only one that takes datagrams can have been reached.
        Way::Send => send(&socket, shared, length).map(|()| true),
    };
    match reached {
        Ok(true) => tally.reached += 1,
        Ok(false) => tally.elsewhere += 1,
        Err(_) => {}
    }
    Ok(())
}

/// A full backlog must not hold it up.
const KIND: libc::c_int = libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;

fn stream_socket() -> io::Result<OwnedFd> {
    // SAFETY: three integers.
    let socket = check(libc::c_long::from(unsafe {
        libc::socket(libc::AF_UNIX, libc::SOCK_STREAM | KIND, 0)
    }))?;
    #[allow(clippy::cast_possible_truncation)] // a descriptor is a c_int
    // SAFETY: the descriptor is new and owned by nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(socket as libc::c_int) })
}

fn half_of_a_pair() -> io::Result<OwnedFd> {
    let mut pair = [-1; 2];
    // SAFETY: `pair` is a live array of the two descriptors that are written.
    check(libc::c_long::from(unsafe {
        libc::socketpair(libc::AF_UNIX, libc::SOCK_DGRAM | KIND, 0, pair.as_mut_ptr())
    }))?;
    // SAFETY: both descriptors are new and owned by nobody else.
    let [one, _other] = pair.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) });
    Ok(one)
}

/// Whom the connection reached.
fn connect(
    socket: &OwnedFd,
    shared: &Swapped,
    mut length: libc::socklen_t,
) -> io::Result<libc::sockaddr_un> {
    // SAFETY: the address is live and `length` is its size; the kernel copies it.
    check(libc::c_long::from(unsafe {
        libc::connect(socket.as_raw_fd(), shared.0.get().cast(), length)
    }))?;
    // SAFETY: all zeroes is a valid `sockaddr_un`.
    let mut peer: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    // SAFETY: both are live locals, and `length` is the size of `peer`.
    check(libc::c_long::from(unsafe {
        libc::getpeername(socket.as_raw_fd(), (&raw mut peer).cast(), &raw mut length)
    }))?;
    Ok(peer)
}

fn send(socket: &OwnedFd, shared: &Swapped, length: libc::socklen_t) -> io::Result<()> {
    let byte = b"x";
    // SAFETY: the byte and the address are live, and the sizes are theirs.
    check(unsafe {
        libc::sendto(
            socket.as_raw_fd(),
            byte.as_ptr().cast(),
            byte.len(),
            libc::MSG_NOSIGNAL,
            shared.0.get().cast(),
            length,
        ) as libc::c_long
    })
    .map(drop)
}

/// Connects again and again while another thread swaps the path of the address
/// between `allowed` and `forbidden`, for at most `limit`.
///
/// # Errors
/// `EACCES` when only `allowed` was reached, `ETIMEDOUT` when neither was.
pub fn attempt_race_to_connect(
    forbidden: &Path,
    allowed: &Path,
    limit: Duration,
) -> io::Result<()> {
    let targets = [(forbidden, Way::Connect)];
    let tallies = race_for_sockets(&targets, allowed, false, limit, true)?;
    let any = |what: fn(&Tally) -> u64| tallies.iter().any(|tally| what(tally) > 0);
    if any(|tally| tally.reached) {
        return Ok(());
    }
    // Until the allowed one is reached the race has not begun.
    let error = if any(|tally| tally.elsewhere) { libc::EACCES } else { libc::ETIMEDOUT };
    Err(io::Error::from_raw_os_error(error))
}

/// Makes an AF_UNIX stream socket.
///
/// # Errors
/// What the kernel or a filter answers.
pub fn attempt_unix_socket() -> io::Result<()> {
    stream_socket().map(drop)
}

/// Makes a pair of AF_UNIX datagram sockets.
///
/// # Errors
/// What the kernel or a filter answers.
pub fn attempt_datagram_pair() -> io::Result<()> {
    half_of_a_pair().map(drop)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::{UnixDatagram, UnixListener};

    use super::*;

    #[test]
    fn where_nobody_inspects_addresses_both_ways_reach_what_they_are_to() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        let (stream, datagram, allowed) = (at("stream"), at("datagram"), at("allowed"));
        let _listening = UnixListener::bind(&stream).unwrap();
        let taking = UnixDatagram::bind(&datagram).unwrap();
        let targets = [(&*stream, Way::Connect), (&*datagram, Way::Send)];
        let race = |targets: &[(&Path, Way)]| {
            race_for_sockets(targets, &allowed, true, Duration::from_secs(20), true).unwrap()
        };
        for tally in race(&targets) {
            assert!(tally.reached > 0 && tally.attempts >= tally.reached, "{tally:?}");
            assert_eq!((tally.without_socket, tally.elsewhere), (0, 0));
        }
        assert_eq!(taking.recv(&mut [0; 4]).unwrap(), 1);
        let none = at("none");
        let limit = Duration::from_millis(50);
        let nobody = [(&*none, Way::Connect), (&*none, Way::Send)];
        let tallies = race_for_sockets(&nobody, &allowed, true, limit, true).unwrap();
        assert!(tallies.iter().all(|tally| tally.attempts > 0 && tally.reached == 0));
    }
}
