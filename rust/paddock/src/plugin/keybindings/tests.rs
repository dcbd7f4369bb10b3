use std::os::unix::fs::symlink;

use proptest::prelude::*;

use super::edit::{CHORDS, add};
use super::*;

const ALL: &str = "[[keys.command]]\nkey = \"prefix+shift+a\"\ntype = \"plugin_action\"\n\
    command = \"paddock.start-agent\"\ndescription = \"Paddock: start an agent in its sandbox\"\n\
    \n[[keys.command]]\nkey = \"prefix+shift+b\"\ntype = \"plugin_action\"\n\
    command = \"paddock.reconnect\"\ndescription = \"Paddock: go on with the agent in fresh sandboxes\"\n\
    \n[[keys.command]]\nkey = \"prefix+shift+s\"\ntype = \"plugin_action\"\n\
    command = \"paddock.open-shell\"\ndescription = \"Paddock: open a shell beside the agent\"\n\
    \n[[keys.command]]\nkey = \"prefix+shift+o\"\ntype = \"plugin_action\"\n\
    command = \"paddock.sandboxes\"\ndescription = \"Paddock: show the sandboxes\"\n";

/// The new text, and what the chords came to that were not added.
fn added(text: &str) -> (String, Vec<State>) {
    let edited = add(text).unwrap();
    let states = edited.chords.into_iter().map(|(_, state)| state);
    (
        edited.text.unwrap_or_else(|| text.to_owned()),
        states.filter(|s| *s != State::Added).collect(),
    )
}

fn taken(by: &str) -> State {
    State::Taken { by: by.into() }
}

#[test]
fn the_chords_go_to_the_end_and_all_else_stays_byte_by_byte() {
    assert_eq!(added(""), (ALL.to_owned(), vec![]));
    let mine =
        "# mine\n[keys] # here\nprefix = \"ctrl+a\"\n\n[ui]\nsidebar_width = 3 # wide\n# end";
    assert_eq!(added(mine), (format!("{mine}\n\n{ALL}"), vec![]));
    let windows = "\u{feff}onboarding = false\r\n";
    let wanted = format!("{windows}\r\n{}", ALL.replace('\n', "\r\n"));
    assert_eq!(added(windows), (wanted, vec![]));
    for text in [ALL.to_owned(), format!("\u{feff}{}", ALL.replace('\n', "\r\n"))] {
        let again = add(&text).unwrap();
        assert_eq!(again.text, None, "a second time changes nothing");
        let present =
            |(chord, state): (Chord, State)| state == State::Present { key: chord.key.into() };
        assert!(again.chords.into_iter().all(present));
    }
}

#[test]
fn lists_and_tables_in_braces_are_added_to_where_they_are() {
    let one = "{ key = \"prefix+shift+a\", type = \"plugin_action\", command = \"paddock.start-agent\", \
        description = \"Paddock: start an agent in its sandbox\" }, ";
    for (before, wanted) in [
        ("keys.command = []\nx = 1 # x\n", format!("keys.command = [{one}")),
        ("keys.command = [ # c\n]\n", format!("keys.command = [{one}")),
        (
            "[keys]\ncommand = [\n  { key = \"prefix+y\", command = \"ls\" }, # mine\n]\n",
            format!("[keys]\ncommand = [\n  {{ key = \"prefix+y\", command = \"ls\" }}, {one}"),
        ),
        ("keys = {}\n", format!("keys = {{command = [{one}")),
        (
            "keys = { zoom = \"prefix+z\" }\n",
            format!("keys = {{ zoom = \"prefix+z\", command = [{one}"),
        ),
        ("keys = { a.b = 1 }\n", format!("keys = {{ a.b = 1, command = [{one}")),
        ("keys.zoom = \"prefix+z\"\n", "keys.zoom = \"prefix+z\"\n\n[[keys.command]]\n".into()),
        ("[keys.indexed]\ntabs = \"ctrl\"\n", "[keys.indexed]\ntabs = \"ctrl\"\n\n[[keys.c".into()),
    ] {
        let (text, states) = added(before);
        assert!(text.starts_with(&wanted), "{before}: {text}");
        assert_eq!(states, vec![]);
        assert_eq!(add(&text).unwrap().text, None, "{before}");
        let mut new = text.chars();
        assert!(before.chars().all(|c| new.any(|n| n == c)), "nothing of it is gone: {text}");
    }
}

