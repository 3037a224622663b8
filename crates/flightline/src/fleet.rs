//! A fleet: where operations run.

mod authority;
mod delegation;
mod erased;
mod precondition;
mod window;

use std::path::Path;
use std::sync::Arc;

use flightline_core::agent::Agent;
use flightline_core::policy::Policy;
use flightline_core::token::Presented;
use flightline_core::{Code, Name, Refusal, Time, Title, TokenId};
use flightline_store::{CrashPoints, Past, Store, StoreError, Tx};
use flightline_workspace::WorkTree;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::clock::TellTime;
use crate::error::{Error, Result};
use crate::event::Cursor;
use crate::lock::watch::note_waiting;
use crate::op_context::{self, OpContext};
use crate::registry::Registered;
use crate::remote::{Deferred, Offline, Remote, RemoteCall, ServerReply};

pub use self::authority::ActsFor;
pub use self::erased::ErasedOutcome;
use self::erased::{Acting, ErasedOperation, OutcomeText, Spec};
pub use self::precondition::{IfUnchanged, Target};
pub use self::window::{ListPart, Window};
pub(crate) use self::window::{documents, newest, page, wanted};
pub use flightline_core::token::Scope;

/// A project's fleet: a store here or elsewhere, the policy it is run by, and the work tree it is run in,
/// where there is one.
pub struct Fleet {
    place: Backend,
    policy: Arc<Policy>,
    work_tree: Option<WorkTree>,
    /// What a store elsewhere said on the way, and what it noticed.
    warnings: Vec<String>,
    noticed: Vec<String>,
}

/// The outcome of an operation, and how it came about.
#[derive(Clone, Debug)]
pub struct Done<T> {
    pub outcome: T,
    /// Whether it is that of an earlier request with the same key: nothing was done this time.
    pub replayed: bool,
    /// Since when the thing that it is about stands as it does: the thing that the caller named, else all there is. Nothing when
    /// that was not looked at.
    pub since: Option<Cursor>,
}

impl<T> Done<T> {
    /// An outcome that says nothing of when, or whether it was given before.
    #[must_use]
    pub fn plain(outcome: T) -> Self {
        Self {
            outcome,
            replayed: false,
            since: None,
        }
    }

    /// Another outcome, that came about in the same way.
    #[must_use]
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Done<U> {
        Done {
            outcome: f(self.outcome),
            replayed: self.replayed,
            since: self.since,
        }
    }
}

/// What came of a request that was not refused: an outcome, or, where the store is elsewhere and cannot be reached, what becomes of
/// the request.
#[derive(Debug)]
pub enum Answered<T> {
    Now(Done<T>),
    /// It was kept on this machine, or dropped because the next one says what it says. Nothing failed.
    Later(Deferred),
}

