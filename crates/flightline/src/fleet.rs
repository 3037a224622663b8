//! A fleet: where operations run.

use flightline_core::policy::Policy;
use flightline_core::{Code, Name, Refusal, Time, Title};
use flightline_store::{Past, Store};
use flightline_workspace::WorkTree;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::desk::{self, Desk};
use crate::error::{Error, Result};

/// A project's fleet: a store, the policy it is run by, and the work tree it is run in, where there is one.
pub struct Fleet {
    store: Store,
    policy: Policy,
    work_tree: Option<WorkTree>,
    /// Whether the last outcome was remembered from an earlier request with the same key.
    replayed: bool,
}

/// Who asks for an operation, and how.
#[derive(Clone, Debug, Default)]
pub struct Caller {
    /// The agent it acts as, by name or id.
    pub agent: Option<String>,
    /// The incarnation it believes it is.
    pub epoch: Option<u64>,
    /// The client session it acts in.
    pub session: Option<String>,
    /// The person at the keyboard.
    pub user: String,
    /// The mission it works on, unless a request names another.
    pub mission: Option<String>,
    /// Makes a write happen once, however often it is asked for.
    pub idempotency_key: Option<String>,
}

impl Caller {
    /// The person at the keyboard, as events name them; cleaned like every text that enters.
    #[must_use]
    pub fn person(&self) -> String {
        let name = Title::parse("user", &self.user);
        name.map_or_else(|_| "user:unknown".to_owned(), |name| format!("user:{name}"))
    }
}

/// What an operation does to the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Looks.
    Read,
    /// Changes state.
    Write,
    /// Notes a sign of life.
    Pulse,
}

/// Something Flightline does.
pub trait Operation: Serialize + DeserializeOwned {
    /// Its name: on the wire, in logs, and for those who wait for it.
    const NAME: &'static str;
    /// What it does to the store.
    const ACCESS: Access;
    /// Whether the caller must be its agent's current incarnation. Registering is how it becomes that.
    const FENCED: bool = true;
    /// What comes of it.
    type Outcome: Serialize + DeserializeOwned;

    /// What is asked for, without what the caller's machine saw: whoever asks again has seen other things,
    /// and asks for the same.
    ///
    /// # Errors
    /// When it cannot be written down.
    fn asked(&self) -> Result<String> {
        to_json(self)
    }

    /// Decides, in one transaction. Touches nothing but the desk: it may run twice.
    ///
    /// # Errors
    /// When it will not be done, or the store fails.
    fn decide(&self, desk: &mut Desk<'_, '_>) -> Result<Self::Outcome>;

    /// For what is usually a mere sign of life: notes it, without a revision and without waiting for the
    /// disk. None when it leads to more, and must be decided as a write.
    ///
    /// # Errors
    /// When it will not be done, or the store fails.
    fn note(&self, desk: &mut Desk<'_, '_>) -> Result<Option<Self::Outcome>> {
        self.decide(desk).map(Some)
    }
}

impl Fleet {
    /// The fleet kept in `store`.
    #[must_use]
    pub fn new(store: Store, policy: Policy) -> Self {
        Self {
            store,
            policy,
            work_tree: None,
            replayed: false,
        }
    }

    /// The same, run in a work tree: what is in it can be looked at.
    #[must_use]
    pub fn in_tree(self, tree: WorkTree) -> Self {
        Self {
            work_tree: Some(tree),
            ..self
        }
    }

    /// The work tree it is run in.
    #[must_use]
    pub fn work_tree(&self) -> Option<&WorkTree> {
        self.work_tree.as_ref()
    }

    /// Runs an operation for `caller`. When a write returns `Ok`, its outcome is durable and has been
    /// read back; when it returns `Err`, nothing was written but that its caller is alive.
    ///
    /// # Errors
    /// When it will not be done, the caller is fenced, or the store fails.
    pub fn run<O: Operation>(&mut self, operation: &O, caller: &Caller) -> Result<O::Outcome> {
        let policy = self.policy.clone();
        self.replayed = false;
        match O::ACCESS {
            Access::Read => self.store.read(|tx| {
                let agent = desk::find_acting(tx, caller)?;
                operation.decide(&mut Desk {
                    tx,
                    caller,
                    policy: &policy,
                    agent,
                })
            }),
            Access::Pulse => {
                let noted = self.store.pulse(|tx| {
                    let agent = desk::find_acting(tx, caller)?;
                    desk::check_fence(agent.as_ref(), caller)?;
                    operation.note(&mut Desk {
                        tx,
                        caller,
                        policy: &policy,
                        agent,
                    })
                })?;
                match noted {
                    Some(outcome) => Ok(outcome),
                    None => self.write(operation, caller),
                }
            }
            Access::Write => self.write(operation, caller),
        }
    }

