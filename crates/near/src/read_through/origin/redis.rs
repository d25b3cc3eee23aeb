//! Redis, Valkey or Cellar as an origin: one server or a cluster, with or without TLS.
//!
//! Every node has one connection of redis-rs's (`link.rs`); reads, writes and pushes share it, so
//! they have one order. redis-rs calls the push handler where the connection is read,
//! before it hands out later replies.
//!
//! A miss is `GET key` and `PTTL key` in one go. Had the value been replaced between the two, the
//! invalidation of the key would have arrived between the two answers and the load would finish
//! without filling; so the time to live is that of the value, without a transaction.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use redis::{Client, Cmd, IntoConnectionInfo, Pipeline, Value};

#[cfg(feature = "tls")]
use super::Tls;
use super::login::Login;
use super::{Answer, ClaimOptions, Claimed, Listener, Loaded, Origin, Pending, Version};
use crate::read_through::error::Error;
use crate::read_through::fault::Given;

mod reply;
mod swaps;
mod slots; // slots of keys, and slot maps
mod dial; // redis-rs's own connections, and lanes
mod link;
mod node;
mod cluster;
mod claim; // leases, of one server or of the node that has the slot
mod mark; // marks, which replace leases where the server has none

use cluster::Cluster;
use link::Link;
use node::Node;
use reply::{Failure, Redirect};

/// How often one question is sent at most: the first time, and after redirections or a lost link.
const ATTEMPTS_MAX: usize = 6;
/// Longest time to live that is sent: a century, which servers can add to their clock.
const MILLISECONDS_MAX: u128 = 100 * 365 * 24 * 3600 * 1000;
/// Pause before a question is sent again while a cluster reorganises itself.
const RETRY_PAUSE: Duration = Duration::from_millis(50);

/// The tracking mode of the connections.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Tracking {
    /// Each key that was read, until it changes: costs the server memory for every key.
    #[default]
    Keys,
    /// All keys with these prefixes, read or not: costs the server no memory, and every client a
    /// message for every write. No prefix may begin with another; without any, all keys are meant.
    /// A key with none of the prefixes is served and not kept.
    Broadcast(Vec<Vec<u8>>),
    /// Nothing: only time bounds how old a copy gets.
    Off,
}

/// Settings that all connections of one origin share.
#[derive(Clone, Debug)]
pub(crate) struct RedisSettings {
    tracking: Tracking,
    alive_bound: Duration,
    timeout: Duration,
    connect_timeout: Duration,
    /// The user, in place of the one in the address.
    login: Option<Login>,
    /// Whether there may be several databases, which SWAPDB exchanges.
    has_databases: bool,
    fault: Given,
}

/// The nodes to ask.
enum Nodes {
    One(Arc<Node>),
    Cluster(Arc<Cluster>),
}

/// A server of Redis's protocol that sends invalidations (Redis 7 or later, Valkey, Cellar).
///
/// Connections are opened at the first use and again after a loss.
pub struct Redis {
    settings: RedisSettings,
    clients: Vec<Client>,
    cluster: bool,
    nodes: std::sync::OnceLock<Nodes>,
}

impl fmt::Debug for Redis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Redis");
        shown
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

impl Redis {
    /// The server at `address`: `redis://`, `rediss://` (TLS) or `unix://`, with user, password
    /// and database as redis-rs reads them.
    ///
    /// # Errors
    /// [`Error::Connection`] if it is no address.
    pub fn open(address: impl IntoConnectionInfo) -> Result<Redis, Error> {
        Ok(Redis::with_client(client(address)?))
    }

    /// The server that `client` names, with its certificates if it has any.
    #[must_use]
    pub fn with_client(client: Client) -> Redis {
        Redis::with_clients(vec![client], false)
    }

