//! The programs a launch is built from: which file, found how, which version.

use std::ffi::OsString;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use confine::proc::FileId;

use super::ask::ask;
use super::versions::{Stamp, Versions};
use super::{Config, Directories, Workspace};
use crate::error::Error;
use crate::output::shown;

/// The nono that set-up installs, and the oldest that is accepted: the first
/// with an isolated network and with `io_uring` refused under mediation.
const NONO_OLDEST: [u64; 3] = [0, 81, 0];
const NONO_OLDEST_TEXT: &str = "0.81.0";
const NONO_INSTALL: &str =
    "scripts/setup.sh installs it, or: cargo install nono-cli --version 0.81.0";
/// The versions that Paddock's own tests have run with.
pub(crate) const NONO_KNOWN: [&str; 1] = [NONO_OLDEST_TEXT];
/// The first bubblewrap with every option that the veil uses.
const BWRAP_OLDEST: [u64; 3] = [0, 8, 0];
const BWRAP_OLDEST_TEXT: &str = "0.8.0";
const BWRAP_INSTALL: &str = "install the package bubblewrap (as root: apt-get install bubblewrap, \
    or dnf install, pacman -S, apk add); or choose a lesser tier: paddock run --tier isolated";
/// A helper that does not answer its version by then hangs.
const VERSION_LIMIT: Duration = Duration::from_secs(5);

/// A program that was found.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    /// Its path, without symbolic links.
    pub(crate) path: PathBuf,
    /// Which file that is.
    pub(crate) file: FileId,
    /// What it says its version is.
    pub(crate) version: Option<String>,
    /// Where it was found: the configuration, a variable, `PATH`, set-up.
    pub(crate) source: String,
}

/// Those that every launch needs.
#[derive(Clone, Debug)]
pub(crate) struct Programs {
    pub(crate) paddock: Found,
    /// What runs inside the sandboxes.
    pub(crate) warden: Found,
    pub(crate) nono: Found,
    /// Only the sealed tier has a veil.
    pub(crate) bwrap: Option<Found>,
}

/// Where programs are looked for.
pub(crate) struct Search<'a> {
    pub(crate) config: &'a Config,
    pub(crate) directories: &'a Directories,
    /// A workspace: what lies in it an agent may have written, and is not run.
    pub(crate) workspace: Option<PathBuf>,
}

impl<'a> Search<'a> {
    /// With the workspace that a launch would have here, if it would have one.
    pub(crate) fn here(config: &'a Config, directories: &'a Directories) -> Self {
        let workspace = Workspace::find(None, directories).ok().map(|found| found.root);
        Self { config, directories, workspace }
    }

    /// nono, in the order: configuration, `PADDOCK_NONO`, `PATH`, set-up's cache.
    pub(crate) fn nono(&self) -> Result<Found, Error> {
        let cached = self.directories.cache.join(format!("nono-{NONO_OLDEST_TEXT}/bin/nono"));
        let configured = self.config.programs.nono.as_deref();
        let (path, source) = look("nono", configured, "PADDOCK_NONO", Some(&cached), NONO_INSTALL)?;
        self.with_version(
            &Wanted {
                program: "nono",
                calls_itself: "nono",
                oldest: NONO_OLDEST,
                needed: NONO_OLDEST_TEXT,
                install: NONO_INSTALL,
            },
            &path,
            source,
        )
    }

    /// bubblewrap, in the order: configuration, `PADDOCK_BWRAP`, `PATH`.
    pub(crate) fn bwrap(&self) -> Result<Found, Error> {
        let configured = self.config.programs.bwrap.as_deref();
        let (path, source) = look("bwrap", configured, "PADDOCK_BWRAP", None, BWRAP_INSTALL)?;
        self.with_version(
            &Wanted {
                program: "bwrap",
                calls_itself: "bubblewrap",
                oldest: BWRAP_OLDEST,
                needed: BWRAP_OLDEST_TEXT,
                install: BWRAP_INSTALL,
            },
            &path,
            source,
        )
    }

