//! Requests as records of a store. The calls that touch the disk run beside the runtime's threads.

use std::sync::Arc;

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use prost::Message;

use crate::pipeline::client::payload;
use crate::pipeline::{Data, RecordStore, Signal, StorageError};

/// Version of the form, signal, number of items, bytes of the request.
const HEADER: usize = 1 + 1 + 8 + 8;
const VERSION: u8 = 1;

/// What a record says about its request without the request being decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Brief {
    pub(super) items: u64,
    pub(super) bytes: u64,
}

fn code(signal: Signal) -> u8 {
    match signal {
        Signal::Sched => 0,
        Signal::Traces => 1,
        Signal::Metrics => 2,
        Signal::Logs => 3,
    }
}

/// The record of a request: compressed, an hour's outage must fit on a disk.
pub(super) fn to_record(data: &Data) -> Result<Vec<u8>, StorageError> {
    let request = payload::encode(data);
    let packed = zstd::bulk::compress(&request, 0).map_err(|error| StorageError::Failed(error.to_string()))?;
    let mut record = Vec::with_capacity(HEADER + packed.len());
    record.extend_from_slice(&[VERSION, code(data.signal())]);
    record.extend_from_slice(&(data.items() as u64).to_le_bytes());
    record.extend_from_slice(&(request.len() as u64).to_le_bytes());
    record.extend_from_slice(&packed);
    Ok(record)
}

/// What is in a record of this signal.
pub(super) fn brief(record: &[u8], signal: Signal) -> Result<Brief, StorageError> {
    let wrong = || StorageError::Damaged("it is no request of this signal and version".to_owned());
    let (start, rest) = record.split_at_checked(2).ok_or_else(wrong)?;
    if start != [VERSION, code(signal)] {
        return Err(wrong());
    }
    let number = |at: usize| rest.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map(u64::from_le_bytes);
    Ok(Brief { items: number(0).ok_or_else(wrong)?, bytes: number(8).ok_or_else(wrong)? })
}

/// The request of a record.
pub(super) fn from_record(record: &[u8], signal: Signal) -> Result<Data, StorageError> {
    let damaged = |error: &dyn std::fmt::Display| StorageError::Damaged(error.to_string());
    let length = usize::try_from(brief(record, signal)?.bytes).map_err(|error| damaged(&error))?;
    let packed = record.get(HEADER..).unwrap_or_default();
    let request = zstd::bulk::decompress(packed, length).map_err(|error| damaged(&error))?;
    let request = request.as_slice();
    Ok(match signal {
        Signal::Metrics => Data::Metrics(
            ExportMetricsServiceRequest::decode(request).map_err(|error| damaged(&error))?.resource_metrics,
        ),
        Signal::Logs => {
            Data::Logs(ExportLogsServiceRequest::decode(request).map_err(|error| damaged(&error))?.resource_logs)
        }
        Signal::Traces | Signal::Sched => {
            Data::Traces(ExportTraceServiceRequest::decode(request).map_err(|error| damaged(&error))?.resource_spans)
        }
    })
}

/// A store, called from async code.
#[derive(Clone)]
pub(super) struct Stored(pub(super) Arc<dyn RecordStore>);

impl Stored {
    async fn call<T: Send + 'static>(
        &self,
        work: impl FnOnce(&dyn RecordStore) -> Result<T, StorageError> + Send + 'static,
    ) -> Result<T, StorageError> {
        let store = self.0.clone();
        let done = tokio::task::spawn_blocking(move || work(store.as_ref())).await;
        done.unwrap_or_else(|error| Err(StorageError::Failed(error.to_string())))
    }

    pub(super) async fn append(&self, data: Data) -> Result<u64, StorageError> {
        self.call(move |store| store.append(&to_record(&data)?)).await
    }

    pub(super) async fn read(&self, id: u64, signal: Signal) -> Result<Data, StorageError> {
        self.call(move |store| from_record(&store.read(id)?, signal)).await
    }

    pub(super) async fn remove(&self, id: u64) -> Result<(), StorageError> {
        self.call(move |store| store.remove(id)).await
    }

    /// What an earlier process left, oldest first; damaged records come with what is wrong.
    pub(super) async fn left(&self, signal: Signal) -> Result<Vec<(u64, Result<Brief, StorageError>)>, StorageError> {
        self.call(move |store| {
            let look = |id| (id, store.read(id).and_then(|record| brief(&record, signal)));
            Ok(store.ids()?.into_iter().map(look).collect())
        })
        .await
    }
}
