//! Does wrong what a test needs done wrong.
//!
//! Under a name that starts with `nono-` it stands in for nono, and the rest of
//! the name says which fault it has. Under any other name it is a process that
//! is hard to keep track of:
//!
//! - `paddock-fault wait NOTE MARK...`: writes its id to the file NOTE and waits;
//! - `undumpable`: the same, and nobody may look into it;
//! - `comet SECONDS NOTE`: its child takes its place as soon as it is there, until
//!   so many seconds after the epoch;
//! - `listen NOTE`: listens on a port that it did not bind;
//! - `flicker NOTE MICROSECONDS`: nobody may look into it half of the time;
//! - `hostile`: the same, under a name and with arguments that would draw;
//! - `orphan`: the same, in a session of its own and orphaned at once;
//! - `bare`: the same, without any environment;
//! - `hold SOCKET NOTE [opaque|thread]`: the same, and keeps every descriptor that
//!   it is sent at SOCKET, until it is sent none; as `opaque` nobody may look into it, as `thread` it is
//!   in the table of a thread of its own;
//! - `intrude VEIL NOTE MARK...`: has one started in the pid namespace of the
//!   process VEIL, and orphans it there, so that it ends up below it.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use confine::sys::owner_of_namespace;
use landlock::{
    ABI, Access, AccessFs, AccessNet, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreatedAttr, Scope,
};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketFlags, SocketType,
    socket_with,
};
use rustix::process::DumpableBehavior;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// Every way to disturb a reader of `/proc` or a terminal: what closes the name
/// in `stat`, a new line, a terminal sequence, bytes that are no text.
const HOSTILE: &[u8] = b"x) S 1 1\n\x1b[2J\xff";

/// What cannot be looked into belongs to root in `/proc`.
const TARRY: &str = "while [ \"$(stat -c %u /proc/$PPID/status)\" = \"$(id -u)\" ]; do sleep 0.01; done; \
                     exec \"$@\"";

/// A test that forgot one of these ends it in the end.
const LONGEST: Duration = Duration::from_mins(2);

fn main() -> ExitCode {
    let mut arguments = std::env::args_os();
    let program = PathBuf::from(arguments.next().unwrap_or_default());
    let arguments: Vec<OsString> = arguments.collect();
    let name = program.file_name().and_then(OsStr::to_str).unwrap_or_default();
    let result = match name.strip_prefix("nono-") {
        Some(fault) => stand_in(fault, &arguments),
        None => be_difficult(&arguments).map(|()| ExitCode::SUCCESS),
    };
    result.unwrap_or_else(|error| {
        eprintln!("{name}: {error}");
        ExitCode::FAILURE
    })
}

/// What nono is told, and the command behind `--`.
fn stand_in(fault: &str, arguments: &[OsString]) -> io::Result<ExitCode> {
    if arguments.first().is_some_and(|first| first == "--version") {
        println!("nono 0.81.0");
        return Ok(ExitCode::SUCCESS);
    }
    // What it makes of a policy it tells truly: the tests' real nono lies in the
    // workspace, which is beside the home that this is in.
    if arguments.first().is_some_and(|first| first == "profile") {
        let own = std::env::current_exe()?;
        let host = own.ancestors().nth(3).ok_or(io::ErrorKind::NotFound)?;
        return Err(Command::new(host.join("ws/real-nono")).args(arguments).exec());
    }
    let split = arguments.iter().position(|a| a == "--").ok_or(io::ErrorKind::InvalidInput)?;
    let (options, command) = (&arguments[..split], &arguments[split + 1..]);
    match fault {
        // Whatever it was told, the command runs as anything else would.
        "unsandboxed" => status_of(run(command)?),
        // Files, ports and scopes as told; nothing that only a filter or a
        // namespace can do.
        "landlock" => {
            restrict(options)?;
            status_of(run(command)?)
        }
        // The pen is right; what is in it runs as anything else in the pen.
        "inner" if !is_of_pen(command) => status_of(run(command)?),
        "inner" => Err(become_real(options, command)?),
        // A pen that is right, until its supervisor starts something else.
        "late" if !is_of_pen(command) => Err(become_real(options, command)?),
        "late" => late(options, command),
        _ => Err(io::Error::other("no such fault")),
    }
}

fn run(command: &[OsString]) -> io::Result<Child> {
    let (program, arguments) = command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
    Command::new(program).args(arguments).spawn()
}

