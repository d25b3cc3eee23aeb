//! Floor: a server that does nothing but answer each client once, to compare with: what clients
//! that never read cost beside it is the system's own work.

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// Its thread waits for the next client until the process ends.
pub(crate) struct Floor {
    pub(crate) address: String,
    held: Arc<Mutex<Vec<TcpStream>>>,
}

impl Floor {
    /// Starts one that writes `pieces` pieces of so many bytes to each client, as far as there is
    /// room, and never reads.
    pub(crate) fn start(pieces: usize, bytes: usize) -> Floor {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let held = Arc::new(Mutex::new(Vec::new()));
        let streams = Arc::clone(&held);
        std::thread::spawn(move || {
            let piece = vec![b'v'; bytes];
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                stream.set_nodelay(true).unwrap();
                stream.set_nonblocking(true).unwrap();
                let _ = (0..pieces).try_for_each(|_| stream.write_all(&piece));
                streams.lock().unwrap().push(stream);
            }
        });
        Floor { address, held }
    }

    /// How many clients were answered.
    pub(crate) fn clients(&self) -> usize {
        self.held.lock().unwrap().len()
    }

    /// Closes all connections.
    pub(crate) fn close(&self) {
        self.held.lock().unwrap().clear();
    }
}
