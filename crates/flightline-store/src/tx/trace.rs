//! The trace of a transaction in the journal: enough to know it again, should the answer to its commit be lost.

/// An event of a transaction: its seal stands for all of its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EventMark {
    pub(crate) rev: u64,
    pub(crate) seal: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Trace(Vec<EventMark>);

impl Trace {
    pub(crate) fn add(&mut self, mark: EventMark) {
        self.0.push(mark);
    }

    /// Adds the trace of another transaction after it.
    pub(crate) fn follow(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// Forgets the events after `rev`: they were rolled back.
    pub(crate) fn cut(&mut self, rev: u64) {
        self.0.retain(|mark| mark.rev <= rev);
    }

    /// The revisions, as spans without gaps: one, but where an event was put back far below.
    pub(crate) fn spans(&self) -> Vec<(u64, u64)> {
        let mut spans: Vec<(u64, u64)> = Vec::new();
        for rev in self.0.iter().map(|mark| mark.rev) {
            match spans.last_mut() {
                Some((_, last)) if *last + 1 == rev => *last = rev,
                _ => spans.push((rev, rev)),
            }
        }
        spans
    }

    pub(crate) fn len(&self) -> u64 {
        self.0.len() as u64
    }

    /// The first and the last revision; none when nothing was added.
    pub(crate) fn bounds(&self) -> Option<(u64, u64)> {
        Some((self.0.first()?.rev, self.0.last()?.rev))
    }
}
