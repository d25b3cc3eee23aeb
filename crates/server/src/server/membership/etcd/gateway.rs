//! Gateway: etcd's API as JSON over HTTP, as far as a node needs it.
//!
//! A request goes to the member that answered last, and to the next one if that does not answer.
//! All requests are idempotent.
//!
//! Source: etcd.io/docs/v3.4/dev-guide/api_grpc_gateway; the names of fields are those of etcd's
//! rpc.proto. Numbers of 64 bits come as strings, keys and values in base64.

use std::io::{BufRead, BufReader, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cellar_cluster::registration::{KeyValue, PrefixSnapshot};
use cellar_config::dial::Trust;
use cellar_config::settings::source::EtcdPlace;
use serde::Deserialize;
use serde_json::{Value, json};
use ureq::http::Response;
use ureq::tls::{Certificate, ClientCert, PrivateKey, RootCerts, TlsConfig};
use ureq::{Agent, Body};
use zeroize::Zeroizing;

use super::login::{EtcdLogin, is_stale};

/// Longest answer.
const ANSWER_BYTES_MAX: u64 = 16 << 20;
/// etcd's error for missing permissions.
const PERMISSION: &str = "permission denied";
/// Duration of one watch.
const WATCH: Duration = Duration::from_secs(60);

/// A client of etcd.
#[derive(Debug)]
pub(super) struct Gateway {
    urls: Vec<String>,
    /// Which of them answered last.
    // Relaxed: any of them will do.
    current: AtomicUsize,
    agent: Agent,
    /// How long a member is waited for.
    patience: Duration,
    /// The credentials, if etcd requires them.
    login: Option<Arc<EtcdLogin>>,
}

/// A key in etcd.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct StoredKey {
    key: String,
    value: String,
    create_revision: String,
    mod_revision: String,
}

/// The union of all answers, of which each has a part.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct EtcdAnswer {
    header: EtcdHeader,
    /// Of a lease.
    #[serde(rename = "ID")]
    id: String,
    #[serde(rename = "TTL")]
    ttl: String,
    succeeded: bool,
    kvs: Vec<StoredKey>,
    /// Of a login.
    token: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct EtcdHeader {
    revision: String,
}

/// An answer in a stream.
#[derive(Debug, Deserialize)]
struct Streamed {
    result: EtcdAnswer,
}

/// A lease as etcd last spoke of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Renewal {
    /// Its number.
    pub(super) lease: i64,
    /// Its time to live from the answer on; 0 if the lease does not exist.
    pub(super) ttl_s: u64,
    /// The revision of etcd's last change.
    pub(super) revision: i64,
}

impl Gateway {
    /// Creates a client of this etcd, with this time limit for each member.
    ///
    /// # Errors
    /// A certificate, key or file of a password that cannot be used.
    pub(super) fn to(
        place: &EtcdPlace,
        (trust, login): (&Trust, Option<Arc<EtcdLogin>>),
        patience: Duration,
    ) -> Result<Gateway, String> {
        if let Some(login) = &login {
            // An error is to be reported at the start.
            login.password()?;
        }
        let mut config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .proxy(None)
            .user_agent(concat!("cellar/", env!("CARGO_PKG_VERSION")));
        if place.is_tls() {
            config = config.tls_config(tls(trust)?);
        }
        Ok(Gateway {
            urls: place.urls.clone(),
            current: AtomicUsize::new(0),
            agent: config.build().into(),
            patience,
            login,
        })
    }

    /// A new lease of this length, or a longer one if etcd grants none so short.
    pub(super) fn grant(&self, ttl_s: u64) -> Result<Renewal, String> {
        let answer = self.ask("lease/grant", &json!({"TTL": ttl_s.to_string()}))?;
        renewal(&answer)
    }

    /// Renews a lease.
    pub(super) fn keep_alive(&self, lease: i64) -> Result<Renewal, String> {
        let bytes = self.post("lease/keepalive", &json!({"ID": lease.to_string()}))?;
        let answer: Streamed = read(&bytes)?;
        let renewal = renewal(&answer.result)?;
        if renewal.lease != lease {
            return Err("etcd's answer is for another lease".to_owned());
        }
        Ok(renewal)
    }

