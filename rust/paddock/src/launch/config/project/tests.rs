use std::os::unix::fs::symlink;

use super::*;
use crate::launch::config::KEYS;

const OWN: &str = "tier = \"isolated\"\non-violation = \"warn\"\n[verify]\nevery = \"500ms\"\n\
    [egress]\nprofile = \"listed\"\nhosts = [\"a.test\", \"*.b.test:8080\", \"c.test\"]\nssh = true\n\
    [agents.codex]\nhosts = [\"d.test\"]\nunix = \"mediated\"\n";

/// The configuration, as that text of a project's file makes it.
fn tightened(own: &str, project: &str) -> Result<Config, Error> {
    let own = Config::parse(own).unwrap();
    let text = Text::parse(project)
        .map_err(|reason| Error::ProjectFile { path: PathBuf::from("/w/.paddock.toml"), reason })?;
    own.tightened(&text, Path::new("/w/.paddock.toml"), Path::new("/h/config.toml"))
}

fn refused(own: &str, project: &str) -> String {
    tightened(own, project).unwrap_err().to_string()
}

#[test]
fn what_is_tighter_holds() {
    let config = tightened(OWN, "").unwrap();
    assert_eq!((config.tier, config.verify.turns()), (Some(Tier::Isolated), 4));
    let config = tightened(
        OWN,
        "tier = \"sealed\"\non-violation = \"stop\"\nunix = \"strict\"\nverify.every = \"100ms\"\n\
         verify.descriptors-every = \"1s\"\npins.on-program-change = \"refuse\"\n\
         [egress]\nprofile = \"none\"\nssh = false\n",
    )
    .unwrap();
    for (key, value) in [
        ("tier", "sealed"),
        ("on-violation", "stop"),
        ("unix", "strict"),
        ("agents.codex.unix", "strict"),
        ("agents.other.unix", "strict"),
        ("verify.every", "100ms"),
        ("verify.descriptors-every", "1s"),
        ("pins.on-program-change", "refuse"),
        ("egress.profile", "none"),
    ] {
        assert_eq!(config.value(key).unwrap(), value, "{key}");
    }
    assert_eq!(config.value("egress.ssh").unwrap(), false);
    assert_eq!(config.hosts_of("codex", &[]).unwrap(), Vec::<String>::new());
    let one = tightened("", "agents.codex.unix = \"strict\"\n").unwrap();
    assert_eq!(
        [one.unix_of("codex"), one.unix_of("other")],
        [UnixMode::Strict, UnixMode::Mediated]
    );
}

#[test]
fn the_same_again_is_no_widening() {
    let config = tightened(OWN, "").unwrap();
    for key in KEYS.iter().filter(|key| matches!(key.project, Project::Tighter(_))) {
        let name = key.name.replace("NAME", "codex");
        if name.ends_with("hosts") {
            continue;
        }
        let value = toml::Value::try_from(config.value(&name).unwrap()).unwrap();
        let again = tightened(OWN, &format!("{name} = {value}\n")).unwrap();
        assert_eq!(again.value(&name), config.value(&name), "{name}");
    }
}

#[test]
fn what_would_widen_is_refused_by_name_value_and_reason() {
    let strict =
        "unix = \"strict\"\n[pins]\non-program-change = \"refuse\"\n[egress]\nprofile = \"none\"\n";
    for (own, project, told) in [
        ("", "\ntier = \"isolated\"\n", "line 2: tier = \"isolated\" would allow more than sealed"),
        (OWN, "tier = \"ported\"\n", "line 1: tier = \"ported\" would allow more than isolated"),
        ("", "on-violation = \"warn\"\n", "on-violation = \"warn\" would allow more than stop"),
        (strict, "unix = \"mediated\"\n", "unix = \"mediated\" would allow more than strict"),
        (
            strict,
            "agents.codex.unix = \"mediated\"\n",
            "agents.codex.unix = \"mediated\" would allow more than strict",
        ),
        (
            strict,
            "[pins]\non-program-change = \"notice\"\n",
            "line 2: pins.on-program-change = \"notice\" would allow more than refuse",
        ),
        (
            strict,
            "egress.profile = \"listed\"\n",
            "egress.profile = \"listed\" would allow more than none",
        ),
        (
            OWN,
            "egress.profile = \"agent\"\n",
            "egress.profile = \"agent\" would allow more than listed",
        ),
        ("", "egress.ssh = true\n", "egress.ssh = true would allow more than false"),
        ("", "verify.every = \"300ms\"\n", "verify.every = \"300ms\" would allow more than 250ms"),
        (
            "",
            "verify.descriptors-every = \"3s\"\n",
            "verify.descriptors-every = \"3s\" would allow more than 2s",
        ),
    ] {
        let refused = refused(own, project);
        let wanted = "the project file /w/.paddock.toml may only tighten: ";
        assert!(refused.starts_with(wanted) && refused.contains(told), "{project}: {refused}");
    }
    let error = tightened("", "tier = \"ported\"\n").unwrap_err();
    let advice = error.advice().unwrap();
    assert!(advice.ends_with("write it into your own configuration, /h/config.toml"), "{advice}");
}

