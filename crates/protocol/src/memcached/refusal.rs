//! Refusals: bytes that are no request, and where the stream continues after them.

/// Bytes that ask for nothing that could be executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The response without its line end; empty if none is sent.
    pub line: &'static str,
    /// How many bytes of the input are dealt with.
    pub used: usize,
    /// How many bytes after those belong to the rejected request and have to be discarded.
    pub swallow: usize,
    /// Whether the connection ends here.
    pub close: bool,
}

/// A known command with wrong arguments.
pub const BAD_FORMAT: &str = "CLIENT_ERROR bad command line format";
/// A value that does not end where the command line says.
pub const BAD_DATA: &str = "CLIENT_ERROR bad data chunk";
/// An exptime that is no number.
pub const BAD_EXPTIME: &str = "CLIENT_ERROR invalid exptime argument";
/// An unknown command.
pub const UNKNOWN: &str = "ERROR";
/// A read with more key bytes than a line may have.
pub const LINE_TOO_LONG: &str = "SERVER_ERROR out of memory reading request";

impl Refused {
    /// An answer after which the next request follows at once.
    #[must_use]
    pub const fn line(line: &'static str) -> Refused {
        Refused {
            line,
            used: 0,
            swallow: 0,
            close: false,
        }
    }

    /// The end of the connection, without a word.
    #[must_use]
    pub const fn hang_up() -> Refused {
        Refused {
            line: "",
            used: 0,
            swallow: 0,
            close: true,
        }
    }

    /// The same without its answer if the client wants none.
    #[must_use]
    pub const fn unless(self, noreply: bool) -> Refused {
        if noreply {
            Refused { line: "", ..self }
        } else {
            self
        }
    }

    /// The same, with the value of `value_bytes` and its line end to be dropped.
    #[must_use]
    pub const fn swallowing_value(self, value_bytes: usize) -> Refused {
        Refused {
            swallow: value_bytes + 2,
            ..self
        }
    }
}