    /// Ends a lease, and with it all registrations under it.
    pub(super) fn revoke(&self, lease: i64) -> Result<(), String> {
        let answer = self.post("lease/revoke", &json!({"ID": lease.to_string()}));
        answer.map(|_| ())
    }

    /// All keys with this prefix, read with a quorum.
    pub(super) fn list(&self, prefix: &str) -> Result<PrefixSnapshot, String> {
        let answer = self.ask("kv/range", &range(prefix))?;
        let entries = answer.kvs.iter().map(|stored| entry(stored, prefix));
        Ok(PrefixSnapshot {
            revision: number(&answer.header.revision)?,
            entries: entries.collect::<Result<_, _>>()?,
        })
    }

    /// Stores a value under a lease if the key's last change was this revision, 0 if the key must
    /// not exist; returns the new revision, or none if it was not stored.
    pub(super) fn put_if(
        &self,
        (key, value): (&str, &[u8]),
        changed: i64,
        lease: i64,
    ) -> Result<Option<i64>, String> {
        let key = STANDARD.encode(key);
        let answer = self.ask(
            "kv/txn",
            &json!({
                "compare": [{
                    "key": key, "target": "MOD", "result": "EQUAL",
                    "mod_revision": changed.to_string(),
                }],
                "success": [{"request_put": {
                    "key": key, "value": STANDARD.encode(value), "lease": lease.to_string(),
                }}],
            }),
        )?;
        let revision = number(&answer.header.revision)?;
        Ok(answer.succeeded.then_some(revision))
    }

    /// Calls `changed` when the watch begins, and then for each change of keys with this prefix,
    /// until the watch ends.
    pub(super) fn watch(&self, prefix: &str, mut changed: impl FnMut()) -> Result<(), String> {
        let body = json!({"create_request": range(prefix)}).to_string();
        let answer = self.as_user(0, |token| self.send(("watch", 0), &body, (token, WATCH)))?;
        let lines = BufReader::new(answer.into_body().into_reader().take(u64::MAX));
        for line in lines.lines() {
            let line = line.map_err(told)?;
            let said: Value = serde_json::from_str(&line).map_err(told)?;
            if said["result"].is_null() || said["result"]["canceled"] == true {
                if let Some(login) = self.login.as_ref().filter(|_| is_stale(&line)) {
                    login.forget(&login.token().unwrap_or_default());
                }
                return Err(line);
            }
            changed();
        }
        Ok(())
    }

    /// The first version among etcd's members that satisfies `is_doubtful`, if etcd has several
    /// members.
    ///
    /// # Errors
    /// None of them answers.
    pub(super) fn doubtful_version(
        &self,
        is_doubtful: fn(&str) -> bool,
    ) -> Result<Option<String>, String> {
        let members = match self.post("cluster/member/list", &json!({})) {
            Ok(listed) => {
                let listed: Value = read(&listed)?;
                listed["members"].as_array().map_or(0, Vec::len)
            }
            // Not everybody may know: there may be several.
            Err(said) if said.contains(PERMISSION) => usize::MAX,
            Err(reason) => return Err(reason),
        };
        if members.max(self.urls.len()) < 2 {
            return Ok(None);
        }
        // A member that does not answer is assumed to be like the others.
        let versions = self.urls.iter().filter_map(|url| self.version(url).ok());
        let mut versions = versions.peekable();
        if versions.peek().is_none() {
            return Err("no member of etcd returns its version".to_owned());
        }
        Ok(versions.find(|version| is_doubtful(version)))
    }

    /// The version of a member.
    fn version(&self, url: &str) -> Result<String, String> {
        let request = self.agent.get(format!("{url}/version"));
        let request = request.config().timeout_global(Some(self.patience)).build();
        let mut answer = request.call().map_err(told)?;
        let bytes = answer.body_mut().with_config().limit(ANSWER_BYTES_MAX);
        let said: Value = read(&bytes.read_to_vec().map_err(told)?)?;
        Ok(said["etcdserver"].as_str().unwrap_or_default().to_owned())
    }

