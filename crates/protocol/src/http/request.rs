//! Request: a head that was found well formed, and the body behind it.
//!
//! Fields that most requests lack are searched on demand ([`Request::field`]); the [`Marks`] say
//! whether they are present at all. [`Kept`] is a request whose body is still being received.

use super::target::Target;

/// The method of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// GET
    Get,
    /// HEAD
    Head,
    /// PUT
    Put,
    /// POST
    Post,
    /// DELETE
    Delete,
    /// Any other that HTTP knows: OPTIONS, PATCH, TRACE, CONNECT, QUERY.
    Other,
}

impl Method {
    /// The method of this name; `None` if HTTP knows none. Names are case sensitive.
    #[must_use]
    pub fn of(name: &str) -> Option<Method> {
        match name {
            "GET" => Some(Method::Get),
            "HEAD" => Some(Method::Head),
            "PUT" => Some(Method::Put),
            "POST" => Some(Method::Post),
            "DELETE" => Some(Method::Delete),
            "OPTIONS" | "PATCH" | "TRACE" | "CONNECT" | "QUERY" => Some(Method::Other),
            _ => None,
        }
    }

    /// Its name; empty for [`Method::Other`].
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Method::Get => "GET",
            Method::Head => "HEAD",
            Method::Put => "PUT",
            Method::Post => "POST",
            Method::Delete => "DELETE",
            Method::Other => "",
        }
    }
}

/// A header field that callers may ask about, or another fact about a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Mark {
    /// Authorization
    Authorization,
    /// Age
    Age,
    /// Cache-Control
    CacheControl,
    /// Content-Encoding
    ContentEncoding,
    /// Content-Length
    ContentLength,
    /// Content-Type
    ContentType,
    /// Content-Type, and it says application/json and nothing more
    Json,
    /// Expect, and it says 100-continue
    Expect,
    /// Host
    Host,
    /// If-Match
    IfMatch,
    /// If-None-Match
    IfNoneMatch,
    /// Transfer-Encoding
    TransferEncoding,
    /// The version is 1.0.
    Old,
    /// The connection ends with the response.
    Close,
    /// The client of an old version asked for the connection to stay.
    KeepAlive,
    /// A browser says that it sends it for a page of another origin.
    CrossSite,
    /// Origin
    Origin,
    /// Cache-Lease
    CacheLease,
    /// The target is a whole address.
    WholeAddress,
}

impl Mark {
    /// The name of the header field, in small letters.
    #[must_use]
    pub fn field(self) -> &'static str {
        match self {
            Mark::Authorization => "authorization",
            Mark::Age => "age",
            Mark::CacheControl => "cache-control",
            Mark::ContentEncoding => "content-encoding",
            Mark::ContentLength => "content-length",
            Mark::ContentType | Mark::Json => "content-type",
            Mark::Expect => "expect",
            Mark::Host => "host",
            Mark::IfMatch => "if-match",
            Mark::IfNoneMatch => "if-none-match",
            Mark::TransferEncoding => "transfer-encoding",
            Mark::Old | Mark::Close | Mark::KeepAlive => "connection",
            Mark::CrossSite => "sec-fetch-site",
            Mark::Origin => "origin",
            Mark::CacheLease => "cache-lease",
            Mark::WholeAddress => "",
        }
    }
}

/// A set of [`Mark`]s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks(u32);

impl Marks {
    /// Whether this mark is in the set.
    #[inline]
    #[must_use]
    pub fn has(self, mark: Mark) -> bool {
        self.0 & (1 << mark as u8) != 0
    }

    /// Puts a mark into the set; whether it was not there.
    #[inline]
    pub fn insert(&mut self, mark: Mark) -> bool {
        let before = self.0;
        self.0 |= 1 << mark as u8;
        self.0 != before
    }
}

/// A request, borrowed from the received bytes.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The method.
    pub method: Method,
    /// The request target.
    pub target: Target<'a>,
    /// Which header fields are present.
    pub marks: Marks,
    /// The field Host; `None` only where the version is 1.0.
    pub host: Option<&'a [u8]>,
    /// The body; empty while it is not received.
    pub body: &'a [u8],
    /// All of the head, the blank line included.
    pub(super) head: &'a [u8],
}

impl<'a> Request<'a> {
    /// The host, and perhaps its port, in a target that is a whole address; `None` for a path.
    #[must_use]
    pub fn authority(&self) -> Option<&'a [u8]> {
        if !self.marks.has(Mark::WholeAddress) {
            return None;
        }
        let line = Lines(self.head).next()?;
        let target = line.split(|byte| *byte == b' ').nth(1)?;
        let host = target.split(|byte| *byte == b'/').nth(2)?;
        host.split(|byte| *byte == b'?').next()
    }

    /// The value of the first field of this kind.
    #[must_use]
    pub fn field(&self, mark: Mark) -> Option<&'a [u8]> {
        if self.marks.has(mark) {
            self.fields(mark).next()
        } else {
            None
        }
    }

    /// The values of all fields of this kind, in their order.
    pub fn fields(&self, mark: Mark) -> impl Iterator<Item = &'a [u8]> {
        let name = mark.field().as_bytes();
        Lines(self.head).skip(1).filter_map(move |line| {
            let (found, value) = line.split_at_checked(name.len())?;
            let value = value.strip_prefix(b":")?;
            found.eq_ignore_ascii_case(name).then(|| value.trim_ascii())
        })
    }
}

/// A request that outlives the bytes it was decoded from, until its body is there.
#[derive(Clone, Debug)]
pub struct Kept {
    method: Method,
    path: Box<str>,
    query: Box<str>,
    marks: Marks,
    host: Option<Box<[u8]>>,
    head: Box<[u8]>,
}

impl Kept {
    /// Copies all of a request but its body.
    #[must_use]
    pub fn of(request: &Request<'_>) -> Kept {
        Kept {
            method: request.method,
            path: request.target.path().into(),
            query: request.target.query().into(),
            marks: request.marks,
            host: request.host.map(Box::from),
            head: request.head.into(),
        }
    }

    /// The request with this body.
    #[must_use]
    pub fn with_body<'a>(&'a self, body: &'a [u8]) -> Request<'a> {
        Request {
            method: self.method,
            target: Target::of_parts(&self.path, &self.query),
            marks: self.marks,
            host: self.host.as_deref(),
            body,
            head: &self.head,
        }
    }

    /// Bytes of memory beside its own size.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let host = self.host.as_ref().map_or(0, |host| host.len());
        self.path.len() + self.query.len() + host + self.head.len()
    }
}

/// The lines of a head, without their ends.
struct Lines<'a>(&'a [u8]);

impl<'a> Iterator for Lines<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let end = memchr::memchr(b'\n', self.0)?;
        let line = &self.0[..end];
        self.0 = &self.0[end + 1..];
        Some(line.strip_suffix(b"\r").unwrap_or(line))
    }
}
