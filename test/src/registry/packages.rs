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

    /// As a Python package index has it (PEP 503), below `pip/simple`; and below
    /// `pip/described` with the package's metadata beside it (PEP 658).
    pub fn add_python_package(&self) {
        let metadata = "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0.0\n";
        let about = |file: &str| format!("tiny-1.0.0.dist-info/{file}");
        let files = ["METADATA", "WHEEL", "RECORD"].map(about);
        let record = format!("tiny.py,,\n{},,\n", files.join(",,\n"));
        let wheel = zip(&[
            ("tiny.py", "VALUE = 'fetched'\n"),
            (&files[0], metadata),
            (&files[1], "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"),
            (&files[2], &record),
        ]);
        let name = "tiny-1.0.0-py3-none-any.whl";
        self.write(&format!("pip/{name}"), wheel);
        self.write(&format!("pip/{name}.metadata"), metadata);
        for (index, attribute) in [("simple", ""), ("described", " data-core-metadata=\"true\"")] {
            let link = format!("<a href=\"{BASE}/pip/{name}\"{attribute}>{name}</a>");
            let page = format!("<!DOCTYPE html><html><body>{link}</body></html>\n");
            self.write(&format!("pip/{index}/tiny/index"), page);
        }
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
        let module = "module registry.test/tiny\n";
        let root = "registry.test/tiny@v1.0.0";
        let versions = "go/registry.test/tiny/@v";
        self.write(&format!("{versions}/list"), "v1.0.0\n");
        let information = json!({ "Version": "v1.0.0", "Time": "2020-01-01T00:00:00Z" });
        self.write(&format!("{versions}/v1.0.0.info"), information.to_string());
        self.write(&format!("{versions}/v1.0.0.mod"), module);
        let files =
            [(&*format!("{root}/go.mod"), module), (&*format!("{root}/tiny.go"), "package tiny\n")];
        self.write(&format!("{versions}/v1.0.0.zip"), zip(&files));
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
    let tar = ["tar", "--create", "--gzip", "--owner=0", "--group=0", "--file=-"];
    packed(&tar, files)
}

/// The same, as Python and Go have it.
fn zip(files: &[(&str, &str)]) -> Vec<u8> {
    // Written to what can be sought in: clients read such archives as they come.
    let script = "import io, sys, zipfile\n\
        held = io.BytesIO()\n\
        with zipfile.ZipFile(held, 'w') as archive:\n\
        \x20   for name in sys.argv[1:]: archive.write(name)\n\
        sys.stdout.buffer.write(held.getvalue())";
    packed(&["python3", "-c", script], files)
}

/// What `command` writes when it is given the names of these files.
fn packed(command: &[&str], files: &[(&str, &str)]) -> Vec<u8> {
    let directory = tempfile::tempdir().expect("a directory");
    for (path, text) in files {
        write(directory.path(), path, text);
    }
    let mut packing = Command::new(command[0]);
    packing.args(&command[1..]).args(files.iter().map(|(path, _)| path));
    let output = packing.current_dir(directory.path()).output().expect(command[0]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}
