//! The scripted model in each of the interfaces that agents speak: the same script, the same
//! two requests, as the agent that speaks it words them.

#![expect(clippy::unwrap_used, reason = "a step that fails is a test that fails")]

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};

use paddock_test::model::{ModelServer, Turn};
use serde_json::{Value, json};

const SAID: &str = "All done.";

fn model() -> ModelServer {
    ModelServer::start(vec![Turn::Shell("id -un".into()), Turn::Say(SAID.into())]).unwrap()
}

/// The status and the body that a request is answered with.
fn send(model: &ModelServer, method: &str, target: &str, body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, model.port())).unwrap();
    let length = body.len();
    let head = format!(
        "{method} {target} HTTP/1.1\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n"
    );
    stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    let (head, body) = response.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

fn post(model: &ModelServer, target: &str, body: &Value) -> String {
    let (status, body) = send(model, "POST", target, &body.to_string());
    assert_eq!(status, 200, "{body}");
    body
}

fn ask(model: &ModelServer, target: &str, body: &Value) -> Value {
    serde_json::from_str(&post(model, target, body)).unwrap()
}

/// What the events of an answer hold.
fn events(model: &ModelServer, target: &str, body: &Value) -> Vec<Value> {
    let body = post(model, target, body);
    let data = body.lines().filter_map(|line| line.strip_prefix("data: "));
    data.filter(|data| *data != "[DONE]").map(|data| serde_json::from_str(data).unwrap()).collect()
}

/// The schema of a shell tool that demands more than the command.
fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "command": { "type": "string" },
            "description": { "type": "string" },
            "background": { "type": "boolean" },
            "timeout": { "type": "number" },
        },
        "required": ["command", "description", "background"],
    })
}

fn arguments() -> Value {
    json!({ "command": "id -un", "description": "as the script says", "background": false })
}

mod chat {
    use super::*;

    const TARGET: &str = "/v1/chat/completions";

    fn request(stream: bool, messages: &[Value]) -> Value {
        let function = json!({ "name": "bash", "parameters": schema() });
        let other = json!({ "name": "read", "parameters": schema() });
        json!({
            "model": "fake-1",
            "stream": stream,
            "messages": messages,
            "tools": [
                { "type": "function", "function": other },
                { "type": "function", "function": function },
            ],
        })
    }

    fn assert_is_call(message: &Value) {
        let call = &message["tool_calls"][0];
        assert_eq!(call["function"]["name"], "bash", "{message}");
        let given: Value =
            serde_json::from_str(call["function"]["arguments"].as_str().unwrap()).unwrap();
        assert_eq!(given, arguments());
    }

    fn after(call: &Value) -> Vec<Value> {
        let id = &call["tool_calls"][0]["id"];
        vec![
            json!({ "role": "user", "content": "run the tool" }),
            // Not the model's words.
            json!({ "role": "assistant", "content": "Sure." }),
            call.clone(),
            json!({ "role": "tool", "tool_call_id": id, "content": "dev\n" }),
        ]
    }

    #[test]
    fn the_script_is_followed_in_one_piece() {
        let model = model();
        let user = [json!({ "role": "user", "content": "run the tool" })];
        let answer = ask(&model, TARGET, &request(false, &user));
        assert_eq!(answer["choices"][0]["finish_reason"], "tool_calls");
        let call = &answer["choices"][0]["message"];
        assert_is_call(call);

        let answer = ask(&model, TARGET, &request(false, &after(call)));
        assert_eq!(answer["choices"][0]["finish_reason"], "stop");
        assert_eq!(answer["choices"][0]["message"]["content"], SAID);
        assert_eq!(model.outputs(), ["dev\n"]);
    }

    #[test]
    fn the_script_is_followed_in_a_stream() {
        let model = model();
        let user = [json!({ "role": "user", "content": "run the tool" })];
        let chunks = events(&model, TARGET, &request(true, &user));
        let call = &chunks[0]["choices"][0]["delta"];
        assert_is_call(call);
        assert_eq!(chunks[1]["choices"][0]["finish_reason"], "tool_calls");
        assert_eq!(chunks[2]["usage"]["total_tokens"], 2);

        let body = post(&model, TARGET, &request(true, &after(call)));
        assert!(body.ends_with("data: [DONE]\n\n") && body.contains(SAID), "{body}");
    }

