//! proto
use paddock_test::host::{Host, LIMIT, wait_for};
use paddock_test::model::{ModelServer, Turn};

#[test]
fn proto() {
    let host = Host::new();
    let script = vec![
        Turn::Shell(std::env::var("PROTO").unwrap_or(
            "pwd; env; touch made; ls -la ~ /tmp; grep -E 'NoNew|Seccomp' /proc/self/status".into(),
        )),
        Turn::Say("all done".into()),
    ];
    let model = ModelServer::start(script).unwrap();
    let port = model.port();
    let codex = std::env::var("PADDOCK_TEST_CODEX").unwrap();
    host.configure(&format!("[egress]\nhosts = [\"model.test:{port}\", \"10.9.8.7:80\"]\nexceptions = {{ \"model.test\" = \"127.0.0.1\" }}\n[agents.codex]\nprogram = \"{codex}\"\n"));
    let server = host.agent_home("codex", "server").join(".codex");
    {
        use std::os::unix::fs::DirBuilderExt;
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&server).unwrap();
    }
    let ws = host.workspace();
    std::fs::write(
        server.join("config.toml"),
        format!(
            r#"
model = "fake-1"
model_provider = "fake"
approval_policy = "never"
sandbox_mode = "danger-full-access"
check_for_update_on_startup = false
[analytics]
enabled = false
[features]
plugins = false
apps = false
remote_plugin = false
[model_providers.fake]
name = "Fake"
base_url = "http://model.test:{port}/v1"
wire_api = "responses"
stream_max_retries = 0
request_max_retries = 0
[projects."{}"]
trust_level = "trusted"
"#,
            ws.display()
        ),
    )
    .unwrap();
    let mut command = host.paddock();
    command
        .args([
            "run",
            "codex",
            "--tier",
            &std::env::var("TIER").unwrap_or("sealed".into()),
            "--workspace",
        ])
        .arg(&ws)
        .args(["--", "exec", "--json", "run the tool"]);
    let t = std::time::Instant::now();
    let launch = host.start(command);
    println!("running after {:?}", t.elapsed());
    let (code, v) = launch.verify();
    println!("verify {code:?} {}", v["tasks"].as_array().map_or(0, Vec::len));
    let _ = wait_for(LIMIT, || model.requests().len().ge(&2).then_some(()));
    println!("requests {} after {:?}", model.requests().len(), t.elapsed());
    let (code, v) = launch.verify();
    println!("verify {code:?} {v:#}");
    let run = launch.end();
    println!("end after {:?}", t.elapsed());
    println!("{:?}\n{}\n{}", run.code(), run.stdout, run.stderr);
    for l in host.ledger() {
        println!("{l}");
    }
    for r in host.records() {
        let id = r["launch"].as_str().unwrap();
        println!(
            "LOG {}",
            std::fs::read_to_string(host.launches().join(id).join("layers.log"))
                .unwrap_or_default()
        );
    }
    if let Some(r) = model.requests().last() {
        println!("{:#}", r["input"]);
    }
    let out =
        std::process::Command::new("find").arg(host.home()).arg(host.workspace()).output().unwrap();
    println!("{}", String::from_utf8_lossy(&out.stdout));
    host.assert_nothing_left();
}

#[test]
fn tui() {
    use paddock_test::terminal::Terminal;
    let host = Host::new();
    let script = vec![
        Turn::Shell("touch made".into()),
        Turn::Say("all done".into()),
    ];
    let model = ModelServer::start(script).unwrap();
    let port = model.port();
    let codex = std::env::var("PADDOCK_TEST_CODEX").unwrap();
    host.configure(&format!("[egress]\nhosts = [\"model.test:{port}\", \"10.9.8.7:80\"]\nexceptions = {{ \"model.test\" = \"127.0.0.1\" }}\n[agents.codex]\nprogram = \"{codex}\"\n"));
    use std::os::unix::fs::DirBuilderExt;
    let server = host.agent_home("codex", "server").join(".codex");
    let client = host.agent_home("codex", "client").join(".codex");
    for d in [&server, &client] {
     std::fs::DirBuilder::new().recursive(true).mode(0o700).create(d).unwrap(); }
    let ws = host.workspace();
    let common = r#"
approval_policy = "never"
sandbox_mode = "danger-full-access"
check_for_update_on_startup = false
"#;
    let features = r#"
[analytics]
enabled = false
[features]
plugins = false
apps = false
remote_plugin = false
"#;
    std::fs::write(server.join("config.toml"), format!(r#"
model = "fake-1"
model_provider = "fake"
{common}{features}
[model_providers.fake]
name = "Fake"
base_url = "http://model.test:{port}/v1"
wire_api = "responses"
stream_max_retries = 0
request_max_retries = 0
[projects."{}"]
trust_level = "trusted"
"#, ws.display())).unwrap();
    std::fs::write(client.join("config.toml"), format!("disable_paste_burst = true\n{common}{features}")).unwrap();
    let terminal = Terminal::open();
    let mut command = std::process::Command::new("setsid");
    command.arg("--ctty").arg(paddock_test::host::paddock());
    host.dress(&mut command);
    command.args(["run", "codex", "--workspace"]).arg(&ws).args(["--", "run the tool"]);
    terminal.attach(&mut command);
    let before = terminal.settings();
    let t = std::time::Instant::now();
    let mut child = command.spawn().unwrap();
    let mut last = String::new();
    let mut quit = false;
    let r = wait_for(std::time::Duration::from_secs(25), || {
        let text = terminal.text();
        if text != last { println!("=== {:?}\n{text}", t.elapsed()); last = text.clone(); }
        if text.contains("all done") && !quit { quit = true; terminal.send("/quit"); std::thread::sleep(std::time::Duration::from_millis(300)); terminal.send("\r"); }
        child.try_wait().unwrap()
    });
    println!("{r:?} {:?}", t.elapsed());
    if r.is_none() { host.run(&["stop"]); child.wait().unwrap(); }
    println!("{before:?}\n{:?}\n{:?}", terminal.settings(), terminal.left_on());
    for l in host.ledger() { if l["event"] != "start" { println!("{l}");} }
    println!("requests {}", model.requests().len());
    for r in model.requests() { println!("R {} tools {}", r["input"].as_array().map_or(0, Vec::len), r["tools"]); }
    for r in host.records() {
        let id = r["launch"].as_str().unwrap();
        println!("LOG {}", std::fs::read_to_string(host.launches().join(id).join("layers.log")).unwrap_or_default());
    }
    println!("{}", String::from_utf8_lossy(&std::process::Command::new("find").arg(host.agent_home("codex","client")).arg(host.workspace()).output().unwrap().stdout));
    host.assert_nothing_left();
}
