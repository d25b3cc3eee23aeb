//! One thread of a load: an epoll loop over its connections.

use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;

use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;
use rustix::thread::{CpuSet, sched_setaffinity};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};

use crate::clock::{NS_PER_S, now_ns, thread_cpu_ns};
use crate::error::Error;
use crate::load::connection::Connection;
use crate::load::plan::Plan;
use crate::load::source::Source;
use crate::load::tally::Tally;
use crate::load::{STALL_S, Sample, Shared};

/// Events taken from the kernel at a time.
const EVENTS_MAX: usize = 256;
/// Bytes read at a time.
const READ_BYTES: usize = 256 << 10;
/// How often a waiting thread looks whether it should end.
const WAIT_NS: u64 = 200_000_000;
/// A request that is due sooner than this is waited for without sleeping: waking up takes longer.
const SPIN_NS: u64 = 100_000;
/// The timer's mark; connections are marked by their places.
const TIMER: u64 = u64::MAX;

/// When the requests of one thread of an open loop are due: evenly, the connections in turn.
#[derive(Clone, Copy, Debug)]
struct Schedule {
    start_ns: u64,
    interval_ns: f64,
    connections: u64,
}

impl Schedule {
    /// How many requests of the thread are due by `now_ns`.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "not negative"
    )]
    #[expect(clippy::cast_precision_loss, reason = "below 2^53 ns, 104 days")]
    fn due_by(&self, now_ns: u64) -> u64 {
        (now_ns.saturating_sub(self.start_ns) as f64 / self.interval_ns) as u64 + 1
    }

    /// When the `request`-th request of the thread is due.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "not negative"
    )]
    #[expect(clippy::cast_precision_loss, reason = "below 2^53 ns, 104 days")]
    fn due_ns(&self, request: u64) -> u64 {
        self.start_ns + (request as f64 * self.interval_ns) as u64
    }

    /// How many of the first `due` requests belong to the connection at `place`.
    fn share(&self, due: u64, place: u64) -> u64 {
        (due + self.connections - 1).saturating_sub(place) / self.connections
    }
}

/// One thread of a load.
#[derive(Debug)]
pub(super) struct Worker<'p> {
    plan: &'p Plan,
    shared: &'p Shared,
    epoll: OwnedFd,
    timer: Option<OwnedFd>,
    connections: Vec<Connection>,
    source: Source<'p>,
    schedule: Option<Schedule>,
    /// Requests that were due when last looked.
    due: u64,
    tally: Tally,
    buffer: Vec<u8>,
}

