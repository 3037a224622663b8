//! A request, as the threads see it: something that can be run, perhaps twice, and answered once.

use flightline::Fleet;
use flightline::core::{Code, Refusal};

use super::broken;

/// Something to be done with a connection.
pub(super) trait Task: Send {
    /// Does it, and keeps what comes of it. May be called again: then only the last time counts.
    fn run(&mut self, fleet: &mut Fleet);

    /// Keeps this for an answer.
    fn refuse(&mut self, refusal: Refusal);

    /// Why the last attempt was refused, if it was.
    fn failed(&self) -> Option<Code>;

    /// Says what came of it to whoever asked.
    fn answer(self: Box<Self>);
}

/// What somebody asked for, and where the answer goes.
pub(super) struct Request<T, F, R> {
    f: F,
    reply: R,
    result: Result<T, Refusal>,
}

impl<T, F, R> Request<T, F, R> {
    pub(super) fn new(f: F, reply: R) -> Self {
        Self {
            f,
            reply,
            result: Err(broken()),
        }
    }
}

impl<T, F, R> Task for Request<T, F, R>
where
    T: Send,
    F: FnMut(&mut Fleet) -> Result<T, Refusal> + Send,
    R: FnOnce(Result<T, Refusal>) + Send,
{
    fn run(&mut self, fleet: &mut Fleet) {
        // What stays should it panic.
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
