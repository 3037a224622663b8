//! The fleet's rules told a second time, in memory and without the operations' code: what each act
//! changes, how many events it leaves, and which refusal it meets.

use std::collections::BTreeMap;

use flightline::core::Code;

use super::acts::{Act, Move, Step};

/// After a pause of all writing longer than this, silence proves nothing.
const DOWNTIME: i64 = 10 * 60_000;
/// A lock lapses so long after its holder's last sign of life.
const LOCK_TTL: i64 = 30 * 60_000;

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
    seen_at: i64,
    awake_since: i64,
    pub rev: u64,
    pub agents: Vec<Agent>,
    pub missions: Vec<&'static str>,
    pub sorties: Vec<Sortie>,
    pub locks: Vec<Lock>,
    pub mail: Vec<Message>,
    effects: BTreeMap<(usize, String), (&'static str, u32)>,
    notes: usize,
    /// Every fence that was ever granted.
    pub fences: Vec<u64>,
}

#[derive(Clone, Debug)]
pub struct Agent {
    pub name: &'static str,
    role: &'static str,
    pub epoch: u64,
    retired: bool,
    session: Option<i64>,
    pulse: Option<i64>,
}

#[derive(Clone, Debug)]
pub struct Sortie {
    pub mission: usize,
    pub status: &'static str,
    pub owner: Option<usize>,
    attempts: u32,
    needs: Vec<usize>,
    files: Vec<&'static str>,
    priority: i32,
    /// Blocking errors that nobody has cleared, and others.
    errors: (u32, u32),
}

#[derive(Clone, Debug)]
pub struct Lock {
    pub path: &'static str,
    pub holder: usize,
    epoch: u64,
    fence: u64,
    ttl: i64,
    granted: i64,
}