#[test]
fn what_is_not_for_a_project_is_refused_whatever_it_says() {
    let mut refused_keys = 0;
    for key in KEYS {
        let Project::Refused(why) = key.project else { continue };
        refused_keys += 1;
        let name = key.name.replace("NAME", "codex");
        // As it is without the file, too.
        let value = match key.default {
            "" if name.ends_with(".version") => "\"1.2\"",
            "" => "\"/x\"",
            default => default,
        };
        let told = refused("", &format!("# c\n{name} = {value}\n"));
        let wanted =
            format!("may only tighten: line 2: {name} = {value} is not for a project file: {why}");
        assert!(told.ends_with(&wanted), "{told}");
    }
    assert_eq!(refused_keys, 15);
}

#[test]
fn what_is_not_right_is_named_with_its_line_and_escaped() {
    for (project, told) in [
        ("x\n", "line 1: "),
        ("tierr = 1\n", "line 1: unknown key `tierr`: did you mean `tier`?"),
        ("\"a\\u001b[2J\" = 1\n", "line 1: unknown key `a\\u{1b}[2J`"),
        ("tier = \"x\\u001b\"\n", "unknown value \"x\\\\u{1b}\" of `tier`"),
        ("\nverify.every = \"1ms\"\n", "line 2: verify.every: 1ms is too short; at least 50ms"),
        ("egress.hosts = 1\n", "line 1: invalid type"),
    ] {
        let refused = refused("", project);
        assert!(refused.contains(told), "{project}: {refused}");
        assert!(!refused.contains('\u{1b}'), "{refused}");
    }
}

#[test]
fn of_the_hosts_those_remain_that_both_allow() {
    let left = |project: &str, agent: &str| {
        tightened(OWN, project).unwrap().hosts_of(agent, &["file.test".into()]).unwrap()
    };
    assert_eq!(left("", "codex"), ["a.test", "*.b.test:8080", "c.test", "d.test"], "control");
    let project = "egress.hosts = [\"a.test:443\", \"x.b.test:8080\", \"*.test\"]\n";
    assert_eq!(left(project, "other"), ["a.test:443", "x.b.test:8080", "a.test", "c.test"]);
    assert_eq!(left("egress.hosts = []\n", "codex"), Vec::<String>::new());
    // An agent's own come to everybody's, as they do in the configuration.
    let project = "egress.hosts = [\"a.test\"]\nagents.codex.hosts = [\"d.test\"]\n";
    assert_eq!(left(project, "codex"), ["a.test", "d.test"]);
    assert_eq!(left(project, "other"), ["a.test"]);
    let project = "agents.codex.hosts = [\"d.test\"]\n";
    assert_eq!(left(project, "codex"), ["d.test"]);
    assert_eq!(left(project, "other"), ["a.test", "*.b.test:8080", "c.test"]);
}

#[test]
fn a_host_that_is_not_allowed_anyway_is_a_widening() {
    for (project, told) in [
        ("egress.hosts = [\"evil.test\"]", "line 1: \"evil.test\" in egress.hosts is none of"),
        ("egress.hosts = [\"a.test:22\"]", "\"a.test:22\" in egress.hosts is none of"),
        ("egress.hosts = [\"file.test\"]", "\"file.test\" in egress.hosts is none of"),
        ("agents.codex.hosts = [\"e.test\"]", "\"e.test\" in agents.codex.hosts is none of"),
        ("egress.hosts = [\"a b\"]", "line 1: egress.hosts: allow entry \"a b\": "),
    ] {
        let config = tightened(OWN, project).unwrap();
        let refused = config.hosts_of("codex", &["file.test".into()]).unwrap_err().to_string();
        assert!(refused.contains(told), "{refused}");
    }
}

#[test]
fn less_than_the_project_wants_is_refused_on_the_command_line() {
    let config = tightened(OWN, "tier = \"sealed\"\n").unwrap();
    assert_eq!(config.tier_of(None, None).unwrap(), Tier::Sealed);
    let refused = config.tier_of(Some(Tier::Isolated), None).unwrap_err().to_string();
    assert!(
        refused.ends_with("wants tier sealed or better, and isolated was asked for"),
        "{refused}"
    );
    // Without its word the person's own is what counts.
    let config = tightened(OWN, "").unwrap();
    assert_eq!(config.tier_of(Some(Tier::Ported), None).unwrap(), Tier::Ported);
    let config = tightened(OWN, "tier = \"isolated\"\n").unwrap();
    assert_eq!(config.tier_of(Some(Tier::Sealed), None).unwrap(), Tier::Sealed);
}

