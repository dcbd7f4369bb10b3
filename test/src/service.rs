//! A service of the host's that agents may be let to.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;

/// Answers every request on the port that it tells, for the life of the test process.
#[must_use]
pub fn service() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("its address").port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let lines = BufReader::new(&stream).lines().map_while(Result::ok);
                if lines.take_while(|line| !line.is_empty()).count() > 0 {
                    let _ = (&stream).write_all(b"HTTP/1.0 200 OK\r\n\r\n");
                }
            });
        }
    });
    port
}
