//! The blocking face: judged by all scenarios like the async one, and over real servers, where what
//! is told as changed goes while nobody calls.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use cellar_near::codec::Plain;
use cellar_near::origin::{Memcached, Redis, Remote};
use cellar_near::{BlockingNear, Error, Near};

use crate::servers::{Kind, Server};
use crate::subject::{Cellar, Maker, PATIENCE, Pending, Subject};
use crate::wait::wait_until;
use crate::{live, scripted};

type Blocking = BlockingNear<String, String>;
type Job = Box<dyn FnOnce(&Blocking) + Send>;

/// Threads for each cache: more than the suite's tasks that ask one at once.
const THREADS: usize = 8;

/// Makes blocking caches, called by threads that no runtime knows.
struct ByThreads(Cellar);

/// One of them: the threads end with it.
pub(crate) struct Threads(Sender<Job>);

impl Threads {
    /// Threads that call the blocking face of `near`.
    pub(crate) fn new(near: Near<String, String>) -> Threads {
        let near = BlockingNear::new(near).unwrap();
        let (jobs, waiting) = channel();
        let waiting = Arc::new(Mutex::new(waiting));
        for _ in 0..THREADS {
            let (near, waiting) = (near.clone(), Arc::clone(&waiting));
            thread::spawn(move || {
                while let Ok(job) = next(&waiting) {
                    job(&near);
                }
            });
        }
        Threads(jobs)
    }

    /// Has one of the threads do it.
    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Blocking) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, String> {
        let (sender, done) = tokio::sync::oneshot::channel();
        let job = move |near: &Blocking| drop(sender.send(work(near)));
        self.0.send(Box::new(job)).unwrap();
        let done = done.await.map_err(|error| error.to_string())?;
        done.map_err(|error| error.to_string())
    }
}

fn next(waiting: &Mutex<Receiver<Job>>) -> Result<Job, std::sync::mpsc::RecvError> {
    waiting.lock().unwrap().recv()
}

impl Subject for Threads {
    fn read<'a>(&'a self, key: &'a str) -> Pending<'a, Result<Option<String>, String>> {
        let key = key.to_owned();
        let read = move |near: &Blocking| Ok(near.get(&key)?.map(|held| held.to_string()));
        Box::pin(self.run(read))
    }

    fn read_many<'a>(
        &'a self,
        keys: &'a [&'a str],
    ) -> Pending<'a, Result<Vec<Option<String>>, String>> {
        let keys: Vec<String> = keys.iter().map(|&key| key.to_owned()).collect();
        let read = move |near: &Blocking| {
            let held = near.get_many(&keys)?.into_iter();
            Ok(held.map(|held| held.map(|held| held.to_string())).collect())
        };
        Box::pin(self.run(read))
    }

    fn write<'a>(&'a self, key: &'a str, value: &'a str) -> Pending<'a, Result<(), String>> {
        let (key, value) = (key.to_owned(), value.to_owned());
        Box::pin(self.run(move |near| near.set(&key, &value)))
    }
}

impl Maker for ByThreads {
    fn make(&self, address: &str, bound: Duration) -> Arc<dyn Subject> {
        Arc::new(Threads::new(self.0.near(address, bound)))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_order_of_replies_and_pushes_leaves_threads_a_stale_copy() {
    for maker in [Cellar::default(), Cellar::broadcast()] {
        for scenario in &scripted::SCENARIOS {
            let verdict = scripted::run(scenario, &ByThreads(maker.clone())).await;
            assert_eq!(verdict, Ok(()), "{maker:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_that_happens_to_redis_leaves_threads_a_stale_copy() {
    live::check(&ByThreads(Cellar::default()), Kind::Redis).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_that_happens_to_cellar_leaves_threads_a_stale_copy() {
    live::check(&ByThreads(Cellar::default()), Kind::Cellar).await;
}

/// Runs what blocks on a thread of its own, which no runtime knows.
async fn apart<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, done) = tokio::sync::oneshot::channel();
    thread::spawn(move || drop(sender.send(work())));
    done.await.expect("it does not panic")
}

fn over_resp(server: &Server) -> BlockingNear<String, String> {
    let redis = Redis::open(format!("redis://{}", server.address())).unwrap();
    let redis = redis.alive_bound(PATIENCE).timeout(PATIENCE);
    let near = Near::builder(Remote::new(redis, Plain));
    near.build_blocking().unwrap()
}

#[tokio::test]
async fn a_change_is_heard_while_no_thread_calls() {
    for kind in [Kind::Redis, Kind::Cellar] {
        let server = Server::start(kind).await;
        let near = over_resp(&server);
        let reader = near.clone();
        apart(move || {
            reader.set("k", &"one".to_owned()).unwrap();
            let made = reader.get_or_load("l", || Ok::<_, Error>(Some("made".to_owned())));
            assert_eq!(*made.unwrap().unwrap(), "made");
            // The news of an own write may overtake what is read right after it.
            while reader.peek("k").is_none() {
                assert_eq!(*reader.get("k").unwrap().unwrap(), "one");
            }
        })
        .await;
        assert!(near.peek("k").is_some(), "{kind:?}");
        server.client().await.run(&["SET", "k", "two"]).await;
        wait_until("the copy is gone", || near.peek("k").is_none()).await;
        let read = apart(move || near.get("k").unwrap().unwrap().clone()).await;
        assert_eq!(*read, "two");
    }
}

#[tokio::test]
async fn over_memcacheds_protocol_a_value_is_written_and_read() {
    let server = Server::start(Kind::Memcached).await;
    let origin = Remote::new(Memcached::open(server.address()), Plain);
    let near: BlockingNear<String, String> = Near::builder(origin)
        .local_ttl(PATIENCE)
        .build_blocking()
        .unwrap();
    apart(move || {
        near.set("k", &"v".to_owned()).unwrap();
        assert_eq!(*near.get("k").unwrap().unwrap(), "v");
        assert!(near.remove("k").unwrap());
        assert!(near.get("k").unwrap().is_none());
    })
    .await;
}

#[tokio::test]
async fn a_silent_server_ends_in_an_error_after_the_origins_timeout() {
    let server = Server::start(Kind::Redis).await;
    let redis = Redis::open(format!("redis://{}", server.address())).unwrap();
    let redis = redis.timeout(Duration::from_millis(200));
    let near: BlockingNear<String, String> = Near::builder(Remote::new(redis, Plain))
        .build_blocking()
        .unwrap();
    let reader = near.clone();
    apart(move || while reader.get("k").is_err() {}).await;
    server.freeze();
    let error = apart(move || near.get("other").map(drop).unwrap_err()).await;
    server.thaw();
    assert!(error.is_away(), "{error}");
}
