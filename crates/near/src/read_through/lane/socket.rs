//! A socket whose watch moves: the runtime watches it, or a thread that waits for an answer.
//!
//! It is not registered with the runtime itself but with an epoll descriptor of its own, and that
//! with the runtime. So a leading thread takes the watch and returns it by one system call each,
//! and wakes no other thread. Data that has arrived meanwhile is reported when the watch is
//! returned: the interest is level-triggered.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use futures_util::task::AtomicWaker;
use rustix::event::{PollFd, PollFlags, epoll, poll};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};

/// A connected socket that does not block.
pub(crate) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Socket::Tcp(socket) => socket.as_fd(),
            Socket::Unix(socket) => socket.as_fd(),
        }
    }
}

impl Socket {
    fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(socket) => (&*socket).read(buffer),
            Socket::Unix(socket) => (&*socket).read(buffer),
        }
    }

    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(socket) => (&*socket).write(bytes),
            Socket::Unix(socket) => (&*socket).write(bytes),
        }
    }

    fn close_writing(&self) -> io::Result<()> {
        match self {
            Socket::Tcp(socket) => socket.shutdown(std::net::Shutdown::Write),
            Socket::Unix(socket) => socket.shutdown(std::net::Shutdown::Write),
        }
    }
}

/// A socket, its watchers, and the wakers of its reader and its writer.
pub(super) struct Shared {
    socket: Socket,
    /// Another name of the epoll descriptor that the runtime watches.
    interest: OwnedFd,
    watch: Mutex<Watch>,
    /// How often the socket was seen to be ready.
    // Acquire and Release: a thread that sees the count reads the data that had arrived by then.
    seen: AtomicU64,
    reader: AtomicWaker,
    writer: AtomicWaker,
}

/// Whether a thread leads and watches the socket for reading, and whether it is watched for
/// writing.
#[derive(Default)]
struct Watch {
    is_led: bool,
    wants_to_write: bool,
}

impl Watch {
    /// The events that the runtime watches; it watches for writing even if another thread leads.
    fn of_runtime(&self) -> epoll::EventFlags {
        let mut flags = epoll::EventFlags::empty();
        flags.set(
            epoll::EventFlags::IN | epoll::EventFlags::RDHUP,
            !self.is_led,
        );
        flags.set(epoll::EventFlags::OUT, self.wants_to_write);
        flags
    }
}

impl Shared {
    /// A socket, and the runtime's watch over it.
    pub(super) fn new(socket: Socket) -> io::Result<(Arc<Shared>, RuntimeWatch)> {
        let interest = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let watch = Watch::default();
        let data = epoll::EventData::new_u64(0);
        epoll::add(&interest, &socket, data, watch.of_runtime())?;
        #[expect(
            deprecated,
            reason = "unsound for types that answer with another descriptor, which an OwnedFd does \
                      not; what is new in its place cannot be called without unsafe code"
        )]
        let watched = AsyncFd::with_interest(interest.try_clone()?, Interest::READABLE)?;
        let shared = Arc::new(Shared {
            socket,
            interest,
            watch: Mutex::new(watch),
            seen: AtomicU64::new(1),
            reader: AtomicWaker::new(),
            writer: AtomicWaker::new(),
        });
        let watch = RuntimeWatch {
            shared: Arc::clone(&shared),
            watched,
        };
        Ok((shared, watch))
    }

    /// The right to watch it in place of the runtime, unless another thread has it.
    pub(super) fn lead(&self) -> Option<Lead<'_>> {
        let mut watch = self.watch();
        if watch.is_led {
            return None;
        }
        watch.is_led = true;
        if self.tell(&watch).is_err() {
            watch.is_led = false;
            return None;
        }
        Some(Lead(self))
    }

    /// Records that it is ready, and wakes the waiting tasks.
    fn mark(&self) {
        self.seen.fetch_add(1, Ordering::Release);
        self.reader.wake();
        if self.watch().wants_to_write {
            self.writer.wake();
        }
    }

    fn watch(&self) -> MutexGuard<'_, Watch> {
        self.watch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the events that the runtime watches from now on; pending ones are reported too.
    fn tell(&self, watch: &Watch) -> io::Result<()> {
        let data = epoll::EventData::new_u64(0);
        Ok(epoll::modify(
            &self.interest,
            &self.socket,
            data,
            watch.of_runtime(),
        )?)
    }

    fn want_to_write(&self, wants: bool) -> io::Result<()> {
        let mut watch = self.watch();
        watch.wants_to_write = wants;
        self.tell(&watch)
    }
}