    fn ask(&self, path: &str, question: &Value) -> Result<EtcdAnswer, String> {
        read(&self.post(path, question)?)
    }

    /// Tries the members in order, beginning with the one that answered last.
    fn post(&self, path: &str, question: &Value) -> Result<Vec<u8>, String> {
        let body = question.to_string();
        let mut failure = String::new();
        for turn in 0..self.urls.len() {
            match self.post_to((path, turn), &body) {
                Ok(answer) => {
                    let current = self.current.load(Ordering::Relaxed) + turn;
                    self.current
                        .store(current % self.urls.len(), Ordering::Relaxed);
                    return Ok(answer);
                }
                Err(reason) => failure = reason,
            }
        }
        Err(failure)
    }

    fn post_to(&self, (path, turn): (&str, usize), body: &str) -> Result<Vec<u8>, String> {
        self.as_user(turn, |token| {
            let mut answer = self.send((path, turn), body, (token, self.patience))?;
            let bytes = answer.body_mut().with_config().limit(ANSWER_BYTES_MAX);
            bytes.read_to_vec().map_err(told)
        })
    }

    /// Sends a request with the token of a login, if any; once more with a new token if etcd
    /// rejects it.
    fn as_user<R>(
        &self,
        turn: usize,
        ask: impl Fn(Option<&str>) -> Result<R, String>,
    ) -> Result<R, String> {
        let Some(login) = &self.login else {
            return ask(None);
        };
        if let Some(token) = login.token() {
            match ask(Some(&token)) {
                Err(said) if is_stale(&said) => login.forget(&token),
                answer => return answer,
            }
        }
        let told = |reason| format!("--cluster-user {}: {reason}", login.user);
        let token = self.log_in(login, turn).map_err(told)?;
        ask(Some(&token))
    }

    /// Asks a member for a token.
    fn log_in(&self, login: &EtcdLogin, turn: usize) -> Result<Arc<str>, String> {
        let password = login.password()?;
        let question = json!({"name": login.user, "password": *password});
        let body = Zeroizing::new(question.to_string());
        let path = ("auth/authenticate", turn);
        let mut answer = self.send(path, &body, (None, self.patience))?;
        let bytes = answer.body_mut().with_config().limit(ANSWER_BYTES_MAX);
        let answer: EtcdAnswer = read(&bytes.read_to_vec().map_err(told)?)?;
        let token: Arc<str> = answer.token.into();
        login.keep(Arc::clone(&token));
        Ok(token)
    }

    /// Sends a request to a member; returns the answer, unless it is an error.
    fn send(
        &self,
        (path, turn): (&str, usize),
        body: &str,
        (token, patience): (Option<&str>, Duration),
    ) -> Result<Response<Body>, String> {
        let mut request = self.agent.post(self.url(path, turn));
        if let Some(token) = token {
            request = request.header("authorization", token);
        }
        let request = request.config().timeout_global(Some(patience)).build();
        let mut answer = request.send(body).map_err(told)?;
        let status = answer.status();
        if status.is_success() {
            return Ok(answer);
        }
        let bytes = answer.body_mut().with_config().limit(ANSWER_BYTES_MAX);
        let bytes = bytes.read_to_vec().map_err(told)?;
        let said: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        let said = said["message"].as_str().or(said["error"].as_str());
        Err(match said {
            Some(said) if said.contains("user name is empty") => {
                format!("etcd says: {said}; set --cluster-user and --cluster-password-file")
            }
            Some(said) => format!("etcd says: {said}"),
            None => format!("etcd returns status {status}"),
        })
    }

    /// The URL of a member, so many after the one that answered last.
    fn url(&self, path: &str, turn: usize) -> String {
        let index = self.current.load(Ordering::Relaxed) + turn;
        format!("{}/v3/{path}", self.urls[index % self.urls.len()])
    }
}

