//! Sockets that an agent makes where it is told to by nobody: below `/tmp`, by its
//! user's number. In a veil `/tmp` is the launch's own, and what is made there is shared
//! by the sandboxes of that launch; without one the same path is this host's, where the
//! person's own agent may listen.

use std::path::{Component, Path, PathBuf};

use super::agent_program::unusable;
use super::form::Chosen;
use super::{Paths, Tier};
use crate::agent::{Agent, Values};
use crate::error::Error;
use crate::output::shown;
use warden::Link;

/// Where in a veil they are.
const SHARED: &str = "/tmp";

/// The directories of `agent`'s sockets, as its sandboxes see them. One process alone
/// goes without them where they are this host's.
///
/// # Errors
/// When the agent file names other places, or its halves would have to meet in this
/// host's own.
pub(super) fn shared(
    agent: &Agent,
    chosen: &Chosen<'_>,
    tier: Tier,
    values: &Values,
) -> Result<Vec<PathBuf>, Error> {
    let directories =
        agent.file.sockets.iter().map(|template| {
            directory_of(template, values).map_err(|reason| unusable(agent, reason))
        });
    let directories: Vec<PathBuf> = directories.collect::<Result<_, _>>()?;
    match directories.first() {
        Some(first) if !tier.has_veil() && chosen.client.is_some() => Err(Error::SharedSockets {
            agent: agent.called().to_owned(),
            path: first.clone(),
            tier,
            has_solo: agent.file.solo.is_some(),
        }),
        _ if !tier.has_veil() => Ok(Vec::new()),
        _ => Ok(directories),
    }
}

/// The directory that `template` names.
///
/// # Errors
/// Why there are no sockets.
pub(super) fn directory_of(template: &str, values: &Values) -> Result<PathBuf, String> {
    let path = values.fill(template).map(PathBuf::from)?;
    if path.as_os_str().as_encoded_bytes().contains(&b',') {
        return Err(format!("{template:?} has a comma, which nono takes for a separator"));
    }
    let is_one = |path: &Path| path.components().all(|c| matches!(c, Component::Normal(_)));
    if path.parent() == Some(Path::new(SHARED))
        && path.strip_prefix(SHARED).is_ok_and(is_one)
        && path.file_name().is_some()
    {
        return Ok(path);
    }
    Err(format!("sockets are in directories right below {SHARED}, not {template:?}"))
}

/// Refuses what would put a directory of this host in the place of one of `sockets`.
///
/// # Errors
/// The path that would.
pub(super) fn refuse_over<'a>(
    sockets: &[PathBuf],
    mut granted: impl Iterator<Item = &'a PathBuf>,
    agent: &Agent,
) -> Result<(), Error> {
    let Some(path) = granted.find(|path| sockets.iter().any(|own| path.starts_with(own))) else {
        return Ok(());
    };
    let reason = format!("its sockets are where {} is, which is granted to it", shown(path));
    Err(unusable(agent, reason))
}

/// Where the halves meet, for a link of the agent's own sockets.
///
/// # Errors
/// When that is in none of `sockets`: why.
pub(super) fn own_link(at: &str, sockets: &[PathBuf], values: &Values) -> Result<Link, String> {
    let path = values.fill(at).map(PathBuf::from)?;
    let parts = || path.components();
    let is_plain = parts().skip(1).all(|part| matches!(part, Component::Normal(_)));
    let stars = parts().filter(|part| part.as_os_str() == "*").count();
    let is_below = |own: &PathBuf| path.strip_prefix(own).is_ok_and(|rest| rest != Path::new(""));
    if is_plain && stars <= 1 && path.to_str().is_some() && sockets.iter().any(is_below) {
        return Ok(Link::Own(path));
    }
    Err(format!("{at:?} is no socket below what `sockets` names, with one * at most"))
}

/// Where on this host the launch keeps what is at `path` in its veil.
pub(crate) fn on_host(path: &Path, paths: &Paths) -> PathBuf {
    let name = path.strip_prefix(SHARED).unwrap_or(path);
    paths.temporary("server").join(name)
}

#[cfg(test)]
mod tests {
    use super::super::form::{self, Form};
    use super::super::git::Repository;
    use super::super::{Request, Workspace};
    use super::*;
    use crate::agent::{AgentFile, load};

    const NOWHERE: &str = "/nonexistent";

    fn claude() -> Agent {
        load("claude", Path::new(NOWHERE)).unwrap()
    }

