//! The context of a decision: the transaction, the caller and its scope, the policy, the acting agent, and ways to find
//! subjects.

mod acting;

use std::collections::{BTreeMap, BTreeSet};

use flightline_core::agent::{Agent, Role};
use flightline_core::event::EventType;
use flightline_core::id::{Typed, shortest_unique};
use flightline_core::mission::{Mission, MissionStatus, Progress};
use flightline_core::policy::Policy;
use flightline_core::retention::ClockEvidence;
use flightline_core::setting::CurrentMission;
use flightline_core::sortie::{Sortie, SortieStatus};
use flightline_core::time::Millis;
use flightline_core::{
    AgentId, CheckpointId, Code, Kind, LockId, MessageId, MissionId, Name, Refusal, SortieId,
    Subject, Time,
};
use flightline_store::{Find, MissionFilter, StoreError, Tx};
use serde_json::json;

use crate::error::{Error, Result};
use crate::fleet::{Caller, Scope};
use crate::mission::{SHORT, short};

use self::acting::unknown_agent;
pub(crate) use self::acting::{
    acting, agent_named, check_fence, check_new_name, find_acting, find_agent_by_id, first_epoch,
    looking, new_agent, next_epoch, retired, speak_for,
};

const DAY: Millis = 86_400_000;

/// Number of agents up to which each is read by its id; of more, all are read.
const NAMED_ONE_BY_ONE: usize = 16;

/// The context of a decision: all that an operation may touch.
pub struct OpContext<'a, 'tx> {
    pub tx: &'a mut Tx<'tx>,
    pub caller: &'a Caller,
    /// The scope of the caller's token; the widest, where it came without a token.
    pub scope: Scope,
    pub policy: &'a Policy,
    pub agent: Option<Agent>,
}

impl OpContext<'_, '_> {
    pub fn now(&self) -> Time {
        self.tx.now()
    }

    /// Runs `f` as of a moment of the past that a document tells of, never later than now: its events happened then.
    pub fn as_of<T>(&mut self, at: Time, f: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let before = self.tx.happen_at(Some(at));
        let done = f(self);
        self.tx.happen_at(before);
        done
    }

    /// A time that lies far ahead of the clock was noted by a clock that was wrong. It proves no more
    /// than that silence can be noticed since the clock was put right.
    pub fn credible(&self, time: Time) -> Time {
        if time.since(self.now()) > self.policy.downtime_ms {
            self.tx.awake_since()
        } else {
            time
        }
    }

    /// Returns true when the only evidence that `time` is long past is a clock that moved by days at once, a moment
    /// ago: it may be put right as suddenly. A notice about it waits a while.
    pub fn just_woke(&self, time: Time) -> bool {
        let awake = self.tx.awake_since();
        awake.since(time) > 2 * DAY && self.now().since(awake) < ClockEvidence::NOTICED
    }

    /// Runs a step whose failure must not fail the operation: the writes of a failed step are dropped. The outer error
    /// is for failures of the whole transaction, such as a collision.
    pub fn attempt<T>(&mut self, f: impl FnOnce(&mut Self) -> Result<T>) -> Result<Result<T>> {
        let savepoint = self.tx.savepoint()?;
        let tried = f(self).and_then(|value| {
            self.tx.deliver()?;
            Ok(value)
        });
        match tried {
            Ok(value) => {
                self.tx.release()?;
                Ok(Ok(value))
            }
            Err(Error::Store(
                error @ (StoreError::Corrupt(_)
                | StoreError::Thinned { .. }
                | StoreError::TooLarge { .. }),
            )) => {
                self.tx.roll_back_to(savepoint)?;
                Ok(Err(Error::Store(error)))
            }
            Err(Error::Refused(refusal)) => {
                self.tx.roll_back_to(savepoint)?;
                Ok(Err(Error::Refused(refusal)))
            }
            Err(error) => Err(error),
        }
    }

    /// Returns the name of the acting agent or person, as events and notes have it.
    pub fn actor(&self) -> String {
        match &self.agent {
            Some(agent) => agent.name.to_string(),
            None => self.caller.person(),
        }
    }

    /// Returns the identity of the caller, as events name it: also where no incarnation of an agent acts.
    pub fn principal(&self) -> String {
        let agent = self.caller.agent.clone();
        agent.unwrap_or_else(|| self.caller.person())
    }

    pub fn agent_id(&self) -> Option<AgentId> {
        self.agent.as_ref().map(|agent| agent.id)
    }

