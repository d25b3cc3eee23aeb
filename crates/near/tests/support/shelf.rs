//! Shelf: a source in this process that answers at once, or not at all.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use cellar_near::Error;
use cellar_near::origin::{Answer, Listener, Loaded, Pending, Source, Version};

/// What is on it, and what was done with it.
#[derive(Default)]
pub(crate) struct Things {
    values: Mutex<HashMap<String, String>>,
    /// The time that each value has left when it is asked for.
    pub(crate) ttl: Mutex<Option<Duration>>,
    /// No question is answered any more.
    pub(crate) is_silent: AtomicBool,
    /// Questions for one value.
    pub(crate) questions: AtomicU32,
}

impl Things {
    /// Puts a value there, of which nobody tells.
    pub(crate) fn put(&self, key: &str, value: &str) {
        let mut values = self.values.lock().unwrap();
        values.insert(key.to_owned(), value.to_owned());
    }

    /// The value of a key.
    pub(crate) fn get(&self, key: &str) -> Option<String> {
        self.values.lock().unwrap().get(key).cloned()
    }
}

/// The source's own end.
pub(crate) struct Shelf(pub(crate) Arc<Things>);

impl Shelf {
    async fn answer(&self, key: &str) -> Result<Loaded<String>, Error> {
        self.0.questions.fetch_add(1, Ordering::SeqCst);
        if self.0.is_silent.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
        let answer = self.0.get(key).map_or(Answer::Absent, Answer::Value);
        let mut loaded = Loaded::new(answer);
        loaded.ttl = *self.0.ttl.lock().unwrap();
        Ok(loaded)
    }
}

impl Source<String, String> for Shelf {
    fn start(&self, _listener: Arc<dyn Listener<String>>) {}

    fn load<'a>(
        &'a self,
        key: &'a String,
        _known: Option<Version>,
    ) -> Pending<'a, Result<Loaded<String>, Error>> {
        Box::pin(self.answer(key))
    }

    fn load_many<'a>(
        &'a self,
        keys: &'a [String],
    ) -> Pending<'a, Vec<Result<Loaded<String>, Error>>> {
        Box::pin(async move {
            let mut answers = Vec::new();
            for key in keys {
                answers.push(self.answer(key).await);
            }
            answers
        })
    }

    fn store<'a>(
        &'a self,
        key: &'a String,
        value: &'a String,
        _ttl: Option<Duration>,
    ) -> Pending<'a, Result<(), Error>> {
        self.0.put(key, value);
        Box::pin(async { Ok(()) })
    }

    fn remove<'a>(&'a self, key: &'a String) -> Pending<'a, Result<bool, Error>> {
        let removed = self.0.values.lock().unwrap().remove(key);
        Box::pin(async move { Ok(removed.is_some()) })
    }
}
