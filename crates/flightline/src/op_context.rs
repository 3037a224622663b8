//! Where an operation decides: the transaction, the caller, and how subjects are found.

use std::collections::{BTreeMap, BTreeSet};

use flightline_core::agent::{Agent, AgentStatus, Coordination, Role};
use flightline_core::context::ContextMode;
use flightline_core::event::EventType;
use flightline_core::id::{Typed, shortest_unique};
use flightline_core::mission::{Mission, MissionStatus, Progress};
use flightline_core::policy::Policy;
use flightline_core::redact::shown;
use flightline_core::retention::ClockEvidence;
use flightline_core::setting::{CurrentMission, EpochFloor};
use flightline_core::sortie::{Sortie, SortieStatus};
use flightline_core::text::closest;
use flightline_core::time::Millis;
use flightline_core::{
    AgentId, CheckpointId, Code, Kind, LockId, MessageId, MissionId, Name, Refusal, SortieId,
    Subject, Time, Title,
};
use flightline_store::{Actor, Find, MissionFilter, StoreError, Tx};
use serde_json::json;

use crate::error::{Error, Result};
use crate::fleet::{Caller, Scope};
use crate::mission::SHORT;

const DAY: Millis = 86_400_000;

/// So many agents are asked for by their ids; of more, all are read.
const NAMED_ONE_BY_ONE: usize = 16;

/// Everything an operation may touch while it decides.
pub struct OpContext<'a, 'tx> {
    pub tx: &'a mut Tx<'tx>,
    pub caller: &'a Caller,
    /// How far the caller goes: all the way, where it came without a token.
    pub scope: Scope,
    pub policy: &'a Policy,
    pub agent: Option<Agent>,
}

impl OpContext<'_, '_> {
    #[must_use]
    pub fn now(&self) -> Time {
        self.tx.now()
    }

    /// Does something as of a moment of the past that a document tells of, never later than now: its events happened then.
    pub fn as_of<T>(&mut self, at: Time, f: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let before = self.tx.happen_at(Some(at));
        let done = f(self);
        self.tx.happen_at(before);
        done
    }

    /// A time that lies far ahead of the clock was noted by a clock that was wrong. It proves no more
    /// than that silence can be noticed since the clock was put right.
    #[must_use]
    pub fn credible(&self, time: Time) -> Time {
        if time.since(self.now()) > self.policy.downtime_ms {
            self.tx.awake_since()
        } else {
            time
        }
    }

    /// Whether the only evidence that `time` is long past is a clock that moved by days at once, a moment ago: it may
    /// be put right as suddenly. A notice about it waits a while.
    #[must_use]
    pub fn just_woke(&self, time: Time) -> bool {
        let awake = self.tx.awake_since();
        awake.since(time) > 2 * DAY && self.now().since(awake) < ClockEvidence::NOTICED
    }

    /// Tries something whose failure must not fail the rest: what it wrote is dropped then. The outer
    /// error is for what concerns the whole transaction, such as a collision.
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

    /// Who acts, as events and notes name them.
    #[must_use]
    pub fn actor(&self) -> String {
        match &self.agent {
            Some(agent) => agent.name.to_string(),
            None => self.caller.person(),
        }
    }

    /// Whom the caller is, as events name it: also where no incarnation of an agent acts.
    #[must_use]
    pub fn principal(&self) -> String {
        let agent = self.caller.agent.clone();
        agent.unwrap_or_else(|| self.caller.person())
    }

    #[must_use]
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

    /// Whether the caller coordinates as far as its token says, whatever the role of its agent. On the fleet's own machine
    /// everybody does.
    #[must_use]
    pub fn coordinates(&self) -> bool {
        self.scope >= Scope::Dispatch
    }

    /// Whether the caller may act on what belongs to others: a person, or dispatch.
    #[must_use]
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
                    .hint("create one with `fleet mission create \"…\" --sortie \"…\"`")
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
                && let Some(mission) = self.tx.get::<Mission>(&chosen.mission_id.to_string())?
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
                // As long as it takes to tell them apart: each can be typed.
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
            Some(id) => self.tx.get::<Agent>(&id.to_string())?,
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

