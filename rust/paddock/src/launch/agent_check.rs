//! All that is wrong with an agent file of a person's own, before anything is started
//! with it. Nothing of what it names is run.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::agent_reads::{expand, refuse_too_much};
use super::{Directories, half, hosts, sockets};
use crate::agent::{
    self, AgentFile, Half, LinkKind, Values, Wrong, check_text, line_of, profile_problems,
};
use crate::error::Error;
use crate::files::read_plain;

/// What is wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) path: PathBuf,
    pub(crate) line: Option<usize>,
    /// Not escaped.
    pub(crate) what: String,
}

/// The steps to a key, and what is wrong with its value.
type Finding = (Vec<String>, String);

/// Looks at the agent in `directory`: its form, its values for each version that it
/// knows, and its policies.
pub(crate) fn check_agent(directory: &Path, directories: &Directories) -> Vec<Problem> {
    let file = directory.join("agent.toml");
    let problem = |path: &Path, line, what: String| Problem { path: path.to_owned(), line, what };
    let mut problems = Vec::new();
    for name in ["server.json", "client.json"] {
        let path = directory.join(name);
        if path.symlink_metadata().is_ok() {
            let wrong = match read(&path) {
                Ok(text) => profile_problems(&text),
                Err(what) => vec![what],
            };
            problems.extend(wrong.into_iter().map(|what| problem(&path, None, what)));
        }
    }
    let text = match read(&file) {
        Ok(text) => text,
        Err(what) => {
            problems.insert(0, problem(&file, None, what));
            return problems;
        }
    };
    let mut of_file: Vec<Problem> = check_text(&text)
        .into_iter()
        .map(|Wrong { line, what }| problem(&file, line, what))
        .collect();
    if of_file.is_empty() {
        match agent::variants(directory, &directories.agents()) {
            Ok(variants) => {
                for (version, variant) in variants {
                    for (steps, what) in check_values(&variant, directories) {
                        let line = locate(&text, version.as_deref(), &steps);
                        let what = format!("{}: {what}", steps.join("."));
                        if !of_file.iter().any(|known| known.what == what) {
                            of_file.push(problem(&file, line, what));
                        }
                    }
                }
                // What is missing, or is wrong in another directory.
                match agent::load_directory(directory, &directories.agents()) {
                    Err(Error::AgentFile { path, reason })
                        if !problems.iter().any(|known| known.path == path) =>
                    {
                        problems.push(problem(&path, None, reason));
                    }
                    _ => {}
                }
            }
            Err(Error::AgentFile { path, reason }) => of_file.push(problem(&path, None, reason)),
            Err(error) => of_file.push(problem(&file, None, error.to_string())),
        }
    }
    of_file.append(&mut problems);
    of_file
}

fn read(path: &Path) -> Result<String, String> {
    let bytes = read_plain(path, agent::MOST).map_err(|e| e.to_string())?;
    String::from_utf8(bytes).map_err(|_| "it is not UTF-8".into())
}

fn locate(text: &str, version: Option<&str>, steps: &[String]) -> Option<usize> {
    let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
    let in_version = version.and_then(|version| {
        let whole = [&["versions", version], steps.as_slice()].concat();
        line_of(text, &whole)
    });
    in_version.or_else(|| line_of(text, &steps))
}

/// What of the values would keep a launch from being made.
fn check_values(file: &AgentFile, directories: &Directories) -> Vec<Finding> {
    let mut found: Vec<Finding> = Vec::new();
    let mut add = |steps: &[&str], what: String| {
        found.push((steps.iter().map(|step| (*step).to_owned()).collect(), what));
    };
    let of_login = file.login.iter().flat_map(|login| &login.hosts);
    let of_login = of_login.map(|host| (&["login", "hosts"][..], host));
    for (steps, host) in file.hosts.iter().map(|host| (&["hosts"][..], host)).chain(of_login) {
        if let Err(error) = hosts::policy(std::slice::from_ref(host), &BTreeMap::new()) {
            add(steps, error.to_string());
        }
    }
    let mut directories_of_sockets = Vec::new();
    for template in &file.sockets {
        match sockets::directory_of(template, &Values::default()) {
            Ok(directory) => directories_of_sockets.push(directory),
            Err(reason) => add(&["sockets"], reason),
        }
    }
    // Without its directories nothing can be said of the link.
    let link = file.pair.as_ref().map(|pair| &pair.link);
    if let Some(at) = link.and_then(|link| link.at.as_ref())
        && directories_of_sockets.len() == file.sockets.len()
    {
        let values = Values::of_any_launch().without(&["bridge", "home", "temporary"]);
        if let Err(reason) = sockets::own_link(at, &directories_of_sockets, &values) {
            add(&["link", "at"], reason);
        }
    }
    for path in &file.read {
        let checked =
            expand(path, &directories.home).and_then(|path| refuse_too_much(&path, directories));
        if let Err(reason) = checked {
            add(&["read"], format!("{path}: {reason}"));
        }
    }
    for name in &file.program.names {
        let mut values = Values::default();
        values.set("paddock", "x");
        if let Err(reason) = values.fill(name) {
            add(&["program", "names"], reason);
        }
    }
    if file.program.names.is_empty() {
        add(&["program", "names"], "it has no name to look for".into());
    }
    let pair = file.pair.iter().flat_map(|p| [("server", &p.server), ("client", &p.client)]);
    let login = own_of_login(file);
    let halves = pair.chain(file.solo.iter().map(|solo| ("solo", solo)));
    for (name, half) in halves.chain(login.iter().map(|login| ("login", login))) {
        let is_bridged = name == "client" && link.is_some_and(|l| l.kind == LinkKind::Stdio);
        let values = Values::of_any_launch();
        let values = if is_bridged { values } else { values.without(&["bridge"]) };
        for (steps, what) in half_templates(half, &values).chain(half::problems_of(half)) {
            let steps = [vec![name.to_owned()], steps].concat();
            found.push((steps, what));
        }
    }
    found
}

