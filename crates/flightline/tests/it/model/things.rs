//! The model's locks and mail.

use flightline_testkit::prelude::*;

use super::rules::{Answer, DOWNTIME, LOCK_TTL, Lock, Message, Model, Visible};

pub fn overlap(a: &str, b: &str) -> bool {
    let within = |inner: &str, outer: &str| {
        outer == "." || inner == outer || inner.starts_with(&format!("{outer}/"))
    };
    within(a, b) || within(b, a)
}

impl Model {
    /// Who gets a mission's reports: its own dispatch, else one in session, else one that only has a
    /// mailbox, else the name.
    pub fn dispatch(&mut self, mission: usize) -> usize {
        let own = self.dispatches[mission].filter(|agent| !self.agents[*agent].retired);
        if let Some(own) = own {
            return own;
        }
        let fit = |agent: &&usize| {
            self.agents[**agent].role == "dispatch" && !self.agents[**agent].retired
        };
        let all: Vec<usize> = (0..self.agents.len()).collect();
        let in_session = |agent: &&usize| self.agents[**agent].epoch > 0;
        let found = all
            .iter()
            .filter(fit)
            .find(in_session)
            .or_else(|| all.iter().find(fit));
        if let Some(found) = found.copied().or_else(|| self.agent("dispatch")) {
            return found;
        }
        self.event();
        self.new_agent("dispatch", "dispatch")
    }

    pub fn lapsed(&self, lock: &Lock) -> bool {
        let holder = &self.agents[lock.holder];
        let sign = holder.pulse.or(holder.session);
        let sign = sign.map(|sign| self.credible(sign));
        let noticed = match self.watched(lock, sign) {
            Some((since, _)) => self.awake_since.max(lock.granted).min(since),
            None => self.awake_since.max(self.granted(lock)),
        };
        self.now - sign.map_or(noticed, |sign| sign.max(noticed)) > lock.ttl
    }

    /// What was noted by a clock that was far ahead proves little.
    pub fn credible(&self, sign: i64) -> i64 {
        if sign - self.now > DOWNTIME {
            self.awake_since
        } else {
            sign
        }
    }

    fn granted(&self, lock: &Lock) -> i64 {
        if lock.granted > self.now {
            0
        } else {
            lock.granted
        }
    }

    /// The watch over a lock when an agent looks now, and its holder gave its last sign then.
    fn watched(&self, lock: &Lock, sign: Option<i64>) -> Option<(i64, i64)> {
        let (since, at) = lock.watch?;
        let since = match sign {
            Some(sign) if sign <= at => since.max(sign),
            _ => since,
        };
        let gap = self.now - at;
        Some(match gap {
            gap if -gap > DOWNTIME => (self.now, self.now),
            gap if gap > lock.ttl.max(6 * DOWNTIME) => (since + gap - lock.ttl / 2 - 1, self.now),
            _ => (since.min(self.now), self.now),
        })
    }

