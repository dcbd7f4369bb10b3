//! `paddock run`.

use std::ffi::OsString;

use confine::escape::escape;

use crate::agent::Agent;
use crate::cli::{How, Run};
use crate::error::Error;
use crate::keeper;
use crate::launch::{Config, Directories, Form, Plan, Request};
use crate::notices::Notices;
use crate::output::{print, quoted, shown};
use crate::pins::{self, Outcome, Subject};

/// Launches an agent, or shows what would be launched.
pub(crate) fn run(options: Run) -> Result<u8, Error> {
    launch(options.how, |_| {
        Ok(Request {
            agent: options.agent,
            workspace: options.workspace,
            tier: options.tier,
            form: options.solo.then_some(Form::Solo),
            arguments: options.arguments,
            ..Request::default()
        })
    })
}

/// Launches what `request` asks for, or shows what would be launched.
pub(super) fn launch(
    how: How,
    request: impl FnOnce(&Directories) -> Result<Request, Error>,
) -> Result<u8, Error> {
    let notices = Notices::new(how.json);
    match try_to_launch(how, request, notices) {
        // A script reads an object from every line, the last one, too.
        Err(error) if notices.are_json() => {
            notices.failed(&error);
            Ok(error.status())
        }
        result => result,
    }
}

fn try_to_launch(
    how: How,
    request: impl FnOnce(&Directories) -> Result<Request, Error>,
    notices: Notices,
) -> Result<u8, Error> {
    let directories = Directories::find()?;
    let config = Config::load(&directories.config_file())?;
    let request = request(&directories)?;
    let plan = Plan::make(&request, &config, &directories)?;
    if let Some(unread) = directories.unread_config_file() {
        let file = shown(&directories.config_file());
        notices.warn(&format!("the configuration is {file}; {} is not read", shown(&unread)));
    }
    if let Some(project) = &plan.project {
        let (file, told) = (shown(&project.path), project.told());
        notices.warn(&format!("the project file {file} sets {told}"));
    }
    if plan.agent.is_known_to_work() == Some(false) {
        notices.warn(&not_known_to_work(&plan.agent));
    }
    for what in plan.told_of_git() {
        notices.warn(&what);
    }
    if !plan.shared.is_empty() {
        let own: Vec<String> = plan.shared_directories().into_iter().map(shown).collect();
        let own = own.join(", ");
        notices.warn(&format!(
            "state = \"shared\": {} works in your own {own}: what it puts there, hooks and MCP \
             servers included, runs unconfined when you start it without paddock",
            plan.agent.called()
        ));
    }
    if let Some((launch, recorded)) = &request.recorded
        && *recorded != plan.tier
    {
        let (tier, is_asked) = (plan.tier, request.tier.is_some());
        let hint =
            if is_asked { String::new() } else { format!("; --tier {recorded} asks for it") };
        notices.warn(&format!("the tier is {tier}, not {recorded} as of launch {launch}{hint}"));
    }
    if let Some(word) = alone_without_git(&request, &plan) {
        notices.warn(&format!(
            "there is no git repository in {}: {} {} is started as one process, as with --solo, \
             since its client would not show all of the answer",
            shown(&plan.workspace.root),
            plan.agent.called(),
            shown(word.as_ref()),
        ));
    }
    if how.dry_run {
        let description = plan.describe();
        if how.json {
            print(format_args!("{description}"))?;
        } else {
            print_plan(&description)?;
        }
        return Ok(0);
    }
    let pinned = pins::at_launch(Subject::from(&plan), &directories, plan.on_program_change)?;
    if let Outcome::Changed { notices: told, .. } = &pinned.outcome {
        for what in told {
            notices.warn(what);
        }
    }
    keeper::run(&plan, &directories, notices, &pinned)
}

