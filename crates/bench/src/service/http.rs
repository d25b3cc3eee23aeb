//! HTTP: the requests of the service, with the fields that a plain client sends and no more.

use std::io::Write;

use super::message::Messages;

const COMMON: &str = " HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: cellar-bench\r\n";

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    /// Reads a message.
    Get,
    /// Stores a content under its id.
    Put,
    /// Stores a message.
    Post,
}

impl Method {
    pub(super) const ALL: [Method; 3] = [Method::Get, Method::Put, Method::Post];

    pub(super) fn name(self) -> &'static str {
        match self {
            Method::Get => "GET",
            Method::Put => "PUT",
            Method::Post => "POST",
        }
    }
}

/// Writes requests; keeps the room in which bodies are made.
#[derive(Clone, Debug)]
pub(super) struct Writer {
    messages: Messages,
    /// What a message tells of its time to live, if the server wants to know.
    ttl_s: Option<u32>,
    body: Vec<u8>,
}

impl Writer {
    pub(super) fn new(messages: Messages, ttl_s: Option<u32>) -> Writer {
        let body = Vec::new();
        Writer {
            messages,
            ttl_s,
            body,
        }
    }

    /// Appends a request about a message.
    pub(super) fn push(&mut self, out: &mut Vec<u8>, method: Method, number: u64) {
        out.extend_from_slice(method.name().as_bytes());
        out.extend_from_slice(b" /v1/cache");
        self.body.clear();
        let content_type = match method {
            Method::Get => None,
            Method::Put => {
                self.messages.push_content(&mut self.body, number);
                Some("text/plain")
            }
            Method::Post => {
                self.messages.push_json(&mut self.body, number, self.ttl_s);
                Some("application/json")
            }
        };
        if method != Method::Post {
            out.push(b'/');
            self.messages.push_id(out, number);
        }
        if let (Method::Put, Some(ttl_s)) = (method, self.ttl_s) {
            write_to(out, format_args!("?ttl={ttl_s}"));
        }
        out.extend_from_slice(COMMON.as_bytes());
        if let Some(content_type) = content_type {
            let bytes = self.body.len();
            write_to(
                out,
                format_args!("Content-Type: {content_type}\r\nContent-Length: {bytes}\r\n"),
            );
        }
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(&self.body);
    }
}

fn write_to(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text)
        .expect("writing into a vector does not fail");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(method: Method, ttl_s: Option<u32>) -> String {
        let messages = Messages::new("100..100".parse().unwrap()).unwrap();
        let mut out = Vec::new();
        Writer::new(messages, ttl_s).push(&mut out, method, 1);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn requests_name_the_message_and_the_length_of_their_body() {
        let get = request(Method::Get, Some(600));
        assert!(get.starts_with("GET /v1/cache/") && get.ends_with("\r\n\r\n"));
        let put = request(Method::Put, Some(600));
        assert!(put.contains("?ttl=600 HTTP/1.1\r\n"), "{put}");
        assert!(!request(Method::Put, None).contains('?'));
        let post = request(Method::Post, None);
        let (head, body) = post.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("POST /v1/cache HTTP/1.1\r\n"), "{head}");
        assert!(head.ends_with("\r\nContent-Length: 100"), "{head}");
        assert_eq!(body.len(), 100);
    }
}
