//! `paddock import`.

use std::io::{BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::bytes;
use crate::agent::{self, Agent};
use crate::cli::Import;
use crate::error::{Error, status};
use crate::import::{File, Gathered, Placed, Source, gather, is_there, place};
use crate::launch::{Config, Directories, make_private_home, private_home};
use crate::output::{complain, print, quoted, shown};

/// Copies a person's own configuration of an agent into its private home; 0 when nothing
/// of what was to be copied failed.
pub(crate) fn import(options: &Import) -> Result<u8, Error> {
    // Root's files in a person's home would be in the person's way.
    if rustix::process::geteuid().is_root() {
        return Err(Error::Root);
    }
    let directories = Directories::find()?;
    let agent = agent::load(&options.agent, &directories.agents())?;
    let config = Config::load(&directories.config_file())?;
    let refuse = |reason: String| Error::Import { agent: options.agent.clone(), reason };
    if config.agents.get(&options.agent).is_some_and(|settings| settings.state.is_shared()) {
        return Err(refuse("it works with your own state: there is nothing to copy".into()));
    }
    let wanted = agent.file.import.as_ref();
    let wanted =
        wanted.ok_or_else(|| refuse("its agent file does not say what: [import]".into()))?;
    let home = options.from.clone().unwrap_or_else(|| directories.home.clone());
    let source = Source { home, follow_links: options.follow_links };
    let gathered =
        gather(wanted, &source).map_err(|e| refuse(format!("{}: {e}", shown(&source.home))))?;
    let importing = Importing { options, directories: &directories, agent: &agent, gathered };
    importing.run(&source.home)
}

/// What came of a file.
enum Outcome {
    Would,
    Placed(Placed),
    Failed(String),
}

struct Importing<'a> {
    options: &'a Import,
    directories: &'a Directories,
    agent: &'a Agent,
    gathered: Gathered,
}

