//! The matrix: the same operations in five places, each beside its control.

mod explained;
mod ground;
mod proxied;
mod rows;
mod show;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use confine::{Layer, Pid};
use serde_json::{Value, json};
use warden::{AttemptKind, Observation};

use super::errno;
use crate::agent;
use crate::error::Error;
use crate::files::read_plain;
use crate::keeper::{self, Events, SurveyedEgress};
use crate::launch::{Config, Directories, Plan, Request, Tier, find_self, find_warden};
use ground::Ground;
use rows::{Expected, PLACES, Place, Row};

pub(crate) use show::show;

/// As large as an agent's own profile may be.
const MOST_PROFILE: u64 = 1 << 20;

/// What happened in one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cell {
    pub(crate) expected: Expected,
    pub(crate) observed: Observation,
}

impl Cell {
    fn is_as_expected(self) -> bool {
        match self.expected {
            Expected::Either => true,
            Expected::Works => self.observed == Observation::Worked,
            Expected::Refused => self.observed != Observation::Worked,
        }
    }
}

/// One operation and what became of it.
pub(crate) struct Line {
    pub(crate) group: &'static str,
    pub(crate) name: String,
    /// By place; those that the tier does not have are left out.
    pub(crate) cells: Vec<(Place, Cell)>,
    /// What nono says that the server may do, where it can be asked.
    pub(crate) explained: Option<bool>,
    /// What the guard made of it, where it goes through the proxy.
    pub(crate) guard: Option<GuardsWord>,
}

/// The guard's own record of a request.
pub(crate) struct GuardsWord {
    /// Each time it was asked.
    pub(crate) reasons: Vec<&'static str>,
    /// It did what it must.
    pub(crate) holds: bool,
    /// The allowed name was let through.
    pub(crate) has_control: bool,
}

impl Line {
    /// It works outside, and wherever further out it must; else a refusal further in
    /// proves nothing.
    pub(crate) fn has_control(&self) -> bool {
        let works = |place: Place| {
            let cell = self.cells.iter().find(|(found, _)| *found == place);
            cell.is_some_and(|(_, cell)| cell.observed == Observation::Worked)
        };
        let outer = self.cells.iter().filter(|(place, cell)| {
            matches!(place, Place::Veil | Place::Pen) && cell.expected == Expected::Works
        });
        works(Place::Outside)
            && outer.map(|(place, _)| *place).all(works)
            && self.guard.as_ref().is_none_or(|guard| guard.has_control)
    }

    /// A place where an agent runs must refuse it: the row can fail.
    pub(crate) fn is_judged(&self) -> bool {
        self.cells.iter().any(|(place, cell)| {
            matches!(place, Place::Server | Place::Client) && cell.expected == Expected::Refused
        })
    }

    /// Places where something got through that must be refused. The guard's record
    /// outweighs that nobody answered.
    pub(crate) fn escapes(&self) -> impl Iterator<Item = Place> {
        let is_let_through = self.guard.as_ref().is_some_and(|guard| !guard.holds);
        let is_escape = move |place: Place, cell: &Cell| {
            let is_guards = is_let_through && place == Place::Server;
            cell.expected == Expected::Refused && (is_guards || !cell.is_as_expected())
        };
        self.cells.iter().filter(move |(p, cell)| is_escape(*p, cell)).map(|(place, _)| *place)
    }

    /// Places where something is refused that must work.
    pub(crate) fn refusals(&self) -> impl Iterator<Item = Place> {
        let is_refusal = |place: Place, cell: &Cell| {
            place != Place::Outside && cell.expected == Expected::Works && !cell.is_as_expected()
        };
        self.cells.iter().filter(move |(p, cell)| is_refusal(*p, cell)).map(|(place, _)| *place)
    }
}

/// The whole table.
pub(crate) struct Matrix {
    pub(crate) tier: Tier,
    pub(crate) lines: Vec<Line>,
    /// The agent whose policies these are.
    pub(crate) agent: String,
    /// Names that the guard looked up, as often as it did.
    pub(crate) looked_up: Vec<String>,
    /// Hosts that the guard let somebody connect to and must not.
    pub(crate) let_out: Vec<String>,
}

/// So many rows with a control must there be for one without.
const MOST_WITHOUT_CONTROL: usize = 3;

