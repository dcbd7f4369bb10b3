//! The table of verdicts.

use std::time::Duration;

use super::*;
use crate::proc::{Namespace, Status};
use crate::{Pid, ProcessId, StartTime};

const HOST: Namespaces = Namespaces {
    user: Namespace(1),
    mount: Namespace(2),
    network: Namespace(3),
    pid: Namespace(4),
    ipc: Namespace(5),
};
const PEN: Namespaces = Namespaces {
    user: Namespace(11),
    mount: Namespace(12),
    network: Namespace(13),
    pid: Namespace(14),
    ipc: Namespace(15),
};

fn sealed() -> Expectation {
    Expectation {
        uid: 1001,
        filters: LayerFilters { pen: 1, server: 3, client: 2 },
        inside: PEN,
        host: HOST,
        network_isolated: true,
        veiled: true,
    }
}

/// A task of the agent in the server sandbox of which everything holds.
fn confined() -> Evidence {
    let pid = Pid::new(42).unwrap();
    Evidence {
        task: ProcessId { pid, start: StartTime(7) },
        process: pid,
        role: Role::Agent(Layer::Server),
        status: Status {
            name: b"codex".to_vec(),
            state: State::Alive,
            tgid: pid,
            task: pid,
            parent: Pid::new(41),
            tracer: None,
            uids: [1001; 4],
            ids_by_namespace: vec![42, 9],
            threads: 1,
            capabilities: 0,
            no_new_privs: true,
            seccomp_mode: 2,
            seccomp_filters: Some(3),
        },
        testimony: Some(Testimony::Inside),
        dumpable: true,
        namespaces: Some(PEN),
        maps_users_otherwise: false,
        unreadable_for: Duration::ZERO,
        program: ProgramCheck::NotAsked,
        tracer_is_inside: false,
    }
}

fn with(change: impl FnOnce(&mut Evidence)) -> Verdict {
    let mut evidence = confined();
    change(&mut evidence);
    judge(&evidence, &sealed())
}

fn unconfined(reason: Reason) -> Verdict {
    Verdict::Unconfined(vec![reason])
}

fn unknown(reason: Reason) -> Verdict {
    Verdict::Unknown(vec![reason])
}

