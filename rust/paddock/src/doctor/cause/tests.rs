use super::*;
use crate::doctor::feature::error;

fn around() -> Surroundings {
    Surroundings::default()
}

#[test]
fn who_refuses_a_namespace_is_named_with_what_to_change() {
    let docker = Surroundings { container: Some("docker".into()), filtered: true, ..around() };
    for (surroundings, errno, reason, advice) in [
        (
            Surroundings { most_user_namespaces: Some(0), ..around() },
            Errno::NOSPC,
            "x: ENOSPC: a limit is reached (user.max_user_namespaces is 0)",
            "sysctl user.max_user_namespaces=10000",
        ),
        (
            Surroundings { most_user_namespaces: Some(i32::MAX as u64), ..around() },
            Errno::NOSPC,
            "x: ENOSPC: a limit is reached, and not user.max_user_namespaces of this namespace: \
             one around it, of a container or sandbox",
            "bwrap --disable-userns",
        ),
        (around(), Errno::NOSPC, "x: ENOSPC: a limit is reached", "max_user_namespaces=10000"),
        (
            Surroundings { unprivileged_userns_clone: Some(0), ..around() },
            Errno::PERM,
            "x: EPERM: kernel.unprivileged_userns_clone is 0",
            "sysctl kernel.unprivileged_userns_clone=1",
        ),
        (
            Surroundings { apparmor_restricts_userns: Some(1), ..around() },
            Errno::ACCESS,
            "x: EACCES: AppArmor refuses (kernel.apparmor_restrict_unprivileged_userns is 1)",
            "profile with `userns,`",
        ),
        (
            Surroundings { label: Some("user_t".into()), ..around() },
            Errno::ACCESS,
            "x: EACCES: a security module refuses, perhaps (this process is user_t)",
            "policy of that label",
        ),
        (
            docker.clone(),
            Errno::PERM,
            "x: EPERM: refused by the container (docker)",
            "--security-opt seccomp=unconfined",
        ),
        (
            docker,
            Errno::NOSYS,
            "x: ENOSYS: refused by the container (docker)",
            "--security-opt systempaths=unconfined",
        ),
        (
            Surroundings { container: Some("podman".into()), ..around() },
            Errno::PERM,
            "x: EPERM: refused, perhaps by the container (podman)",
            "unmask=ALL",
        ),
        (
            Surroundings { container: Some("lxc".into()), ..around() },
            Errno::PERM,
            "x: EPERM: refused, perhaps by the container (lxc)",
            "settings of the container (lxc)",
        ),
        (
            Surroundings {
                container: Some("docker".into()),
                filtered: true,
                first_filtered: Some(false),
                ..around()
            },
            Errno::ACCESS,
            "x: EACCES: refused by a sandbox around this shell",
            "outside of that sandbox",
        ),
        (
            Surroundings { filtered: true, ..around() },
            Errno::PERM,
            "x: EPERM: refused by a seccomp filter that this process was started with",
            "what started this shell",
        ),
        (
            Surroundings { filtered: true, ..around() },
            Errno::NOSYS,
            "x: ENOSYS: not in this kernel, or refused by a seccomp filter that this process was \
             started with",
            "what started this shell",
        ),
        (
            Surroundings { wsl: Some(1), ..around() },
            Errno::PERM,
            "x: EPERM: WSL 1 has no Linux kernel",
            "wsl --set-version",
        ),
        (around(), Errno::INVAL, "x: EINVAL: not in this kernel", "built with it"),
        (around(), Errno::PERM, "x: EPERM", "see what on this host"),
    ] {
        let refusal = surroundings.namespace_refusal("x", &error(errno));
        assert_eq!(refusal.reason, reason);
        assert!(refusal.advice.contains(advice), "{reason}: {}", refusal.advice);
    }
}

#[test]
fn surroundings_are_read_and_missing_files_say_nothing() {
    let root = tempfile::tempdir().unwrap();
    assert_eq!(Surroundings::look(root.path()), around());
    let write = |path: &str, text: &str| {
        let path = root.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write("proc/self/status", "Name:\tx\nSeccomp:\t2\nSeccomp_filters:\t1\n");
    write("proc/1/status", "Name:\tinit\nSeccomp:\t0\n");
    write("proc/sys/user/max_user_namespaces", "96365\n");
    write("proc/sys/kernel/unprivileged_userns_clone", "1\n");
    write("proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1\n");
    write("proc/sys/kernel/osrelease", "5.15.146.1-microsoft-standard-WSL2\n");
    write("proc/self/attr/current", "docker-default (enforce)\n");
    write("run/systemd/container", "lxc\n");
    let found = Surroundings {
        container: Some("lxc".into()),
        wsl: Some(2),
        filtered: true,
        first_filtered: Some(false),
        most_user_namespaces: Some(96365),
        unprivileged_userns_clone: Some(1),
        apparmor_restricts_userns: Some(1),
        label: Some("docker-default (enforce)".into()),
    };
    assert_eq!(Surroundings::look(root.path()), found);
    write("proc/sys/kernel/osrelease", "4.4.0-19041-Microsoft\n");
    write("run/.containerenv", "");
    write("proc/self/attr/current", "unconfined\n\0");
    let other = Surroundings::look(root.path());
    assert_eq!((other.wsl, other.container.as_deref()), (Some(1), Some("podman")));
    assert_eq!(other.label, None);
    write(".dockerenv", "");
    assert_eq!(Surroundings::look(root.path()).container.as_deref(), Some("docker"));
}
