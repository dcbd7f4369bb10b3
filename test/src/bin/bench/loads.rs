//! What a program in a sandbox does while the guard and the gate are measured: this very
//! file again, copied to where it can be executed there. Each prints what it measured, a
//! number a line.

use std::io::{self, BufRead, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use paddock_test::host::wait_for;
use warden::{Answer, Call, Channel, GATE_VARIABLE, PROTOCOL_VERSION, ToKeeper};

use crate::upstream::{ANSWER, ASK_SMALL};

const PATIENCE: Duration = Duration::from_mins(1);

/// `COUNT` requests to `target`, one after the other, each by a tunnel of its own:
/// milliseconds from before it is asked for until the answer is there.
pub(crate) fn exchange(target: &str, count: usize) -> anyhow::Result<()> {
    for _ in 0..count {
        let began = Instant::now();
        let mut tunnel = warden::open_tunnel(target, PATIENCE)?;
        ask(&mut tunnel)?;
        println!("{}", began.elapsed().as_secs_f64() * 1e3);
    }
    Ok(())
}

/// The same without a proxy.
pub(crate) fn exchange_directly(target: &str, count: usize) -> anyhow::Result<()> {
    for _ in 0..count {
        let began = Instant::now();
        let stream = TcpStream::connect(target)?;
        stream.set_nodelay(true)?;
        ask(&mut io::BufReader::new(stream))?;
        println!("{}", began.elapsed().as_secs_f64() * 1e3);
    }
    Ok(())
}

/// A small question and its answer.
fn ask(tunnel: &mut io::BufReader<TcpStream>) -> anyhow::Result<()> {
    tunnel.get_mut().write_all(ASK_SMALL)?;
    let mut answer = [0; ANSWER];
    Ok(tunnel.read_exact(&mut answer)?)
}

/// So many tunnels that are all open before anybody asks: how many were refused or
/// failed.
pub(crate) fn at_once(target: &str, count: usize) -> anyhow::Result<()> {
    let together = Arc::new(Barrier::new(count));
    let clients = (0..count).map(|_| {
        let (together, target) = (together.clone(), target.to_owned());
        std::thread::Builder::new().stack_size(128 << 10).spawn(move || {
            together.wait();
            let tunnel = warden::open_tunnel(&target, PATIENCE);
            together.wait();
            let answered = tunnel.map_err(anyhow::Error::from).and_then(|mut t| ask(&mut t));
            together.wait();
            answered
        })
    });
    let clients = clients.collect::<io::Result<Vec<_>>>()?;
    let mut failed = 0;
    for client in clients {
        if let Err(error) = client.join().map_err(|_| anyhow::anyhow!("a client panicked"))? {
            eprintln!("{error:#}");
            failed += 1;
        }
    }
    println!("{failed}");
    Ok(())
}

/// One large answer: milliseconds from its first byte to its last.
pub(crate) fn download(target: &str, bytes: u64) -> anyhow::Result<()> {
    let mut tunnel = warden::open_tunnel(target, PATIENCE)?;
    writeln!(tunnel.get_mut(), "{bytes}")?;
    tunnel.fill_buf()?;
    let began = Instant::now();
    let mut left = bytes;
    let mut buffer = vec![0; 256 << 10];
    while left > 0 {
        let read = tunnel.read(&mut buffer)?;
        ensure!(read > 0, "{left} bytes are missing");
        left -= read as u64;
    }
    println!("{}", began.elapsed().as_secs_f64() * 1e3);
    Ok(())
}

/// Holds so many tunnels with nothing in them, says so by a file `held`, and lets go
/// when there is one `enough`.
pub(crate) fn hold(target: &str, count: usize) -> anyhow::Result<()> {
    let tunnels = (0..count).map(|_| warden::open_tunnel(target, PATIENCE));
    let tunnels = tunnels.collect::<io::Result<Vec<_>>>()?;
    std::fs::write("held", "")?;
    let enough = wait_for(PATIENCE, || Path::new("enough").exists().then_some(()));
    drop(tunnels);
    enough.context("nobody says that it is enough")
}

/// Asks the gate what may be done here, so often: microseconds each time, over a new
/// connection (`anew`) or over one that stays.
pub(crate) fn call(how: &str, count: usize) -> anyhow::Result<()> {
    let gate = std::env::var_os(GATE_VARIABLE).context("no gate")?;
    let connect = || -> anyhow::Result<Channel> {
        let channel = Channel::new(UnixStream::connect(&gate)?);
        channel.set_deadline(Some(PATIENCE))?;
        Ok(channel)
    };
    let mut kept = None;
    for _ in 0..count {
        let began = Instant::now();
        let channel = match kept.take() {
            Some(channel) if how != "anew" => channel,
            _ => connect()?,
        };
        let call = ToKeeper::Call { version: PROTOCOL_VERSION, call: Call::Grants };
        channel.send(&call, &[])?;
        match channel.receive::<Answer>()?.0 {
            Answer::Done { .. } => {}
            other => bail!("no grants but {other:?}"),
        }
        println!("{}", began.elapsed().as_secs_f64() * 1e3);
        kept = Some(channel);
    }
    Ok(())
}