#[test]
#[allow(clippy::too_many_lines)] // a table
fn the_table_of_verdicts() {
    use Layer::{Client, Pen, Server};
    let rows: Vec<(&str, Verdict, Verdict)> = vec![
        ("all holds", with(|_| {}), Verdict::Confined),
        (
            "more filters than the warden: its own on top",
            with(|e| e.status.seccomp_filters = Some(5)),
            Verdict::Confined,
        ),
        (
            "the client's task has the client's filters",
            with(|e| {
                e.role = Role::Agent(Client);
                e.status.seccomp_filters = Some(2);
            }),
            Verdict::Confined,
        ),
        (
            "the client's count is too few for the server",
            with(|e| e.status.seccomp_filters = Some(2)),
            unconfined(Reason::FewerFilters { has: 2, wants: 3 }),
        ),
        (
            "no no_new_privs",
            with(|e| e.status.no_new_privs = false),
            unconfined(Reason::NewPrivileges),
        ),
        ("no seccomp", with(|e| e.status.seccomp_mode = 0), unconfined(Reason::NoSeccomp)),
        (
            "strict seccomp is not a filter",
            with(|e| e.status.seccomp_mode = 1),
            unconfined(Reason::NoSeccomp),
        ),
        (
            "filters not counted",
            with(|e| e.status.seccomp_filters = None),
            unknown(Reason::FiltersNotCounted),
        ),
        (
            "outside the domain",
            with(|e| e.testimony = Some(Testimony::Refused)),
            unconfined(Reason::NotInDomain(Server)),
        ),
        (
            "opaque, and all else holds",
            with(|e| {
                e.testimony = Some(Testimony::Refused);
                e.dumpable = false;
            }),
            Verdict::Confined,
        ),
        (
            "opaque, and a filter is missing",
            with(|e| {
                e.testimony = Some(Testimony::Refused);
                e.dumpable = false;
                e.status.seccomp_filters = Some(1);
            }),
            unconfined(Reason::FewerFilters { has: 1, wants: 3 }),
        ),
        (
            "the witness is silent",
            with(|e| e.testimony = None),
            unknown(Reason::NoTestimony(Server)),
        ),
        (
            "the witness is silent and the task opaque",
            with(|e| {
                e.testimony = None;
                e.dumpable = false;
            }),
            unknown(Reason::NoTestimony(Server)),
        ),
        (
            "the witness is confused",
            with(|e| e.testimony = Some(Testimony::Unclear)),
            unknown(Reason::UnclearTestimony(Server)),
        ),
        (
            "no such task, says the witness, of one that is there",
            with(|e| e.testimony = Some(Testimony::Gone)),
            unknown(Reason::UnclearTestimony(Server)),
        ),
        (
            "a failed check outweighs a missing one",
            with(|e| {
                e.testimony = None;
                e.status.no_new_privs = false;
            }),
            Verdict::Unconfined(vec![Reason::NewPrivileges, Reason::NoTestimony(Server)]),
        ),
        (
            "another user",
            with(|e| e.status.uids = [1001, 0, 1001, 1001]),
            unconfined(Reason::OtherUser(0)),
        ),
        (
            "capabilities in the launch's user namespace",
            with(|e| e.status.capabilities = 1),
            unconfined(Reason::Capabilities(1)),
        ),
        (
            "capabilities over a user namespace of its own",
            with(|e| {
                e.status.capabilities = u64::MAX;
                e.namespaces = Some(Namespaces { user: Namespace(99), ..PEN });
            }),
            Verdict::Confined,
        ),
        (
            "capabilities, and namespaces that cannot be read",
            with(|e| {
                (e.status.capabilities, e.namespaces) = (1, None);
            }),
            unconfined(Reason::Capabilities(1)),
        ),
        (
            "the same, but a map of users of its own",
            with(|e| {
                (e.status.capabilities, e.namespaces) = (1, None);
                e.maps_users_otherwise = true;
            }),
            Verdict::Confined,
        ),
        (
            "capabilities over the host's user namespace",
            with(|e| {
                e.status.capabilities = 1;
                e.namespaces = Some(Namespaces { user: HOST.user, ..PEN });
            }),
            unconfined(Reason::Capabilities(1)),
        ),
        (
            "the host's network",
            with(|e| e.namespaces = Some(Namespaces { network: HOST.network, ..PEN })),
            unconfined(Reason::HostNamespace("network")),
        ),
        (
            "the host's mounts and processes",
            with(|e| {
                e.namespaces = Some(Namespaces { mount: HOST.mount, pid: HOST.pid, ..PEN });
            }),
            Verdict::Unconfined(vec![Reason::HostNamespace("mount"), Reason::HostNamespace("pid")]),
        ),
        (
            "an agent's program that cannot be looked into, for a moment",
            with(|e| e.namespaces = None),
            Verdict::Confined,
        ),
        (
            "namespaces that cannot be read for long",
            with(|e| (e.namespaces, e.unreadable_for) = (None, UNREADABLE_LIMIT)),
            unknown(Reason::NamespacesUnreadable),
        ),
        (
            "a warden whose namespaces cannot be read",
            with(|e| (e.namespaces, e.role) = (None, Role::Warden(Server))),
            unknown(Reason::NamespacesUnreadable),
        ),
        (
            "traced from outside",
            with(|e| e.status.tracer = Pid::new(7)),
            unconfined(Reason::Traced(7)),
        ),
        (
            "traced by a debugger in the same sandbox",
            with(|e| {
                e.status.tracer = Pid::new(7);
                e.tracer_is_inside = true;
            }),
            Verdict::Confined,
        ),
        ("a stray is never confined", with(|e| e.role = Role::Stray), unconfined(Reason::NoPlace)),
        (
            "a zombie runs nothing",
            with(|e| {
                e.status.state = State::Dead;
                e.status.no_new_privs = false;
            }),
            Verdict::Confined,
        ),
        (
            "a stopped agent is confined",
            with(|e| e.status.state = State::Stopped),
            Verdict::Confined,
        ),
        (
            "a stopped warden cannot testify",
            with(|e| {
                e.role = Role::Warden(Server);
                e.dumpable = false;
                e.status.state = State::Stopped;
            }),
            unknown(Reason::Stopped),
        ),
        (
            "a warden of another program",
            with(|e| {
                e.role = Role::Warden(Server);
                e.program = ProgramCheck::Different;
            }),
            unconfined(Reason::OtherProgram),
        ),
        (
            "an inner supervisor stands in the pen",
            with(|e| {
                e.role = Role::Supervisor(Server);
                e.status.seccomp_filters = Some(1);
                e.testimony = Some(Testimony::Refused);
                e.dumpable = false;
            }),
            Verdict::Confined,
        ),
        (
            "an inner supervisor outside the pen",
            with(|e| {
                e.role = Role::Supervisor(Server);
                e.testimony = Some(Testimony::Refused);
            }),
            unconfined(Reason::NotInDomain(Pen)),
        ),
        (
            "the pen's supervisor builds the pen",
            with(|e| {
                e.role = Role::Supervisor(Pen);
                e.status.no_new_privs = false;
                e.status.seccomp_mode = 0;
                e.testimony = None;
                e.program = ProgramCheck::Same;
            }),
            Verdict::Builder,
        ),
        (
            "the veil of another program",
            with(|e| {
                e.role = Role::Veil;
                e.program = ProgramCheck::Different;
            }),
            unconfined(Reason::OtherProgram),
        ),
        (
            "a builder whose program cannot be read",
            with(|e| {
                e.role = Role::Veil;
                e.program = ProgramCheck::Unreadable;
            }),
            unknown(Reason::ProgramUnreadable),
        ),
    ];
    for (name, verdict, wanted) in rows {
        assert_eq!(verdict, wanted, "{name}");
    }
}

