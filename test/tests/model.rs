//! The scripted model, driven as an agent drives it but without one: how it follows a script,
//! and what it refuses. `model_shapes.rs` has the other interfaces.

#![expect(clippy::unwrap_used, reason = "a step that fails is a test that fails")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::thread;
use std::time::Duration;

use paddock_test::model::{ModelServer, Turn};
use serde_json::{Value, json};

const MIB: usize = 1 << 20;

fn shell(command: &str) -> Turn {
    Turn::Shell(command.into())
}

fn say(text: &str) -> Turn {
    Turn::Say(text.into())
}

/// One connection to a model.
struct Client(BufReader<TcpStream>);

impl Client {
    fn connect(model: &ModelServer) -> Self {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, model.port())).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        Self(BufReader::new(stream))
    }

    fn send(&mut self, bytes: impl AsRef<[u8]>) -> &mut Self {
        self.0.get_mut().write_all(bytes.as_ref()).unwrap();
        self
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        line.trim_end().into()
    }

    /// The status and the body of the next response.
    fn receive(&mut self) -> (u16, String) {
        let status = self.line();
        let status = status.split(' ').nth(1).unwrap().parse().unwrap();
        let mut length = 0;
        loop {
            let line = self.line();
            if line.is_empty() {
                break;
            }
            if let Some(value) = line.strip_prefix("Content-Length: ") {
                length = value.parse().unwrap();
            }
        }
        let mut body = vec![0; length];
        self.0.read_exact(&mut body).unwrap();
        (status, String::from_utf8(body).unwrap())
    }

    fn is_closed(&mut self) -> bool {
        self.0.fill_buf().unwrap().is_empty()
    }

    /// Asks for a response and returns the one item that the model answers with.
    fn ask(&mut self, request: &Value) -> Value {
        let (status, events) = self.send(post(&request.to_string())).receive();
        assert_eq!(status, 200, "{events}");
        only_item(&events)
    }
}

fn post(body: &str) -> String {
    let length = body.len();
    format!("POST /v1/responses HTTP/1.1\r\nHost: model\r\nContent-Length: {length}\r\n\r\n{body}")
}

fn only_item(events: &str) -> Value {
    let events: Vec<Value> = events
        .lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .map(|data| serde_json::from_str(data).unwrap())
        .collect();
    let types: Vec<&str> = events.iter().map(|e| e["type"].as_str().unwrap()).collect();
    assert_eq!(
        types,
        [
            "response.created",
            "response.output_item.added",
            "response.output_item.done",
            "response.completed"
        ]
    );
    events[2]["item"].clone()
}

fn request(input: &[Value]) -> Value {
    let parameters = json!({ "properties": { "cmd": { "type": "string" } } });
    json!({
        "model": "scripted",
        "stream": true,
        "tools": [
            { "type": "web_search" },
            { "type": "function", "name": "exec_command", "parameters": parameters },
        ],
        "input": input,
    })
}

fn user(text: &str) -> Value {
    json!({ "type": "message", "role": "user", "content": [{ "type": "input_text", "text": text }] })
}

fn output_of(call: &Value, output: &str) -> Value {
    json!({ "type": "function_call_output", "call_id": call["call_id"], "output": output })
}

fn command_of(call: &Value) -> String {
    assert_eq!(call["type"], "function_call");
    assert_eq!(call["name"], "exec_command");
    let arguments: Value = serde_json::from_str(call["arguments"].as_str().unwrap()).unwrap();
    assert_eq!(arguments.as_object().unwrap().len(), 1);
    arguments["cmd"].as_str().unwrap().into()
}

fn text_of(message: &Value) -> &str {
    assert_eq!(message["type"], "message");
    assert_eq!(message["role"], "assistant");
    message["content"][0]["text"].as_str().unwrap()
}

#[test]
fn a_command_is_called_and_its_output_answered_with_the_closing_message() {
    let model = ModelServer::start(vec![shell("id -un"), say("All done.")]).unwrap();
    let mut client = Client::connect(&model);

    let first = request(&[user("run the tool")]);
    let call = client.ask(&first);
    assert_eq!(command_of(&call), "id -un");

    let second = request(&[user("run the tool"), call.clone(), output_of(&call, "dev\n")]);
    assert_eq!(text_of(&client.ask(&second)), "All done.");

    assert_eq!(model.requests(), [first, second]);
}

#[test]
fn a_conversation_goes_on_after_a_message_and_ends_with_the_script() {
    let script = vec![shell("one"), shell("two"), say("Enough."), shell("three")];
    let model = ModelServer::start(script).unwrap();
    let mut client = Client::connect(&model);

    let mut input = vec![user("go")];
    for command in ["one", "two"] {
        let call = client.ask(&request(&input));
        assert_eq!(command_of(&call), command);
        input.extend([call.clone(), output_of(&call, "")]);
    }
    let message = client.ask(&request(&input));
    assert_eq!(text_of(&message), "Enough.");

    input.extend([message, user("go on")]);
    let call = client.ask(&request(&input));
    assert_eq!(command_of(&call), "three");
    assert_eq!(client.ask(&request(&input)), call, "a repeated request");

    input.extend([call.clone(), output_of(&call, "")]);
    let message = client.ask(&request(&input));
    assert_eq!(text_of(&message), "The script is over.");
}

#[test]
fn a_request_without_the_shell_tool_is_told_so() {
    let model = ModelServer::start(vec![shell("id")]).unwrap();
    let mut request = request(&[user("name this conversation")]);
    request["tools"] = json!([{ "type": "function", "name": "view_image" }]);

    let message = Client::connect(&model).ask(&request);
    assert_eq!(text_of(&message), "The request offers no shell tool.");
}