#[test]
fn a_chord_that_is_taken_stays_what_it_is_in_whichever_notation() {
    for (text, by) in [
        ("[keys]\nzoom = \"prefix+A\"\n", "keys.zoom"),
        ("[keys]\nzoom = [\"prefix+z\", \"prefix+SHIFT+a\"]\n", "keys.zoom"),
        ("[keys]\nprefix = \"shift+a\"\n", "keys.prefix"),
        ("[[keys.command]]\nkey = \"prefix+A\"\ncommand = \"lazygit\"\n", "the command lazygit"),
        (
            "[[keys.command]]\nkey = [\"f9\", \"prefix+shift+a\"]\ntype = \"pane\"\ncommand = \"x\\u001b\"\n",
            "the command x\\u{1b}",
        ),
        ("keys.command = [{ key = \"shift+prefix+a\", command = \"ls\" }]\n", "the command ls"),
    ] {
        let (new, states) = added(text);
        assert_eq!(states, [taken(by)], "{text}");
        assert!(!new.contains("paddock.start-agent") && new.contains("paddock.reconnect"), "{new}");
        assert_eq!(add(&new).unwrap().text, None, "{new}");
    }
    // Not taken: another chord, and a command that does nothing.
    for text in [
        "[keys]\nzoom = \"prefix+a\"\nprefix = \"a\"\n",
        "[[keys.command]]\nkey = \"prefix+A\"\ncommand = \" \"\n",
        "[keys]\nzoom = \"\"\n",
    ] {
        assert_eq!(added(text).1, vec![], "{text}");
    }
}

#[test]
fn a_chord_that_somebody_gave_the_action_is_left_alone() {
    for command in ["paddock.reconnect", "reconnect"] {
        let text = format!(
            "[[keys.command]]\nkey = \"prefix+y\"\ntype = \"plugin_action\"\ncommand = \"{command}\"\n"
        );
        assert_eq!(added(&text).1, [State::Present { key: "prefix+y".into() }]);
        // Of another kind it is another command.
        assert_eq!(added(&text.replace("plugin_action", "shell")).1, vec![]);
    }
}

#[test]
fn what_is_no_configuration_is_left_alone() {
    for (text, reason) in [
        ("\nx = \n", "line 2: "),
        ("a = 1\na = 2\n", "line 2: "),
        ("keys = 1\n", "keys is no table"),
        ("keys.command = 1\n", "keys.command is no list of tables"),
        ("keys.command = [1]\n", "keys.command has no tables"),
    ] {
        let refused = add(text).unwrap_err();
        assert!(refused.starts_with(reason), "{text}: {refused}");
    }
}

/// A home with a herdr that answers as that script does, and its calls.
struct Home {
    root: tempfile::TempDir,
    place: Place,
}

impl Home {
    fn new(script: &str) -> Self {
        let root = tempfile::tempdir().unwrap();
        let at = root.path().canonicalize().unwrap();
        let herdr = at.join("herdr-program");
        let log = at.join("calls");
        let script = format!(
            "#!/bin/sh\necho \"$*\" >>'{}'\ncat \"$HERDR_CONFIG_PATH\" >'{}'\n{script}\n",
            log.display(),
            at.join("seen").display()
        );
        std::fs::write(&herdr, script).unwrap();
        std::fs::set_permissions(&herdr, PermissionsExt::from_mode(0o755)).unwrap();
        let config = at.join("herdr/config.toml");
        Self { place: Place { config, herdr, limit: Duration::from_secs(20) }, root }
    }

    fn write(&self, text: &str) {
        std::fs::create_dir_all(self.place.config.parent().unwrap()).unwrap();
        std::fs::write(&self.place.config, text).unwrap();
    }

    fn text(&self) -> String {
        std::fs::read_to_string(&self.place.config).unwrap()
    }

    fn calls(&self) -> usize {
        std::fs::read_to_string(self.root.path().join("calls")).unwrap_or_default().lines().count()
    }

