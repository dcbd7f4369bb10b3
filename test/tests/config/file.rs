//! Which file is in force, what of it holds, and what is written into it.

use std::os::unix::fs::symlink;

use paddock_test::host::{Finished, Host, standin_file};
use serde_json::{Value, json};

use super::{assert_refused, key, own_file, plan, plugins_file, project, shown};

#[test]
fn every_value_is_shown_with_where_it_comes_from() {
    let mut host = Host::new();
    let run = host.run(&["config", "show"]);
    let first = format!("configuration  {} (there is none)\n\n", own_file(&host).display());
    assert!(run.stdout.starts_with(&first), "{}", run.stdout);
    let line = |name: &str, run: &Finished| -> String {
        let line = run.stdout.lines().find(|line| line.split(' ').next() == Some(name));
        let words = line.unwrap_or_else(|| panic!("{name}: {}", run.stdout)).split_whitespace();
        words.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(line("tier", &run), "tier \"sealed\" default");
    assert_eq!(line("programs.bwrap", &run), "programs.bwrap - default");
    let nono = std::env::var("PADDOCK_NONO").unwrap();
    assert_eq!(line("programs.nono", &run), format!("programs.nono {nono:?} PADDOCK_NONO"));
    assert!(run.stdout.ends_with("\nhosts of standin\nnone, until you grant one\n"), "{run:?}");

    host.configure(
        "agent = \"own\"\ntier = \"isolated\"\n[egress]\nhosts = [\"a.test\", \"*.b.test\"]\n\
         [agents.own]\narguments = [\"-c\"]\nhosts = [\"c.test\"]\n",
    );
    host.add_agent("own", &format!("hosts = [\"file.test\"]\n{}", standin_file("own")));
    project(
        &host,
        "# ours\ntier = \"sealed\"\n[egress]\nhosts = [\"a.test:443\"]\n\
         [agents.own]\nhosts = [\"file.test\", \"c.test\"]\n",
    );
    let run = host.run(&["config", "show"]);
    let file = own_file(&host).display().to_string();
    let ours = host.workspace().join(".paddock.toml").display().to_string();
    for (name, wanted) in [
        ("agent", format!("agent \"own\" {file}:1")),
        ("tier", format!("tier \"sealed\" {ours}:2")),
        (
            "egress.hosts",
            format!("egress.hosts [\"a.test\", \"*.b.test\"] {file}:4; fewer by {ours}:4"),
        ),
        ("agents.own.arguments", format!("agents.own.arguments [\"-c\"] {file}:6")),
        ("agents.own.unix", "agents.own.unix \"mediated\" default".into()),
        (
            "file.test",
            format!(
                "file.test reached agent file {}/.config/paddock/agents/own/agent.toml",
                host.home().display()
            ),
        ),
        ("a.test", format!("a.test reached: a.test:443 {file}:4")),
        ("*.b.test", format!("*.b.test taken away by the project file {file}:4")),
        ("c.test", format!("c.test reached {file}:7")),
    ] {
        assert_eq!(line(name, &run), wanted);
    }
    host.set("PADDOCK_BWRAP", "/x/bwrap");
    let found = shown(&host, &["standin"]);
    assert_eq!(key(&found, "agent"), (json!("own"), "file".into(), json!(1)));
    assert_eq!(key(&found, "tier"), (json!("sealed"), "project".into(), json!(2)));
    assert_eq!(key(&found, "programs.bwrap"), (json!("/x/bwrap"), "variable".into(), Value::Null));
    assert_eq!(key(&found, "agents.standin.unix").1, "default");
    assert_eq!(found["projectFile"], ours.as_str());

    let run = host.run(&["config", "path"]);
    assert_eq!(run.stdout, format!("{file}\n"));
    host.configure("tierr = 1\n");
    assert_eq!(host.run(&["config", "show"]).code(), Some(125));
}

#[test]
fn settings_for_an_agent_that_there_is_not_are_refused_if_another_was_meant() {
    let host = Host::new();
    host.configure("[agents.standn]\nunix = \"strict\"\n");
    let message = format!(
        "paddock: the configuration {} is not usable: [agents.standn]: there is no agent standn: \
         did you mean standin?\n  next: correct the file, then try again\n",
        own_file(&host).display()
    );
    assert_refused(&host, &host.standin(&["echo ran"]), &message);
    // One that a person has elsewhere.
    host.configure("[agents.elsewhere]\nunix = \"strict\"\n");
    assert_eq!(host.standin(&["echo ran"]).stdout, "ran\n");
    project(&host, "[agents.codexx]\nhosts = []\n");
    let run = host.run(&["run", "standin", "--dry-run"]);
    assert!(run.stderr.contains("there is no agent codexx: did you mean codex?"), "{run:?}");
}

#[test]
fn wherever_a_launch_starts_it_has_the_same_configuration() {
    let mut host = Host::new();
    host.configure("tier = \"isolated\"\n");
    let [own, plugins] = [own_file(&host), plugins_file(&host)];
    let in_force = |host: &Host| host.run(&["config", "path"]).stdout;
    assert_eq!(in_force(&host), format!("{}\n", own.display()));
    host.write(".config/herdr/plugins/config/paddock/config.toml", "tier = \"sealed\"\n");
    // In a terminal, and by herdr.
    assert_eq!(in_force(&host), format!("{}\n", plugins.display()));
    assert_eq!(plan(&host, "standin", &[])["tier"], "sealed");
    let run = host.standin(&["echo ran"]);
    let told = format!(
        "paddock: the configuration is {}; {} is not read\n",
        plugins.display(),
        own.display()
    );
    assert!(run.stdout == "ran\n" && run.stderr.starts_with(&told), "{run:?}");
    assert_eq!(shown(&host, &[])["unread"], own.to_str().unwrap());
    host.set("HERDR_PLUGIN_ID", "paddock");
    host.set("HERDR_PLUGIN_CONFIG_DIR", plugins.parent().unwrap());
    assert_eq!(in_force(&host), format!("{}\n", plugins.display()));
    // Where herdr says it is, if it is elsewhere.
    let elsewhere = host.write("elsewhere/config.toml", "");
    host.set("HERDR_PLUGIN_CONFIG_DIR", elsewhere.parent().unwrap());
    assert_eq!(in_force(&host), format!("{}\n", elsewhere.display()));
    // To another plugin it says another's.
    host.set("HERDR_PLUGIN_ID", "other");
    assert_eq!(in_force(&host), format!("{}\n", plugins.display()));
}

#[test]
fn what_is_granted_for_always_is_kept_in_the_file_in_force() {
    let host = Host::new();
    host.configure("# mine\n");
    let plugins = host.write(
        ".config/herdr/plugins/config/paddock/config.toml",
        "agent = \"standin\" # herdr's\n",
    );
    let launch = host.start(host.standin_command(&["sleep 60"]));
    let run = host.run(&["grant", &launch.id, "host", "a.test", "--always"]);
    assert_eq!(run.code(), Some(0), "{run:?}");
    launch.terminate();
    let kept = std::fs::read_to_string(plugins).unwrap();
    assert_eq!(kept, "agent = \"standin\" # herdr's\n\n[agents.standin]\nhosts = [\"a.test\"]\n");
    assert_eq!(std::fs::read_to_string(own_file(&host)).unwrap(), "# mine\n");
    assert_eq!(plan(&host, "standin", &[])["hosts"], json!(["a.test"]));
}

#[test]
fn what_is_kept_and_left_out_all_the_same_is_told() {
    let host = Host::new();
    let launch = host.start(host.standin_command(&["sleep 60"]));
    let grant = |name: &str| host.run(&["grant", &launch.id, "host", name, "--always"]).stdout;
    assert_eq!(grant("a.test"), "granted, for later launches of standin, too\n", "control");
    let left_out = "granted for as long as this launch lives, and kept; but later launches of \
        standin here do not have it: ";
    let file = project(&host, "egress.hosts = [\"a.test\"]\n");
    assert_eq!(grant("b.test"), format!("{left_out}{} leaves it out\n", file.display()));
    project(&host, "egress.profile = \"none\"\n");
    assert_eq!(grant("c.test"), format!("{left_out}egress.profile is \"none\"\n"));
    project(&host, "x = 1\n");
    assert!(grant("d.test").starts_with(&format!("{left_out}the project file ")));
    launch.terminate();
    let kept = std::fs::read_to_string(own_file(&host)).unwrap();
    let wanted = "hosts = [\"a.test\", \"b.test\", \"c.test\", \"d.test\"]\n";
    assert_eq!(kept, format!("[agents.standin]\n{wanted}"));
}

#[test]
fn an_agent_has_no_part_of_the_file_in_force() {
    let host = Host::new();
    host.write(".config/herdr/plugins/config/paddock/config.toml", "");
    let granted = host.home().join(".config/herdr").canonicalize().unwrap();
    host.write(
        ".config/herdr/plugins/config/paddock/config.toml",
        &format!("[grants]\nwrite = [{granted:?}]\n"),
    );
    let run = host.standin(&["echo ran"]);
    assert_eq!((run.code(), run.stdout.as_str()), (Some(125), ""), "{run:?}");
    assert!(run.stderr.contains("Paddock keeps its own things there"), "{run:?}");
    // A file that is linked into the workspace would be the agent's to write.
    std::fs::remove_file(plugins_file(&host)).unwrap();
    let target = host.workspace().join("paddock.toml");
    std::fs::write(&target, "").unwrap();
    std::fs::create_dir_all(own_file(&host).parent().unwrap()).unwrap();
    symlink(&target, own_file(&host)).unwrap();
    let run = host.standin(&["echo ran"]);
    assert_eq!((run.code(), run.stdout.as_str()), (Some(125), ""), "{run:?}");
    let wanted = format!("it overlaps Paddock's own directory {}", target.display());
    assert!(run.stderr.contains(&wanted), "{run:?}");
    std::fs::remove_file(own_file(&host)).unwrap();
    assert_eq!(host.standin(&["echo ran"]).stdout, "ran\n", "control");
}
