//! What the guard itself replies.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Either, Full};
use hyper::body::Incoming;
use hyper::header::{ALLOW, CONNECTION, CONTENT_TYPE, EXPECT, HeaderValue, PROXY_AUTHENTICATE};
use hyper::{Request, Response, StatusCode};
use tokio::time::timeout;

use crate::Refusal;
use crate::forward::ReplyBody;
use crate::refusal::{Denial, Failure};

/// The reply that opens a tunnel.
pub(crate) fn opened() -> Response<ReplyBody> {
    Response::new(Either::Left(Full::default()))
}

/// The reply to a request that gets no connection: why, in one line of text, and
/// the first line of the hint.
pub(crate) fn denied(denial: &Denial, hint: Option<&str>) -> Response<ReplyBody> {
    let verdict = match denial {
        Denial::Refused(_) => "refused",
        Denial::Failed(_) => "failed",
    };
    let mut text = format!("{verdict}: {}: {denial}\n", denial.code());
    if let Some(line) = hint.and_then(|hint| hint.lines().next()) {
        text.push_str(line);
        text.push('\n');
    }
    let mut reply = Response::new(Either::Left(Full::from(text)));
    *reply.status_mut() = status(denial);
    let headers = reply.headers_mut();
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    match denial {
        Denial::Refused(Refusal::Method) => {
            headers.insert(ALLOW, HeaderValue::from_static(ALLOWED));
        }
        Denial::Refused(Refusal::Unauthenticated) => {
            headers.insert(PROXY_AUTHENTICATE, HeaderValue::from_static(CHALLENGE));
        }
        _ => {}
    }
    reply
}

/// Reads the body of a request that is denied, if it is short and comes at once.
///
/// A connection that is closed with bytes unread is reset, and the client may
/// never see the reply (RFC 9112 section 9.6). One that waits to be told to send
/// (`Expect`) is not told.
pub(crate) async fn drain(request: Request<Incoming>) {
    if request.headers().contains_key(EXPECT) {
        return;
    }
    let mut body = request.into_body();
    let reading = async {
        let mut left = MAX_DRAINED;
        while let Some(Ok(frame)) = body.frame().await {
            let length = frame.data_ref().map_or(0, Bytes::len);
            match left.checked_sub(length) {
                Some(rest) => left = rest,
                None => return,
            }
        }
    };
    // The reply follows in any case.
    let _ = timeout(DRAIN_DEADLINE, reading).await;
}

/// How much of a body is read for nothing, in bytes, and how long.
const MAX_DRAINED: usize = 1 << 20;
const DRAIN_DEADLINE: Duration = Duration::from_secs(1);
/// What a client must present that has not.
const CHALLENGE: &str = "Basic realm=\"paddock\"";
/// The methods of RFC 9110 and RFC 5789 but `TRACE`; others are served, too.
const ALLOWED: &str = "CONNECT, DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT";

fn status(denial: &Denial) -> StatusCode {
    match denial {
        Denial::Refused(Refusal::Method) => StatusCode::METHOD_NOT_ALLOWED,
        Denial::Refused(Refusal::Unauthenticated) => StatusCode::PROXY_AUTHENTICATION_REQUIRED,
        Denial::Refused(_) => StatusCode::FORBIDDEN,
        Denial::Failed(
            Failure::ResolveTimeout | Failure::ConnectTimeout { .. } | Failure::FirstByteTimeout,
        ) => StatusCode::GATEWAY_TIMEOUT,
        Denial::Failed(_) => StatusCode::BAD_GATEWAY,
    }
}