impl Matrix {
    /// Nothing got through, and no name was looked up or reached that is not allowed.
    /// What works inside needs no control.
    pub(crate) fn holds(&self) -> bool {
        let judged = self.lines.iter().filter(|line| line.is_judged());
        let (controlled, without): (Vec<_>, Vec<_>) = judged.partition(|line| line.has_control());
        let is_allowed = |name: &String| proxied::allowed_names().any(|allowed| allowed == name);
        // Where many controls fail, as in another sandbox, little is shown.
        controlled.len() > MOST_WITHOUT_CONTROL * without.len()
            && self.lines.iter().all(|line| line.escapes().count() == 0)
            && self.looked_up.iter().all(is_allowed)
            && self.let_out.is_empty()
    }

    /// Rows in which nono's own word and the server's attempt differ.
    pub(crate) fn disagreements(&self) -> impl Iterator<Item = &Line> {
        self.lines.iter().filter(|line| {
            let server = line.cells.iter().find(|(place, _)| *place == Place::Server);
            let works = server.map(|(_, cell)| cell.observed == Observation::Worked);
            line.explained.is_some() && line.explained != works
        })
    }

    pub(crate) fn to_json(&self) -> Value {
        let line = |line: &Line| {
            let cells: BTreeMap<&str, Value> = line
                .cells
                .iter()
                .map(|(place, cell)| {
                    let value = json!({
                        "expected": cell.expected.name(),
                        "observed": name_of(cell.observed),
                    });
                    (place.name(), value)
                })
                .collect();
            json!({
                "group": line.group, "operation": line.name, "control": line.has_control(),
                "places": cells,
                "judged": line.is_judged(),
                "guard": line.guard.as_ref().map(|guard| &guard.reasons),
                "nonoSays": line.explained.map(|is| if is { "allowed" } else { "denied" }),
                "escapes": line.escapes().map(Place::name).collect::<Vec<_>>(),
            })
        };
        json!({
            "agent": self.agent, "tier": self.tier.name(), "holds": self.holds(),
            "rows": self.lines.iter().map(line).collect::<Vec<_>>(),
            "lookedUp": self.looked_up,
            "letOut": self.let_out,
            "disagreements": self.disagreements().map(|line| &line.name).collect::<Vec<_>>(),
        })
    }
}

impl Place {
    fn of(layer: Layer) -> Self {
        match layer {
            Layer::Pen => Self::Pen,
            Layer::Server => Self::Server,
            Layer::Client => Self::Client,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Outside => "outside",
            Self::Veil => "veil",
            Self::Pen => "pen",
            Self::Server => "server",
            Self::Client => "client",
        }
    }

    /// What to change when something got through.
    fn remedy(self) -> &'static str {
        match self {
            Self::Outside => "",
            Self::Veil => "another bubblewrap, or a grant too many in the agent's file",
            Self::Pen => "another nono, or a grant too many in profiles/pen.json",
            Self::Server => "a grant too many in the agent's server.json, or another nono",
            Self::Client => "a grant too many in the agent's client.json, or another nono",
        }
    }

    fn layer(self) -> Option<Layer> {
        match self {
            Self::Pen => Some(Layer::Pen),
            Self::Server => Some(Layer::Server),
            Self::Client => Some(Layer::Client),
            Self::Outside | Self::Veil => None,
        }
    }
}

impl Expected {
    fn name(self) -> &'static str {
        match self {
            Self::Works => "works",
            Self::Refused => "refused",
            Self::Either => "either",
        }
    }
}

/// `works`, or the error's name.
pub(crate) fn name_of(observed: Observation) -> String {
    match observed {
        Observation::Worked => "works".into(),
        // The library refused before the kernel was asked, or time ran out.
        Observation::Failed(0) => "refused".into(),
        Observation::Failed(number) => {
            errno::name(number).map_or_else(|| format!("error {number}"), str::to_owned)
        }
    }
}