/// What a sign-in has of its own, beside what it takes from the server.
fn own_of_login(file: &AgentFile) -> Option<Half> {
    let (login, half) = (file.login.as_ref()?, file.to_sign_in()?);
    let (directories, seed, drop) = (Vec::new(), Vec::new(), Vec::new());
    Some(Half { set: login.set.clone(), directories, seed, drop, ..half })
}

/// Templates that name what no launch has.
fn half_templates(half: &Half, values: &Values) -> impl Iterator<Item = Finding> {
    let key = |steps: &[&str]| -> Vec<String> { steps.iter().map(|s| (*s).to_owned()).collect() };
    let mut templates: Vec<(Vec<String>, &String)> = Vec::new();
    templates.extend(half.argv.iter().map(|word| (key(&["argv"]), word)));
    templates.extend(half.resume.iter().flatten().map(|word| (key(&["resume"]), word)));
    for (word, argv) in &half.when {
        templates.extend(argv.iter().map(|template| (key(&["when", word]), template)));
    }
    templates.extend(half.set.iter().map(|(name, value)| (key(&["set", name]), value)));
    templates.extend(half.seed.iter().map(|seed| (key(&["seed"]), &seed.text)));
    let checked = templates.into_iter().map(|(key, text)| (key, values.fill(text).err()));
    let wrong: Vec<Finding> = checked.filter_map(|(key, error)| Some((key, error?))).collect();
    let no_program = half.argv.is_empty().then(|| (key(&["argv"]), "it starts nothing".to_owned()));
    wrong.into_iter().chain(no_program)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "title = \"x\"\n";
    const POLICY: &str = "{}";

    /// Checks an agent of these files, each problem as `FILE:LINE: WHAT`.
    fn check(files: &[(&str, &str)]) -> Vec<String> {
        let root = tempfile::tempdir().unwrap();
        let directories = Directories::below(&root.path().canonicalize().unwrap());
        let directory = directories.agents().join("own");
        std::fs::create_dir_all(&directory).unwrap();
        for (name, text) in files {
            std::fs::write(directory.join(name), text).unwrap();
        }
        let told = |problem: Problem| {
            let file = problem.path.file_name().unwrap().to_string_lossy().into_owned();
            format!("{file}:{}: {}", problem.line.unwrap_or(0), problem.what)
        };
        check_agent(&directory, &directories).into_iter().map(told).collect()
    }

    #[test]
    fn every_problem_is_told() {
        let good = format!("{HEAD}program.names = [\"x\"]\nsolo.argv = [\"{{program}}\"]\n");
        assert_eq!(check(&[("agent.toml", &good), ("server.json", POLICY)]), Vec::<String>::new());
        let bad = format!(
            "{HEAD}hosts = [\"a b\"]\nread = [\"~/.ssh\", \"x\"]\nprogram.names = [\"{{port}}\"]\n\
             [solo]\nargv = [\"{{prot}}\"]\npass = [\"SSH_AUTH_SOCK\"]\n\
             set = {{ A = \"{{home}}\", LD_X = \"{{x}}\" }}\ndirectories = [\"../x\"]\n\
             [[solo.seed]]\npath = \"/etc/x\"\ntext = \"{{nothing}}\"\n\
             [versions.\">=2\".solo]\nargv = [\"{{other}}\"]\n"
        );
        let found = check(&[("agent.toml", &bad), ("server.json", "{\"hooks\": {}}")]);
        for wanted in [
            "agent.toml:2: hosts: ",
            "agent.toml:3: read: ~/.ssh: ",
            "agent.toml:3: read: x: ",
            "agent.toml:4: program.names: ",
            "agent.toml:6: solo.argv: \"{prot}\" names \"prot\"",
            "agent.toml:7: solo.pass: ",
            "agent.toml:8: solo.set.LD_X: \"{x}\"",
            "agent.toml:8: solo.set.LD_X: the variable LD_X",
            "agent.toml:9: solo.directories: ",
            "agent.toml:10: solo.seed: \"{nothing}\"",
            "agent.toml:10: solo.seed: /etc/x",
            "agent.toml:14: solo.argv: \"{other}\"",
            "server.json:0: \"hooks\"",
        ] {
            assert!(found.iter().any(|told| told.starts_with(wanted)), "{wanted}: {found:#?}");
        }
        assert_eq!(found.len(), 13, "{found:#?}");
    }

    #[test]
    fn a_sign_in_sockets_and_a_link_are_looked_at_too() {
        let head = format!("{HEAD}program.names = [\"x\"]\n");
        let file = |sockets: &str, link: &str, word: &str| {
            format!(
                "{head}sockets = [\"{sockets}\"]\n[login]\nargv = [\"{word}\"]\n\
                 hosts = [\"a.test\"]\nset = {{ A = \"{{home}}\" }}\n[link]\n{link}\n\
                 [server]\nargv = [\"{{program}}\"]\n[client]\nargv = [\"{{program}}\"]\n"
            )
        };
        let own = |at: &str| format!("kind = \"own\"\nat = \"{at}\"");
        let problems = |text: &str| {
            check(&[("agent.toml", text), ("server.json", POLICY), ("client.json", POLICY)])
        };
        let good = file("/tmp/x-{uid}", &own("/tmp/x-{uid}/*/s"), "{program}");
        assert_eq!(problems(&good), Vec::<String>::new(), "control");
        for (text, wanted) in [
            (good.replace("argv = [\"{program}\"]\nhosts", "argv = []\nhosts"), "5: login.argv: "),
            (good.replace("a.test", "a b"), "6: login.hosts: "),
            (good.replace("{home}", "{nothing}"), "7: login.set.A: \"{nothing}\""),
            (good.replace("{ A =", "{ LD_X ="), "7: login.set.LD_X: the variable"),
            (file("/tmp/x", &own("/tmp/x/s"), "{nothing}"), "5: login.argv: \"{nothing}\""),
            (file("/tmp/x", &own("/tmp/x/s"), "{bridge}"), "5: login.argv: \"{bridge}\""),
            (file("/run/x", &own("/run/x/s"), "x"), "3: sockets: "),
            (file("/tmp/x", &own("/tmp/y/s"), "x"), "10: link.at: "),
            (file("/tmp/x", &own("/tmp/x/{home}"), "x"), "10: link.at: "),
        ] {
            let found = problems(&text);
            let wanted = format!("agent.toml:{wanted}");
            assert!(found.len() == 1 && found[0].starts_with(&wanted), "{wanted}: {found:#?}");
        }
        // A bridge is the client's alone, and only one of a link of that kind.
        let stdio = file("/tmp/x", "kind = \"stdio\"", "x");
        let client = "[client]\nargv = [\"{program}\"";
        let bridged = stdio.replace(client, "[client]\nargv = [\"{bridge}\"");
        assert_eq!(problems(&bridged), Vec::<String>::new(), "control");
        let server =
            stdio.replace("[server]\nargv = [\"{program}\"", "[server]\nargv = [\"{bridge}\"");
        let tcp = bridged.replace("stdio", "tcp");
        for (text, wanted) in [(server, "server.argv: "), (tcp, "client.argv: ")] {
            let found = problems(&text);
            assert!(found.len() == 1 && found[0].contains(wanted), "{wanted}: {found:#?}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_told() {
        for (files, wanted) in [
            (&[][..], "agent.toml:0: No such file"),
            (&[("agent.toml", "= ")][..], "agent.toml:1: "),
            (&[("agent.toml", "extends = \"nobody\"\n")][..], "agent.toml:0: it extends"),
            (
                &[("agent.toml", "title = \"x\"\nprogram.names = [\"x\"]\nsolo.argv = [\"x\"]\n")]
                    [..],
                "server.json:0: it is not there",
            ),
            (
                &[("agent.toml", "extends = \"codex\"\n"), ("server.json", "[]")][..],
                "server.json:0: ",
            ),
        ] {
            let found = check(files);
            assert!(found.len() == 1 && found[0].starts_with(wanted), "{wanted}: {found:?}");
        }
        assert_eq!(
            check(&[("agent.toml", "extends = \"codex\"\n")]),
            Vec::<String>::new(),
            "control"
        );
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig::with_cases(64))]
        #[test]
        fn whatever_the_files_are_checking_them_ends(file: Vec<u8>, policy: Vec<u8>) {
            let root = tempfile::tempdir().unwrap();
            let directories = Directories::below(root.path());
            std::fs::write(root.path().join("agent.toml"), &file).unwrap();
            std::fs::write(root.path().join("server.json"), &policy).unwrap();
            let _ = check_agent(root.path(), &directories);
        }
    }
}