    /// A program that Paddock works with but does not need, on `PATH`.
    pub(crate) fn tool(&self, name: &'static str) -> Option<Result<Found, Error>> {
        let path = on_path(name)?;
        let wanted =
            Wanted { program: name, calls_itself: name, oldest: [0; 3], needed: "", install: "" };
        Some(self.with_version(&wanted, &path, "PATH".into()))
    }

    fn with_version(&self, wanted: &Wanted, path: &Path, source: String) -> Result<Found, Error> {
        let mut found = found(wanted.program, path, source)?;
        if let Some(root) = self.workspace.as_ref().filter(|root| found.path.starts_with(root)) {
            return Err(written_by_agents(root, &found.path));
        }
        let versions = Versions(&self.directories.state);
        let is_new_enough =
            |text: &String| parse_version(text).is_some_and(|(_, v)| v >= wanted.oldest);
        found.version = versions.known(wanted.program, &found.path).filter(is_new_enough);
        if found.version.is_some() {
            return Ok(found);
        }
        let asked = Stamp::of(&found.path);
        let bad = |reason: String| Error::BadProgram {
            program: wanted.program,
            path: found.path.clone(),
            reason,
        };
        let output = ask_version(&found.path).map_err(bad)?;
        let is_it = output.split_whitespace().next() == Some(wanted.calls_itself);
        let Some((text, version)) = parse_version(&output).filter(|_| is_it) else {
            return Err(bad(format!(
                "its --version says {:?}",
                confine::escape::escape_short(output.as_bytes(), 80)
            )));
        };
        if version < wanted.oldest {
            return Err(Error::ProgramTooOld {
                program: wanted.program,
                path: found.path,
                found: text,
                needed: wanted.needed,
                install: wanted.install,
            });
        }
        // Only one that is new enough: others are asked again, and say so again.
        if let Some(asked) = asked {
            versions.keep(wanted.program, asked, &text);
        }
        found.version = Some(text);
        Ok(found)
    }
}

/// A program, and what it has to say of itself.
struct Wanted {
    program: &'static str,
    /// The first word of its `--version`.
    calls_itself: &'static str,
    oldest: [u64; 3],
    needed: &'static str,
    install: &'static str,
}

/// Why a program in a workspace is not run.
pub(super) fn written_by_agents(workspace: &Path, program: &Path) -> Error {
    Error::Workspace {
        path: workspace.to_owned(),
        reason: format!(
            "it contains {}, which the agent must not be able to write; install it elsewhere",
            shown(program)
        ),
    }
}

impl Programs {
    /// Finds them, and asks each for its version where it is not known.
    ///
    /// # Errors
    /// The first that is missing, does not run, is too old, or lies in the workspace.
    pub(crate) fn find(search: &Search<'_>, with_veil: bool) -> Result<Self, Error> {
        let paddock = find_self()?;
        let found = Self {
            warden: find_warden(&paddock)?,
            paddock,
            nono: search.nono()?,
            bwrap: with_veil.then(|| search.bwrap()).transpose()?,
        };
        for own in [&found.paddock, &found.warden] {
            if let Some(root) = search.workspace.as_ref().filter(|r| own.path.starts_with(r)) {
                return Err(written_by_agents(root, &own.path));
            }
        }
        Ok(found)
    }
}

/// Paddock itself, as the kernel runs it.
pub(crate) fn find_self() -> Result<Found, Error> {
    let bad =
        |path: PathBuf, reason: String| Error::BadProgram { program: "paddock", path, reason };
    let path = std::fs::read_link("/proc/self/exe")
        .map_err(|e| bad(PathBuf::from("/proc/self/exe"), e.to_string()))?;
    let running = FileId::of_path(Path::new("/proc/self/exe"))
        .map_err(|e| bad(path.clone(), e.to_string()))?;
    // An upgrade removes the file under a running program ("(deleted)").
    if FileId::of_path(&path).ok() != Some(running) {
        return Err(bad(path, "it was replaced while running; start it again".into()));
    }
    Ok(Found {
        path,
        file: running,
        version: Some(env!("CARGO_PKG_VERSION").into()),
        source: "this program".into(),
    })
}

