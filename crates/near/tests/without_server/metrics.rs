//! Metrics: what a recorder of the `metrics` crate is told of a cache.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ::metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder,
    SharedString, Unit,
};
use cellar_near::clock::ManualClock;
use cellar_near::origin::Function;
use cellar_near::{Error, Near};

/// A number that was told last.
#[derive(Default)]
struct Told(AtomicU64);

impl CounterFn for Told {
    fn increment(&self, value: u64) {
        self.0.fetch_add(value, Ordering::SeqCst);
    }

    fn absolute(&self, value: u64) {
        self.0.store(value, Ordering::SeqCst);
    }
}

impl GaugeFn for Told {
    fn increment(&self, _value: f64) {
        unreachable!("gauges are set");
    }

    fn decrement(&self, _value: f64) {
        unreachable!("gauges are set");
    }

    fn set(&self, value: f64) {
        self.0.store(value as u64, Ordering::SeqCst);
    }
}

/// All that a histogram was told.
#[derive(Default)]
struct Noted(Mutex<Vec<f64>>);

impl HistogramFn for Noted {
    fn record(&self, value: f64) {
        self.0.lock().unwrap().push(value);
    }
}

/// A recorder that keeps what it is told, by name and attributes.
#[derive(Default)]
struct InFlight {
    told: Mutex<BTreeMap<String, Arc<Told>>>,
    noted: Mutex<BTreeMap<String, Arc<Noted>>>,
    described: Mutex<BTreeMap<String, String>>,
}

impl InFlight {
    fn name(key: &Key) -> String {
        let labels: Vec<String> = key
            .labels()
            .map(|label| format!("{}={}", label.key(), label.value()))
            .collect();
        format!("{}{{{}}}", key.name(), labels.join(","))
    }

    fn row(&self, key: &Key) -> Arc<Told> {
        let mut told = self.told.lock().unwrap();
        Arc::clone(told.entry(InFlight::name(key)).or_default())
    }

    /// What was told of times, and is told no more.
    fn take_noted(&self, name: &str) -> Vec<f64> {
        let noted = self.noted.lock().unwrap();
        let noted = noted.get(name).expect("a histogram");
        std::mem::take(&mut noted.0.lock().unwrap())
    }

    fn value(&self, name: &str) -> Option<u64> {
        let told = self.told.lock().unwrap();
        Some(told.get(name)?.0.load(Ordering::SeqCst))
    }

    fn describe(&self, name: &KeyName, description: &SharedString) {
        let mut described = self.described.lock().unwrap();
        described.insert(name.as_str().to_owned(), description.to_string());
    }
}

impl Recorder for InFlight {
    fn describe_counter(&self, name: KeyName, _unit: Option<Unit>, description: SharedString) {
        self.describe(&name, &description);
    }

    fn describe_gauge(&self, name: KeyName, _unit: Option<Unit>, description: SharedString) {
        self.describe(&name, &description);
    }

    fn describe_histogram(&self, name: KeyName, unit: Option<Unit>, description: SharedString) {
        assert_eq!(unit, Some(Unit::Seconds));
        self.describe(&name, &description);
    }

    fn register_counter(&self, key: &Key, _metadata: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.row(key))
    }

    fn register_gauge(&self, key: &Key, _metadata: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.row(key))
    }

    fn register_histogram(&self, key: &Key, _metadata: &Metadata<'_>) -> Histogram {
        let mut noted = self.noted.lock().unwrap();
        Histogram::from_arc(Arc::clone(noted.entry(InFlight::name(key)).or_default()))
    }
}

#[tokio::test]
async fn a_recorder_is_told_all_counts_by_the_names_of_the_guide() {
    let echo = Function::new(|key: u64| async move { Ok::<_, Error>(Some(key)) });
    let near = Near::builder(echo).build();
    for key in [1, 2, 2, 2] {
        near.get(&key).await.unwrap();
    }
    let in_flight = InFlight::default();
    for _ in 0..2 {
        ::metrics::with_local_recorder(&in_flight, || near.record_metrics("users"));
    }
    let hits = "cellar.near.requests{cache.name=users,cache.result=hit}";
    let misses = "cellar.near.requests{cache.name=users,cache.result=miss}";
    assert_eq!(
        (in_flight.value(hits), in_flight.value(misses)),
        (Some(2), Some(2))
    );
    let entries = in_flight.value("cellar.near.entries{cache.name=users}");
    assert_eq!(entries, Some(2));
    let guide = include_str!("../../../../docs/near.md");
    let described = in_flight.described.lock().unwrap();
    for (name, description) in described.iter() {
        let row = format!("| `{name}` |");
        assert!(guide.contains(&row), "the guide lacks {row}");
        assert!(!description.is_empty());
        let is_plain = |letter: char| letter.is_ascii_lowercase() || letter == '.';
        assert!(name.chars().all(is_plain), "{name}");
    }
    let rows = guide.matches("| `cellar.near.").count();
    assert_eq!(rows, described.len(), "the guide has rows of its own");
}

#[tokio::test]
async fn a_recorder_is_told_once_how_long_origin_and_loader_took() {
    let clock = Arc::new(ManualClock::default());
    let asked = Arc::clone(&clock);
    let nothing = Function::new(move |_: u64| {
        let asked = Arc::clone(&asked);
        async move {
            asked.advance(Duration::from_millis(80));
            Ok::<Option<u64>, Error>(None)
        }
    });
    let near = Near::builder(nothing).clock(clock.clone()).build();
    let in_flight = InFlight::default();
    let record = || ::metrics::with_local_recorder(&in_flight, || near.record_metrics("users"));
    let loads = Arc::clone(&clock);
    let loader = move || async move {
        loads.advance(Duration::from_millis(2_500));
        Ok::<_, Error>(Some(7))
    };
    assert_eq!(
        near.get_or_load(&1, loader).await.unwrap().as_deref(),
        Some(&7)
    );
    record();
    let of = |source| {
        in_flight.take_noted(&format!(
            "cellar.near.load.duration{{cache.name=users,cache.source={source}}}"
        ))
    };
    let is_about =
        |times: &[f64], time: f64| matches!(times, [told] if (told - time).abs() <= time / 16.0);
    let (origin, loader) = (of("origin"), of("loader"));
    assert!(is_about(&origin, 0.08), "{origin:?}");
    assert!(is_about(&loader, 2.5), "{loader:?}");
    record();
    let nothing: [Vec<f64>; 2] = Default::default();
    assert_eq!([of("origin"), of("loader")], nothing);
}
