//! One connection to one node: its reads, its pushes, its heartbeat.
//!
//! A link is never repaired. When it is lost, or does not answer within the bound, its trust ends,
//! and with it the validity of all copies read over it; its node opens another one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use cellar_protocol::resp::slot::slot_of;
use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Client, Cmd, Pipeline, ProtocolVersion, PushInfo, PushKind, Value,
};
use tokio::task::AbortHandle;
use tokio::time::timeout;

use super::dial::dial;
use super::reply::{self, Failure};
use super::slots;
use super::swaps::swaps;
use super::{RedisSettings, Tracking, loaded};
use crate::read_through::error::Error;
use crate::read_through::fault::{Fault, Given};
use crate::read_through::lane::LaneHandle;
use crate::read_through::origin::login::Login;
use crate::read_through::origin::{Listener, Loaded};
use crate::read_through::trust::{ClusterNode, Grant, Trust};

/// Commands that wait to be sent, before senders have to wait.
const QUEUE_MAX: usize = 1024;
/// Into how many parts of the bound the heart's pauses cut it.
const BEATS_PER_BOUND: u32 = 4;
/// At each how many beats the databases are looked at.
const BEATS_PER_SWAPS: u64 = 2;

/// The capability by which a client states that it understands messages about lost slots, and the
/// name of these messages.
const HEARS_SLOTS: &str = "invalidate-slots";

/// The server was not asked for leases yet.
const UNKNOWN: u8 = 0;
/// It has granted a lease.
const KNOWS_LEASES: u8 = 1;
/// It knows none.
const KNOWS_NONE: u8 = 2;

/// A connection that receives invalidations.
pub(super) struct Link {
    connection: MultiplexedConnection,
    /// Drives the connection, if threads that wait may.
    _lane: Option<LaneHandle>,
    pulse: Pulse,
    settings: RedisSettings,
    heart: Option<AbortHandle>,
    /// Whether the server has leases: [`UNKNOWN`], [`KNOWS_LEASES`] or [`KNOWS_NONE`].
    // Relaxed: a late update costs one more request.
    leases: AtomicU8,
}

/// The trust in a link, and the listener that is notified when it ends.
#[derive(Clone)]
struct Pulse {
    trust: Arc<Trust>,
    listener: Arc<dyn Listener<[u8]>>,
    bound: Duration,
    fault: Given,
}

impl Link {
    /// Opens a connection and enables tracking.
    pub(super) async fn open(
        client: &Client,
        settings: RedisSettings,
        listener: Arc<dyn Listener<[u8]>>,
        place: Option<ClusterNode>,
    ) -> Result<Arc<Link>, Error> {
        let pulse = Pulse {
            trust: Trust::of(place),
            listener,
            bound: settings.alive_bound,
            fault: settings.fault,
        };
        let told = pulse.clone();
        let config = AsyncConnectionConfig::new()
            .set_response_timeout(None)
            .set_pipeline_buffer_size(QUEUE_MAX)
            .set_push_sender(move |push: PushInfo| {
                told.hear(&push);
                Ok::<(), ()>(())
            });
        let opening = as_asked(client, settings.login.as_ref())?;
        let dialled = dial(&opening, config, settings.connect_timeout).await;
        let (connection, lane) = dialled.map_err(|error| reply::failed(&error))?;
        let mut link = Link {
            connection,
            _lane: lane,
            pulse,
            settings,
            heart: None,
            leases: AtomicU8::new(UNKNOWN),
        };
        let swaps = link.track().await?;
        let beating = beat(link.connection.clone(), link.pulse.clone(), swaps);
        link.heart = Some(tokio::spawn(beating).abort_handle());
        Ok(Arc::new(link))
    }

    /// Enables tracking; the answer begins the trust. Returns the statistics of SWAPDB so far, if
    /// they have to be watched.
    async fn track(&self) -> Result<Option<String>, Error> {
        let mut pipeline = Pipeline::new();
        let has_slots = self.pulse.trust.has_slots();
        if has_slots {
            // A server that does not know it returns an error, and reports that everything may have
            // changed.
            pipeline.cmd("CLIENT").arg("CAPA").arg(HEARS_SLOTS);
        }
        match &self.settings.tracking {
            Tracking::Keys => {
                pipeline.cmd("CLIENT").arg("TRACKING").arg("ON");
            }
            Tracking::Broadcast(prefixes) => {
                let command = pipeline
                    .cmd("CLIENT")
                    .arg("TRACKING")
                    .arg("ON")
                    .arg("BCAST");
                for prefix in prefixes {
                    command.arg("PREFIX").arg(prefix);
                }
            }
            Tracking::Off => {
                pipeline.cmd("PING");
            }
        }
        pipeline.add_command(statistics());
        let limit = self.settings.connect_timeout;
        let mut values = self.ask_within(&pipeline, limit).await?;
        let found = values.pop().as_ref().and_then(swaps);
        for value in values.into_iter().skip(usize::from(has_slots)) {
            if let Err(Failure::Error(error)) = reply::checked(value) {
                return Err(error);
            }
        }
        if self.pulse.fault.is(Fault::EndlessTrust) {
            self.pulse.trust.extend(Duration::MAX);
        }
        let settings = &self.settings;
        let is_watched = settings.has_databases
            && settings.tracking != Tracking::Off
            && !settings.fault.is(Fault::BlindToSwaps);
        Ok(found.filter(|_| is_watched))
    }