    /// The cluster to which the servers at `addresses` belong; some of them have to be reachable.
    ///
    /// # Errors
    /// [`Error::Connection`] if there is none, or one is no address.
    pub fn cluster<A: IntoConnectionInfo>(
        addresses: impl IntoIterator<Item = A>,
    ) -> Result<Redis, Error> {
        let clients = addresses.into_iter().map(client);
        let clients: Vec<Client> = clients.collect::<Result<_, _>>()?;
        if clients.is_empty() {
            return Err(Error::connection("a cluster needs the address of a node"));
        }
        Ok(Redis::with_clients(clients, true))
    }

    fn with_clients(clients: Vec<Client>, cluster: bool) -> Redis {
        Redis {
            settings: RedisSettings {
                tracking: Tracking::default(),
                alive_bound: Duration::from_secs(1),
                timeout: Duration::from_secs(2),
                connect_timeout: Duration::from_secs(2),
                login: None,
                has_databases: !cluster,
                fault: Given::default(),
            },
            clients,
            cluster,
            nodes: std::sync::OnceLock::new(),
        }
    }

    /// The user as whom connections ask, in place of the one that the address names; `default` has
    /// a password alone.
    #[must_use]
    pub fn user(mut self, name: impl Into<String>, password: impl Into<String>) -> Redis {
        let (name, password) = (name.into(), password.into());
        self.settings.login = Some(Login { name, password });
        self
    }

    /// The trusted authorities and the client certificate for a `rediss://` address.
    ///
    /// # Errors
    /// [`Error::Connection`] if the address is not a `rediss://` one, or a text is invalid.
    #[cfg(feature = "tls")]
    pub fn tls(mut self, tls: &Tls) -> Result<Redis, Error> {
        for client in &mut self.clients {
            let info = client.get_connection_info().clone();
            let secured = Client::build_with_tls(info, tls.certificates());
            *client = secured.map_err(Error::connection)?;
        }
        Ok(self)
    }

    /// Sets the tracking mode of the connections; by default, each key that was read is tracked.
    #[must_use]
    pub fn tracking(mut self, tracking: Tracking) -> Redis {
        self.settings.tracking = tracking;
        self
    }

    /// How long a connection counts as alive after it has answered; one second by default.
    ///
    /// This is the bound on staleness when a connection is lost silently. A quarter of it is the
    /// interval of PING on an idle connection.
    #[must_use]
    pub fn alive_bound(mut self, bound: Duration) -> Redis {
        self.settings.alive_bound = bound;
        self
    }

