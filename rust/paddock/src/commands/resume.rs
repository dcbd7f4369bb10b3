//! `paddock resume`.

use super::run::launch;
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
        request(record, options)
    })
}

fn request(launch: Stored, options: Resume) -> Result<Request, Error> {
    let Record { launch: id, agent, workspace, tier, form, .. } = launch.record;
    if launch.is_kept {
        return Err(Error::LaunchRuns { launch: id });
    }
    if form == Form::Shell {
        return Err(Error::NothingToResume {
            reason: format!("{id} was a shell"),
            advice: format!("paddock shell {agent} starts another"),
        });
    }
    Ok(Request {
        agent: Some(agent),
        workspace: Some(workspace),
        tier: Some(tier),
        form: Some(form),
        resume: true,
        arguments: options.arguments,
    })
}

/// The newest launch of this workspace that has ended, else the only one that has.
fn newest(directories: &Directories) -> Result<Stored, Error> {
    let (launches, errors) = stored_launches(directories);
    for error in &errors {
        complain(format_args!("{error}"));
    }
    let mut ended: Vec<Stored> =
        launches.into_iter().filter(|l| !l.is_kept && l.record.form != Form::Shell).collect();
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