impl Importing<'_> {
    fn run(&self, from: &Path) -> Result<u8, Error> {
        let files = &self.gathered.files;
        if !self.options.json {
            self.show(from)?;
        }
        let is_to_do = files.iter().any(|file| self.before(file).is_none());
        let goes_on = is_to_do && !self.options.dry_run && (self.options.yes || self.is_wanted());
        let outcomes: Vec<Outcome> = if goes_on {
            files.iter().map(|file| self.copy(file)).collect()
        } else {
            let before = |file| self.before(file).map_or(Outcome::Would, Outcome::Placed);
            files.iter().map(before).collect()
        };
        let failed = outcomes.iter().any(|outcome| matches!(outcome, Outcome::Failed(_)));
        let is_done = !failed && (goes_on || !is_to_do || self.options.dry_run);
        if self.options.json {
            print(self.value(from, &outcomes, goes_on))?;
        } else if goes_on {
            self.tell(&outcomes)?;
        } else if !is_to_do {
            print("there is nothing to copy")?;
        }
        if !is_done && !failed {
            complain(format_args!(
                "nothing was copied\n  next: paddock import {} --yes",
                quoted(&self.options.agent)
            ));
        }
        Ok(if is_done { 0 } else { status::FAILED })
    }

    fn home_of(&self, file: &File) -> PathBuf {
        private_home(&self.directories.data, self.agent, file.home.name())
    }

    /// What is known of a file without doing anything.
    fn before(&self, file: &File) -> Option<Placed> {
        let is_in_the_way = !self.options.replace && is_there(&self.home_of(file), &file.to);
        is_in_the_way.then_some(Placed::There)
    }

    fn copy(&self, file: &File) -> Outcome {
        let home = self.home_of(file);
        let made = make_private_home(self.directories, self.agent, &home);
        if let Err(e) = made {
            return Outcome::Failed(e.to_string());
        }
        let placed = place(&home, &file.to, &file.text, file.is_program, self.options.replace);
        placed.map_or_else(|e| Outcome::Failed(e.to_string()), Outcome::Placed)
    }

    /// Asks the person, where there is one.
    fn is_wanted(&self) -> bool {
        let (input, error) = (std::io::stdin(), std::io::stderr());
        if self.options.json || !input.is_terminal() || !error.is_terminal() {
            return false;
        }
        let _ = write!(error.lock(), "copy this into the agent's private home? [y/N] ");
        let mut answer = String::new();
        let _ = input.lock().read_line(&mut answer);
        matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes")
    }

    fn show(&self, from: &Path) -> Result<(), Error> {
        let Gathered { files, left, executed } = &self.gathered;
        let name = |path: &Path| path_below(path, from);
        print(format_args!("agent  {}", self.options.agent))?;
        print(format_args!("from   {}", shown(from)))?;
        let home = private_home(&self.directories.data, self.agent, "server");
        print(format_args!("into   {}", shown(home.parent().unwrap_or(&home))))?;
        if !files.is_empty() {
            print("\nto be copied")?;
        }
        for file in files {
            let there = match self.before(file) {
                Some(_) => "; is there already, and stays: --replace takes its place",
                None => "",
            };
            let leads = file.leads_to.as_deref();
            let leads = leads.map_or(String::new(), |to| format!("; from {}", shown(to)));
            let (size, home) = (bytes(file.text.len() as u64), file.home.name());
            print(format_args!(
                "  {}  to the {home}'s {} ({size}){leads}{there}",
                name(&file.from),
                shown(&file.to)
            ))?;
        }
        if !left.is_empty() {
            print("\nnot copied")?;
        }
        for left in left {
            print(format_args!("  {}  {}", name(&left.path), left.reason))?;
        }
        if !executed.is_empty() {
            print(
                "\nexecuted by the agent, in its sandbox: what is not there, or needs a host that \
                 is not granted, fails",
            )?;
        }
        for executed in executed {
            print(format_args!("  {}  {}", name(&executed.file), executed.what))?;
        }
        print("")
    }

    fn tell(&self, outcomes: &[Outcome]) -> Result<(), Error> {
        let mut copied = 0;
        for (file, outcome) in self.gathered.files.iter().zip(outcomes) {
            match outcome {
                Outcome::Placed(Placed::Copied) => copied += 1,
                Outcome::Placed(Placed::Replaced(aside)) => {
                    copied += 1;
                    let (to, aside) = (shown(&file.to), shown(Path::new(aside)));
                    print(format_args!(
                        "what was at {to} in the {}'s home is {aside} now",
                        file.home.name()
                    ))?;
                }
                Outcome::Failed(why) => {
                    complain(format_args!("{} was not copied: {why}", shown(&file.from)));
                }
                Outcome::Placed(Placed::There) | Outcome::Would => {}
            }
        }
        print(format_args!("{copied} files were copied"))
    }

    fn value(&self, from: &Path, outcomes: &[Outcome], is_done: bool) -> Value {
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let files = self.gathered.files.iter().zip(outcomes).map(|(file, outcome)| {
            let (outcome, aside, error) = match outcome {
                Outcome::Would => ("would-copy", None, None),
                Outcome::Placed(Placed::Copied) => ("copied", None, None),
                Outcome::Placed(Placed::There) => ("there-already", None, None),
                Outcome::Placed(Placed::Replaced(aside)) => {
                    ("replaced", Some(text(Path::new(aside))), None)
                }
                Outcome::Failed(why) => ("failed", None, Some(why)),
            };
            json!({
                "from": text(&file.from), "leadsTo": file.leads_to.as_deref().map(text),
                "home": file.home.name(), "to": text(&file.to), "bytes": file.text.len(),
                "outcome": outcome, "backup": aside, "error": error,
            })
        });
        let left = self.gathered.left.iter();
        let left = left.map(|left| json!({ "path": text(&left.path), "reason": left.reason }));
        let executed = self.gathered.executed.iter();
        let executed = executed.map(|e| json!({ "file": text(&e.file), "what": e.what }));
        json!({
            "schema": 1, "agent": self.options.agent, "from": text(from), "done": is_done,
            "files": files.collect::<Vec<_>>(), "left": left.collect::<Vec<_>>(),
            "executed": executed.collect::<Vec<_>>(),
        })
    }
}

/// A path for a person, its home as `~`; escaped.
fn path_below(path: &Path, home: &Path) -> String {
    let real = home.canonicalize();
    let below = real.ok().and_then(|real| path.strip_prefix(real).ok().map(Path::to_owned));
    below.map_or_else(|| shown(path), |below| format!("~/{}", shown(&below)))
}
