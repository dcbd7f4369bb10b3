//! A question to a helper program, with a deadline: what it prints is the answer.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use confine::sys::{SpawnSetup, prepare_spawn};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{Pid, Signal, kill_process_group};

/// The most of an answer that is read.
const MOST: u64 = 4 << 20;

/// What a helper printed.
#[derive(Debug)]
pub(crate) struct Answer {
    /// The number that the helper had.
    pub(crate) process: u32,
    /// It ended with status 0.
    pub(crate) is_good: bool,
    /// The status that it ended with, unless by a signal.
    pub(crate) code: Option<i32>,
    pub(crate) output: Vec<u8>,
    pub(crate) errors: Vec<u8>,
}

/// Runs `program` to its end in a session of its own, with that input and
/// environment and nothing else of the caller's; `None` when it has not ended by the
/// `limit`, and was ended then.
///
/// # Errors
/// When it cannot be run.
pub(crate) fn ask(
    program: &Path,
    arguments: &[OsString],
    environment: &[(OsString, OsString)],
    directory: &Path,
    input: &[u8],
    limit: Duration,
) -> Result<Option<Answer>, String> {
    // Not a pipe: a long answer would fill it, and a child of the helper's could
    // keep it open.
    let (mut output, mut errors) = (memory()?, memory()?);
    let mut question = memory()?;
    question.write_all(input).and_then(|()| question.rewind()).map_err(|e| e.to_string())?;
    let copy = |file: &File| file.try_clone().map_err(|e| e.to_string());
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env_clear()
        .envs(environment.iter().map(|(name, value)| (name, value)))
        .current_dir(directory)
        .stdin(if input.is_empty() { Stdio::null() } else { question.into() })
        .stdout(copy(&output)?)
        .stderr(copy(&errors)?);
    let setup = SpawnSetup {
        // One that hangs may be a script that waits for another program: all of it
        // is ended as the process group that a session's first process leads.
        new_session: true,
        dies_with_parent: true,
        close_from: Some(3),
        ..SpawnSetup::default()
    };
    prepare_spawn(&mut command, setup);
    let mut child = command.spawn().map_err(|e| format!("it does not start: {e}"))?;
    let started = Instant::now();
    let mut step = Duration::from_micros(200);
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if started.elapsed() < limit => std::thread::sleep(step),
            Ok(None) => {
                // Not reaped yet, so its id is still its group's.
                let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
                let _ = child.wait();
                return Ok(None);
            }
            Err(e) => return Err(e.to_string()),
        }
        step = (step * 2).min(Duration::from_millis(20));
    };
    let read = |file: &mut File| read_all(file).map_err(|e| e.to_string());
    Ok(Some(Answer {
        process: child.id(),
        is_good: status.success(),
        code: status.code(),
        output: read(&mut output)?,
        errors: read(&mut errors)?,
    }))
}

fn memory() -> Result<File, String> {
    memfd_create("answer", MemfdFlags::CLOEXEC).map(File::from).map_err(|e| e.to_string())
}

fn read_all(file: &mut File) -> io::Result<Vec<u8>> {
    file.rewind()?;
    let mut bytes = Vec::new();
    file.take(MOST).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(text: &str, limit: Duration) -> Option<Answer> {
        let arguments = ["-c".into(), text.into()];
        ask(Path::new("/bin/sh"), &arguments, &[], Path::new("/"), b"said", limit).unwrap()
    }

    #[test]
    fn a_long_answer_is_read_whole_and_a_child_that_stays_holds_up_nobody() {
        let text = "head -c 300000 /dev/zero; echo no >&2; sleep 5 & exit 3";
        let started = Instant::now();
        let answer = shell(text, Duration::from_secs(4)).unwrap();
        assert!(started.elapsed() < Duration::from_secs(4));
        assert_eq!((answer.is_good, answer.output.len()), (false, 300_000));
        assert_eq!(answer.errors, b"no\n");
        assert!(shell("true", Duration::from_secs(4)).unwrap().is_good);
        assert_eq!(shell("cat", Duration::from_secs(4)).unwrap().output, b"said");
    }

    #[test]
    fn one_that_hangs_is_ended() {
        assert!(shell("sleep 60; :", Duration::from_millis(50)).is_none());
    }
}
