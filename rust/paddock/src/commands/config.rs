//! `paddock config`.

use std::path::Path;

use confine::escape::escape;
use serde_json::{Value, json};

use crate::cli::{Config, ConfigCommand, Show};
use crate::error::Error;
use crate::launch::{Directories, HostRow, Origin, Row, Sources, load_agent};
use crate::output::{print, shown};

/// Shows what is in force.
pub(crate) fn config(options: &Config) -> Result<u8, Error> {
    let directories = Directories::find()?;
    match &options.command {
        ConfigCommand::Path => print(shown(&directories.config_file()))?,
        ConfigCommand::Show(options) => show(options, &directories)?,
    }
    Ok(0)
}

fn show(options: &Show, directories: &Directories) -> Result<(), Error> {
    let sources = Sources::here(directories)?;
    let configured = sources.config.agent.as_deref();
    let name = options.agent.as_deref().or(configured).unwrap_or("standin");
    let agent = load_agent(name, &sources.config, directories)?;
    let rows = sources.rows(name);
    let hosts = sources.hosts(name, &agent)?;
    let project = sources.config.project.as_ref();
    let unread = directories.unread_config_file();
    if options.json {
        return print(json!({
            "schema": 1,
            "file": shown(&sources.file),
            "exists": sources.is_there(),
            "unread": unread.as_deref().map(shown),
            "projectFile": project.map(|project| shown(&project.path)),
            "agent": name,
            "keys": rows.iter().map(row_as_json).collect::<Vec<_>>(),
            "hosts": hosts.iter().map(host_as_json).collect::<Vec<_>>(),
        }));
    }
    let is_there = if sources.is_there() { "" } else { " (there is none)" };
    print(format_args!("configuration  {}{is_there}", shown(&sources.file)))?;
    if let Some(unread) = unread {
        print(format_args!("not read       {}", shown(&unread)))?;
    }
    if let Some(project) = project {
        print(format_args!("project file   {}", shown(&project.path)))?;
    }
    let cells: Vec<[String; 3]> = rows.iter().map(cells).collect();
    print("")?;
    table(&cells)?;
    print(format_args!("\nhosts of {name}"))?;
    if hosts.is_empty() {
        print("none, until you grant one")?;
    }
    let cells: Vec<[String; 3]> = hosts.iter().map(host_cells).collect();
    table(&cells)
}

/// Columns as wide as what is in them, within reason.
fn table(rows: &[[String; 3]]) -> Result<(), Error> {
    let width = |column: usize| {
        let widths = rows.iter().map(|row| row[column].chars().count());
        widths.filter(|width| *width <= 40).max().unwrap_or(0)
    };
    let (first, second) = (width(0), width(1));
    for [name, value, from] in rows {
        print(format_args!("{name:<first$}  {value:<second$}  {from}"))?;
    }
    Ok(())
}

fn cells(row: &Row) -> [String; 3] {
    let value = row.value.as_ref().map_or_else(|| "-".to_owned(), written);
    let fewer = row.fewer_by.as_ref().map(|by| format!("; fewer by {}", told(by)));
    [safe(&row.name), value, told(&row.origin) + &fewer.unwrap_or_default()]
}

fn host_cells(row: &HostRow) -> [String; 3] {
    let remains = row.remains.join(", ");
    let remains = match remains.as_str() {
        "" => "taken away by the project file".to_owned(),
        same if same == row.host => "reached".to_owned(),
        less => format!("reached: {less}"),
    };
    [safe(&row.host), remains, told(&row.origin)]
}

/// As it would stand in the file.
fn written(value: &Value) -> String {
    let value = toml::Value::try_from(value).map(|value| value.to_string());
    safe(&value.unwrap_or_default())
}

fn safe(text: &str) -> String {
    escape(text.as_bytes()).to_string()
}

fn told(origin: &Origin) -> String {
    match origin {
        Origin::Default => "default".into(),
        Origin::File(path, line) | Origin::Project(path, line) => {
            format!("{}:{line}", shown(path))
        }
        Origin::Variable(name) => (*name).into(),
        Origin::AgentFile(None) => "agent file (shipped)".into(),
        Origin::AgentFile(Some(directory)) => {
            format!("agent file {}", shown(&directory.join("agent.toml")))
        }
    }
}

fn row_as_json(row: &Row) -> Value {
    with_origin(
        json!({
            "name": row.name, "value": row.value, "default": row.default,
            "fewerBy": row.fewer_by.as_ref().map(told),
        }),
        &row.origin,
    )
}

fn host_as_json(row: &HostRow) -> Value {
    with_origin(json!({ "host": row.host, "remains": row.remains }), &row.origin)
}

fn with_origin(mut value: Value, origin: &Origin) -> Value {
    let text = |path: &Path| json!(path.to_string_lossy());
    let (from, path, line, variable) = match origin {
        Origin::Default => ("default", Value::Null, Value::Null, Value::Null),
        Origin::File(path, line) => ("file", text(path), json!(line), Value::Null),
        Origin::Project(path, line) => ("project", text(path), json!(line), Value::Null),
        Origin::Variable(name) => ("variable", Value::Null, Value::Null, json!(name)),
        Origin::AgentFile(path) => {
            ("agent-file", path.as_deref().map_or(Value::Null, text), Value::Null, Value::Null)
        }
    };
    value["from"] = json!(from);
    value["path"] = path;
    value["line"] = line;
    value["variable"] = variable;
    value
}