#[test]
fn a_tier_is_not_asked_for_what_it_does_not_have() {
    let ported = Expectation { network_isolated: false, veiled: false, inside: HOST, ..sealed() };
    let mut evidence = confined();
    evidence.namespaces = Some(HOST);
    assert_eq!(judge(&evidence, &ported), Verdict::Confined);
    assert!(!judge(&evidence, &sealed()).holds(), "control: the sealed tier is");
    evidence.namespaces = None;
    assert_eq!(judge(&evidence, &ported), Verdict::Confined);
    evidence.status.capabilities = 1;
    assert_eq!(judge(&evidence, &ported), unconfined(Reason::Capabilities(1)));
}

#[test]
fn every_reason_has_a_text_and_a_code_of_its_own() {
    let all = [
        Reason::NoPlace,
        Reason::NotInDomain(Layer::Pen),
        Reason::NewPrivileges,
        Reason::NoSeccomp,
        Reason::FewerFilters { has: 1, wants: 2 },
        Reason::OtherUser(0),
        Reason::Capabilities(1),
        Reason::HostNamespace("pid"),
        Reason::Traced(1),
        Reason::OtherProgram,
        Reason::Stopped,
        Reason::NoTestimony(Layer::Pen),
        Reason::UnclearTestimony(Layer::Pen),
        Reason::FiltersNotCounted,
        Reason::NamespacesUnreadable,
        Reason::ProgramUnreadable,
        Reason::Holds("x".into()),
        Reason::DescriptorsUnreadable,
    ];
    let codes: std::collections::BTreeSet<_> = all.iter().map(Reason::code).collect();
    let texts: std::collections::BTreeSet<_> = all.iter().map(Reason::to_string).collect();
    assert_eq!((codes.len(), texts.len()), (all.len(), all.len()));
}
