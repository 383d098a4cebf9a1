//! In-memory components: a receiver that a test sends through, an exporter that keeps what it gets, fails or
//! hangs, an extension that only notes its calls. They meet the test in a [`Probe`], found by name.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use schedscope::config::{Body, Period, Section};
use schedscope::pipeline::delivery::{DeliverySettings, SendingQueue};
use schedscope::pipeline::factory::Built;
use schedscope::pipeline::{
    BuildContext, BuiltExporter, Components, Data, ExportError, Exported, Exporter, ExporterFactory, Extension,
    ExtensionFactory, Host, Outlet, Receiver, ReceiverFactory, Settings, Signal, StartError,
};
use schedscope::processors;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(crate) const COMPONENTS: Components = Components {
    receivers: &[&SOURCE],
    processors: &[&processors::batch::FACTORY, &processors::memory_limiter::FACTORY],
    exporters: &[&STORE],
    extensions: &[&NOTE],
};

/// Where a test and its fakes meet.
#[derive(Default)]
pub(crate) struct Probe {
    /// `start source`, `stop store`, … in order.
    pub(crate) calls: Mutex<Vec<String>>,
    /// The outlet of each started source.
    pub(crate) outlets: Mutex<HashMap<String, Outlet>>,
    /// Items that each store got.
    pub(crate) stored: Mutex<HashMap<String, usize>>,
}

static PROBES: LazyLock<Mutex<HashMap<String, Arc<Probe>>>> = LazyLock::new(Mutex::default);

/// The probe of that name, made at first sight.
pub(crate) fn probe(name: &str) -> Arc<Probe> {
    PROBES.lock().unwrap().entry(name.to_owned()).or_default().clone()
}

impl Probe {
    fn call(&self, what: &str, id: &str) {
        self.calls.lock().unwrap().push(format!("{what} {id}"));
    }

    pub(crate) fn calls(&self) -> Vec<String> {
        self.calls.lock().unwrap().clone()
    }

    pub(crate) fn outlet(&self, source: &str) -> Outlet {
        self.outlets.lock().unwrap()[source].clone()
    }

    pub(crate) fn stored(&self, store: &str) -> usize {
        self.stored.lock().unwrap().get(store).copied().unwrap_or_default()
    }
}

#[derive(Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct FakeSettings {
    /// Name of the probe.
    probe: String,
    /// Fail at the start with this text.
    fail: String,
    /// Never answer.
    stuck: bool,
    /// Answer after this.
    delay: Period,
    /// Delivery layers with this queue, else none.
    queue: Option<SendingQueue>,
}

impl Section for FakeSettings {}

struct Fake {
    id: String,
    settings: FakeSettings,
    probe: Arc<Probe>,
}

impl Fake {
    fn new(body: &Body, context: &BuildContext) -> Result<Self, schedscope::config::Problems> {
        let settings: FakeSettings = body.decode()?;
        let probe = probe(&settings.probe);
        Ok(Self { id: context.id.to_string(), settings, probe })
    }

    fn start(&self) -> Result<(), StartError> {
        self.probe.call("start", &self.id);
        if self.settings.fail.is_empty() { Ok(()) } else { Err(StartError::new(&*self.settings.fail)) }
    }
}

const SOURCE: ReceiverFactory = ReceiverFactory {
    name: "source",
    aliases: &[],
    about: "test",
    stability: "alpha",
    emits: &[Signal::Traces],
    settings: Settings::of::<FakeSettings>(),
    build: |body, context| -> Built<dyn Receiver> { Ok(Box::new(Fake::new(body, context)?)) },
};

const STORE: ExporterFactory = ExporterFactory {
    name: "store",
    aliases: &[],
    about: "test",
    stability: "alpha",
    accepts: &[Signal::Traces],
    settings: Settings::of::<FakeSettings>(),
    build: |body, _, context| {
        let fake = Fake::new(body, context)?;
        let queue = fake.settings.queue.clone();
        let delivery = queue.map(|sending_queue| DeliverySettings { sending_queue, ..DeliverySettings::default() });
        Ok(BuiltExporter { exporter: Box::new(fake), delivery })
    },
};

const NOTE: ExtensionFactory = ExtensionFactory {
    name: "note",
    aliases: &[],
    about: "test",
    stability: "alpha",
    settings: Settings::of::<FakeSettings>(),
    build: |body, context| -> Built<dyn Extension> { Ok(Box::new(Fake::new(body, context)?)) },
};

#[async_trait]
impl Receiver for Fake {
    async fn start(&mut self, outlet: Outlet) -> Result<(), StartError> {
        self.probe.outlets.lock().unwrap().insert(self.id.clone(), outlet);
        Self::start(self)
    }

    async fn shutdown(&mut self) {
        self.probe.call("stop", &self.id);
    }
}

#[async_trait]
impl Exporter for Fake {
    async fn start(&self, _: &Host) -> Result<(), StartError> {
        Self::start(self)
    }

    async fn export(&self, data: &Data) -> Result<Exported, ExportError> {
        if self.settings.stuck {
            std::future::pending::<()>().await;
        }
        tokio::time::sleep(self.settings.delay.0.max(Duration::from_micros(1))).await;
        *self.probe.stored.lock().unwrap().entry(self.id.clone()).or_default() += data.items();
        Ok(Exported::default())
    }

    async fn shutdown(&self) {
        self.probe.call("stop", &self.id);
    }
}

#[async_trait]
impl Extension for Fake {
    async fn start(&self) -> Result<(), StartError> {
        Self::start(self)
    }

    async fn shutdown(&self) {
        self.probe.call("stop", &self.id);
    }
}
