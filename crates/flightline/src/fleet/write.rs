//! Carries out a write: once for a key, with or without room on the disk, and as a sign of life when it is refused.

use super::erased::{ErasedOperation, OutcomeText, Spec};
use super::{Caller, Fleet, Went, WhenFull, authority, decide_write, delegation};
use crate::error::{Error, Result};
use crate::lock::watch::note_waiting;
use crate::op_context::{self};
use flightline_core::{Code, Name, Refusal};
use flightline_store::{Past, StoreError, Tx};
use std::sync::Arc;

/// The warning with an answer that could not be recorded.
const UNNOTED: &str =
    "the disk is full: this is the answer, but its delivery could not be recorded";

impl Fleet {
    pub(super) fn write(&mut self, act: &mut dyn ErasedOperation, caller: &Caller) -> Result<Went> {
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
        // A caller that may not be its agent is no sign of the agent's life.
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

    /// Writes, into the reserve on the disk if necessary, and gives back the room that the log took of it.
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

    /// Decides the answer of a write, and writes nothing.
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
            // A caller that may not ask for it must not learn the remembered outcome either.
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
}

/// Returns true when a write met a full disk and may use the room that is kept.
pub(super) fn may_use_reserve(spec: Spec, error: &Error) -> bool {
    spec.when_full == WhenFull::UsesReserve && matches!(error, Error::Store(StoreError::Full(_)))
}

/// Returns the outcome that an earlier request with the same key left behind.
fn past(tx: &mut Tx<'_>, caller: &Caller, actor: &str, key: &str, request: &str) -> Result<Past> {
    if let Some(before) = caller.on_behalf_of_token {
        match delegation::past(tx, (caller, before), key, request)? {
            Past::Unknown => {}
            known @ (Past::Same(_) | Past::Other) => return Ok(known),
        }
    }
    Ok(tx.past(actor, key, request)?)
}