    /// What is beside the configuration.
    fn others(&self) -> Vec<String> {
        let directory = std::fs::read_dir(self.place.config.parent().unwrap()).unwrap();
        let mut names: Vec<String> =
            directory.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.retain(|name| name != "config.toml");
        names.sort();
        names
    }
}

const ACCEPTS: &str = "test \"$*\" = 'config check' && echo config: ok";

#[test]
fn a_missing_file_is_made_and_a_second_run_changes_nothing() {
    let home = Home::new(ACCEPTS);
    let installed = install(&home.place).unwrap();
    assert!(installed.needs_reload() && installed.backup.is_none());
    assert_eq!(home.text(), ALL);
    assert_eq!(std::fs::metadata(&home.place.config).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(std::fs::read_to_string(home.root.path().join("seen")).unwrap(), ALL);
    let again = install(&home.place).unwrap();
    assert!(!again.needs_reload() && again.backup.is_none());
    assert_eq!((home.text().as_str(), home.others()), (ALL, vec![]));
    assert_eq!(home.calls(), 1, "there was nothing to ask about the second time");
}

#[test]
fn the_file_is_backed_up_with_its_mode_and_no_backup_is_replaced() {
    let home = Home::new(ACCEPTS);
    home.write("onboarding = false\n");
    std::fs::set_permissions(&home.place.config, PermissionsExt::from_mode(0o640)).unwrap();
    let first = install(&home.place).unwrap().backup.unwrap();
    assert_eq!(std::fs::read_to_string(&first).unwrap(), "onboarding = false\n");
    for file in [&first, &home.place.config] {
        let mode = std::fs::metadata(file).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o640, "{}", file.display());
    }
    home.write("# anew\n");
    let second = install(&home.place).unwrap().backup.unwrap();
    assert_eq!(std::fs::read_to_string(&second).unwrap(), "# anew\n");
    assert_eq!(std::fs::read_to_string(&first).unwrap(), "onboarding = false\n");
    assert_eq!(home.others(), ["config.toml.before-paddock", "config.toml.before-paddock.2"]);
}

#[test]
fn of_additions_at_once_one_adds_and_the_others_find_it() {
    // A herdr that is slow: without a lock every one would have asked it.
    let home = Home::new(&format!("sleep 0.3; {ACCEPTS}"));
    let installed: Vec<Installed> = std::thread::scope(|scope| {
        let adding: Vec<_> = (0..4).map(|_| scope.spawn(|| install(&home.place))).collect();
        adding.into_iter().map(|one| one.join().unwrap().unwrap()).collect()
    });
    assert_eq!(installed.iter().filter(|one| one.needs_reload()).count(), 1);
    assert_eq!((home.text().as_str(), home.calls()), (ALL, 1));
}

#[test]
fn a_link_stays_a_link() {
    let home = Home::new(ACCEPTS);
    home.write("");
    let dotfiles = home.root.path().join("dotfiles.toml");
    std::fs::rename(&home.place.config, &dotfiles).unwrap();
    symlink(&dotfiles, &home.place.config).unwrap();
    install(&home.place).unwrap();
    assert!(home.place.config.is_symlink());
    assert_eq!(std::fs::read_to_string(&dotfiles).unwrap(), ALL);
    assert_eq!(home.others(), Vec::<String>::new(), "the backup is beside the file itself");
    std::fs::remove_file(&dotfiles).unwrap();
    assert!(matches!(install(&home.place), Err(KeybindingError::Unusable { .. })));
    assert!(!dotfiles.exists());
}

