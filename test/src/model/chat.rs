//! `OpenAI`'s chat completions: `POST /v1/chat/completions`, streamed or not. OpenCode,
//! goose, Qwen Code and Copilot speak it.

use serde_json::{Value, json};

use super::http::{Response, events};
use super::script::{Act, Answer, Entry};
use super::tool::{Tool, offered};

pub(super) fn tools(request: &Value) -> Vec<Tool> {
    let tools = request["tools"].as_array().into_iter().flatten();
    offered(tools.map(|tool| &tool["function"]), &["parameters"])
}

pub(super) fn history(request: &Value) -> Vec<Entry> {
    let entry = |message: &Value| match message["role"].as_str() {
        Some("tool") => Some(Entry::Output(text_of(&message["content"]))),
        Some("assistant") => Some(Entry::Said(text_of(&message["content"]))),
        _ => None,
    };
    request["messages"].as_array().into_iter().flatten().filter_map(entry).collect()
}

/// The text of a string, or of an array of parts.
fn text_of(content: &Value) -> String {
    let parts = content.as_array().into_iter().flatten();
    content
        .as_str()
        .map_or_else(|| parts.filter_map(|part| part["text"].as_str()).collect(), str::to_owned)
}

pub(super) fn respond(request: &Value, answer: &Answer) -> Response {
    let (message, reason) = match &answer.act {
        Act::Call { tool, arguments } => {
            let call = json!({
                "index": 0,
                "id": answer.id("call"),
                "type": "function",
                "function": { "name": tool, "arguments": arguments.to_string() },
            });
            let message = json!({ "role": "assistant", "content": null, "tool_calls": [call] });
            (message, "tool_calls")
        }
        Act::Say(text) => (json!({ "role": "assistant", "content": text }), "stop"),
    };
    let usage = json!({ "prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2 });
    let object = |kind: &str, choice: Option<Value>, usage: Option<&Value>| {
        json!({
            "id": answer.id("chatcmpl"),
            "object": kind,
            "created": 0,
            "model": request["model"],
            "choices": choice.as_slice(),
            "usage": usage,
        })
    };

    if request["stream"] != true {
        let choice = json!({ "index": 0, "message": message, "finish_reason": reason });
        return Response::json(&object("chat.completion", Some(choice), Some(&usage)));
    }
    let chunk = |choice, usage| object("chat.completion.chunk", choice, usage);
    let mut stream = events(&[
        chunk(Some(json!({ "index": 0, "delta": message, "finish_reason": null })), None),
        chunk(Some(json!({ "index": 0, "delta": {}, "finish_reason": reason })), None),
        chunk(None, Some(&usage)),
    ]);
    stream.push_str("data: [DONE]\n\n");
    Response::events(stream)
}