impl<T> Answered<T> {
    /// The outcome; refuses where there is none yet.
    pub fn now(self) -> std::result::Result<Done<T>, Refusal> {
        match self {
            Self::Now(done) => Ok(done),
            Self::Later(later) => Err(Refusal::new(Code::Unavailable, later.message)),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    Now,
    /// Now; or, where the operation may wait and the store cannot be reached, later.
    NowOrLater,
}

/// How an operation went whose outcome is kept elsewhere.
type Went = Done<()>;

impl Went {
    fn since(since: Cursor) -> Self {
        Self {
            since: Some(since),
            ..Self::plain(())
        }
    }

    fn with<T>(self, outcome: T) -> Done<T> {
        self.map(|()| outcome)
    }
}

enum Backend {
    Here(Box<Store>),
    There(Box<dyn Remote>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    ToDo,
    ToShow,
}

#[derive(Clone, Debug, Default)]
pub struct Caller {
    /// The agent it acts as, by name or id.
    pub agent: Option<String>,
    /// The incarnation it believes it is.
    pub epoch: Option<u64>,
    pub session: Option<String>,
    /// The person at the keyboard.
    pub user: String,
    /// The mission it works on, unless a request names another.
    pub mission: Option<String>,
    /// Makes a write happen once, however often it is asked for.
    pub idempotency_key: Option<String>,
    /// The thing it is about, and what must not have happened to it.
    pub target: Option<Target>,
    /// The place in the journal that it goes on from, when it looks.
    pub place: Option<Cursor>,
    /// Which part of a list it wants. An operation that does not know how to give one gives all.
    pub window: Option<Window>,
    /// The token that a server got with the request: looked at again in every transaction, so that one
    /// that was taken back while its request waited opens nothing.
    pub token: Option<Presented>,
    /// The token that this was said with, which opens nothing any more.
    pub on_behalf_of_token: Option<TokenId>,
}

impl Caller {
    /// The person at the keyboard, as events name them; cleaned like every text that enters.
    #[must_use]
    pub fn person(&self) -> String {
        let name = Title::parse("user", &self.user);
        name.map_or_else(|_| "user:unknown".to_owned(), |name| format!("user:{name}"))
    }

    /// The caller for what Flightline does by itself on the way, once it is known that the request may be made.
    pub(crate) fn housekeeping(&self) -> Self {
        Self {
            token: None,
            ..self.clone()
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    Read,
    Write,
    /// Notes a sign of life.
    Pulse,
}

/// What becomes of a write when the disk is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenFull {
    Refused,
    /// It ends trouble, or takes little and means much: it may use the room that is kept for that.
    UsesReserve,
    /// Its answer is given all the same; what it would have noted is not, and that is said.
    Answered,
}

/// The warning with an answer that could not be recorded.
const UNNOTED: &str =
    "the disk is full: this is the answer, but its delivery could not be recorded";

/// A type whose JSON schema is published. It is made by a test and written down; a build without the feature `schema` has nothing
/// of it.
#[cfg(feature = "schema")]
pub trait HasSchema: schemars::JsonSchema {}

#[cfg(feature = "schema")]
impl<T: schemars::JsonSchema> HasSchema for T {}

/// A type whose JSON schema is published, where schemas are not made.
#[cfg(not(feature = "schema"))]
pub trait HasSchema {}

#[cfg(not(feature = "schema"))]
impl<T> HasSchema for T {}

/// Something Flightline does.
pub trait Operation: Serialize + DeserializeOwned + HasSchema + Send + 'static {
    /// Its name: on the wire, in logs, and for those who wait for it.
    const NAME: &'static str;
    const ACCESS: Access;
    /// The narrowest token that may ask for it.
    const SCOPE: Scope;
    /// Whether the caller must be its agent's current incarnation. Registering is how it becomes that.
    const FENCED: bool = true;
    /// Whether asking for it is an act of the agent that asks: an act registers the agent, and is a sign of its life.
    /// Looking is neither, even where the look is recorded.
    const IS_ACT: bool = true;
    /// Whether its outcome tells an agent what to do: then it is refused in a fleet that is not trusted.
    const BRIEFS: bool = false;
    /// What becomes of it when the store is elsewhere and cannot be reached.
    const OFFLINE: Offline = Offline::Refused;
    /// What becomes of it when the disk is full.
    const WHEN_FULL: WhenFull = WhenFull::Refused;
    type Outcome: Serialize + DeserializeOwned + HasSchema + Send + 'static;

    /// On whose behalf it is asked for, beside the caller's own: a token that does not coordinate is held to it.
    fn acts_for(&self) -> ActsFor<'_>;

    /// The request without observations of the caller's machine: a retry has other observations, and is the same request.
    fn asked(&self) -> Result<String> {
        to_json(self)
    }

    /// The request as it is queued until the store can be reached.
    fn for_later(&self, _asked_at: Time) -> Result<String> {
        to_json(self)
    }

    /// Decides, in one transaction. Touches nothing but the context: it may run twice.
    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<Self::Outcome>;

    /// For an operation that is usually a mere sign of life: notes it, without a revision and without waiting for the
    /// disk. None when it leads to more, and must be decided as a write.
    fn note(&self, ctx: &mut OpContext<'_, '_>) -> Result<Option<Self::Outcome>> {
        self.decide(ctx).map(Some)
    }
}

/// Something that is done where the store is, with the files beside it: more than one transaction.
pub trait StoreJob: Serialize + DeserializeOwned + Send + 'static {
    const NAME: &'static str;
    const ACCESS: Access;
    /// The narrowest token that may ask for it.
    const SCOPE: Scope;
    type Outcome: Serialize + DeserializeOwned + Send + 'static;

    /// Does it, with the state folder beside the store.
    fn run(&self, fleet: &mut Fleet, folder: &Path, caller: &Caller) -> Result<Self::Outcome>;
}

impl Fleet {
    /// The fleet kept in `store`.
    #[must_use]
    pub fn new(store: Store, policy: Policy) -> Self {
        Self::at(Backend::Here(Box::new(store)), policy)
    }

    #[must_use]
    pub fn elsewhere(remote: Box<dyn Remote>, policy: Policy) -> Self {
        Self::at(Backend::There(remote), policy)
    }

    fn at(place: Backend, policy: Policy) -> Self {
        Self {
            place,
            policy: Arc::new(policy),
            work_tree: None,
            warnings: Vec::new(),
            noticed: Vec::new(),
        }
    }

    #[must_use]
    pub fn is_elsewhere(&self) -> bool {
        matches!(self.place, Backend::There(_))
    }

    /// This fleet, run in a work tree, which can be looked at.
    #[must_use]
    pub fn in_tree(self, tree: WorkTree) -> Self {
        Self {
            work_tree: Some(tree),
            ..self
        }
    }

    /// Turns to another project in the same store, whose work tree is given if it is here.
    pub fn enter(&mut self, project: &str, tree: Option<&WorkTree>) {
        if let Backend::Here(store) = &mut self.place
            && store.project() != project
        {
            store.enter(project);
            self.work_tree = tree.cloned();
        }
    }

    #[must_use]
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
        let store = match &mut self.place {
            Backend::Here(store) => store,
            Backend::There(_) => return self.ask_for(act, caller, Asked::ToDo),
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
        asked: Asked,
    ) -> Result<Went> {
        let spec = act.spec();
        let answer = self.ask(&RemoteCall {
            operation: spec.name,
            access: spec.access,
            rehearse: asked == Asked::ToShow,
            offline: match asked {
                Asked::ToDo if act.may_wait() => spec.offline,
                Asked::ToDo | Asked::ToShow => Offline::Refused,
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
        let Backend::There(remote) = &mut self.place else {
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
        let address = match &self.place {
            Backend::Here(_) => "the store",
            Backend::There(remote) => remote.address(),
        };
        let message = format!("the answer of {address} to `{operation}` cannot be read: {error}");
        Refusal::new(Code::Failed, message)
            .hint("use the same version of `fleet` here and there: see `fleet status -v`")
            .into()
    }

    /// Has something done where the store is; `folder` is the state folder beside it, when it is here.
    pub fn run_job<E: StoreJob>(
        &mut self,
        job: &E,
        folder: &Path,
        caller: &Caller,
    ) -> Result<E::Outcome> {
        match self.place {
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

    fn write(&mut self, act: &mut dyn ErasedOperation, caller: &Caller) -> Result<Went> {
        let spec = act.spec();
        let done = match spec.when_full {
            WhenFull::Refused => self.write_with_room(act, caller),
            WhenFull::UsesReserve => self.write_at_last(act, caller),
            WhenFull::Answered => match self.write_with_room(act, caller) {
                Err(Error::Store(full @ StoreError::Full(_))) => {
                    self.answer_unnoted(act, caller, full)
                }
                done => done,
            },
        };
        // One that may not be its agent is no sign of it.
        let lives = |refusal: &Refusal| {
            !matches!(
                refusal.code,
                Code::Fenced | Code::Unauthenticated | Code::Forbidden
            )
        };
        if let Err(Error::Refused(refusal)) = &done
            && spec.is_act
            && lives(refusal)
        {
            self.note_life(caller, refusal);
        }
        done
    }

    /// Writes, and leaves the room alone that is kept for what ends trouble.
    fn write_with_room(&mut self, act: &mut dyn ErasedOperation, caller: &Caller) -> Result<Went> {
        self.store()?.keep_reserve()?;
        self.write_anyhow(act, caller)
    }

    /// Writes, if need be into the room that is kept for that. What a log took of it is given back.
    fn write_at_last(&mut self, act: &mut dyn ErasedOperation, caller: &Caller) -> Result<Went> {
        match self.write_anyhow(act, caller) {
            Err(full) if may_use_reserve(act.spec(), &full) && self.store()?.spend_reserve() => {
                let went = self.write_anyhow(act, caller)?;
                // The write itself is done.
                let _ = self.store()?.fold_log(true);
                Ok(went)
            }
            done => done,
        }
    }

    /// Decides what a write would answer, and writes nothing.
    fn answer_unnoted(
        &mut self,
        act: &mut dyn ErasedOperation,
        caller: &Caller,
        full: StoreError,
    ) -> Result<Went> {
        if self.show(act, caller).is_err() {
            return Err(full.into());
        }
        if !self.warnings.iter().any(|said| said == UNNOTED) {
            self.warnings.push(UNNOTED.to_owned());
        }
        Ok(Went::plain(()))
    }

    fn write_anyhow(&mut self, act: &mut dyn ErasedOperation, caller: &Caller) -> Result<Went> {
        if let Some(key) = &caller.idempotency_key {
            return self.run_once(act, caller, key);
        }
        let policy = Arc::clone(&self.policy);
        let since = self
            .store()?
            .write(|tx| decide_write(act, tx, caller, &policy))?;
        Ok(Went::since(since))
    }

    /// A refused act is a sign of life as well, of its agent and of ourselves. An agent that was refused a lock has
    /// looked whether its holder is alive: otherwise silence around a waiting agent would be taken for our own
    /// downtime, and never end.
    fn note_life(&mut self, caller: &Caller, refusal: &Refusal) {
        let downtime = self.policy.downtime_ms;
        // The refusal stands, whether or not this can be recorded.
        let Ok(store) = self.store() else { return };
        let _ = store.pulse(|tx| {
            let agent = op_context::find_acting(tx, caller)?;
            op_context::check_fence(agent.as_ref(), caller)?;
            if let Some(agent) = agent.filter(|agent| agent.retired_at.is_none()) {
                tx.beat(agent.id, agent.epoch, &serde_json::json!({}))?;
            }
            note_waiting(tx, refusal, downtime)
        });
    }

    fn run_once(
        &mut self,
        act: &mut dyn ErasedOperation,
        caller: &Caller,
        key: &str,
    ) -> Result<Went> {
        if key.is_empty() || key.len() > 255 {
            return Err(Refusal::invalid("an idempotency key has 1 to 255 bytes").into());
        }
        let policy = Arc::clone(&self.policy);
        let request = format!("{} {}", act.spec().name, act.asked()?);
        let actor = match &caller.agent {
            Some(agent) => Name::parse("agent name", agent)?.to_string(),
            None => caller.person(),
        };
        self.store()?.write(|tx| {
            // Who may not ask for it is not told what became of it either.
            authority::check(act, tx, caller)?;
            match past(tx, caller, &actor, key, &request)? {
                Past::Same(outcome) => {
                    act.take(OutcomeText::Remembered(outcome));
                    Ok(Went {
                        replayed: true,
                        ..Went::plain(())
                    })
                }
                Past::Other => Err(Refusal::new(
                    Code::KeyReused,
                    "this idempotency key was used for another request",
                )
                .hint("use a new key for a new request")
                .into()),
                Past::Unknown => {
                    let since = decide_write(act, tx, caller, &policy)?;
                    tx.remember(&actor, key, &request, act.outcome()?)?;
                    Ok(Went::since(since))
                }
            }
        })
    }

    /// Shows what a write would do: runs it, and drops what it wrote.
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
            true => self.ask_for(act, caller, Asked::ToShow),
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
        match &mut self.place {
            Backend::Here(store) => Ok(store),
            Backend::There(remote) => Err(not_here(remote.address()).into()),
        }
    }

    /// Damage that another copy made good, and lost values that were left out, since the last look.
    pub fn take_noticed(&mut self) -> Vec<String> {
        match &mut self.place {
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

    /// What a store elsewhere said on the way to its answers, since the last look.
    pub fn take_warnings(&mut self) -> Vec<String> {
        std::mem::take(&mut self.warnings)
    }

    /// In test builds: where this process ends, or stops. Nowhere, when the store is elsewhere.
    #[must_use]
    pub fn steps(&self) -> CrashPoints {
        match &self.place {
            Backend::Here(store) => store.steps(),
            Backend::There(_) => CrashPoints::default(),
        }
    }

    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    pub fn now(&mut self) -> Result<Time> {
        match &mut self.place {
            Backend::Here(store) => Ok(store.now()?),
            Backend::There(_) => self.run(&TellTime {}, &Caller::default()),
        }
    }
}

/// Refuses what can only be done beside the store.
#[must_use]
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

/// Whether a write met a full disk and may use the room that is kept.
fn may_use_reserve(spec: Spec, error: &Error) -> bool {
    spec.when_full == WhenFull::UsesReserve && matches!(error, Error::Store(StoreError::Full(_)))
}

/// What an earlier request with the same key left behind.
fn past(tx: &mut Tx<'_>, caller: &Caller, actor: &str, key: &str, request: &str) -> Result<Past> {
    if let Some(before) = caller.on_behalf_of_token {
        match delegation::past(tx, (caller, before), key, request)? {
            Past::Unknown => {}
            known @ (Past::Same(_) | Past::Other) => return Ok(known),
        }
    }
    Ok(tx.past(actor, key, request)?)
}

pub(crate) fn to_json<T: Serialize>(value: &T) -> Result<String> {
    serde_json::to_string(value)
        .map_err(|error| Refusal::new(Code::Failed, format!("cannot write JSON: {error}")).into())
}
