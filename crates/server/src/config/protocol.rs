//! Protocol: the supported protocols, one row each.
//!
//! Arrays by protocol have [`Protocol::COUNT`] entries, indexed by the protocol's number.

use serde::{Deserialize, Serialize};

macro_rules! protocols {
    ($($variant:ident $field:ident $what:literal $row:tt)*) => {
        /// The protocol of a connection.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Protocol {
            $(
                #[doc = $what]
                $variant,
            )*
        }

        impl Protocol {
            /// All of them, each at the place of its number.
            pub const ALL: [Protocol; Protocol::COUNT] = [$(Protocol::$variant,)*];
            /// Number of protocols.
            pub const COUNT: usize = ROWS.len();
        }

        const ROWS: &[ProtocolRow] = &[$(ProtocolRow $row,)*];

        /// Something for each protocol.
        #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        pub struct ByProtocol<T> {
            $(
                #[doc = $what]
                pub $field: T,
            )*
        }

        impl<T> ByProtocol<T> {
            /// The results of `of` for each protocol.
            #[must_use]
            pub fn from_fn(of: impl Fn(Protocol) -> T) -> ByProtocol<T> {
                ByProtocol {
                    $($field: of(Protocol::$variant),)*
                }
            }

            /// The value of a protocol.
            #[must_use]
            pub fn of(&self, protocol: Protocol) -> &T {
                match protocol {
                    $(Protocol::$variant => &self.$field,)*
                }
            }

            /// The same, to be changed.
            #[must_use]
            pub fn of_mut(&mut self, protocol: Protocol) -> &mut T {
                match protocol {
                    $(Protocol::$variant => &mut self.$field,)*
                }
            }
        }
    };
}

/// The properties of a protocol.
#[derive(Debug)]
pub struct ProtocolRow {
    /// The name of its setting, also in metrics and logs.
    pub name: &'static str,
    /// The setting of a password or token of its own; none if only users log in.
    pub secret_flag: Option<&'static str>,
    /// Its names in the handshakes of TLS (ALPN).
    pub alpn: &'static [&'static [u8]],
    /// The error for a client beyond `--max-connections`.
    ///
    /// Sources: memcached 1.6.45, `maxconns_fast`; Redis 7, `maxclients`.
    pub too_many_connections: &'static [u8],
    /// The request of `cellar healthcheck`.
    pub health_request: &'static [u8],
    /// How the reply of a server that is ready begins; one that asks for a login is ready.
    pub health_replies: &'static [&'static str],
}

impl Protocol {
    /// Its row.
    #[must_use]
    pub fn row(self) -> &'static ProtocolRow {
        &ROWS[self as usize]
    }

    /// The name of its setting, also in metrics and logs.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.row().name
    }
}

protocols! {
    Memcached memcached "memcached's text and meta commands" {
        name: "memcached",
        secret_flag: None,
        alpn: &[],
        too_many_connections: b"ERROR Too many open connections\r\n",
        health_request: b"version\r\n",
        health_replies: &["VERSION ", "CLIENT_ERROR unauthenticated"],
    }
    Resp resp "RESP, Redis's protocol" {
        name: "resp",
        secret_flag: Some("--password"),
        alpn: &[],
        too_many_connections: b"-ERR max number of clients reached\r\n",
        health_request: b"PING\r\n",
        health_replies: &["+PONG", "-NOAUTH"],
    }
    Http http "HTTP/1.1 and 1.0" {
        name: "http",
        secret_flag: Some("--http-token"),
        alpn: &[b"http/1.1"],
        too_many_connections:
            b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nRetry-After: 1\r\n\
              Content-Type: application/json\r\nContent-Length: 66\r\n\
              X-Content-Type-Options: nosniff\r\nCross-Origin-Resource-Policy: same-origin\r\n\r\n\
              {\"error\":{\"code\":\"unavailable\",\"message\":\"too many connections\"}}\n",
        health_request: b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
        health_replies: &["HTTP/1.1 200 "],
    }
}
