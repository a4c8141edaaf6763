//! Gauges that are read when somebody asks for them.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;

type Read = Box<dyn Fn() -> Vec<(&'static str, i64)> + Send + Sync>;

pub(super) struct Observed {
    name: &'static str,
    help: &'static str,
    /// The name of the label whose values the readings come with; none: there is one reading.
    label: Option<&'static str>,
    read: Read,
}

impl Observed {
    pub fn one(name: &'static str, help: &'static str, read: impl Fn() -> i64 + Send + Sync + 'static) -> Self {
        Self { name, help, label: None, read: Box::new(move || vec![("", read())]) }
    }

    pub fn each(
        name: &'static str,
        help: &'static str,
        label: &'static str,
        read: impl Fn() -> Vec<(&'static str, i64)> + Send + Sync + 'static,
    ) -> Self {
        Self { name, help, label: Some(label), read: Box::new(read) }
    }
}

impl Collector for Observed {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        // As a sentence, like the help of what is registered.
        let help = format!("{}.", self.help);
        let mut metric = encoder.encode_descriptor(self.name, &help, None, MetricType::Gauge)?;
        for (value, reading) in (self.read)() {
            let gauge = ConstGauge::new(reading);
            match self.label {
                Some(label) => gauge.encode(metric.encode_family(&[(label, value)])?)?,
                None => return gauge.encode(metric),
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Observed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observed").field("name", &self.name).finish_non_exhaustive()
    }
}