    /// Any agent that coordinates; its mailbox is made when none has registered yet.
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

    /// What to call these agents, as far as they are known.
    pub(crate) fn names_of(
        &mut self,
        ids: &BTreeSet<AgentId>,
    ) -> Result<BTreeMap<AgentId, String>> {
        // Of many, all names at once.
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
            .get::<Agent>(&id.to_string())?
            .map_or_else(|| id.to_string(), |agent| agent.name.to_string()))
    }
}

/// Whether a text cannot be meant as an id of ours, or the beginning of one.
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

/// How an agent's stored text says that it does not coordinate.
const SPECIALIST: &str = "\"role\":\"specialist\"";

/// How a sortie's stored text says which task it is.
fn task_field(task: &Name) -> String {
    format!("\"task_id\":{}", json!(task))
}

/// A new agent that has not begun a session yet.
pub(crate) fn new_agent(tx: &Tx<'_>, name: Name, role: Role) -> Agent {
    Agent {
        id: AgentId::new(tx.uuid()),
        name,
        role,
        kind: None,
        epoch: 0,
        context: 0,
        mode: ContextMode::Normal,
        session_id: None,
        process: None,
        status: AgentStatus::Idle,
        feature: None,
        stage: None,
        phase: None,
        can_resume: true,
        blockers: Vec::new(),
        files_modified: Vec::new(),
        recovery_instructions: None,
        current_step: None,
        next_steps: Vec::new(),
        coordination: Coordination::default(),
        last_checkpoint: None,
        next_checkpoint_expected: None,
        created_at: tx.now(),
        updated_at: tx.now(),
        session_started_at: None,
        session_ended_at: None,
        retired_at: None,
    }
}

pub(crate) fn agent_named(tx: &mut Tx<'_>, name: &str) -> Result<Option<Agent>> {
    // A text that cannot be a name belongs to no agent, and may hold bytes that an engine does not take.
    if Name::parse("agent name", name).is_err() {
        return Ok(None);
    }
    Ok(tx.find::<Agent>(Find::AgentName(name))?.pop())
}

pub(crate) fn find_acting(tx: &mut Tx<'_>, caller: &Caller) -> Result<Option<Agent>> {
    let Some(reference) = &caller.agent else {
        return Ok(None);
    };
    match agent_named(tx, reference)? {
        Some(agent) => Ok(Some(agent)),
        None => find_agent_by_id(tx, reference),
    }
}

/// No agent has this name; one may have a similar name.
fn unknown_agent(tx: &mut Tx<'_>, reference: &str) -> Result<Refusal> {
    let rows = tx.rows(Kind::Agent, Find::All)?.into_iter();
    let known: Vec<String> = rows.filter_map(|row| row.name).collect();
    let all = match known.is_empty() {
        true => "register one with `fleet agents register NAME`".to_owned(),
        false => format!("known agents: {}", known.join(", ")),
    };
    let message = format!("there is no agent `{}`", shown(reference));
    let refusal = Refusal::new(Code::NotFound, message);
    Ok(match closest(reference, known.iter().map(String::as_str)) {
        None => refusal.hint(all),
        Some(meant) => refusal
            .hint(format!("did you mean `{meant}`? {all}"))
            .details(json!({ "meant": meant })),
    })
}

pub(crate) fn find_agent_by_id(tx: &mut Tx<'_>, reference: &str) -> Result<Option<Agent>> {
    match reference.parse::<AgentId>() {
        Ok(id) => Ok(tx.get::<Agent>(&id.to_string())?),
        Err(_) => Ok(None),
    }
}