    /// The agent that acts. Refuses a caller that names no agent.
    pub fn acting(&self) -> Result<&Agent> {
        self.agent.as_ref().ok_or_else(|| {
            Refusal::invalid("this command needs an acting agent")
                .hint("give `--agent NAME`, or set FLEET_AGENT")
                .into()
        })
    }

    /// Returns true when the caller coordinates as far as its token says, whatever the role of its agent. On the
    /// fleet's own machine every caller does.
    pub fn coordinates(&self) -> bool {
        self.scope >= Scope::Dispatch
    }

    /// Returns true when the caller may act on what belongs to others: a person, or dispatch.
    pub fn is_in_charge(&self) -> bool {
        self.agent
            .as_ref()
            .is_none_or(|agent| agent.role == Role::Dispatch)
    }

    /// The mission with this id or beginning; the current one when none is given. Refuses when several fit.
    pub fn mission(&mut self, reference: Option<&str>) -> Result<Mission> {
        let reference = reference
            .map(str::to_owned)
            .or_else(|| self.caller.mission.clone());
        match reference {
            Some(reference) => self.by_id::<Mission>(&reference, MissionId::PREFIX),
            None => self.current_mission()?.ok_or_else(|| {
                Refusal::new(Code::NotFound, "there is no mission yet")
                    .hint("create one with `fleet missions create \"…\" --sortie \"…\"`")
                    .into()
            }),
        }
    }

    /// The chosen mission, else the one active most recently.
    pub fn current_mission(&mut self) -> Result<Option<Mission>> {
        let mut choosers = vec!["user".to_owned()];
        choosers.extend(self.agent_id().map(|id| id.to_string()));
        for of in choosers.into_iter().rev() {
            let chosen = self
                .tx
                .get::<CurrentMission>(&format!("current-mission/{of}"))?;
            if let Some(chosen) = chosen
                && let Some(mission) = self.tx.get::<Mission>(chosen.mission_id)?
                && mission.status.is_open()
            {
                return Ok(Some(mission));
            }
        }
        for state in [MissionFilter::Open, MissionFilter::Over] {
            let Some(id) = self.tx.last_worked_on(state)? else {
                continue;
            };
            let mission = self.tx.get::<Mission>(&id)?;
            // A row whose status is not its mission's is damaged: then each is looked at.
            let fits = |mission: &Mission| match mission.status {
                MissionStatus::Pending | MissionStatus::InProgress => state == MissionFilter::Open,
                MissionStatus::Paused | MissionStatus::Completed | MissionStatus::Failed => {
                    state == MissionFilter::Over
                }
                MissionStatus::Archived => false,
            };
            return match mission {
                Some(mission) if fits(&mission) => Ok(Some(mission)),
                _ => self.current_of_all(),
            };
        }
        Ok(None)
    }

    /// The mission that was active most recently, of all that can be read.
    fn current_of_all(&mut self) -> Result<Option<Mission>> {
        let mut best: Option<(bool, u64, String)> = None;
        for row in self.tx.rows(Kind::Mission, Find::All)? {
            if row.status == MissionStatus::Archived.as_str() {
                continue;
            }
            let open = row.status == MissionStatus::InProgress.as_str()
                || row.status == MissionStatus::Pending.as_str();
            let id: MissionId = row.typed_id()?;
            let last = self.tx.last_work_rev(id)?.unwrap_or(row.rev);
            let candidate = (open, last, row.id);
            if best.as_ref().is_none_or(|best| candidate > *best) {
                best = Some(candidate);
            }
        }
        match best {
            Some((_, _, id)) => Ok(self.tx.get::<Mission>(&id)?),
            None => Ok(None),
        }
    }

    pub fn mission_of(&mut self, id: MissionId) -> Result<Mission> {
        let id = id.to_string();
        match self.tx.get::<Mission>(&id)? {
            Some(mission) => Ok(mission),
            None => self.mission(Some(&id)),
        }
    }

    /// The sortie that [`OpContext::sortie`] finds. Refuses one of another mission.
    pub(crate) fn sortie_in(&mut self, mission: MissionId, reference: &str) -> Result<Sortie> {
        let sortie = self.sortie(reference)?;
        if sortie.mission_id != mission {
            let refusal = Refusal::invalid(format!("{reference} belongs to another mission"));
            let list = format!("fleet sorties list --mission {}", short(mission));
            return Err(refusal.hint(format!("those of this one: `{list}`")).into());
        }
        Ok(sortie)
    }

