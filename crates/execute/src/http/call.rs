//! Call: one request over HTTP on its way, and how it is answered.

use std::borrow::Cow;
use std::sync::Arc;

use cellar_engine::{Deadline, Error, Key};
use cellar_net::output::Output;
use cellar_protocol::http::reply::{DATE_BYTES, Head, Stay};
use cellar_protocol::http::{Mark, Method, Refused, Request, Status};
use cellar_shared::auth::users::{Login, User};

use super::date;
use crate::context::{Context, Flow};
use crate::permission::{Need, check};

/// A request that is being answered.
pub(super) struct Call<'c> {
    pub(super) request: &'c Request<'c>,
    pub(super) context: Context<'c>,
    pub(super) output: &'c mut Output,
    pub(super) stay: Stay,
    /// Whether the client uses TLS.
    pub(super) is_tls: bool,
    /// The client's login, on a server with users.
    pub(super) login: Option<Login>,
}

/// Why a request is not done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) status: Status,
    /// A word for programs.
    pub(super) code: &'static str,
    /// A sentence for people, escaped for a JSON string.
    pub(super) message: Cow<'static, str>,
    /// Further fields, each with its line end.
    pub(super) fields: Cow<'static, str>,
}

/// The result of a request: answered, or failed.
pub(super) type Outcome = Result<Flow, Failure>;

/// A request that is answered as a whole.
pub(super) const DONE: Outcome = Ok(Flow::Continue);

impl Failure {
    pub(super) const fn new(status: Status, code: &'static str, message: &'static str) -> Failure {
        Failure::with(status, code, message, "")
    }

    /// The same with further fields, each with its line end.
    pub(super) const fn with(
        status: Status,
        code: &'static str,
        message: &'static str,
        fields: &'static str,
    ) -> Failure {
        Failure {
            status,
            code,
            message: Cow::Borrowed(message),
            fields: Cow::Borrowed(fields),
        }
    }

    pub(super) const fn bad(code: &'static str, message: &'static str) -> Failure {
        Failure::new(Status::BAD_REQUEST, code, message)
    }

    /// The same with a message that has the values of this request.
    pub(super) fn says(self, message: String) -> Failure {
        Failure {
            message: Cow::Owned(message),
            ..self
        }
    }

    /// The path has no such method, but these.
    pub(super) const fn not_allowed(fields: &'static str) -> Failure {
        Failure {
            status: Status::METHOD_NOT_ALLOWED,
            code: "method_not_allowed",
            message: Cow::Borrowed(
                "the path does not support this method; the header Allow lists the supported ones",
            ),
            fields: Cow::Borrowed(fields),
        }
    }
}

/// How much of a client's text an error has at most.
const SHOWN_BYTES_MAX: usize = 200;

/// A text of a client for a message: cut short, and escaped for the JSON string around it.
pub(super) fn shown(text: &str) -> String {
    let text = &text[..text.floor_char_boundary(SHOWN_BYTES_MAX)];
    let quoted = serde_json::Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

pub(super) const NO_PERMISSION: Failure = Failure::new(
    Status::FORBIDDEN,
    "no_permission",
    "the user has no permission for this operation or this key",
);
pub(super) const NOT_FOUND: Failure =
    Failure::new(Status::NOT_FOUND, "not_found", "the key does not exist");
pub(super) const WRONG_KIND: Failure = Failure::new(
    Status::CONFLICT,
    "wrong_kind",
    "the key holds a hash, set, sorted set or list; use the Redis protocol",
);
pub(super) const PRECONDITION_FAILED: Failure = Failure::new(
    Status::PRECONDITION_FAILED,
    "precondition_failed",
    "a condition of the request is not met",
);

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        match error {
            Error::TooLarge { .. } => {
                Failure::new(Status::CONTENT_TOO_LARGE, "content_too_large", "")
                    .says(error.to_string())
            }
            Error::KeyLength { .. } => {
                Failure::new(Status::URI_TOO_LONG, "key_too_long", "").says(error.to_string())
            }
            Error::StateFull => Failure::new(
                Status::INSUFFICIENT_STORAGE,
                "state_full",
                "the file system of --state is full",
            ),
            _ => Failure::new(
                Status::INSUFFICIENT_STORAGE,
                "busy",
                "values in transfer use all memory; try again",
            ),
        }
    }
}

impl From<&Refused> for Failure {
    fn from(refused: &Refused) -> Failure {
        Failure::new(refused.status, refused.code, refused.message)
    }
}

/// How the connection continues after a request, where the reply has to say so.
#[inline]
pub(super) fn stay_of(request: &Request<'_>) -> Stay {
    if request.marks.has(Mark::Close) {
        Stay::Close
    } else if request.marks.has(Mark::KeepAlive) {
        Stay::KeepAlive
    } else {
        Stay::Silent
    }
}