    /// Whether the server was asked for leases and knows none.
    pub(super) fn has_no_leases(&self) -> bool {
        // Relaxed: a late update costs one more request.
        self.leases.load(Ordering::Relaxed) == KNOWS_NONE
    }

    /// Whether the server has granted a lease.
    pub(super) fn has_leases(&self) -> bool {
        // Relaxed: a late update costs one more request.
        self.leases.load(Ordering::Relaxed) == KNOWS_LEASES
    }

    /// Notes whether the server has leases.
    pub(super) fn note_leases(&self, has_some: bool) {
        let known = if has_some { KNOWS_LEASES } else { KNOWS_NONE };
        // Relaxed: a late update costs one more request.
        self.leases.store(known, Ordering::Relaxed);
    }

    /// Whether it is lost.
    pub(super) fn is_lost(&self) -> bool {
        self.pulse.trust.has_ended()
    }

    /// Asks for values and how long they live, in one go.
    pub(super) async fn read(
        &self,
        keys: &[&[u8]],
        asking: bool,
    ) -> Result<Vec<Result<Loaded<Vec<u8>>, Failure>>, Failure> {
        let mut pipeline = Pipeline::with_capacity(2 * keys.len() + 2);
        for key in keys {
            for command in ["GET", "PTTL"] {
                if asking {
                    pipeline.cmd("ASKING");
                }
                pipeline.cmd(command).arg(key);
            }
        }
        let grants: Vec<Option<Grant>> = keys.iter().map(|key| self.grant(key)).collect();
        let values = self.ask(&pipeline).await?;
        let mut values = values.into_iter();
        let mut answers = Vec::with_capacity(keys.len());
        for (key, grant) in keys.iter().zip(grants) {
            let mut next = || {
                let value = values.nth(usize::from(asking));
                value.ok_or_else(|| Error::Protocol("fewer answers than commands".into()))
            };
            let answer = loaded(next()?, next()?);
            answers.push(answer.map(|mut loaded| {
                loaded.grant = grant;
                if asking || !self.is_told_of(key) {
                    // Its slot still belongs to another node, or its changes are not tracked: valid
                    // for the reader, not to be cached.
                    loaded.ttl = Some(Duration::ZERO);
                }
                loaded
            }));
        }
        self.unmask(keys, &mut answers).await?;
        Ok(answers)
    }

    /// Whether changes of this key are tracked, if any are.
    pub(super) fn is_told_of(&self, key: &[u8]) -> bool {
        match &self.settings.tracking {
            Tracking::Keys | Tracking::Off => true,
            Tracking::Broadcast(prefixes) => {
                prefixes.is_empty() || prefixes.iter().any(|prefix| key.starts_with(prefix))
            }
        }
    }

    /// The right to trust the next answer for this key; none if changes are not tracked.
    pub(super) fn grant(&self, key: &[u8]) -> Option<Grant> {
        let trust = &self.pulse.trust;
        match self.settings.tracking {
            Tracking::Off => None,
            _ if self.pulse.fault.is(Fault::KeptOnMove) => Some(trust.grant()),
            _ => Some(trust.grant_of(|| slot_of(key))),
        }
    }

    /// Sends commands and waits for their replies, errors among them.
    pub(super) async fn ask(&self, pipeline: &Pipeline) -> Result<Vec<Value>, Error> {
        self.ask_within(pipeline, self.settings.timeout).await
    }

    async fn ask_within(&self, pipeline: &Pipeline, limit: Duration) -> Result<Vec<Value>, Error> {
        let asked_at = self.pulse.listener.now();
        let mut connection = self.connection.clone();
        let asked = connection.send_packed_commands(pipeline, 0, pipeline.len());
        match timeout(limit, asked).await {
            Ok(Ok(values)) => {
                self.pulse.answered(asked_at);
                Ok(values)
            }
            Ok(Err(error)) => Err(self.pulse.failed(reply::failed(&error))),
            Err(_) => Err(Error::Timeout(limit)),
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        if let Some(heart) = &self.heart {
            heart.abort();
        }
        self.pulse.lose();
    }
}

impl Pulse {
    /// Handles a push; called by the task that reads the connection, in the order of arrival.
    fn hear(&self, push: &PushInfo) {
        match push.kind {
            PushKind::Disconnection => self.lose(),
            PushKind::Invalidate => self.invalidate(&push.data),
            PushKind::Other(ref kind) if kind == "tracking-redir-broken" => self.lose(),
            PushKind::Other(ref kind) if kind == HEARS_SLOTS => self.lose_slots(&push.data),
            _ => {}
        }
    }

