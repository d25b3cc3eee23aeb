//! Output: replies of one connection that wait to be written.
//!
//! Small replies are bytes in one buffer; large values are handles on the engine's memory, and
//! replies that were made for all clients are shared: both are sent from where they are. All leave
//! in the order they were appended.
//!
//! Invariant: an output that [is full](Output::is_full) gets no further request, so it holds at
//! most one request's replies above its limits.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::ops::{Deref, Range};
use std::sync::Arc;

use cellar_config::limits::{KEPT_BUFFER_BYTES_MAX, WAITING_BYTES_MAX};
use cellar_engine::Handle;
use rustix::io::Errno;

use crate::stream::Stream;

/// Values of at least this many bytes are sent from the engine's memory; below it a copy is
/// cheaper than a handle.
pub const PINNED_VALUE_BYTES_MIN: usize = 16 << 10;
/// Waiting values from which an output is full.
const WAITING_VALUES_MAX: usize = 4;
/// Waiting bytes in values from which an output is full.
const WAITING_VALUE_BYTES_MAX: usize = 4 << 20;
/// Bytes that one connection is sent in one iteration, so that a fast reader of long values does
/// not delay the others.
pub const WRITE_BYTES_MAX: usize = 2 << 20;
/// Pieces handed to the system in one call.
const PIECES_MAX: usize = 2 * WAITING_VALUES_MAX + 1;

/// What the buffers of a reply have of the heap.
#[derive(Clone, Copy, Debug)]
pub struct Allocated {
    buffer_bytes: usize,
    values: usize,
}

impl Allocated {
    /// In bytes; only what is rare needs them.
    #[must_use]
    pub fn bytes(self) -> usize {
        self.buffer_bytes + self.values * size_of::<Pinned>()
    }
}

/// A value being sent, after the first `at` reply bytes.
#[derive(Debug)]
struct Pinned {
    at: usize,
    /// How far it is sent; at first the start of its part.
    sent: usize,
    /// Where its part ends.
    end: usize,
    value: Body,
}

/// Bytes that are sent from where they are.
#[derive(Debug)]
enum Body {
    Value(Handle),
    /// A shared message, the same for all clients.
    Made(Arc<[u8]>),
}

impl Body {
    /// Bytes of the cache's memory that it holds back.
    fn pinned_bytes(&self) -> usize {
        match self {
            Body::Value(value) => value.len(),
            Body::Made(_) => 0,
        }
    }
}

impl Deref for Body {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Body::Value(value) => value,
            Body::Made(made) => made,
        }
    }
}

/// The pieces offered to the system in one call.
struct Pieces<'p> {
    slices: [IoSlice<'p>; PIECES_MAX],
    count: usize,
    /// How many bytes may still be offered.
    left: usize,
}

impl<'p> Pieces<'p> {
    fn add(&mut self, bytes: &'p [u8]) {
        let bytes = &bytes[..bytes.len().min(self.left)];
        if !bytes.is_empty() {
            self.slices[self.count] = IoSlice::new(bytes);
            self.count += 1;
            self.left -= bytes.len();
        }
    }
}

/// Replies in the order they will be written.
#[derive(Debug, Default)]
pub struct Output {
    bytes: Vec<u8>,
    /// How many of `bytes` are written.
    sent: usize,
    values: VecDeque<Pinned>,
    value_bytes: usize,
}

/// The result of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// Nothing is left.
    All(usize),
    /// The socket takes no more for the present.
    Some(usize),
    /// [`WRITE_BYTES_MAX`]; the socket may take more, after other connections were served.
    Enough(usize),
    /// The connection is broken.
    Gone,
}

