//! The echo floor: what a request costs before a server does any work for it.
//!
//! The loop of a real server, epoll edge-triggered on each of its threads: read a connection until
//! a short read, then write once. But instead of executing requests it counts line ends and answers
//! as many as a get has, over HTTP ends of heads, with the same canned hit, as long as the real
//! one. Its processor time per request is the denominator of every comparison.
//!
//! A connection that does not take its replies is not read until it does, so memory stays bounded.

use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};

use clap::Args;
use clap::builder::RangedU64ValueParser as Range;
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, SocketFlags, accept_with, recv, send, sockopt};

use crate::address::listen;
use crate::error::Error;
use crate::wire::Wire;

/// Events taken from the kernel at a time.
const EVENTS_MAX: usize = 256;
/// Bytes read at a time, and the least length of the block of canned replies.
const READ_BYTES: usize = 64 << 10;
/// Longest canned value.
const VALUE_BYTES_MAX: u64 = 1 << 20;
/// Most threads.
const THREADS_MAX: u64 = 64;
/// The listening socket's mark; connections are marked by their descriptors.
const LISTENER: u64 = u64::MAX;
/// Where the head of a request over HTTP ends.
const HEAD_END: &[u8] = b"\r\n\r\n";

/// `cellar-bench echo`: a server that does no work.
#[derive(Args, Clone, Debug)]
pub struct EchoArgs {
    /// Where to listen: HOST:PORT
    #[arg(long, default_value = "127.0.0.1:11299")]
    pub listen: SocketAddr,
    /// Protocol of the canned reply
    #[arg(long, value_name = "PROTOCOL", default_value = "memcached")]
    pub protocol: Wire,
    /// Length of the key in the canned reply
    #[arg(long, default_value_t = 16)]
    pub key_bytes: usize,
    /// Length of the value in the canned reply
    #[arg(long, default_value_t = 100)]
    #[arg(value_parser = Range::<usize>::new().range(..=VALUE_BYTES_MAX))]
    pub value_bytes: usize,
    /// Threads, each with connections of its own, which the kernel deals out by a hash
    #[arg(long, default_value_t = 1, value_parser = Range::<usize>::new().range(1..=THREADS_MAX))]
    pub threads: usize,
}

/// One client.
struct EchoClient {
    socket: OwnedFd,
    /// Lines of a request that is not whole, or bytes of the end of its head.
    begun: usize,
    /// Reply bytes that the socket did not take yet.
    owed_bytes: usize,
}

/// How many line ends a get has; over HTTP the end of its head counts, whatever it says, so that
/// requests with bodies are answered too, as long as none holds an empty line.
fn lines_per_get(wire: Wire) -> Option<usize> {
    match wire {
        Wire::Memcached => Some(1),
        // The number of words, and a line and its length for each of two.
        Wire::Resp => Some(5),
        Wire::Http => None,
    }
}

/// Replies one behind the other, so that a batch of them is one write.
struct Canned {
    block: Vec<u8>,
    reply_bytes: usize,
    lines_per_get: Option<usize>,
}

impl Canned {
    fn new(args: &EchoArgs) -> Canned {
        let mut reply = Vec::new();
        let (key, value) = (vec![b'k'; args.key_bytes], vec![b'v'; args.value_bytes]);
        args.protocol.push_hit(&mut reply, &key, &value);
        let replies = (READ_BYTES * 4 / reply.len()).max(2);
        Canned {
            block: reply.repeat(replies),
            reply_bytes: reply.len(),
            lines_per_get: lines_per_get(args.protocol),
        }
    }

    /// How many requests end in these bytes; `begun` tells what there is of the next one.
    fn count(&self, begun: &mut usize, bytes: &[u8]) -> usize {
        let Some(per_get) = self.lines_per_get else {
            return head_ends(begun, bytes);
        };
        let lines = *begun + memchr::memchr_iter(b'\n', bytes).count();
        *begun = lines % per_get;
        lines / per_get
    }

    /// The next bytes to send when so many are owed, in one piece as far as the block reaches.
    fn owed(&self, owed_bytes: usize) -> &[u8] {
        // The last owed reply ends where a reply of the block ends.
        let into_reply = (self.reply_bytes - owed_bytes % self.reply_bytes) % self.reply_bytes;
        let bytes = owed_bytes.min(self.block.len() - into_reply);
        &self.block[into_reply..into_reply + bytes]
    }
}

/// How many heads end in these bytes, when `begun` bytes of an end came before.
fn head_ends(begun: &mut usize, bytes: &[u8]) -> usize {
    let rest = &HEAD_END[*begun..];
    if bytes.len() < rest.len() && rest.starts_with(bytes) {
        *begun += bytes.len();
        return 0;
    }
    let across = usize::from(*begun > 0 && bytes.starts_with(rest));
    let whole = memchr::memmem::find_iter(bytes, HEAD_END).count();
    let is_begun = |length: &usize| bytes.ends_with(&HEAD_END[..*length]);
    let is_whole = bytes.ends_with(HEAD_END);
    *begun = (1..HEAD_END.len())
        .rev()
        .find(is_begun)
        .filter(|_| !is_whole)
        .unwrap_or(0);
    across + whole
}

