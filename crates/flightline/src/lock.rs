//! Operations on locks. At most one live grant per path; fences only grow.

mod grant;
pub mod held;
pub(crate) mod release;
pub(crate) mod watch;

use crate::Schema;
use flightline_core::agent::Agent;
use flightline_core::event::EventType;
use flightline_core::lock::Lock;
use flightline_core::sortie::Sortie;
use flightline_core::text::NoteText;
use flightline_core::time::Millis;
use flightline_core::{Code, Kind, LockId, Refusal, RepoPath, Time, Title};
use flightline_store::{Find, ListOrder, ListScope, RowList};
use serde::{Deserialize, Serialize};
use serde_json::json;

pub use self::grant::acquire;
pub(crate) use self::grant::grant_all;
use crate::agent::{Sighting, last_sign};
use crate::error::Result;
use crate::fleet::{Access, ActsFor, Operation, Scope, WhenFull, listed};
use crate::op_context::OpContext;

/// Takes locks for the acting agent: all of them or none.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
#[serde(deny_unknown_fields)]
pub struct AcquireLocks {
    /// The files or folders, or patterns of them: `*` and `?` in a name, `**` for any folders, `[a-z]`; after a backslash such a
    /// character is itself.
    #[schemars(length(min = 1))]
    pub paths: Vec<RepoPath>,
    /// Time after the holder's last sign of life at which the locks expire; the policy's when none is given.
    #[schemars(range(min = 1_000, max = 604_800_000))]
    pub ttl_ms: Option<Millis>,
    /// The purpose of the locks, in the agent's words.
    pub purpose: Option<Title>,
    /// The sortie that the locks are for; else the one that the agent works on, when there is just one.
    pub sortie: Option<String>,
    /// Observations of agents' processes on the caller's machine.
    #[serde(default)]
    pub sightings: Vec<Sighting>,
}

/// Renews locks that are still needed.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
#[serde(deny_unknown_fields)]
pub struct RenewLocks {
    /// The locks to renew, by path or id.
    pub locks: Vec<String>,
    /// The fence of the grant; checked when given.
    pub fence: Option<u64>,
    /// The new time to live.
    #[schemars(range(min = 1_000, max = 604_800_000))]
    pub ttl_ms: Option<Millis>,
}

/// Releases locks of the acting agent.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
#[serde(deny_unknown_fields)]
pub struct ReleaseLocks {
    /// The locks to release, by path or id.
    #[serde(default)]
    pub locks: Vec<String>,
    /// Release all locks that the acting agent holds.
    #[serde(default)]
    pub all: bool,
    /// The fence of the grant; checked when given.
    pub fence: Option<u64>,
}

/// Takes a lock from its holder.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
#[serde(deny_unknown_fields)]
pub struct StealLock {
    /// The file or folder, or a pattern.
    pub path: RepoPath,
    /// The reason for the steal; the holder is told.
    pub reason: NoteText,
}

/// Lists the locks that are held.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
#[serde(deny_unknown_fields)]
pub struct ListLocks {
    /// List only locks of this agent.
    pub agent: Option<String>,
}

/// Checks whether paths are free for the acting agent.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
#[serde(deny_unknown_fields)]
pub struct CheckLocks {
    /// The files or folders, or patterns of them.
    pub paths: Vec<RepoPath>,
}

/// A lock and its holder.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
pub struct LockView {
    /// The lock as it is stored.
    pub lock: Lock,
    /// The name of the lock's holder.
    pub holder: String,
    /// Time of the holder's last sign of life.
    pub last_sign: Option<Time>,
    /// Time until the lock expires without a further sign of life.
    pub remaining_ms: Millis,
}

/// The outcome of checking a path.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
pub struct PathCheck {
    /// The path that was checked.
    pub path: RepoPath,
    /// True when the caller may write there.
    pub free: bool,
    /// The lock in the way, or the caller's own.
    pub lock: Option<LockView>,
}

impl Operation for AcquireLocks {
    const NAME: &'static str = "acquire_locks";
    const ACCESS: Access = Access::Write;
    const SCOPE: Scope = Scope::Agent;
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |_| ActsFor::Caller;
    type Outcome = Vec<LockView>;

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<Vec<LockView>> {
        if self.paths.is_empty() {
            return Err(Refusal::invalid("no path to lock was given").into());
        }
        check_ttl(self.ttl_ms)?;
        let agent = ctx.acting()?.clone();
        let sortie = match &self.sortie {
            Some(reference) => Some(ctx.sortie(reference)?),
            None => match crate::agent::held_sorties(ctx, agent.id)?.as_slice() {
                [only] => ctx.tx.get::<Sortie>(only)?,
                _ => None,
            },
        };
        grant_all(
            ctx,
            &self.paths,
            self.purpose.clone(),
            self.ttl_ms,
            sortie.as_ref(),
            &self.sightings,
        )
    }
}

