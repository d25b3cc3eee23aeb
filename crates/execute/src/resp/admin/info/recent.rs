//! Recent fields of INFO: those of Redis since 7.4 and of Valkey, under the names that their
//! dashboards read.
//!
//! The event loops correspond to the main thread there: the metrics are sums over all of them.

use cellar_shared::observe::acl_log::AclLogReason;

use super::{InfoFacts, InfoText};

/// The last fields of the section of clients.
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

/// The last fields of the section of statistics.
pub(super) fn stats(facts: &InfoFacts<'_>, text: &mut InfoText) {
    let state = facts.call.context.state;
    let ((cycles, busy_us), rates) = (state.statistics.loop_work(), state.records.pace.rates());
    let mut command_us = 0;
    facts.each_command(|_, calls, times| command_us += times.total_us(calls));
    // Busy microseconds per second, divided by the iterations per second.
    let iteration_us = rates.busy_us.checked_div(rates.cycles).unwrap_or(0);
    text.fields([
        ("expired_subkeys", state.observer.expired_fields()),
        ("evicted_scripts", state.scripts.evicted()),
        ("eventloop_cycles", cycles),
        ("eventloop_duration_sum", busy_us),
        ("eventloop_duration_cmd_sum", command_us),
        ("instantaneous_eventloop_cycles_per_sec", rates.cycles),
        ("instantaneous_eventloop_duration_usec", iteration_us),
    ]);
    for (name, reason) in [
        ("acl_access_denied_auth", AclLogReason::Auth),
        ("acl_access_denied_cmd", AclLogReason::Command),
        ("acl_access_denied_key", AclLogReason::Key),
        ("acl_access_denied_channel", AclLogReason::Channel),
        ("acl_access_denied_db", AclLogReason::Database),
    ] {
        text.field(name, state.records.acl_log.total(reason));
    }
}

/// The last fields of the section of the processor.
pub(super) fn cpu(facts: &InfoFacts<'_>, text: &mut InfoText) {
    let (_, us) = facts.call.context.state.statistics.loop_work();
    let time = format_args!("{}.{:06}", us / 1_000_000, us % 1_000_000);
    text.field("used_active_time_main_thread", time);
}

/// The section of TLS: when the first certificate ends that this server shows, and when the first
/// of the authorities does whose certificates clients show.
pub(super) fn tls(facts: &InfoFacts<'_>, text: &mut InfoText) {
    let state = facts.call.context.state;
    let Some(keys) = &state.tls else {
        return;
    };
    let now_s = i64::try_from(facts.call.unix_ms(facts.call.now()) / 1_000).unwrap_or(i64::MAX);
    let server_s = keys.expiries_s().into_iter().map(|(_, end_s)| end_s).min();
    for (name, end_s) in [
        ("tls_server_cert_expires_in_seconds", server_s),
        (
            "tls_ca_cert_expires_in_seconds",
            keys.authorities_expiry_s(),
        ),
    ] {
        if let Some(end_s) = end_s {
            text.field(name, end_s.saturating_sub(now_s).max(0));
        }
    }
}