fn status_of(mut child: Child) -> io::Result<ExitCode> {
    let status = child.wait()?;
    let code = status.code().unwrap_or(128 + status.signal().unwrap_or(0));
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(255)))
}

fn restrict(options: &[OsString]) -> io::Result<()> {
    let abi = ABI::V6;
    let (read, all) = (AccessFs::from_read(abi), AccessFs::from_all(abi));
    let mut grants: Vec<(PathBuf, _)> = ["/usr", "/etc", "/bin", "/lib", "/lib64", "/proc"]
        .into_iter()
        .map(|path| (path.into(), read))
        .collect();
    grants.push(("/dev".into(), all));
    for pair in options.windows(2) {
        let access = match pair[0].to_str() {
            Some("--read" | "--read-file") => read,
            Some("--allow" | "--allow-file") => all,
            _ => continue,
        };
        grants.push((PathBuf::from(&pair[1]), access));
    }
    let mut rules = Ruleset::default()
        .handle_access(all)
        .and_then(|rules| rules.handle_access(AccessNet::from_all(abi)))
        .and_then(|rules| rules.scope(Scope::from_all(abi)))
        .and_then(Ruleset::create)
        .map_err(io::Error::other)?;
    for (path, access) in grants {
        let access = if path.is_dir() { access } else { access & AccessFs::from_file(abi) };
        if let Ok(opened) = PathFd::new(&path) {
            rules = rules.add_rule(PathBeneath::new(opened, access)).map_err(io::Error::other)?;
        }
    }
    rules.restrict_self().map(drop).map_err(io::Error::other)
}

fn is_of_pen(command: &[OsString]) -> bool {
    command.get(1).is_some_and(|layer| layer == "pen")
}

/// The workspace, in which the test has put the real nono.
fn workspace(options: &[OsString]) -> io::Result<PathBuf> {
    let named = options.windows(2).find(|pair| pair[0] == "--workdir");
    named.map(|pair| PathBuf::from(&pair[1])).ok_or_else(|| io::ErrorKind::InvalidInput.into())
}

/// The real nono instead, and in its sandbox the command once nobody can look
/// into that nono any more: until then it shows that it is another program.
fn become_real(options: &[OsString], command: &[OsString]) -> io::Result<io::Error> {
    let mut real = Command::new(workspace(options)?.join("real-nono"));
    real.args(options).args(["--", "/bin/sh", "-c", TARRY, "sh"]).args(command);
    Ok(real.exec())
}