impl Operation for RenewLocks {
    const NAME: &'static str = "renew_locks";
    const ACCESS: Access = Access::Write;
    const SCOPE: Scope = Scope::Agent;
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |_| ActsFor::Caller;
    type Outcome = Vec<LockView>;

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<Vec<LockView>> {
        check_ttl(self.ttl_ms)?;
        let agent = ctx.acting()?.clone();
        let mut renewed = Vec::new();
        for reference in &self.locks {
            let mut lock = own_lock(ctx, reference, &agent, self.fence)?;
            if lock.epoch != agent.epoch {
                return Err(Refusal::new(
                    Code::Fenced,
                    format!(
                        "the lock on `{}` was granted to epoch {} of {}, which is over",
                        lock.file, lock.epoch, agent.name
                    ),
                )
                .hint(format!(
                    "acquire it again with `fleet locks acquire {}`",
                    lock.file.as_word()
                ))
                .into());
            }
            lock.timeout_ms = self.ttl_ms.unwrap_or(lock.timeout_ms);
            ctx.tx.set(
                EventType::LockRenewed,
                &lock,
                &json!({ "file": lock.file, "fence": lock.fence }),
            )?;
            renewed.push(view(ctx, lock)?);
        }
        Ok(renewed)
    }
}

impl Operation for ReleaseLocks {
    const NAME: &'static str = "release_locks";
    const ACCESS: Access = Access::Write;
    const SCOPE: Scope = Scope::Agent;
    const WHEN_FULL: WhenFull = WhenFull::UsesReserve;
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |_| ActsFor::Caller;
    type Outcome = Vec<LockView>;

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<Vec<LockView>> {
        let agent = ctx.acting()?.clone();
        let mut locks = Vec::new();
        if self.all {
            locks = ctx.tx.find::<Lock>(Find::Agent(agent.id))?;
        } else if self.locks.is_empty() {
            return Err(Refusal::invalid("no lock to release was given")
                .hint("name paths, or release everything with `fleet locks release --all`")
                .into());
        }
        for reference in &self.locks {
            locks.push(own_lock(ctx, reference, &agent, self.fence)?);
        }
        let mut released = Vec::new();
        for lock in locks {
            ctx.tx.remove(
                EventType::LockReleased,
                &lock,
                &json!({ "file": lock.file, "fence": lock.fence }),
            )?;
            released.push(view(ctx, lock)?);
        }
        Ok(released)
    }
}

impl Operation for StealLock {
    const NAME: &'static str = "steal_lock";
    const ACCESS: Access = Access::Write;
    const SCOPE: Scope = Scope::Agent;
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |_| ActsFor::Caller;
    type Outcome = Vec<LockView>;

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<Vec<LockView>> {
        let thief = ctx.acting()?.clone();
        let locks = ctx.tx.find::<Lock>(Find::All)?;
        let taken: Vec<Lock> = locks
            .into_iter()
            .filter(|lock| lock.file.overlaps(&self.path) && lock.held_by != thief.id)
            .collect();
        if taken.is_empty() {
            return Err(Refusal::new(
                Code::NotFound,
                format!("no other agent holds a lock on `{}`", self.path),
            )
            .hint(format!(
                "acquire it with `fleet locks acquire {}`",
                self.path.as_word()
            ))
            .into());
        }
        for lock in &taken {
            let data = json!({ "file": lock.file, "fence": lock.fence, "by": thief.name, "reason": self.reason });
            ctx.tx.remove(EventType::LockStolen, lock, &data)?;
            let Some(holder) = ctx.tx.get::<Agent>(lock.held_by)? else {
                continue;
            };
            crate::mail::notice(
                ctx,
                holder,
                &format!("Your lock on {} was taken", lock.file),
                &format!(
                    "{} took it: {}. Stop writing there; its fence {} is void.",
                    thief.name, self.reason, lock.fence
                ),
                lock.mission_id,
            )?;
        }
        let purpose = Title::parse(
            "purpose",
            &self.reason.chars().take(200).collect::<String>(),
        )?;
        grant_all(
            ctx,
            std::slice::from_ref(&self.path),
            Some(purpose),
            None,
            None,
            &[],
        )
    }
}

