//! Extension: an append or prepend that waits for memory for the longer value.
//!
//! If other items would have to be evicted for it, nothing is changed at first; memory is reclaimed
//! a step in each of the connection's next iterations, and then it runs atomically, as if it had
//! arrived then.
//!
//! Why: docs/decisions/0059. Tests: server/tests/room_ahead.rs.

use cellar_engine::{Draft, Error, ExtentReservation, Key};
use cellar_net::output::Output;

use super::answers::AnswerForm;
use super::order::Order;
use crate::context::{Context, Flow, Unfinished};
use crate::upload::ValueSource;

/// How often memory is reserved for one.
const ASKED_MAX: u32 = 3;

/// The bytes to add.
#[derive(Debug)]
pub(super) enum AddedBytes {
    /// A short value.
    Bytes(Vec<u8>),
    /// A value that was received into the cache's memory.
    Draft(Draft),
}

impl AddedBytes {
    /// A copy of a short value.
    pub(super) fn of(value: &[u8]) -> AddedBytes {
        AddedBytes::Bytes(value.to_vec())
    }
}

/// An append or prepend.
#[derive(Debug)]
pub(super) struct Extension {
    key: Box<[u8]>,
    order: Order,
    form: AnswerForm,
    part: AddedBytes,
    /// The memory reserved, or being reserved.
    reservation: Option<Box<ExtentReservation>>,
    asked: u32,
}

impl Extension {
    /// One for which nothing is done yet.
    pub(super) fn of(
        key: Key<'_>,
        order: Order,
        form: AnswerForm,
        part: AddedBytes,
    ) -> Box<Extension> {
        Box::new(Extension {
            key: key.bytes().into(),
            order,
            form,
            part,
            reservation: None,
            asked: 0,
        })
    }

    /// Reserves memory for a value of so many bytes, and continues in the next iteration; if none
    /// can be reserved, it runs at once, for the last time.
    pub(super) fn wait(
        mut self: Box<Self>,
        bytes: usize,
        context: Context<'_>,
        output: &mut Output,
    ) -> Flow {
        self.asked += 1;
        let reservation = context
            .cache()
            .reserve_extent(context.key(&self.key), bytes);
        let Ok(reservation) = reservation else {
            self.asked = ASKED_MAX;
            return self.run(context, output);
        };
        self.reservation = Some(Box::new(reservation));
        Flow::Unfinished(self)
    }

    /// Adds the value, and answers; after the last attempt it runs in one step.
    pub(super) fn run(mut self: Box<Self>, context: Context<'_>, output: &mut Output) -> Flow {
        let key = self.key.clone();
        let key = context.key(&key);
        let value = match &mut self.part {
            AddedBytes::Bytes(value) => value.as_slice(),
            AddedBytes::Draft(draft) => &*draft.value_mut(),
        };
        let value_bytes = value.len();
        let reservation = self.reservation.take().map(|some| *some);
        let mut result = self.order.run_ahead(key, value, reservation, context);
        match result {
            Err(Error::NoRoomYet { bytes }) if self.asked < ASKED_MAX => {
                return self.wait(bytes, context, output);
            }
            Err(Error::NoRoomYet { .. }) => {
                let source = ValueSource::Bytes(value);
                result = self.order.run(key, source, context);
            }
            _ => {}
        }
        let stored = (key, self.order.verb, value_bytes);
        self.form.answer(&result, stored, context, output);
        Flow::Continue
    }
}

impl Unfinished for Extension {
    fn resume(mut self: Box<Self>, context: Context<'_>, output: &mut Output) -> Flow {
        if let Some(reservation) = &mut self.reservation
            && !reservation.is_reserved()
        {
            if reservation.extend(context.cache()).is_err() {
                self.reservation = None;
                self.asked = ASKED_MAX;
            }
            return Flow::Unfinished(self);
        }
        self.run(context, output)
    }

    fn waiting_bytes(&self) -> usize {
        match &self.part {
            AddedBytes::Bytes(value) => value.capacity(),
            AddedBytes::Draft(_) => 0,
        }
    }
}
