//! Taking times and saying them.

use std::time::{Duration, Instant};

pub fn time(rounds: usize, mut what: impl FnMut()) -> Vec<Duration> {
    what();
    let mut times: Vec<Duration> = (0..rounds).map(|_| once(&mut what)).collect();
    times.sort();
    times
}

pub fn once(what: impl FnOnce()) -> Duration {
    let began = Instant::now();
    what();
    began.elapsed()
}

pub fn p(sorted: &[Duration], percent: usize) -> Duration {
    sorted[(sorted.len() * percent / 100).min(sorted.len() - 1)]
}

pub fn ms(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1000.0)
}
