//! Copies of the whole store, and the way back.

use crate::Schema;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use flightline_core::agent::Agent;
use flightline_core::checkpoint::Reason;
use flightline_core::event::EventType;
use flightline_core::history::{Branch, FollowedHistory};
use flightline_core::lock::Lock;
use flightline_core::mission::Mission;
use flightline_core::setting::{EpochFloor, Restoration};
use flightline_core::stand_in::FORGOTTEN_EPOCHS;
use flightline_core::token::Token;
use flightline_core::{Code, Kind, Name, Refusal, Subject, Time};
use flightline_store::{Actor, Find, Store, StoreError, Tx};
use flightline_workspace::beneath::Dir;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::checkpoint::backups::settle_and_tell;
use crate::checkpoint::readable;
use crate::checkpoint::take::NewCheckpoint;
use crate::checkpoint::trigger::try_take_anew;
use crate::doctor::{Care, examine_backups};
use crate::error::{Error, Result};
use crate::file::NamedFile;
use crate::fleet::{Caller, Fleet, Scope};
use crate::op_context::{self, OpContext};

/// The outcome of a backup.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
pub struct BackedUp {
    /// The file of the backup.
    pub file: PathBuf,
    /// The revision that the backup holds.
    pub rev: u64,
    /// Number of events in the backup.
    pub events: u64,
    /// Number of subjects in the backup.
    pub subjects: u64,
    /// The size of the file in bytes.
    pub bytes: u64,
}

/// The outcome of a restore.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
pub struct Restored {
    /// The backup that was restored.
    pub file: PathBuf,
    /// The revision that the backup held.
    pub rev: u64,
    /// Number of events that were restored.
    pub events: u64,
    /// The new history: cursors of the old one are void.
    pub history: String,
    /// Number of locks that were released, because a restore grants no old locks.
    pub released_locks: u64,
    /// The backup of the store that was replaced.
    pub undo: PathBuf,
}

/// Copies the whole store, as of one moment, to a new file. When this returns `Ok`, the copy has been
/// verified. Refuses a file that exists.
pub fn back_up(fleet: &mut Fleet, file: &Path) -> Result<BackedUp> {
    let copied = fleet.store()?.back_up(file)?;
    Ok(BackedUp {
        file: file.to_path_buf(),
        rev: copied.rev,
        events: copied.events,
        subjects: copied.subjects,
        bytes: crate::file::size(file).ok().flatten().unwrap_or(0),
    })
}

/// A name in the folder `backups` of a state folder that is free yet, for a copy of the store. Makes the folder,
/// private, when need be.
pub fn free_file(state: &Path, stem: &str) -> Result<PathBuf> {
    let place = state.join("backups");
    let cannot = |error: std::io::Error| {
        Refusal::new(
            Code::Unavailable,
            format!("cannot create {}: {error}", place.display()),
        )
    };
    let folder = Dir::make_private(state)
        .and_then(|state| state.make("backups", 0o700))
        .map_err(cannot)?;
    let name = |number: u32| match number {
        0 => format!("{stem}.db"),
        _ => format!("{stem}-{number}.db"),
    };
    let is_free = |name: &String| matches!(folder.entry(name), Ok(None));
    let free = (0..1000).map(name).find(is_free);
    free.map(|name| place.join(name)).ok_or_else(|| {
        Refusal::new(
            Code::Failed,
            format!("{} is full of backups", place.display()),
        )
        .into()
    })
}

/// Replaces the store's content by a backup's, after copying the old content to `keep`. Every session,
/// lock and cursor of before is void afterwards. Refuses a `keep` that exists. When this fails, nothing has changed.
pub fn restore(
    fleet: &mut Fleet,
    file: &NamedFile,
    keep: &Path,
    caller: &Caller,
) -> Result<Restored> {
    let actor = fleet.store()?.read(|tx| {
        let agent = op_context::find_acting(tx, caller)?;
        op_context::check_fence(agent.as_ref(), caller)?;
        Ok::<_, Error>(agent.map_or_else(|| caller.person(), |agent| agent.name.to_string()))
    })?;
    // A damaged store is the best reason to restore: what cannot be verified is kept as it is.
    match fleet.store()?.back_up(keep) {
        Err(StoreError::Corrupt(_)) => fleet.store()?.back_up_as_it_is(keep)?,
        kept => kept?,
    };
    let seen = ReplacedStore::by(fleet.store()?)?;
    let policy = fleet.policy().clone();
    let by_a_person = Caller {
        agent: None,
        ..caller.clone()
    };
    let (path, open) = (file.path(), || file.open());
    fleet.store()?.restore_opened(path, &open, 0, |tx, copied| {
        tx.act_as(Actor {
            name: actor.clone(),
            epoch: None,
        });
        let mut follows = vec![FollowedHistory {
            history: copied.history.clone(),
            up_to: copied.rev,
        }];
        let earlier = followed_by(tx, &copied.history)?;
        let restoration = Restoration {
            at: tx.now(),
            rev: copied.rev,
            events: copied.events,
            // Without the history before, the abandoned revisions are unknown.
            history: earlier.as_ref().map(|_| tx.history().to_owned()),
            follows: {
                follows.extend(earlier.unwrap_or_default());
                follows
            },
        };
        tx.set(
            EventType::StoreRestored,
            &restoration,
            &json!({ "rev": copied.rev, "events": copied.events }),
        )?;
        let released_locks = void_locks(tx, "the store was restored")?;
        void_epochs(tx, &seen, "the store was restored")?;
        void_tokens(tx, &seen, "the store was restored")?;
        let mut ctx = OpContext {
            tx: &mut *tx,
            caller: &by_a_person,
            scope: Scope::Admin,
            policy: &policy,
            agent: None,
        };
        save_every_mission(&mut ctx, "The store was restored")?;
        Ok(Restored {
            file: path.to_path_buf(),
            rev: copied.rev,
            events: copied.events,
            history: tx.history().to_owned(),
            released_locks,
            undo: keep.to_path_buf(),
        })
    })
}

