//! A name server on the loopback that answers as it is told to.

use std::io::Write;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hickory_resolver::proto::op::{Message, MessageType, ResponseCode};
use hickory_resolver::proto::rr::rdata::CNAME;
use hickory_resolver::proto::rr::{Name, RData, Record, RecordType};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};

use crate::SystemResolver;

/// What is answered to a question.
pub(super) enum Answer {
    /// These records, `name address` or `name alias`; no record is "no such data".
    Records(Vec<String>),
    /// The same, later.
    Late(Duration, Vec<String>),
    /// There is no such name.
    NoName,
    /// Nothing.
    Silence,
}

type Script = dyn Fn(&str, RecordType) -> Answer + Send + Sync;

/// The running server.
pub(super) struct Server {
    port: u16,
    asked: Arc<Mutex<Vec<String>>>,
    configuration: tempfile::NamedTempFile,
}

/// The longest answer over UDP, RFC 1035.
const MAX_UDP: usize = 512;

impl Server {
    /// Serves until the test ends.
    pub(super) async fn start(
        script: impl Fn(&str, RecordType) -> Answer + Send + Sync + 'static,
    ) -> Self {
        // Both protocols on one port.
        let (udp, tcp) = loop {
            let udp = UdpSocket::bind("127.0.0.1:0").await.unwrap();
            if let Ok(tcp) = TcpListener::bind(udp.local_addr().unwrap()).await {
                break (udp, tcp);
            }
        };
        let port = udp.local_addr().unwrap().port();
        let script: Arc<Script> = Arc::new(script);
        let asked = Arc::new(Mutex::new(Vec::new()));
        tokio::spawn(serve_udp(Arc::new(udp), Arc::clone(&script), Arc::clone(&asked)));
        tokio::spawn(async move {
            while let Ok((stream, _)) = tcp.accept().await {
                tokio::spawn(serve_tcp(stream, Arc::clone(&script)));
            }
        });
        let configuration = tempfile::NamedTempFile::new().unwrap();
        let server = Self { port, asked, configuration };
        // What is in it besides the server must not matter.
        server.configure(
            "search evil.example\noptions ndots:9 timeout:30 attempts:9\nnonsense\n\
            nameserver 127.0.0.1\n",
        );
        server
    }

    /// Replaces the configuration of the system.
    pub(super) fn configure(&self, text: &str) {
        let mut file = self.configuration.reopen().unwrap();
        file.set_len(0).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }

    pub(super) fn resolver(&self) -> SystemResolver {
        SystemResolver::configured(self.configuration.path().to_owned(), self.port)
    }

    /// The questions over UDP so far, in order of the alphabet.
    pub(super) fn asked(&self) -> Vec<String> {
        let mut asked = self.asked.lock().unwrap().clone();
        asked.sort();
        asked
    }
}

async fn serve_udp(socket: Arc<UdpSocket>, script: Arc<Script>, asked: Arc<Mutex<Vec<String>>>) {
    let mut buffer = [0; 4096];
    while let Ok((length, client)) = socket.recv_from(&mut buffer).await {
        let question = Message::from_vec(&buffer[..length]).unwrap();
        let query = &question.queries[0];
        asked.lock().unwrap().push(format!("{} {}", query.name().to_ascii(), query.query_type()));
        let (socket, script) = (Arc::clone(&socket), Arc::clone(&script));
        tokio::spawn(async move {
            let Some(reply) = reply(&question, &script).await else { return };
            let mut bytes = reply.to_vec().unwrap();
            if bytes.len() > MAX_UDP {
                let mut cut = reply;
                cut.answers.clear();
                cut.metadata.truncation = true;
                bytes = cut.to_vec().unwrap();
            }
            // The client may have left.
            let _ = socket.send_to(&bytes, client).await;
        });
    }
}

async fn serve_tcp(mut stream: TcpStream, script: Arc<Script>) {
    while let Ok(length) = stream.read_u16().await {
        let mut bytes = vec![0; usize::from(length)];
        stream.read_exact(&mut bytes).await.unwrap();
        let question = Message::from_vec(&bytes).unwrap();
        let Some(reply) = reply(&question, &script).await else { continue };
        let bytes = reply.to_vec().unwrap();
        stream.write_u16(u16::try_from(bytes.len()).unwrap()).await.unwrap();
        stream.write_all(&bytes).await.unwrap();
    }
}

async fn reply(question: &Message, script: &Arc<Script>) -> Option<Message> {
    let query = question.queries[0].clone();
    let name = query.name().to_ascii();
    let mut reply =
        Message::new(question.metadata.id, MessageType::Response, question.metadata.op_code);
    reply.metadata.recursion_available = true;
    let wanted = query.query_type();
    reply.add_query(query);
    let records = match script(name.trim_end_matches('.'), wanted) {
        Answer::Records(records) => records,
        Answer::Late(delay, records) => {
            tokio::time::sleep(delay).await;
            records
        }
        Answer::NoName => {
            reply.metadata.response_code = ResponseCode::NXDomain;
            Vec::new()
        }
        Answer::Silence => return None,
    };
    reply.add_answers(records.iter().map(|line| record(line)));
    Some(reply)
}

fn record(line: &str) -> Record {
    let (name, value) = line.split_once(' ').unwrap();
    let data = match value.parse() {
        Ok(IpAddr::V4(address)) => RData::A(address.into()),
        Ok(IpAddr::V6(address)) => RData::AAAA(address.into()),
        Err(_) => RData::CNAME(CNAME(absolute(value))),
    };
    // An hour: whoever remembers answers is found out.
    Record::from_rdata(absolute(name), 3600, data)
}

fn absolute(name: &str) -> Name {
    Name::from_ascii(format!("{name}.")).unwrap()
}