    /// An agent waits for all locks that are in the way.
    pub fn watch(&mut self, paths: &[&'static str], me: Option<usize>) {
        for at in 0..self.locks.len() {
            let lock = &self.locks[at];
            let in_the_way = paths.iter().any(|path| overlap(lock.path, path));
            if in_the_way && Some(lock.holder) != me {
                let first = self.awake_since.max(self.granted(lock)).min(self.now);
                let sign = self.agents[lock.holder].pulse;
                let watch = self.watched(lock, sign).unwrap_or((first, self.now));
                self.locks[at].watch = Some(watch);
            }
        }
    }

    pub fn grant(
        &mut self,
        paths: &[&'static str],
        ttl: i64,
        me: usize,
        sortie: Option<usize>,
    ) -> Answer {
        let mut granted: Vec<&str> = Vec::new();
        for path in paths {
            if granted.contains(path) {
                continue;
            }
            granted.push(path);
            while let Some(at) = self
                .locks
                .iter()
                .position(|lock| lock.holder != me && overlap(lock.path, path))
            {
                if !self.lapsed(&self.locks[at]) {
                    return Err(Code::LockHeld);
                }
                self.locks.remove(at);
                self.event();
            }
            let (fence, granted, epoch) = (self.event(), self.now, self.agents[me].epoch);
            self.fences.push(fence);
            let lock = Lock {
                path,
                sortie,
                holder: me,
                epoch,
                fence,
                ttl,
                granted,
                watch: None,
            };
            match self.locks.iter_mut().find(|lock| lock.path == *path) {
                Some(own) => *own = lock,
                None => self.locks.push(lock),
            }
        }
        Ok(())
    }

    /// What belongs to which mission is no business of the model. Who takes a lock again for work in another mission gives the
    /// old one back first: then the fence is larger than the model thinks, and never smaller.
    pub fn learn_fences(&mut self, before: u64, seen: &Visible) {
        let mut granted: Vec<&mut Lock> = self.locks.iter_mut().collect();
        granted.retain(|lock| lock.fence > before);
        granted.sort_by_key(|lock| std::cmp::Reverse(lock.fence));
        for lock in granted {
            let found = seen.locks.get(lock.path).map(|(_, _, fence)| *fence);
            let Some(fence) = found.filter(|fence| *fence > lock.fence) else {
                continue;
            };
            let known = self.fences.iter_mut().find(|known| **known == lock.fence);
            *known.unwrap() = fence;
            lock.fence = fence;
        }
    }

    /// What was locked for a sortie goes with it, but for what its next owner holds.
    pub fn release_for(&mut self, sortie: usize, next: Option<usize>) {
        let before = self.locks.len();
        let stays = |lock: &Lock| lock.sortie != Some(sortie) || Some(lock.holder) == next;
        self.locks.retain(stays);
        self.rev += (before - self.locks.len()) as u64;
    }

    /// With a mission that is over, everything goes that was locked for its sorties, and what else belongs to it: which that
    /// is the model learns.
    pub fn learn_releases(&mut self, over: usize, seen: &Visible) {
        let before = self.locks.len();
        let sorties = &self.sorties;
        self.locks.retain(|lock| {
            let mission = lock.sortie.map(|sortie| sorties[sortie].mission);
            match mission {
                Some(mission) => mission != over,
                None => seen.locks.contains_key(lock.path),
            }
        });
        self.rev += (before - self.locks.len()) as u64;
    }

    pub fn own_lock(&self, path: &str, fence: Option<u64>, me: usize) -> Result<usize, Code> {
        let at = self
            .locks
            .iter()
            .position(|lock| lock.path == path)
            .ok_or(Code::NotFound)?;
        let lock = &self.locks[at];
        match lock.holder == me && fence.is_none_or(|fence| fence == lock.fence) {
            true => Ok(at),
            false => Err(Code::Fenced),
        }
    }

    pub fn release_all(&mut self, me: usize) -> Answer {
        let before = self.locks.len();
        self.locks.retain(|lock| lock.holder != me);
        self.rev += (before - self.locks.len()) as u64;
        Ok(())
    }

    pub fn steal(&mut self, path: &'static str, me: usize) -> Answer {
        let taken: Vec<usize> = self
            .locks
            .iter()
            .filter(|lock| lock.holder != me && overlap(lock.path, path))
            .map(|lock| lock.holder)
            .collect();
        if taken.is_empty() {
            return Err(Code::NotFound);
        }
        self.locks
            .retain(|lock| lock.holder == me || !overlap(lock.path, path));
        for holder in taken {
            self.event();
            self.post(None, &[holder]);
        }
        self.grant(&[path], LOCK_TTL, me, None)
    }

    pub fn post(&mut self, from: Option<usize>, to: &[usize]) {
        self.rev += 1 + to.len() as u64;
        let to = to.iter().map(|agent| (*agent, "pending")).collect();
        self.mail.push(Message { from, to });
    }

    pub fn send(&mut self, mission: usize, names: &[&'static str], who: Option<usize>) -> Answer {
        let mut to = Vec::new();
        for name in names {
            let agent = match *name {
                "dispatch" => self.dispatch(mission),
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

    pub fn settle(&mut self, message: usize, me: usize, state: &'static str) {
        for at in 0..self.mail[message].to.len() {
            let (to, before) = self.mail[message].to[at];
            if to == me && before != "acknowledged" && before != state {
                self.mail[message].to[at].1 = state;
                self.event();
            }
        }
    }

    pub fn inbox(&mut self, me: usize) -> Answer {
        let unread = |one: &Message| {
            one.to
                .iter()
                .any(|(to, state)| *to == me && *state != "acknowledged")
        };
        let found: Vec<usize> = (0..self.mail.len())
            .filter(|at| unread(&self.mail[*at]))
            .collect();
        if !found.is_empty() {
            self.event();
        }
        for message in found {
            self.settle(message, me, "delivered");
        }
        Ok(())
    }

    pub fn reply(&mut self, message: usize, who: Option<usize>) -> Answer {
        let question = self.mail[message].clone();
        let mut to: Vec<usize> = Vec::new();
        for agent in question
            .from
            .into_iter()
            .chain(question.to.iter().map(|(to, _)| *to))
        {
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
}