impl<'p> Worker<'p> {
    /// Prepares the thread's loop; to be called on the thread itself.
    pub(super) fn new(
        plan: &'p Plan,
        thread: usize,
        sockets: Vec<OwnedFd>,
        shared: &'p Shared,
    ) -> Result<Worker<'p>, Error> {
        let failed = |error: Errno| Error::system("preparing a thread of the load", error);
        if !plan.cpus.is_empty() {
            let mut cpus = CpuSet::new();
            cpus.set(plan.cpus[thread % plan.cpus.len()]);
            sched_setaffinity(None, &cpus)
                .map_err(|error| Error::system("binding a thread to a processor", error))?;
        }
        let epoll = epoll::create(CreateFlags::CLOEXEC).map_err(failed)?;
        let interest = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        for (place, socket) in sockets.iter().enumerate() {
            epoll::add(&epoll, socket, EventData::new_u64(place as u64), interest)
                .map_err(failed)?;
        }
        let timer = match plan.rate_per_s {
            None => None,
            Some(_) => {
                let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
                let timer = timerfd_create(TimerfdClockId::Monotonic, flags).map_err(failed)?;
                let interest = EventFlags::IN | EventFlags::ET;
                epoll::add(&epoll, &timer, EventData::new_u64(TIMER), interest).map_err(failed)?;
                Some(timer)
            }
        };
        Ok(Worker {
            plan,
            shared,
            epoll,
            timer,
            connections: sockets
                .into_iter()
                .map(|it| Connection::new(plan, it))
                .collect(),
            source: Source::new(plan, thread),
            schedule: None,
            due: 0,
            tally: Tally {
                samples: shared.samples.map(room_for),
                ..Tally::default()
            },
            buffer: vec![0; READ_BYTES],
        })
    }

    /// Runs to the end of the load.
    pub(super) fn run(mut self) -> Result<Tally, Error> {
        let cpu_before_ns = thread_cpu_ns();
        self.start()?;
        let mut events: Vec<Event> = Vec::with_capacity(EVENTS_MAX);
        let mut last_reply_ns = None;
        while self.in_flight() > 0 || !self.source.is_over() {
            // Acquire: pairs with the failed thread's Release, so its error is the first one.
            if self.shared.failed.load(Ordering::Acquire) {
                return Err(Error::Wrong(
                    "another thread of the load has failed".to_owned(),
                ));
            }
            let timeout = timespec(self.wait_ns()?);
            events.clear();
            match epoll::wait(&self.epoll, spare_capacity(&mut events), Some(&timeout)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(Error::system("waiting for replies", error)),
            }
            let before = self.tally.replies();
            for event in &events {
                if event.data.u64() != TIMER {
                    self.serve(event)?;
                }
            }
            let fresh = self.tally.replies() - before;
            self.send_due(fresh > 0)?;
            if fresh > 0 {
                // Relaxed: a figure for the progress line.
                self.shared.replies.fetch_add(fresh, Ordering::Relaxed);
                last_reply_ns = None;
            } else {
                last_reply_ns = self.check_stall(last_reply_ns)?;
            }
        }
        self.tally.ended_ns = now_ns();
        self.tally.own_cpu_ns = thread_cpu_ns() - cpu_before_ns;
        self.tally.unsent = self.source.unsent();
        Ok(self.tally)
    }

    fn start(&mut self) -> Result<(), Error> {
        let now = now_ns();
        self.tally.started_ns = now;
        self.source.start(now);
        if let Some(rate_per_s) = self.plan.rate_per_s {
            #[expect(clippy::cast_precision_loss, reason = "at most 256 threads")]
            let interval_ns = 1e9 * self.plan.threads as f64 / rate_per_s;
            let connections = self.connections.len() as u64;
            self.schedule = Some(Schedule {
                start_ns: now,
                interval_ns,
                connections,
            });
            return Ok(());
        }
        for place in 0..self.connections.len() {
            self.send_window(place, now)?;
        }
        Ok(())
    }

    /// Handles one event of a connection.
    fn serve(&mut self, event: &Event) -> Result<(), Error> {
        let place = usize::try_from(event.data.u64()).unwrap_or(usize::MAX);
        let Some(connection) = self.connections.get_mut(place) else {
            return Ok(());
        };
        let flags = event.flags;
        if flags.intersects(EventFlags::IN | EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR)
        {
            connection.receive(
                self.plan,
                &mut self.source,
                &mut self.tally,
                &mut self.buffer,
            )?;
        }
        if !connection.is_flushed() {
            return connection.flush(&mut self.tally);
        }
        if self.schedule.is_none() && connection.in_flight() == 0 {
            return self.send_window(place, now_ns());
        }
        Ok(())
    }

    /// Closed loop: sends a whole window on an idle connection.
    fn send_window(&mut self, place: usize, now: u64) -> Result<(), Error> {
        let count = self.source.allowance(self.plan.depth, now);
        if count == 0 {
            return Ok(());
        }
        let connection = &mut self.connections[place];
        connection.push_window(&mut self.source, count);
        connection.flush(&mut self.tally)
    }

    /// Open loop: sends what is due on every connection that has room in its window.
    fn send_due(&mut self, replies_came: bool) -> Result<(), Error> {
        let Some(schedule) = self.schedule else {
            return Ok(());
        };
        let now = now_ns();
        let due = schedule.due_by(now);
        if due == self.due && !replies_came {
            return Ok(());
        }
        self.due = due;
        for (place, connection) in self.connections.iter_mut().enumerate() {
            let place = place as u64;
            let late = schedule
                .share(due, place)
                .saturating_sub(connection.requests);
            let room = self.plan.depth - connection.in_flight();
            let wanted = usize::try_from(late).map_or(room, |late| late.min(room));
            let count = self.source.allowance(wanted, now);
            if count > 0 {
                connection.push_due(&mut self.source, count, |request| {
                    schedule.due_ns(request * schedule.connections + place)
                });
                connection.flush(&mut self.tally)?;
            }
        }
        Ok(())
    }

    /// How long to wait for events; in an open loop the timer may end the wait before.
    fn wait_ns(&mut self) -> Result<u64, Error> {
        let (Some(schedule), Some(timer)) = (self.schedule, &self.timer) else {
            return Ok(WAIT_NS);
        };
        let now = now_ns();
        let next_ns = schedule.due_ns(schedule.due_by(now));
        if next_ns.saturating_sub(now) <= SPIN_NS {
            return Ok(0);
        }
        let wake_ns = next_ns - SPIN_NS / 2;
        let spec = Itimerspec {
            it_interval: timespec(0),
            it_value: timespec(wake_ns),
        };
        timerfd_settime(timer, TimerfdTimerFlags::ABSTIME, &spec)
            .map_err(|error| Error::system("setting the timer", error))?;
        Ok(WAIT_NS)
    }

    /// Looks, when nothing came, whether to give up; `since_ns` is since when nothing has come.
    fn check_stall(&self, since_ns: Option<u64>) -> Result<Option<u64>, Error> {
        let in_flight = self.in_flight();
        if in_flight == 0 {
            return Ok(None);
        }
        let now = now_ns();
        let since_ns = since_ns.unwrap_or(now);
        if now - since_ns > STALL_S * NS_PER_S {
            return Err(Error::Stalled {
                seconds: STALL_S,
                in_flight,
            });
        }
        Ok(Some(since_ns))
    }

    fn in_flight(&self) -> u64 {
        self.source.pushed() - self.tally.replies()
    }
}

/// Memory for samples, touched: a fault later would delay a request.
fn room_for(samples: usize) -> Vec<Sample> {
    let mut room = vec![Sample { start_ns: 1, ns: 1 }; samples];
    room.clear();
    room
}

fn timespec(ns: u64) -> Timespec {
    let part = |part| i64::try_from(part).unwrap_or(i64::MAX);
    Timespec {
        tv_sec: part(ns / NS_PER_S),
        tv_nsec: part(ns % NS_PER_S),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_open_loop_gives_the_connections_their_turns() {
        let schedule = Schedule {
            start_ns: 1000,
            interval_ns: 100.0,
            connections: 3,
        };
        assert_eq!(schedule.due_by(1000), 1);
        assert_eq!(schedule.due_by(1099), 1);
        assert_eq!(schedule.due_by(1700), 8);
        let shares: Vec<u64> = (0..3).map(|place| schedule.share(8, place)).collect();
        assert_eq!(shares, [3, 3, 2]);
        assert_eq!((0..3).map(|place| schedule.share(0, place)).sum::<u64>(), 0);
        assert_eq!(schedule.due_ns(7), 1700);
    }
}
