//! A client in a launch, and what it has to show there.

use std::path::{Path, PathBuf};
use std::process::Command;

use paddock_test::host::{Host, finish, skip};
use paddock_test::registry::{NAME, Registry};

/// The tiers that differ in what a client is told: in `ported` the guard wants a secret.
pub(crate) const TIERS: [&str; 2] = ["sealed", "ported"];

/// A name that no launch here is granted.
const REFUSED: &str = "refused.test";

/// Longer than a refusal may take, in milliseconds.
const TOO_LONG: u64 = 30_000;

/// What a client is, and what it does when all is well.
pub(crate) struct Fetch<'a> {
    /// Shell commands that fetch from `$BASE` (`scheme://name:port`), with `$CA` the
    /// file of the certificate to trust, and print `fetched`.
    pub(crate) command: &'a str,
    /// What then arrives at the server over either scheme: `METHOD TARGET STATUS`.
    pub(crate) requests: &'a [&'a str],
    /// What a refused name has it print.
    pub(crate) refusal: &'a str,
    /// How often at most it asks for a name that is refused.
    pub(crate) tries: usize,
}

/// Runs each attempt in a directory of its own, with a home of its own: nothing
/// that one cached does for the next.
const ATTEMPTS: &str = r#"
attempt() {
    mkdir -p "$1/home" && cd "$1" || exit
    before=$(date +%s%N)
    HOME=$PWD/home BASE=$2 timeout 40 sh -euc "$COMMAND" >out 2>err
    echo "$? $((($(date +%s%N) - before) / 1000000))" >ended
    cd ..
}
attempt http "http://$GRANTED"
attempt https "https://$GRANTED"
attempt refused "https://$REFUSED"
for name in $(env | sed -n 's/^\([A-Za-z_]*PROXY\|[a-z_]*proxy\|JAVA_TOOL_OPTIONS\)=.*/\1/p'); do
    unset "$name"
done
attempt control "https://$GRANTED"
"#;

/// How one attempt ended.
struct Attempt {
    status: i32,
    milliseconds: u64,
    text: String,
}

impl Attempt {
    fn read(directory: &Path) -> Self {
        let read = |name: &str| {
            let bytes = std::fs::read(directory.join(name)).unwrap_or_default();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        let ended = read("ended");
        let mut numbers = ended.split_whitespace();
        Self {
            status: numbers.next().and_then(|word| word.parse().ok()).expect("it was made"),
            milliseconds: numbers.next().and_then(|word| word.parse().ok()).expect("its time"),
            text: format!("{}\n{}", read("out"), read("err")),
        }
    }
}

impl Fetch<'_> {
    /// Fetches over either scheme, from a name that is refused, and without being
    /// told of the guard; `read` are directories that the client's own files are in.
    pub(crate) fn try_from(&self, registry: &Registry, read: &[PathBuf]) {
        for tier in TIERS {
            self.try_in(tier, registry, read);
        }
    }

    /// The same in one tier.
    pub(crate) fn try_in(&self, tier: &str, registry: &Registry, read: &[PathBuf]) {
        let before = registry.requests().len();
        let host = Host::new();
        let port = registry.port();
        let read: Vec<_> =
            read.iter().map(|path| format!("{:?}", path.to_str().unwrap())).collect();
        host.configure(&format!(
            "[egress]\nhosts = [\"{NAME}:{port}\"]\nexceptions = {{ \"{NAME}\" = \"127.0.0.1\" }}\n\
             [agents.standin]\nread = [{}]\n",
            read.join(", ")
        ));
        let ca = host.workspace().join("ca.pem");
        std::fs::write(&ca, registry.authority()).unwrap();
        std::fs::write(host.workspace().join("command"), self.command).unwrap();
        let script = format!(
            "export CA={} COMMAND=\"$(cat command)\" GRANTED={NAME}:{port} REFUSED={REFUSED}:{port}\n\
             {ATTEMPTS}",
            ca.display()
        );
        let run = finish(host.agent_command("standin", &["--tier", tier], &[&script]));
        assert_eq!(run.code(), Some(0), "{tier}: {}", run.stderr);
        let attempt = |name: &str| Attempt::read(&host.workspace().join(name));

        for scheme in ["http", "https"] {
            let one = attempt(scheme);
            let is_done = one.status == 0 && one.text.contains("fetched");
            assert!(is_done, "{tier}, {scheme}: {}, {}", one.status, one.text);
        }
        let refused = attempt("refused");
        assert_ne!(refused.status, 0, "{tier}: {}", refused.text);
        assert!(refused.milliseconds < TOO_LONG, "{tier}: {} ms", refused.milliseconds);
        assert!(refused.text.contains(self.refusal), "{tier}: {}", refused.text);
        let decided = host.ledger();
        let decided = decided
            .iter()
            .map(|entry| &entry["egress"])
            .filter(|egress| egress["host"] == REFUSED && egress["reason"] == "host-not-allowed");
        let tries = decided.count();
        let text = &refused.text;
        assert!((1..=self.tries).contains(&tries), "{tier}: asked {tries} times: {text}");

        println!("{tier}: refused after {} ms, asked {tries} times", refused.milliseconds);

        let control = attempt("control");
        assert_ne!(control.status, 0, "{tier}: {}", control.text);
        let mut seen = registry.requests().split_off(before);
        seen.sort();
        let mut wanted: Vec<_> = ["http", "https"]
            .iter()
            .flat_map(|scheme| self.requests.iter().map(move |one| format!("{scheme} {one}")))
            .collect();
        wanted.sort();
        assert_eq!(seen, wanted, "{tier}: each once, and none of who is not told of the guard");
    }
}

/// Whether `program` is in the search path that agents have; those that every
/// machine of a test can have must be.
pub(crate) fn is_there(program: &str, must_be: bool) -> bool {
    let path = "/usr/local/bin:/usr/bin:/bin";
    let there = path.split(':').any(|directory| Path::new(directory).join(program).is_file());
    if !there {
        missing(&format!("{program} is not installed"), must_be);
    }
    there
}

/// Says why a test cannot run here; fails it where it has to.
pub(crate) fn missing(reason: &str, must_be: bool) {
    if must_be {
        skip(reason);
    } else {
        println!("SKIPPED: {reason}");
    }
}

/// What scripts/install-clients.sh installed, where the file `needed` is in it.
pub(crate) fn installed(needed: &str, must_be: bool) -> Option<PathBuf> {
    let directory = std::env::var_os("PADDOCK_TEST_CLIENTS").map(PathBuf::from);
    let directory = directory.filter(|directory| directory.join(needed).is_file());
    if directory.is_none() {
        missing(&format!("scripts/install-clients.sh has not installed {needed}"), must_be);
    }
    directory
}

/// Whether this node has its clients use the proxy of the environment: since 24.0 and
/// 22.21 (`NODE_USE_ENV_PROXY`, Node.js command-line options).
pub(crate) fn node_uses_environment(node: &Path) -> bool {
    let mut command = Command::new(node);
    let supported =
        "process.exit(process.allowedNodeEnvironmentFlags.has('--use-env-proxy') ? 0 : 1)";
    command.args(["-e", supported]);
    finish(command).code() == Some(0)
}