    /// How long an answer is waited for; two seconds by default.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Redis {
        self.settings.timeout = timeout;
        self
    }

    /// How long a connection may take to be opened; two seconds by default.
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Redis {
        self.settings.connect_timeout = timeout;
        self
    }

    /// Breaks a rule on purpose, for tests of tests.
    #[cfg(feature = "faults")]
    #[doc(hidden)]
    #[must_use]
    pub fn fault(mut self, fault: crate::read_through::fault::Fault) -> Redis {
        self.settings.fault = Given::new(fault);
        self
    }

    fn nodes(&self) -> Result<&Nodes, Error> {
        let missing = || Error::connection("the origin was not started by a cache");
        self.nodes.get().ok_or_else(missing)
    }

    /// The link to the node of `key`.
    async fn link(&self, key: &[u8]) -> Result<Arc<Link>, Error> {
        match self.nodes()? {
            Nodes::One(node) => node.link().await,
            Nodes::Cluster(cluster) => cluster.node_of(key).await?.link().await,
        }
    }

    /// Follows a redirection: notes it, and returns the link to ask.
    async fn follow(
        &self,
        redirect: &Redirect,
        key: &[u8],
        attempt: usize,
    ) -> Result<Arc<Link>, Error> {
        let Nodes::Cluster(cluster) = self.nodes()? else {
            let what = format!("a node of a cluster, opened as one server: {redirect:?}");
            return Err(Error::Refused(what.into()));
        };
        match redirect {
            Redirect::Ask(address) => cluster.node_at(address).link().await,
            Redirect::Moved | Redirect::Wait => {
                cluster.turn(redirect, attempt).await?;
                self.link(key).await
            }
        }
    }

    async fn load_one(&self, key: &[u8]) -> Result<Loaded<Vec<u8>>, Error> {
        let mut link = self.link(key).await;
        let mut asking = false;
        for attempt in 1.. {
            let loaded = match &link {
                Ok(link) => link.read(&[key], asking).await.and_then(|mut answers| {
                    let missing = || Err(Error::Protocol("no answer to GET".into()).into());
                    answers.pop().unwrap_or_else(missing)
                }),
                Err(error) => Err(error.clone().into()),
            };
            let failure = match loaded {
                Ok(loaded) => return Ok(loaded),
                Err(failure) => failure,
            };
            let redirect = self.redirect_after(failure, attempt)?;
            asking = matches!(redirect, Redirect::Ask(_));
            link = match self.nodes()? {
                Nodes::One(node) => node.link().await,
                Nodes::Cluster(_) => self.follow(&redirect, key, attempt).await,
            };
        }
        unreachable!("the last attempt returns")
    }

    /// Where to ask next after a failure, if it is worth it.
    fn redirect_after(&self, failure: reply::Failure, attempt: usize) -> Result<Redirect, Error> {
        let cluster = self.cluster;
        match failure {
            reply::Failure::Redirect(redirect) if cluster && attempt < ATTEMPTS_MAX => Ok(redirect),
            reply::Failure::Redirect(redirect) => {
                let what = "not ready, or another node of a cluster is to be asked";
                Err(Error::Refused(format!("{what}: {redirect:?}").into()))
            }
            reply::Failure::Error(Error::Connection(_)) if cluster && attempt < ATTEMPTS_MAX => {
                Ok(Redirect::Wait)
            }
            // A link that had died unnoticed: once more over another one.
            reply::Failure::Error(Error::Connection(_)) if attempt == 1 => Ok(Redirect::Moved),
            reply::Failure::Error(error) => Err(error),
        }
    }

    /// Sends a write of the program's: no load that has begun before it is stored after it.
    async fn change(&self, key: &[u8], command: Cmd) -> Result<Value, Error> {
        self.send(key, command, mark::remove(key)).await
    }

    /// Sends a command that changes `key`.
    async fn write(&self, key: &[u8], command: Cmd) -> Result<Value, Error> {
        self.send(key, command, None).await
    }

    /// Sends a command that changes `key`, and before it, to a server without leases, the one that
    /// removes its mark; again only if the first one was not executed.
    async fn send(&self, key: &[u8], command: Cmd, unmark: Option<Cmd>) -> Result<Value, Error> {
        let mut link = self.link(key).await?;
        let mut asking = false;
        for attempt in 1.. {
            let mut pipeline = Pipeline::new();
            // A mark that cannot be removed was not set either: that reply does not matter.
            let unmark = unmark.as_ref().filter(|_| !link.has_leases());
            for command in unmark.into_iter().chain([&command]) {
                if asking {
                    pipeline.cmd("ASKING");
                }
                pipeline.add_command(command.clone());
            }
            let mut values = link.ask(&pipeline).await?;
            let value = values.pop().unwrap_or(Value::Nil);
            let failure = match reply::checked(value) {
                Ok(value) => return Ok(value),
                Err(failure) => failure,
            };
            let redirect = self.redirect_after(failure, attempt)?;
            asking = matches!(redirect, Redirect::Ask(_));
            link = self.follow(&redirect, key, attempt).await?;
        }
        unreachable!("the last attempt returns")
    }

    async fn load_all(&self, keys: &[Vec<u8>]) -> Vec<Result<Loaded<Vec<u8>>, Error>> {
        let links = futures_util::future::join_all(keys.iter().map(|key| self.link(key))).await;
        let mut groups: Vec<(Arc<Link>, Vec<usize>)> = Vec::new();
        for (place, link) in links.into_iter().enumerate() {
            // A key whose node cannot be reached is asked for by itself below.
            let Ok(link) = link else { continue };
            match groups
                .iter_mut()
                .find(|(known, _)| Arc::ptr_eq(known, &link))
            {
                Some((_, places)) => places.push(place),
                None => groups.push((link, vec![place])),
            }
        }
        let asked = groups.iter().map(|(link, places)| async move {
            let keys: Vec<&[u8]> = places.iter().map(|&place| keys[place].as_slice()).collect();
            link.read(&keys, false).await
        });
        let answers = futures_util::future::join_all(asked).await;
        let mut results: Vec<Option<Loaded<Vec<u8>>>> = vec![None; keys.len()];
        for ((_, places), answers) in groups.iter().zip(answers) {
            for (&place, answer) in places.iter().zip(answers.into_iter().flatten()) {
                results[place] = answer.ok();
            }
        }
        let finish = results
            .into_iter()
            .zip(keys)
            .map(|(result, key)| async move {
                match result {
                    Some(loaded) => Ok(loaded),
                    None => self.load_one(key).await,
                }
            });
        futures_util::future::join_all(finish).await
    }
}

