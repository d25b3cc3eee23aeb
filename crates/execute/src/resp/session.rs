//! Session: what one client of the Redis protocol has set up on its connection.

pub(super) mod preparation; // what is done before a command runs
pub(super) mod queue;
pub(super) mod subscriptions;
pub(super) mod tracked;
pub(super) mod watched;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use cellar_engine::Space;
use cellar_net::mailbox::ClientSetup;
use cellar_net::output::Output;
use cellar_protocol::resp::command::{Command, Flags};
use cellar_protocol::resp::{Limits, Proto};
use cellar_shared::auth::users::{Identity, Login, User, Users};
use cellar_shared::clients::budget::Held;
use cellar_shared::clients::client::{Client, Delivery};
use cellar_shared::clients::waiters::WaitRequest;
use cellar_shared::observe::acl_log::{AclLogCause, AclLogReason};
use cellar_shared::state::State;
use cellar_system::clock::Stopwatch;

use self::preparation::Preparation;
use self::queue::Transaction;
use self::subscriptions::Subscriptions;
use self::tracked::Tracked;
use self::watched::Watched;
use super::failure::Failure;
use super::listing::describe;
use crate::login::Pending;
use crate::permission::{Denied, Need, check, check_resp, of_verb};

/// Which replies a client wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum ReplyMode {
    /// All.
    #[default]
    On,
    /// None.
    Off,
    /// No reply for the next command.
    SkipNext,
    /// No reply for the current command; replies resume with the next.
    Skip,
}

/// State of this size, more than a hundred names, is not freed at once when its client disconnects.
const LEFT_BYTES_MIN: usize = 64 << 10;

/// Longest total length of a client's names that another process takes over.
const SETUP_BYTES_MAX: usize = 256;

/// The error for a client that has to log in first.
pub(super) const NO_AUTH: Failure = Failure::text("NOAUTH Authentication required.");

/// The error for a command that the user may not run.
///
/// Source: Redis 7, `getAclErrorMessage`; it has no databases of users.
#[cold]
fn denied_to(user: &str, command: &Command, args: &[&[u8]], denied: Denied<'_>) -> Failure {
    let what = match denied {
        Denied::Command => {
            let name = full_name(command, args);
            let text = format!("NOPERM User {user} has no permissions to run the '{name}' command");
            return Failure::Text(text.into());
        }
        Denied::Key(_) => "NOPERM No permissions to access a key",
        Denied::Channel(_) => "NOPERM No permissions to access a channel",
        Denied::Database => "NOPERM No permissions to access a database",
    };
    Failure::text(what)
}

/// A command's name; of a subcommand, behind its container's.
pub(super) fn full_name(command: &Command, args: &[&[u8]]) -> String {
    let first = String::from_utf8_lossy(args.first().copied().unwrap_or_default());
    let first = first.to_lowercase();
    if command.name.eq_ignore_ascii_case(&first) {
        first
    } else {
        format!("{first}|{}", command.name)
    }
}

/// One client's session.
#[derive(Debug)]
pub(super) struct Session {
    /// The client as other clients see it.
    pub(super) client: Arc<Client>,
    pub(super) proto: Proto,
    /// Longest command that the decoder accepts.
    command_bytes_max: usize,
    pub(super) database: u32,
    pub(super) identity: Identity,
    /// The login that it waits for.
    pub(super) pending: Pending,
    /// Number of wrong passwords.
    pub(super) wrong_passwords: u8,
    pub(super) reply_mode: ReplyMode,
    pub(super) transaction: Option<Box<Transaction>>,
    pub(super) subscriptions: Subscriptions,
    pub(super) tracked: Tracked,
    pub(super) watched: Watched,
    /// Whether it runs MONITOR.
    pub(super) monitors: bool,
    /// Whether reads do not count as uses of keys (CLIENT NO-TOUCH).
    pub(super) touches_nothing: bool,
    /// Whether commands run inside a larger one, so that each has to answer at once.
    pub(super) answers_whole: bool,
    /// Whether that is a script.
    pub(super) is_script: bool,
    /// The start of the transaction that they belong to.
    pub(super) in_exec: Option<Stopwatch>,
    /// Work that is done before the next command runs.
    pub(super) preparation: Preparation,
}

