//! A sandbox belongs to a thread: a process of which one thread is sandboxed
//! and another is not must not pass for a sandboxed one.

// What a helper needs and does not find fails the test that uses it.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::mpsc::{Sender, channel};

use confine::evidence::ProgramCheck;
use confine::proc::{Namespaces, TaskFiles};
use confine::verdict::{LayerFilters, judge};
use confine::witness::{Testimony, testify};
use confine::{Evidence, Expectation, Layer, Pid, Reason, Role, Verdict};
use landlock::{AccessFs, Ruleset, RulesetAttr, RulesetStatus};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};

const QUESTION: &str = "CONFINE_TEST_TASKS";

/// Started by the test below as the witness: prints what it is told about each
/// task. On its own it does nothing.
#[test]
fn witness_of_the_other_test() {
    let Ok(question) = std::env::var(QUESTION) else { return };
    let tasks = question.split(' ').map(|id| Pid::new(id.parse().unwrap()).unwrap());
    for testimony in testify(&tasks.collect::<Vec<_>>()) {
        println!("testimony {testimony:?}");
    }
}

/// What a process started by the calling thread, and so in the thread's own
/// domain, is told about `tasks`.
fn ask_witness(tasks: &[Pid]) -> Vec<String> {
    let question: Vec<String> = tasks.iter().map(ToString::to_string).collect();
    let output = Command::new("/proc/self/exe")
        .args(["--exact", "witness_of_the_other_test", "--nocapture"])
        .env(QUESTION, question.join(" "))
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let told = text.lines().filter_map(|line| line.rsplit_once("testimony "));
    told.map(|(_, testimony)| testimony.to_owned()).collect()
}

fn own_task() -> Pid {
    Pid::from(rustix::thread::gettid())
}

/// `no_new_privs`, a Landlock domain and a seccomp filter, for the calling
/// thread alone. Both refuse what nobody does here.
fn enter_sandbox() {
    let ruleset = Ruleset::default().handle_access(AccessFs::MakeBlock).unwrap();
    let status = ruleset.create().unwrap().restrict_self().unwrap();
    assert_eq!(status.ruleset, RulesetStatus::FullyEnforced);
    let filter = SeccompFilter::new(
        BTreeMap::from([(libc::SYS_swapon, Vec::new())]),
        SeccompAction::Allow,
        SeccompAction::Errno(1),
        std::env::consts::ARCH.try_into().unwrap(),
    );
    seccompiler::apply_filter(&BpfProgram::try_from(filter.unwrap()).unwrap()).unwrap();
}

/// A thread, sandboxed on its own or not, that lives until the sender is gone.
fn thread(sandboxed: bool) -> (Pid, Sender<()>) {
    let (tell, told) = channel();
    let (keep, kept) = channel();
    std::thread::spawn(move || {
        if sandboxed {
            enter_sandbox();
        }
        tell.send(own_task()).unwrap();
        let _ = kept.recv();
    });
    (told.recv().unwrap(), keep)
}

/// The verdict on one task of this process, as one of the agent's.
fn verdict(task: Pid, testimony: Testimony) -> Verdict {
    let process = Pid::of_self();
    let files = TaskFiles::open(process, task).unwrap();
    let status = files.status(&mut Vec::new()).unwrap();
    let here = Namespaces::of(process).unwrap();
    let expectation = Expectation {
        uid: status.uids[0],
        filters: LayerFilters { server: 1, ..LayerFilters::default() },
        inside: here,
        host: here,
        network_isolated: false,
        veiled: false,
    };
    let mut evidence = Evidence {
        task: files.id(),
        process,
        role: Role::Agent(Layer::Server),
        dumpable: files.is_dumpable(status.uids[1]).unwrap(),
        status,
        testimony: Some(testimony),
        namespaces: Some(here),
        maps_users_otherwise: false,
        unreadable_for: std::time::Duration::ZERO,
        program: ProgramCheck::NotAsked,
        tracer_is_inside: false,
    };
    // The tests may be run by root, which an agent never is.
    evidence.status.capabilities = 0;
    judge(&evidence, &expectation)
}

#[test]
fn a_second_thread_without_the_sandbox_is_seen() {
    let (free, _keep) = thread(false);
    let outside = ask_witness(&[own_task(), free]);
    assert_eq!(outside, ["Inside", "Inside"], "control: without a sandbox nobody is out of reach");

    // In a thread of its own, so that the harness's stay as they are.
    let sandboxed = std::thread::spawn(move || {
        enter_sandbox();
        // It inherits what its maker has, and adds to it.
        let (nested, _keep) = thread(true);
        let tasks = [own_task(), nested, free];
        let told = [Testimony::Inside, Testimony::Inside, Testimony::Refused];
        let verdicts: Vec<_> = tasks.into_iter().zip(told).map(|(t, w)| verdict(t, w)).collect();
        (ask_witness(&tasks), verdicts)
    });
    let (answers, verdicts) = sandboxed.join().unwrap();
    assert_eq!(answers, ["Inside", "Inside", "Refused"]);
    let unconfined =
        vec![Reason::NewPrivileges, Reason::NoSeccomp, Reason::NotInDomain(Layer::Server)];
    assert_eq!(
        verdicts,
        [Verdict::Confined, Verdict::Confined, Verdict::Unconfined(unconfined)],
        "in one process"
    );
}
