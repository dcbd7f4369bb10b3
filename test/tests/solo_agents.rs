//! Real agents of one process under the whole stack: goose, Copilot CLI, Qwen Code and Gemini
//! CLI each answer one prompt, in one sandbox in the pen.

// What a helper needs and does not find fails the test that uses it.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::process::Command;

use paddock_test::agent::{AgentHost, LAST_WORDS, PATIENCE};
use paddock_test::host::{TIERS, wait_for};

/// An agent, and how it is told to use the model and to ask nobody.
struct Agent {
    name: &'static str,
    /// Set for `paddock run`; `{model}` stands for the model's address.
    variables: &'static [(&'static str, &'static str)],
    /// The agent's own arguments, before the prompt.
    arguments: &'static [&'static str],
}

const GOOSE: Agent = Agent {
    name: "goose",
    variables: &[
        ("GOOSE_PROVIDER", "openai"),
        ("GOOSE_MODEL", "fake-1"),
        ("GOOSE_MODE", "auto"),
        ("OPENAI_HOST", "{model}"),
        ("OPENAI_API_KEY", "k"),
    ],
    arguments: &["run", "--with-builtin", "developer", "--text"],
};

const COPILOT: Agent = Agent {
    name: "copilot",
    variables: &[
        ("COPILOT_OFFLINE", "true"),
        ("COPILOT_MODEL", "fake-1"),
        ("COPILOT_PROVIDER_BASE_URL", "{model}/v1"),
        ("COPILOT_PROVIDER_API_KEY", "k"),
    ],
    arguments: &["--allow-all-tools", "--prompt"],
};

const QWEN: Agent = Agent {
    name: "qwen",
    variables: &[
        ("OPENAI_MODEL", "fake-1"),
        ("OPENAI_BASE_URL", "{model}/v1"),
        ("OPENAI_API_KEY", "k"),
    ],
    arguments: &["--auth-type", "openai", "--yolo", "--prompt"],
};

const GEMINI: Agent = Agent {
    name: "gemini",
    variables: &[
        ("GEMINI_MODEL", "fake-1"),
        ("GOOGLE_GEMINI_BASE_URL", "{model}"),
        ("GEMINI_API_KEY", "k"),
    ],
    arguments: &["--skip-trust", "--yolo", "--prompt"],
};

impl Agent {
    /// On a host, with its model. `None` where it is not installed, or slow tests are not
    /// asked for.
    fn set_up(&self, set_up: impl FnOnce(&'static str) -> Option<AgentHost>) -> Option<AgentHost> {
        if std::env::var_os("PADDOCK_TEST_ALL").is_none() {
            // Not asked for, which is no fault of the machine's.
            println!("SKIPPED: it is slow; scripts/test.sh --all runs it");
            return None;
        }
        let mut agent = set_up(self.name)?;
        let model = agent.model_url();
        for (name, value) in self.variables {
            agent.host.set(name, value.replace("{model}", &model));
        }
        Some(agent)
    }

    fn run(&self, agent: &AgentHost, tier: &str) -> Command {
        let mut command = agent.run(agent.host.paddock(), tier);
        command.arg("--").args(self.arguments).arg("Run the tool.");
        command
    }

    /// One prompt in every tier: the tool is confined from its first instruction to its end.
    fn answers_confined(&self) {
        for tier in TIERS {
            let Some(agent) = self.set_up(AgentHost::two_calls) else { return };
            let mut launch = agent.host.start(self.run(&agent, tier));
            agent.verify_to_the_end(&mut launch, || {});
            let run = launch.end();
            assert_eq!(run.code(), Some(0), "{tier}: {run:#?}");
            assert!(run.stdout.contains(LAST_WORDS), "{tier}: {run:#?}");
            agent.assert_tool_was_confined();
            agent.assert_ledger_is_clean();
            agent.assert_only_allowed_changes();
        }
    }

    /// A stop in the middle of a turn, in every tier.
    fn leaves_nothing_when_stopped(&self) {
        // The tool's own children leave its session, and one of them its parent.
        let tool = "(setsid sleep 4711 &) ; setsid sleep 4712 & touch made-by-tool ; sleep 4713";
        for tier in TIERS {
            let tool = |name| {
                let agent = AgentHost::new(name, &["bash ./sleepers.sh"])?;
                std::fs::write(agent.host.workspace().join("sleepers.sh"), tool).unwrap();
                Some(agent)
            };
            let Some(agent) = self.set_up(tool) else { return };
            let launch = agent.host.start(self.run(&agent, tier));
            let sleepers = || {
                let processes = agent.host.processes();
                let is_sleeper = |(_, command): &&(i32, String)| command.starts_with("sleep 471");
                processes.iter().filter(is_sleeper).count()
            };
            let up = wait_for(PATIENCE, || (sleepers() == 3).then_some(()));
            assert!(
                up.is_some(),
                "{tier}: {:?} {:?}",
                agent.host.processes(),
                agent.model.requests()
            );
            let (status, report) = launch.verify();
            assert_eq!(status, Some(0), "{tier}: {report:#}");
            let run = launch.terminate();
            assert_eq!(run.code(), Some(143), "{tier}: {run:#?}");
            let stop = agent.host.ledger().pop().unwrap();
            assert_eq!((&stop["event"], &stop["survivors"]), (&"stop".into(), &0.into()), "{stop}");
            agent.host.assert_nothing_left();
        }
    }
}

#[test]
fn goose_answers_confined() {
    GOOSE.answers_confined();
}

#[test]
fn goose_leaves_nothing_when_it_is_stopped() {
    GOOSE.leaves_nothing_when_stopped();
}

#[test]
fn copilot_answers_confined() {
    COPILOT.answers_confined();
}

#[test]
fn copilot_leaves_nothing_when_it_is_stopped() {
    COPILOT.leaves_nothing_when_stopped();
}

#[test]
fn qwen_code_answers_confined() {
    QWEN.answers_confined();
}

#[test]
fn qwen_code_leaves_nothing_when_it_is_stopped() {
    QWEN.leaves_nothing_when_stopped();
}

#[test]
fn gemini_cli_answers_confined() {
    GEMINI.answers_confined();
}

#[test]
fn gemini_cli_leaves_nothing_when_it_is_stopped() {
    GEMINI.leaves_nothing_when_stopped();
}
