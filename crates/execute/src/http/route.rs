//! Routes: the paths of the HTTP API, and their methods.
//!
//! Every path is a row of [`TABLE`]; any other path is a page or not found.

use cellar_protocol::http::Method;
use cellar_protocol::search::position;

/// A path and its methods.
#[derive(Clone, Copy, Debug)]
pub struct PathRow {
    /// The path; `{key}` stands for any.
    pub path: &'static str,
    /// The methods with which a request only reads.
    pub reads: &'static [Method],
    /// The methods with which it changes data.
    pub writes: &'static [Method],
    /// The field that lists them all.
    pub(super) allow: &'static str,
}

const ENTRY: PathRow = PathRow {
    path: "/v1/cache/{key}",
    reads: &[Method::Get, Method::Head],
    writes: &[Method::Put, Method::Delete],
    allow: "Allow: GET, HEAD, PUT, DELETE\r\n",
};
const COLLECTION: PathRow = PathRow {
    path: "/v1/cache",
    reads: &[Method::Get, Method::Head],
    writes: &[Method::Post],
    allow: "Allow: GET, HEAD, POST\r\n",
};
const INCREMENT: PathRow = post("/v1/cache/{key}/incr");
const INVALIDATE: PathRow = post("/v1/cache/{key}/invalidate");
const BATCH_GET: PathRow = post("/v1/cache/batch/get");
const BATCH_PUT: PathRow = post("/v1/cache/batch/put");

const fn post(path: &'static str) -> PathRow {
    PathRow {
        path,
        reads: &[],
        writes: &[Method::Post],
        allow: "Allow: POST\r\n",
    }
}

/// All paths at and below `/v1/cache`.
pub const TABLE: &[PathRow] = &[
    ENTRY, COLLECTION, INCREMENT, INVALIDATE, BATCH_GET, BATCH_PUT,
];

/// The target of a path; keys are as they were sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Route<'a> {
    /// One key.
    Entry(&'a [u8]),
    /// The cache as a whole.
    Collection,
    /// To count a key up.
    Increment(&'a [u8]),
    /// To mark a key's value as stale.
    Invalidate(&'a [u8]),
    /// To read several keys.
    BatchGet,
    /// To store several keys.
    BatchPut,
    /// Not found below `/v1/cache`.
    Missing,
    /// A page.
    Page,
}

impl<'a> Route<'a> {
    #[inline]
    pub(super) fn of(path: &'a [u8]) -> Route<'a> {
        let Some(rest) = path.strip_prefix(b"/v1/cache") else {
            return Route::Page;
        };
        let [b'/', rest @ ..] = rest else {
            return if rest.is_empty() {
                Route::Collection
            } else {
                Route::Page
            };
        };
        let Some(slash) = position(b'/', rest) else {
            return if rest.is_empty() {
                Route::Missing
            } else {
                Route::Entry(rest)
            };
        };
        match (&rest[..slash], &rest[slash + 1..]) {
            (b"batch", b"get") => Route::BatchGet,
            (b"batch", b"put") => Route::BatchPut,
            (key, b"incr") => Route::Increment(key),
            (key, b"invalidate") => Route::Invalidate(key),
            _ => Route::Missing,
        }
    }

    /// The row of its path; `None` for unknown paths and for pages.
    #[inline]
    pub(super) fn row(self) -> Option<&'static PathRow> {
        Some(match self {
            Route::Entry(_) => &ENTRY,
            Route::Collection => &COLLECTION,
            Route::Increment(_) => &INCREMENT,
            Route::Invalidate(_) => &INVALIDATE,
            Route::BatchGet => &BATCH_GET,
            Route::BatchPut => &BATCH_PUT,
            Route::Missing | Route::Page => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_asks_for_one_thing() {
        for (path, route) in [
            ("/v1/cache", Route::Collection),
            ("/v1/cache/", Route::Missing),
            ("/v1/cache/k", Route::Entry(b"k")),
            ("/v1/cache/a%2Fb", Route::Entry(b"a%2Fb")),
            ("/v1/cache/a/b", Route::Missing),
            ("/v1/cache/a/b/incr", Route::Missing),
            ("/v1/cache/batch", Route::Entry(b"batch")),
            ("/v1/cache/incr", Route::Entry(b"incr")),
            ("/v1/cache/batch/get", Route::BatchGet),
            ("/v1/cache/batch/put", Route::BatchPut),
            ("/v1/cache/batch/incr", Route::Increment(b"batch")),
            ("/v1/cache/k/invalidate", Route::Invalidate(b"k")),
            ("/v1/cache//incr", Route::Increment(b"")),
            ("/v1/cached", Route::Page),
            ("/", Route::Page),
            ("*", Route::Page),
        ] {
            assert_eq!(Route::of(path.as_bytes()), route, "{path}");
        }
    }

    #[test]
    fn every_row_is_found_by_its_path_and_lists_its_methods() {
        for row in TABLE {
            let path = row.path.replace("{key}", "k");
            let found = Route::of(path.as_bytes())
                .row()
                .expect("its path leads to it");
            assert_eq!(found.path, row.path);
            let names: Vec<&str> = row
                .reads
                .iter()
                .chain(row.writes)
                .map(|m| m.name())
                .collect();
            assert_eq!(row.allow, format!("Allow: {}\r\n", names.join(", ")));
        }
    }
}
