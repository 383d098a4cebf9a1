use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use tokio::time::Instant;

use super::*;
use crate::config::{ByteSize, Period};
use crate::pipeline::{ExportError, Exported};

/// Answers as told, then with success; keeps when and how much it was given.
#[derive(Default)]
struct Fake {
    answers: Mutex<VecDeque<Result<Exported, ExportError>>>,
    attempts: Mutex<Vec<(Instant, usize)>>,
    always: Option<ExportError>,
    takes: Duration,
}

#[async_trait]
impl Exporter for Fake {
    fn target(&self) -> &str {
        "localhost:4317"
    }

    async fn export(&self, data: &Data) -> Result<Exported, ExportError> {
        self.attempts.lock().unwrap().push((Instant::now(), data.items()));
        tokio::time::sleep(self.takes).await;
        let answer = self.answers.lock().unwrap().pop_front();
        answer.unwrap_or_else(|| self.always.clone().map_or_else(|| Ok(Exported::default()), Err))
    }
}

impl Fake {
    fn answering(answers: impl IntoIterator<Item = Result<Exported, ExportError>>) -> Arc<Self> {
        Arc::new(Self { answers: Mutex::new(answers.into_iter().collect()), ..Self::default() })
    }

    fn sizes(&self) -> Vec<usize> {
        self.attempts.lock().unwrap().iter().map(|(_, items)| *items).collect()
    }
}

fn retry(after: Option<u64>) -> Result<Exported, ExportError> {
    Err(ExportError::Retry { message: "localhost:4317 is away".into(), after: after.map(Duration::from_secs) })
}

fn spans(count: usize) -> Data {
    let span = |number: usize| Span { span_id: number.to_be_bytes().to_vec(), ..Span::default() };
    let scope = ScopeSpans { spans: (0..count).map(span).collect(), ..ScopeSpans::default() };
    Data::Traces(vec![ResourceSpans { scope_spans: vec![scope], ..ResourceSpans::default() }])
}

async fn start(exporter: Arc<Fake>, settings: DeliverySettings) -> (Delivery, Telemetry) {
    let telemetry = Telemetry::default();
    let place = Place { id: "otlp_grpc".into(), signal: Signal::Traces, telemetry: telemetry.clone() };
    let delivery = Delivery::start(exporter, settings, place, &Host::default()).await.unwrap();
    (delivery, telemetry)
}

fn queue(change: impl FnOnce(&mut SendingQueue)) -> DeliverySettings {
    let mut settings = DeliverySettings::default();
    change(&mut settings.sending_queue);
    settings
}

fn soon() -> std::time::Instant {
    (Instant::now() + Duration::from_secs(10)).into_std()
}

