//! What a child does between `fork` and `exec`.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// How a child is set up before its program starts.
#[derive(Clone, Copy, Debug, Default)]
pub struct SpawnSetup {
    /// Start in a session of its own, without a controlling terminal
    /// (`setsid(2)`): it can then neither raise a prompt on the person's
    /// terminal nor push input into it.
    pub new_session: bool,
    /// The kernel kills the child when the *thread* that spawned it ends
    /// (`PR_SET_PDEATHSIG`, `prctl(2)`).
    pub dies_with_parent: bool,
    /// Give the signals that a parent may ignore (HUP, INT, QUIT, TERM,
    /// TSTP, TTIN, TTOU, PIPE) their
    /// default action and unblock everything, as a shell does for a job.
    pub default_signals: bool,
    /// Make the child's process group the foreground of the terminal on
    /// standard input (`tcsetpgrp(3)`), before its program starts.
    pub foreground: bool,
    /// The lowest descriptor of a range to close, besides what
    /// close-on-exec closes already.
    pub close_from: Option<u32>,
    /// Make room for many descriptors now.
    pub room: Room,
}

/// Room in a descriptor table, made early. A program with threads whose table
/// has to grow waits for an RCU grace period, 5 to 20 ms each time
/// (`expand_files` in the kernel's `fs/file.c`); a table that has grown while
/// there was one thread stays as it is through `exec`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Room {
    /// As it comes.
    #[default]
    Usual,
    /// For the program.
    Own,
    /// For the programs that it starts, too: a copy of the table is only as large
    /// as what is open in it, so a duplicate of standard input stays open.
    Inherited,
}

/// The table then has room up to this descriptor. nono opens one for each path
/// that it grants, more than a hundred.
const ROOM: i32 = 1023;

/// Arranges for `command`'s child to apply `setup` before `exec`.
pub fn prepare_spawn(command: &mut Command, setup: SpawnSetup) {
    let parent = rustix::process::getpid();
    let apply = move || -> io::Result<()> {
        if setup.foreground {
            // Before SIGTTOU gets its default action back: the caller, which
            // ignores it, is not in the foreground yet.
            rustix::termios::tcsetpgrp(rustix::stdio::stdin(), rustix::process::getpid())?;
        }
        if setup.default_signals {
            for signal in [
                libc::SIGHUP,
                libc::SIGINT,
                libc::SIGQUIT,
                libc::SIGTERM,
                libc::SIGTSTP,
                libc::SIGTTIN,
                libc::SIGTTOU,
                libc::SIGPIPE,
            ] {
                // SAFETY: signal(2) with SIG_DFL installs no code and is
                // async-signal-safe (signal-safety(7)).
                if unsafe { libc::signal(signal, libc::SIG_DFL) } == libc::SIG_ERR {
                    return Err(io::Error::last_os_error());
                }
            }
            unblock_signals()?;
        }
        if setup.new_session {
            rustix::process::setsid()?;
        }
        if setup.dies_with_parent {
            rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
            // The parent may have died before that call; then no signal comes.
            if rustix::process::getppid() != Some(parent) {
                return Err(io::Error::from_raw_os_error(libc::ESRCH));
            }
        }
        if let Some(first) = setup.close_from {
            // CLOSE_RANGE_CLOEXEC rather than closing now: std's own pipe for
            // reporting a failed exec must live until then (close_range(2)).
            // SAFETY: three integers; marking descriptors close-on-exec does
            // not invalidate any that are in use before exec.
            if unsafe {
                libc::syscall(libc::SYS_close_range, first, u32::MAX, libc::CLOSE_RANGE_CLOEXEC)
            } < 0
            {
                return Err(io::Error::last_os_error());
            }
        }
        // Where the limit is lower nothing is gained, and nothing is lost.
        if setup.room != Room::Usual
            && let Ok(last) = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), ROOM)
            && setup.room == Room::Inherited
        {
            rustix::io::fcntl_setfd(&last, rustix::io::FdFlags::empty())?;
            std::mem::forget(last);
        }
        Ok(())
    };
    // SAFETY: the closure allocates nothing, takes no lock and calls only
    // async-signal-safe system calls, as code between fork and exec must.
    unsafe {
        command.pre_exec(apply);
    }
}

/// Ignores `signal` in this process.
///
/// # Errors
/// `EINVAL` for a signal that cannot be ignored.
pub fn ignore_signal(signal: i32) -> io::Result<()> {
    // SAFETY: SIG_IGN installs no code that could run at a bad moment.
    if unsafe { libc::signal(signal, libc::SIG_IGN) } == libc::SIG_ERR {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Unblocks every signal in the calling thread: a mask is inherited through
/// `exec`, and who started this program may have blocked some
/// (`sigprocmask(2)`).
///
/// # Errors
/// None that a valid call can have.
pub fn unblock_signals() -> io::Result<()> {
    // SAFETY: `set` is a live local that sigemptyset initialises before
    // sigprocmask reads it; both are async-signal-safe.
    let result = unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const set, std::ptr::null_mut())
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The size of the descriptor table of a program, and of one that it starts.
    fn table_sizes(room: Room) -> Vec<u32> {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "cat /proc/$$/status /proc/self/status; true"]);
        prepare_spawn(&mut command, SpawnSetup { room, ..SpawnSetup::default() });
        let output = command.output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let sizes = text.lines().filter_map(|line| line.strip_prefix("FDSize:"));
        sizes.map(|size| size.trim().parse().unwrap()).collect()
    }

    #[test]
    fn room_is_kept_through_exec_and_handed_on_where_it_is_to_be() {
        assert_eq!(table_sizes(Room::Usual).len(), 2);
        assert!(table_sizes(Room::Usual).iter().all(|size| *size < 1024), "control");
        let own = table_sizes(Room::Own);
        assert!(own[0] >= 1024 && own[1] < 1024, "{own:?}");
        let inherited = table_sizes(Room::Inherited);
        assert!(inherited.iter().all(|size| *size >= 1024), "{inherited:?}");
    }
}
