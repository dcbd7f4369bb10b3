//! Pictures of the overlay for the documentation: real launches, the real program on a
//! real pseudo-terminal, and what it drew written down. `scripts/screenshots.sh` runs it.

use std::path::{Path, PathBuf};

use anyhow::Context;
use paddock_test::host::{Host, finish};
use paddock_test::picture::svg;
use paddock_test::terminal::Terminal;

/// What the stand-in does, so that there is something to see.
const WORK: &str = "./probe proxy:telemetry.example.com:443; \
    ./probe proxy:telemetry.example.com:443; \
    paddock ask host db.example.com:5432 --wait 3600 to run the migrations & sleep 3600";

fn main() -> anyhow::Result<()> {
    let folder: PathBuf = std::env::args_os().nth(1).context("the folder is missing")?.into();
    let host = Host::new();
    let workspace = |name: &str| -> anyhow::Result<PathBuf> {
        let path = host.home().join(name);
        std::fs::create_dir_all(&path)?;
        Ok(path)
    };
    let run = |workspace: &Path, options: &[&str], command: &str| {
        let mut paddock = host.paddock();
        paddock.args(["run", "standin", "--workspace"]).arg(workspace);
        paddock.args(options).args(["--", "-c", command]);
        paddock
    };
    let api = workspace("src/api")?;
    std::fs::copy(paddock_test::host::probe(), api.join("probe"))?;
    let _first = host.start(run(&api, &[], WORK));
    let _second =
        host.start(run(&workspace("src/website")?, &["--tier", "isolated"], "sleep 3600"));
    let ended = finish(run(&workspace("src/docs")?, &[], "true"));
    anyhow::ensure!(ended.code() == Some(0), "{}", ended.stderr);

    let wide = shown(&host, 46, 140, &["db.example.com", "warden paddock-warden server"])?;
    picture(&folder.join("overlay.svg"), &wide)?;
    wide.send("a");
    wide.wait_for("o: once");
    wide.send("n");
    wide.send("l");
    wide.wait_for("self-test");
    // What is drawn last: the footer.
    wide.wait_until_gone("a answer");
    wide.wait_until_gone("o shell");
    picture(&folder.join("overlay-ledger.svg"), &wide)?;
    wide.send("\x03");

    let small = shown(&host, 15, 60, &["confined", "+2"])?;
    picture(&folder.join("overlay-small.svg"), &small)?;
    small.send("\x03");
    Ok(())
}

/// The overlay on a terminal of that size, once that is to be seen.
fn shown(host: &Host, rows: u16, columns: u16, words: &[&str]) -> anyhow::Result<Terminal> {
    let terminal = Terminal::of_size(rows, columns);
    let mut command = terminal.paddock(host);
    command.arg("overlay").env("LC_ALL", "C.UTF-8").spawn()?;
    terminal.wait_for("ended: 1");
    for words in words {
        terminal.wait_for(words);
    }
    Ok(terminal)
}

/// Writes what is on the screen.
fn picture(path: &Path, terminal: &Terminal) -> anyhow::Result<()> {
    std::fs::write(path, terminal.with_screen(svg)).context("the picture cannot be written")
}
