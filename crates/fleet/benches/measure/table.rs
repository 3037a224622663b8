//! A row of the tables that this prints.

use std::time::Duration;

use crate::measure::{ms, p};

pub fn report(what: &str, sorted: &[Duration], against: &str) {
    println!(
        "| {what} | {} | {} | {} | {against} |",
        ms(p(sorted, 50)),
        ms(p(sorted, 95)),
        ms(p(sorted, 99))
    );
}
