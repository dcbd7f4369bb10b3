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