    #[test]
    fn a_request_for_a_title_gets_words_and_is_no_conversation() {
        let model = model();
        let mut title = request(true, &[json!({ "role": "user", "content": "a title" })]);
        title.as_object_mut().unwrap().remove("tools");
        let chunks = events(&model, TARGET, &title);
        let words = &chunks[0]["choices"][0]["delta"]["content"];
        assert_eq!(words, "The request offers no shell tool.");
        assert_eq!((model.requests().len(), model.conversation()), (1, None));
    }
}

mod messages {
    use super::*;

    const TARGET: &str = "/v1/messages?beta=true";

    fn request(stream: bool, messages: &[Value]) -> Value {
        json!({
            "model": "fake-1",
            "stream": stream,
            "messages": messages,
            "tools": [{ "name": "Bash", "input_schema": schema() }],
        })
    }

    fn after(call: &Value) -> Vec<Value> {
        let result = json!({
            "type": "tool_result",
            "tool_use_id": call["id"],
            "content": [{ "type": "text", "text": "dev\n" }],
        });
        vec![
            json!({ "role": "user", "content": "run the tool" }),
            json!({ "role": "assistant", "content": [call] }),
            json!({ "role": "user", "content": [result] }),
        ]
    }

    #[test]
    fn the_script_is_followed_in_one_piece() {
        let model = model();
        let user = [json!({ "role": "user", "content": "run the tool" })];
        let answer = ask(&model, TARGET, &request(false, &user));
        assert_eq!(answer["stop_reason"], "tool_use");
        let call = &answer["content"][0];
        assert_eq!((&call["name"], &call["input"]), (&"Bash".into(), &arguments()));

        let answer = ask(&model, TARGET, &request(false, &after(call)));
        assert_eq!(answer["stop_reason"], "end_turn");
        assert_eq!(answer["content"][0], json!({ "type": "text", "text": SAID }));
        assert_eq!(model.outputs(), ["dev\n"]);
    }

    #[test]
    fn the_script_is_followed_in_a_stream() {
        let model = model();
        let user = [json!({ "role": "user", "content": "run the tool" })];
        let answer = events(&model, TARGET, &request(true, &user));
        let types: Vec<&str> = answer.iter().map(|event| event["type"].as_str().unwrap()).collect();
        let whole = [
            "message_start",
            "content_block_start",
            "content_block_delta",
            "content_block_stop",
            "message_delta",
            "message_stop",
        ];
        assert_eq!(types, whole);
        let (start, delta) = (&answer[1]["content_block"], &answer[2]["delta"]);
        assert_eq!((&start["name"], &start["input"]), (&"Bash".into(), &json!({})));
        let given: Value = serde_json::from_str(delta["partial_json"].as_str().unwrap()).unwrap();
        assert_eq!(given, arguments());
        assert_eq!(answer[4]["delta"]["stop_reason"], "tool_use");

        let answer = events(&model, TARGET, &request(true, &after(start)));
        assert_eq!(answer[1]["content_block"], json!({ "type": "text", "text": "" }));
        assert_eq!(answer[2]["delta"]["text"], SAID);
        assert_eq!(answer[4]["delta"]["stop_reason"], "end_turn");
    }

    #[test]
    fn what_is_asked_beside_the_conversation_is_answered_and_not_recorded() {
        let model = model();
        let (status, body) = send(&model, "HEAD", "/api/hello", "");
        assert_eq!((status, body.as_str()), (200, ""));
        let count = ask(&model, "/v1/messages/count_tokens?beta=true", &request(false, &[]));
        assert_eq!(count["input_tokens"], 1);
        assert_eq!(model.requests(), [] as [Value; 0]);
    }
}

mod gemini {
    use super::*;

    const ONCE: &str = "/v1beta/models/fake-1:generateContent";
    const STREAM: &str = "/v1beta/models/fake-1:streamGenerateContent?alt=sse";

