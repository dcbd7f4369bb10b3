//! What herdr's own schema allows.

use jsonschema::Validator;
use serde_json::Value;

const SCHEMA: &str = include_str!("../../herdr-api.schema.json");

/// The checks of requests and replies.
pub(super) struct Schema {
    document: Value,
    request: Validator,
    success: Validator,
    error: Validator,
}

impl Schema {
    /// That of herdr 0.8.
    pub(super) fn load() -> Self {
        let document: Value = serde_json::from_str(SCHEMA).expect("JSON");
        let of = |name: &str| {
            let mut schema = document.clone();
            schema["$ref"] = format!("#/schemas/{name}").into();
            jsonschema::draft202012::new(&schema).expect("a schema")
        };
        Self {
            request: of("request"),
            success: of("success_response"),
            error: of("error_response"),
            document,
        }
    }

    /// What is wrong with a request. herdr itself passes over parameters that it does
    /// not know; whoever writes one means something by it.
    pub(super) fn fault_of_request(&self, request: &Value) -> Option<String> {
        if let Err(error) = self.request.validate(request) {
            return Some(format!("{request}: {error}"));
        }
        let known = self.parameters(request["method"].as_str()?)?;
        let params = request["params"].as_object()?;
        let unknown: Vec<&String> = params.keys().filter(|key| known.get(key).is_none()).collect();
        (!unknown.is_empty()).then(|| format!("{request}: unknown parameters {unknown:?}"))
    }

    /// The properties of a method's parameters.
    fn parameters(&self, method: &str) -> Option<&Value> {
        let request = &self.document["schemas"]["request"];
        let methods = request["oneOf"].as_array()?;
        let found = methods.iter().find(|one| one["properties"]["method"]["const"] == method)?;
        let reference = found["properties"]["params"]["$ref"].as_str()?;
        let name = reference.rsplit('/').next()?;
        request["$defs"][name].get("properties")
    }

    /// What is wrong with a reply.
    pub(super) fn fault_of_reply(&self, reply: &Value) -> Option<String> {
        let schema = if reply["error"].is_null() { &self.success } else { &self.error };
        schema.validate(reply).err().map(|error| format!("{reply}: {error}"))
    }
}
