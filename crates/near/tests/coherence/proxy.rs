//! Proxy: a connection through it can be frozen, cut, slowed down, or led to another server.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// What becomes of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Forward,
    Frozen,
    Cut,
}

struct State {
    target: Mutex<String>,
    fates: Mutex<Vec<watch::Sender<Fate>>>,
    /// How long each packet takes.
    delay_ms: AtomicU64,
    /// Bytes that have passed, in both directions.
    passed: AtomicU64,
}

/// Where a proxy leads.
#[derive(Clone)]
pub(crate) struct ProxyTarget(Arc<State>);

impl ProxyTarget {
    pub(crate) fn now(&self) -> String {
        self.0.target.lock().unwrap().clone()
    }
}

/// A proxy on a free port.
pub(crate) struct Proxy {
    address: String,
    state: Arc<State>,
}

impl Proxy {
    /// A proxy in front of `target`.
    pub(crate) async fn start(target: &str) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let state = Arc::new(State {
            target: Mutex::new(target.to_owned()),
            fates: Mutex::default(),
            delay_ms: AtomicU64::new(0),
            passed: AtomicU64::new(0),
        });
        let accepting = Arc::clone(&state);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let target = accepting.target.lock().unwrap().clone();
                let (sender, fate) = watch::channel(Fate::Forward);
                accepting.fates.lock().unwrap().push(sender);
                let state = Arc::clone(&accepting);
                tokio::spawn(connect(client, target, fate, state));
            }
        });
        Proxy { address, state }
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Where it leads, now and later.
    pub(crate) fn target(&self) -> ProxyTarget {
        ProxyTarget(Arc::clone(&self.state))
    }

    /// Leads new connections to another server.
    pub(crate) fn lead_to(&self, target: &str) {
        target.clone_into(&mut self.state.target.lock().unwrap());
    }

    /// Forwards nothing any more on the connections that there are; they stay open.
    pub(crate) fn freeze(&self) {
        self.seal(Fate::Frozen);
    }

    /// Closes the connections that there are.
    pub(crate) fn cut(&self) {
        self.seal(Fate::Cut);
    }

    /// Lets each packet take so many milliseconds from here on.
    pub(crate) fn slow_down(&self, delay_ms: u64) {
        self.state.delay_ms.store(delay_ms, Ordering::Relaxed);
    }

    /// Bytes that have passed, in both directions.
    pub(crate) fn passed(&self) -> u64 {
        self.state.passed.load(Ordering::SeqCst)
    }

    fn seal(&self, fate: Fate) {
        let mut fates = self.state.fates.lock().unwrap();
        fates.retain(|sender| !sender.is_closed());
        for sender in fates.iter() {
            sender.send_replace(fate);
        }
    }
}

async fn connect(
    client: TcpStream,
    target: String,
    fate: watch::Receiver<Fate>,
    state: Arc<State>,
) {
    let Ok(server) = TcpStream::connect(target).await else {
        return;
    };
    let (client_reader, client_writer) = client.into_split();
    let (server_reader, server_writer) = server.into_split();
    let up = pass(client_reader, server_writer, fate.clone(), &state);
    let down = pass(server_reader, client_writer, fate, &state);
    tokio::select! {
        () = up => {}
        () = down => {}
    }
}

/// Forwards one direction until its end or its fate.
async fn pass(
    mut from: impl AsyncReadExt + Unpin,
    mut to: impl AsyncWriteExt + Unpin,
    mut fate: watch::Receiver<Fate>,
    state: &State,
) {
    let mut buffer = vec![0; 64 << 10];
    loop {
        let now = *fate.borrow_and_update();
        match now {
            Fate::Cut => return,
            Fate::Frozen => {
                if fate.changed().await.is_err() {
                    std::future::pending::<()>().await;
                }
                continue;
            }
            Fate::Forward => {}
        }
        let bytes = tokio::select! {
            _ = fate.changed() => continue,
            read = from.read(&mut buffer) => match read {
                Ok(bytes) if bytes > 0 => bytes,
                _ => return,
            },
        };
        let delay_ms = state.delay_ms.load(Ordering::Relaxed);
        if delay_ms > 0 {
            // paced: the delay of a slow network.
            tokio::time::sleep(Duration::from_millis(delay_ms)).await;
        }
        state.passed.fetch_add(bytes as u64, Ordering::SeqCst);
        // Read, but too late: what is frozen forwards nothing.
        if *fate.borrow() == Fate::Forward && to.write_all(&buffer[..bytes]).await.is_err() {
            return;
        }
    }
}