/// The warden beside this very paddock, with which it is built and installed.
pub(crate) fn find_warden(paddock: &Found) -> Result<Found, Error> {
    let path = paddock.path.with_file_name("paddock-warden");
    if !is_program(&path) {
        let reason = "it belongs beside paddock; build or install both again".into();
        return Err(Error::BadProgram { program: "paddock-warden", path, reason });
    }
    // Whether the two belong together it says at the gate.
    found("paddock-warden", &path, "beside paddock".into())
}

/// A place that was named must have the program: looking on would run another
/// than the person meant.
fn look(
    name: &'static str,
    configured: Option<&Path>,
    variable: &str,
    cached: Option<&Path>,
    install: &'static str,
) -> Result<(PathBuf, String), Error> {
    if let Some(path) = configured {
        return Ok((path.to_owned(), "the configuration".into()));
    }
    if let Some(path) = std::env::var_os(variable).filter(|v| !v.is_empty()) {
        return Ok((PathBuf::from(path), variable.into()));
    }
    if let Some(path) = on_path(name) {
        return Ok((path, "PATH".into()));
    }
    if let Some(path) = cached.filter(|p| is_program(p)) {
        return Ok((path.to_owned(), "set-up's cache".into()));
    }
    let mut looked = format!("[programs] {name} in the configuration, {variable}, PATH");
    if let Some(path) = cached {
        looked = format!("{looked}, {}", shown(path));
    }
    Err(Error::MissingProgram { program: name, looked, install })
}

/// The first executable file called `name` on `PATH`; relative entries are
/// passed over, since they mean another directory inside.
pub(crate) fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .filter(|directory| directory.is_absolute())
        .map(|directory| directory.join(name))
        .find(|candidate| is_program(candidate))
}

/// Whether `path` is a file that this user may execute.
pub(crate) fn is_program(path: &Path) -> bool {
    path.is_file() && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
}

/// The file at `path`, links resolved.
pub(crate) fn found(program: &'static str, path: &Path, source: String) -> Result<Found, Error> {
    let bad = |reason: String| Error::BadProgram { program, path: path.to_owned(), reason };
    let real = path.canonicalize().map_err(|e| bad(e.to_string()))?;
    if !is_program(&real) {
        return Err(bad("it is not an executable file".into()));
    }
    let file = FileId::of_path(&real).map_err(|e| bad(e.to_string()))?;
    Ok(Found { path: real, file, version: None, source })
}

/// `program --version`, with an empty environment and a deadline.
fn ask_version(program: &Path) -> Result<String, String> {
    let environment = [("NONO_NO_UPDATE_CHECK".into(), "1".into())];
    let answer =
        ask(program, &["--version".into()], &environment, Path::new("."), &[], VERSION_LIMIT);
    let answer = answer?
        .ok_or_else(|| format!("it did not tell its version in {} s", VERSION_LIMIT.as_secs()))?;
    let start = &answer.output[..answer.output.len().min(4096)];
    Ok(String::from_utf8_lossy(start).into_owned())
}

/// The first word of the form N.N or N.N.N.
fn parse_version(output: &str) -> Option<(String, [u64; 3])> {
    output.split_whitespace().find_map(|word| {
        let numeric: String =
            word.chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
        let mut parts = numeric.split('.').map(str::parse::<u64>);
        let major = parts.next()?.ok()?;
        let minor = parts.next()?.ok()?;
        let patch = parts.next().and_then(Result::ok).unwrap_or(0);
        Some((word.to_owned(), [major, minor, patch]))
    })
}