/// Makes the survey of `agent` in `tier` and judges it; with `profile` in place of
/// the server's policy.
///
/// # Errors
/// When a layer does not start, its self-test fails, or decoys cannot be made.
pub(crate) fn survey(
    agent: &str,
    tier: Tier,
    profile: Option<&Path>,
    config: &Config,
    directories: &Directories,
) -> Result<Matrix, Error> {
    // What is tried are the doctor's own hosts, in a workspace of its own.
    let mut config = Config { project: None, ..config.clone() };
    keeper::refuse_other_children()?;
    let profile = profile.map(read_profile).transpose()?;
    let warden = find_warden(&find_self()?)?;
    let events = Events::listen()?;
    let mut ground = Ground::prepare(&warden.path, directories)?;
    config.egress.hosts = proxied::hosts(ground.tcp.port());
    config.egress.exceptions =
        [(proxied::ALLOWED_NAME.to_owned(), ground.tcp.ip().to_string())].into_iter().collect();
    let request = Request {
        agent: Some(agent.to_owned()),
        workspace: Some(ground.workspace.clone()),
        tier: Some(tier),
        ..Request::default()
    };
    let mut plan = Plan::make(&request, &config, directories)?;
    plan.narrow_hosts(&config)?;
    if let Some(text) = profile {
        plan.agent.profiles.server = text;
    }
    let paths = plan.paths.clone();
    let rows = std::rc::Rc::new(rows::rows(&ground, &plan, &directories.home));

    let in_place = |place: Place, process: Pid| -> Vec<AttemptKind> {
        rows.iter().map(|row| row.attempt(place, process)).collect()
    };
    let outside = in_place(Place::Outside, ground.process);
    // The first process of the veil is outside of every layer in it.
    let first = Pid::new(1).unwrap_or(ground.process);
    let veil = in_place(Place::Veil, first);
    let (of_layers, host_process) = (rows.clone(), ground.process);
    let attempts = Box::new(move |layer: Layer, target: Option<Pid>| {
        // Without a veil and before there is another, the host's own.
        let target = target.unwrap_or(host_process);
        of_layers.iter().map(|row| row.attempt(Place::of(layer), target)).collect()
    });
    let egress = Arc::new(SurveyedEgress::new(proxied::addresses()));
    let mut said = Vec::new();
    let ready = || {
        ground.complete(&plan).map_err(|e| Error::DirectoryUnusable {
            path: paths.inside.clone(),
            reason: format!("the doctor's decoys cannot be made: {e}"),
        })?;
        let in_server = rows.iter().map(|row| row.attempt(Place::Server, first));
        said = explained::all(&plan, in_server);
        Ok(())
    };
    let surveyed = keeper::survey(
        &plan,
        directories,
        events,
        &outside,
        &veil,
        attempts,
        egress.clone(),
        ready,
    )?;
    let answers = surveyed.layers.values().chain(&surveyed.veil).chain([&surveyed.outside]);
    let layers = 1 + plan.inner_layers().len();
    if surveyed.layers.len() != layers || answers.map(Vec::len).any(|length| length != rows.len()) {
        let what = "not every operation was tried in every place".into();
        return Err(Error::Unconfined { what });
    }
    let decided = egress.decided();
    let mut matrix = judge(agent, tier, &rows, &surveyed, &decided);
    for (line, said) in matrix.lines.iter_mut().zip(said) {
        line.explained = said;
    }
    matrix.looked_up = egress.asked();
    matrix.let_out = proxied::let_out(&decided);
    Ok(matrix)
}

fn read_profile(path: &Path) -> Result<String, Error> {
    let unusable = |reason| Error::AgentFile { path: path.to_owned(), reason };
    let bytes = read_plain(path, MOST_PROFILE).map_err(|e| unusable(e.to_string()))?;
    let text = String::from_utf8(bytes).map_err(|e| unusable(e.to_string()))?;
    agent::check_profile(&text).map_err(unusable)?;
    Ok(text)
}