/// Supervises a pen, and once the file `be-late` is in the workspace starts a
/// process that is not in it.
fn late(options: &[OsString], command: &[OsString]) -> io::Result<ExitCode> {
    let workspace = workspace(options)?;
    // `wrap` makes the same sandbox and stays out of the process tree, so that
    // this is the supervisor.
    let options = options.iter().skip(1).filter(|o| *o != "--no-audit" && *o != "--no-rollback");
    let mut pen = Command::new(workspace.join("real-nono"));
    let mut pen = pen.arg("wrap").args(options).arg("--").args(command).spawn()?;
    let asked = workspace.join("be-late");
    loop {
        if let Some(status) = pen.try_wait()? {
            return Ok(ExitCode::from(u8::try_from(status.code().unwrap_or(255)).unwrap_or(255)));
        }
        if asked.exists() {
            std::fs::remove_file(&asked)?;
            myself().arg("wait").arg(workspace.join("late")).spawn()?;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// This program, under a name that stands in for nothing.
fn myself() -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.arg0("paddock-fault");
    command
}

fn be_difficult(arguments: &[OsString]) -> io::Result<()> {
    let [kind, rest @ ..] = arguments else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let again = || {
        let mut command = myself();
        command.arg("wait").args(rest);
        command
    };
    match (kind.to_str(), rest) {
        (Some("wait"), [note, ..]) => wait(Path::new(note)),
        (Some("undumpable"), [note, ..]) => {
            rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
            wait(Path::new(note))
        }
        (Some("flicker"), [note, microseconds, ..]) => {
            let text = microseconds.to_str().unwrap_or_default();
            flicker(Path::new(note), Duration::from_micros(text.parse().unwrap_or(100)))
        }
        (Some("listen"), [note]) => {
            let (family, kind) = (AddressFamily::INET, SocketType::STREAM);
            let socket = socket_with(family, kind, SocketFlags::CLOEXEC, None)?;
            rustix::net::listen(&socket, 1)?;
            wait(Path::new(note))
        }
        (Some("comet"), [end, note]) => {
            let end: u64 = end.to_str().and_then(|e| e.parse().ok()).unwrap_or(0);
            if !Path::new(note).exists() {
                tell(Path::new(note))?;
            }
            let now = SystemTime::now().duration_since(UNIX_EPOCH).map_err(io::Error::other)?;
            if now.as_secs() < end {
                myself().arg("comet").args(rest).spawn()?;
            }
            Ok(())
        }
        (Some("hold"), [socket, note, rest @ ..]) => {
            // First, since nono lets nobody bind whom it cannot look into.
            let listener = UnixDatagram::bind(socket)?;
            if rest.first().is_some_and(|word| word == "opaque") {
                rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
            }
            if rest.first().is_some_and(|word| word == "thread") {
                return std::thread::scope(|scope| {
                    let holder = scope.spawn(|| {
                        confine::sys::leave_descriptor_table()?;
                        hold(&listener, Path::new(note))
                    });
                    holder.join().map_err(|_| io::Error::other("the thread failed"))?
                });
            }
            hold(&listener, Path::new(note))
        }
        (Some("hostile"), [_, ..]) => {
            let mut command = Command::new("/proc/self/exe");
            command.arg0(OsStr::from_bytes(HOSTILE)).arg("hostile-wait").args(rest);
            Err(command.arg(OsStr::from_bytes(HOSTILE)).exec())
        }
        (Some("hostile-wait"), [note, ..]) => {
            let name: Vec<u8> = HOSTILE.iter().copied().take(15).chain([0]).collect();
            rustix::thread::set_name(
                std::ffi::CStr::from_bytes_with_nul(&name).map_err(io::Error::other)?,
            )?;
            wait(Path::new(note))
        }
        (Some("orphan"), [_, ..]) => {
            // The child of a child that ends; setsid in between.
            let mut command = myself();
            command.arg("orphan-middle").args(rest);
            command.spawn()?.wait().map(drop)
        }
        (Some("orphan-middle"), [_, ..]) => {
            rustix::process::setsid()?;
            again().spawn().map(drop)
        }
        (Some("bare"), [_, ..]) => Err(again().env_clear().exec()),
        (Some("intrude"), [veil, rest @ ..]) => intrude(veil, rest),
        _ => Err(io::Error::other("no such kind")),
    }
}

/// Tells in NOTE.1, NOTE.2 and so on that it has what it was sent. By datagrams: a
/// connection that is accepted leads outside by itself.
fn hold(socket: &UnixDatagram, note: &Path) -> io::Result<()> {
    tell(note)?;
    let mut held = Vec::new();
    loop {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut byte = [0];
        let mut parts = [IoSliceMut::new(&mut byte)];
        rustix::net::recvmsg(socket, &mut parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
        let before = held.len();
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                held.extend(descriptors);
            }
        }
        if held.len() == before {
            held.clear();
        }
        tell(&note.with_extension(held.len().to_string()))?;
    }
}

/// Cannot be looked into half of the time.
fn flicker(note: &Path, each: Duration) -> io::Result<()> {
    tell(note)?;
    let end = Instant::now() + LONGEST;
    while Instant::now() < end {
        for behavior in [DumpableBehavior::NotDumpable, DumpableBehavior::Dumpable] {
            rustix::process::set_dumpable_behavior(behavior)?;
            std::thread::sleep(each);
        }
    }
    Ok(())
}

fn wait(note: &Path) -> io::Result<()> {
    tell(note)?;
    std::thread::sleep(LONGEST);
    Ok(())
}

/// Tells that it is there, and when it began; both in one file.
fn tell(note: &Path) -> io::Result<()> {
    let temporary = note.with_extension("new");
    // Not `getpid`, which may number by another namespace than the reader's.
    std::fs::write(&temporary, std::fs::read_link("/proc/self")?.as_os_str().as_bytes())?;
    std::fs::rename(temporary, note)
}

fn intrude(veil: &OsStr, rest: &[OsString]) -> io::Result<()> {
    let namespace = File::open(Path::new("/proc").join(veil).join("ns/pid"))?;
    let owner = owner_of_namespace(namespace.as_fd())?;
    move_into_link_name_space(owner.as_fd(), Some(LinkNameSpaceType::User))?;
    // For children only; they find their parent outside, and once that has
    // ended the namespace's first process in its place.
    move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::ProcessID))?;
    let mut command = myself();
    command.arg("orphan").args(rest);
    command.spawn()?.wait().map(drop)
}