#[test]
fn what_herdr_refuses_or_does_not_answer_changes_nothing() {
    let refuses_chords = "! grep -q paddock \"$HERDR_CONFIG_PATH\" && exit 0\n\
        echo 'config: issues found'; echo 'invalid keybinding'; exit 1";
    let home = Home::new(refuses_chords);
    home.write("# mine\n");
    match install(&home.place) {
        Err(KeybindingError::Refused { told }) => {
            assert_eq!(told, "config: issues found\\ninvalid keybinding");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!((home.text().as_str(), home.others()), ("# mine\n", vec![]));

    let home = Home::new("echo 'unknown config key x' >&2; exit 1");
    home.write("x = 1\n");
    match install(&home.place) {
        Err(KeybindingError::RefusedBefore { told, .. }) => {
            assert_eq!(told, "unknown config key x");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!((home.text().as_str(), home.others()), ("x = 1\n", vec![]));

    let mut home = Home::new("sleep 60 & wait");
    home.place.limit = Duration::from_millis(300);
    assert!(matches!(install(&home.place), Err(KeybindingError::CheckHangs { .. })));
    assert_eq!(home.others(), Vec::<String>::new());
    assert!(!home.place.config.exists());

    let home = Home::new(ACCEPTS);
    std::fs::remove_file(&home.place.herdr).unwrap();
    assert!(matches!(install(&home.place), Err(KeybindingError::Program { .. })));
    assert!(!home.place.config.exists());
    assert_eq!(home.others(), Vec::<String>::new());
}

#[test]
fn what_changes_while_herdr_looks_is_not_written_over() {
    let mut home = Home::new("");
    let script = format!("#!/bin/sh\necho '# theirs' >'{}'\n", home.place.config.display());
    home.place.herdr = home.root.path().join("other-herdr");
    std::fs::write(&home.place.herdr, script).unwrap();
    std::fs::set_permissions(&home.place.herdr, PermissionsExt::from_mode(0o755)).unwrap();
    home.write("# mine\n");
    assert!(matches!(install(&home.place), Err(KeybindingError::Changed { .. })));
    assert_eq!((home.text().as_str(), home.others()), ("# theirs\n", vec![]));
}

#[test]
fn what_cannot_be_written_or_is_no_file_is_left_alone() {
    let home = Home::new(ACCEPTS);
    home.write("x = \n");
    let refused = install(&home.place).unwrap_err();
    assert!(refused.to_string().contains("line 1: "), "{refused}");
    assert!(refused.advice().contains("herdr config check"));
    assert_eq!((home.text().as_str(), home.calls()), ("x = \n", 0));
    std::fs::remove_file(&home.place.config).unwrap();
    std::fs::create_dir(&home.place.config).unwrap();
    assert!(matches!(install(&home.place), Err(KeybindingError::Unusable { .. })));
    std::fs::remove_dir(&home.place.config).unwrap();
    let pipe = &home.place.config;
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    assert!(matches!(install(&home.place), Err(KeybindingError::Unusable { .. })));
    assert_eq!(home.calls(), 0);
}

#[test]
fn configuration_and_program_are_found_as_herdr_finds_them() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path().canonicalize().unwrap();
    let program = root.join("herdr");
    std::fs::write(&program, "").unwrap();
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
    let find = |set: &[(&str, &str)]| {
        Place::find_by(&|name| {
            let set = set.iter().find(|(known, _)| *known == name);
            set.map(|(_, value)| value.into())
        })
    };
    let path = root.to_str().unwrap();
    let named = format!("{path}/herdr (deleted)");
    let config = |set: &[(&str, &str)]| find(set).unwrap().config;
    assert_eq!(
        config(&[("HOME", "/h"), ("PATH", path)]),
        Path::new("/h/.config/herdr/config.toml")
    );
    let set = [("HOME", "/h"), ("XDG_CONFIG_HOME", "/x"), ("PATH", path)];
    assert_eq!(config(&set), Path::new("/x/herdr/config.toml"));
    let set = [("XDG_CONFIG_HOME", "/x"), ("HERDR_CONFIG_PATH", "/own.toml"), ("PATH", path)];
    assert_eq!(config(&set), Path::new("/own.toml"));
    for (set, _) in [(("HERDR_CONFIG_PATH", "own.toml"), 0), (("XDG_CONFIG_HOME", "x"), 0)] {
        let refused = find(&[set, ("HOME", "/h"), ("PATH", path)]);
        assert!(matches!(refused, Err(KeybindingError::NoPlace { .. })), "{set:?}");
    }
    assert!(matches!(find(&[("PATH", path)]), Err(KeybindingError::NoPlace { .. })));
    for set in [("PATH", path), ("HERDR_BIN_PATH", named.as_str())] {
        assert_eq!(find(&[set, ("HOME", "/h")]).unwrap().herdr, program, "{set:?}");
    }
    match find(&[("HERDR_BIN_PATH", "/none/herdr"), ("HOME", "/h")]) {
        Err(KeybindingError::NoProgram { looked }) => {
            assert_eq!(looked, "HERDR_BIN_PATH, /none/herdr; herdr in PATH");
        }
        other => panic!("{other:?}"),
    }
}

/// Some of a configuration: what is in it, in one of TOML's ways to write it.
fn a_part() -> impl Strategy<Value = String> {
    let key = prop::sample::select(vec![
        "prefix+A",
        "prefix+shift+b",
        "prefix+S",
        "ctrl+o",
        "prefix+x",
        "",
    ]);
    let keys = prop_oneof![
        key.clone().prop_map(|key| format!("{key:?}")),
        (key.clone(), key).prop_map(|(one, two)| format!("[{one:?}, {two:?}]")),
    ];
    let end = prop::sample::select(vec!["\n", "\r\n", " # c\n"]);
    (0..6, keys, end, any::<u16>()).prop_map(|(kind, keys, end, number)| match kind {
        0 => format!("[[keys.command]]{end}key = {keys}{end}command = \"c{number}\"{end}"),
        1 => format!("[t{number}]{end}x = {keys}{end}"),
        2 => format!("# {number}{end}"),
        3 => format!("[keys.t{number}]{end}x = {keys}{end}"),
        4 => end.to_owned(),
        _ => format!("[[list]]{end}n = {number}.5{end}\tt = '''{end}{keys}'''{end}"),
    })
}

/// The start, where the table of keys may be written in other ways.
fn a_start() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        "",
        "\u{feff}",
        "top = nan\n",
        "\u{feff}# c\r\n",
        "[keys]\nzoom = \"prefix+A\"\n",
        "keys.zoom = [\"prefix+O\"] # c\n",
        "[keys]\r\nprefix = \"S\"\r\n",
    ])
    .prop_map(str::to_owned)
}

