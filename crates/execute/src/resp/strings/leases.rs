//! Leases: GETLEASE and INVALIDATE, so that one client recomputes a value and the others wait.
//!
//! They use the same lease state of the engine as memcached's meta commands.
//! Page: docs/leases.md. Tests: server/tests/resp_leases.rs.

use cellar_engine::{DeleteOptions, Deleted, Found, Handle, Kind, Lookup};
use cellar_protocol::resp::number::parse_integer;

use crate::resp::call::notify::Class;
use crate::resp::call::{Call, DONE, Outcome};
use crate::resp::failure::Failure;
use crate::resp::strings::values::count_read;

/// The lease state, which tells a client what to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LeaseState {
    Miss,
    Fresh,
    Won,
    Wait,
    StaleWon,
    StaleWait,
}

impl LeaseState {
    fn of(found: &Found<'_>) -> LeaseState {
        let lease = found.lease;
        match (lease.stale, lease.won, lease.taken) {
            (true, true, _) => LeaseState::StaleWon,
            (true, false, _) => LeaseState::StaleWait,
            (false, true, _) => LeaseState::Won,
            (false, false, true) => LeaseState::Wait,
            (false, false, false) => LeaseState::Fresh,
        }
    }

    fn name(self) -> &'static str {
        match self {
            LeaseState::Miss => "miss",
            LeaseState::Fresh => "fresh",
            LeaseState::Won => "won",
            LeaseState::Wait => "wait",
            LeaseState::StaleWon => "stale-won",
            LeaseState::StaleWait => "stale-wait",
        }
    }
}

/// The reply of GETLEASE.
struct LeaseAnswer {
    /// None while the first value is being computed.
    value: Option<Handle>,
    left_ms: Option<u64>,
    state: LeaseState,
    version: u64,
}

/// The positive number of milliseconds behind an option.
fn positive_ms(number: Option<&&[u8]>, command: &'static str) -> Result<u64, Failure> {
    let number = number.ok_or(Failure::Syntax)?;
    let number = parse_integer(number).ok_or(Failure::NotInteger)?;
    let number = u64::try_from(number).ok().filter(|number| *number > 0);
    number.ok_or(Failure::BadExpire(command))
}

/// GETLEASE key [LEASE milliseconds] [EARLY milliseconds].
pub(in crate::resp) fn getlease(call: &mut Call<'_>) -> Outcome {
    let key = call.first_key()?;
    let (mut lease_ms, mut early_ms) = (None, None);
    let mut args = call.args[2..].iter();
    while let Some(name) = args.next() {
        let place = match name.to_ascii_uppercase().as_slice() {
            b"LEASE" => &mut lease_ms,
            b"EARLY" => &mut early_ms,
            _ => return Err(Failure::Syntax),
        };
        if place.is_some() {
            return Err(Failure::Syntax);
        }
        *place = Some(positive_ms(args.next(), "getlease")?);
    }
    let now = call.now();
    let lookup = Lookup {
        vivify: lease_ms.map(|ms| now.plus_ms(ms)),
        recache_ms: early_ms,
        lease_ms,
        version: true,
        ..Lookup::default()
    };
    let answer = call.cache().lookup(key, &lookup, |found| {
        let state = LeaseState::of(&found);
        // An empty stub represents a value that is still being computed.
        let is_stub =
            matches!(state, LeaseState::Won | LeaseState::Wait) && found.item.value.is_empty();
        LeaseAnswer {
            value: (!is_stub).then(|| found.item.pin()),
            left_ms: found.item.deadline.remaining_ms(now),
            state,
            version: found.version,
        }
    })?;
    if answer.is_none() && call.cache().facts(key, |_| ()).is_some() {
        return Err(Failure::WrongType);
    }
    count_read(
        call,
        answer.as_ref().is_some_and(|answer| answer.value.is_some()),
    );
    write(call, answer);
    DONE
}

fn write(call: &mut Call<'_>, answer: Option<LeaseAnswer>) {
    let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    let Some(answer) = answer else {
        let mut reply = call.reply();
        reply.array(4);
        reply.null();
        reply.integer(-2);
        reply.bulk(LeaseState::Miss.name());
        return reply.integer(0);
    };
    call.reply().array(4);
    match &answer.value {
        Some(value) => call.reply().bulk_head(value.len()),
        None => call.reply().null(),
    }
    call.output.push_line(answer.value);
    let mut reply = call.reply();
    reply.integer(answer.left_ms.map_or(-1, number));
    reply.bulk(answer.state.name());
    reply.integer(number(answer.version));
}

/// INVALIDATE key [STALE milliseconds]: keeps the value but marks it as stale.
pub(in crate::resp) fn invalidate(call: &mut Call<'_>) -> Outcome {
    let key = call.first_key()?;
    let touch = match call.args[2..] {
        [] => None,
        [name, ref number @ ..] if name.eq_ignore_ascii_case(b"STALE") && number.len() < 2 => {
            let ms = positive_ms(number.first(), "invalidate")?;
            Some(call.now().plus_ms(ms))
        }
        _ => return Err(Failure::Syntax),
    };
    let kind = call.cache().facts(key, |facts| facts.kind);
    if kind.is_some_and(|kind| kind != Kind::STRING) {
        return Err(Failure::WrongType);
    }
    let options = DeleteOptions {
        mark_stale: true,
        touch,
        ..DeleteOptions::default()
    };
    let is_done = call.cache().delete(key, &options)? == Deleted::Done;
    if is_done {
        call.notify(Class::Generic, "invalidate", key.bytes());
    }
    call.integer(i64::from(is_done))
}
