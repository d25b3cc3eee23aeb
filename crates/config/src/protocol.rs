//! Protocol: the supported protocols, one row each.
//!
//! A row has what the parts of the server below `execute` need to know of a protocol; they do not
//! name one. Adding a protocol is a row here, its settings, and its folder in `execute`.

use cellar_system::clock;
use serde::{Deserialize, Serialize};

/// A counter of each protocol, indexed by its number: for what every request changes.
pub type PerProtocol<T> = [T; Protocol::COUNT];

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
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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

            /// The same for what may fail.
            ///
            /// # Errors
            /// The first error of `of`.
            pub fn try_from_fn<E>(
                of: impl Fn(Protocol) -> Result<T, E>,
            ) -> Result<ByProtocol<T>, E> {
                Ok(ByProtocol {
                    $($field: of(Protocol::$variant)?,)*
                })
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
    /// Whether its clients see the numbered databases; others use database 0.
    pub has_databases: bool,
    /// The names of its service in DNS (SRV records).
    pub services: &'static [&'static str],
    /// Whether nearly all of its requests begin with this byte.
    pub is_usual_start: fn(u8) -> bool,
    /// Whether a request that begins with this byte is a line of text, as one of HTTP is.
    pub begins_line: fn(u8) -> bool,
    /// The error for a client that speaks another protocol.
    pub wrong_protocol: fn(&str) -> String,
}

impl Protocol {
    /// The protocol with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Protocol> {
        Protocol::ALL.into_iter().find(|one| one.name() == name)
    }

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

impl<T> ByProtocol<T> {
    /// Each protocol with its value.
    pub fn iter(&self) -> impl Iterator<Item = (Protocol, &T)> {
        Protocol::ALL.into_iter().map(|one| (one, self.of(one)))
    }

    /// The values, without the protocols.
    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.iter().map(|(_, value)| value)
    }

    /// The results of `of` for each value.
    #[must_use]
    pub fn map<U>(&self, of: impl Fn(&T) -> U) -> ByProtocol<U> {
        ByProtocol::from_fn(|protocol| of(self.of(protocol)))
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
        has_databases: false,
        services: &["memcached", "memcache"],
        is_usual_start: |byte| byte.is_ascii_lowercase(),
        begins_line: |byte| byte.is_ascii(),
        wrong_protocol: |text| format!("ERROR {text}\r\n"),
    }
    Resp resp "RESP, Redis's protocol" {
        name: "resp",
        secret_flag: Some("--password"),
        alpn: &[],
        too_many_connections: b"-ERR max number of clients reached\r\n",
        health_request: b"PING\r\n",
        health_replies: &["+PONG", "-NOAUTH"],
        has_databases: true,
        services: &["redis", "resp"],
        is_usual_start: |byte| byte == b'*',
        begins_line: |byte| byte.is_ascii() && byte != b'*',
        wrong_protocol: |text| format!("-ERR {text}\r\n"),
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
        has_databases: false,
        services: &["http"],
        is_usual_start: |_| false,
        begins_line: |_| false,
        wrong_protocol: http_wrong_protocol,
    }
}

fn http_wrong_protocol(text: &str) -> String {
    let body = format!("{{\"error\":{{\"code\":\"wrong_port\",\"message\":\"{text}\"}}}}\n");
    format!(
        "HTTP/1.1 400 Bad Request\r\nConnection: close\r\nDate: {}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\
         X-Content-Type-Options: nosniff\r\n\
         Cross-Origin-Resource-Policy: same-origin\r\n\r\n{body}",
        clock::date(clock::unix_s()),
        body.len()
    )
}
