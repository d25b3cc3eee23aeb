//! Routes: which path asks for what.
//!
//! ```text
//! /v1/cache                    POST: store a message; GET with ?id=: read one
//! /v1/cache/KEY                GET HEAD PUT DELETE
//! /v1/cache/KEY/incr           POST
//! /v1/cache/KEY/invalidate     POST
//! /v1/cache/batch/get          POST
//! /v1/cache/batch/put          POST
//! anything else                a page
//! ```

/// What a path asks for; keys are as they were sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Route<'a> {
    /// One key.
    Entry(&'a str),
    /// The cache as a whole.
    Collection,
    /// To count a key up.
    Increment(&'a str),
    /// To mark a key's value as stale.
    Invalidate(&'a str),
    /// To read several keys.
    BatchGet,
    /// To store several keys.
    BatchPut,
    /// Nothing that there is below `/v1/cache`.
    Missing,
    /// A page.
    Page,
}

impl<'a> Route<'a> {
    #[inline]
    pub(super) fn of(path: &'a str) -> Route<'a> {
        let Some(rest) = path.strip_prefix("/v1/cache") else {
            return Route::Page;
        };
        let Some(rest) = rest.strip_prefix('/') else {
            return if rest.is_empty() {
                Route::Collection
            } else {
                Route::Page
            };
        };
        // Faster on a short path than the standard library's search.
        let Some(slash) = memchr::memchr(b'/', rest.as_bytes()) else {
            return if rest.is_empty() {
                Route::Missing
            } else {
                Route::Entry(rest)
            };
        };
        match (&rest[..slash], &rest[slash + 1..]) {
            ("batch", "get") => Route::BatchGet,
            ("batch", "put") => Route::BatchPut,
            (key, "incr") => Route::Increment(key),
            (key, "invalidate") => Route::Invalidate(key),
            _ => Route::Missing,
        }
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
            ("/v1/cache/k", Route::Entry("k")),
            ("/v1/cache/a%2Fb", Route::Entry("a%2Fb")),
            ("/v1/cache/a/b", Route::Missing),
            ("/v1/cache/a/b/incr", Route::Missing),
            ("/v1/cache/batch", Route::Entry("batch")),
            ("/v1/cache/incr", Route::Entry("incr")),
            ("/v1/cache/batch/get", Route::BatchGet),
            ("/v1/cache/batch/put", Route::BatchPut),
            ("/v1/cache/batch/incr", Route::Increment("batch")),
            ("/v1/cache/k/invalidate", Route::Invalidate("k")),
            ("/v1/cache//incr", Route::Increment("")),
            ("/v1/cached", Route::Page),
            ("/", Route::Page),
            ("*", Route::Page),
        ] {
            assert_eq!(Route::of(path), route, "{path}");
        }
    }
}
