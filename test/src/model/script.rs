//! The script, and how far a conversation has come in it.

use serde_json::Value;

use super::tool::Tool;

/// What the model does when it is its turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Has the agent run this command in its shell tool. Some answer after ten seconds, with
    /// what the command has written until then.
    Shell(String),
    /// Says this, which ends the agent's turn.
    Say(String),
}

/// What a request says has happened in its conversation.
pub(super) enum Entry {
    /// A tool gave this back.
    Output(String),
    /// The model said this.
    Said(String),
}

/// What the model answers a request with.
pub(super) struct Answer {
    /// How many turns came before.
    pub(super) position: usize,
    pub(super) act: Act,
}

pub(super) enum Act {
    /// The call of a tool.
    Call { tool: String, arguments: Value },
    /// Words, which end the agent's turn.
    Say(String),
}

impl Answer {
    /// A name that no other answer of the conversation has.
    pub(super) fn id(&self, kind: &str) -> String {
        format!("{kind}_{}", self.position)
    }
}

/// The next turn of the script. Agents put words of their own into the model's mouth, so only
/// what the script has it say counts as said.
pub(super) fn next_answer(script: &[Turn], history: &[Entry], shell: Option<&Tool>) -> Answer {
    let mut position = 0;
    for entry in history {
        let is_done = match (entry, script.get(position)) {
            (Entry::Output(_), _) => true,
            (Entry::Said(said), Some(Turn::Say(text))) => said.contains(text),
            (Entry::Said(_), _) => false,
        };
        position += usize::from(is_done);
    }
    let act = match (script.get(position), shell) {
        (Some(Turn::Shell(command)), Some(tool)) => {
            Act::Call { tool: tool.name.clone(), arguments: tool.arguments(command) }
        }
        (Some(Turn::Shell(_)), None) => Act::Say("The request offers no shell tool.".into()),
        (Some(Turn::Say(text)), _) => Act::Say(text.clone()),
        (None, _) => Act::Say("The script is over.".into()),
    };
    Answer { position, act }
}