impl Origin for Redis {
    fn start(&self, listener: Arc<dyn Listener<[u8]>>) {
        let node =
            |client: &Client| Node::new(client.clone(), self.settings.clone(), &listener, None);
        let nodes = if self.cluster {
            Nodes::Cluster(Cluster::new(
                &self.clients,
                self.settings.clone(),
                &listener,
            ))
        } else {
            Nodes::One(node(&self.clients[0]))
        };
        // Err means that a second cache was built over it, which cannot be: it is owned.
        drop(self.nodes.set(nodes));
    }

    fn load<'a>(
        &'a self,
        key: &'a [u8],
        _known: Option<Version>,
    ) -> Pending<'a, Result<Loaded<Vec<u8>>, Error>> {
        Box::pin(self.load_one(key))
    }

    fn load_many<'a>(
        &'a self,
        keys: &'a [Vec<u8>],
    ) -> Pending<'a, Vec<Result<Loaded<Vec<u8>>, Error>>> {
        Box::pin(self.load_all(keys))
    }

    fn store<'a>(
        &'a self,
        key: &'a [u8],
        value: &'a [u8],
        ttl: Option<Duration>,
    ) -> Pending<'a, Result<(), Error>> {
        Box::pin(async move {
            let command = set(key, value, ttl);
            self.change(key, command).await.map(drop)
        })
    }

    fn store_absent<'a>(
        &'a self,
        key: &'a [u8],
        value: &'a [u8],
        ttl: Option<Duration>,
    ) -> Pending<'a, Result<bool, Error>> {
        Box::pin(async move {
            let mut command = set(key, value, ttl);
            command.arg("NX");
            Ok(self.write(key, command).await? != Value::Nil)
        })
    }

    fn remove<'a>(&'a self, key: &'a [u8]) -> Pending<'a, Result<bool, Error>> {
        Box::pin(async move {
            let mut command = redis::cmd("DEL");
            command.arg(key);
            Ok(self.change(key, command).await? == Value::Int(1))
        })
    }

    /// Cellar has leases; Redis has none, so all clients that find nothing make the value and one
    /// stores it.
    fn claim<'a>(
        &'a self,
        key: &'a [u8],
        options: ClaimOptions,
    ) -> Pending<'a, Result<Claimed<Vec<u8>>, Error>> {
        Box::pin(async move {
            let claimed = match self.nodes()? {
                Nodes::Cluster(cluster) => self.claim_at_owner(cluster, key, options).await?,
                Nodes::One(node) => match node.link().await?.claim(key, options).await {
                    Ok(claimed) => claimed,
                    // A link that was lost unnoticed, so the lease may have gone to no client: over
                    // another one, the value is requested without a lease.
                    Err(Failure::Error(Error::Connection(_)) | Failure::Redirect(_)) => None,
                    Err(Failure::Error(error)) => return Err(error),
                },
            };
            if let Some(claimed) = claimed {
                return Ok(claimed);
            }
            self.claim_by_mark(key, options).await
        })
    }

    fn store_claimed<'a>(
        &'a self,
        key: &'a [u8],
        value: &'a [u8],
        ttl: Option<Duration>,
        lease: u64,
    ) -> Pending<'a, Result<bool, Error>> {
        Box::pin(async move {
            let command = match mark::is_lease(lease) {
                true => claim::store(key, value, ttl, lease),
                false => mark::store(key, value, ttl, lease),
            };
            Ok(self.write(key, command).await? != Value::Nil)
        })
    }

    fn release<'a>(&'a self, key: &'a [u8], lease: u64) -> Pending<'a, Result<(), Error>> {
        Box::pin(async move {
            // A mark is shared by all loads of its key, so it is left to its time.
            if mark::is_lease(lease) && self.link(key).await?.is_unmade(key, lease).await? {
                self.write(key, claim::release(key, lease)).await?;
            }
            Ok(())
        })
    }
}

