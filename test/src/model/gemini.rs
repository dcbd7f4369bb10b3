//! Gemini: `POST /v1beta/models/NAME:generateContent` and `:streamGenerateContent?alt=sse`.
//! Gemini CLI speaks it.

use serde_json::{Value, json};

use super::http::{Request, Response, events};
use super::script::{Act, Answer, Entry};
use super::tool::{Tool, offered};

/// What is asked of a model.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Method {
    Generate,
    Stream,
    Count,
}

/// The method that a path names.
pub(super) fn method(path: &str) -> Option<Method> {
    let (_, rest) = path.strip_prefix("/v1")?.split_once("/models/")?;
    match rest.split_once(':')?.1 {
        "generateContent" => Some(Method::Generate),
        "streamGenerateContent" => Some(Method::Stream),
        "countTokens" => Some(Method::Count),
        _ => None,
    }
}

pub(super) fn tools(request: &Value) -> Vec<Tool> {
    let groups = request["tools"].as_array().into_iter().flatten();
    let functions = groups.filter_map(|group| group["functionDeclarations"].as_array()).flatten();
    offered(functions, &["parametersJsonSchema", "parameters"])
}

pub(super) fn history(request: &Value) -> Vec<Entry> {
    let contents = request["contents"].as_array().into_iter().flatten();
    contents.flat_map(entries).collect()
}

fn entries(content: &Value) -> Vec<Entry> {
    let is_model = content["role"] == "model";
    let entry = |part: &Value| {
        if let Some(response) = part["functionResponse"].get("response") {
            let output = response["output"].as_str();
            return Some(Entry::Output(output.map_or(response.to_string(), str::to_owned)));
        }
        part["text"].as_str().filter(|_| is_model).map(|text| Entry::Said(text.to_owned()))
    };
    content["parts"].as_array().into_iter().flatten().filter_map(entry).collect()
}

pub(super) fn respond(request: &Request, answer: &Answer) -> Response {
    let part = match &answer.act {
        Act::Call { tool, arguments } => {
            let call = json!({ "id": answer.id("call"), "name": tool, "args": arguments });
            json!({ "functionCall": call })
        }
        Act::Say(text) => json!({ "text": text }),
    };
    let content = json!({ "role": "model", "parts": [part] });
    let object = json!({
        "candidates": [{ "index": 0, "content": content, "finishReason": "STOP" }],
        "usageMetadata": { "promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2 },
        "responseId": answer.id("resp"),
    });
    match method(&request.path) {
        Some(Method::Stream) if request.query != "alt=sse" => {
            Response::error("400 Bad Request", "only alt=sse is spoken")
        }
        Some(Method::Stream) => Response::events(events(&[object])),
        _ => Response::json(&object),
    }
}