/// The person's first argument, where the one process is started for it in place of a pair
/// and would not be in a repository.
fn alone_without_git<'a>(request: &'a Request, plan: &Plan) -> Option<&'a OsString> {
    let (first, solo) = (request.arguments.first()?, plan.agent.file.solo.as_ref()?);
    let is_first = |words: &[String]| words.iter().any(|word| first == word.as_str());
    let is_chosen = request.form.is_none() && !request.resume && plan.form == Form::Solo;
    let is_for_want_of_it = is_first(&solo.without_git) && !is_first(&solo.instead_for);
    (is_chosen && is_for_want_of_it && !plan.workspace.is_git()).then_some(first)
}

/// What is said of an agent whose program is another than its file is known to work with.
fn not_known_to_work(agent: &Agent) -> String {
    let version = agent.version.as_ref().map(ToString::to_string).unwrap_or_default();
    let known = agent.file.program.versions.as_ref();
    let known = known.map(ToString::to_string).unwrap_or_default();
    let safe = |text: &str| escape(text.as_bytes()).to_string();
    format!(
        "{} {} is not a version that its agent file is known to work with ({})",
        agent.called(),
        safe(&version),
        safe(&known)
    )
}

fn print_plan(plan: &serde_json::Value) -> Result<(), Error> {
    let safe = |text: &str| escape(text.as_bytes()).to_string();
    let text = |key: &str| safe(plan[key].as_str().unwrap_or_default());
    print(format_args!("agent      {} ({})", text("agent"), text("program")))?;
    let known = match plan["knownToWork"].as_bool() {
        Some(true) => ", known to work",
        Some(false) => ", not known to work",
        None => "",
    };
    print(format_args!(
        "version    {}{known}",
        safe(plan["version"].as_str().unwrap_or("unknown"))
    ))?;
    print(format_args!("workspace  {}", text("workspace")))?;
    print(format_args!("tier       {}", text("tier")))?;
    print(format_args!("AF_UNIX    {}", text("unixRace")))?;
    let words = |value: &serde_json::Value| -> String {
        let words = value.as_array().into_iter().flatten().filter_map(|word| word.as_str());
        words.map(|word| quoted(&safe(word))).collect::<Vec<_>>().join(" ")
    };
    for layer in ["veil", "pen", "server", "client"] {
        let argv = &plan["layers"][layer];
        if !argv.is_null() {
            print(format_args!("\n{layer} layer\n  {}", words(argv)))?;
        }
    }
    let server = match plan["form"].as_str() {
        Some("pair") => "agent's server",
        Some("shell") => "shell",
        Some("login") => "sign-in",
        _ => "agent",
    };
    for (title, key) in [(server, "agentServer"), ("agent's client", "agentClient")] {
        if plan[key].is_null() {
            continue;
        }
        print(format_args!("\n{title}\n  {}", words(&plan[key]["argv"])))?;
        print(format_args!("  variables: {}", words(&plan[key]["environment"])))?;
    }
    let git = &plan["git"];
    print(format_args!("\ngrants"))?;
    for grant in plan["grants"].as_array().into_iter().flatten() {
        let field = |key: &str| safe(grant[key].as_str().unwrap_or_default());
        print(format_args!("  {:<7} {:<10} {}", field("layer"), field("access"), field("path")))?;
    }
    for shared in plan["shared"].as_array().into_iter().flatten() {
        let field = |key: &str| safe(shared[key].as_str().unwrap_or_default());
        let (layer, path, at) = (field("layer"), field("path"), field("at"));
        print(format_args!("  {layer:<7} {:<10} {path} at {at}", "shared"))?;
    }
    print(format_args!(
        "\ngit        {} hooks and settings",
        safe(git["settings"].as_str().unwrap_or_default())
    ))?;
    for path in git["readOnly"].as_array().into_iter().flatten() {
        print(format_args!("  read-only {}", safe(path.as_str().unwrap_or_default())))?;
    }
    print(format_args!("\nports      {}", plan["ports"]))?;
    print(format_args!("hosts      {}", words(&plan["hosts"])))
}
