use confine::StartTime;

use super::*;

const UID: u32 = 1000;
const FILTERS: LayerFilters = LayerFilters { pen: 1, server: 4, client: 3 };

fn process(pid: i32) -> ProcessId {
    ProcessId { pid: Pid::new(pid).unwrap(), start: StartTime(pid.unsigned_abs().into()) }
}

/// The agent, its tool, and a child of that which calls.
const CHAIN: [i32; 3] = [30, 20, 10];

/// Of a child of the agent's tool, in order.
fn evidence() -> CallerEvidence {
    let status = "Name:\tpython3\nState:\tS (sleeping)\nTgid:\t30\nPid:\t30\nPPid:\t20\n\
        TracerPid:\t0\nUid:\t1000\t1000\t1000\t1000\nNSpid:\t30\t3\nThreads:\t1\n\
        CapInh:\t0\nCapPrm:\t0\nCapEff:\t0\nCapBnd:\t0\nCapAmb:\t0\nNoNewPrivs:\t1\n\
        Seccomp:\t2\nSeccomp_filters:\t4\n";
    let file = FileId { device: 1, inode: 2 };
    CallerEvidence {
        process: process(30),
        status: Status::parse(status.as_bytes()).unwrap(),
        tracer: Ok(None),
        descent: Some((Layer::Server, CHAIN.map(process).to_vec())),
        testimony: Some(Testimony::Inside),
        dumpable: true,
        program: Some(Program { path: b"/usr/bin/python3".to_vec(), file, sha256: "abc".into() }),
        foreign_code: Ok(None),
    }
}

fn judged(evidence: &CallerEvidence) -> Result<Caller, Refusal> {
    let agents = HashMap::from([(Layer::Server, process(10)), (Layer::Client, process(99))]);
    let agent = |layer| agents.get(&layer).copied();
    judge(evidence, &Expected { uid: UID, filters: FILTERS, agent: &agent })
}

#[test]
fn a_caller_with_everything_in_order_is_who_it_is() {
    let caller = judged(&evidence()).unwrap();
    assert_eq!((caller.process, caller.layer), (process(30), Layer::Server));
    assert_eq!(Some(&caller.program), evidence().program.as_ref());
    assert!(caller.descends_from_agent && caller.foreign_code.is_none());
}

type Change = fn(&mut CallerEvidence);

/// What alone is changed, and the code by which the caller is refused for it.
const REFUSED: [(&str, &str, Change); 21] = [
    ("it has ended", "gone", |e| e.status.state = State::Dead),
    ("another real user", "other-user", |e| e.status.uids[0] = 0),
    ("another effective user", "other-user", |e| e.status.uids[1] = 0),
    ("another saved user", "other-user", |e| e.status.uids[2] = 0),
    ("another user for files", "other-user", |e| e.status.uids[3] = 0),
    ("a tracer", "traced", |e| e.tracer = Ok(Pid::new(40))),
    ("tasks that cannot be read", "unreadable", |e| e.tracer = Err(())),
    ("no warden above it", "outside", |e| e.descent = None),
    ("a place in the pen", "outside", |e| {
        e.descent = Some((Layer::Pen, CHAIN.map(process).to_vec()));
    }),
    ("another domain", "outside-domain", |e| e.testimony = Some(Testimony::Refused)),
    ("no answer of the warden", "no-witness", |e| e.testimony = None),
    ("nobody for the warden", "no-witness", |e| e.testimony = Some(Testimony::Gone)),
    ("an unclear answer", "no-witness", |e| e.testimony = Some(Testimony::Unclear)),
    ("no answer about what is opaque", "no-witness", |e| {
        (e.testimony, e.dumpable) = (None, false);
    }),
    ("new privileges", "unrestricted", |e| e.status.no_new_privs = false),
    ("no filter", "unrestricted", |e| e.status.seccomp_mode = 0),
    ("strict mode for a filter", "unrestricted", |e| e.status.seccomp_mode = 1),
    ("a filter less", "unrestricted", |e| e.status.seccomp_filters = Some(3)),
    ("filters that nobody counts", "unrestricted", |e| e.status.seccomp_filters = None),
    ("an unreadable program", "unreadable", |e| e.program = None),
    ("unreadable code", "unreadable", |e| e.foreign_code = Err(())),
];

#[test]
fn one_piece_of_evidence_that_is_wrong_is_enough_to_be_refused() {
    for (what, code, change) in REFUSED {
        let mut evidence = evidence();
        change(&mut evidence);
        assert_eq!(judged(&evidence).map_err(|refusal| refusal.code).unwrap_err(), code, "{what}");
    }
}