#[derive(Clone, Debug)]
pub struct Message {
    from: Option<usize>,
    to: Vec<(usize, &'static str)>,
}

fn overlap(a: &str, b: &str) -> bool {
    let within = |inner: &str, outer: &str| outer == "." || inner == outer || inner.starts_with(&format!("{outer}/"));
    within(a, b) || within(b, a)
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
            agents: self.agents.iter().map(|one| (one.name.to_owned(), one.role, one.epoch, one.retired)).collect(),
            missions: self.missions.clone(),
            sorties: self.sorties.iter().map(|one| (one.status, one.owner.map(name), one.attempts)).collect(),
            locks: self.locks.iter().map(|one| (one.path.to_owned(), (name(one.holder), one.epoch, one.fence))).collect(),
            mail: self.mail.iter().map(|one| one.to.iter().map(|(to, state)| (name(*to), *state)).collect()).collect(),
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
            draft.awake_since = draft.now;
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
            Err(_) => self.note_life(step),
        }
        answer
    }

    fn slept(&self) -> bool {
        let paused = |seen: i64| (self.now - seen).abs() > DOWNTIME;
        let newest = self.agents.iter().filter_map(|agent| agent.pulse).max();
        paused(self.seen_at) && newest.is_none_or(paused)
    }

    fn note_life(&mut self, step: &Step) {
        let known = step.who.and_then(|name| self.agent(name));
        if known.is_some_and(|agent| step.epoch.is_some_and(|epoch| epoch != self.agents[agent].epoch)) {
            return;
        }
        if self.slept() {
            (self.seen_at, self.awake_since) = (self.now, self.now);
        }
        if let Some(agent) = known.filter(|agent| !self.agents[*agent].retired) {
            self.beat(agent);
        }
    }

    fn beat(&mut self, agent: usize) {
        let pulse = &mut self.agents[agent].pulse;
        *pulse = Some(pulse.map_or(self.now, |at| at.max(self.now)));
    }

    fn heartbeat(&mut self, step: &Step) -> Answer {
        let known = step.who.and_then(|name| self.agent(name));
        let Some(agent) = known else {
            return Err(Code::NotFound);
        };
        if step.epoch.is_some_and(|epoch| epoch != self.agents[agent].epoch) {
            return Err(Code::Fenced);
        }
        if self.agents[agent].retired {
            return Err(Code::NotFound);
        }
        self.beat(agent);
        Ok(())
    }

    fn event(&mut self) -> u64 {
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

    fn new_agent(&mut self, name: &'static str, role: &'static str) -> usize {
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
        if let Act::Register { name } = step.act {
            let agent = self.agent(name).unwrap_or_else(|| self.new_agent(name, "specialist"));
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
                for _ in 0..*sorties {
                    self.add(self.missions.len() - 1, Vec::new(), Vec::new(), 0);
                }
                Ok(())
            }
            Act::Add { mission, needs, files, priority } => {
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
            Act::Lock { paths, ttl } => self.grant(paths, ttl.unwrap_or(LOCK_TTL), me?),
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
            Act::Begin { mission, key, again } => {
                let effect = self.effects.get(&(*mission, (*key).to_owned())).copied();
                let attempts = match effect {
                    Some(("done", _)) => return Err(Code::EffectDone),
                    Some(_) if !again => return Err(Code::EffectInDoubt),
                    Some((_, attempts)) => attempts + 1,
                    None => 1,
                };
                self.event();
                self.effects.insert((*mission, (*key).to_owned()), ("intent", attempts));
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

    fn add(&mut self, mission: usize, needs: Vec<usize>, files: Vec<&'static str>, priority: i32) {
        self.event();
        self.sorties.push(Sortie {
            mission,
            status: "pending",
            owner: None,
            attempts: 0,
            needs,
            files,
            priority,
            errors: (0, 0),
        });
    }

    fn move_mission(&mut self, mission: usize, to: &'static str) -> Answer {
        let legal: &[&str] = match self.missions[mission] {
            "pending" => &["in_progress", "failed", "archived"],
            "in_progress" => &["paused", "completed", "failed", "archived"],
            "paused" => &["in_progress", "completed", "failed", "archived"],
            "completed" => &["archived"],
            "failed" => &["in_progress", "archived"],
            _ => &[],
        };
        if !legal.contains(&to) {
            return Err(Code::IllegalTransition);
        }
        let mut sorties = self.sorties.iter().filter(|sortie| sortie.mission == mission);
        if to == "completed" && sorties.any(|sortie| sortie.status != "completed") {
            return Err(Code::Unfinished);
        }
        self.missions[mission] = to;
        self.event();
        Ok(())
    }

    fn begin_mission(&mut self, mission: usize) -> Answer {
        match self.missions[mission] {
            "in_progress" => {}
            "pending" => {
                self.missions[mission] = "in_progress";
                self.event();
            }
            _ => return Err(Code::IllegalTransition),
        }
        Ok(())
    }

    fn is_held(&self, sortie: usize) -> bool {
        ["assigned", "in_progress", "blocked"].contains(&self.sorties[sortie].status)
    }

    fn is_ready(&self, sortie: usize) -> bool {
        let needs = &self.sorties[sortie].needs;
        needs.iter().all(|needed| self.sorties[*needed].status == "completed")
    }

    fn check_owner(&self, sortie: usize, who: Option<usize>) -> Answer {
        match (who, self.sorties[sortie].owner) {
            (Some(me), Some(owner)) if me != owner && self.agents[me].role != "dispatch" => Err(Code::NotYours),
            _ => Ok(()),
        }
    }

    fn set(&mut self, sortie: usize, status: &'static str) {
        self.sorties[sortie].status = status;
        self.event();
    }

    fn claim(&mut self, at: usize, me: usize) -> Answer {
        let sortie = &self.sorties[at];
        match (sortie.status, sortie.owner == Some(me)) {
            ("in_progress", true) => return Ok(()),
            ("assigned" | "in_progress" | "blocked", false) => return Err(Code::AlreadyTaken),
            ("blocked", true) if sortie.errors.0 > 0 => return Err(Code::IllegalTransition),
            _ if !self.is_ready(at) => return Err(Code::IllegalTransition),
            ("completed", _) => return Err(Code::IllegalTransition),
            _ => {}
        }
        self.begin_mission(self.sorties[at].mission)?;
        self.sorties[at].owner = Some(me);
        self.sorties[at].attempts += 1;
        self.set(at, "in_progress");
        Ok(())
    }

    fn claim_next(&mut self, mission: usize, me: usize) -> Answer {
        let locked = |file: &str| self.locks.iter().any(|lock| lock.holder != me && overlap(lock.path, file));
        let mine = |sortie: &Sortie| sortie.status == "assigned" && sortie.owner == Some(me);
        let free = |at: &usize| {
            let sortie = &self.sorties[*at];
            sortie.mission == mission
                && (sortie.status == "pending" || mine(sortie))
                && self.is_ready(*at)
                && !sortie.files.iter().any(|file| locked(file))
        };
        let first = |at: &usize| (!mine(&self.sorties[*at]), -self.sorties[*at].priority, *at);
        let next = (0..self.sorties.len()).filter(free).min_by_key(first);
        self.claim(next.ok_or(Code::NothingReady)?, me)
    }

    fn move_sortie(&mut self, at: usize, how: &Move, who: Option<usize>) -> Answer {
        let give = |name: &str| {
            let to = self.agent(name).ok_or(Code::NotFound)?;
            match self.agents[to].retired {
                true => Err(Code::IllegalTransition),
                false => Ok(to),
            }
        };
        let to = match how {
            Move::Assign(name) | Move::Reassign(name) => Some(give(name)?),
            _ => None,
        };
        if matches!(how, Move::Assign(_)) && self.is_held(at) && self.sorties[at].owner != to {
            return Err(Code::AlreadyTaken);
        }
        if !matches!(how, Move::Approve | Move::Reject) {
            self.check_owner(at, who)?;
        }
        let (status, mission, stuck) = (self.sorties[at].status, self.sorties[at].mission, self.sorties[at].errors.0 > 0);
        let legal = match how {
            Move::Assign(_) | Move::Reassign(_) => status != "completed",
            Move::Start => status == "assigned" && self.is_ready(at),
            Move::Block => ["assigned", "in_progress"].contains(&status),
            Move::Unblock => status == "blocked" && !stuck,
            Move::Resume => ["in_progress", "blocked"].contains(&status) && !stuck,
            Move::Complete => status == "in_progress",
            Move::Fail => !["completed", "failed"].contains(&status),
            Move::Release => !["pending", "completed"].contains(&status),
            Move::Approve | Move::Reject => status == "completed",
        };
        if !legal {
            return Err(Code::IllegalTransition);
        }
        match how {
            Move::Assign(_) | Move::Reassign(_) => {
                self.sorties[at].owner = to;
                self.set(at, "assigned");
            }
            Move::Start => {
                self.begin_mission(mission)?;
                self.sorties[at].attempts += 1;
                self.set(at, "in_progress");
            }
            Move::Block => self.set(at, "blocked"),
            Move::Unblock | Move::Resume => self.set(at, "in_progress"),
            Move::Complete => {
                self.set(at, "completed");
                let dispatch = self.dispatch();
                if who != Some(dispatch) {
                    self.post(who, &[dispatch]);
                }
            }
            Move::Fail => self.set(at, "failed"),
            Move::Release => {
                self.sorties[at].owner = None;
                self.set(at, "pending");
            }
            Move::Approve => {
                self.event();
            }
            Move::Reject => {
                self.begin_mission(mission)?;
                self.set(at, "in_progress");
            }
        }
        Ok(())
    }

    /// Who gets reports: a dispatch in session, else one that only has a mailbox, else the name.
    fn dispatch(&mut self) -> usize {
        let fit = |agent: &&usize| self.agents[**agent].role == "dispatch" && !self.agents[**agent].retired;
        let all: Vec<usize> = (0..self.agents.len()).collect();
        let in_session = |agent: &&usize| self.agents[**agent].epoch > 0;
        let found = all.iter().filter(fit).find(in_session).or_else(|| all.iter().find(fit));
        if let Some(found) = found.copied().or_else(|| self.agent("dispatch")) {
            return found;
        }
        self.event();
        self.new_agent("dispatch", "dispatch")
    }

    fn lapsed(&self, lock: &Lock) -> bool {
        let holder = &self.agents[lock.holder];
        let sign = holder.session.max(holder.pulse).unwrap_or(lock.granted);
        let since = sign.max(self.awake_since).max(lock.granted);
        self.now - since > lock.ttl
    }

    fn grant(&mut self, paths: &[&'static str], ttl: i64, me: usize) -> Answer {
        let mut granted: Vec<&str> = Vec::new();
        for path in paths {
            if granted.contains(path) {
                continue;
            }
            granted.push(path);
            while let Some(at) = self.locks.iter().position(|lock| lock.holder != me && overlap(lock.path, path)) {
                if !self.lapsed(&self.locks[at]) {
                    return Err(Code::LockHeld);
                }
                self.locks.remove(at);
                self.event();
            }
            self.locks.retain(|lock| lock.path != *path);
            let (fence, granted) = (self.event(), self.now);
            self.fences.push(fence);
            let epoch = self.agents[me].epoch;
            self.locks.push(Lock { path, holder: me, epoch, fence, ttl, granted });
        }
        Ok(())
    }

    fn own_lock(&self, path: &str, fence: Option<u64>, me: usize) -> Result<usize, Code> {
        let at = self.locks.iter().position(|lock| lock.path == path).ok_or(Code::NotFound)?;
        let lock = &self.locks[at];
        match lock.holder == me && fence.is_none_or(|fence| fence == lock.fence) {
            true => Ok(at),
            false => Err(Code::Fenced),
        }
    }

    fn release_all(&mut self, me: usize) -> Answer {
        let before = self.locks.len();
        self.locks.retain(|lock| lock.holder != me);
        self.rev += (before - self.locks.len()) as u64;
        Ok(())
    }

    fn steal(&mut self, path: &'static str, me: usize) -> Answer {
        let taken: Vec<usize> = self.locks.iter().filter(|lock| lock.holder != me && overlap(lock.path, path)).map(|lock| lock.holder).collect();
        if taken.is_empty() {
            return Err(Code::NotFound);
        }
        self.locks.retain(|lock| lock.holder == me || !overlap(lock.path, path));
        for holder in taken {
            self.event();
            self.post(None, &[holder]);
        }
        self.grant(&[path], LOCK_TTL, me)
    }

    fn post(&mut self, from: Option<usize>, to: &[usize]) {
        self.rev += 1 + to.len() as u64;
        let to = to.iter().map(|agent| (*agent, "pending")).collect();
        self.mail.push(Message { from, to });
    }

    fn send(&mut self, _mission: usize, names: &[&'static str], who: Option<usize>) -> Answer {
        let mut to = Vec::new();
        for name in names {
            let agent = match *name {
                "dispatch" => self.dispatch(),
                name => self.agent(name).ok_or(Code::NotFound)?,
            };
            if self.agents[agent].retired {
                return Err(Code::IllegalTransition);
            }
            if !to.contains(&agent) {
                to.push(agent);
            }
        }
        self.post(who, &to);
        Ok(())
    }

    fn settle(&mut self, message: usize, me: usize, state: &'static str) {
        for at in 0..self.mail[message].to.len() {
            let (to, before) = self.mail[message].to[at];
            if to == me && before != "acknowledged" && before != state {
                self.mail[message].to[at].1 = state;
                self.event();
            }
        }
    }

    fn inbox(&mut self, me: usize) -> Answer {
        let unread = |one: &Message| one.to.iter().any(|(to, state)| *to == me && *state != "acknowledged");
        let found: Vec<usize> = (0..self.mail.len()).filter(|at| unread(&self.mail[*at])).collect();
        if !found.is_empty() {
            self.event();
        }
        for message in found {
            self.settle(message, me, "delivered");
        }
        Ok(())
    }

    fn reply(&mut self, message: usize, who: Option<usize>) -> Answer {
        let question = self.mail[message].clone();
        let mut to: Vec<usize> = Vec::new();
        for agent in question.from.into_iter().chain(question.to.iter().map(|(to, _)| *to)) {
            if Some(agent) != who && !self.agents[agent].retired && !to.contains(&agent) {
                to.push(agent);
            }
        }
        if to.is_empty() {
            return Err(Code::NotFound);
        }
        if let Some(me) = who {
            self.settle(message, me, "acknowledged");
        }
        self.post(who, &to);
        Ok(())
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
        if (0..self.sorties.len()).any(|at| self.is_held(at) && self.sorties[at].owner == Some(agent)) {
            return Err(Code::Unfinished);
        }
        self.release_all(agent)?;
        self.agents[agent].retired = true;
        self.event();
        Ok(())
    }
}
