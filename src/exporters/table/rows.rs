//! Pure: metric points become rows for a person: differences since the last table, worst first.

use std::collections::HashMap;

use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::common::v1::{ArrayValue, KeyValue};
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as Number;
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, HistogramDataPoint, NumberDataPoint, ResourceMetrics, metric,
};

/// Waits of one length.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Bucket {
    /// The upper bound in seconds; `None`: longer than all others.
    pub(crate) below: Option<f64>,
    pub(crate) count: u64,
}

/// One line of the table; times in seconds. `None`: not measured here.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Row {
    pub(crate) name: String,
    /// Of the container, or the unit; empty for the host.
    pub(crate) id: String,
    pub(crate) run: f64,
    pub(crate) wait: f64,
    pub(crate) throttled: Option<f64>,
    pub(crate) involuntary: f64,
    pub(crate) voluntary: f64,
    pub(crate) longest: f64,
    pub(crate) starving: f64,
    /// Waits by length; since the start where the points are cumulative.
    pub(crate) waits: Vec<Bucket>,
    /// Who had the CPU while it waited, seconds each, the worst first.
    pub(crate) culprits: Vec<(String, f64)>,
}

/// What one export says.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Table {
    pub(crate) rows: Vec<Row>,
    /// Losses in the interval, by reason.
    pub(crate) losses: Vec<(String, f64)>,
    /// Time of the points, wall ns.
    pub(crate) time_ns: u64,
    pub(crate) backend: String,
}

/// Values of cumulative series at the last table.
#[derive(Debug, Default)]
pub(crate) struct Last {
    values: HashMap<String, f64>,
    /// Series not seen at the last export are dropped, so that this stays as small as the table.
    seen: HashMap<String, f64>,
}

fn text<'a>(attributes: &'a [KeyValue], key: &str) -> Option<&'a str> {
    let value = attributes.iter().find(|attribute| attribute.key == key)?.value.as_ref()?;
    match value.value.as_ref()? {
        Any::StringValue(text) => Some(text),
        Any::ArrayValue(ArrayValue { values }) => match values.first()?.value.as_ref()? {
            Any::StringValue(text) => Some(text),
            _ => None,
        },
        _ => None,
    }
}

/// What a person calls the owner of these attributes.
pub(crate) fn display_name(attributes: &[KeyValue]) -> String {
    let get = |key| text(attributes, key);
    let runtime = get("container.runtime.name").map(|runtime| format!(" ({runtime})")).unwrap_or_default();
    if let (Some(namespace), Some(pod)) = (get("k8s.namespace.name"), get("k8s.pod.name")) {
        let container = get("k8s.container.name").map(|name| format!("/{name}")).unwrap_or_default();
        return format!("{namespace}/{pod}{container}");
    }
    if let Some(name) = get("container.name") {
        return format!("{name}{runtime}");
    }
    if let Some(id) = get("container.id") {
        return format!("{}{runtime}", id.get(..12).unwrap_or(id));
    }
    get("systemd.unit").map_or_else(|| "host".to_owned(), str::to_owned)
}

impl Last {
    /// The table of these metrics.
    pub(crate) fn table(&mut self, metrics: &[ResourceMetrics]) -> Table {
        let mut table = Table::default();
        for resource in metrics {
            let attributes = resource.resource.as_ref().map(|of| of.attributes.as_slice()).unwrap_or_default();
            let name = display_name(attributes);
            let id = format!("{}/{}", text(attributes, "container.id").unwrap_or_default(), name);
            let own = text(attributes, "container.id").or_else(|| text(attributes, "systemd.unit"));
            let mut row = Row { name, id: own.unwrap_or_default().to_owned(), ..Row::default() };
            for scope in &resource.scope_metrics {
                if let Some(backend) = scope.scope.as_ref().and_then(|of| text(&of.attributes, "linux.sched.backend")) {
                    backend.clone_into(&mut table.backend);
                }
                for metric in &scope.metrics {
                    if let Some(data) = &metric.data {
                        self.take(&id, &metric.name, data, &mut row, &mut table);
                    }
                }
            }
            row.culprits.sort_by(|a, b| b.1.total_cmp(&a.1));
            if row.run > 0.0 || row.wait > 0.0 || row.throttled.unwrap_or(0.0) > 0.0 {
                table.rows.push(row);
            }
        }
        self.values = std::mem::take(&mut self.seen);
        let pain = |row: &Row| row.wait + row.throttled.unwrap_or(0.0);
        table.rows.sort_by(|a, b| pain(b).total_cmp(&pain(a)).then(b.run.total_cmp(&a.run)));
        table
    }

    fn take(&mut self, id: &str, name: &str, data: &metric::Data, row: &mut Row, table: &mut Table) {
        match data {
            metric::Data::Gauge(gauge) => {
                let value = gauge.data_points.first().map(number).unwrap_or(0.0);
                if name.ends_with(".wait.longest") {
                    row.longest = value;
                } else if name.ends_with(".wait.open") {
                    row.starving = value;
                }
            }
            metric::Data::Sum(sum) => {
                let cumulative = sum.aggregation_temporality == AggregationTemporality::Cumulative as i32;
                for point in &sum.data_points {
                    table.time_ns = table.time_ns.max(point.time_unix_nano);
                    let value = self.grown(id, name, point, cumulative);
                    put(name, point, value, row, table);
                }
            }
            metric::Data::Histogram(histogram) if name.ends_with(".wait.duration") => {
                row.waits = histogram.data_points.first().map(buckets).unwrap_or_default();
            }
            _ => {}
        }
    }

    fn grown(&mut self, id: &str, name: &str, point: &NumberDataPoint, cumulative: bool) -> f64 {
        let value = number(point);
        if !cumulative {
            return value;
        }
        let series = format!("{id} {name} {:?} {}", point.attributes, point.start_time_unix_nano);
        let before = self.values.get(&series).copied().unwrap_or(0.0);
        self.seen.insert(series, value);
        (value - before).max(0.0)
    }
}

fn buckets(point: &HistogramDataPoint) -> Vec<Bucket> {
    let bounds = point.explicit_bounds.iter().map(|bound| Some(*bound)).chain([None]);
    bounds.zip(&point.bucket_counts).map(|(below, count)| Bucket { below, count: *count }).collect()
}

fn number(point: &NumberDataPoint) -> f64 {
    match point.value {
        Some(Number::AsDouble(value)) => value,
        Some(Number::AsInt(value)) => value as f64,
        None => 0.0,
    }
}

fn put(name: &str, point: &NumberDataPoint, value: f64, row: &mut Row, table: &mut Table) {
    let of = |key| text(&point.attributes, key);
    if name.ends_with("sched.time") || name.ends_with(".time") && of("linux.sched.state").is_some() {
        match of("linux.sched.state") {
            Some("running") => row.run = value,
            Some("waiting") => row.wait = value,
            Some("throttled") => row.throttled = Some(value),
            _ => {}
        }
    } else if name == "process.context_switches" {
        match of("process.context_switch.type") {
            Some("voluntary") => row.voluntary = value,
            _ => row.involuntary = value,
        }
    } else if name.ends_with(".contention.time") {
        let who = of("linux.sched.culprit.container.name").unwrap_or("?");
        row.culprits.push((who.to_owned(), value));
    } else if name.ends_with(".records.lost") && value > 0.0 {
        table.losses.push((of("reason").unwrap_or("?").to_owned(), value));
    }
}
