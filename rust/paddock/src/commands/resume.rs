//! `paddock resume`.

use super::run::launch;
use super::{end_launch, is_open};
use crate::cli::Resume;
use crate::error::Error;
use crate::launch::{Directories, Form, Request, Workspace};
use crate::output::{complain, shown};
use crate::state::{Record, Stored, find_launch, stored_launches};

/// Launches the agent of an earlier launch afresh, to go on where that ended.
pub(crate) fn resume(options: Resume) -> Result<u8, Error> {
    launch(options.how, |directories| {
        let record = match &options.launch {
            Some(prefix) => find_launch(Some(prefix), directories)?,
            None => newest(directories)?,
        };
        request(record, options, directories)
    })
}

fn request(launch: Stored, options: Resume, directories: &Directories) -> Result<Request, Error> {
    if launch.is_kept {
        return Err(Error::LaunchRuns { launch: launch.record.launch });
    }
    let Record { launch: id, agent, form, .. } = &launch.record;
    let what = match form {
        Form::Pair | Form::Solo => None,
        Form::Shell => Some(("a shell", format!("paddock shell {agent} starts another"))),
        Form::Login => Some(("a sign-in", format!("paddock run {agent} starts the agent"))),
    };
    if let Some((what, advice)) = what {
        return Err(Error::NothingToResume { reason: format!("{id} was {what}"), advice });
    }
    if is_open(&launch) && !options.how.dry_run {
        end_leftovers(&launch, directories)?;
    }
    let Record { launch: id, agent, workspace, tier, form, .. } = launch.record;
    Ok(Request {
        agent: Some(agent),
        workspace: Some(workspace),
        is_recorded: true,
        tier: options.tier,
        recorded: Some((id, tier)),
        form: Some(form),
        resume: true,
        arguments: options.arguments,
    })
}

/// Ends what is left of a launch whose keeper is gone: nobody watches it, and it has the
/// same workspace and the same private home.
fn end_leftovers(launch: &Stored, directories: &Directories) -> Result<(), Error> {
    let reason = match end_launch(launch, directories) {
        Ok(0) => return Ok(()),
        Ok(n) => format!("{n} of its processes could not be ended"),
        Err(e) => e.to_string(),
    };
    let id = &launch.record.launch;
    Err(Error::NothingToResume {
        reason: format!("the keeper of {id} is gone, and {reason}"),
        advice: format!("paddock stop {id}, then: paddock resume {id}"),
    })
}

/// The newest launch of this workspace that has ended, else the only one that has.
fn newest(directories: &Directories) -> Result<Stored, Error> {
    let (launches, errors) = stored_launches(directories);
    for error in &errors {
        complain(format_args!("{error}"));
    }
    let mut ended: Vec<Stored> =
        launches.into_iter().filter(|l| !l.is_kept && l.record.form.is_agent()).collect();
    let here = Workspace::find(None, directories);
    let here = here.as_ref().map(|workspace| workspace.root.as_path());
    let is_of_here = |l: &Stored| here.is_ok_and(|root| root == l.record.workspace);
    let of_here = ended.iter().rposition(is_of_here);
    if let Some(at) = of_here {
        return Ok(ended.swap_remove(at));
    }
    if ended.len() > 1 {
        let place = here.map_or_else(|_| "here".to_owned(), |root| format!("in {}", shown(root)));
        return Err(Error::NothingToResume {
            reason: format!("none has ended {place}, and several elsewhere"),
            advice: "paddock list shows them; then: paddock resume LAUNCH".into(),
        });
    }
    ended.pop().ok_or_else(|| Error::NothingToResume {
        reason: "none has ended".into(),
        advice: "paddock run starts one; paddock list shows those that run".into(),
    })
}