impl Session {
    /// Creates the session of a new client.
    pub(super) fn new(client: Arc<Client>, state: &State) -> Session {
        Session {
            client,
            proto: Proto::V2,
            command_bytes_max: state.budget.bytes_max(),
            database: 0,
            identity: Session::first_identity(state),
            pending: Pending::default(),
            wrong_passwords: 0,
            reply_mode: ReplyMode::On,
            transaction: None,
            subscriptions: Subscriptions::default(),
            tracked: Tracked::default(),
            watched: Watched::default(),
            monitors: false,
            touches_nothing: false,
            answers_whole: false,
            in_exec: None,
            is_script: false,
            preparation: Preparation::default(),
        }
    }

    /// The same of one whose commands are run again that end without an answer.
    pub(super) fn of_connection(client: Arc<Client>, state: &State) -> Session {
        Session {
            preparation: Preparation::open(),
            ..Session::new(client, state)
        }
    }

    /// The user of a new connection.
    pub(super) fn first_identity(state: &State) -> Identity {
        Identity::of_new(
            state.access.users.as_deref(),
            !state.settings.secrets.resp.is_empty(),
        )
    }

    /// The client's state; none if it is more than another process takes over.
    pub(super) fn setup(&self, state: &State) -> Option<ClientSetup> {
        let has_logged_in = state.access.users.is_some() || !state.settings.secrets.resp.is_empty();
        let hears = self.tracked.is_on || self.monitors || !self.subscriptions.is_empty();
        let is_within = self.transaction.is_some() || self.watched.held_bytes() > 0;
        // Relaxed: a wish, which its own thread notes.
        let mut wishes = self.client.wishes.iter();
        let is_modest =
            self.reply_mode == ReplyMode::On && wishes.all(|wish| !wish.load(Ordering::Relaxed));
        let facts = self.client.facts();
        let setup = ClientSetup {
            is_resp3: self.proto == Proto::V3,
            database: self.database,
            name: facts.name.clone(),
            library: [facts.library.clone(), facts.library_version.clone()],
        };
        let is_short = setup.bytes() <= SETUP_BYTES_MAX;
        (is_modest && is_short && !has_logged_in && !hears && !is_within).then_some(setup)
    }

    /// Restores a client's state from another process; returns whether its database exists.
    pub(super) fn restore(&mut self, setup: &ClientSetup, state: &State) -> bool {
        if setup.database as usize >= state.settings.databases {
            return false;
        }
        self.select(setup.database);
        self.set_proto(if setup.is_resp3 { Proto::V3 } else { Proto::V2 });
        let mut facts = self.client.facts();
        facts.name.clone_from(&setup.name);
        [facts.library, facts.library_version] = setup.library.clone();
        true
    }

    /// Assigns the connection to a user. Subscriptions and tracking of another user end.
    pub(super) fn log_in(&mut self, login: Login, users: &Users, state: &State) {
        let before = self.identity.last_user();
        let is_same = |before: &Arc<User>| {
            let now = login.user();
            (&before.name, before.since) == (&now.name, now.since)
        };
        if !before.is_some_and(is_same) {
            self.forget_all(state);
        }
        self.client.facts().login = Some(login.clone());
        self.identity = users.identity_of(login);
    }

    /// Whether a command may be run, as far as that depends on whose the session is.
    ///
    /// # Errors
    /// Why not, as Redis says it.
    #[inline]
    pub(super) fn check_rights(
        &mut self,
        command: &'static Command,
        args: &[&[u8]],
        state: &State,
    ) -> Result<(), Failure> {
        match self.identity {
            Identity::Free => Ok(()),
            _ => self.check_user(command, args, state),
        }
    }

    /// Whether the user who was in force last may run a command; nothing is recorded.
    pub(super) fn may_run(&self, command: &'static Command, args: &[&[u8]]) -> bool {
        let Some(user) = self.identity.last_user() else {
            return true;
        };
        if command.takes(args.len()) {
            check_resp(user, command, args, self.database).is_ok()
        } else {
            check(user, of_verb(command.verb), self.database, []).is_ok()
        }
    }

    fn check_user(
        &mut self,
        command: &'static Command,
        args: &[&[u8]],
        state: &State,
    ) -> Result<(), Failure> {
        let database = self.database;
        let Some(user) = self.user(state) else {
            return if command.flags.has(Flags::NO_AUTH) {
                Ok(())
            } else {
                Err(NO_AUTH)
            };
        };
        let Err(denied) = check_resp(user, command, args, database) else {
            return Ok(());
        };
        let user = Arc::clone(&user.name);
        self.note_denied(&user, (command, args), denied, state);
        Err(denied_to(&user, command, args, denied))
    }