/// The command that stores a value.
fn set(key: &[u8], value: &[u8], ttl: Option<Duration>) -> Cmd {
    let mut command = redis::cmd("SET");
    command.arg(key).arg(value);
    command.arg(ttl.map(life));
    command
}

/// The arguments of `SET` for a life: never longer than `ttl`, so one below a millisecond expires
/// at once.
fn life(ttl: Duration) -> Vec<String> {
    match ttl.as_millis() {
        0 => vec!["PXAT".to_owned(), "1".to_owned()],
        ms => vec!["PX".to_owned(), ms.min(MILLISECONDS_MAX).to_string()],
    }
}

/// A time as Redis counts it; less than a millisecond is no time to live for it.
fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis().max(1)).unwrap_or(u64::MAX)
}

/// A client of redis-rs's for an address.
fn client(address: impl IntoConnectionInfo) -> Result<Client, Error> {
    let opened = Client::open(address);
    opened.map_err(|error| no_address(error.to_string(), cfg!(feature = "tls")))
}

/// Why something is no address, or none for this build.
fn no_address(what: String, has_tls: bool) -> Error {
    let lacks_tls = !has_tls && what.contains("TLS");
    let advice = if lacks_tls {
        " (the feature `tls` of cellar-near)"
    } else {
        ""
    };
    Error::connection(format!("{what}{advice}"))
}

/// Combines the replies to a `GET` and a `PTTL`.
fn loaded(value: Value, ttl: Value) -> Result<Loaded<Vec<u8>>, reply::Failure> {
    let (value, ttl) = (reply::checked(value)?, reply::checked(ttl)?);
    let answer = match value {
        Value::Nil => return Ok(Loaded::new(Answer::Absent)),
        Value::BulkString(bytes) => Answer::Value(bytes),
        other => return Err(reply::nonsense("GET", &other)),
    };
    let ttl = match ttl {
        Value::Int(-1) => None,
        // The value went between the two commands, or is going now.
        Value::Int(ms) => Some(Duration::from_millis(u64::try_from(ms).unwrap_or(0))),
        other => return Err(reply::nonsense("PTTL", &other)),
    };
    let mut loaded = Loaded::new(answer);
    loaded.ttl = ttl;
    Ok(loaded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_for_tls_without_its_feature_names_the_feature() {
        let what = "can't connect with TLS, the feature is not enabled".to_owned();
        let advised = no_address(what.clone(), false).to_string();
        assert!(advised.contains("feature `tls` of cellar-near"));
        assert!(!no_address(what, true).to_string().contains("cellar-near"));
        assert!(matches!(Redis::open("nonsense"), Err(Error::Connection(_))));
    }
}