    /// The same agent with another list of directories.
    fn with(sockets: &[&str]) -> Agent {
        let mut agent = claude();
        let sockets = sockets.iter().map(|&text| text.to_owned()).collect();
        agent.file = AgentFile { sockets, ..agent.file };
        agent
    }

    /// What is chosen in a workspace without git.
    fn choose<'a>(agent: &'a Agent, form: Option<Form>, first: Option<&str>) -> Chosen<'a> {
        let arguments = first.map(Into::into).into_iter().collect();
        let request = Request { form, arguments, ..Request::default() };
        let workspace = Workspace { root: NOWHERE.into(), git: Repository::default() };
        form::choose(agent, &request, &workspace).unwrap()
    }

    fn in_tier(agent: &Agent, form: Form, tier: Tier) -> Result<Vec<PathBuf>, Error> {
        let chosen = choose(agent, Some(form), None);
        shared(agent, &chosen, tier, &Values::default())
    }

    #[test]
    fn they_are_the_launchs_own_or_the_pair_is_refused_with_a_way_out() {
        let agent = claude();
        let uid = rustix::process::getuid().as_raw();
        let own = [PathBuf::from(format!("/tmp/cc-daemon-{uid}"))];
        for form in [Form::Pair, Form::Solo, Form::Shell] {
            assert_eq!(in_tier(&agent, form, Tier::Sealed).unwrap(), own, "{form:?}");
        }
        for tier in [Tier::Isolated, Tier::Ported] {
            for form in [Form::Solo, Form::Shell] {
                let none = in_tier(&agent, form, tier).unwrap();
                assert!(none.is_empty(), "{form:?}: the host's own are not granted");
            }
            let refused = in_tier(&agent, Form::Pair, tier).unwrap_err();
            assert!(refused.to_string().contains(&own[0].display().to_string()), "{refused}");
            let advice = refused.advice().unwrap();
            for way_out in ["paddock run --solo claude", "--tier sealed claude"] {
                assert!(advice.contains(way_out), "{advice}");
            }
            assert!(in_tier(&with(&[]), Form::Pair, tier).is_ok(), "control: it is about these");
        }
    }

    #[test]
    fn they_are_right_below_tmp_and_nowhere_else() {
        for good in ["/tmp/a", "/tmp/a b", "/tmp/{uid}"] {
            assert!(in_tier(&with(&[good]), Form::Pair, Tier::Sealed).is_ok(), "{good}");
        }
        for bad in [
            "",
            "/",
            "/tmp",
            "/tmp/",
            "/tmp/.",
            "/tmp/..",
            "/tmp/a/b",
            "/run/x",
            "tmp/a",
            "/tmp/a/..",
            "/tmp/a,b",
        ] {
            let refused = in_tier(&with(&[bad]), Form::Pair, Tier::Sealed);
            assert!(matches!(refused, Err(Error::AgentFile { .. })), "{bad:?}: {refused:?}");
        }
    }

    #[test]
    fn nothing_of_the_host_takes_their_place() {
        let own = [PathBuf::from("/tmp/own")];
        let refused =
            |path: &str| refuse_over(&own, [&PathBuf::from(path)].into_iter(), &claude()).is_err();
        for elsewhere in ["/tmp", "/tmp/owner", "/tmp/other", "/h/tmp/own"] {
            assert!(!refused(elsewhere), "{elsewhere}");
        }
        assert!(refused("/tmp/own") && refused("/tmp/own/x"));
    }

    #[test]
    fn the_halves_meet_below_them() {
        let own = [PathBuf::from("/tmp/own")];
        let link = |at: &str| own_link(at, &own, &Values::default());
        for good in ["/tmp/own/s", "/tmp/own/*/s", "/tmp/own/{uid}/*"] {
            assert!(matches!(link(good), Ok(Link::Own(_))), "{good}");
        }
        for bad in ["", "/tmp/own", "/tmp/*/s", "/tmp/own/*/*", "/tmp/own/../s", "/tmp/owner/s"] {
            assert!(link(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_only_the_one_process_knows_starts_it() {
        let agent = claude();
        let form = |wanted, first| choose(&agent, wanted, first).form;
        for (first, chosen) in
            [(None, Form::Pair), (Some("hello"), Form::Pair), (Some("-p"), Form::Solo)]
        {
            assert_eq!(form(None, first), chosen, "{first:?}");
        }
        assert_eq!(form(Some(Form::Pair), Some("-p")), Form::Pair, "said is said");
        assert_eq!(form(Some(Form::Solo), None), Form::Solo);
    }
}