    /// Records a refusal for ACL LOG.
    #[cold]
    fn note_denied(
        &self,
        user: &str,
        (command, args): (&Command, &[&[u8]]),
        denied: Denied<'_>,
        state: &State,
    ) {
        let (reason, object) = match denied {
            Denied::Command => (AclLogReason::Command, full_name(command, args).into_bytes()),
            Denied::Key(key) => (AclLogReason::Key, key.to_vec()),
            Denied::Channel(name) => (AclLogReason::Channel, name.to_vec()),
            Denied::Database => (
                AclLogReason::Database,
                self.database.to_string().into_bytes(),
            ),
        };
        self.note_refused(reason, (object, user.as_bytes()), state);
    }

    /// Records for ACL LOG that something was refused to a user, or to a client that gave this
    /// name.
    pub(super) fn note_refused(
        &self,
        reason: AclLogReason,
        (object, user): (Vec<u8>, &[u8]),
        state: &State,
    ) {
        let context = match self.transaction {
            _ if self.is_script => "lua",
            Some(_) => "multi",
            None => "toplevel",
        };
        let now = state.cache.now();
        let refused = AclLogCause {
            reason,
            context,
            object,
            user: user.to_vec(),
        };
        let line = describe(&self.client, now.0);
        state
            .records
            .acl_log
            .note(refused, line.trim_end().to_owned(), state.wall.unix_ms(now));
    }

    /// Whether a plain request that needs this may use its key.
    #[inline]
    pub(super) fn may(&mut self, need: Need, key: &[u8], state: &State) -> bool {
        let database = self.database;
        match self.identity {
            Identity::Free => true,
            _ => self
                .user(state)
                .is_some_and(|user| check(user, need, database, [key]).is_ok()),
        }
    }

    /// The user in force. If it is no longer valid, its state is removed: the connection may get
    /// another user before the login worker closes it.
    #[inline]
    fn user(&mut self, state: &State) -> Option<&Arc<User>> {
        let was_known = self.identity.last_user().is_some();
        if self.identity.user(state.access.users.as_deref()).is_none() && was_known {
            self.forget_all(state);
        }
        self.identity.last_user()
    }

    /// The user whose keys alone are listed; none if all keys are.
    pub(super) fn limited_user(&self) -> Option<Arc<User>> {
        let user = self.identity.last_user();
        user.filter(|user| !user.prefixes.is_empty()).cloned()
    }

    /// The session in which a script of this client runs its commands. It registers keys as the
    /// client's tracking does, without changing that state.
    pub(super) fn for_script(&mut self, state: &State) -> Session {
        Session {
            database: self.database,
            identity: self.identity.clone(),
            wrong_passwords: 0,
            is_script: true,
            touches_nothing: self.touches_nothing,
            tracked: self.tracked.for_script(),
            ..Session::new(Arc::clone(&self.client), state)
        }
    }

    /// The session in which a command of this client runs in steps, the last of which stores.
    pub(super) fn for_steps(&mut self, state: &State) -> Session {
        let mut session = self.for_script(state);
        session.set_proto(self.proto);
        session.preparation = Preparation::open();
        session
    }

    /// The space of the session's database.
    #[inline]
    pub(super) fn space(&self, state: &State) -> Space {
        state.databases.space(self.database)
    }

    /// The limits of the decoder.
    pub(super) fn limits(&self) -> Limits {
        let limits = Limits {
            uploads: self.takes_uploads(),
            command_bytes_max: self.command_bytes_max,
            ..Limits::default()
        };
        if self.identity.is_known() {
            limits
        } else {
            limits.unauthenticated()
        }
    }

    /// The bytes that it holds.
    #[inline]
    pub(super) fn held(&self) -> Held {
        let Session {
            transaction,
            subscriptions,
            watched,
            tracked,
            preparation,
            client: _,
            proto: _,
            command_bytes_max: _,
            database: _,
            identity: _,
            pending: _,
            wrong_passwords: _,
            reply_mode: _,
            monitors: _,
            touches_nothing: _,
            answers_whole: _,
            is_script: _,
            in_exec: _,
        } = self;
        let mut held = preparation.held();
        held.beside += transaction.as_ref().map_or(0, |queued| queued.held_bytes());
        held.beside += subscriptions.held_bytes() + watched.held_bytes() + tracked.held_bytes();
        held
    }

    /// Whether commands run and are answered without checks of session state.
    #[inline]
    pub(super) fn is_plain(&self) -> bool {
        // A client in subscribed mode listens.
        self.identity.is_known()
            && self.transaction.is_none()
            && self.reply_mode == ReplyMode::On
            && !self.listens()
            && !self.touches_nothing
    }