fn judge(
    agent: &str,
    tier: Tier,
    rows: &[Row],
    surveyed: &keeper::Surveyed,
    decided: &[egress::Record],
) -> Matrix {
    let observed = |place: Place, at: usize| -> Option<Observation> {
        match place {
            Place::Outside => surveyed.outside.get(at).copied(),
            Place::Veil => surveyed.veil.as_ref()?.get(at).copied(),
            Place::Pen | Place::Server | Place::Client => {
                surveyed.layers.get(&place.layer()?)?.get(at).copied()
            }
        }
    };
    let allowed = rows.iter().enumerate().any(|(at, row)| {
        row.proxied.as_ref().is_some_and(|proxied| {
            proxied.allowed && proxied.holds(decided, observed(Place::Server, at))
        })
    });
    let lines = rows.iter().enumerate().map(|(at, row)| Line {
        group: row.group,
        name: row.name.clone(),
        cells: PLACES
            .into_iter()
            .filter(|place| *place != Place::Veil || tier.has_veil())
            .filter_map(|place| {
                let cell =
                    Cell { expected: row.expected_in(place), observed: observed(place, at)? };
                Some((place, cell))
            })
            .collect(),
        explained: None,
        guard: row.proxied.as_ref().map(|proxied| GuardsWord {
            reasons: proxied.reasons(decided),
            holds: proxied.holds(decided, observed(Place::Server, at)),
            has_control: allowed,
        }),
    });
    let lines = lines.collect();
    let (looked_up, let_out) = (Vec::new(), Vec::new());
    Matrix { agent: agent.to_owned(), tier, lines, looked_up, let_out }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(outside: Observation, server: (Expected, Observation)) -> Line {
        let cell = |expected, observed| Cell { expected, observed };
        Line {
            group: "g",
            name: "n".into(),
            cells: vec![
                (Place::Outside, cell(Expected::Works, outside)),
                (Place::Server, cell(server.0, server.1)),
            ],
            explained: Some(true),
            guard: None,
        }
    }

    fn matrix(lines: Vec<Line>) -> Matrix {
        Matrix {
            agent: "a".into(),
            tier: Tier::Sealed,
            lines,
            looked_up: Vec::new(),
            let_out: Vec::new(),
        }
    }

    fn holds(line: Line) -> bool {
        // Beside rows of which everything holds.
        let good = || self::line(Observation::Worked, (Expected::Refused, Observation::Failed(13)));
        let lines = vec![line, good(), good(), good(), good()];
        matrix(lines).holds()
    }

    #[test]
    fn what_must_be_refused_and_works_is_an_escape_and_a_refusal_needs_its_control() {
        use Expected::{Either, Refused, Works};
        let (worked, failed) = (Observation::Worked, Observation::Failed(13));
        for (outside, expected, observed, wanted) in [
            (worked, Refused, failed, true),
            (worked, Refused, worked, false),
            // What works needs no control.
            (failed, Refused, worked, false),
            // A control that failed proves nothing.
            (failed, Refused, failed, true),
            (worked, Either, worked, true),
            (worked, Works, failed, true),
        ] {
            let case = format!("{outside:?} {expected:?} {observed:?}");
            assert_eq!(holds(line(outside, (expected, observed))), wanted, "{case}");
        }
        let lines = vec![line(failed, (Refused, failed))];
        let matrix = matrix(lines);
        assert!(!matrix.holds(), "without any control nothing is shown");
        assert_eq!(line(worked, (Works, failed)).refusals().count(), 1);
        assert!(!line(failed, (Refused, failed)).has_control());
    }

    #[test]
    fn a_name_that_is_not_allowed_must_not_be_looked_up_and_nonos_word_is_compared() {
        let (worked, failed) = (Observation::Worked, Observation::Failed(13));
        let lines = vec![
            line(worked, (Expected::Refused, failed)),
            line(worked, (Expected::Works, worked)),
        ];
        let mut matrix = Matrix { looked_up: vec!["own.test".into()], ..matrix(lines) };
        assert!(matrix.holds());
        assert_eq!(matrix.disagreements().count(), 1, "nono says that both are allowed");
        matrix.looked_up.push("elsewhere.test".into());
        assert!(!matrix.holds());
        matrix.looked_up.pop();
        assert!(matrix.holds());
        matrix.let_out.push("::1".into());
        assert!(!matrix.holds());
    }

    #[test]
    fn the_guards_record_outweighs_that_nobody_answered() {
        let (worked, failed) = (Observation::Worked, Observation::Failed(13));
        for holds in [true, false] {
            let mut line = line(worked, (Expected::Refused, failed));
            line.guard =
                Some(GuardsWord { reasons: vec!["connect-failed"], holds, has_control: true });
            assert_eq!(line.escapes().count(), usize::from(!holds));
        }
    }

    #[test]
    fn an_error_has_its_name() {
        assert_eq!(name_of(Observation::Worked), "works");
        assert_eq!(name_of(Observation::Failed(13)), "EACCES");
        assert_eq!(name_of(Observation::Failed(0)), "refused");
        assert_eq!(name_of(Observation::Failed(9999)), "error 9999");
    }
}
