use super::*;

#[test]
fn a_proc_that_hides_processes_is_refused() {
    let line = |options: &str| {
        format!(
            "22 1 0:21 / /proc rw,nosuid shared:5 - proc proc rw\n\
             40 22 0:50 / /proc rw,nosuid - proc proc rw{options}\n\
             41 22 0:51 / /proc/sys rw - proc proc rw,hidepid=2\n"
        )
    };
    for options in ["", ",gid=4", ",hidepid=0", ",hidepid=off"] {
        assert!(check_proc(line(options).as_bytes()).is_ok(), "{options}");
    }
    for options in [",hidepid=1", ",hidepid=2,gid=4", ",hidepid=invisible", ",hidepid=4"] {
        let refused = check_proc(line(options).as_bytes());
        assert!(matches!(refused, Err(Error::Proc { .. })), "{options}");
    }
    assert!(matches!(check_proc(b""), Err(Error::Proc { .. })));
}

proptest::proptest! {
    #[test]
    fn whatever_is_mounted_beside_it_a_proc_that_hides_is_refused(bytes: Vec<u8>) {
        let _ = check_proc(&bytes);
        let hiding = b"\n25 1 0:20 / /proc rw - proc proc rw,hidepid=2\n31 22 254:1 / /mnt/";
        proptest::prop_assume!(!String::from_utf8_lossy(&bytes).contains(" /proc"));
        proptest::prop_assert!(check_proc(&[&bytes, &hiding[..], &bytes].concat()).is_err());
    }
}

#[test]
fn only_a_packages_own_directory_is_granted_with_a_program() {
    for (program, tree) in [
        ("/h/.local/bin/codex", None),
        ("/h/bin/codex", None),
        ("/usr/bin/codex", None),
        ("/h/node_modules/codex", None),
        ("/h/node_modules/@y/codex", None),
        ("/h/node_modules/x/codex", Some("/h/node_modules/x")),
        ("/h/node_modules/x/bundle/codex.js", Some("/h/node_modules/x")),
        ("/h/node_modules/@y/x/codex.js", Some("/h/node_modules/@y/x")),
        ("/h/node_modules/@y/x/bundle/codex.js", Some("/h/node_modules/@y/x")),
        ("/h/node_modules/x/node_modules/z/codex", Some("/h/node_modules/x/node_modules/z")),
        ("/h/node_modules/x/bin/codex", Some("/h/node_modules/x")),
        ("/h/node_modules/x/vendor/y/bin/codex", Some("/h/node_modules/x/vendor/y")),
    ] {
        assert_eq!(program_tree(Path::new(program)).as_deref(), tree.map(Path::new));
    }
}
