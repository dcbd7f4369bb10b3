use super::*;
use crate::doctor::State;

fn around() -> Surroundings {
    Surroundings::default()
}

fn said(errno: Errno) -> io::Result<()> {
    Err(error(errno))
}

#[test]
fn a_rule_counts_once_it_has_refused_what_was_possible() {
    for (control, within, state) in [
        (Ok(()), Ok(said(Errno::ACCESS)), State::Enforced),
        (Ok(()), Ok(said(Errno::PERM)), State::Enforced),
        (Ok(()), Ok(Ok(())), State::Missing),
        (Ok(()), Ok(said(Errno::CONNREFUSED)), State::Unknown),
        (said(Errno::ACCESS), Ok(said(Errno::ACCESS)), State::Unknown),
        (Ok(()), Err(error(Errno::INVAL)), State::Missing),
        (Ok(()), Err(error(Errno::TOOBIG)), State::Missing),
        (Ok(()), Err(error(Errno::OPNOTSUPP)), State::Missing),
        (Ok(()), Err(error(Errno::PERM)), State::Missing),
    ] {
        let shown = format!("{control:?} {within:?}");
        let within = within.map(|result| vec![("it", result)]);
        let feature = judge(&FILES, &vec![("it", control)], within, &around());
        assert_eq!(feature.state, state, "{shown}");
        assert_eq!(feature.advice.is_some(), state == State::Missing, "{feature:?}");
    }
}

#[test]
fn one_of_two_operations_that_is_let_through_is_enough() {
    let control = vec![("bind", Ok(())), ("connect", Ok(()))];
    let within = vec![("bind", said(Errno::ACCESS)), ("connect", Ok(()))];
    let feature = judge(&NETWORK, &control, Ok(within), &around());
    assert_eq!(feature.state, State::Missing);
    assert!(feature.reason.starts_with("connect is let through"), "{}", feature.reason);
}

#[test]
fn each_lowered_abi_takes_away_what_came_later() {
    let subject =
        |limit| Subject { landlock_limit: limit, around: around(), ..Subject::for_tests() };
    let parent = || rustix::process::getppid().map(Pid::from).ok_or(error(Errno::SRCH));
    let present = |limit| -> Vec<String> {
        let features = examine(&subject(limit), parent());
        let found = features.iter().filter(|f| f.state == State::Enforced);
        found.map(|f| f.name.clone()).collect()
    };
    let all = present(None);
    for name in ["landlock", "landlock-files", "landlock-network", "landlock-abstract-unix"] {
        assert!(all.iter().any(|n| n == name), "control: {name} in {all:?}");
    }
    for (limit, name, is_there) in [
        (6, "landlock", true),
        (6, "landlock-abstract-unix", true),
        (5, "landlock", false),
        (5, "landlock-abstract-unix", false),
        (5, "landlock-signals", false),
        (5, "landlock-network", true),
        (4, "landlock-network", true),
        (3, "landlock-network", false),
        (3, "landlock-files", true),
        (1, "landlock-files", true),
        (0, "landlock-files", false),
        (7, "landlock-thread-sync", false),
        (8, "landlock-unix-paths", false),
    ] {
        let found = present(Some(limit)).iter().any(|n| n == name);
        assert_eq!(found, is_there, "{name} with ABI {limit}");
    }
    assert_eq!(present(Some(99)), all, "it can only be lowered");
}

#[test]
fn the_version_says_what_is_needed() {
    let told = |abi: io::Result<i32>| {
        let feature = version(&abi, false, &around());
        (feature.state, feature.reason, feature.advice.unwrap_or_default())
    };
    let newer = "use Linux 6.12 or newer";
    assert_eq!(told(Ok(7)), (State::Enforced, "ABI 7".into(), String::new()));
    assert_eq!(told(Ok(6)).0, State::Enforced);
    assert_eq!(told(Ok(5)), (State::Partial, "ABI 5; every tier needs ABI 6".into(), newer.into()));
    assert_eq!(told(Ok(0)), (State::Missing, "ABI 0".into(), newer.into()));
    let (state, reason, advice) = told(Err(error(Errno::OPNOTSUPP)));
    assert_eq!(state, State::Missing);
    assert!(reason.ends_with("Landlock is not enabled") && advice.contains("lsm="), "{reason}");
    let (_, reason, advice) = told(Err(error(Errno::NOSYS)));
    assert!(reason.contains("ENOSYS: not in this kernel"), "{reason}: {advice}");
    let container = Surroundings { container: Some("docker".into()), ..around() };
    let refused = version(&Err(error(Errno::PERM)), false, &container);
    assert!(
        refused
            .reason
            .contains("landlock_create_ruleset(2): EPERM: refused, perhaps by the container")
    );
    assert!(refused.advice.unwrap().contains("docker run --security-opt seccomp=unconfined"));
}

#[test]
fn errata_that_are_open_are_named() {
    assert_eq!(errata(Ok(7), 7).state, State::Enforced);
    let open = errata(Ok(5), 7);
    assert_eq!(open.state, State::Partial);
    assert_eq!(open.reason, "not fixed: 2 (signals between threads of one process)");
    assert_eq!(errata(Ok(4), 3).state, State::Enforced, "1 and 2 are of later versions");
    assert_eq!(errata(Err(error(Errno::INVAL)), 6).state, State::Unknown);
}

#[test]
fn thread_sync_is_asked_for() {
    assert_eq!(thread_sync(None, || Ok(())).state, State::Enforced);
    assert_eq!(thread_sync(Some(7), || Ok(())).state, State::Missing);
    let missing = thread_sync(None, || said(Errno::INVAL));
    assert_eq!(missing.advice.as_deref(), Some("no tier needs it; Linux 7.0 (ABI 8) has it"));
}
