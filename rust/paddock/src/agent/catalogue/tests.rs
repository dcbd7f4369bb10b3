use super::*;

fn parse(text: &str, path: &Path) -> Result<AgentFile, Error> {
    toml::from_str(text)
        .map_err(|e| Error::AgentFile { path: path.to_owned(), reason: e.to_string() })
}

#[test]
fn every_shipped_agent_parses_and_bears_its_name() {
    for shipped in SHIPPED {
        let agent = load(shipped.name, Path::new("/nonexistent")).unwrap();
        assert_eq!(agent.file.name, shipped.name);
        for (_, text) in agent.profiles.all() {
            serde_json::from_str::<serde_json::Value>(text).unwrap();
        }
        let has_client = agent.file.pair.is_some();
        assert_eq!(shipped.file("client.json").is_some(), has_client, "{}", shipped.name);
        assert_eq!(agent.profiles.all().count(), 2 + usize::from(has_client));
    }
}

/// nono's own list has `/dev/pts`: whoever may read a terminal there takes
/// what is typed.
#[test]
fn every_shipped_policy_reads_the_same_of_the_system_and_no_terminal() {
    let policy = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
    let wanted = policy(PEN)["filesystem"]["read"].clone();
    assert!(wanted.as_array().unwrap().len() > 10);
    for shipped in SHIPPED {
        let name = shipped.name;
        let own = || ["server.json", "client.json"].into_iter().filter_map(|f| shipped.file(f));
        for text in [PEN].into_iter().chain(own()) {
            let policy = policy(text);
            assert_eq!(policy["filesystem"]["read"], wanted, "{name}");
            let excluded = policy["groups"]["exclude"].as_array().unwrap().clone();
            assert!(excluded.contains(&"system_read_linux_core".into()), "{name}");
        }
        for text in own() {
            assert!(!text.contains("/dev/pts") && !text.contains("ptmx"), "{name}");
        }
    }
}

#[test]
fn an_unknown_key_is_refused() {
    let shipped = SHIPPED[0].file("agent.toml").unwrap();
    assert!(parse(shipped, Path::new("x")).is_ok(), "control");
    assert!(parse(&format!("readonly = true\n{shipped}"), Path::new("x")).is_err());
}

#[test]
fn an_agent_is_a_pair_or_solo_or_both_and_no_part_of_a_pair() {
    let head = "name = \"x\"\ntitle = \"x\"\nprogram.names = [\"x\"]\n";
    let (link, server) = ("link.kind = \"unix\"\n", "[server]\nargv = [\"s\"]\n");
    let (client, solo) = ("[client]\nargv = [\"c\"]\n", "[solo]\nargv = [\"o\"]\n");
    let of = |parts: &[&str]| parse(&[&[head], parts].concat().concat(), Path::new("x"));
    let forms = |file: AgentFile| (file.pair.is_some(), file.solo.is_some());
    assert_eq!(forms(of(&[link, server, client]).unwrap()), (true, false));
    assert_eq!(forms(of(&[solo]).unwrap()), (false, true));
    let both = of(&[link, server, client, solo]).unwrap();
    assert_eq!(both.under_server_policy().unwrap().argv, ["s"]);
    assert_eq!(forms(both), (true, true));
    let resume = "resume = [\"r\"]\n";
    assert!(of(&[solo, resume]).unwrap().solo.unwrap().resume.is_some());
    let (ready, over_a_port) = ("link.ready = \"/health\"\n", "link.kind = \"tcp\"\n");
    let pair = of(&[over_a_port, ready, server, client]).unwrap().pair.unwrap();
    assert_eq!(pair.link.ready.as_deref(), Some("/health"));
    let without = "without-git = [\"run\"]\n";
    assert!(of(&[link, server, client, solo, without]).is_ok());
    for (parts, reason) in [
        (&[link, ready, server, client][..], "kind = \"tcp\""),
        (&[over_a_port, "link.ready = \"health\"\n", server, client][..], "no path"),
        (&[over_a_port, "link.ready = \"/a b\"\n", server, client][..], "no path"),
        (&[over_a_port, "link.ready = \"/a\\r\\nB: c\"\n", server, client][..], "no path"),
        (&[link, server, client, without][..], "without-git is for"),
        (&[solo, without][..], "without-git is for"),
        (&[][..], "neither"),
        (&[link][..], "[server] and [client] is missing"),
        (&[server, client][..], "[link] is missing"),
        (&[link, server, solo][..], "[client] is missing"),
        (&[link, server, resume, client][..], "[client] or [solo]"),
    ] {
        let error = of(parts).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }
}

#[test]
fn a_name_cannot_be_a_path() {
    for name in ["../codex", "a/b", "", ".", "Codex"] {
        assert!(matches!(load(name, Path::new("/nonexistent")), Err(Error::AgentUnknown { .. })));
    }
}

