//! Faults that a cache can be given on purpose, to show that its tests would find them.
//!
//! Only with the feature `faults`, which nothing but this crate's own tests asks for. Without it no
//! cache can be given one, and whether it has one is answered when it is compiled.

/// A rule of coherence that is broken deliberately.
///
/// Only tests use it: the conformance suite and the checker must fail with each of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[doc(hidden)]
pub enum Fault {
    /// None: all rules are followed.
    #[default]
    None,
    /// A load fills the cache although a push has overtaken it.
    UncheckedFills,
    /// The push that declares everything changed is ignored.
    DeafToFlush,
    /// An exchange of two databases goes unnoticed.
    BlindToSwaps,
    /// Every third push about a key is lost.
    LostPushes,
    /// The connection is trusted for ever, and never checked by PING.
    EndlessTrust,
    /// The server's remaining time to live is ignored.
    NoServerTtl,
    /// The local time to live is ignored.
    NoLocalTtl,
    /// Writes do not drop the local copy.
    KeptOnWrite,
    /// Copies of keys whose slot has moved stay: both the slot map and the messages of the node
    /// that has lost the slot are ignored.
    KeptOnMove,
    /// The same of every other slot alone.
    KeptOddSlots,
}

/// The fault that a cache was given.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Given(#[cfg(feature = "faults")] Fault);

#[cfg(feature = "faults")]
impl Given {
    pub(crate) fn new(fault: Fault) -> Given {
        Given(fault)
    }

    /// Whether it is this one.
    pub(crate) fn is(self, fault: Fault) -> bool {
        self.0 == fault
    }
}

#[cfg(not(feature = "faults"))]
impl Given {
    /// Whether it is this one: never.
    pub(crate) fn is(self, _fault: Fault) -> bool {
        false
    }
}