fn a_whole() -> impl Strategy<Value = String> {
    let braces = prop::sample::select(vec![
        "keys = {}\n",
        "keys = { zoom = \"prefix+z\" , a.b.c = [1] }\n",
        "keys.command = []\n",
        "keys.command = [\n# c\n]\n",
        "[keys]\ncommand = [ { key = \"f9\", command = \"x\" } , # c\n]\nzoom = \"prefix+S\"",
        "keys = { command = [ { key = [\"prefix+B\"], command = \"x\" } ] , zoom = '' }",
    ]);
    let parts = prop::collection::vec(a_part(), 0..8).prop_map(|parts| parts.concat());
    prop_oneof![(a_start(), parts).prop_map(|(s, p)| s + &p), braces.prop_map(str::to_owned)]
}

proptest! {
    #[test]
    fn whatever_is_there_stays_and_only_chords_come(text in a_whole()) {
        // Tables whose names were drawn twice.
        prop_assume!(toml::from_str::<toml::Table>(text.trim_start_matches('\u{feff}')).is_ok());
        let edited = add(&text).unwrap();
        let count = edited.chords.iter().filter(|(_, state)| *state == State::Added).count();
        let Some(new) = edited.text else {
            prop_assert_eq!(count, 0);
            return Ok(());
        };
        // One piece is put in, at one place: before it and behind it is what there was.
        let head = new.bytes().zip(text.bytes()).take_while(|(a, b)| a == b).count();
        prop_assert!(new.as_bytes().ends_with(&text.as_bytes()[head..]));
        let chords = |text: &str| -> usize {
            CHORDS.iter().map(|chord| text.matches(chord.action).count()).sum()
        };
        prop_assert_eq!(chords(&new) - chords(&text), count);
        let again = add(&new).unwrap();
        prop_assert!(again.text.is_none());
    }

    #[test]
    fn no_text_makes_it_fail_otherwise_than_with_a_reason(text in "\\PC*|[\\[\\]{}=.a\"',\n\r#]{0,40}") {
        if let Ok(edited) = add(&text) {
            let new = edited.text.unwrap_or(text);
            prop_assert!(add(&new).unwrap().text.is_none());
        }
    }
}
