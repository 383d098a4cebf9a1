//! Pure: a batch as the bytes of an OTLP request, and what an OTLP response says.

use bytes::{Bytes, BytesMut};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use prost::Message;

use super::{metrics, traces};
use crate::pipeline::delivery::size::encoded_bytes;
use crate::pipeline::{Data, Exported};

/// The request of this batch, uncompressed. The three requests have one form: the resources as field 1.
pub fn encode(data: &Data) -> Bytes {
    match data {
        Data::Sched(_) => Bytes::new(),
        Data::Traces(resources) => traces::encode(resources),
        Data::Metrics(resources) => metrics::encode(resources),
        Data::Logs(resources) => by_prost(resources, encoded_bytes(data)),
    }
}

fn by_prost<M: Message>(resources: &[M], size: u64) -> Bytes {
    let mut bytes = BytesMut::with_capacity(usize::try_from(size).unwrap_or_default());
    for resource in resources {
        prost::encoding::message::encode(1, resource, &mut bytes);
    }
    bytes.freeze()
}

/// What a protobuf response says. The three responses have one form too: rejected count and message in field 1.
pub fn decode_response(bytes: &[u8]) -> Result<Exported, prost::DecodeError> {
    ExportTraceServiceResponse::decode(bytes).map(|response| exported(&response))
}

/// The outcome that a response tells.
pub fn exported(response: &ExportTraceServiceResponse) -> Exported {
    let Some(partial) = &response.partial_success else { return Exported::default() };
    Exported {
        rejected_items: u64::try_from(partial.rejected_spans).unwrap_or(0),
        message: (!partial.error_message.is_empty()).then(|| partial.error_message.clone()),
    }
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::collector::metrics::v1::{
        ExportMetricsPartialSuccess, ExportMetricsServiceRequest, ExportMetricsServiceResponse,
    };
    use opentelemetry_proto::tonic::metrics::v1::ResourceMetrics;

    use super::*;

    #[test]
    fn the_bytes_are_those_of_the_request_message() {
        let resources = vec![ResourceMetrics { schema_url: "a".into(), ..ResourceMetrics::default() }; 3];
        let request = ExportMetricsServiceRequest { resource_metrics: resources.clone() };
        let bytes = encode(&Data::Metrics(resources));
        assert_eq!(bytes, request.encode_to_vec());
        assert_eq!(bytes.len(), request.encoded_len());
    }

    #[test]
    fn responses_of_all_signals_are_read_alike() {
        let partial = ExportMetricsPartialSuccess { rejected_data_points: 3, error_message: "old".into() };
        let response = ExportMetricsServiceResponse { partial_success: Some(partial) };
        let told = decode_response(&response.encode_to_vec()).unwrap();
        assert_eq!(told, Exported { rejected_items: 3, message: Some("old".into()) });
        assert_eq!(decode_response(&[]).unwrap(), Exported::default());
    }
}
