//! Processes that speak to each other, and that look into each other.

use paddock_test::host::{Host, LIMIT, wait_for};

use crate::{is_there, python};

/// Every start method, with locks (semaphores in shared memory), queues (pipes), a pool,
/// a manager (a socket with a path), and pairs of sockets.
const MULTIPROCESSING: &str = r#"
import multiprocessing, socket, sys

def double(x):
    return 2 * x

def fill(queue, lock):
    with lock:
        queue.put("filled")

if __name__ == "__main__":
    one, other = socket.socketpair()
    one.sendall(b"x")
    assert other.recv(1) == b"x"
    print("socketpair")
    for method in ["fork", "spawn", "forkserver"]:
        context = multiprocessing.get_context(method)
        queue, lock = context.Queue(), context.Lock()
        process = context.Process(target=fill, args=(queue, lock))
        process.start()
        assert queue.get(timeout=30) == "filled"
        process.join()
        with context.Pool(3) as pool:
            assert pool.map(double, range(9)) == [2 * x for x in range(9)]
        print(method)
    with multiprocessing.Manager() as manager:
        shared = manager.dict(a=1)
        assert shared["a"] == 1
    print("manager")
"#;

#[test]
fn multiprocessing_works_with_every_start_method() {
    if !is_there("python3") {
        return;
    }
    let host = Host::new();
    let run = python(&host, "sealed", MULTIPROCESSING);
    assert_eq!(run.code(), Some(0), "{} {}", run.stdout, run.stderr);
    assert_eq!(run.stdout, "socketpair\nfork\nspawn\nforkserver\nmanager\n");
}

/// A server at a socket with a path, and its client.
const WITH_PATH: &str = "import os, socket, sys
path = os.path.join(os.path.expandvars(sys.argv[1]), 'own.sock')
server = socket.socket(socket.AF_UNIX)
server.bind(path)
server.listen()
client = socket.socket(socket.AF_UNIX)
client.connect(path)
server.accept()[0].sendall(b'x')
assert client.recv(1) == b'x'
os.unlink(path)
print('answered')
";

#[test]
fn a_tool_has_sockets_in_the_launchs_own_tmp_and_nowhere_else() {
    if !is_there("python3") {
        return;
    }
    for (tier, place, works) in [
        ("sealed", "$TMPDIR", true),
        ("sealed", "/tmp", true),
        ("sealed", "$PWD", false),
        ("sealed", "$HOME", false),
        ("isolated", "$TMPDIR", false),
        ("ported", "$TMPDIR", false),
    ] {
        let host = Host::new();
        std::fs::write(host.workspace().join("script.py"), WITH_PATH).unwrap();
        let run = host.standin_in(tier, &[&format!("/usr/bin/python3 script.py '{place}' 2>&1")]);
        assert_eq!(run.stdout == "answered\n", works, "{tier}, {place}: {}", run.stdout);
        assert_eq!(run.stdout.contains("PermissionError"), !works, "{tier}: {}", run.stdout);
    }
    // What keeps keys lets nobody look into it, and nono cannot see where it would bind.
    if !is_there("ssh-agent") {
        return;
    }
    let host = Host::new();
    let run = host.standin(&["ssh-agent -a /tmp/agent.sock 2>&1; ls -A /tmp"]);
    assert!(run.stdout.contains("Operation not permitted"), "{}", run.stdout);
    assert!(!run.stdout.contains("agent.sock\n"), "{}", run.stdout);
}

/// A socket that another process of the person's has in the workspace cannot be given a
/// name in /tmp, where sockets may be connected to.
const MOVE: &str = r#"
import os, socket
for how in (os.link, os.rename, os.symlink):
    try:
        how(os.path.abspath("foreign.sock"), "/tmp/foreign.sock")
        s = socket.socket(socket.AF_UNIX)
        s.connect("/tmp/foreign.sock")
        print(how.__name__, "REACHED")
    except OSError as e:
        print(how.__name__, "refused")
own = socket.socket(socket.AF_UNIX)
own.bind("/tmp/own.sock")
own.listen()
s = socket.socket(socket.AF_UNIX)
s.connect("/tmp/own.sock")
print("own reached")
"#;

#[test]
fn a_foreign_socket_gets_no_name_in_tmp() {
    if !is_there("python3") {
        return;
    }
    let host = Host::new();
    let path = host.workspace().join("foreign.sock");
    let _listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    // The control: it answers outside.
    std::os::unix::net::UnixStream::connect(&path).unwrap();
    let run = python(&host, "sealed", MOVE);
    let wanted = "link refused\nrename refused\nsymlink refused\nown reached\n";
    assert_eq!(run.stdout, wanted, "{}", run.stderr);
}

/// Stays traced for longer than several passes of the verifier.
const TRACED: &str = r#"
import subprocess
traced = ["/usr/bin/python3", "-c", "import time; print('runs', flush=True); time.sleep(2)"]
strace = subprocess.run(["strace", "-f", "-o", "trace.txt", *traced], capture_output=True, text=True)
assert strace.returncode == 0, strace
assert "execve" in open("trace.txt").read()
print("strace")
gdb = ["gdb", "-q", "-batch", "-nx", "-ex", "starti", "-ex", "info registers rip",
       "-ex", "shell sleep 1", "-ex", "kill", "--args", "/bin/echo", "x"]
gdb = subprocess.run(gdb, capture_output=True, text=True, stdin=subprocess.DEVNULL)
assert "_start" in gdb.stdout, gdb
print("gdb")
"#;

#[test]
fn debuggers_work_on_their_own_children_and_the_launch_stays_confirmed() {
    if !(is_there("python3") && is_there("strace") && is_there("gdb")) {
        return;
    }
    let host = Host::new();
    std::fs::write(host.workspace().join("script.py"), TRACED).unwrap();
    let command = host.standin_command(&["exec /usr/bin/python3 script.py 2>&1"]);
    let launch = host.start(command);
    // A pass while something is traced.
    let traced = wait_for(LIMIT, || host.workspace().join("trace.txt").exists().then_some(()));
    assert!(traced.is_some());
    let (code, report) = launch.verify();
    assert_eq!(code, Some(0), "{report:#}");
    let run = launch.end();
    assert_eq!((run.code(), run.stdout.as_str()), (Some(0), "strace\ngdb\n"), "{}", run.stderr);
}

#[test]
fn a_browser_without_a_window_runs_scripts() {
    // Debian's, without the script that reads settings in /etc.
    const BROWSER: &str = "/usr/lib/chromium/chromium";
    if !std::path::Path::new(BROWSER).is_file() {
        println!("SKIPPED: {BROWSER} is not installed");
        return;
    }
    let host = Host::new();
    let page = "<p id=x>no</p><script>x.textContent = 'script ran ' + 6 * 7</script>";
    std::fs::write(host.workspace().join("page.html"), page).unwrap();
    let run = host.standin(&[&format!(
        "{BROWSER} --headless --no-sandbox --disable-gpu --user-data-dir=/tmp/profile \
         --dump-dom file://$PWD/page.html 2>/dev/null"
    )]);
    assert!(run.stdout.contains("script ran 42"), "{} {}", run.stdout, run.stderr);
}