/// The runtime's watch over a socket.
pub(super) struct RuntimeWatch {
    shared: Arc<Shared>,
    watched: AsyncFd<OwnedFd>,
}

impl RuntimeWatch {
    /// Marks the socket whenever it is ready; ends with the runtime.
    pub(super) async fn run(self) {
        while let Ok(mut ready) = self.watched.readable().await {
            // Before the mark: later data is reported again.
            ready.clear_ready();
            self.shared.mark();
        }
    }
}

/// Why [`Lead::wait`] has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Watched {
    /// The socket can be read.
    Socket,
    /// Something else has happened.
    Other,
}

/// The right to watch a socket; the runtime has it again when this is dropped.
pub(crate) struct Lead<'a>(&'a Shared);

impl Lead<'_> {
    /// Sleeps until the socket or `other` can be read.
    pub(crate) fn wait(&self, other: &OwnedFd) -> Watched {
        let mut watched = [
            PollFd::new(&self.0.socket, PollFlags::IN),
            PollFd::new(other, PollFlags::IN),
        ];
        // Err is an interruption by a signal: nothing has happened.
        let is_ready = poll(&mut watched, None).is_ok() && !watched[0].revents().is_empty();
        match is_ready {
            true => Watched::Socket,
            false => Watched::Other,
        }
    }

    /// Wakes the reader.
    pub(crate) fn mark(&self) {
        self.0.mark();
    }
}

impl Drop for Lead<'_> {
    fn drop(&mut self) {
        let mut watch = self.0.watch();
        watch.is_led = false;
        // Err cannot be: both descriptors are open.
        drop(self.0.tell(&watch));
    }
}

/// A shared socket as a stream.
pub(crate) struct SocketStream {
    shared: Arc<Shared>,
    /// The count of [`Shared::seen`] up to which everything is read.
    read_to: u64,
    wants_to_write: bool,
}

impl SocketStream {
    pub(super) fn new(shared: Arc<Shared>) -> SocketStream {
        SocketStream {
            shared,
            read_to: 0,
            wants_to_write: false,
        }
    }

    /// The count to read up to; pending if all of that is read.
    fn poll_seen(&self, context: &Context<'_>) -> Poll<u64> {
        let is_new = |seen: &u64| *seen != self.read_to;
        let seen = || Some(self.shared.seen.load(Ordering::Acquire)).filter(is_new);
        seen()
            .or_else(|| {
                self.shared.reader.register(context.waker());
                seen()
            })
            .map_or(Poll::Pending, Poll::Ready)
    }

    fn want_to_write(&mut self, wants: bool) -> io::Result<()> {
        // Registered again each time that the socket is not writable: if it already is again, that
        // is reported at once.
        if wants || self.wants_to_write {
            self.wants_to_write = wants;
            self.shared.want_to_write(wants)?;
        }
        Ok(())
    }
}

impl Drop for SocketStream {
    /// The wakers are dropped here, since a task that they wake may own the socket itself.
    fn drop(&mut self) {
        drop((self.shared.reader.take(), self.shared.writer.take()));
    }
}

impl AsyncRead for SocketStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            let seen = std::task::ready!(self.poll_seen(context));
            let room = buffer.initialize_unfilled();
            let room_bytes = room.len();
            match self.shared.socket.read(room) {
                Ok(bytes) => {
                    // A read shorter than the buffer has emptied the socket.
                    if bytes > 0 && bytes < room_bytes {
                        self.read_to = seen;
                    }
                    buffer.advance(bytes);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.read_to = seen,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl AsyncWrite for SocketStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        loop {
            match self.shared.socket.write(bytes) {
                Ok(bytes) => {
                    self.want_to_write(false)?;
                    return Poll::Ready(Ok(bytes));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.shared.writer.register(context.waker());
                    self.want_to_write(true)?;
                    return Poll::Pending;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.shared.socket.close_writing())
    }
}
