//! Pure: how large a batch is, in the units that queues, batches and requests are bounded by.

use prost::Message;

use super::settings::Sizer;
use crate::pipeline::Data;

/// Bytes of the batch as an uncompressed OTLP protobuf request. Cycles have no wire form: 0.
pub fn encoded_bytes(data: &Data) -> u64 {
    match data {
        Data::Sched(_) => 0,
        Data::Traces(resources) => framed(resources),
        Data::Metrics(resources) => framed(resources),
        Data::Logs(resources) => framed(resources),
    }
}

/// What the batch weighs in a queue of this sizer.
pub fn weight(data: &Data, sizer: Sizer) -> u64 {
    match sizer {
        Sizer::Requests => 1,
        Sizer::Items => data.items() as u64,
        Sizer::Bytes => encoded_bytes(data),
    }
}

/// Bytes of these messages as field 1 of a request.
fn framed<M: Message>(messages: &[M]) -> u64 {
    messages
        .iter()
        .map(|message| {
            let length = message.encoded_len();
            (1 + prost::length_delimiter_len(length) + length) as u64
        })
        .sum()
}
