//! `OpenAI`'s Responses: `POST /v1/responses`, streamed. Codex speaks it.

use serde_json::{Value, json};

use super::http::{Response, named_events};
use super::script::{Act, Answer, Entry};
use super::tool::{Tool, offered};

pub(super) fn tools(request: &Value) -> Vec<Tool> {
    offered(request["tools"].as_array().into_iter().flatten(), &["parameters"])
}

pub(super) fn history(request: &Value) -> Vec<Entry> {
    let entry = |item: &Value| {
        if item["type"] == "function_call_output" {
            Some(Entry::Output(text_of(&item["output"])))
        } else if item["role"] == "assistant" {
            Some(Entry::Said(text_of(&item["content"])))
        } else {
            None
        }
    };
    request["input"].as_array().into_iter().flatten().filter_map(entry).collect()
}

/// The text of a string, or of an array of parts.
fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect(),
        other => other.to_string(),
    }
}

pub(super) fn respond(request: &Value, answer: &Answer) -> Response {
    if request["stream"] != true {
        return Response::error("400 Bad Request", "only streamed responses are spoken");
    }
    let item = match &answer.act {
        Act::Call { tool, arguments } => json!({
            "type": "function_call",
            "id": answer.id("fc"),
            "call_id": answer.id("call"),
            "name": tool,
            "arguments": arguments.to_string(),
        }),
        Act::Say(text) => json!({
            "type": "message",
            "id": answer.id("msg"),
            "role": "assistant",
            "content": [{ "type": "output_text", "text": text }],
        }),
    };
    let id = answer.id("resp");
    let usage = json!({ "input_tokens": 1, "output_tokens": 1, "total_tokens": 2 });
    Response::events(named_events(&[
        json!({ "type": "response.created", "response": { "id": id } }),
        json!({ "type": "response.output_item.added", "output_index": 0, "item": item }),
        json!({ "type": "response.output_item.done", "output_index": 0, "item": item }),
        json!({ "type": "response.completed", "response": { "id": id, "usage": usage } }),
    ]))
}
