//! Anthropic's messages: `POST /v1/messages`, streamed or not. Claude Code speaks it.

use serde_json::{Value, json};

use super::http::{Response, named_events};
use super::script::{Act, Answer, Entry};
use super::tool::{Tool, offered};

pub(super) fn tools(request: &Value) -> Vec<Tool> {
    offered(request["tools"].as_array().into_iter().flatten(), &["input_schema"])
}

pub(super) fn history(request: &Value) -> Vec<Entry> {
    let messages = request["messages"].as_array().into_iter().flatten();
    messages.flat_map(entries).collect()
}

fn entries(message: &Value) -> Vec<Entry> {
    let is_assistant = message["role"] == "assistant";
    let said = |text: &Value| is_assistant.then(|| Entry::Said(text_of(text)));
    let content = &message["content"];
    let Some(blocks) = content.as_array() else { return said(content).into_iter().collect() };
    let entry = |block: &Value| match block["type"].as_str() {
        Some("tool_result") => Some(Entry::Output(text_of(&block["content"]))),
        Some("text") => said(&block["text"]),
        _ => None,
    };
    blocks.iter().filter_map(entry).collect()
}

/// The text of a string, or of an array of blocks.
fn text_of(content: &Value) -> String {
    let blocks = content.as_array().into_iter().flatten();
    content
        .as_str()
        .map_or_else(|| blocks.filter_map(|block| block["text"].as_str()).collect(), str::to_owned)
}

pub(super) fn respond(request: &Value, answer: &Answer) -> Response {
    let (block, reason) = match &answer.act {
        Act::Call { tool, arguments } => {
            let id = answer.id("toolu");
            let block = json!({ "type": "tool_use", "id": id, "name": tool, "input": arguments });
            (block, "tool_use")
        }
        Act::Say(text) => (json!({ "type": "text", "text": text }), "end_turn"),
    };
    let message = |content: &[Value], reason: Option<&str>| {
        json!({
            "id": answer.id("msg"),
            "type": "message",
            "role": "assistant",
            "model": request["model"],
            "content": content,
            "stop_reason": reason,
            "stop_sequence": null,
            "usage": { "input_tokens": 1, "output_tokens": 1 },
        })
    };
    if request["stream"] != true {
        return Response::json(&message(&[block], Some(reason)));
    }

    // A block begins empty, and what it holds follows.
    let (mut start, delta) = (
        block.clone(),
        match &answer.act {
            Act::Call { arguments, .. } => {
                json!({ "type": "input_json_delta", "partial_json": arguments.to_string() })
            }
            Act::Say(text) => json!({ "type": "text_delta", "text": text }),
        },
    );
    match &answer.act {
        Act::Call { .. } => start["input"] = json!({}),
        Act::Say(_) => start["text"] = json!(""),
    }
    Response::events(named_events(&[
        json!({ "type": "message_start", "message": message(&[], None) }),
        json!({ "type": "content_block_start", "index": 0, "content_block": start }),
        json!({ "type": "content_block_delta", "index": 0, "delta": delta }),
        json!({ "type": "content_block_stop", "index": 0 }),
        json!({
            "type": "message_delta",
            "delta": { "stop_reason": reason, "stop_sequence": null },
            "usage": { "output_tokens": 1 },
        }),
        json!({ "type": "message_stop" }),
    ]))
}