/// The program that agent `name` runs: configured, or the first of `names` on
/// `PATH`. A launcher script is followed to the native program behind it.
pub(crate) fn find_agent(
    agent: &str,
    names: &[OsString],
    native: &[String],
    configured: Option<&Path>,
) -> Result<Found, Error> {
    let start = if let Some(path) = configured {
        found("the agent", path, "the configuration".into())?
    } else {
        let by_name = names.iter().find_map(|name| {
            let path = Path::new(name);
            if path.is_absolute() {
                is_program(path).then(|| (path.to_owned(), "the agent file".to_owned()))
            } else {
                on_path(name.to_str()?).map(|p| (p, "PATH".to_owned()))
            }
        });
        let (path, source) = by_name.ok_or_else(|| Error::AgentProgram {
            agent: agent.to_owned(),
            names: names.iter().map(|n| n.to_string_lossy()).collect::<Vec<_>>().join(", "),
        })?;
        found("the agent", &path, source)?
    };
    if is_script(&start.path) {
        // bin/launcher.js: the package is two levels up.
        let package = start.path.parent().and_then(Path::parent);
        let behind =
            package.and_then(|p| native.iter().find_map(|pattern| first_match(p, pattern)));
        if let Some(path) = behind {
            return found(
                "the agent",
                &path,
                format!("{}, behind {}", start.source, shown(&start.path)),
            );
        }
    }
    Ok(start)
}

fn is_script(path: &Path) -> bool {
    let mut start = [0; 2];
    std::fs::File::open(path).and_then(|mut f| f.read_exact(&mut start)).is_ok() && &start == b"#!"
}

/// The first program below `base` that `pattern` matches; `*` stands for one
/// whole component.
fn first_match(base: &Path, pattern: &str) -> Option<PathBuf> {
    let mut candidates = vec![base.to_owned()];
    for component in pattern.split('/') {
        candidates = if component == "*" {
            let mut below: Vec<PathBuf> = candidates
                .iter()
                .flat_map(|c| std::fs::read_dir(c).into_iter().flatten().flatten())
                .map(|entry| entry.path())
                .collect();
            below.sort();
            below
        } else {
            candidates.into_iter().map(|c| c.join(component)).collect()
        };
    }
    candidates.into_iter().find(|c| is_program(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_and_compared() {
        for (output, wanted) in [
            ("nono 0.81.0", Some([0, 81, 0])),
            ("bubblewrap 0.8.0\n", Some([0, 8, 0])),
            ("nono 1.0", Some([1, 0, 0])),
            ("nono 0.81.0-rc1", Some([0, 81, 0])),
            ("nono", None),
            ("", None),
        ] {
            assert_eq!(parse_version(output).map(|v| v.1), wanted, "{output:?}");
        }
    }

    fn script(directory: &Path, name: &str, text: &str) -> PathBuf {
        use std::os::unix::fs::PermissionsExt;
        let path = directory.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
        path
    }

    #[test]
    fn the_program_behind_a_launcher_script_is_found() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        let launcher = script(&root, "pkg/bin/agent.js", "#!/usr/bin/env node\n");
        let native = root.join("pkg/vendor/x86_64/bin/agent");
        std::fs::create_dir_all(native.parent().unwrap()).unwrap();
        std::fs::copy("/proc/self/exe", &native).unwrap();
        let patterns = ["vendor/*/bin/agent".to_owned()];
        let found = find_agent("a", &[], &patterns, Some(&launcher)).unwrap();
        assert_eq!(found.path, native);
        let found = find_agent("a", &[], &[], Some(&launcher)).unwrap();
        assert_eq!(found.path, launcher, "control: without a pattern the script itself");
    }

    #[test]
    fn a_missing_agent_is_told_from_a_broken_one() {
        assert!(matches!(
            find_agent("a", &["no-such-program-here".into()], &[], None),
            Err(Error::AgentProgram { .. })
        ));
        assert!(matches!(
            find_agent("a", &[], &[], Some(Path::new("/etc/passwd"))),
            Err(Error::BadProgram { .. })
        ));
    }
}
