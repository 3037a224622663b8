//! A fleet: where operations run.

mod authority;
mod caller;
mod delegation;
mod erased;
mod operation;
mod outcome;
mod precondition;
mod window;
mod write;

use std::path::Path;
use std::sync::Arc;

use flightline_core::agent::Agent;
use flightline_core::policy::Policy;
use flightline_core::{Code, Refusal, Time};
use flightline_store::{CrashPoints, Store, Tx};
use flightline_workspace::WorkTree;
use serde::Serialize;

use crate::clock::TellTime;
use crate::error::{Error, Result};
use crate::event::Cursor;
use crate::op_context::{self, OpContext};
use crate::registry::Registered;
use crate::remote::{Offline, Remote, RemoteCall, ServerReply};

pub use self::authority::ActsFor;
pub use self::caller::Caller;
pub use self::erased::ErasedOutcome;
use self::erased::{Acting, ErasedOperation, OutcomeText, Spec};
pub use self::operation::{Access, HasSchema, Operation, StoreJob, WhenFull};
use self::outcome::Went;
pub use self::outcome::{Answered, Done, When};
pub use self::precondition::{IfUnchanged, Target};
pub use self::window::{ListPart, Window};
pub(crate) use self::window::{documents, listed, part_of, some_rows};
use self::write::may_use_reserve;
pub use flightline_core::token::Scope;

/// A project's fleet: a store here or elsewhere, the policy it is run by, and the work tree it is run in,
/// where there is one.
pub struct Fleet {
    backend: Backend,
    policy: Arc<Policy>,
    work_tree: Option<WorkTree>,
    /// Warnings of a store elsewhere on the way, and notices of it.
    warnings: Vec<String>,
    noticed: Vec<String>,
}