    /// The sortie with this id, beginning of an id or task id. Refuses when several fit.
    pub fn sortie(&mut self, reference: &str) -> Result<Sortie> {
        if reference.starts_with(SortieId::PREFIX) {
            return self.by_id::<Sortie>(reference, SortieId::PREFIX);
        }
        // Stored texts do not hold every byte that can be typed.
        let Ok(task) = Name::parse("task", reference) else {
            return self.by_id::<Sortie>(reference, SortieId::PREFIX);
        };
        let mut named = self.tx.find_holding::<Sortie>(None, &task_field(&task))?;
        named.retain(|sortie| sortie.task_id.as_ref() == Some(&task));
        if named.len() > 1 {
            // Tasks of several missions may share an id: the mission at hand is meant.
            let at_hand = self.mission(None).map(|mission| mission.id).ok();
            let here = |sortie: &&Sortie| Some(sortie.mission_id) == at_hand;
            if let [only] = named.iter().filter(here).collect::<Vec<_>>().as_slice() {
                return Ok((*only).clone());
            }
        }
        match named.as_slice() {
            [] if is_no_id(reference) => Err(Refusal::new(
                Code::NotFound,
                format!("there is no sortie with the id or task id `{task}`"),
            )
            .hint("list them with `fleet sorties list`")
            .into()),
            [] => self.by_id::<Sortie>(reference, SortieId::PREFIX),
            [only] => Ok(only.clone()),
            several => {
                let ids: Vec<String> = several.iter().map(|it| it.id.to_string()).collect();
                let shown: Vec<&str> = ids.iter().take(10).map(|id| &id[..12]).collect();
                Err(Refusal::new(
                    Code::AmbiguousId,
                    format!("the task id `{task}` names {}", shown.join(" and ")),
                )
                .hint("name the sortie by its own id, or its mission with `--mission ID`")
                .details(json!({ "candidates": ids }))
                .into())
            }
        }
    }

    /// The agent with this name, id or beginning of an id. Refuses when several fit.
    pub fn find_agent(&mut self, reference: &str) -> Result<Agent> {
        if let Some(agent) = agent_named(self.tx, reference)? {
            return Ok(agent);
        }
        if reference.starts_with(AgentId::PREFIX) {
            return self.by_id::<Agent>(reference, AgentId::PREFIX);
        }
        Err(unknown_agent(self.tx, reference)?.into())
    }

    /// The thing of a kind with this id or beginning of an id. Refuses when several fit.
    pub fn by_id<S: Subject>(&mut self, reference: &str, prefix: &str) -> Result<S> {
        let typed = Typed::parse(reference, prefix)?;
        let found = self
            .tx
            .ids_between(S::KIND, &typed.beginning, &typed.end())?;
        match found.as_slice() {
            [] => Err(Refusal::new(
                Code::NotFound,
                format!("there is no {} `{reference}`", S::KIND),
            )
            .hint(match S::KIND {
                Kind::Checkpoint => "list them with `fleet checkpoints list`".to_owned(),
                Kind::Token => "list them with `fleet token list --all`".to_owned(),
                Kind::Message if self.agent.is_none() => {
                    "see the mail of an agent with `fleet mail inbox --all --agent NAME`".to_owned()
                }
                Kind::Message => "see your mail with `fleet mail inbox --all`".to_owned(),
                kind => format!("list them with `fleet {kind}s list`"),
            })
            .into()),
            [id] => self.tx.get::<S>(id)?.ok_or_else(|| {
                Refusal::new(
                    Code::NotFound,
                    format!("there is no {} `{reference}`", S::KIND),
                )
                .into()
            }),
            _ => {
                let several = found;
                // Each id is shown as long as it takes to tell them apart: each can be typed.
                let told = |id: &String| -> String {
                    let unique = shortest_unique(id, &several).len();
                    id.chars().take(unique.max(SHORT)).collect()
                };
                let shown: Vec<String> = several.iter().take(10).map(told).collect();
                Err(Refusal::new(
                    Code::AmbiguousId,
                    format!("`{reference}` could be {}", shown.join(" or ")),
                )
                .hint("use more characters")
                .details(json!({ "candidates": several }))
                .into())
            }
        }
    }