    fn request(contents: &[Value]) -> Value {
        let shell = json!({ "name": "run_shell_command", "parametersJsonSchema": schema() });
        json!({ "contents": contents, "tools": [{ "functionDeclarations": [shell] }] })
    }

    fn user() -> Value {
        json!({ "role": "user", "parts": [{ "text": "run the tool" }] })
    }

    fn assert_is_call(answer: &Value) -> Value {
        let call = answer["candidates"][0]["content"]["parts"][0]["functionCall"].clone();
        assert_eq!((&call["name"], &call["args"]), (&"run_shell_command".into(), &arguments()));
        call
    }

    fn after(call: &Value) -> [Value; 3] {
        let response = json!({ "id": call["id"], "response": { "output": "dev\n" } });
        [
            user(),
            json!({ "role": "model", "parts": [{ "functionCall": call }] }),
            json!({ "role": "user", "parts": [{ "functionResponse": response }] }),
        ]
    }

    #[test]
    fn the_script_is_followed_in_one_piece() {
        let model = model();
        let call = assert_is_call(&ask(&model, ONCE, &request(&[user()])));
        let answer = ask(&model, ONCE, &request(&after(&call)));
        assert_eq!(answer["candidates"][0]["content"]["parts"], json!([{ "text": SAID }]));
        assert_eq!(answer["candidates"][0]["finishReason"], "STOP");
        assert_eq!(model.outputs(), ["dev\n"]);
    }

    #[test]
    fn the_script_is_followed_in_a_stream() {
        let model = model();
        let answer = events(&model, STREAM, &request(&[user()]));
        assert_eq!(answer.len(), 1);
        let call = assert_is_call(&answer[0]);
        let answer = events(&model, STREAM, &request(&after(&call)));
        assert_eq!(answer[0]["candidates"][0]["content"]["parts"][0]["text"], SAID);
    }

    #[test]
    fn tokens_are_counted_and_another_stream_is_refused() {
        let model = model();
        let count = ask(&model, "/v1beta/models/fake-1:countTokens", &request(&[user()]));
        assert_eq!(count["totalTokens"], 1);
        let target = "/v1beta/models/fake-1:streamGenerateContent";
        let (status, body) = send(&model, "POST", target, &request(&[user()]).to_string());
        assert_eq!((status, body.contains("only alt=sse is spoken")), (400, true), "{body}");
        assert_eq!(model.requests(), [] as [Value; 0]);
    }
}

/// The arguments of the call that a shell tool of this name and schema gets.
fn call_of(name: &str, schema: &Value) -> Option<Value> {
    let function = json!({ "name": name, "parameters": schema });
    let request = json!({
        "messages": [{ "role": "user", "content": "run the tool" }],
        "tools": [{ "type": "function", "function": function }],
    });
    let answer = ask(&model(), "/v1/chat/completions", &request);
    let call = &answer["choices"][0]["message"]["tool_calls"][0]["function"];
    assert!(call.is_null() || call["name"] == name);
    call["arguments"].as_str().map(|text| serde_json::from_str(text).unwrap())
}

#[test]
fn a_shell_tool_is_called_as_its_schema_has_it() {
    let takes =
        |property: &str, kind: &str| json!({ "properties": { property: { "type": kind } } });
    for (name, property) in [("exec_command", "cmd"), ("shell", "command"), ("bash", "script")] {
        let call = call_of(name, &takes(property, "string"));
        assert_eq!(call, Some(json!({ property: "id -un" })), "{name}");
    }
    // Gemini's own interface spells types in capitals.
    let call = call_of("shell", &takes("command", "ARRAY"));
    assert_eq!(call, Some(json!({ "command": ["sh", "-c", "id -un"] })));

    let demanding = json!({
        "properties": {
            "command": { "type": "string" },
            "mode": { "type": "string", "enum": ["sync", "async"] },
            "wait": { "type": "integer", "minimum": 5 },
        },
        "required": ["command", "mode", "wait"],
    });
    let call = call_of("bash", &demanding);
    assert_eq!(call, Some(json!({ "command": "id -un", "mode": "sync", "wait": 5 })));

    for (name, property) in [("bash", "session"), ("grep", "command")] {
        assert_eq!(call_of(name, &takes(property, "string")), None, "{name}");
    }
}