enum Backend {
    Here(Box<Store>),
    There(Box<dyn Remote>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RequestMode {
    ToDo,
    ToShow,
}

impl Fleet {
    /// The fleet kept in `store`.
    pub fn new(store: Store, policy: Policy) -> Self {
        Self::at(Backend::Here(Box::new(store)), policy)
    }

    pub fn elsewhere(remote: Box<dyn Remote>, policy: Policy) -> Self {
        Self::at(Backend::There(remote), policy)
    }

    fn at(backend: Backend, policy: Policy) -> Self {
        Self {
            backend,
            policy: Arc::new(policy),
            work_tree: None,
            warnings: Vec::new(),
            noticed: Vec::new(),
        }
    }

    pub fn is_elsewhere(&self) -> bool {
        matches!(self.backend, Backend::There(_))
    }

    /// Returns this fleet, run in a work tree, which can be looked at.
    #[must_use]
    pub fn in_tree(self, tree: WorkTree) -> Self {
        Self {
            work_tree: Some(tree),
            ..self
        }
    }

    /// Turns to another project in the same store, whose work tree is given if it is here.
    pub fn enter(&mut self, project: &str, tree: Option<&WorkTree>) {
        if let Backend::Here(store) = &mut self.backend
            && store.project() != project
        {
            store.enter(project);
            self.work_tree = tree.cloned();
        }
    }

    pub fn work_tree(&self) -> Option<&WorkTree> {
        self.work_tree.as_ref()
    }

    /// Runs an operation for `caller`. When a write returns `Ok`, its outcome is durable and has been
    /// read back; when it returns `Err`, nothing was written but that its caller is alive.
    pub fn run<O: Registered>(&mut self, operation: &O, caller: &Caller) -> Result<O::Outcome> {
        self.run_fully(operation, caller).map(|done| done.outcome)
    }

    /// Runs an operation like [`Fleet::run`], and says how it went, too.
    pub fn run_fully<O: Registered>(
        &mut self,
        operation: &O,
        caller: &Caller,
    ) -> Result<Done<O::Outcome>> {
        Ok(operation.run_in(self, caller, When::Now)?.now()?)
    }

    /// Runs an operation like [`Fleet::run`]; where the store is elsewhere and cannot be reached, one that may wait is kept until
    /// it can.
    pub fn run_or_keep<O: Registered>(
        &mut self,
        operation: &O,
        caller: &Caller,
    ) -> Result<Answered<O::Outcome>> {
        operation.run_in(self, caller, When::NowOrLater)
    }

    pub(crate) fn act_out<O: Operation>(
        &mut self,
        operation: &O,
        caller: &Caller,
        when: When,
    ) -> Result<Answered<O::Outcome>> {
        let mut acting = Acting::new(operation, when);
        let went = self.perform(&mut acting, caller)?;
        acting.done(self, went)
    }

    /// Runs or rehearses an operation for a front end that needs only the text of its outcome.
    pub(crate) fn act_erased<O: Operation>(
        &mut self,
        operation: &O,
        caller: &Caller,
        rehearse: bool,
    ) -> Result<Answered<Box<dyn ErasedOutcome>>> {
        let mut acting = Acting::new(operation, When::NowOrLater);
        let went = match rehearse {
            true => self.show_act(&mut acting, caller)?,
            false => self.perform(&mut acting, caller)?,
        };
        acting.erased(went)
    }

    fn perform(&mut self, act: &mut dyn ErasedOperation, caller: &Caller) -> Result<Went> {
        let spec = act.spec();
        let store = match &mut self.backend {
            Backend::Here(store) => store,
            Backend::There(_) => return self.ask_for(act, caller, RequestMode::ToDo),
        };
        if spec.briefs {
            store.check_trust()?;
        }
        let policy = Arc::clone(&self.policy);
        match spec.access {
            Access::Read => {
                let since = store.read(|tx| {
                    let scope = authority::check(act, tx, caller)?;
                    let agent = op_context::find_acting(tx, caller)?;
                    let ctx = &mut OpContext {
                        tx,
                        caller,
                        scope,
                        policy: &policy,
                        agent,
                    };
                    precondition::check_place(ctx)?;
                    act.decide(ctx)?;
                    precondition::since(ctx)
                })?;
                Ok(Went::since(since))
            }
            Access::Pulse => {
                let mut note = |tx: &mut Tx<'_>| {
                    let scope = authority::check(act, tx, caller)?;
                    let agent = op_context::find_acting(tx, caller)?;
                    op_context::check_fence(agent.as_ref(), caller)?;
                    act.note(&mut OpContext {
                        tx,
                        caller,
                        scope,
                        policy: &policy,
                        agent,
                    })
                };
                let noted = match store.pulse(&mut note) {
                    Err(full) if may_use_reserve(spec, &full) && store.spend_reserve() => {
                        store.pulse(&mut note)
                    }
                    noted => noted,
                };
                match noted? {
                    true => Ok(Went::plain(())),
                    false => self.write(act, caller),
                }
            }
            Access::Write => self.write(act, caller),
        }
    }

    fn ask_for(
        &mut self,
        act: &mut dyn ErasedOperation,
        caller: &Caller,
        asked: RequestMode,
    ) -> Result<Went> {
        let spec = act.spec();
        let answer = self.ask(&RemoteCall {
            operation: spec.name,
            access: spec.access,
            rehearse: asked == RequestMode::ToShow,
            offline: match asked {
                RequestMode::ToDo if act.may_wait() => spec.offline,
                RequestMode::ToDo | RequestMode::ToShow => Offline::Refused,
            },
            request: act.request()?,
            later: &|asked_at| act.for_later(asked_at),
            caller,
        })?;
        Ok(answer.map(|reply| match reply {
            ServerReply::Outcome(text) => act.take(OutcomeText::Received(text)),
            ServerReply::Later(later) => act.wait(later),
        }))
    }

    /// Asks for something where the store is, and gives the outcome as JSON.
    fn ask(&mut self, call: &RemoteCall<'_>) -> Result<Done<ServerReply>> {
        let Backend::There(remote) = &mut self.backend else {
            return Err(Refusal::new(Code::Failed, "the store is here").into());
        };
        let answer = remote.call(call);
        self.warnings.extend(answer.warnings);
        self.noticed.extend(answer.noticed);
        Ok(Done {
            replayed: answer.replayed,
            ..Done::plain(answer.reply?)
        })
    }

    fn unreadable(&self, operation: &str, error: &serde_json::Error) -> Error {
        let address = match &self.backend {
            Backend::Here(_) => "the store",
            Backend::There(remote) => remote.address(),
        };
        let message = format!("the answer of {address} to `{operation}` cannot be read: {error}");
        Refusal::new(Code::Failed, message)
            .hint("use the same version of `fleet` here and there: see `fleet status -v`")
            .into()
    }

    /// Runs a store job where the store is; `folder` is the state folder beside it, when it is here.
    pub fn run_job<E: StoreJob>(
        &mut self,
        job: &E,
        folder: &Path,
        caller: &Caller,
    ) -> Result<E::Outcome> {
        match self.backend {
            Backend::Here(_) => {
                if caller.token.is_some() {
                    self.store()?
                        .read(|tx| authority::check_store_job::<E>(tx, caller))?;
                }
                job.run(self, folder, &caller.housekeeping())
            }
            Backend::There(_) => {
                let answer = self.ask(&RemoteCall {
                    operation: E::NAME,
                    access: E::ACCESS,
                    rehearse: false,
                    offline: Offline::Refused,
                    request: to_json(job)?,
                    later: &|_| to_json(job),
                    caller,
                })?;
                match answer.outcome {
                    ServerReply::Outcome(text) => serde_json::from_str(&text)
                        .map_err(|error| self.unreadable(E::NAME, &error)),
                    ServerReply::Later(later) => {
                        Err(Refusal::new(Code::Unavailable, later.message).into())
                    }
                }
            }
        }
    }

    /// Shows the effect of a write: runs it, and drops its writes.
    pub fn rehearse<O: Registered>(
        &mut self,
        operation: &O,
        caller: &Caller,
    ) -> Result<O::Outcome> {
        operation.rehearse_in(self, caller)
    }

    pub(crate) fn show_acted<O: Operation>(
        &mut self,
        operation: &O,
        caller: &Caller,
    ) -> Result<O::Outcome> {
        let mut acting = Acting::new(operation, When::Now);
        let went = self.show_act(&mut acting, caller)?;
        Ok(acting.done(self, went)?.now()?.outcome)
    }

    fn show_act(&mut self, act: &mut dyn ErasedOperation, caller: &Caller) -> Result<Went> {
        match self.is_elsewhere() {
            true => self.ask_for(act, caller, RequestMode::ToShow),
            false => self.show(act, caller).map(Went::plain),
        }
    }

    fn show(&mut self, act: &mut dyn ErasedOperation, caller: &Caller) -> Result<()> {
        let policy = Arc::clone(&self.policy);
        self.store()?
            .rehearse(|tx| decide_write(act, tx, caller, &policy))
            .map(drop)
    }

    /// Rehearses several acts in one transaction, for a caller that may ask for this operation.
    pub(crate) fn rehearse_acts<O: Operation, T>(
        &mut self,
        operation: &O,
        caller: &Caller,
        acts: impl Fn(&mut OpContext<'_, '_>) -> Result<T>,
    ) -> Result<T> {
        let policy = Arc::clone(&self.policy);
        let acting = Acting::new(operation, When::Now);
        self.store()?.rehearse(|tx| {
            let scope = authority::check(&acting, tx, caller)?;
            let agent = op_context::acting(tx, caller)?;
            acts(&mut OpContext {
                tx,
                caller,
                scope,
                policy: &policy,
                agent,
            })
        })
    }

    /// The store, for what works on all of it at once. Refuses when the store is elsewhere.
    pub fn store(&mut self) -> Result<&mut Store> {
        match &mut self.backend {
            Backend::Here(store) => Ok(store),
            Backend::There(remote) => Err(not_here(remote.address()).into()),
        }
    }

    /// Damage that another copy made good, and lost values that were left out, since the last look.
    pub fn take_noticed(&mut self) -> Vec<String> {
        match &mut self.backend {
            Backend::Here(store) => {
                let (noticed, losses) = (store.take_noticed(), store.take_losses());
                let noticed = noticed.iter().map(ToString::to_string);
                noticed
                    .chain(losses.iter().map(|loss| format!("{loss}; {}", loss.hint())))
                    .collect()
            }
            Backend::There(_) => std::mem::take(&mut self.noticed),
        }
    }

    /// Returns the warnings of a store elsewhere that came with its answers, since the last call.
    pub fn take_warnings(&mut self) -> Vec<String> {
        std::mem::take(&mut self.warnings)
    }

    /// Returns the crash points: in test builds, the places where this process ends or stops. There are none when the
    /// store is elsewhere.
    pub fn steps(&self) -> CrashPoints {
        match &self.backend {
            Backend::Here(store) => store.steps(),
            Backend::There(_) => CrashPoints::default(),
        }
    }

    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    pub fn now(&mut self) -> Result<Time> {
        match &mut self.backend {
            Backend::Here(store) => Ok(store.now()?),
            Backend::There(_) => self.run(&TellTime {}, &Caller::default()),
        }
    }
}

/// The refusal of work that can be done only beside the store.
pub fn not_here(address: &str) -> Refusal {
    Refusal::invalid(format!(
        "this command works on the store itself, which is at {address}"
    ))
    .hint("run it there; or, for a store on this machine, give `--location`")
}

fn decide_write(
    act: &mut dyn ErasedOperation,
    tx: &mut Tx<'_>,
    caller: &Caller,
    policy: &Policy,
) -> Result<Cursor> {
    let scope = authority::check(act, tx, caller)?;
    let agent = acting_agent(act.spec(), tx, caller)?;
    let ctx = &mut OpContext {
        tx,
        caller,
        scope,
        policy,
        agent,
    };
    precondition::check(ctx)?;
    act.decide(ctx)?;
    precondition::since(ctx)
}

/// Decides an operation as a part of another one's transaction, under the same rules as alone.
pub(crate) fn decide_part<O: Operation>(
    operation: &O,
    ctx: &mut OpContext<'_, '_>,
) -> Result<O::Outcome> {
    let acting = Acting::new(operation, When::Now);
    let scope = authority::check(&acting, ctx.tx, ctx.caller)?;
    let agent = acting_agent(acting.spec(), ctx.tx, ctx.caller)?;
    operation.decide(&mut OpContext {
        tx: &mut *ctx.tx,
        caller: ctx.caller,
        scope,
        policy: ctx.policy,
        agent,
    })
}

/// The agent that acts or looks, if its incarnation may.
fn acting_agent(spec: Spec, tx: &mut Tx<'_>, caller: &Caller) -> Result<Option<Agent>> {
    match (spec.fenced, spec.is_act) {
        (true, true) => op_context::acting(tx, caller),
        (true, false) => op_context::looking(tx, caller),
        (false, _) => Ok(None),
    }
}

pub(crate) fn to_json<T: Serialize>(value: &T) -> Result<String> {
    serde_json::to_string(value)
        .map_err(|error| Refusal::new(Code::Failed, format!("cannot write JSON: {error}")).into())
}