    /// Whether a SET runs at once and is answered.
    #[inline]
    fn takes_uploads(&self) -> bool {
        self.identity.is_known()
            && self.transaction.is_none()
            && self.reply_mode == ReplyMode::On
            && !self.is_confined()
    }

    /// Whether memory for a command may be prepared: it runs again then.
    pub(super) fn may_ask_ahead(&self) -> bool {
        !self.answers_whole && self.preparation.may_ask()
    }

    /// Whether a command may wait: it is not part of a larger one.
    pub(super) fn may_wait(&self) -> bool {
        !self.answers_whole && !self.is_script
    }

    /// The session in which a client's command is run that has waited for a value.
    pub(super) fn of_waiter(of: &WaitRequest, state: &State) -> Session {
        Session {
            database: of.database,
            proto: of.proto,
            ..Session::new(Arc::clone(&of.client), state)
        }
    }

    /// Whether messages may come that do not answer a request.
    #[inline]
    pub(super) fn listens(&self) -> bool {
        self.tracked.is_on || !self.subscriptions.is_empty() || self.monitors
    }

    /// Whether only commands about subscriptions are allowed, as in RESP2 every line is taken for a
    /// message.
    #[inline]
    pub(super) fn is_confined(&self) -> bool {
        self.proto == Proto::V2 && !self.subscriptions.is_empty()
    }

    /// Writes the messages of the inbox after the replies.
    pub(super) fn empty_inbox(&self, output: &mut Output) {
        if let Delivery::Bytes(bytes) = self.client.deliver()
            && !bytes.is_empty()
        {
            output.bytes().extend_from_slice(&bytes);
        }
    }

    pub(super) fn set_proto(&mut self, proto: Proto) {
        self.proto = proto;
        let number = if proto == Proto::V3 { 3 } else { 2 };
        // Relaxed: a fact for listings.
        self.client.protocol.store(number, Ordering::Relaxed);
    }

    /// Removes all watches; returns whether no watched key has changed.
    pub(super) fn unwatch(&mut self, state: &State) -> bool {
        let has_changed = self.watched.has_changed(state);
        self.watched.end(&self.client, state);
        !has_changed
    }

    /// Ends everything that depends on the user: subscriptions, tracking, watched keys, a
    /// transaction.
    #[cold]
    pub(super) fn forget_all(&mut self, state: &State) {
        if state.access.users.is_some() {
            // Messages already queued for it were meant for the former user.
            self.client.note_other_owner();
        }
        if self.transaction.take().is_some() {
            note_queued(&self.client, None);
        }
        self.subscriptions.end(&self.client, state);
        self.end_monitoring(state);
        self.tracked.end(&self.client, state);
        self.watched.end(&self.client, state);
    }

    /// Stops MONITOR.
    fn end_monitoring(&mut self, state: &State) {
        if std::mem::take(&mut self.monitors) {
            state.monitors.remove(&self.client);
            self.client.note_monitor(false);
            state.choose_calls();
        }
    }

    /// The origin of its commands, as MONITOR shows it.
    pub(super) fn origin(&self) -> &str {
        if self.is_script {
            "lua"
        } else {
            &self.client.seat.peer
        }
    }

    /// Removes it from the sight of other clients. State that takes long to free stays,
    /// unreachable; the caller has to call [`Session::take_apart`] later.
    pub(super) fn leave(&mut self, state: &State) {
        state.clients.remove(self.client.id);
        if self.held().beside < LEFT_BYTES_MIN {
            self.forget_all(state);
        }
    }

    /// Frees some of the remaining state, at most `most` names; returns how many. If it were fewer,
    /// nothing is left.
    pub(super) fn take_apart(&mut self, most: usize, state: &State) -> usize {
        let mut names = self.subscriptions.end_some(most, &self.client, state);
        names += self.watched.end_some(most - names, &self.client, state);
        if names < most {
            self.forget_all(state);
        }
        names
    }

    pub(super) fn select(&mut self, database: u32) {
        self.database = database;
        self.client.database.store(database, Ordering::Relaxed);
    }
}

/// Records the state of a client's transaction for listings, which other clients read.
pub(in crate::resp) fn note_queued(client: &Client, count: Option<usize>) {
    let count = count.map_or(-1, |count| i64::try_from(count).unwrap_or(i64::MAX));
    // Relaxed: a fact for listings.
    client.counts.queued.store(count, Ordering::Relaxed);
}
