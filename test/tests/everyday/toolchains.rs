//! Toolchains below the person's home, and container engines.

use std::path::PathBuf;

use paddock_test::host::{Host, skip};

#[test]
fn what_is_granted_of_the_callers_search_path_is_found_and_nothing_else() {
    let mut host = Host::new();
    for name in ["granted", "other"] {
        host.script(&format!("{name}/bin/{name}-tool"), &format!("#!/bin/sh\necho {name} runs\n"));
    }
    std::fs::create_dir(host.home().join(".rustup")).unwrap();
    let (granted, other) = (host.home().join("granted"), host.home().join("other"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let bins =
        [granted.join("bin"), other.join("bin")].into_iter().chain(std::env::split_paths(&path));
    let path = std::env::join_paths(bins.collect::<Vec<_>>()).unwrap();
    host.set("PATH", path);
    let ask = ["granted-tool; other-tool; echo ${RUSTUP_HOME-none}"];
    let before = host.standin(&ask);
    assert_eq!(before.stdout, "none\n", "{}", before.stderr);
    host.configure(&format!(
        "[agents.standin]\nread = [{:?}, {:?}]\n",
        granted.to_str().unwrap(),
        host.home().join(".rustup").to_str().unwrap()
    ));
    for tier in ["sealed", "isolated"] {
        let run = host.standin_in(tier, &ask);
        let wanted = format!("granted runs\n{}\n", host.home().join(".rustup").display());
        assert_eq!(run.stdout, wanted, "{tier}: {}", run.stderr);
    }
}

#[test]
fn cargo_builds_with_a_toolchain_that_is_granted() {
    let toolchain = std::env::var_os("PADDOCK_TEST_RUST").map(PathBuf::from);
    let Some(toolchain) = toolchain.filter(|path| path.join("bin/cargo").is_file()) else {
        skip("PADDOCK_TEST_RUST names no Rust toolchain; scripts/test.sh sets it");
        return;
    };
    let mut host = Host::new();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let bins = std::iter::once(toolchain.join("bin")).chain(std::env::split_paths(&path));
    host.set("PATH", std::env::join_paths(bins.collect::<Vec<_>>()).unwrap());
    host.configure(&format!("[agents.standin]\nread = [{:?}]\n", toolchain.to_str().unwrap()));
    // Whether the toolchain at hand has a standard library, the build says.
    let build = "mkdir -p src && echo '#![no_std]' >src/lib.rs && \
        printf '[package]\\nname = \"one\"\\nedition = \"2021\"\\n' >Cargo.toml && \
        cargo metadata --offline --no-deps --format-version 1 >/dev/null && cargo --version && \
        rustc --version";
    let run = host.standin(&[build]);
    assert_eq!(run.code(), Some(0), "{}", run.stderr);
    assert!(run.stdout.starts_with("cargo ") && run.stdout.contains("\nrustc "), "{}", run.stdout);
}

#[test]
fn who_wants_a_container_is_told_why_there_is_none() {
    let mut host = Host::new();
    host.script("bin/docker", "#!/bin/sh\necho the real one\n");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let bins = std::iter::once(host.home().join("bin")).chain(
        std::env::split_paths(&path).filter(|directory| !directory.join("podman").is_file()),
    );
    host.set("PATH", std::env::join_paths(bins.collect::<Vec<_>>()).unwrap());
    let run = host
        .standin(&["docker run --rm alpine 2>&1; echo $?; command -v podman | grep -c paddock/"]);
    assert!(run.stdout.starts_with("paddock: there is no docker in this sandbox"), "{run:?}");
    assert!(run.stdout.contains("\n  next: run what is needed"), "{}", run.stdout);
    assert!(run.stdout.ends_with("\n1\n0\n"), "{}", run.stdout);
}