impl Output {
    /// The buffer that small replies are appended to.
    #[inline]
    pub fn bytes(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// The buffer alone, of an output that is not written any more.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Appends a value that is sent from the engine's memory.
    ///
    /// A value below [`PINNED_VALUE_BYTES_MIN`] is copied instead.
    pub fn push_value(&mut self, value: Handle) {
        let all = 0..value.len();
        self.push_part(value, all);
    }

    /// The same of a part of a value.
    ///
    /// # Panics
    /// If the value has no such part.
    pub fn push_part(&mut self, value: Handle, part: Range<usize>) {
        self.push(Body::Value(value), part);
    }

    /// Appends a reply that was made for all clients, sent from where it is if it is that long.
    pub fn push_made(&mut self, made: &Arc<[u8]>) {
        self.push(Body::Made(Arc::clone(made)), 0..made.len());
    }

    fn push(&mut self, value: Body, part: Range<usize>) {
        let bytes = &value[part.clone()];
        if bytes.len() < PINNED_VALUE_BYTES_MIN {
            self.bytes.extend_from_slice(bytes);
            return;
        }
        self.value_bytes += value.pinned_bytes();
        self.values.push_back(Pinned {
            at: self.bytes.len(),
            sent: part.start,
            end: part.end,
            value,
        });
    }

    /// Removes everything appended since [`Output::bytes`] had so many bytes, values included.
    pub fn truncate(&mut self, bytes: usize) {
        self.bytes.truncate(bytes);
        while let Some(value) = self.values.pop_back_if(|value| value.at > bytes) {
            self.value_bytes -= value.value.pinned_bytes();
        }
    }

    /// Appends a value from the engine's memory, if any, with its line end.
    #[inline]
    pub fn push_line(&mut self, value: Option<Handle>) {
        if let Some(value) = value {
            self.push_value(value);
            self.bytes.extend_from_slice(b"\r\n");
        }
    }

    /// Whether nothing waits.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sent == self.bytes.len() && self.values.is_empty()
    }

    /// Whether no byte of what waits was written: what was written before are whole pieces.
    #[must_use]
    pub fn is_unsent(&self) -> bool {
        self.sent == 0 && self.values.front().is_none_or(|value| value.at > 0)
    }

    /// Unwritten reply bytes, without pinned values.
    #[must_use]
    pub fn waiting_bytes(&self) -> usize {
        self.bytes.len() - self.sent
    }