#[test]
fn only_a_plain_file_of_some_size_is_read_and_nothing_blocks() {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    let root = tempfile::tempdir().unwrap();
    let root = root.path().canonicalize().unwrap();
    let directories = Directories::below(&root.join("own"));
    let file = root.join(PROJECT_FILE);
    let read = || Config::default().in_workspace(&root, &directories);
    assert!(read().unwrap().project.is_none());
    std::fs::write(&file, "tier = \"sealed\"\n").unwrap();
    assert_eq!(read().unwrap().project.unwrap().lines["tier"], 1, "control");

    let refused = || match read().unwrap_err() {
        Error::ProjectFile { path, reason } => {
            assert_eq!(path, file);
            reason
        }
        other => panic!("{other}"),
    };
    std::fs::write(&file, "#".repeat(65_536)).unwrap();
    assert!(read().is_ok());
    std::fs::write(&file, "#".repeat(65_537)).unwrap();
    assert_eq!(refused(), "it is larger than 65536 bytes");
    std::fs::write(&file, b"# \xff\n").unwrap();
    assert_eq!(refused(), "it is not UTF-8");
    std::fs::rename(&file, root.join("target")).unwrap();
    symlink(root.join("target"), &file).unwrap();
    assert_eq!(refused(), "it is a symbolic link");
    std::fs::remove_file(&file).unwrap();
    symlink(root.join("nowhere"), &file).unwrap();
    assert_eq!(refused(), "it is a symbolic link");
    std::fs::remove_file(&file).unwrap();
    mknodat(CWD, &file, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    assert_eq!(refused(), "it is not a plain file");
    std::fs::remove_file(&file).unwrap();
    std::fs::create_dir(&file).unwrap();
    assert_eq!(refused(), "it is not a plain file");
}

proptest::proptest! {
    #[test]
    fn no_project_file_is_looser_than_none(own in settings(), project in settings()) {
        let Ok(ours) = Config::parse(&own) else { return Ok(()) };
        let Ok(config) = tightened(&own, &project) else { return Ok(()) };
        proptest::prop_assert!(config.tier.unwrap_or_default() <= ours.tier.unwrap_or_default());
        proptest::prop_assert!(config.on_violation <= ours.on_violation);
        proptest::prop_assert!(config.pins.on_program_change <= ours.pins.on_program_change);
        proptest::prop_assert!(config.egress.profile <= ours.egress.profile);
        proptest::prop_assert!(config.egress.ssh <= ours.egress.ssh);
        proptest::prop_assert!(config.verify.every <= ours.verify.every);
        proptest::prop_assert!(config.verify.descriptors_every <= ours.verify.descriptors_every);
        for agent in ["codex", "other"] {
            proptest::prop_assert!(config.unix_of(agent) <= ours.unix_of(agent));
            let of_file = ["f.test".to_owned()];
            let Ok(left) = config.hosts_of(agent, &of_file) else { continue };
            let before = ours.hosts_of(agent, &of_file).unwrap();
            for host in left {
                let host = Entry::parse(&host).unwrap();
                let within = before.iter().any(|allowed| {
                    Entry::parse(allowed).unwrap().meet(&host).as_ref() == Some(&host)
                });
                proptest::prop_assert!(within, "{} is not in {:?}", host, before);
            }
        }
    }
}

/// Some keys that a project's file may set.
fn settings() -> impl proptest::strategy::Strategy<Value = String> {
    use proptest::prelude::*;
    let one = |name: &'static str, values: &'static [&'static str]| {
        prop::option::of(prop::sample::select(values))
            .prop_map(move |value| value.map_or(String::new(), |v| format!("{name} = {v}\n")))
    };
    let hosts = &["[]", "[\"a.test\"]", "[\"*.test\"]", "[\"a.test:443\", \"f.test\"]"];
    (
        one("tier", &["\"sealed\"", "\"isolated\"", "\"ported\""]),
        one("on-violation", &["\"stop\"", "\"warn\""]),
        one("unix", &["\"strict\"", "\"mediated\""]),
        one("pins.on-program-change", &["\"refuse\"", "\"notice\""]),
        one("verify.every", &["\"100ms\"", "\"250ms\"", "\"1s\""]),
        one("verify.descriptors-every", &["\"1s\"", "\"2s\"", "\"3s\""]),
        one("egress.profile", &["\"none\"", "\"listed\"", "\"agent\""]),
        one("egress.ssh", &["true", "false"]),
        one("egress.hosts", hosts),
        (
            one("agents.codex.hosts", hosts),
            one("agents.codex.unix", &["\"strict\"", "\"mediated\""]),
        ),
    )
        .prop_map(|(a, b, c, d, e, f, g, h, i, (j, k))| [a, b, c, d, e, f, g, h, i, j, k].concat())
}