#[tokio::test(start_paused = true)]
async fn what_is_offered_is_sent_and_counted() {
    let fake = Fake::answering([]);
    let (delivery, telemetry) = start(fake.clone(), DeliverySettings::default()).await;
    for _ in 0..3 {
        delivery.offer(spans(7)).await;
    }
    assert_eq!(delivery.shutdown(soon()).await, Left::default());
    assert_eq!(fake.sizes(), [7, 7, 7]);
    assert_eq!(telemetry.sum("otelcol_exporter_sent_spans"), 21);
    assert_eq!(telemetry.sum("otelcol_exporter_queue_size"), 0);
    assert_eq!(telemetry.sum("otelcol_exporter_queue_capacity"), 1000);
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_drops_the_new_and_counts_it() {
    let fake = Arc::new(Fake { takes: Duration::from_secs(3), ..Fake::default() });
    let settings = queue(|queue| (queue.num_consumers, queue.queue_size) = (1, ByteSize::new(2)));
    let (delivery, telemetry) = start(fake.clone(), settings).await;
    for _ in 0..5 {
        delivery.offer(spans(10)).await;
    }
    let account = delivery.account();
    assert_eq!((account.refused, account.queued + account.in_flight), (30, 20));
    assert!(account.adds_up(), "{account:?}");
    assert_eq!(delivery.shutdown(soon()).await, Left::default());
    assert_eq!(telemetry.sum("otelcol_exporter_enqueue_failed_spans"), 30);
}

#[tokio::test(start_paused = true)]
async fn blocking_waits_for_room_instead() {
    let fake = Arc::new(Fake { takes: Duration::from_secs(1), ..Fake::default() });
    let settings =
        queue(|queue| (queue.num_consumers, queue.queue_size, queue.block_on_overflow) = (1, ByteSize::new(1), true));
    let (delivery, telemetry) = start(fake.clone(), settings).await;
    let began = Instant::now();
    for _ in 0..4 {
        delivery.offer(spans(1)).await;
    }
    assert_eq!(began.elapsed().as_secs(), 3);
    delivery.shutdown(soon()).await;
    assert_eq!(telemetry.sum("otelcol_exporter_sent_spans"), 4);
}

#[tokio::test(start_paused = true)]
async fn retries_with_the_endpoint_s_wait_as_a_minimum() {
    let fake = Fake::answering([retry(None), retry(Some(60))]);
    let (delivery, _) = start(fake.clone(), DeliverySettings::default()).await;
    delivery.offer(spans(1)).await;
    tokio::time::sleep(Duration::from_secs(200)).await;
    let times: Vec<_> = fake.attempts.lock().unwrap().iter().map(|(at, _)| *at).collect();
    assert_eq!(times.len(), 3);
    assert!((2.5..=7.5).contains(&(times[1] - times[0]).as_secs_f64()), "{times:?}");
    assert!((60.0..60.1).contains(&(times[2] - times[1]).as_secs_f64()), "{times:?}");
    assert_eq!(delivery.account().sent, 1);
}

#[tokio::test(start_paused = true)]
async fn gives_up_after_max_elapsed_time() {
    let fake = Arc::new(Fake { always: retry(None).err(), ..Fake::default() });
    let (delivery, telemetry) = start(fake.clone(), DeliverySettings::default()).await;
    delivery.offer(spans(4)).await;
    tokio::time::sleep(Duration::from_secs(301)).await;
    let account = delivery.account();
    assert_eq!((account.failed, account.in_flight, account.adds_up()), (4, 0, true));
    let series = telemetry.snapshot();
    let lost =
        series.iter().find(|series| series.value == 4 && series.key.name == "otelcol_exporter_send_failed_spans");
    assert!(lost.unwrap().key.attributes.contains(&("error.type", "retries_exhausted".to_owned())));
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_hangs_ends_with_timeout() {
    let fake = Arc::new(Fake { takes: Duration::from_secs(3600), ..Fake::default() });
    let settings = DeliverySettings { timeout: Period::secs(2), ..DeliverySettings::default() };
    let (delivery, _) = start(fake.clone(), settings).await;
    delivery.offer(spans(1)).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert!(fake.sizes().len() >= 3);
    assert_eq!(delivery.account().in_flight, 1);
}

#[tokio::test(start_paused = true)]
async fn final_answers_drop_and_count() {
    let fake = Fake::answering([
        Err(ExportError::Permanent("localhost:4317: status UNAUTHENTICATED".into())),
        Ok(Exported { rejected_items: 3, message: Some("future timestamps".into()) }),
    ]);
    let (delivery, telemetry) = start(fake.clone(), queue(|queue| queue.num_consumers = 1)).await;
    delivery.offer(spans(5)).await;
    delivery.offer(spans(5)).await;
    assert_eq!(delivery.shutdown(soon()).await, Left::default());
    assert_eq!(fake.sizes(), [5, 5]);
    assert_eq!(telemetry.sum("otelcol_exporter_send_failed_spans"), 8);
    assert_eq!(telemetry.sum("otelcol_exporter_sent_spans"), 2);
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_tries_once_more_and_tells_what_is_left() {
    let fake = Arc::new(Fake { always: retry(None).err(), ..Fake::default() });
    let (delivery, telemetry) = start(fake.clone(), queue(|queue| queue.num_consumers = 2)).await;
    for _ in 0..50 {
        delivery.offer(spans(2)).await;
    }
    tokio::time::sleep(Duration::from_millis(1)).await;
    let began = Instant::now();
    let left = delivery.shutdown(soon()).await;
    assert_eq!(left, Left { lost_items: 100, stored_items: 0 });
    assert!(began.elapsed() < Duration::from_secs(1), "a dead endpoint holds up nothing");
    assert!(fake.sizes().len() <= 6, "{:?}", fake.sizes());
    assert_eq!(telemetry.sum("otelcol_exporter_send_failed_spans"), 100);
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_ends_at_its_deadline() {
    let fake = Arc::new(Fake { takes: Duration::from_secs(3600), ..Fake::default() });
    let settings = DeliverySettings { timeout: Period::secs(0), ..DeliverySettings::default() };
    let (delivery, _) = start(fake, settings).await;
    delivery.offer(spans(2)).await;
    let began = Instant::now();
    assert_eq!(delivery.shutdown(soon()).await.lost_items, 2);
    assert_eq!(began.elapsed().as_secs(), 10);
}

#[tokio::test(start_paused = true)]
async fn without_a_queue_the_pipeline_waits() {
    let fake = Fake::answering([retry(None)]);
    let (delivery, _) = start(fake.clone(), queue(|queue| queue.enabled = false)).await;
    let began = Instant::now();
    delivery.offer(spans(1)).await;
    assert!(began.elapsed() >= Duration::from_millis(2500));
    assert_eq!(delivery.account(), Account { offered: 1, sent: 1, ..Account::default() });
}

#[tokio::test(start_paused = true)]
async fn wait_for_result_waits() {
    let fake = Arc::new(Fake { takes: Duration::from_secs(2), ..Fake::default() });
    let (delivery, _) = start(fake.clone(), queue(|queue| queue.wait_for_result = true)).await;
    let began = Instant::now();
    delivery.offer(spans(1)).await;
    assert_eq!(began.elapsed().as_secs(), 2);
}

#[tokio::test(start_paused = true)]
async fn too_large_is_halved_until_it_fits() {
    let fake = Fake::answering((0..3).map(|_| Err(ExportError::TooLarge("413, 4 MiB".into()))));
    let (delivery, _) = start(fake.clone(), queue(|queue| queue.num_consumers = 1)).await;
    delivery.offer(spans(8)).await;
    delivery.offer(spans(1)).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(fake.sizes(), [8, 4, 2, 1, 1, 2, 4, 1]);
    assert_eq!(delivery.account().sent, 9);
}

#[tokio::test(start_paused = true)]
async fn one_item_that_is_too_large_is_dropped_and_not_sent_again() {
    let fake = Arc::new(Fake { always: Some(ExportError::TooLarge("4 MiB".into())), ..Fake::default() });
    let (delivery, _) = start(fake.clone(), DeliverySettings::default()).await;
    delivery.offer(spans(2)).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(fake.sizes(), [2, 1, 1]);
    let account = delivery.account();
    assert!(account.failed == 2 && account.adds_up(), "{account:?}");
}

#[tokio::test(start_paused = true)]
async fn a_batch_gathers_to_its_size_or_its_time() {
    let fake = Fake::answering([]);
    let settings = queue(|queue| {
        queue.batch = Some(Batch { min_size: ByteSize::new(30), max_size: ByteSize::new(40), ..Batch::default() })
    });
    let (delivery, _) = start(fake.clone(), settings).await;
    for _ in 0..3 {
        delivery.offer(spans(10)).await;
    }
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(fake.sizes(), [30]);
    delivery.offer(spans(100)).await;
    delivery.offer(spans(5)).await;
    tokio::time::sleep(Duration::from_millis(150)).await;
    assert_eq!(fake.sizes(), [30, 40, 40, 20]);
    tokio::time::sleep(Duration::from_millis(60)).await;
    assert_eq!(fake.sizes(), [30, 40, 40, 20, 5]);
    delivery.offer(spans(6)).await;
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(delivery.shutdown(soon()).await, Left::default());
    assert_eq!(fake.sizes().last(), Some(&6));
}

#[tokio::test(start_paused = true)]
async fn a_single_consumer_per_batch_leaves_the_others_free_to_send() {
    let fake = Arc::new(Fake { takes: Duration::from_secs(1), ..Fake::default() });
    let settings = queue(|queue| queue.batch = Some(Batch { min_size: ByteSize::new(10), ..Batch::default() }));
    let (delivery, telemetry) = start(fake.clone(), settings).await;
    for _ in 0..5 {
        delivery.offer(spans(10)).await;
    }
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert_eq!(telemetry.sum("otelcol_exporter_in_flight_requests"), 5);
    delivery.shutdown(soon()).await;
}

/// A store in memory, with a disk that can be full.
#[derive(Default)]
struct Disk {
    records: Mutex<std::collections::BTreeMap<u64, Vec<u8>>>,
    full: std::sync::atomic::AtomicBool,
}

impl crate::pipeline::RecordStore for Disk {
    fn ids(&self) -> Result<Vec<u64>, StorageError> {
        Ok(self.records.lock().unwrap().keys().copied().collect())
    }

    fn append(&self, record: &[u8]) -> Result<u64, StorageError> {
        if self.full.load(std::sync::atomic::Ordering::Relaxed) {
            return Err(StorageError::Full("no space left".into()));
        }
        let mut records = self.records.lock().unwrap();
        let id = records.keys().last().map_or(1, |last| last + 1);
        records.insert(id, record.to_vec());
        Ok(id)
    }

    fn read(&self, id: u64) -> Result<Vec<u8>, StorageError> {
        self.records.lock().unwrap().get(&id).cloned().ok_or_else(|| StorageError::Failed("gone".into()))
    }

    fn remove(&self, id: u64) -> Result<(), StorageError> {
        self.records.lock().unwrap().remove(&id);
        Ok(())
    }
}

struct Disks(Arc<Disk>);

#[async_trait]
impl crate::pipeline::Extension for Disks {
    async fn start(&self) -> Result<(), StartError> {
        Ok(())
    }

    async fn shutdown(&self) {}

    fn storage(&self) -> Option<Arc<dyn crate::pipeline::Storage>> {
        Some(Arc::new(Self(self.0.clone())))
    }
}

impl crate::pipeline::Storage for Disks {
    fn open(&self, _name: &str) -> Result<Arc<dyn crate::pipeline::RecordStore>, StartError> {
        Ok(self.0.clone())
    }
}

async fn start_stored(exporter: Arc<Fake>, disk: &Arc<Disk>) -> (Delivery, Telemetry) {
    let telemetry = Telemetry::default();
    let place = Place { id: "otlp_grpc".into(), signal: Signal::Traces, telemetry: telemetry.clone() };
    let extension: Arc<dyn crate::pipeline::Extension> = Arc::new(Disks(disk.clone()));
    let host = Host::new([(Arc::from("file_storage"), extension)].into_iter().collect());
    let settings = queue(|queue| queue.storage = Some("file_storage".into()));
    (Delivery::start(exporter, settings, place, &host).await.unwrap(), telemetry)
}

#[tokio::test]
async fn what_a_shutdown_leaves_on_disk_is_sent_by_the_next_run() {
    let disk = Arc::new(Disk::default());
    let away = Arc::new(Fake { always: retry(None).err(), ..Fake::default() });
    let (delivery, telemetry) = start_stored(away, &disk).await;
    for _ in 0..3 {
        delivery.offer(spans(4)).await;
    }
    let left = delivery.shutdown(std::time::Instant::now() + Duration::from_secs(5)).await;
    assert_eq!(left, Left { lost_items: 0, stored_items: 12 });
    assert_eq!(telemetry.sum("otelcol_exporter_send_failed_spans"), 0);
    disk.records.lock().unwrap().get_mut(&2).unwrap().truncate(1);
    let fake = Fake::answering([]);
    let (delivery, telemetry) = start_stored(fake.clone(), &disk).await;
    assert_eq!(delivery.account().offered, 8);
    delivery.shutdown(std::time::Instant::now() + Duration::from_secs(5)).await;
    assert_eq!(fake.sizes(), [4, 4]);
    assert_eq!(telemetry.sum("schedscope_exporter_damaged_records"), 1);
    assert!(disk.records.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_full_disk_refuses_what_is_new_and_recovers() {
    let disk = Arc::new(Disk::default());
    let (delivery, telemetry) = start_stored(Fake::answering([]), &disk).await;
    disk.full.store(true, std::sync::atomic::Ordering::Relaxed);
    delivery.offer(spans(4)).await;
    disk.full.store(false, std::sync::atomic::Ordering::Relaxed);
    delivery.offer(spans(5)).await;
    delivery.shutdown(std::time::Instant::now() + Duration::from_secs(5)).await;
    assert_eq!(telemetry.sum("otelcol_exporter_enqueue_failed_spans"), 4);
    assert_eq!(telemetry.sum("otelcol_exporter_sent_spans"), 5);
}
