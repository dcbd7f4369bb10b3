//! The paths that a person grants an agent's server: which of them may be granted,
//! checked alike when one is kept and when a launch is made.

use std::path::{Path, PathBuf};

use super::plan::{Access, Grant, program_tree};
use super::programs::Search;
use super::{Config, Directories, Found, Programs, Tier, agent_program, load_agent};
use crate::error::Error;
use crate::output::shown;

/// What no path that is granted may hold.
pub(crate) struct Kept {
    /// Paddock's own directories.
    own: Vec<PathBuf>,
    /// Programs that run outside the agent's sandbox, and the agent's own.
    programs: Vec<PathBuf>,
    /// The package that the agent's program is of.
    package: Option<PathBuf>,
}

impl Kept {
    /// That of a launch with these programs.
    pub(crate) fn new(directories: &Directories, programs: &Programs, agent: &Found) -> Self {
        let found = [&programs.paddock, &programs.warden, &programs.nono, agent];
        let found = found.into_iter().chain(programs.bwrap.as_ref());
        Self {
            own: directories.own(),
            programs: found.map(|found| found.path.clone()).collect(),
            package: program_tree(&agent.path),
        }
    }

    /// That of the launches that the agent `name` would have here.
    ///
    /// # Errors
    /// When there is no such agent, or one of the programs is not there.
    pub(crate) fn of_agent(
        name: &str,
        tier: Tier,
        config: &Config,
        directories: &Directories,
    ) -> Result<Self, Error> {
        let search = Search { config, directories, workspace: None };
        let programs = Programs::find(&search, tier.has_veil())?;
        let agent = load_agent(name, config, directories)?;
        let program = agent_program(&agent, &programs.paddock, config.agents.get(name))?;
        Ok(Self::new(directories, &programs, &program))
    }

    /// What `path` leads to, if that may be granted.
    ///
    /// # Errors
    /// Why it may not.
    pub(crate) fn check(&self, path: &Path, access: Access) -> Result<PathBuf, String> {
        let is_usable = |path: &Path| path.to_str().is_some_and(|text| !text.contains(','));
        let real = path.canonicalize().map_err(|e| e.to_string())?;
        if !path.is_absolute() || !is_usable(path) || !is_usable(&real) {
            return Err("it is not absolute, not UTF-8, or has a comma, which nono takes for \
                a separator"
                .into());
        }
        if self.own.iter().any(|own| own.starts_with(&real) || real.starts_with(own)) {
            return Err("Paddock keeps its own things there".into());
        }
        if access == Access::ReadWrite {
            if let Some(held) = self.programs.iter().find(|program| program.starts_with(&real)) {
                let held = shown(held);
                return Err(format!("it holds {held}, which the agent must not be able to write"));
            }
            if self.package.as_ref().is_some_and(|package| real.starts_with(package)) {
                return Err("the agent's own program is of that package".into());
            }
        }
        Ok(real)
    }

    /// The paths that the configuration grants an agent's server, as every agent's or
    /// by its own settings; each must be there,
    /// since nono passes over what is not. Each must be its own real path, too: the
    /// agent may be able to have a link there lead elsewhere.
    pub(super) fn grants(
        &self,
        config: &Config,
        agent: &str,
        directories: &Directories,
    ) -> Result<Vec<Grant>, Error> {
        let everybodys = &config.grants;
        let own = config.agents.get(agent);
        let to_read = everybodys.read.iter().chain(own.into_iter().flat_map(|own| &own.read));
        let to_write = everybodys.write.iter().chain(own.into_iter().flat_map(|own| &own.write));
        let to_read = to_read.map(|path| (Access::Read, path));
        let asked = to_read.chain(to_write.map(|path| (Access::ReadWrite, path)));
        asked
            .map(|(access, path)| {
                let unusable = |reason: String| Error::Configuration {
                    path: directories.config_file(),
                    reason: format!("the path {}: {reason}", shown(path)),
                };
                let real = self.check(path, access).map_err(unusable)?;
                if real != *path {
                    return Err(unusable(format!(
                        "it leads to {0}; write {0} in its place if you mean that, else remove it",
                        shown(&real)
                    )));
                }
                let is_file = !real.is_dir();
                Ok(Grant { layer: "server", access, path: real, is_file })
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::config::{AgentSettings, PathGrants};
    use super::*;

    fn kept(root: &Path) -> Kept {
        let directories = Directories::below(&root.join("own"));
        let programs = vec![root.join("programs/bin/nono")];
        Kept { own: directories.own(), programs, package: Some(root.join("package")) }
    }

    #[test]
    fn what_holds_paddocks_things_or_programs_is_not_granted() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        for made in ["real/own/cache/nono", "programs/bin", "package/lib", "notes", "a,b"] {
            std::fs::create_dir_all(root.join(made)).unwrap();
        }
        // Paddock's directories by a link: what counts is where they are.
        std::os::unix::fs::symlink(root.join("real/own"), root.join("own")).unwrap();
        let kept = kept(&root);
        let check = |path: &str, access| kept.check(&root.join(path), access).is_ok();
        for (path, read, write) in [
            ("notes", true, true),
            ("own/cache/nono", false, false),
            ("real/own/cache/nono", false, false),
            ("real", false, false),
            ("", false, false),
            ("programs/bin", true, false),
            ("programs", true, false),
            ("package/lib", true, false),
            ("a,b", false, false),
            ("missing", false, false),
        ] {
            assert_eq!(check(path, Access::Read), read, "{path}");
            assert_eq!(check(path, Access::ReadWrite), write, "{path}");
        }
    }

    #[test]
    fn a_name_that_leads_elsewhere_is_refused_by_a_launch() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        let kept = kept(&root);
        let directories = Directories::below(&root.join("own"));
        let notes = root.join("notes");
        let settings = AgentSettings { read: vec![notes.clone()], ..AgentSettings::default() };
        let own = Config { agents: [("codex".to_owned(), settings)].into(), ..Config::default() };
        let grants = PathGrants { read: vec![notes.clone()], write: Vec::new() };
        let everybodys = Config { grants, ..Config::default() };
        std::fs::create_dir(&notes).unwrap();
        let found = |config: &Config, agent| kept.grants(config, agent, &directories);
        assert_eq!(found(&own, "codex").unwrap()[0].path, notes, "control");
        assert_eq!(found(&own, "other").unwrap(), []);
        assert_eq!(found(&everybodys, "other").unwrap()[0].path, notes);
        std::fs::rename(&notes, root.join("other")).unwrap();
        std::os::unix::fs::symlink(root.join("other"), &notes).unwrap();
        let other = root.join("other").display().to_string();
        for config in [&own, &everybodys] {
            let refused = found(config, "codex").unwrap_err().to_string();
            assert!(refused.contains(&format!("it leads to {other}; write {other}")), "{refused}");
        }
        // When it is granted the person is shown where it leads.
        assert_eq!(kept.check(&notes, Access::Read).unwrap(), root.join("other"));
    }
}