/// Returns the histories that a history continues, nearest first; none when they are not known.
pub(crate) fn followed_by(tx: &mut Tx<'_>, history: &str) -> Result<Option<Vec<FollowedHistory>>> {
    let (mut follows, mut at) = (Vec::new(), history.to_owned());
    loop {
        match tx.get::<Branch>(&Branch::key_of(&at)) {
            Ok(Some(branch)) if follows.len() < FOLLOWED => {
                at.clone_from(&branch.before);
                follows.push(FollowedHistory {
                    history: branch.before,
                    up_to: branch.left_at,
                });
            }
            Ok(None) => break,
            Ok(Some(_)) | Err(StoreError::Corrupt(_)) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
    }
    match tx.get::<Restoration>(Restoration::KEY) {
        Ok(None) => Ok(Some(follows)),
        Ok(Some(restoration)) if restoration.history.as_deref() == Some(&*at) => {
            follows.extend(restoration.follows);
            Ok(Some(follows))
        }
        Ok(Some(_)) | Err(StoreError::Corrupt(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Takes a checkpoint of every mission, so that a file has its present state: older files are of the abandoned
/// history.
pub(crate) fn save_every_mission(ctx: &mut OpContext<'_, '_>, why: &str) -> Result<()> {
    let (missions, _) = readable::<Mission>(ctx.tx, Find::All)?;
    for mission in &missions {
        let taking = NewCheckpoint {
            mission,
            reason: Reason::AfterRestore,
            details: Some(why.to_owned()),
            note: None,
            blockers: Vec::new(),
        };
        // A checkpoint that cannot be taken is noted, and stops nothing.
        drop(try_take_anew(ctx, &taking)?);
    }
    Ok(())
}

/// Brings the files of checkpoints in line with a store that was restored: those it lacks are written, `latest.json`
/// names the newest. Returns a sentence for each failure.
pub fn bring_files_up(fleet: &mut Fleet, state: &Path, caller: &Caller) -> Result<Vec<String>> {
    let mut troubles = Vec::new();
    // Each call writes a few; one that cannot be written is told, and left to the next command.
    let waiting = fleet.store()?.read(|tx| tx.unsettled_backups())?.len();
    for _ in 0..waiting {
        let said = settle_and_tell(fleet, state, caller)?;
        let is_stuck = !said.is_empty();
        let told = said.into_iter().map(|(id, why)| format!("{id}: {why}"));
        troubles.extend(told);
        if is_stuck || fleet.store()?.read(|tx| tx.unsettled_backups())?.is_empty() {
            break;
        }
    }
    for check in examine_backups(fleet, state, Care::Repair)? {
        if !check.ok {
            troubles.extend(check.findings);
        }
    }
    Ok(troubles)
}

/// Takes back the locks granted before.
pub(crate) fn void_locks(tx: &mut Tx<'_>, reason: &str) -> Result<u64> {
    let locks = tx.find::<Lock>(Find::All)?;
    for lock in &locks {
        tx.remove(
            EventType::LockReleased,
            lock,
            &json!({ "file": lock.file, "reason": reason }),
        )?;
    }
    Ok(locks.len() as u64)
}

/// Maximum number of histories that are followed back.
const FOLLOWED: usize = 64;

/// The records of a replaced store that must outlive it: epochs, and tokens that were revoked.
pub(crate) struct ReplacedStore {
    /// Revoked tokens by id, each with the time of its revocation, where that can still be read.
    revoked: BTreeMap<String, Option<Time>>,
    agents: Vec<Agent>,
    floor: u64,
    /// True when some records could not be read.
    incomplete: bool,
}

impl ReplacedStore {
    /// No records, because the store was lost.
    pub(crate) const NOTHING: Self = Self {
        revoked: BTreeMap::new(),
        agents: Vec::new(),
        floor: 0,
        incomplete: true,
    };

    /// Reads the records of a store, as far as they can be read.
    pub(crate) fn by(store: &mut Store) -> Result<Self> {
        store.read(|tx| {
            let floor = tx.get::<EpochFloor>(EpochFloor::KEY);
            let mut seen = Self {
                revoked: revoked(tx)?,
                agents: Vec::new(),
                incomplete: floor.is_err(),
                floor: floor
                    .ok()
                    .flatten()
                    .map_or(0, |floor| floor.epoch)
                    .max(tx.epochs_above()?),
            };
            for row in tx.rows(Kind::Agent, Find::All)? {
                match tx.get::<Agent>(&row.id) {
                    Ok(agent) => seen.agents.extend(agent),
                    Err(StoreError::Corrupt(_)) => seen.incomplete = true,
                    Err(error) => return Err(error.into()),
                }
            }
            Ok::<_, Error>(seen)
        })
    }
}

/// The revoked tokens, and the unreadable ones, which may have been revoked.
fn revoked(tx: &mut Tx<'_>) -> Result<BTreeMap<String, Option<Time>>> {
    let mut revoked = BTreeMap::new();
    for row in tx.rows(Kind::Token, Find::All)? {
        match tx.get::<Token>(&row.id) {
            Ok(token) => {
                let at = token.and_then(|token| token.revoked_at);
                revoked.extend(at.map(|at| (row.id, Some(at))));
            }
            Err(StoreError::Corrupt(_)) => {
                revoked.insert(row.id, None);
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(revoked)
}

/// Revokes again the tokens that were revoked after the backup was made.
fn void_tokens(tx: &mut Tx<'_>, seen: &ReplacedStore, reason: &str) -> Result<()> {
    for mut token in tx.find::<Token>(Find::All)? {
        let Some(at) = seen.revoked.get(&token.key()) else {
            continue;
        };
        if token.revoked_at.is_none() {
            token.revoked_at = Some(at.unwrap_or_else(|| tx.now()));
            let data = json!({ "name": token.name, "token_id": token.id, "reason": reason });
            tx.set(EventType::TokenRevoked, &token, &data)?;
        }
    }
    Ok(())
}

/// Ends every session: no epoch of before is accepted any more.
pub(crate) fn void_epochs(tx: &mut Tx<'_>, seen: &ReplacedStore, reason: &str) -> Result<()> {
    let mut agents = tx.find::<Agent>(Find::All)?;
    let known = agents.iter().chain(&seen.agents);
    let highest = known.map(|agent| agent.epoch).max().unwrap_or(0);
    let mut floor = tx
        .get::<EpochFloor>(EpochFloor::KEY)?
        .map_or(0, |floor| floor.epoch)
        .max(seen.floor);
    if seen.incomplete {
        floor = floor.max(highest + FORGOTTEN_EPOCHS);
    }
    if floor > 0 {
        tx.set(
            EventType::EpochsForgotten,
            &EpochFloor { epoch: floor },
            &json!({ "reason": reason, "above": floor }),
        )?;
    }
    let epochs: BTreeMap<&Name, u64> = seen
        .agents
        .iter()
        .map(|agent| (&agent.name, agent.epoch))
        .collect();
    // Agents that came after the backup are kept as retired ones: were they forgotten, their names
    // would count epochs from one again, and an old session would pass for a new one.
    let newer: Vec<Agent> = seen
        .agents
        .iter()
        .filter(|agent| agent.epoch > 0 && !agents.iter().any(|known| known.name == agent.name))
        .map(|agent| Agent {
            retired_at: Some(agent.retired_at.unwrap_or_else(|| tx.now())),
            ..agent.clone()
        })
        .collect();
    agents.extend(newer);
    for mut agent in agents {
        let seen_epoch = epochs.get(&agent.name).copied().unwrap_or(0);
        if agent.epoch.max(seen_epoch) == 0 {
            // Only a mailbox, then and now.
            continue;
        }
        let last = agent.epoch.max(seen_epoch).max(seen.floor);
        agent.epoch = if seen.incomplete { floor } else { last } + 1;
        agent.session_id = None;
        agent.session_ended_at = Some(tx.now());
        agent.process = None;
        agent.updated_at = tx.now();
        tx.set(
            EventType::AgentSessionEnded,
            &agent,
            &json!({ "reason": reason, "epoch": agent.epoch }),
        )?;
    }
    Ok(())
}