/// Serves until the process is ended.
///
/// # Errors
/// If the address cannot be listened on, or epoll fails.
pub fn serve(args: &EchoArgs) -> Result<(), Error> {
    let listeners = listen(&args.listen, args.threads)
        .map_err(|error| Error::system(format!("listening on {}", args.listen), error))?;
    let canned = Canned::new(args);
    std::thread::scope(|scope| {
        let canned = &canned;
        let serve = |listener| scope.spawn(move || run(listener, canned));
        let threads: Vec<_> = listeners.iter().map(serve).collect();
        let ended = threads.into_iter().map(|thread| match thread.join() {
            Ok(result) => result.map_err(|error| Error::system("serving", error)),
            Err(_) => Err(Error::Wrong(
                "a thread of the floor has panicked".to_owned(),
            )),
        });
        ended.collect()
    })
}

fn run(listener: &OwnedFd, canned: &Canned) -> Result<(), Errno> {
    let epoll = epoll::create(CreateFlags::CLOEXEC)?;
    epoll::add(
        &epoll,
        listener,
        EventData::new_u64(LISTENER),
        EventFlags::IN,
    )?;
    // Indexed by descriptor: the kernel gives out the lowest free ones.
    let mut connections: Vec<Option<EchoClient>> = Vec::new();
    let mut events: Vec<Event> = Vec::with_capacity(EVENTS_MAX);
    let mut buffer = vec![0; READ_BYTES];
    loop {
        events.clear();
        match epoll::wait(&epoll, spare_capacity(&mut events), None) {
            Err(Errno::INTR) => continue,
            result => result?,
        };
        for event in &events {
            let mark = event.data.u64();
            if mark == LISTENER {
                accept(&epoll, listener, &mut connections)?;
                continue;
            }
            let Some(slot) = connections.get_mut(mark as usize) else {
                continue;
            };
            let open = slot.as_mut();
            if open.is_some_and(|open| !answer(open, canned, &mut buffer)) {
                *slot = None;
            }
        }
    }
}

fn accept(
    epoll: &OwnedFd,
    listener: &OwnedFd,
    connections: &mut Vec<Option<EchoClient>>,
) -> Result<(), Errno> {
    loop {
        let socket = match accept_with(listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
            Ok(socket) => socket,
            Err(Errno::AGAIN) => return Ok(()),
            Err(Errno::CONNABORTED | Errno::INTR) => continue,
            Err(error) => return Err(error),
        };
        // A client that is gone already needs none.
        let _ = sockopt::set_tcp_nodelay(&socket, true);
        let descriptor = socket.as_raw_fd().unsigned_abs();
        let interest = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        epoll::add(
            epoll,
            &socket,
            EventData::new_u64(u64::from(descriptor)),
            interest,
        )?;
        let at = descriptor as usize;
        if connections.len() <= at {
            connections.resize_with(at + 1, || None);
        }
        connections[at] = Some(EchoClient {
            socket,
            begun: 0,
            owed_bytes: 0,
        });
    }
}

/// Answers what a connection has asked; whether it is still open.
fn answer(connection: &mut EchoClient, canned: &Canned, buffer: &mut [u8]) -> bool {
    let mut drained = false;
    loop {
        match send_owed(connection, canned) {
            Ok(()) if drained => return true,
            Ok(()) => {}
            Err(Errno::AGAIN) => return true,
            Err(_) => return false,
        }
        match recv(&connection.socket, &mut *buffer, RecvFlags::empty()) {
            Ok((0, _)) => return false,
            Ok((read, _)) => {
                let requests = canned.count(&mut connection.begun, &buffer[..read]);
                connection.owed_bytes = requests * canned.reply_bytes;
                // After a short read the socket is empty; its next bytes are another event.
                drained = read < buffer.len();
            }
            Err(Errno::AGAIN) => return true,
            Err(Errno::INTR) => {}
            Err(_) => return false,
        }
    }
}

/// Sends all owed replies.
fn send_owed(connection: &mut EchoClient, canned: &Canned) -> Result<(), Errno> {
    while connection.owed_bytes > 0 {
        match send(
            &connection.socket,
            canned.owed(connection.owed_bytes),
            SendFlags::NOSIGNAL,
        ) {
            Ok(sent) => connection.owed_bytes -= sent,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_owed_continues_in_the_middle_of_a_reply() {
        let args = EchoArgs {
            listen: ([127, 0, 0, 1], 1).into(),
            protocol: Wire::Memcached,
            key_bytes: 16,
            value_bytes: 100,
            threads: 1,
        };
        let canned = Canned::new(&args);
        let reply = canned.block[..canned.reply_bytes].to_vec();
        assert_eq!(reply.len(), "VALUE  0 100\r\n\r\nEND\r\n".len() + 16 + 100);
        let whole = reply.repeat(3000);
        // Sent in odd pieces, the bytes are those of 3000 whole replies.
        let (mut sent, mut owed_bytes) = (Vec::new(), whole.len());
        for piece in (1..).map(|n| n * 37 % 5000 + 1) {
            let bytes = canned.owed(owed_bytes);
            let bytes = &bytes[..bytes.len().min(piece)];
            sent.extend_from_slice(bytes);
            owed_bytes -= bytes.len();
            if owed_bytes == 0 {
                break;
            }
        }
        assert!(sent == whole);
    }

    #[test]
    fn heads_are_counted_wherever_their_bytes_are_cut() {
        let requests = b"GET / HTTP/1.1\r\nA: b\r\n\r\nPUT / HTTP/1.1\r\n\r\nbodyGET /\r\n\r\n";
        for first in 0..requests.len() {
            for second in first..requests.len() {
                let mut begun = 0;
                let parts = [
                    &requests[..first],
                    &requests[first..second],
                    &requests[second..],
                ];
                let found: usize = parts.iter().map(|it| head_ends(&mut begun, it)).sum();
                assert_eq!(found, 3, "{first} {second}");
            }
        }
    }
}
