//! The fleet's rules told a second time, in memory and without the operations' code: what each act
//! changes, how many events it leaves, and which refusal it meets.

use std::collections::BTreeMap;

use flightline_testkit::prelude::*;

use super::acts::{Act, Step};

/// After a pause of all writing longer than this, silence proves nothing.
pub const DOWNTIME: i64 = 10 * 60_000;
/// A lock lapses so long after its holder's last sign of life.
pub const LOCK_TTL: i64 = 30 * 60_000;

/// Who is silent for longer is gone.
const STALLED: i64 = 30 * 60_000;

pub type Answer = Result<(), Code>;

/// What everybody can see: compared after every step.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Visible {
    pub rev: u64,
    /// Name, role, epoch, retired.
    pub agents: Vec<(String, &'static str, u64, bool)>,
    pub missions: Vec<&'static str>,
    /// Status, owner, attempts.
    pub sorties: Vec<(&'static str, Option<String>, u32)>,
    /// Holder, epoch and fence by path.
    pub locks: BTreeMap<String, (String, u64, u64)>,
    /// Each message's way to each of its recipients.
    pub mail: Vec<Vec<(String, &'static str)>>,
    /// State and attempts by mission and key.
    pub effects: BTreeMap<(usize, String), (&'static str, u32)>,
    pub notes: usize,
}

#[derive(Clone, Debug, Default)]
pub struct Model {
    pub now: i64,
    pub seen_at: i64,
    pub awake_since: i64,
    pub rev: u64,
    pub agents: Vec<Agent>,
    pub missions: Vec<&'static str>,
    /// The dispatch agent that created each mission, if one did.
    pub dispatches: Vec<Option<usize>>,
    pub sorties: Vec<Sortie>,
    pub locks: Vec<Lock>,
    pub mail: Vec<Message>,
    pub effects: BTreeMap<(usize, String), (&'static str, u32)>,
    /// Who began each, and in which epoch, when it was an agent.
    pub doers: BTreeMap<(usize, String), Option<(usize, u64)>>,
    pub notes: usize,
    /// Every fence that was ever granted.
    pub fences: Vec<u64>,
}

#[derive(Clone, Debug)]
pub struct Agent {
    pub name: &'static str,
    pub role: &'static str,
    pub epoch: u64,
    pub retired: bool,
    pub session: Option<i64>,
    pub pulse: Option<i64>,
}

#[derive(Clone, Debug)]
pub struct Sortie {
    pub mission: usize,
    pub status: &'static str,
    pub owner: Option<usize>,
    pub attempts: u32,
    pub needs: Vec<usize>,
    pub files: Vec<&'static str>,
    pub priority: i32,
    /// Blocking errors that were not cleared, and others.
    pub errors: (u32, u32),
    /// It was blocked by a word, not by an error: the next one gives the same reason.
    pub blocked_by_word: bool,
}

#[derive(Clone, Debug)]
pub struct Lock {
    pub path: &'static str,
    /// What it was taken for: the only sortie its holder was at.
    pub sortie: Option<usize>,
    pub holder: usize,
    pub epoch: u64,
    pub fence: u64,
    pub ttl: i64,
    pub granted: i64,
    /// Since when, and when last, an agent was refused because of it.
    pub watch: Option<(i64, i64)>,
}

#[derive(Clone, Debug)]
pub struct Message {
    pub from: Option<usize>,
    pub to: Vec<(usize, &'static str)>,
}

impl Model {
    pub fn new(now: i64) -> Self {
        Self {
            now,
            seen_at: now,
            awake_since: now,
            ..Self::default()
        }
    }

    pub fn visible(&self) -> Visible {
        let name = |agent: usize| self.agents[agent].name.to_owned();
        Visible {
            rev: self.rev,
            agents: self
                .agents
                .iter()
                .map(|one| (one.name.to_owned(), one.role, one.epoch, one.retired))
                .collect(),
            missions: self.missions.clone(),
            sorties: self
                .sorties
                .iter()
                .map(|one| (one.status, one.owner.map(name), one.attempts))
                .collect(),
            locks: self
                .locks
                .iter()
                .map(|one| {
                    (
                        one.path.to_owned(),
                        (name(one.holder), one.epoch, one.fence),
                    )
                })
                .collect(),
            mail: self
                .mail
                .iter()
                .map(|one| {
                    one.to
                        .iter()
                        .map(|(to, state)| (name(*to), *state))
                        .collect()
                })
                .collect(),
            effects: self.effects.clone(),
            notes: self.notes,
        }
    }

    pub fn agent(&self, name: &str) -> Option<usize> {
        self.agents.iter().position(|agent| agent.name == name)
    }

    /// Takes a step: all of it, or nothing but a sign of life.
    pub fn take(&mut self, step: &Step) -> Answer {
        let mut draft = self.clone();
        if draft.slept() {
            draft.wake();
        }
        if let Act::Heartbeat = step.act {
            if draft.awake_since == draft.now && self.slept() {
                draft.seen_at = draft.now;
            }
            draft.heartbeat(step)?;
            *self = draft;
            return Ok(());
        }
        let answer = draft.write(step);
        match answer {
            Ok(()) => {
                draft.seen_at = draft.now;
                *self = draft;
            }
            Err(Code::Fenced) => {}
            Err(_) => self.note_life(step, answer),
        }
        answer
    }

    fn slept(&self) -> bool {
        let paused = |seen: i64| (self.now - seen).abs() > DOWNTIME;
        let newest = self.agents.iter().filter_map(|agent| agent.pulse).max();
        paused(self.seen_at) && newest.is_none_or(paused)
    }

    /// What was noted by a clock that was ahead is put right.
    fn wake(&mut self) {
        self.awake_since = self.now;
        for agent in &mut self.agents {
            agent.pulse = agent.pulse.map(|at| at.min(self.now));
        }
        if self.now < self.seen_at {
            for lock in &mut self.locks {
                lock.watch = None;
            }
        }
    }

    fn note_life(&mut self, step: &Step, answer: Answer) {
        let known = step.who.and_then(|name| self.agent(name));
        if known.is_some_and(|agent| {
            step.epoch
                .is_some_and(|epoch| epoch != self.agents[agent].epoch)
        }) {
            return;
        }
        if self.slept() {
            self.wake();
            self.seen_at = self.now;
        }
        if let Some(agent) = known.filter(|agent| !self.agents[*agent].retired) {
            self.beat(agent);
        }
        if let (Err(Code::LockHeld), Act::Lock { paths, .. }) = (answer, &step.act) {
            self.watch(paths, known);
        }
    }

    pub fn beat(&mut self, agent: usize) {
        let pulse = &mut self.agents[agent].pulse;
        let known = pulse.filter(|at| at - self.now <= DOWNTIME);
        *pulse = Some(known.map_or(self.now, |at| at.max(self.now)));
    }

    fn heartbeat(&mut self, step: &Step) -> Answer {
        let name = step.who.ok_or(Code::InvalidInput)?;
        let agent = self.agent(name).ok_or(Code::NotFound)?;
        let known = &self.agents[agent];
        if known.retired || step.epoch.is_some_and(|epoch| epoch != known.epoch) {
            return Err(Code::Fenced);
        }
        self.beat(agent);
        Ok(())
    }

    pub fn event(&mut self) -> u64 {
        self.rev += 1;
        self.rev
    }

    /// Who acts: registered by its first act, fenced when it is not its agent's current epoch.
    fn acting(&mut self, step: &Step) -> Result<Option<usize>, Code> {
        let Some(name) = step.who else {
            return Ok(None);
        };
        let agent = match self.agent(name) {
            Some(agent) => {
                let known = &self.agents[agent];
                if known.retired || step.epoch.is_some_and(|epoch| epoch != known.epoch) {
                    return Err(Code::Fenced);
                }
                agent
            }
            None if step.epoch.is_some() => return Err(Code::Fenced),
            None => self.new_agent(name, "specialist"),
        };
        if self.agents[agent].epoch == 0 {
            self.begin_session(agent);
        }
        self.beat(agent);
        Ok(Some(agent))
    }

    pub fn new_agent(&mut self, name: &'static str, role: &'static str) -> usize {
        self.agents.push(Agent {
            name,
            role,
            epoch: 0,
            retired: false,
            session: None,
            pulse: None,
        });
        self.agents.len() - 1
    }

    fn begin_session(&mut self, agent: usize) {
        self.event();
        let now = self.now;
        let agent = &mut self.agents[agent];
        agent.epoch += 1;
        agent.session = Some(now);
        agent.retired = false;
    }

    fn write(&mut self, step: &Step) -> Answer {
        if let Act::Register { name, role } = step.act {
            let known = self.agent(name);
            let agent = known.unwrap_or_else(|| self.new_agent(name, "specialist"));
            self.agents[agent].role = role.unwrap_or(self.agents[agent].role);
            self.begin_session(agent);
            self.beat(agent);
            return Ok(());
        }
        let who = self.acting(step)?;
        let me = who.ok_or(Code::InvalidInput);
        match &step.act {
            Act::Heartbeat | Act::Register { .. } => unreachable!("handled above"),
            Act::Create { sorties } => {
                self.event();
                self.missions.push("pending");
                let leads = |me: &usize| self.agents[*me].role == "dispatch";
                self.dispatches.push(who.filter(leads));
                for _ in 0..*sorties {
                    self.add(self.missions.len() - 1, Vec::new(), Vec::new(), 0);
                }
                Ok(())
            }
            Act::Add {
                mission,
                needs,
                files,
                priority,
            } => {
                if !["pending", "in_progress", "paused"].contains(&self.missions[*mission]) {
                    return Err(Code::IllegalTransition);
                }
                self.add(*mission, needs.clone(), files.clone(), *priority);
                Ok(())
            }
            Act::MoveMission { mission, to } => self.move_mission(*mission, to),
            Act::Claim { sortie } => self.claim(*sortie, me?),
            Act::ClaimNext { mission } => self.claim_next(*mission, me?),
            Act::Move { sortie, how } => self.move_sortie(*sortie, how, who),
            Act::Error { sortie, blocking } => {
                self.check_owner(*sortie, who)?;
                if !self.is_held(*sortie) {
                    return Err(Code::IllegalTransition);
                }
                self.event();
                let errors = &mut self.sorties[*sortie].errors;
                if *blocking {
                    errors.0 += 1;
                    if self.sorties[*sortie].status != "blocked" {
                        self.sorties[*sortie].blocked_by_word = false;
                        self.set(*sortie, "blocked");
                    }
                } else {
                    errors.1 += 1;
                }
                Ok(())
            }
            Act::ClearErrors { sortie } => {
                self.check_owner(*sortie, who)?;
                let errors = std::mem::take(&mut self.sorties[*sortie].errors);
                self.rev += u64::from(errors.0 + errors.1);
                Ok(())
            }
            Act::Lock { paths, ttl } => {
                let mut held = (0..self.sorties.len())
                    .filter(|at| self.is_held(*at) && self.sorties[*at].owner == me.ok());
                let only = held.next().filter(|_| held.next().is_none());
                self.grant(paths, ttl.unwrap_or(LOCK_TTL), me?, only)
            }
            Act::Renew { path, fence } => {
                let lock = self.own_lock(path, *fence, me?)?;
                if self.locks[lock].epoch != self.agents[me?].epoch {
                    return Err(Code::Fenced);
                }
                self.event();
                Ok(())
            }
            Act::Release { path, fence } => {
                let lock = self.own_lock(path, *fence, me?)?;
                self.locks.remove(lock);
                self.event();
                Ok(())
            }
            Act::ReleaseAll => self.release_all(me?),
            Act::Steal { path } => self.steal(path, me?),
            Act::Send { mission, to } => self.send(*mission, to, who),
            Act::Inbox => self.inbox(me?),
            Act::Acknowledge { message } => {
                let me = me?;
                match self.mail[*message].to.iter().any(|(to, _)| *to == me) {
                    true => self.settle(*message, me, "acknowledged"),
                    false => return Err(Code::NotYours),
                }
                Ok(())
            }
            Act::AcknowledgeAll => {
                let me = me?;
                for message in 0..self.mail.len() {
                    self.settle(message, me, "acknowledged");
                }
                Ok(())
            }
            Act::Requeue { message } => {
                for at in 0..self.mail[*message].to.len() {
                    if self.mail[*message].to[at].1 == "delivered" {
                        self.mail[*message].to[at].1 = "pending";
                        self.event();
                    }
                }
                Ok(())
            }
            Act::Reply { message } => self.reply(*message, who),
            Act::Note { .. } => {
                self.event();
                self.notes += 1;
                Ok(())
            }
            Act::Begin {
                mission,
                key,
                again,
            } => {
                let effect = self.effects.get(&(*mission, (*key).to_owned())).copied();
                let doer = self.doers.get(&(*mission, (*key).to_owned())).copied();
                let other = doer.flatten().filter(|(doer, _)| Some(*doer) != who);
                let attempts = match effect {
                    Some(("done", _)) => return Err(Code::EffectDone),
                    Some(_) if other.is_some_and(|doer| self.is_at_it(doer)) => {
                        return Err(Code::AlreadyTaken);
                    }
                    Some(_) if !again => return Err(Code::EffectInDoubt),
                    Some((_, attempts)) => attempts + 1,
                    None => 1,
                };
                self.event();
                let doer = who.map(|me| (me, self.agents[me].epoch));
                self.doers.insert((*mission, (*key).to_owned()), doer);
                self.effects
                    .insert((*mission, (*key).to_owned()), ("intent", attempts));
                Ok(())
            }
            Act::Done { mission, key } => {
                let effect = self.effects.get_mut(&(*mission, (*key).to_owned()));
                let (state, _) = effect.ok_or(Code::NotFound)?;
                if *state == "intent" {
                    *state = "done";
                    self.event();
                }
                Ok(())
            }
            Act::Retire { name } => self.retire(name, who),
        }
    }

    /// Whether the session that began an effect is there: not retired, not replaced, and not silent for too long.
    fn is_at_it(&self, (doer, epoch): (usize, u64)) -> bool {
        let agent = &self.agents[doer];
        let sign = agent
            .pulse
            .or(agent.session)
            .map(|sign| self.credible(sign));
        let silent = sign.is_some_and(|sign| self.now - sign > STALLED);
        agent.epoch == epoch && !agent.retired && !silent
    }

    fn retire(&mut self, name: &str, who: Option<usize>) -> Answer {
        let agent = self.agent(name).ok_or(Code::NotFound)?;
        let in_charge = who.is_none_or(|me| me == agent || self.agents[me].role == "dispatch");
        if !in_charge {
            return Err(Code::NotYours);
        }
        if self.agents[agent].retired {
            return Err(Code::IllegalTransition);
        }
        if (0..self.sorties.len())
            .any(|at| self.is_held(at) && self.sorties[at].owner == Some(agent))
        {
            return Err(Code::Unfinished);
        }
        self.release_all(agent)?;
        self.agents[agent].retired = true;
        self.event();
        Ok(())
    }
}