/// Own agents below a directory, each with its text and its policies.
fn own(agents: &[(&str, &str, &[&str])]) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for (name, text, policies) in agents {
        let directory = root.path().join(name);
        std::fs::create_dir(&directory).unwrap();
        std::fs::write(directory.join("agent.toml"), text).unwrap();
        for policy in *policies {
            let text = format!(r#"{{ "meta": {{ "name": "{name}" }} }}"#);
            std::fs::write(directory.join(policy), text).unwrap();
        }
    }
    root
}

#[test]
fn an_agent_extends_another_with_its_policies() {
    let root = own(&[
        ("mine", "extends = \"codex\"\nhosts = [\"model.test\"]\n", &["client.json"]),
        ("mine-too", "extends = \"mine\"\ntitle = \"two\"\n[server]\npass = []\n", &[]),
        ("codex", "extends = \"codex\"\ntitle = \"of my own\"\n", &[]),
    ]);
    let shipped = load("codex", Path::new("/nonexistent")).unwrap();
    let load = |name| load(name, root.path()).unwrap();
    let mine = load("mine-too");
    assert_eq!((mine.called(), mine.file.name.as_str()), ("mine-too", "mine-too"));
    assert_eq!(
        (mine.file.title.as_str(), &mine.file.hosts[..]),
        ("two", &["model.test".into()][..])
    );
    let halves = |agent: &Agent| {
        let pair = agent.file.pair.clone().unwrap();
        (pair.server, pair.client)
    };
    assert_eq!(halves(&mine).0.argv, halves(&shipped).0.argv);
    assert_eq!(halves(&mine).0.pass, Vec::<String>::new());
    assert_eq!(halves(&mine).1.when, halves(&shipped).1.when);
    assert_eq!(mine.profiles.server, shipped.profiles.server);
    assert!(mine.profiles.client.as_ref().unwrap().contains("\"mine\""));
    let of = |agent: &Agent| agent.shipped.iter().map(|(f, _)| f.clone()).collect::<Vec<_>>();
    assert_eq!(of(&mine), ["codex/agent.toml", "codex/server.json"], "no client.json of it");
    let codex = load("codex");
    assert_eq!((codex.file.title.as_str(), codex.source.is_some()), ("of my own", true));
    assert_eq!(load("mine").extends().len(), 2, "the own codex, and the shipped one");
    assert!(mine.adapter.contains("app-server") && mine.adapter.contains("model.test"));
}

#[test]
fn a_circle_and_a_gap_are_refused() {
    let pair = "link.kind = \"tcp\"\nserver.argv = []\nclient.argv = []\n";
    let root = own(&[
        ("a", "extends = \"b\"\n", &[]),
        ("b", "extends = \"a\"\n", &[]),
        ("c", "extends = \"c\"\n", &[]),
        ("d", "extends = \"../a\"\n", &[]),
        ("e", "solo.argv = []\ntitle = \"e\"\nprogram.names = [\"e\"]\n", &[]),
        ("f", "extends = \"codex\"\nhosst = []\n", &[]),
        ("g", &format!("extends = \"goose\"\n{pair}"), &[]),
    ]);
    for (name, reason) in [
        ("a", "a circle"),
        ("c", "which there is not"),
        ("d", "which there is not"),
        ("e", "server.json"),
        ("f", "hosst"),
        ("g", "client.json"),
    ] {
        let refused = load(name, root.path()).unwrap_err().to_string();
        assert!(refused.contains(reason), "{name}: {refused}");
    }
}

#[test]
fn what_only_one_half_can_have_is_said_of_that_half() {
    let head = "name = \"x\"\ntitle = \"x\"\nprogram.names = [\"x\"]\n";
    let own = "link.kind = \"own\"\nlink.at = \"/tmp/x/s\"\n";
    let (server, client) = ("[server]\nargv = [\"s\"]\n", "[client]\nargv = [\"c\"]\n");
    let (solo, home) = ("[solo]\nargv = [\"o\"]\n", "home = \"server\"\n");
    let instead = "instead-for = [\"-p\"]\n";
    let of = |parts: &[&str]| parse(&[&[head], parts].concat().concat(), Path::new("x"));
    let whole = of(&[own, server, client, home, solo, instead]).unwrap();
    assert_eq!(whole.pair.unwrap().client.home, Some(crate::agent::HomeOf::Server));
    for (parts, reason) in [
        (&["link.kind = \"own\"\n", server, client][..], "[link] of kind"),
        (&["link.kind = \"tcp\"\nlink.at = \"/tmp/x/s\"\n", server, client], "[link] of kind"),
        (&[own, server, home, client], "of a [client]"),
        (&[solo, home], "of a [client]"),
        (&[own, server, client, instead], "[solo] beside a pair"),
        (&[own, server, instead, client], "[solo] beside a pair"),
        (&[solo, instead], "[solo] beside a pair"),
    ] {
        let error = of(parts).unwrap_err().to_string();
        assert!(error.contains(reason), "{parts:?}: {error}");
    }
}