#[test]
fn an_opaque_caller_is_judged_by_its_place_and_its_restrictions() {
    let opaque =
        || CallerEvidence { testimony: Some(Testimony::Refused), dumpable: false, ..evidence() };
    assert!(judged(&opaque()).is_ok());
    let mut outside = opaque();
    outside.descent = None;
    assert_eq!(judged(&outside).unwrap_err().code, "outside");
    let mut free = opaque();
    free.status.seccomp_filters = Some(3);
    assert_eq!(judged(&free).unwrap_err().code, "unrestricted");
}

#[test]
fn each_sandbox_has_its_own_filters_and_its_own_agent() {
    let mut client = evidence();
    client.descent = Some((Layer::Client, CHAIN.map(process).to_vec()));
    client.status.seccomp_filters = Some(3);
    let caller = judged(&client).unwrap();
    assert_eq!(caller.layer, Layer::Client);
    assert!(!caller.descends_from_agent, "the server's agent is not the client's");
    client.descent = Some((Layer::Client, vec![process(30), process(99)]));
    assert!(judged(&client).unwrap().descends_from_agent);
    client.status.seccomp_filters = Some(2);
    assert_eq!(judged(&client).unwrap_err().code, "unrestricted");
}

#[test]
fn who_was_left_behind_by_the_agent_is_served_but_not_as_its_child() {
    let mut orphan = evidence();
    orphan.descent = Some((Layer::Server, vec![process(30)]));
    assert!(!judged(&orphan).unwrap().descends_from_agent);
    // Another process that has the agent's number is not the agent.
    let later = ProcessId { start: StartTime(11), ..process(10) };
    orphan.descent = Some((Layer::Server, vec![process(30), later]));
    assert!(!judged(&orphan).unwrap().descends_from_agent);
}

#[test]
fn code_of_its_own_is_told_and_left_to_the_rules() {
    let mut evidence = evidence();
    evidence.foreign_code = Ok(Some(b"/ws/lib.so".to_vec()));
    assert_eq!(judged(&evidence).unwrap().foreign_code.as_deref(), Some(&b"/ws/lib.so"[..]));
}

#[test]
fn a_program_is_hashed_by_what_the_process_runs_and_once() {
    let (hashes, own) = (Hashes::default(), Pid::of_self());
    let program = hashes.program_of(own).unwrap();
    let path = std::env::current_exe().unwrap();
    assert_eq!(program.sha256, sha256_of(File::open(path).unwrap()).unwrap());
    assert_eq!(hashes.program_of(own).unwrap(), program);
    assert_eq!(hashes.0.lock().unwrap().len(), 1);
}

#[test]
fn every_task_of_a_process_is_looked_at_for_a_tracer() {
    let python = std::path::Path::new("/usr/bin/python3");
    if !python.exists() {
        println!("SKIPPED: there is no python3");
        return;
    }
    // Its second task is what its child traces, its first one is not.
    let script = "import ctypes, os, sys, threading\n\
        libc = ctypes.CDLL(None)\n\
        libc.prctl(0x59616d61, ctypes.c_ulong(-1))\n\
        r, w = os.pipe()\n\
        def second():\n\
        \x20   os.write(w, str(threading.get_native_id()).encode())\n\
        \x20   threading.Event().wait()\n\
        threading.Thread(target=second, daemon=True).start()\n\
        task = int(os.read(r, 20))\n\
        print('two tasks', flush=True)\n\
        sys.stdin.readline()\n\
        if os.fork() == 0:\n\
        \x20   print(libc.ptrace(0x4206, task, 0, 0), flush=True)\n\
        sys.stdin.readline()\n";
    let mut child = std::process::Command::new(python)
        .args(["-c", script])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let pid = Pid::new(child.id().cast_signed()).unwrap();
    let (mut input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(output));
    assert_eq!(lines.next().unwrap().unwrap(), "two tasks");
    assert_eq!(tasks_of(pid).unwrap().len(), 2);
    assert_eq!(tracer_of(pid).unwrap(), None, "control: it is not traced");
    std::io::Write::write_all(&mut input, b"\n").unwrap();
    if lines.next().unwrap().unwrap() == "0" {
        let leader = TaskFiles::open(pid, pid).unwrap().status(&mut Vec::new()).unwrap();
        assert_eq!(leader.tracer, None);
        assert!(tracer_of(pid).unwrap().is_some());
    } else {
        println!("SKIPPED: nobody may trace here");
    }
    drop(input);
    child.wait().unwrap();
    assert!(tracer_of(pid).is_err(), "it is gone");
}