impl<'c> Call<'c> {
    #[inline]
    pub(super) fn new(
        request: &'c Request<'c>,
        context: Context<'c>,
        output: &'c mut Output,
    ) -> Call<'c> {
        Call {
            request,
            context,
            output,
            stay: stay_of(request),
            is_tls: false,
            login: None,
        }
    }

    #[inline]
    pub(super) fn is_head(&self) -> bool {
        self.request.method == Method::Head
    }

    /// The client's user, on a server with users.
    #[inline]
    pub(super) fn user(&self) -> Option<&Arc<User>> {
        self.login.as_ref().map(Login::user)
    }

    /// The hashed key of bytes from a request.
    pub(super) fn key<'k>(&self, bytes: &'k [u8]) -> Result<Key<'k>, Failure> {
        if bytes.is_empty() {
            return Err(Failure::bad("bad_key", "the key is empty"));
        }
        self.check_key(bytes)?;
        Ok(self.context.state.key(bytes)?)
    }

    /// Whether the client's user may use a key.
    #[inline]
    pub(super) fn check_key(&self, key: &[u8]) -> Result<(), Failure> {
        match self.user() {
            Some(user) if !user.may_use(key) => Err(NO_PERMISSION),
            _ => Ok(()),
        }
    }

    /// Whether the client's user has this permission.
    pub(super) fn check_need(&self, need: Need) -> Result<(), Failure> {
        self.check_need_in(need, 0)
    }

    /// The same in a database.
    pub(super) fn check_need_in(&self, need: Need, database: u32) -> Result<(), Failure> {
        match self.user() {
            Some(user) => check(user, need, database, []).map_err(|_| NO_PERMISSION),
            None => Ok(()),
        }
    }

    /// Begins a response.
    #[inline]
    pub(super) fn head(&mut self, status: Status) -> Head<'_> {
        let date = date::now(self.context);
        Head::begin(self.output.bytes(), status, self.stay, &date)
    }

    /// Ends a request after its execution.
    #[inline]
    pub(super) fn finish(mut self, outcome: Outcome) -> Flow {
        let flow = match outcome {
            Ok(flow) => flow,
            Err(failure) => {
                self.answer_failure(&failure);
                Flow::Continue
            }
        };
        match flow {
            Flow::Continue if self.stay == Stay::Close => Flow::Close,
            flow => flow,
        }
    }

    /// Answers that a request is not done.
    pub(super) fn answer_failure(&mut self, failure: &Failure) {
        if ![Status::NOT_FOUND.code(), Status::MOVED.code()].contains(&failure.status.code()) {
            self.context.counters.protocol_errors.add(1);
        }
        let head = self.is_head();
        write_failure(
            self.output,
            failure,
            (self.stay, head),
            &date::now(self.context),
        );
    }

    /// Answers with a document of JSON.
    pub(super) fn json(&mut self, status: Status, fields: &[u8], body: &[u8]) {
        let mut head = self.head(status);
        head.raw(b"Content-Type: application/json\r\n").raw(fields);
        head.end(body.len());
        if !self.is_head() {
            self.output.bytes().extend_from_slice(body);
        }
    }
}

/// Appends the response for a failure; without its body for HEAD.
pub(super) fn write_failure(
    output: &mut Output,
    failure: &Failure,
    (stay, is_head): (Stay, bool),
    date: &[u8; DATE_BYTES],
) {
    const BEGIN: &str = "{\"error\":{\"code\":\"";
    const MIDDLE: &str = "\",\"message\":\"";
    const END: &str = "\"}}\n";
    let out = output.bytes();
    let parts = [BEGIN, failure.code, MIDDLE, &failure.message, END];
    let mut head = Head::begin(out, failure.status, stay, date);
    head.raw(b"Content-Type: application/json\r\n")
        .raw(failure.fields.as_bytes());
    head.end(parts.iter().map(|part| part.len()).sum());
    if !is_head {
        parts
            .iter()
            .for_each(|part| out.extend_from_slice(part.as_bytes()));
    }
}

/// How long a value stays fresh, as sent to its reader.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Freshness {
    /// The reader recomputes the value when fewer milliseconds than this are left.
    pub(super) early_ms: Option<u64>,
    /// The value was marked as stale.
    pub(super) is_stale: bool,
}

impl Freshness {
    /// Appends the fields that tell caches how long a value lives: no cache may keep it longer than
    /// this one, so the seconds are rounded down.
    #[inline]
    pub(super) fn write(self, head: &mut Head<'_>, deadline: Deadline, context: Context<'_>) {
        if self.is_stale {
            head.raw(b"Cache-Control: no-cache\r\n");
            return;
        }
        let Some(left_ms) = deadline.remaining_ms(context.cache().now()) else {
            return;
        };
        match self.early_ms {
            None => {
                head.number("Age: 0\r\nCache-Control: max-age=", left_ms / 1_000);
            }
            Some(early_ms) => {
                let (fresh_s, early_s) =
                    (left_ms.saturating_sub(early_ms) / 1_000, early_ms / 1_000);
                let value = format!("max-age={fresh_s}, stale-while-revalidate={early_s}");
                head.raw(b"Age: 0\r\n")
                    .field("Cache-Control", value.as_bytes());
            }
        }
    }
}