    fn write<O: Operation>(&mut self, operation: &O, caller: &Caller) -> Result<O::Outcome> {
        let policy = self.policy.clone();
        let outcome = match &caller.idempotency_key {
            None => self
                .store
                .write(|tx| decide_write(operation, tx, caller, &policy)),
            Some(key) => self.run_once(operation, caller, key),
        };
        if matches!(&outcome, Err(Error::Refused(refusal)) if refusal.code != Code::Fenced) {
            self.note_life(caller);
        }
        outcome
    }

    /// A refused act is a sign of life as well, of its agent and of ourselves: else the silence around
    /// somebody who only waits for a lock would be taken for our own downtime, and never end.
    fn note_life(&mut self, caller: &Caller) {
        // What was refused is refused, whether or not this can be noted.
        let _ = self.store.pulse(|tx| {
            let agent = desk::find_acting(tx, caller)?;
            desk::check_fence(agent.as_ref(), caller)?;
            if let Some(agent) = agent.filter(|agent| agent.retired_at.is_none()) {
                tx.beat(agent.id, agent.epoch, &serde_json::json!({}))?;
            }
            Ok::<_, Error>(())
        });
    }

    fn run_once<O: Operation>(
        &mut self,
        operation: &O,
        caller: &Caller,
        key: &str,
    ) -> Result<O::Outcome> {
        if key.is_empty() || key.len() > 255 {
            return Err(Refusal::invalid("an idempotency key has 1 to 255 bytes").into());
        }
        let policy = self.policy.clone();
        let request = format!("{} {}", O::NAME, operation.asked()?);
        let actor = match &caller.agent {
            Some(agent) => Name::parse("agent name", agent)?.to_string(),
            None => caller.person(),
        };
        let mut replayed = false;
        let outcome = self
            .store
            .write(|tx| match tx.past(&actor, key, &request)? {
                Past::Same(outcome) => {
                    replayed = true;
                    serde_json::from_str(&outcome).map_err(|error| {
                        Error::Store(flightline_store::Error::Corrupt(format!(
                            "a remembered outcome: {error}"
                        )))
                    })
                }
                Past::Other => Err(Refusal::new(
                    Code::KeyReused,
                    "this idempotency key was used for another request",
                )
                .hint("use a new key for a new request")
                .into()),
                Past::Unknown => {
                    let outcome = decide_write(operation, tx, caller, &policy)?;
                    tx.remember(&actor, key, &request, to_json(&outcome)?)?;
                    Ok(outcome)
                }
            });
        self.replayed = replayed;
        outcome
    }

    /// Whether the outcome of the last operation was that of an earlier request with the same key: nothing
    /// was done this time.
    #[must_use]
    pub fn was_replayed(&self) -> bool {
        self.replayed
    }

    /// Shows what a write would do: runs it, and drops what it wrote.
    ///
    /// # Errors
    /// When it would not be done, or the store fails.
    pub fn rehearse<O: Operation>(&mut self, operation: &O, caller: &Caller) -> Result<O::Outcome> {
        let policy = self.policy.clone();
        self.store
            .rehearse(|tx| decide_write(operation, tx, caller, &policy))
    }

    /// The same of several acts in one transaction.
    pub(crate) fn rehearse_acts<T>(
        &mut self,
        caller: &Caller,
        acts: impl Fn(&mut Desk<'_, '_>) -> Result<T>,
    ) -> Result<T> {
        let policy = self.policy.clone();
        self.store.rehearse(|tx| {
            let agent = desk::acting(tx, caller)?;
            acts(&mut Desk {
                tx,
                caller,
                policy: &policy,
                agent,
            })
        })
    }

    /// The store, for what works on all of it at once.
    pub fn store(&mut self) -> &mut Store {
        &mut self.store
    }

    /// The policy.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The store's time.
    ///
    /// # Errors
    /// When the store fails.
    pub fn now(&mut self) -> Result<Time> {
        Ok(self.store.now()?)
    }
}

fn decide_write<O: Operation>(
    operation: &O,
    tx: &mut flightline_store::Tx<'_>,
    caller: &Caller,
    policy: &Policy,
) -> Result<O::Outcome> {
    let agent = if O::FENCED {
        desk::acting(tx, caller)?
    } else {
        None
    };
    operation.decide(&mut Desk {
        tx,
        caller,
        policy,
        agent,
    })
}

pub(crate) fn to_json<T: Serialize>(value: &T) -> Result<String> {
    serde_json::to_string(value)
        .map_err(|error| Refusal::new(Code::Failed, format!("cannot write JSON: {error}")).into())
}