    fn invalidate(&self, data: &[Value]) {
        match data {
            [Value::Array(keys)] => {
                for key in keys {
                    match key {
                        Value::BulkString(_) | Value::SimpleString(_) if self.loses_it() => {}
                        Value::BulkString(key) => self.listener.invalidate(key),
                        Value::SimpleString(key) => self.listener.invalidate(key.as_bytes()),
                        _ => self.flush(),
                    }
                }
            }
            // Null: everything has changed. Anything else is taken for the same.
            _ => self.flush(),
        }
    }

    /// Voids the copies of keys in slots that the node has lost; all copies if the message has
    /// another form.
    fn lose_slots(&self, data: &[Value]) {
        let runs = match data {
            [Value::Array(numbers)] => slots::runs(numbers),
            _ => None,
        };
        let Some(runs) = runs else {
            return self.flush();
        };
        if self.fault.is(Fault::DeafToFlush) || self.fault.is(Fault::KeptOnMove) {
            return;
        }
        let is_kept = |slot: &u16| slot % 2 == 1 && self.fault.is(Fault::KeptOddSlots);
        let slots = runs.into_iter().flatten();
        slots
            .filter(|slot| !is_kept(slot))
            .for_each(|slot| self.trust.void_slot(slot));
        self.listener.flush();
    }

    /// Whether a push is dropped, as an injected fault.
    fn loses_it(&self) -> bool {
        // Relaxed: a count orders nothing.
        static PUSHES: AtomicU64 = AtomicU64::new(0);
        self.fault.is(Fault::LostPushes) && PUSHES.fetch_add(1, Ordering::Relaxed).is_multiple_of(3)
    }

    fn flush(&self) {
        if !self.fault.is(Fault::DeafToFlush) && !self.fault.is(Fault::KeptOnMove) {
            self.trust.void();
            self.listener.flush();
        }
    }

    /// Notes that a question asked at this time has been answered.
    fn answered(&self, asked_at: Duration) {
        self.trust.extend(asked_at.saturating_add(self.bound));
    }

    /// Notes that the connection is lost.
    fn lose(&self) {
        if !self.fault.is(Fault::EndlessTrust) && !self.trust.has_ended() {
            self.trust.end();
            self.listener.flush();
        }
    }

    /// Ends the trust if the error says that the connection is lost; returns the error.
    fn failed(&self, error: Error) -> Error {
        if matches!(error, Error::Connection(_)) {
            self.lose();
        }
        error
    }
}

/// Sends PING periodically, as long as no other request is sent; and checks twice within the bound
/// whether databases were swapped, if the server's statistics show that.
async fn beat(mut connection: MultiplexedConnection, pulse: Pulse, mut known: Option<String>) {
    let pause = pulse.bound / BEATS_PER_BOUND;
    for number in 1_u64.. {
        tokio::time::sleep(pause).await;
        if pulse.trust.has_ended() || pulse.fault.is(Fault::EndlessTrust) {
            return;
        }
        let asked_at = pulse.listener.now();
        let fresh = asked_at.saturating_add(pulse.bound).saturating_sub(pause);
        let is_turn_of_swaps = known.is_some() && number.is_multiple_of(BEATS_PER_SWAPS);
        if !is_turn_of_swaps && pulse.trust.known_until() > fresh {
            continue;
        }
        let question = match is_turn_of_swaps {
            true => statistics(),
            false => redis::cmd("PING"),
        };
        match timeout(pulse.bound, connection.send_packed_command(&question)).await {
            Ok(Ok(reply)) => {
                pulse.answered(asked_at);
                if is_turn_of_swaps {
                    let seen = swaps(&reply);
                    if seen != known {
                        known = seen;
                        pulse.flush();
                    }
                }
            }
            Ok(Err(_)) | Err(_) => pulse.lose(),
        }
    }
}

/// The question for the counts of all commands.
fn statistics() -> Cmd {
    let mut command = redis::cmd("INFO");
    command.arg("commandstats");
    command
}

/// The client with RESP3, without which there are no pushes, and with its user.
fn as_asked(client: &Client, login: Option<&Login>) -> Result<Client, Error> {
    let info = client.get_connection_info().clone();
    let redis = info.redis_settings().clone();
    let mut redis = redis.set_protocol(ProtocolVersion::RESP3);
    if let Some(Login { name, password }) = login {
        redis = redis.set_username(name).set_password(password);
    }
    Client::open(info.set_redis_settings(redis)).map_err(Error::connection)
}
