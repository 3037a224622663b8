//! Counts work, by the thread that does it, in debug builds and in benchmarks: the binary that is handed out does not count.

use std::cell::Cell;

/// A request or a stored document is read from its JSON, or a hash is made.
#[derive(Clone, Copy)]
pub enum Work {
    Request,
    Document,
    Hash,
}

thread_local! {
    static DONE: [Cell<u64>; 3] = const { [const { Cell::new(0) }; 3] };
}

pub fn add(work: Work) {
    if cfg!(any(debug_assertions, feature = "counting")) {
        DONE.with(|done| done[work as usize].update(|it| it + 1));
    }
}

/// Returns the number of times this thread has done this work.
pub fn so_far(work: Work) -> u64 {
    DONE.with(|done| done[work as usize].get())
}