    pub fn progress(&mut self, mission: MissionId) -> Result<Progress> {
        let completed = SortieStatus::Completed.as_str();
        let (completed, total) = self.tx.share(Kind::Sortie, mission, completed)?;
        Ok(Progress { completed, total })
    }

    /// The agent that gets a mission's reports; its mailbox is made when none has registered yet.
    pub fn dispatch_of(&mut self, mission: &Mission) -> Result<Agent> {
        match self.own_dispatch(mission)? {
            Some(agent) => Ok(agent),
            None => self.any_dispatch(),
        }
    }

    /// The agent that coordinates a mission, or else any coordinator; none while there is none. A mere mailbox does not
    /// count.
    pub fn present_dispatch(&mut self, mission: &Mission) -> Result<Option<Agent>> {
        let is_there = |agent: &Agent| agent.epoch > 0 && agent.retired_at.is_none();
        let own = self.own_dispatch(mission)?.filter(is_there);
        match own {
            Some(agent) => Ok(Some(agent)),
            None => Ok(self.known_dispatch()?.filter(is_there)),
        }
    }

    fn own_dispatch(&mut self, mission: &Mission) -> Result<Option<Agent>> {
        let own = match mission.dispatch {
            Some(id) => self.tx.get::<Agent>(id)?,
            None => None,
        };
        Ok(own.filter(|agent| agent.retired_at.is_none()))
    }

    fn known_dispatch(&mut self) -> Result<Option<Agent>> {
        let coordinates =
            |agent: &Agent| agent.role == Role::Dispatch && agent.retired_at.is_none();
        let mut agents = self.tx.find_without(SPECIALIST, coordinates)?;
        // A dispatch that has a session reads its mail; a mere mailbox waits for one.
        agents.sort_by_key(|agent| agent.epoch == 0);
        // The agent that bears the name gets the mail, whatever it registered as: names are unique.
        match agents.into_iter().next() {
            Some(agent) => Ok(Some(agent)),
            None => agent_named(self.tx, "dispatch"),
        }
    }

    /// Returns any agent that coordinates; its mailbox is made when none has registered yet.
    pub fn any_dispatch(&mut self) -> Result<Agent> {
        match self.known_dispatch()? {
            Some(agent) => Ok(agent),
            None => {
                let mailbox = new_agent(
                    self.tx,
                    Name::parse("agent name", "dispatch")?,
                    Role::Dispatch,
                );
                self.tx.set(
                    EventType::AgentRegistered,
                    &mailbox,
                    &json!({ "mailbox_only": true }),
                )?;
                Ok(mailbox)
            }
        }
    }

    /// Returns the names of these agents, as far as they are known.
    pub(crate) fn names_of(
        &mut self,
        ids: &BTreeSet<AgentId>,
    ) -> Result<BTreeMap<AgentId, String>> {
        // The names of many agents are read at once.
        if ids.len() > NAMED_ONE_BY_ONE {
            let rows = self.tx.rows(Kind::Agent, Find::All)?.into_iter();
            let named = rows.filter_map(|row| Some((row.id.parse().ok()?, row.name?)));
            return Ok(named.filter(|(id, _)| ids.contains(id)).collect());
        }
        let mut names = BTreeMap::new();
        for id in ids {
            let row = self.tx.row(Kind::Agent, &id.to_string())?;
            names.extend(row.and_then(|row| row.name).map(|name| (*id, name)));
        }
        Ok(names)
    }

    pub fn agent_name(&mut self, id: AgentId) -> Result<String> {
        Ok(self
            .tx
            .get::<Agent>(id)?
            .map_or_else(|| id.to_string(), |agent| agent.name.to_string()))
    }
}

/// Returns true when a text cannot be meant as an id of ours, or the beginning of one.
fn is_no_id(text: &str) -> bool {
    let prefixes = [
        MissionId::PREFIX,
        AgentId::PREFIX,
        CheckpointId::PREFIX,
        LockId::PREFIX,
        MessageId::PREFIX,
    ];
    let of_an_id = |byte: u8| byte.is_ascii_hexdigit() || byte == b'-';
    !prefixes.iter().any(|prefix| text.starts_with(prefix))
        && !SortieId::PREFIX.starts_with(text)
        && !text.bytes().all(of_an_id)
}

/// The part of an agent's stored text that says that it does not coordinate.
const SPECIALIST: &str = "\"role\":\"specialist\"";

/// Returns the part of a sortie's stored text that names its task.
fn task_field(task: &Name) -> String {
    format!("\"task_id\":{}", json!(task))
}
