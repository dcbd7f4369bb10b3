//! A request line, taken apart. What herdr's schema demands is demanded here;
//! what it does not name is ignored, as herdr ignores it.

use serde_json::{Map, Value};

use super::{MOST_REQUEST_BYTES, REFUSED};

/// Why a request is not carried out.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(super) enum Refusal {
    /// herdr's own limit is wider.
    #[error("refused inside the sandbox: a request is at most {MOST_REQUEST_BYTES} bytes")]
    TooLong,
    /// The parser's words name a place, never what stands there.
    #[error("refused inside the sandbox: the request is no JSON: {0}")]
    NotJson(String),
    /// Of `what`, not as the schema has it.
    #[error("refused inside the sandbox: `{what}` must be {wants}")]
    Field { what: &'static str, wants: &'static str },
    /// Not one that is answered here; escaped already.
    #[error(
        "refused inside the sandbox: `{0}` is not answered here, only `ping` and status reports \
         of the agent's own pane"
    )]
    Method(String),
}

impl Refusal {
    /// herdr's word for a request that it cannot read, or our own.
    pub(super) fn code(&self) -> &'static str {
        match self {
            Self::Method(_) => REFUSED,
            Self::TooLong | Self::NotJson(_) | Self::Field { .. } => "invalid_request",
        }
    }
}

/// A request with an id and a method. Its parameters are not checked yet.
pub(super) struct Request {
    id: String,
    method: String,
    params: Option<Value>,
}

impl Request {
    pub(super) fn parse(line: &[u8]) -> Result<Self, Refusal> {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        if line.len() > MOST_REQUEST_BYTES {
            return Err(Refusal::TooLong);
        }
        let request: Value =
            serde_json::from_slice(line).map_err(|e| Refusal::NotJson(e.to_string()))?;
        let Value::Object(mut request) = request else {
            return Err(Refusal::Field { what: "request", wants: "an object" });
        };
        let mut text = |what| match request.remove(what) {
            Some(Value::String(text)) => Ok(text),
            _ => Err(Refusal::Field { what, wants: "a string" }),
        };
        let (id, method) = (text("id")?, text("method")?);
        Ok(Self { id, method, params: request.remove("params") })
    }

    pub(super) fn id(&self) -> &str {
        &self.id
    }

    pub(super) fn method(&self) -> &str {
        &self.method
    }

    pub(super) fn params(&self) -> Result<Params<'_>, Refusal> {
        match &self.params {
            Some(Value::Object(params)) => Ok(Params(params)),
            _ => Err(Refusal::Field { what: "params", wants: "an object" }),
        }
    }
}

/// The parameters of a request.
pub(super) struct Params<'a>(&'a Map<String, Value>);

impl<'a> Params<'a> {
    /// Demands that each is there and a string.
    pub(super) fn texts(&self, names: &[&'static str]) -> Result<(), Refusal> {
        let wrong = names.iter().find(|name| !matches!(self.0.get(**name), Some(Value::String(_))));
        wrong.map_or(Ok(()), |what| Err(Refusal::Field { what, wants: "a string" }))
    }

    /// Demands that each that is there is a string.
    pub(super) fn optional_texts(&self, names: &[&'static str]) -> Result<(), Refusal> {
        let wrong =
            names.iter().find(|name| self.has(name) && !matches!(self.0[**name], Value::String(_)));
        wrong.map_or(Ok(()), |what| Err(Refusal::Field { what, wants: "a string or null" }))
    }

    pub(super) fn optional_number(&self, what: &'static str) -> Result<(), Refusal> {
        if self.has(what) && !self.0[what].is_u64() {
            return Err(Refusal::Field { what, wants: "an unsigned number or null" });
        }
        Ok(())
    }

    /// The one of `words` that it is.
    pub(super) fn one_of(
        &self,
        what: &'static str,
        words: &[&'static str],
    ) -> Result<&'static str, Refusal> {
        let word = self.text(what).and_then(|text| words.iter().find(|word| **word == text));
        word.copied().ok_or(Refusal::Field { what, wants: "a state that herdr has" })
    }

    pub(super) fn text(&self, name: &str) -> Option<&'a str> {
        self.0.get(name)?.as_str()
    }

    /// Whether it is there and not null.
    pub(super) fn has(&self, name: &str) -> bool {
        self.0.get(name).is_some_and(|value| !value.is_null())
    }
}
