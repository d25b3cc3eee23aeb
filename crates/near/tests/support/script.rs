//! Script: a source whose every answer the test gives, and a cache over it with a clock to move.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use cellar_near::clock::ManualClock;
use cellar_near::origin::{Answer, Listener, Loaded, Pending, Source, Version};
use cellar_near::trust::Trust;
use cellar_near::{Error, Held, Near, NearBuilder};
use tokio::sync::{mpsc, oneshot};

/// Longest time that anything here waits; only a broken cache reaches it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

type Told = Result<Loaded<String>, Error>;

/// One question of the cache's, to be answered by the test.
pub(crate) struct Question {
    pub(crate) key: String,
    pub(crate) known: Option<Version>,
    answer: oneshot::Sender<Told>,
}

impl Question {
    /// Answers.
    pub(crate) fn answer(self, told: Told) {
        // Err means that the reader has gone.
        let _ = self.answer.send(told);
    }

    /// Whether the reader has gone.
    pub(crate) fn is_given_up(&self) -> bool {
        self.answer.is_closed()
    }
}

/// The source's own end.
struct Scripted {
    questions: mpsc::UnboundedSender<Question>,
    writes: Arc<Mutex<Vec<Write>>>,
    listener: Arc<OnceLock<Arc<dyn Listener<String>>>>,
}

/// A write through the cache, and what to answer.
pub(crate) struct Write {
    pub(crate) key: String,
    pub(crate) value: Option<String>,
    pub(crate) ttl: Option<Duration>,
    pub(crate) answer: oneshot::Sender<Result<(), Error>>,
}

/// The test's end of the source.
pub(crate) struct Script {
    questions: tokio::sync::Mutex<mpsc::UnboundedReceiver<Question>>,
    writes: Arc<Mutex<Vec<Write>>>,
    listener: Arc<OnceLock<Arc<dyn Listener<String>>>>,
    /// The trust of its one connection.
    pub(crate) trust: Arc<Trust>,
    /// The cache's clock.
    pub(crate) clock: Arc<ManualClock>,
}

/// A cache over a script; its trust is good for an hour.
pub(crate) fn cache(
    adjust: impl FnOnce(NearBuilder<String, String>) -> NearBuilder<String, String>,
) -> (Near<String, String>, Arc<Script>) {
    let (sender, questions) = mpsc::unbounded_channel();
    let (writes, listener) = (Arc::default(), Arc::default());
    let clock = Arc::new(ManualClock::default());
    clock.advance(Duration::from_secs(1));
    let trust = Trust::new();
    trust.extend(Duration::from_secs(3600));
    let source = Scripted {
        questions: sender,
        writes: Arc::clone(&writes),
        listener: Arc::clone(&listener),
    };
    let near = adjust(Near::builder(source).clock(clock.clone())).build();
    let script = Script {
        questions: tokio::sync::Mutex::new(questions),
        writes,
        listener,
        trust,
        clock,
    };
    (near, Arc::new(script))
}

impl Script {
    /// The next question.
    pub(crate) async fn question(&self) -> Question {
        let mut questions = self.questions.lock().await;
        let question = tokio::time::timeout(PATIENCE, questions.recv()).await;
        question
            .expect("a question comes")
            .expect("the cache lives")
    }

    /// Answers the next question with a value that is told when it changes.
    pub(crate) async fn answers(&self, value: &str) {
        let grant = self.trust.grant();
        let question = self.question().await;
        let mut loaded = value_of(value);
        loaded.grant = Some(grant);
        question.answer(Ok(loaded));
    }

    /// Whether nobody asks.
    pub(crate) async fn is_silent(&self) -> bool {
        self.questions.lock().await.is_empty()
    }

    /// The next write.
    pub(crate) async fn write(&self) -> Write {
        loop {
            if let Some(write) = self.writes.lock().unwrap().pop() {
                return write;
            }
            tokio::task::yield_now().await;
        }
    }

    /// Whether nobody writes.
    pub(crate) fn has_no_writes(&self) -> bool {
        self.writes.lock().unwrap().is_empty()
    }

    /// Tells that a key has changed.
    pub(crate) fn invalidate(&self, key: &str) {
        self.listener.get().unwrap().invalidate(&key.to_owned());
    }

    /// Tells that everything has changed.
    pub(crate) fn flush(&self) {
        self.trust.void();
        self.listener.get().unwrap().flush();
    }

    /// Loses the connection.
    pub(crate) fn disconnect(&self) {
        self.trust.end();
        self.listener.get().unwrap().flush();
    }
}

/// An answer with a value that only time bounds.
pub(crate) fn value_of(value: &str) -> Loaded<String> {
    Loaded::new(Answer::Value(value.to_owned()))
}

/// The text of an outcome.
pub(crate) fn text(outcome: Result<Option<Held<String>>, Error>) -> Option<String> {
    outcome.unwrap().map(|held| (*held).clone())
}

/// An error like those of a source.
pub(crate) fn broken() -> Error {
    Error::connection("broken on purpose")
}

impl Source<String, String> for Scripted {
    fn start(&self, listener: Arc<dyn Listener<String>>) {
        assert!(self.listener.set(listener).is_ok(), "it is started once");
    }

    fn load<'a>(&'a self, key: &'a String, known: Option<Version>) -> Pending<'a, Told> {
        let (answer, told) = oneshot::channel();
        let question = Question {
            key: key.clone(),
            known,
            answer,
        };
        self.questions.send(question).map_err(drop).unwrap();
        Box::pin(async move { told.await.unwrap_or_else(|_| Err(broken())) })
    }

    fn load_many<'a>(&'a self, keys: &'a [String]) -> Pending<'a, Vec<Told>> {
        Box::pin(async move {
            let told: Vec<_> = keys.iter().map(|key| self.load(key, None)).collect();
            let mut answers = Vec::new();
            for one in told {
                answers.push(one.await);
            }
            answers
        })
    }

    fn store<'a>(
        &'a self,
        key: &'a String,
        value: &'a String,
        ttl: Option<Duration>,
    ) -> Pending<'a, Result<(), Error>> {
        let (answer, told) = oneshot::channel();
        self.writes.lock().unwrap().push(Write {
            key: key.clone(),
            value: Some(value.clone()),
            ttl,
            answer,
        });
        Box::pin(async move { told.await.unwrap_or_else(|_| Err(broken())) })
    }

    fn remove<'a>(&'a self, key: &'a String) -> Pending<'a, Result<bool, Error>> {
        let (answer, told) = oneshot::channel();
        self.writes.lock().unwrap().push(Write {
            key: key.clone(),
            value: None,
            ttl: None,
            answer,
        });
        Box::pin(async move { told.await.unwrap_or_else(|_| Err(broken())).map(|()| true) })
    }
}
