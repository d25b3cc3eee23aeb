//! A client of HTTP for tests: one connection, requests out, parsed responses back.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use super::daemon::Daemon;

/// A response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) fields: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Response {
    /// The value of a field; empty without one.
    pub(crate) fn field(&self, name: &str) -> &str {
        let found = self.fields.iter().find(|(known, _)| known == name);
        found.map_or("", |(_, value)| value)
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    /// The word that tells programs what is wrong.
    pub(crate) fn error(&self) -> String {
        let document: serde_json::Value = serde_json::from_slice(&self.body).unwrap();
        document["error"]["code"].as_str().unwrap().to_owned()
    }
}

/// A connection.
pub(crate) struct Http {
    stream: BufReader<TcpStream>,
}

impl Http {
    pub(crate) fn to(daemon: &Daemon) -> Http {
        Http {
            stream: BufReader::new(daemon.connect_http()),
        }
    }

    /// Sends bytes as they are.
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.stream.get_mut().write_all(bytes).unwrap();
    }

    /// Whether bytes of the server have come that were not read yet.
    pub(crate) fn has_more(&self) -> bool {
        let stream = self.stream.get_ref();
        stream.set_nonblocking(true).unwrap();
        let has_come = stream.peek(&mut [0]).is_ok_and(|bytes| bytes > 0);
        stream.set_nonblocking(false).unwrap();
        has_come || !self.stream.buffer().is_empty()
    }

    /// Sends a request with a body, which is told by its length unless it is empty, and reads the
    /// response.
    pub(crate) fn ask(&mut self, line: &str, fields: &[&str], body: &[u8]) -> Response {
        let mut request = format!("{line} HTTP/1.1\r\nHost: localhost\r\n");
        for field in fields {
            request.push_str(field);
            request.push_str("\r\n");
        }
        if !body.is_empty() {
            request.push_str(&format!("Content-Length: {}\r\n", body.len()));
        }
        request.push_str("\r\n");
        self.send(&[request.as_bytes(), body].concat());
        self.response(line.starts_with("HEAD "))
    }

    pub(crate) fn get(&mut self, path: &str) -> Response {
        self.ask(&format!("GET {path}"), &[], b"")
    }

    pub(crate) fn put(&mut self, path: &str, body: &[u8]) -> Response {
        self.ask(&format!("PUT {path}"), &[], body)
    }

    pub(crate) fn post(&mut self, path: &str, json: &str) -> Response {
        let fields = ["Content-Type: application/json"];
        self.ask(&format!("POST {path}"), &fields, json.as_bytes())
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stream.read_line(&mut line).unwrap();
        line.strip_suffix("\r\n").unwrap_or(&line).to_owned()
    }

    /// Reads a response; one to HEAD has no body.
    pub(crate) fn response(&mut self, to_head: bool) -> Response {
        let line = self.line();
        let status = line
            .strip_prefix("HTTP/1.1 ")
            .and_then(|rest| rest.get(..3))
            .unwrap_or_else(|| panic!("no status line: {line:?}"));
        let status = status.parse().unwrap();
        let mut fields = Vec::new();
        loop {
            let line = self.line();
            if line.is_empty() {
                break;
            }
            let (name, value) = line.split_once(": ").unwrap();
            fields.push((name.to_ascii_lowercase(), value.to_owned()));
        }
        let mut response = Response {
            status,
            fields,
            body: Vec::new(),
        };
        if status == 100 {
            return response;
        }
        assert!(!response.field("date").is_empty(), "{response:?}");
        if to_head || matches!(status, 204 | 304) {
            return response;
        }
        response.body = if response.field("transfer-encoding") == "chunked" {
            self.chunks()
        } else {
            let bytes = response.field("content-length").parse().unwrap();
            let mut body = vec![0; bytes];
            self.stream.read_exact(&mut body).unwrap();
            body
        };
        response
    }

    fn chunks(&mut self) -> Vec<u8> {
        let mut body = Vec::new();
        loop {
            let bytes = usize::from_str_radix(&self.line(), 16).unwrap();
            let begin = body.len();
            body.resize(begin + bytes, 0);
            self.stream.read_exact(&mut body[begin..]).unwrap();
            assert_eq!(self.line(), "");
            if bytes == 0 {
                return body;
            }
        }
    }

    /// Whether the server ends the connection without another word.
    pub(crate) fn is_closed(&mut self) -> bool {
        let mut rest = Vec::new();
        match self.stream.read_to_end(&mut rest) {
            Ok(_) => rest.is_empty(),
            Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
        }
    }
}