fn tls(trust: &Trust) -> Result<TlsConfig, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = TlsConfig::builder().unversioned_rustls_crypto_provider(provider);
    let Some(ca) = &trust.ca else {
        return Err("etcd over TLS needs --cluster-ca FILE".to_owned());
    };
    config = config.root_certs(RootCerts::Specific(Arc::new(certificates(ca)?)));
    if let Some((certificate, key)) = &trust.identity {
        let bytes = std::fs::read(key).map_err(|error| format!("{}: {error}", key.display()))?;
        let private = PrivateKey::from_pem(&bytes);
        let private = private.map_err(|error| format!("{}: {error}", key.display()))?;
        let chain = certificates(certificate)?;
        config = config.client_cert(Some(ClientCert::new_with_certs(&chain, private)));
    }
    Ok(config.build())
}

fn certificates(path: &std::path::Path) -> Result<Vec<Certificate<'static>>, String> {
    let failed = |reason: &dyn std::fmt::Display| format!("{}: {reason}", path.display());
    let bytes = std::fs::read(path).map_err(|error| failed(&error))?;
    let items = ureq::tls::parse_pem(&bytes);
    let mut all = Vec::new();
    for item in items {
        if let ureq::tls::PemItem::Certificate(one) = item.map_err(|error| failed(&error))? {
            all.push(one);
        }
    }
    if all.is_empty() {
        return Err(failed(&"the file contains no certificate"));
    }
    Ok(all)
}

/// The request for all keys with this prefix.
fn range(prefix: &str) -> Value {
    let mut end = prefix.as_bytes().to_vec();
    // The prefix ends with a slash, whose byte can be incremented.
    if let Some(last) = end.last_mut() {
        *last += 1;
    }
    json!({"key": STANDARD.encode(prefix), "range_end": STANDARD.encode(end)})
}

fn renewal(answer: &EtcdAnswer) -> Result<Renewal, String> {
    Ok(Renewal {
        lease: number(&answer.id)?,
        ttl_s: u64::try_from(number(&answer.ttl)?).unwrap_or(0),
        revision: number(&answer.header.revision)?,
    })
}

fn entry(stored: &StoredKey, prefix: &str) -> Result<KeyValue, String> {
    let key = STANDARD.decode(&stored.key).map_err(told)?;
    let name = key.strip_prefix(prefix.as_bytes()).unwrap_or(&key);
    Ok(KeyValue {
        name: String::from_utf8_lossy(name).into_owned(),
        value: STANDARD.decode(&stored.value).map_err(told)?,
        created: number(&stored.create_revision)?,
        changed: number(&stored.mod_revision)?,
    })
}

/// Parses a number of etcd, which leaves out zeros.
fn number(text: &str) -> Result<i64, String> {
    match text {
        "" => Ok(0),
        _ => text
            .parse()
            .map_err(|_| format!("{text:?} is not a number")),
    }
}

fn read<T: for<'a> Deserialize<'a>>(bytes: &[u8]) -> Result<T, String> {
    serde_json::from_slice(bytes).map_err(|error| format!("etcd's answer is not valid: {error}"))
}

fn told(error: impl std::fmt::Display) -> String {
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_as_etcd_writes_them() {
        let text = br#"{"result":{"header":{"revision":"3"},"ID":"1418812090909948421"}}"#;
        let answer: Streamed = read(text).unwrap();
        let gone = Renewal {
            lease: 1_418_812_090_909_948_421,
            ttl_s: 0,
            revision: 3,
        };
        assert_eq!(renewal(&answer.result), Ok(gone));
        let text = br#"{"header":{"cluster_id":"1","revision":"2"},"kvs":[{"key":"YS9i",
            "create_revision":"2","mod_revision":"4","version":"1","value":"dg==","lease":"7"}],
            "count":"1"}"#;
        let answer: EtcdAnswer = read(text).unwrap();
        let found = entry(&answer.kvs[0], "a/").unwrap();
        assert_eq!((found.name.as_str(), &*found.value), ("b", &b"v"[..]));
        assert_eq!((found.created, found.changed), (2, 4));
        assert!(read::<EtcdAnswer>(b"<html>").is_err());
        assert_eq!(range("a/")["range_end"], STANDARD.encode("a0"));
    }
}
