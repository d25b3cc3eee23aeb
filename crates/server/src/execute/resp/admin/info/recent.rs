//! Recent fields of INFO: those that versions from 7.4 of Redis on and Valkey have, under the names
//! that their dashboards read.
//!
//! The event loops are what the main thread is there: their figures are sums over all of them.

use super::{InfoFacts, InfoText};
use crate::denials::DenialReason;

/// What the section of clients ends with.
pub(super) fn clients(facts: &InfoFacts<'_>, text: &mut InfoText) {
    let state = facts.call.context.state;
    let (mut subscribers, mut watching) = (0, 0);
    for client in state.clients.list() {
        subscribers += u64::from(client.is_subscriber());
        watching += u64::from(client.watches());
    }
    text.fields([
        ("pubsub_clients", subscribers),
        ("watching_clients", watching),
        ("total_watched_keys", state.observer.watched() as u64),
    ]);
}

/// What the section of statistics ends with.
pub(super) fn stats(facts: &InfoFacts<'_>, text: &mut InfoText) {
    let state = facts.call.context.state;
    let (cycles, busy_us) = loops(facts);
    text.fields([
        ("expired_subkeys", state.observer.expired_fields()),
        ("evicted_scripts", state.scripts.evicted()),
        ("eventloop_cycles", cycles),
        ("eventloop_duration_sum", busy_us),
    ]);
    for (name, reason) in [
        ("acl_access_denied_auth", DenialReason::Auth),
        ("acl_access_denied_cmd", DenialReason::Command),
        ("acl_access_denied_key", DenialReason::Key),
        ("acl_access_denied_channel", DenialReason::Channel),
        ("acl_access_denied_db", DenialReason::Database),
    ] {
        text.field(name, state.denials.total(reason));
    }
}

/// What the section of the processor ends with.
pub(super) fn cpu(facts: &InfoFacts<'_>, text: &mut InfoText) {
    let (_, us) = loops(facts);
    let time = format_args!("{}.{:06}", us / 1_000_000, us % 1_000_000);
    text.field("used_active_time_main_thread", time);
}

/// The section of TLS: when the first certificate ends that servers here show.
pub(super) fn tls(facts: &InfoFacts<'_>, text: &mut InfoText) {
    let state = facts.call.context.state;
    let Some(keys) = &state.tls else {
        return;
    };
    let now_s = i64::try_from(facts.call.unix_ms(facts.call.now()) / 1_000).unwrap_or(i64::MAX);
    if let Some(end_s) = keys.expiries_s().into_iter().map(|(_, end_s)| end_s).min() {
        let left_s = end_s.saturating_sub(now_s).max(0);
        text.field("tls_server_cert_expires_in_seconds", left_s);
    }
}

/// Iterations of the event loops, and how long those took that had something to do.
fn loops(facts: &InfoFacts<'_>) -> (u64, u64) {
    let loops = facts.call.context.state.counters.iter();
    loops.fold((0, 0), |(cycles, busy_us), one| {
        let cycles = cycles + one.pulse.beats();
        (cycles, busy_us + one.load.read().busy_us)
    })
}
