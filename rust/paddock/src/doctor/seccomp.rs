//! Filters on system calls, and whether nono can listen to them.

use std::io;

use confine::sys::host::{
    FILTERED_ERROR, Notified, filtered_call, knows_notification, notified_call, within_filter,
};
use rustix::io::Errno;

use super::Feature;
use super::cause::Surroundings;
use super::errno::named;

/// Every feature of seccomp.
pub(super) fn examine(around: &Surroundings) -> Vec<Feature> {
    let filtered = within_filter(filtered_call);
    let mut features = vec![filter(&filtered_call(), &filtered, around)];
    features.extend(listener(&knows_notification(), notified_call(), around));
    features
}

fn is_filtered(result: &io::Result<()>) -> bool {
    result.as_ref().err().and_then(io::Error::raw_os_error) == Some(FILTERED_ERROR)
}

fn filter(
    control: &io::Result<()>,
    within: &io::Result<io::Result<()>>,
    around: &Surroundings,
) -> Feature {
    const NAME: &str = "seccomp-filter";
    match (control, within) {
        (_, Err(e)) => {
            let refusal = around.refusal("seccomp(SECCOMP_SET_MODE_FILTER)", e);
            Feature::missing(NAME, refusal.reason).advise(refusal.advice)
        }
        (Err(e), _) => Feature::unknown(
            NAME,
            format!("getsid(2) fails without a filter, too ({}): nothing is shown", named(e)),
        ),
        (Ok(()), Ok(result)) if is_filtered(result) => {
            Feature::enforced(NAME, "a call was refused by a filter")
        }
        (Ok(()), Ok(_)) => Feature::missing(NAME, "a filter let a call through that it refuses")
            .advise("use a kernel whose seccomp filters work"),
    }
}

/// `seccomp-notification`, whether the kernel has it, and `seccomp-listener`,
/// whether there is room for one: a chain of filters has one at most.
fn listener(
    known: &io::Result<()>,
    notified: io::Result<Notified>,
    around: &Surroundings,
) -> [Feature; 2] {
    const HAS: &str = "seccomp-notification";
    const FREE: &str = "seccomp-listener";
    const CALL: &str = "seccomp(SECCOMP_FILTER_FLAG_NEW_LISTENER)";
    let has = match known {
        Ok(()) => Feature::enforced(HAS, "this kernel knows SECCOMP_RET_USER_NOTIF"),
        Err(e) => {
            let refusal = around.refusal("seccomp(SECCOMP_GET_ACTION_AVAIL)", e);
            Feature::missing(HAS, refusal.reason).advise(refusal.advice)
        }
    };
    let free = match notified {
        Ok(Notified::Answered(told)) if is_filtered(&told) => {
            Feature::enforced(FREE, "there is none in the chain; a call was answered by one")
        }
        Ok(Notified::Answered(_)) => {
            Feature::missing(FREE, "a call was not given the answer of its listener")
                .advise("use a kernel whose seccomp notification works")
        }
        Ok(Notified::NotHeard(e)) => {
            Feature::unknown(FREE, format!("a listener was not told of a call ({})", named(&e)))
        }
        Ok(Notified::NoListener(e)) if Errno::from_io_error(&e) == Some(Errno::BUSY) => {
            busy(FREE, CALL, around)
        }
        Ok(Notified::NoListener(e)) => {
            let refusal = around.refusal(CALL, &e);
            Feature::missing(FREE, refusal.reason).advise(refusal.advice)
        }
        Err(e) => Feature::unknown(FREE, format!("it could not be tried ({})", named(&e))),
    };
    [has, free]
}

/// One is there already, and a chain takes no second (`seccomp(2)`, `EBUSY`).
fn busy(name: &str, call: &str, around: &Surroundings) -> Feature {
    let told = |by: &str| Feature::missing(name, format!("{call}: EBUSY: {by}"));
    match around {
        _ if around.is_in_inner_sandbox() => told("a sandbox around this shell has a listener")
            .advise("start paddock outside of that sandbox"),
        Surroundings { wsl: Some(_), .. } => told(
            "WSL has put a listener on every process (mirrored networking does)",
        )
        .advise(
            "in Windows, set networkingMode=nat under [wsl2] in .wslconfig, then: wsl --shutdown",
        ),
        Surroundings { container: Some(kind), .. } => {
            told(&format!("the container ({kind}) has put a listener on every process")).advise(
                "start the container without seccomp notification (docker or podman run \
                 --security-opt seccomp=unconfined)",
            )
        }
        _ => told("what started this shell has a listener on it").advise(
            "start paddock outside of that sandbox (grep Seccomp /proc/PID/status of its parents \
             shows where it begins)",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::State;
    use crate::doctor::feature::error;

    fn refused() -> io::Result<()> {
        Err(io::Error::from_raw_os_error(FILTERED_ERROR))
    }

    fn around() -> Surroundings {
        Surroundings::default()
    }

    #[test]
    fn a_filter_counts_once_it_has_refused_a_call() {
        for (control, within, state) in [
            (Ok(()), Ok(refused()), State::Enforced),
            (Ok(()), Ok(Ok(())), State::Missing),
            (Ok(()), Err(error(Errno::PERM)), State::Missing),
            (Ok(()), Err(error(Errno::INVAL)), State::Missing),
            (refused(), Ok(refused()), State::Unknown),
        ] {
            assert_eq!(filter(&control, &within, &around()).state, state);
        }
    }

    #[test]
    fn a_listener_in_the_chain_is_named_with_who_has_it() {
        let busy = || Ok(Notified::NoListener(error(Errno::BUSY)));
        for (surroundings, by, advice) in [
            (Surroundings { wsl: Some(2), ..around() }, "WSL", "networkingMode=nat"),
            (
                Surroundings { container: Some("docker".into()), ..around() },
                "the container (docker)",
                "seccomp=unconfined",
            ),
            (around(), "what started this shell", "outside of that sandbox"),
            (
                Surroundings {
                    wsl: Some(2),
                    filtered: true,
                    first_filtered: Some(false),
                    ..around()
                },
                "a sandbox around this shell",
                "outside of that sandbox",
            ),
        ] {
            let [has, free] = listener(&Ok(()), busy(), &surroundings);
            assert_eq!((has.state, free.state), (State::Enforced, State::Missing));
            assert!(free.reason.contains("EBUSY") && free.reason.contains(by), "{}", free.reason);
            assert!(free.advice.unwrap().contains(advice));
        }
    }

    #[test]
    fn a_listener_counts_once_it_has_answered() {
        let free = |notified| listener(&Ok(()), notified, &around())[1].state;
        assert_eq!(free(Ok(Notified::Answered(refused()))), State::Enforced);
        assert_eq!(free(Ok(Notified::Answered(Ok(())))), State::Missing);
        assert_eq!(free(Ok(Notified::NotHeard(error(Errno::TIMEDOUT)))), State::Unknown);
        assert_eq!(free(Ok(Notified::NoListener(error(Errno::PERM)))), State::Missing);
        assert_eq!(free(Err(error(Errno::AGAIN))), State::Unknown);
        let [has, _] = listener(&Err(error(Errno::OPNOTSUPP)), Err(error(Errno::INVAL)), &around());
        assert_eq!(has.state, State::Missing);
    }

    #[test]
    fn here_it_works() {
        for feature in examine(&around()) {
            assert_eq!(feature.state, State::Enforced, "{feature:?}");
        }
    }
}
