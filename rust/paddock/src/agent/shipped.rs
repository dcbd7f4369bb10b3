//! The agents that are compiled in: what is in `profiles/`.

/// The pen's policy; the same for every agent.
pub(super) const PEN: &str = include_str!("../../../../profiles/pen.json");

/// The agent that there is without anything being installed.
pub(crate) const STANDIN: &str = "standin";

/// One agent.
pub(super) struct Shipped {
    pub(super) name: &'static str,
    adapter: &'static str,
    server: &'static str,
    /// Of an agent that has a client.
    client: Option<&'static str>,
}

/// The one with the files in its directory.
macro_rules! shipped {
    ($name:literal) => {
        Shipped {
            name: $name,
            adapter: include_str!(concat!("../../../../profiles/", $name, "/agent.toml")),
            server: include_str!(concat!("../../../../profiles/", $name, "/server.json")),
            client: None,
        }
    };
    ($name:literal with client) => {
        Shipped {
            client: Some(include_str!(concat!("../../../../profiles/", $name, "/client.json"))),
            ..shipped!($name)
        }
    };
}

/// All of them.
pub(super) const SHIPPED: &[Shipped] = &[
    shipped!("claude" with client),
    shipped!("codex" with client),
    shipped!("copilot"),
    shipped!("gemini"),
    shipped!("goose"),
    shipped!("opencode" with client),
    shipped!("qwen"),
    shipped!("standin" with client),
];

/// The agent `name`.
pub(super) fn find(name: &str) -> Option<&'static Shipped> {
    SHIPPED.iter().find(|shipped| shipped.name == name)
}

impl Shipped {
    /// The text of one of its files, where it has that.
    pub(super) fn file(&self, name: &str) -> Option<&'static str> {
        match name {
            "agent.toml" => Some(self.adapter),
            "server.json" => Some(self.server),
            "client.json" => self.client,
            _ => None,
        }
    }
}
