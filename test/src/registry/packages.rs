//! The package `tiny` 1.0.0, as each kind of registry has it.

use std::path::Path;
use std::process::Command;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use sha2::{Digest, Sha256, Sha512};

use super::{BASE, Registry};

impl Registry {
    /// As npm's registry has it, below `npm/`.
    pub fn add_npm_package(&self) {
        let manifest = json!({ "name": "tiny", "version": "1.0.0", "main": "index.js" });
        let archive = archive(&[
            ("package/package.json", &manifest.to_string()),
            ("package/index.js", "module.exports = 'fetched'\n"),
        ]);
        let integrity = format!("sha512-{}", STANDARD.encode(Sha512::digest(&archive)));
        self.write("npm/tiny/-/tiny-1.0.0.tgz", &archive);
        let dist = json!({
            "tarball": format!("{BASE}/npm/tiny/-/tiny-1.0.0.tgz"), "integrity": integrity,
        });
        let packument = json!({
            "name": "tiny", "dist-tags": { "latest": "1.0.0" },
            "time": { "1.0.0": "2020-01-01T00:00:00.000Z" },
            "versions": { "1.0.0": {
                "name": "tiny", "version": "1.0.0", "main": "index.js", "dist": dist,
            } },
        });
        self.write("npm/tiny/index", packument.to_string());
    }

    /// As a Python package index has it (PEP 503), below `pip/`.
    pub fn add_python_package(&self) {
        let directory = tempfile::tempdir().expect("a directory");
        let information = "tiny-1.0.0.dist-info";
        write(directory.path(), "tiny.py", "VALUE = 'fetched'\n");
        write(
            directory.path(),
            &format!("{information}/METADATA"),
            "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0.0\n",
        );
        write(
            directory.path(),
            &format!("{information}/WHEEL"),
            "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        );
        write(
            directory.path(),
            &format!("{information}/RECORD"),
            &format!(
                "tiny.py,,\n{information}/METADATA,,\n{information}/WHEEL,,\n{information}/RECORD,,\n"
            ),
        );
        let wheel = "tiny-1.0.0-py3-none-any.whl";
        self.write(&format!("pip/{wheel}"), "");
        zip(&self.files().join("pip").join(wheel), directory.path(), &["tiny.py", information]);
        self.write(
            "pip/simple/tiny/index",
            format!("<!DOCTYPE html><html><body><a href=\"{BASE}/pip/{wheel}\">{wheel}</a></body></html>\n"),
        );
    }

    /// As a sparse index of cargo's has it, below `cargo/`.
    pub fn add_crate(&self) {
        let manifest = "[package]\nname = \"tiny\"\nversion = \"1.0.0\"\nedition = \"2021\"\n";
        let archive =
            archive(&[("tiny-1.0.0/Cargo.toml", manifest), ("tiny-1.0.0/src/lib.rs", "\n")]);
        let checksum = Sha256::digest(&archive).iter().fold(String::new(), |mut text, byte| {
            use std::fmt::Write;
            let _ = write!(text, "{byte:02x}");
            text
        });
        self.write("cargo/tiny-1.0.0.crate", &archive);
        let config = json!({ "dl": format!("{BASE}/cargo/{{crate}}-{{version}}.crate") });
        self.write("cargo/config.json", config.to_string());
        let entry = json!({
            "name": "tiny", "vers": "1.0.0", "deps": [], "cksum": checksum, "features": {},
            "yanked": false,
        });
        self.write("cargo/ti/ny/tiny", entry.to_string());
    }

    /// As a proxy of Go modules has it, below `go/`.
    pub fn add_go_module(&self) {
        let directory = tempfile::tempdir().expect("a directory");
        let module = "module registry.test/tiny\n";
        let root = "registry.test/tiny@v1.0.0";
        write(directory.path(), &format!("{root}/go.mod"), module);
        write(directory.path(), &format!("{root}/tiny.go"), "package tiny\n");
        let versions = "go/registry.test/tiny/@v";
        self.write(&format!("{versions}/list"), "v1.0.0\n");
        let information = json!({ "Version": "v1.0.0", "Time": "2020-01-01T00:00:00Z" });
        self.write(&format!("{versions}/v1.0.0.info"), information.to_string());
        self.write(&format!("{versions}/v1.0.0.mod"), module);
        let archive = self.write(&format!("{versions}/v1.0.0.zip"), "");
        zip(&archive, directory.path(), &["registry.test"]);
    }

    /// A repository with one commit, for clients that know no protocol of git's but
    /// files, at `git/tiny.git`. The names of its objects.
    pub fn add_repository(&self) -> Vec<String> {
        let work = tempfile::tempdir().expect("a directory");
        write(work.path(), "file", "fetched\n");
        let git = |arguments: &[&str]| {
            let output = Command::new("git")
                .env("GIT_CONFIG_GLOBAL", "/dev/null")
                .env("GIT_CONFIG_SYSTEM", "/dev/null")
                .args(["-c", "user.name=Test", "-c", "user.email=test@example.org"])
                .args(arguments)
                .current_dir(work.path())
                .output()
                .expect("git");
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            String::from_utf8(output.stdout).expect("UTF-8")
        };
        git(&["init", "--quiet", "--initial-branch=main"]);
        git(&["add", "file"]);
        git(&["commit", "--quiet", "--message=first"]);
        // What lists the references for who cannot list a directory.
        git(&["update-server-info"]);
        std::fs::create_dir(self.files().join("git")).expect("a directory");
        let to = self.files().join("git/tiny.git");
        let copied = Command::new("cp").arg("-R").arg(work.path().join(".git")).arg(to).status();
        assert!(copied.is_ok_and(|status| status.success()), "cp");
        let objects = git(&["rev-list", "--objects", "--no-object-names", "--all"]);
        objects.lines().map(str::to_owned).collect()
    }
}

fn write(directory: &Path, path: &str, text: &str) {
    let path = directory.join(path);
    std::fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
    std::fs::write(path, text).expect("a file");
}

/// A compressed archive of these files.
fn archive(files: &[(&str, &str)]) -> Vec<u8> {
    let directory = tempfile::tempdir().expect("a directory");
    for (path, text) in files {
        write(directory.path(), path, text);
    }
    let output = Command::new("tar")
        .args(["--create", "--gzip", "--owner=0", "--group=0", "--file=-"])
        .args(files.iter().map(|(path, _)| path))
        .current_dir(directory.path())
        .output();
    output.expect("tar").stdout
}

/// Puts these, directories with all that is in them, of `directory` into the archive `to`.
fn zip(to: &Path, directory: &Path, names: &[&str]) {
    let mut command = Command::new("python3");
    command.args(["-m", "zipfile", "-c"]).arg(to).args(names).current_dir(directory);
    assert!(command.status().is_ok_and(|status| status.success()), "python3 makes an archive");
}