impl Operation for ListLocks {
    const NAME: &'static str = "list_locks";
    const ACCESS: Access = Access::Read;
    const SCOPE: Scope = Scope::Read;
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |_| ActsFor::Caller;
    type Outcome = Vec<LockView>;

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<Vec<LockView>> {
        let scope = match &self.agent {
            Some(reference) => ListScope::Agent(ctx.find_agent(reference)?.id),
            None => ListScope::All,
        };
        let list = RowList::new(Kind::Lock, scope, &[]);
        let locks: Vec<Lock> = listed(ctx, list, ListOrder::OLDEST)?;
        locks.into_iter().map(|lock| view(ctx, lock)).collect()
    }
}

impl Operation for CheckLocks {
    const NAME: &'static str = "check_locks";
    const ACCESS: Access = Access::Read;
    const SCOPE: Scope = Scope::Read;
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |_| ActsFor::Caller;
    type Outcome = Vec<PathCheck>;

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<Vec<PathCheck>> {
        let (me, locks) = (ctx.agent_id(), ctx.tx.find::<Lock>(Find::All)?);
        let mut checks = Vec::new();
        for path in &self.paths {
            let overlapping = || locks.iter().filter(|lock| lock.file.overlaps(path));
            let others = overlapping().find(|lock| Some(lock.held_by) != me);
            let lock = match others.or_else(|| overlapping().next()) {
                Some(lock) => Some(view(ctx, lock.clone())?),
                None => None,
            };
            checks.push(PathCheck {
                path: path.clone(),
                free: others.is_none(),
                lock,
            });
        }
        Ok(checks)
    }
}

/// The acting agent's own lock with this path or id.
fn own_lock(
    ctx: &mut OpContext<'_, '_>,
    reference: &str,
    agent: &Agent,
    fence: Option<u64>,
) -> Result<Lock> {
    let lock = if reference.starts_with(LockId::PREFIX) {
        ctx.by_id::<Lock>(reference, LockId::PREFIX)?
    } else {
        let path = RepoPath::parse(reference)?;
        let locks = ctx.tx.find::<Lock>(Find::All)?;
        match locks.iter().find(|lock| lock.file.is_same(&path)) {
            Some(lock) => lock.clone(),
            None => return Err(no_lock_on(&path, &locks, agent).into()),
        }
    };
    if lock.held_by != agent.id {
        let holder = ctx.agent_name(lock.held_by)?;
        return Err(Refusal::new(Code::Fenced, format!("the lock on `{}` is {holder}'s", lock.file))
            .hint("only its holder can renew or release it; take it with `fleet locks steal PATH --reason \"…\"`")
            .details(json!({ "holder": holder, "fence": lock.fence }))
            .into());
    }
    if let Some(stale) = fence.filter(|fence| *fence != lock.fence) {
        return Err(Refusal::new(
            Code::Fenced,
            format!(
                "fence {stale} on `{}` is void: the current one is {}",
                lock.file, lock.fence
            ),
        )
        .hint(format!(
            "acquire it again with `fleet locks acquire {}`",
            lock.file.as_word()
        ))
        .details(json!({ "fence": lock.fence }))
        .into());
    }
    Ok(lock)
}

/// No lock is on exactly this path; one of the agent's own locks may cover it.
fn no_lock_on(path: &RepoPath, locks: &[Lock], agent: &Agent) -> Refusal {
    let covers = |lock: &&Lock| lock.held_by == agent.id && lock.file.contains(path);
    match locks.iter().find(covers) {
        Some(lock) => Refusal::new(
            Code::NotFound,
            format!(
                "there is no lock on `{path}` alone: `{}` covers it",
                lock.file
            ),
        )
        .hint(format!("name that one: `{}`", lock.file.as_word())),
        None => Refusal::new(Code::NotFound, format!("there is no lock on `{path}`"))
            .hint("list them with `fleet locks list`"),
    }
}

fn check_ttl(ttl_ms: Option<Millis>) -> Result<()> {
    match ttl_ms {
        Some(ttl) if !(1_000..=7 * 86_400_000).contains(&ttl) => Err(Refusal::invalid(
            "a lock lives between 1s and 7d after its holder's last sign of life",
        )
        .into()),
        _ => Ok(()),
    }
}

pub(crate) fn view(ctx: &mut OpContext<'_, '_>, lock: Lock) -> Result<LockView> {
    let holder = ctx.tx.get::<Agent>(lock.held_by)?;
    let pulse = ctx.tx.pulse(lock.held_by)?;
    let last_sign = holder
        .as_ref()
        .and_then(|holder| last_sign(ctx, holder, pulse.as_ref()));
    let since = watch::silent_since(ctx, &lock, last_sign)?;
    Ok(LockView {
        holder: holder.map_or_else(
            || lock.held_by.to_string(),
            |holder| holder.name.to_string(),
        ),
        last_sign,
        remaining_ms: lock.remaining(since, ctx.now()),
        lock,
    })
}
