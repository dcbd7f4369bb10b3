//! What package managers keep stays in the agent's home for its next launch, until a
//! person frees it.

use std::time::Duration;

use paddock_test::host::{Host, standin_file, wait_for};
use paddock_test::registry::{NAME, Registry};
use serde_json::Value;

use crate::is_there;

fn host(registry: &Registry) -> Host {
    let host = Host::new();
    host.configure(&format!(
        "[egress]\nhosts = [\"{NAME}:{}\"]\nexceptions = {{ \"{NAME}\" = \"127.0.0.1\" }}\n",
        registry.port()
    ));
    std::fs::write(host.workspace().join("ca.pem"), registry.authority()).unwrap();
    host
}

/// Installs in two launches, and gives how often the package itself was fetched.
fn fetched(host: &Host, registry: &Registry, command: &str, package: &str) -> usize {
    for _ in 0..2 {
        let base = format!("https://{NAME}:{}", registry.port());
        let run = host.standin(&[&format!("export CA=$PWD/ca.pem BASE={base}\n{command}")]);
        assert_eq!(run.code(), Some(0), "{} {}", run.stdout, run.stderr);
    }
    registry.requests().iter().filter(|request| request.contains(package)).count()
}

#[test]
fn npm_runs_build_scripts_and_finds_its_cache_in_the_next_launch() {
    if !is_there("npm") {
        return;
    }
    let registry = Registry::start();
    registry.add_npm_package();
    let host = host(&registry);
    let install = "rm -rf node_modules package-lock.json\n\
        echo '{\"scripts\":{\"postinstall\":\"echo built >>built.txt\"},\"dependencies\":{\"tiny\":\"1.0.0\"}}' \
            >package.json\n\
        npm install --cafile=$CA --registry=$BASE/npm/ --no-audit --no-fund --no-update-notifier\n\
        cat node_modules/tiny/index.js >/dev/null";
    assert_eq!(
        fetched(&host, &registry, install, "tiny-1.0.0.tgz"),
        1,
        "{:?}",
        registry.requests()
    );
    let built = std::fs::read_to_string(host.workspace().join("built.txt")).unwrap();
    assert_eq!(built, "built\nbuilt\n");
    assert!(host.agent_home("standin", "server").join(".npm/_cacache").is_dir());
    assert!(!host.home().join(".npm").exists(), "the person's home has nothing of it");
}

#[test]
fn a_person_frees_caches_and_not_those_of_a_launch_that_lives() {
    let host = Host::new();
    // As npm and Go leave them: directories that may not be written.
    let fill = "mkdir -p ~/.npm/_cacache/x ~/go/pkg/mod/a@v1 ~/.config && \
        head -c 50000 /dev/zero >~/.npm/_cacache/x/y && echo >~/go/pkg/mod/a@v1/b && \
        chmod 500 ~/go/pkg/mod/a@v1 && ln -s ~/.config ~/.cache && echo kept >~/.config/z";
    let run = host.standin(&[fill]);
    assert_eq!(run.code(), Some(0), "{}", run.stderr);
    let home = host.agent_home("standin", "server");
    let json = |arguments: &[&str]| {
        let run = host.run(arguments);
        let value: Value = serde_json::from_str(&run.stdout).expect(&run.stderr);
        (run.code(), value)
    };
    let (code, told) = json(&["prune", "--caches", "--dry-run", "--json"]);
    let caches = told["caches"].as_array().unwrap();
    // A link is no cache.
    let paths: Vec<_> = caches.iter().map(|cache| cache["path"].as_str().unwrap()).collect();
    let wanted = [home.join(".npm/_cacache"), home.join("go/pkg/mod")];
    assert_eq!((code, paths), (Some(0), wanted.iter().map(|p| p.to_str().unwrap()).collect()));
    assert!(caches[0]["bytes"].as_u64().unwrap() >= 50_000, "{told:#}");

    let launch = host.start(host.standin_command(&["sleep 60"]));
    let (code, told) = json(&["prune", "--caches", "standin", "--yes", "--json"]);
    assert_eq!((code, &told["caches"][0]["outcome"]), (Some(125), &"running".into()));
    assert_eq!(told["caches"][0]["next"], format!("paddock stop {}", launch.id));
    assert!(home.join(".npm/_cacache/x/y").exists());
    launch.terminate();

    // A home can have another name than the agent is called by.
    host.add_agent("mine", &standin_file("theirs"));
    let text = "mkdir -p ~/.npm/_cacache/x; sleep 60";
    let launch = host.start(host.agent_command("mine", &[], &[text]));
    let cache = host.agent_home("theirs", "server").join(".npm/_cacache/x");
    wait_for(Duration::from_secs(20), || cache.exists().then_some(())).expect("the cache");
    let (code, told) = json(&["prune", "--caches", "theirs", "--yes", "--json"]);
    assert_eq!((code, &told["caches"][0]["outcome"]), (Some(125), &"running".into()), "{told:#}");
    assert_eq!(told["caches"][0]["next"], format!("paddock stop {}", launch.id));
    launch.terminate();

    let unasked = host.run(&["prune", "--caches"]);
    assert_eq!(unasked.code(), Some(125));
    assert!(unasked.stderr.contains("say --yes"), "{}", unasked.stderr);
    let freed = host.run(&["prune", "--caches", "--yes"]);
    assert_eq!(freed.code(), Some(0), "{}", freed.stderr);
    assert!(freed.stdout.contains(" freed"), "{}", freed.stdout);
    assert!(!home.join(".npm/_cacache").exists() && !home.join("go/pkg/mod").exists());
    assert!(home.join(".config/z").exists(), "what a link led to is there");
    let none = host.run(&["prune", "--caches", "--dry-run"]);
    assert_eq!(none.stdout, "no agent has caches\n");
    let unknown = host.run(&["prune", "--caches", "codx", "--dry-run"]);
    assert!(unknown.stderr.contains("no private home of an agent \"codx\""), "{}", unknown.stderr);
}