/// The agent the caller acts as: registered now if its name is new, checked against its incarnation
/// and session, and alive from this moment.
pub(crate) fn acting(tx: &mut Tx<'_>, caller: &Caller) -> Result<Option<Agent>> {
    let Some(reference) = &caller.agent else {
        tx.act_as(Actor {
            name: caller.person(),
            epoch: None,
        });
        return Ok(None);
    };
    let agent = match find_acting(tx, caller)? {
        Some(agent) => {
            check_fence(Some(&agent), caller)?;
            agent
        }
        None => {
            let name = first_name(tx, caller, reference)?;
            new_agent(tx, name, Role::Specialist)
        }
    };
    if agent.retired_at.is_some() {
        return Err(retired(&agent));
    }
    // Its first act begins its first session.
    let agent = if agent.epoch == 0 {
        let mut agent = agent;
        agent.epoch = first_epoch(tx)?;
        agent.session_id = session_of(caller)?;
        if agent.session_id.is_some() && epoch_floor(tx)? > 0 {
            return Err(forgotten(&agent.name));
        }
        agent.session_started_at = Some(tx.now());
        agent.updated_at = tx.now();
        speak_for(tx, &agent);
        let session = agent.session_id.as_ref();
        let data = session.map_or_else(|| json!({}), |session| json!({ "session": session }));
        tx.set(EventType::AgentRegistered, &agent, &data)?;
        agent
    } else {
        agent
    };
    speak_for(tx, &agent);
    tx.beat(agent.id, agent.epoch, &json!({}))?;
    Ok(Some(agent))
}

/// The agent the caller looks as: known, and its current incarnation. To look is no sign of life.
pub(crate) fn looking(tx: &mut Tx<'_>, caller: &Caller) -> Result<Option<Agent>> {
    let Some(reference) = &caller.agent else {
        return acting(tx, caller);
    };
    let Some(agent) = find_acting(tx, caller)? else {
        return Err(unknown_agent(tx, reference)?.into());
    };
    check_fence(Some(&agent), caller)?;
    if agent.retired_at.is_some() {
        return Err(retired(&agent));
    }
    speak_for(tx, &agent);
    Ok(Some(agent))
}

/// From now on, events are by this agent.
pub(crate) fn speak_for(tx: &mut Tx<'_>, agent: &Agent) {
    tx.act_as(Actor {
        name: agent.name.to_string(),
        epoch: Some(agent.epoch),
    });
}

/// The epoch an agent begins with: above every one that an agent of its name may have had in a lost store.
pub(crate) fn first_epoch(tx: &mut Tx<'_>) -> Result<u64> {
    next_epoch(tx, 0)
}

/// The epoch that follows an agent's last one: also above those that a lost part of the journal may have known.
pub(crate) fn next_epoch(tx: &mut Tx<'_>, last: u64) -> Result<u64> {
    let last = match last {
        0 => epoch_floor(tx)?,
        last => last,
    };
    Ok(last.max(tx.epochs_above()?) + 1)
}

fn epoch_floor(tx: &mut Tx<'_>) -> Result<u64> {
    let floor = tx.get::<EpochFloor>(EpochFloor::KEY)?;
    Ok(floor.map_or(0, |floor| floor.epoch))
}

/// Where agents were forgotten, an unknown session may be one of theirs; a caller that begins a new one says so.
fn forgotten(name: &Name) -> Error {
    let hint =
        format!("nothing was written; begin a new session with `fleet agents register {name}`");
    Refusal::new(
        Code::Fenced,
        format!("agents of this store were forgotten, and {name} may be one of them"),
    )
    .hint(hint)
    .details(json!({ "agent": name, "epoch": 0 }))
    .into()
}

/// The name of an agent that acts for the first time. A caller that knows an incarnation or an id of
/// it is not new: it comes from a store that was replaced.
fn first_name(tx: &mut Tx<'_>, caller: &Caller, reference: &str) -> Result<Name> {
    if reference.starts_with(AgentId::PREFIX) {
        return Err(Refusal::new(
            Code::NotFound,
            format!("there is no agent `{}`", shown(reference)),
        )
        .hint("list the agents with `fleet agents list`")
        .into());
    }
    let name = Name::parse("agent name", reference)?;
    check_new_name(tx, &name)?;
    match caller.epoch {
        None => Ok(name),
        Some(epoch) => Err(Refusal::new(
            Code::Fenced,
            format!("epoch {epoch} of {name} is over: no agent of that name is known here"),
        )
        .hint(format!(
            "nothing was written; start a new session with `fleet agents register {name}`"
        ))
        .details(json!({ "agent": name, "epoch": 0 }))
        .into()),
    }
}