#[test]
fn parallel_clients_each_get_the_whole_script() {
    let model = ModelServer::start(vec![shell("id"), say("Bye.")]).unwrap();
    let names = ["a", "b", "c", "d"];
    // All are connected before the first asks, so the server must serve them at once.
    let clients: Vec<_> = names.map(|name| (name, Client::connect(&model))).into();

    thread::scope(|scope| {
        for (name, mut client) in clients {
            scope.spawn(move || {
                let call = client.ask(&request(&[user(name)]));
                assert_eq!(command_of(&call), "id");
                let input = [user(name), call.clone(), output_of(&call, name)];
                assert_eq!(text_of(&client.ask(&request(&input))), "Bye.");
            });
        }
    });

    let requests = model.requests();
    assert_eq!(requests.len(), 2 * names.len());
    for name in names {
        let outputs = requests.iter().filter(|request| request["input"][2]["output"] == name);
        assert_eq!(outputs.count(), 1, "{name}");
    }
}

#[test]
fn a_body_may_come_in_chunks_and_a_target_may_be_absolute() {
    let model = ModelServer::start(vec![say("Hello.")]).unwrap();
    let mut client = Client::connect(&model);
    let body = request(&[user("hello")]).to_string();
    let (start, end) = body.split_at(7);

    client.send("POST http://model.test:80/v1/responses?x=1 HTTP/1.1\r\n");
    client.send("transfer-encoding: Chunked\r\nExpect: 100-continue\r\n\r\n");
    assert_eq!(client.line(), "HTTP/1.1 100 Continue");
    assert_eq!(client.line(), "");
    client.send(format!(
        "7;name=value\r\n{start}\r\n{:X}\r\n{end}\r\n0\r\nTrailer: 1\r\n\r\n",
        end.len()
    ));
    let (status, events) = client.receive();
    assert_eq!((status, text_of(&only_item(&events))), (200, "Hello."));

    let models = "GET /v1/models?client_version=1 HTTP/1.1\r\nConnection: close\r\n\r\n";
    let (status, body) = client.send(models).receive();
    let body: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((status, &body["data"]), (200, &json!([])));
    assert!(client.is_closed());
}

#[test]
fn a_body_may_have_four_mebibytes_and_no_more() {
    let model = ModelServer::start(vec![say("Read.")]).unwrap();
    let mut client = Client::connect(&model);
    let empty = request(&[user("")]).to_string().len();
    let largest = request(&[user(&"x".repeat(4 * MIB - empty))]);
    assert_eq!(largest.to_string().len(), 4 * MIB);
    assert_eq!(text_of(&client.ask(&largest)), "Read.");

    let too_large =
        format!("POST /v1/responses HTTP/1.1\r\nContent-Length: {}\r\n\r\n", 4 * MIB + 1);
    let (status, body) = client.send(too_large).receive();
    assert_eq!((status, body.contains("larger than 4 MiB")), (413, true), "{body}");
    assert!(client.is_closed());
}

#[test]
fn what_is_not_understood_is_refused_and_not_recorded() {
    let model = ModelServer::start(vec![say("Hello.")]).unwrap();
    let answered = [
        (post("{"), 400, "the body is not JSON"),
        (post("{}"), 400, "only streamed responses are spoken"),
        ("GET /v1/responses HTTP/1.1\r\n\r\n".into(), 404, "no such method and path"),
        ("POST /v2/responses HTTP/1.1\r\n\r\n".into(), 404, "no such method and path"),
    ];
    let mut client = Client::connect(&model);
    for (request, status, reason) in answered {
        let response = client.send(&request).receive();
        assert_eq!(response.0, status, "{request:?}");
        assert!(response.1.contains(reason), "{request:?}: {}", response.1);
    }

    let post = |rest: &str| format!("POST /v1/responses HTTP/1.1\r\n{rest}");
    let chunked = |rest: &str| post(&format!("Transfer-Encoding: chunked\r\n\r\n{rest}"));
    let ended = [
        ("hello\r\n".into(), 400, "METHOD TARGET VERSION"),
        ("GET / HTTP/2\r\n".into(), 400, "only HTTP/1.1 is spoken"),
        (post("Host\r\n\r\n"), 400, "a header has no colon"),
        (post(&"A: b\r\n".repeat(101)), 400, "too many headers"),
        (post("Content-Length: -1\r\n\r\n"), 400, "Content-Length is no number"),
        (post("Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n"), 400, "both chunked and"),
        (post("Content-Encoding: gzip\r\n\r\n"), 415, "only chunked transfer of plain"),
        (chunked("x\r\n"), 400, "a chunk has no size"),
        (chunked("1\r\nab\r\n"), 400, "a chunk is longer than its size"),
    ];
    for (request, status, reason) in ended {
        let mut client = Client::connect(&model);
        let response = client.send(&request).receive();
        assert_eq!(response.0, status, "{request:?}");
        assert!(response.1.contains(reason), "{request:?}: {}", response.1);
        assert!(client.is_closed(), "{request:?}");
    }

    assert_eq!(model.requests(), [] as [Value; 0]);
}

#[test]
fn dropping_the_model_ends_its_connections() {
    let model = ModelServer::start(vec![say("Hello.")]).unwrap();
    let mut idle = Client::connect(&model);
    let mut asked = Client::connect(&model);
    asked.ask(&request(&[user("hello")]));
    let mut halfway = Client::connect(&model);
    halfway.send("POST /v1/responses HTTP/1.1\r\nContent-Length: 9\r\n\r\n{");

    drop(model);
    assert!(asked.is_closed());
    // These two may not have been accepted yet: then the kernel resets them.
    for client in [&mut idle, &mut halfway] {
        assert!(matches!(client.0.fill_buf(), Ok([]) | Err(_)));
    }
}