    /// Whether so much is unwritten that the connection's next request has to wait.
    #[inline]
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.bytes.len() - self.sent >= WAITING_BYTES_MAX
            || self.values.len() >= WAITING_VALUES_MAX
            || self.value_bytes >= WAITING_VALUE_BYTES_MAX
    }

    /// Bytes of the engine's memory that unsent values pin.
    #[inline]
    #[must_use]
    pub fn pinned_bytes(&self) -> usize {
        self.value_bytes
    }

    /// Bytes of memory that its buffers take: of a large one only the used part, because the system
    /// gives no memory to the rest.
    #[must_use]
    pub fn buffer_bytes(&self) -> usize {
        let buffer = self.bytes.capacity().min(KEPT_BUFFER_BYTES_MAX);
        buffer.max(self.bytes.len()) + self.values.capacity() * size_of::<Pinned>()
    }

    /// What its buffers have of the heap.
    #[inline]
    #[must_use]
    pub fn allocated(&self) -> Allocated {
        Allocated {
            buffer_bytes: self.bytes.capacity(),
            values: self.values.capacity(),
        }
    }

    /// Gives an output without a buffer one from `spares`.
    #[inline]
    pub fn borrow_buffer(&mut self, spares: &mut Vec<Vec<u8>>) {
        if self.bytes.capacity() == 0 {
            self.bytes = spares.pop().unwrap_or_default();
        }
    }

    /// Gives the buffer of an empty output to `spares`, which hold at most `spares_max`.
    #[inline]
    pub fn return_buffer(&mut self, spares: &mut Vec<Vec<u8>>, spares_max: usize) {
        debug_assert!(self.is_empty(), "waiting replies must not be lost");
        let mut buffer = std::mem::take(&mut self.bytes);
        self.sent = 0;
        self.values = VecDeque::new();
        let fits = (1..=KEPT_BUFFER_BYTES_MAX).contains(&buffer.capacity());
        if fits && spares.len() < spares_max {
            buffer.clear();
            spares.push(buffer);
        }
    }

    /// Takes all unwritten bytes as one copy.
    #[must_use]
    pub fn take(&mut self) -> Vec<u8> {
        let mut all = Vec::with_capacity(self.bytes.len() - self.sent + self.value_bytes);
        let mut from = self.sent;
        for pinned in &self.values {
            all.extend_from_slice(&self.bytes[from..pinned.at]);
            all.extend_from_slice(&pinned.value[pinned.sent..pinned.end]);
            from = pinned.at;
        }
        all.extend_from_slice(&self.bytes[from..]);
        *self = Output::default();
        all
    }

    /// Writes until the stream takes no more, or it was enough for one iteration.
    #[inline]
    pub fn write_to(&mut self, stream: &mut Stream) -> Written {
        let mut total = 0;
        while !self.is_empty() {
            if total >= WRITE_BYTES_MAX {
                return Written::Enough(total);
            }
            let most = WRITE_BYTES_MAX - total;
            let written = if self.values.is_empty() {
                let waiting = &self.bytes[self.sent..];
                let piece = &waiting[..waiting.len().min(most)];
                stream.write(piece)
            } else {
                self.write_pieces(stream, most)
            };
            match written {
                Ok(n) => {
                    self.advance(n);
                    total += n;
                }
                Err(Errno::AGAIN) => return Written::Some(total),
                Err(Errno::INTR) => {}
                Err(_) => return Written::Gone,
            }
        }
        self.bytes.clear();
        self.sent = 0;
        Written::All(total)
    }

    /// One call that offers replies and values in their order, at most `bytes_max`.
    fn write_pieces(&self, stream: &mut Stream, bytes_max: usize) -> Result<usize, Errno> {
        let mut pieces = Pieces {
            slices: [IoSlice::new(&[]); PIECES_MAX],
            count: 0,
            left: bytes_max,
        };
        let mut from = self.sent;
        for pinned in self.values.iter().take(WAITING_VALUES_MAX) {
            pieces.add(&self.bytes[from..pinned.at]);
            from = pinned.at;
            pieces.add(&pinned.value[pinned.sent..pinned.end]);
        }
        let until = self
            .values
            .get(WAITING_VALUES_MAX)
            .map_or(self.bytes.len(), |next| next.at);
        pieces.add(&self.bytes[from..until]);
        stream.write_pieces(&pieces.slices[..pieces.count])
    }

    /// Records that `n` further bytes are written; releases values that are written completely.
    fn advance(&mut self, mut n: usize) {
        while let Some(first) = self.values.front_mut() {
            let replies = n.min(first.at - self.sent);
            self.sent += replies;
            n -= replies;
            let of_value = n.min(first.end - first.sent);
            first.sent += of_value;
            n -= of_value;
            if first.sent < first.end || self.sent < first.at {
                return;
            }
            self.value_bytes -= first.value.pinned_bytes();
            self.values.pop_front();
        }
        self.sent += n;
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    use cellar_engine::{Cache, Config, SetOptions};

    use super::*;
    use crate::stream::Transport;

    fn pair() -> (Stream, UnixStream) {
        let (writer, reader) = UnixStream::pair().unwrap();
        (Stream::plain(writer.into(), Transport::Unix), reader)
    }

    fn handle(byte: u8, bytes: usize) -> Handle {
        let cache = Cache::new(Config::with_memory(64 << 20)).unwrap();
        let key = cache.key(b"k").unwrap();
        cache
            .set(key, &vec![byte; bytes], &SetOptions::default())
            .unwrap();
        cache.get_handle(key).unwrap()
    }

    #[test]
    fn replies_and_values_leave_in_order_however_small_the_socket_is() {
        let mut output = Output::default();
        let mut expected = Vec::new();
        for (n, bytes) in [20_000, 3, 700_000, 16 << 10, 50_000, 90_000, 17_000]
            .iter()
            .enumerate()
        {
            let head = format!("VALUE {n} {bytes}\r\n");
            output.bytes().extend_from_slice(head.as_bytes());
            output.push_value(handle(n as u8, *bytes));
            expected.extend_from_slice(head.as_bytes());
            expected.extend(std::iter::repeat_n(n as u8, *bytes));
        }
        output.bytes().extend_from_slice(b"END\r\n");
        expected.extend_from_slice(b"END\r\n");
        assert!(output.is_full());

        let (writer, mut reader) = UnixStream::pair().unwrap();
        writer.set_nonblocking(true).unwrap();
        let mut writer = Stream::plain(writer.into(), Transport::Unix);
        let mut received = Vec::new();
        let mut buffer = vec![0; 9_999];
        while received.len() < expected.len() {
            assert_ne!(output.write_to(&mut writer), Written::Gone);
            let n = reader.read(&mut buffer).unwrap();
            received.extend_from_slice(&buffer[..n]);
        }
        assert_eq!(received, expected);
        assert!(output.is_empty());
        assert_eq!(output.pinned_bytes(), 0);
        assert_eq!(output.write_to(&mut writer), Written::All(0));
    }

    #[test]
    fn a_part_of_a_value_leaves_without_the_rest() {
        let mut output = Output::default();
        output.push_part(handle(b'v', 50_000), 10_000..40_000);
        output.bytes().extend_from_slice(b"!");
        output.push_part(handle(b'w', 50_000), 7..9);
        let (mut writer, mut reader) = pair();
        assert_eq!(output.write_to(&mut writer), Written::All(30_003));
        let mut received = vec![0; 30_003];
        reader.read_exact(&mut received).unwrap();
        assert!(received[..30_000].iter().all(|&byte| byte == b'v'));
        assert_eq!(received[30_000..], *b"!ww");
        assert_eq!(output.pinned_bytes(), 0);
    }

    #[test]
    fn what_all_are_told_is_sent_from_where_it_is_if_it_is_long() {
        let long: Arc<[u8]> = vec![b'm'; PINNED_VALUE_BYTES_MIN].into();
        let short: Arc<[u8]> = vec![b's'; PINNED_VALUE_BYTES_MIN - 1].into();
        let mut output = Output::default();
        output.push_made(&short);
        output.push_made(&long);
        output.bytes().extend_from_slice(b"!");
        assert_eq!(output.pinned_bytes(), 0);
        assert_eq!(
            (Arc::strong_count(&short), Arc::strong_count(&long)),
            (1, 2)
        );
        assert_eq!(output.take(), [&short[..], &long, b"!"].concat());
        assert_eq!(Arc::strong_count(&long), 1);
    }

    #[test]
    fn a_turn_sends_so_much_and_the_rest_later() {
        let mut output = Output::default();
        (0..3).for_each(|_| output.push_value(handle(b'v', 1 << 20)));
        output.bytes().extend_from_slice(&[b'b'; 3 << 20]);
        let (mut writer, mut reader) = pair();
        let taker = std::thread::spawn(move || {
            let mut received = Vec::new();
            reader.read_to_end(&mut received).map(|_| received)
        });
        assert_eq!(
            output.write_to(&mut writer),
            Written::Enough(WRITE_BYTES_MAX)
        );
        assert_eq!(
            output.write_to(&mut writer),
            Written::Enough(WRITE_BYTES_MAX)
        );
        assert_eq!(output.write_to(&mut writer), Written::All(WRITE_BYTES_MAX));
        drop(writer);
        let received = taker.join().unwrap().unwrap();
        assert_eq!(received.len(), 6 << 20);
        assert!(received.ends_with(b"bb") && received.starts_with(b"vv"));
    }

    #[test]
    fn an_empty_output_keeps_no_buffer() {
        let mut output = Output::default();
        let mut spares = Vec::new();
        let (mut writer, _reader) = pair();
        output.borrow_buffer(&mut spares);
        output.bytes().extend_from_slice(b"STORED\r\n");
        assert_eq!(output.write_to(&mut writer), Written::All(8));
        output.return_buffer(&mut spares, 1);
        assert_eq!(output.bytes().capacity(), 0);
        assert_eq!(spares.len(), 1);
        output.borrow_buffer(&mut spares);
        assert!(output.bytes().capacity() > 0 && spares.is_empty());
    }

    #[test]
    fn a_broken_connection_is_told() {
        let (mut writer, reader) = pair();
        drop(reader);
        let mut output = Output::default();
        output.bytes().extend_from_slice(b"x");
        assert_eq!(output.write_to(&mut writer), Written::Gone);
    }
}
