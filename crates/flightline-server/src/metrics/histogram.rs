//! Histograms: counts of observed values by their size.

use super::page::{Label, MetricsPage, seconds};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scale {
    /// A time, kept in millionths of a second.
    Time,
    Bytes,
    Count,
}

impl Scale {
    const fn classes(self) -> &'static [u64] {
        match self {
            Self::Time => &[
                1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000,
                2_500_000, 10_000_000,
            ],
            Self::Bytes => &[
                256, 1_024, 4_096, 16_384, 65_536, 262_144, 1_048_576, 4_194_304,
            ],
            Self::Count => &[1, 2, 4, 8, 16, 32, 64, 128, 256],
        }
    }

    fn write(self, value: u64) -> String {
        match self {
            Self::Time => seconds(value),
            Self::Bytes | Self::Count => value.to_string(),
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Histogram {
    scale: Scale,
    count: u64,
    sum: u64,
    within: Vec<u64>,
}

impl Histogram {
    pub(super) fn new(scale: Scale) -> Self {
        Self {
            scale,
            count: 0,
            sum: 0,
            within: vec![0; scale.classes().len()],
        }
    }

    pub(super) fn add(&mut self, value: u64) {
        self.count += 1;
        self.sum = self.sum.saturating_add(value);
        for (within, most) in self.within.iter_mut().zip(self.scale.classes()) {
            *within += u64::from(value <= *most);
        }
    }

    /// Writes the figures of the histogram. The head of its family is written already.
    pub(super) fn write(&self, page: &mut MetricsPage, name: &str, labels: &[Label<'_>]) {
        let bucket = format!("{name}_bucket");
        let mut figure = |most: &str, within: u64| {
            let mut labels = labels.to_vec();
            labels.push(("le", most));
            page.figure(&bucket, &labels, within);
        };
        for (within, most) in self.within.iter().zip(self.scale.classes()) {
            figure(&self.scale.write(*most), *within);
        }
        figure("+Inf", self.count);
        page.figure(&format!("{name}_sum"), labels, self.scale.write(self.sum));
        page.figure(&format!("{name}_count"), labels, self.count);
    }
}