/// Refuses a name that a new agent cannot have: one that could be taken for an id, a person, Flightline itself or a
/// part of a briefing, in whatever case it is written, or for an agent whose name differs in case alone. An agent
/// that has such a name already keeps it.
pub(crate) fn check_new_name(tx: &mut Tx<'_>, name: &Name) -> Result<()> {
    let lower = name.as_str().to_ascii_lowercase();
    let taken_for = match lower.as_str() {
        "flightline" => Some("Flightline itself"),
        "user" => Some("a person"),
        "all" => Some("everybody"),
        "mission" | "files" => Some("a part of a briefing"),
        text if text.starts_with(AgentId::PREFIX) => Some("an id"),
        text if text.starts_with("user:") => Some("a person"),
        _ => None,
    };
    if let Some(taken_for) = taken_for {
        return Err(Refusal::invalid(format!(
            "`{name}` cannot be the name of an agent: it would be taken for {taken_for}"
        ))
        .hint("choose another name, such as `ada` or `specialist-1`")
        .into());
    }
    let agents = tx.rows(Kind::Agent, Find::All)?;
    let mut names = agents.into_iter().filter_map(|row| row.name);
    match names.find(|known| known != name.as_str() && known.eq_ignore_ascii_case(name.as_str())) {
        None => Ok(()),
        Some(known) => Err(Refusal::new(
            Code::AlreadyExists,
            format!("`{name}` cannot be the name of an agent: it would be taken for `{known}`"),
        )
        .hint(format!("act as `{known}`, or choose another name"))
        .details(json!({ "agent": known }))
        .into()),
    }
}

fn session_of(caller: &Caller) -> Result<Option<Title>> {
    let session = caller.session.as_deref();
    Ok(session
        .map(|session| Title::parse("session", session))
        .transpose()?)
}

pub(crate) fn retired(agent: &Agent) -> Error {
    Refusal::new(Code::Fenced, format!("{} was retired", agent.name))
        .hint(format!(
            "bring it back with `fleet agents register {}`",
            agent.name
        ))
        .into()
}

/// Refuses a caller that is an earlier incarnation or session of its agent.
pub(crate) fn check_fence(agent: Option<&Agent>, caller: &Caller) -> Result<()> {
    let Some(agent) = agent else { return Ok(()) };
    // Cleaned as it was when it was stored, or it could never be the same.
    let session = session_of(caller)?;
    let stale = match (caller.epoch, &session, &agent.session_id) {
        (Some(epoch), _, _) if epoch > agent.epoch => Some(format!(
            "{} has no epoch {epoch}: it is at epoch {}",
            agent.name, agent.epoch
        )),
        (Some(epoch), _, _) if epoch != agent.epoch => Some(format!(
            "epoch {epoch} of {} is over: epoch {} has taken its place",
            agent.name, agent.epoch
        )),
        // Whatever session this is, it is not one that began since.
        (None, Some(_), None) if agent.session_ended_at.is_some() => Some(format!(
            "the session of {} was ended, and no other has begun",
            agent.name
        )),
        (_, Some(session), Some(current)) if session != current => Some(format!(
            "this session of {} is over: another has taken its place",
            agent.name
        )),
        _ => None,
    };
    match stale {
        None => Ok(()),
        Some(message) => Err(Refusal::new(Code::Fenced, message)
            .hint(format!(
                "nothing was written; start a new session with `fleet agents register {}`",
                agent.name
            ))
            .details(json!({ "agent": agent.name, "epoch": agent.epoch }))
            .into()),
    }
}
