//! Whether a rule of the agent's lets a caller ask for something.

use confine::escape::escape_short;
use confine::proc::FileId;

use super::caller::{Caller, Refusal};
use crate::agent::{CallersProgram, GateRule, RequestKind};

/// The longest path that is told, in characters.
const MOST_PATH: usize = 200;

/// The agent's own program as it was checked.
#[derive(Clone, Debug)]
pub(super) struct AgentProgram {
    pub(super) file: FileId,
    /// Nothing, where it could not be hashed: then no caller is the agent.
    pub(super) sha256: Option<String>,
}

/// Whether one of the rules does.
///
/// # Errors
/// Why the last rule for such requests does not, or that there is none.
pub(super) fn allow(
    rules: &[GateRule],
    caller: &Caller,
    kind: RequestKind,
    agent: &AgentProgram,
) -> Result<(), Refusal> {
    let mut why = "no rule in the agent's file lets anybody here ask for that".to_owned();
    for rule in rules.iter().filter(|rule| rule.requests.contains(&kind)) {
        match fits(rule, caller, agent) {
            Ok(()) => return Ok(()),
            Err(reason) => why = reason,
        }
    }
    Err(Refusal::new("not-allowed", why))
}

/// Whether a caller is as a rule wants it, or why not.
fn fits(rule: &GateRule, caller: &Caller, agent: &AgentProgram) -> Result<(), String> {
    if rule.sandbox.is_some_and(|sandbox| sandbox.layer() != caller.layer) {
        return Err(format!("it is in the {} sandbox", caller.layer));
    }
    if rule.from_agent && !caller.descends_from_agent {
        return Err("the agent's own process is not among its parents".into());
    }
    if rule.program == CallersProgram::Any {
        return Ok(());
    }
    if caller.program.file != agent.file {
        return Err("it does not run the agent's own program".into());
    }
    if agent.sha256.as_ref() != Some(&caller.program.sha256) {
        return Err("the agent's program is not the one that was checked any more".into());
    }
    match &caller.foreign_code {
        Some(path) => Err(format!("it has code of {} in it", escape_short(path, MOST_PATH))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use confine::{Layer, Pid, ProcessId, StartTime};

    use super::super::caller::Program;
    use super::*;
    use crate::agent::Sandbox;

    const FILE: FileId = FileId { device: 1, inode: 2 };

    /// Demands everything that a rule can.
    fn strict() -> GateRule {
        GateRule {
            requests: vec![RequestKind::Herdr],
            sandbox: Some(Sandbox::Server),
            program: CallersProgram::Agent,
            from_agent: true,
        }
    }

    fn agent() -> AgentProgram {
        AgentProgram { file: FILE, sha256: Some("abc".into()) }
    }

    /// What [`strict`] wants.
    fn caller() -> Caller {
        Caller {
            process: ProcessId { pid: Pid::new(7).unwrap(), start: StartTime(70) },
            layer: Layer::Server,
            program: Program { path: b"/bin/agent".to_vec(), file: FILE, sha256: "abc".into() },
            descends_from_agent: true,
            foreign_code: None,
        }
    }

    #[test]
    fn a_caller_that_is_all_that_a_rule_wants_fits_it() {
        assert_eq!(fits(&strict(), &caller(), &agent()), Ok(()));
    }

    /// One thing that is otherwise, why it is refused, and the one demand without
    /// which it would not have been.
    type Case = (&'static str, fn(&mut Caller), fn(&mut GateRule));

    #[test]
    fn one_thing_that_is_otherwise_is_told_and_matters_only_where_it_is_demanded() {
        let any: fn(&mut GateRule) = |rule| rule.program = CallersProgram::Any;
        let cases: [Case; 6] = [
            (
                "it is in the client sandbox",
                |caller| caller.layer = Layer::Client,
                |rule| rule.sandbox = None,
            ),
            (
                "the agent's own process is not among its parents",
                |caller| caller.descends_from_agent = false,
                |rule| rule.from_agent = false,
            ),
            (
                "it does not run the agent's own program",
                |caller| caller.program.file.inode = 3,
                any,
            ),
            (
                "it does not run the agent's own program",
                |caller| caller.program.file.device = 3,
                any,
            ),
            (
                "the agent's program is not the one that was checked any more",
                |caller| caller.program.sha256 = "abd".into(),
                any,
            ),
            (
                "it has code of /ws/lib\\u{1b}.so in it",
                |caller| caller.foreign_code = Some(b"/ws/lib\x1b.so".to_vec()),
                any,
            ),
        ];
        for (why, change, without_demand) in cases {
            let (mut caller, mut rule) = (caller(), strict());
            change(&mut caller);
            assert_eq!(fits(&rule, &caller, &agent()), Err(why.to_owned()));
            without_demand(&mut rule);
            assert_eq!(fits(&rule, &caller, &agent()), Ok(()), "control: {why}");
        }
    }

    #[test]
    fn an_agent_that_could_not_be_hashed_is_nobody() {
        let unknown = AgentProgram { sha256: None, ..agent() };
        assert!(fits(&strict(), &caller(), &unknown).is_err());
    }

    #[test]
    fn one_rule_that_fits_is_enough_and_none_is_not() {
        let allow = |rules: &[GateRule], kind| {
            allow(rules, &caller(), kind, &agent()).map_err(|refusal| (refusal.code, refusal.why))
        };
        let other = GateRule { sandbox: Some(Sandbox::Client), ..strict() };
        assert_eq!(allow(&[other.clone(), strict()], RequestKind::Herdr), Ok(()));
        let refused = |why: &str| Err(("not-allowed", why.to_owned()));
        assert_eq!(allow(&[other], RequestKind::Herdr), refused("it is in the server sandbox"));
        let nobody = refused("no rule in the agent's file lets anybody here ask for that");
        assert_eq!(allow(&[strict()], RequestKind::Notify), nobody);
        assert_eq!(allow(&[], RequestKind::Herdr), nobody);
    }
}
