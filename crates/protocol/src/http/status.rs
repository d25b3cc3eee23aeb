//! Status: the outcomes that a response begins with.
//!
//! Source: RFC 9110, section 15; RFC 6585 for 429 and 431.

/// A status code with its line, as far as the date behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    code: u16,
    line: &'static str,
}

macro_rules! statuses {
    ($($name:ident $code:literal $reason:literal;)*) => {
        impl Status {
            $(
                #[doc = concat!(stringify!($code), " ", $reason)]
                pub const $name: Status = Status {
                    code: $code,
                    line: concat!("HTTP/1.1 ", stringify!($code), " ", $reason, "\r\nDate: "),
                };
            )*

            /// The status with this code; 500 if it is not in the table.
            #[must_use]
            pub fn of(code: u16) -> Status {
                match code {
                    $($code => Status::$name,)*
                    _ => Status::INTERNAL,
                }
            }
        }
    };
}

statuses! {
    OK 200 "OK";
    CREATED 201 "Created";
    NO_CONTENT 204 "No Content";
    NOT_MODIFIED 304 "Not Modified";
    MOVED 307 "Temporary Redirect";
    BAD_REQUEST 400 "Bad Request";
    UNAUTHORIZED 401 "Unauthorized";
    FORBIDDEN 403 "Forbidden";
    NOT_FOUND 404 "Not Found";
    METHOD_NOT_ALLOWED 405 "Method Not Allowed";
    NOT_ACCEPTABLE 406 "Not Acceptable";
    REQUEST_TIMEOUT 408 "Request Timeout";
    CONFLICT 409 "Conflict";
    LENGTH_REQUIRED 411 "Length Required";
    PRECONDITION_FAILED 412 "Precondition Failed";
    CONTENT_TOO_LARGE 413 "Content Too Large";
    URI_TOO_LONG 414 "URI Too Long";
    UNSUPPORTED_MEDIA_TYPE 415 "Unsupported Media Type";
    EXPECTATION_FAILED 417 "Expectation Failed";
    MISDIRECTED 421 "Misdirected Request";
    TOO_MANY_REQUESTS 429 "Too Many Requests";
    FIELDS_TOO_LARGE 431 "Request Header Fields Too Large";
    INTERNAL 500 "Internal Server Error";
    NOT_IMPLEMENTED 501 "Not Implemented";
    UNAVAILABLE 503 "Service Unavailable";
    VERSION_NOT_SUPPORTED 505 "HTTP Version Not Supported";
    INSUFFICIENT_STORAGE 507 "Insufficient Storage";
}

impl Status {
    /// The three digits.
    #[must_use]
    pub fn code(self) -> u16 {
        self.code
    }

    /// The status line, and the beginning of the field behind it, the date.
    #[inline]
    pub(super) fn line_to_date(self) -> &'static str {
        self.line
    }

    /// Whether a response of it has neither a body nor a length.
    #[must_use]
    pub fn is_bodiless(self) -> bool {
        matches!(self.code, 204 | 304)
    }
}
