//! Records: what a server remembers of its commands and events, for those who operate it.

use super::acl_log::AclLog;
use super::command_log::CommandLogs;
use super::error_stats::Errors;
use super::history::History;
use super::hot_keys::HotKeys;
use super::latency_events::LatencyEvents;
use super::rates::RateSamples;

/// All records of one server.
#[derive(Default)]
pub struct Records {
    /// The slowest commands.
    pub command_logs: CommandLogs,
    /// The most expensive keys, while a measurement runs.
    pub hot_keys: HotKeys,
    /// The LATENCY history of slow events.
    pub latency_events: LatencyEvents,
    /// The entries of ACL LOG.
    pub acl_log: AclLog,
    /// Rates per second.
    pub pace: RateSamples,
    /// The metrics of the last 24 hours.
    pub history: History,
    /// Error replies by their codes.
    pub errors: Errors,
}

impl Records {
    /// Whether one of them requires that all calls of commands are timed.
    #[must_use]
    pub fn need_all_calls(&self) -> bool {
        self.command_logs.are_for_quick()
            || self.latency_events.threshold_ms() > 0
            || self.hot_keys.is_active()
    }
}
