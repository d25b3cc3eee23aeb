//! Random orders of reads, answers, changes, flushes, writes and cancellations, against a model.
//!
//! The model is a number for each key: its version at the server. A question sees the version of
//! the moment at which the server handles it; its answer is delivered at any later moment. After
//! every step, memory has the current version of a key or nothing at all.

use std::collections::HashMap;
use std::sync::Arc;

use cellar_near::fault::Fault;
use cellar_near::trust::Grant;
use cellar_near::{Error, Near};
use proptest::prelude::{Just, Strategy, prop_assert_eq, prop_oneof};
use proptest::test_runner::{Config, TestCaseError, TestError, TestRunner};
use tokio::task::JoinHandle;

use crate::script::{Question, Script, Write, cache, value_of};

const KEYS: [&str; 2] = ["a", "b"];
/// How often other tasks get their turn after a step: more often than any of them needs.
const TURNS: usize = 50;

/// One step; numbers choose among what there is.
#[derive(Clone, Copy, Debug)]
enum Step {
    Read(usize),
    Handle(usize),
    Deliver(usize),
    Fail(usize),
    Cancel(usize),
    Change(usize),
    Flush,
    BeginWrite(usize),
    HandleWrite(usize),
    EndWrite(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..KEYS.len()).prop_map(Step::Read),
        3 => (0..8_usize).prop_map(Step::Handle),
        4 => (0..8_usize).prop_map(Step::Deliver),
        1 => (0..8_usize).prop_map(Step::Fail),
        1 => (0..8_usize).prop_map(Step::Cancel),
        3 => (0..KEYS.len()).prop_map(Step::Change),
        1 => Just(Step::Flush),
        2 => (0..KEYS.len()).prop_map(Step::BeginWrite),
        2 => (0..4_usize).prop_map(Step::HandleWrite),
        2 => (0..4_usize).prop_map(Step::EndWrite),
    ]
}

/// A question on its way: the grant from before it was sent, and the version that it has seen.
struct Asked {
    question: Question,
    grant: Grant,
    seen: Option<u64>,
}

struct Stage {
    near: Near<String, String>,
    script: Arc<Script>,
    versions: HashMap<String, u64>,
    asked: Vec<Asked>,
    readers: Vec<JoinHandle<()>>,
    writes: Vec<(Write, JoinHandle<()>)>,
}

impl Stage {
    fn new(fault: Fault) -> Stage {
        let (near, script) = cache(|near| near.fault(fault));
        Stage {
            near,
            script,
            versions: KEYS.iter().map(|&key| (key.to_owned(), 0)).collect(),
            asked: Vec::new(),
            readers: Vec::new(),
            writes: Vec::new(),
        }
    }

    async fn take(&mut self, step: Step) -> Result<(), TestCaseError> {
        match step {
            Step::Read(key) => self.read(KEYS[key]),
            Step::Handle(number) => self.handle(number),
            Step::Deliver(number) => self.deliver(number),
            Step::Fail(number) => {
                if let Some(asked) = pick(&mut self.asked, number) {
                    asked.question.answer(Err(crate::script::broken()));
                }
            }
            Step::Cancel(number) => {
                if let Some(reader) = pick(&mut self.readers, number) {
                    reader.abort();
                }
            }
            Step::Change(key) => {
                *self.versions.get_mut(KEYS[key]).unwrap() += 1;
                self.script.invalidate(KEYS[key]);
            }
            Step::Flush => {
                self.versions.values_mut().for_each(|version| *version += 1);
                self.script.flush();
            }
            Step::BeginWrite(key) => self.begin_write(KEYS[key]).await,
            Step::HandleWrite(number) => {
                // Nobody is told: the write itself has to see to its own copy.
                if !self.writes.is_empty() {
                    let place = number % self.writes.len();
                    *self.versions.get_mut(&self.writes[place].0.key).unwrap() += 1;
                }
            }
            Step::EndWrite(number) => {
                if let Some((write, writing)) = pick(&mut self.writes, number) {
                    let _ = write.answer.send(Ok(()));
                    writing.await.unwrap();
                }
            }
        }
        self.collect().await;
        self.check()
    }

    fn read(&mut self, key: &'static str) {
        let near = self.near.clone();
        self.readers.push(tokio::spawn(async move {
            // Errors are part of the script.
            let _: Result<_, Error> = near.get(key).await.map(drop);
        }));
    }

    fn handle(&mut self, number: usize) {
        if self.asked.is_empty() {
            return;
        }
        let place = number % self.asked.len();
        let asked = &mut self.asked[place];
        let version = self.versions[&asked.question.key];
        asked.seen.get_or_insert(version);
    }

    fn deliver(&mut self, number: usize) {
        let Some(asked) = pick(&mut self.asked, number) else {
            return;
        };
        let version = self.versions[&asked.question.key];
        let mut loaded = value_of(&asked.seen.unwrap_or(version).to_string());
        loaded.grant = Some(asked.grant);
        asked.question.answer(Ok(loaded));
    }

    async fn begin_write(&mut self, key: &'static str) {
        let near = self.near.clone();
        let writing = tokio::spawn(async move {
            near.set(key, &"written".to_owned()).await.unwrap();
        });
        self.writes.push((self.script.write().await, writing));
    }

    /// Lets all tasks go on, and takes the questions that they ask.
    async fn collect(&mut self) {
        for _ in 0..TURNS {
            tokio::task::yield_now().await;
        }
        while !self.script.is_silent().await {
            let question = self.script.question().await;
            let grant = self.script.trust.grant();
            let seen = None;
            self.asked.push(Asked {
                question,
                grant,
                seen,
            });
        }
    }

    fn check(&self) -> Result<(), TestCaseError> {
        for key in KEYS {
            let in_write = self.writes.iter().any(|(write, _)| write.key == key);
            let Some(held) = self.near.peek(key).filter(|_| !in_write) else {
                continue;
            };
            prop_assert_eq!(&*held, &self.versions[key].to_string(), "{} is stale", key);
        }
        Ok(())
    }
}

/// Takes one out, if there is any.
fn pick<T>(all: &mut Vec<T>, number: usize) -> Option<T> {
    (!all.is_empty()).then(|| all.remove(number % all.len()))
}

/// Runs random steps over a cache with this fault.
fn run(fault: Fault) -> Result<(), TestError<Vec<Step>>> {
    let config = Config {
        cases: 400,
        failure_persistence: None,
        max_shrink_iters: 0,
        ..Config::default()
    };
    TestRunner::new(config).run(&proptest::collection::vec(step(), 1..80), |steps| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build();
        let runtime = runtime.map_err(|error| TestCaseError::fail(error.to_string()))?;
        runtime.block_on(async {
            let mut stage = Stage::new(fault);
            for step in steps {
                stage.take(step).await?;
            }
            Ok(())
        })
    })
}

#[test]
fn memory_has_the_current_version_or_nothing() {
    run(Fault::None).unwrap();
}

#[test]
fn a_cache_that_breaks_a_rule_breaks_the_model() {
    for fault in [Fault::UncheckedFills, Fault::KeptOnWrite] {
        assert!(run(fault).is_err(), "{fault:?}");
    }
}
