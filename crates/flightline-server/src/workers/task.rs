//! A request as the threads see it: it can be run, perhaps twice, and is answered once.

use flightline::Fleet;
use flightline::core::{Code, Refusal};

use super::broken;

pub(super) trait ConnectionTask: Send {
    /// Runs the task, and keeps the result. May be called again: then only the last result counts.
    fn run(&mut self, fleet: &mut Fleet);

    /// Makes this refusal the answer.
    fn refuse(&mut self, refusal: Refusal);

    /// The code of the last attempt's refusal, if it was refused.
    fn failed(&self) -> Option<Code>;

    fn answer(self: Box<Self>);
}

/// A request of a caller, and where its answer goes.
pub(super) struct WaitingRequest<T, F, R> {
    f: F,
    reply: R,
    result: Result<T, Refusal>,
}

impl<T, F, R> WaitingRequest<T, F, R> {
    pub(super) fn new(f: F, reply: R) -> Self {
        Self {
            f,
            reply,
            result: Err(broken()),
        }
    }
}

impl<T, F, R> ConnectionTask for WaitingRequest<T, F, R>
where
    T: Send,
    F: FnMut(&mut Fleet) -> Result<T, Refusal> + Send,
    R: FnOnce(Result<T, Refusal>) + Send,
{
    fn run(&mut self, fleet: &mut Fleet) {
        // The result if `f` panics.
        self.result = Err(broken());
        self.result = (self.f)(fleet);
    }

    fn refuse(&mut self, refusal: Refusal) {
        self.result = Err(refusal);
    }

    fn failed(&self) -> Option<Code> {
        self.result.as_ref().err().map(|refusal| refusal.code)
    }

    fn answer(self: Box<Self>) {
        (self.reply)(self.result);
    }
}
