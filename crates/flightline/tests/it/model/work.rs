//! The model's missions and sorties.

use flightline_testkit::prelude::*;

use super::acts::Move;
use super::rules::{Answer, Model, Sortie};
use super::things::overlap;

impl Model {
    pub fn add(
        &mut self,
        mission: usize,
        needs: Vec<usize>,
        files: Vec<&'static str>,
        priority: i32,
    ) {
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
            blocked_by_word: false,
        });
    }

    pub fn move_mission(&mut self, mission: usize, to: &'static str) -> Answer {
        if self.missions[mission] == to {
            return Ok(());
        }
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
        let mut sorties = self
            .sorties
            .iter()
            .filter(|sortie| sortie.mission == mission);
        if to == "completed" && sorties.any(|sortie| sortie.status != "completed") {
            return Err(Code::Unfinished);
        }
        self.missions[mission] = to;
        self.event();
        Ok(())
    }

    pub fn begin_mission(&mut self, mission: usize) -> Answer {
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

    pub fn is_held(&self, sortie: usize) -> bool {
        ["assigned", "in_progress", "blocked"].contains(&self.sorties[sortie].status)
    }

    pub fn is_ready(&self, sortie: usize) -> bool {
        let needs = &self.sorties[sortie].needs;
        needs
            .iter()
            .all(|needed| self.sorties[*needed].status == "completed")
    }

    pub fn check_owner(&self, sortie: usize, who: Option<usize>) -> Answer {
        match (who, self.sorties[sortie].owner) {
            (Some(me), Some(owner)) if me != owner && self.agents[me].role != "dispatch" => {
                Err(Code::NotYours)
            }
            _ => Ok(()),
        }
    }

    pub fn set(&mut self, sortie: usize, status: &'static str) {
        self.sorties[sortie].status = status;
        self.event();
    }

    pub fn claim(&mut self, at: usize, me: usize) -> Answer {
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

    pub fn claim_next(&mut self, mission: usize, me: usize) -> Answer {
        let locked = |file: &str| {
            self.locks
                .iter()
                .any(|lock| lock.holder != me && overlap(lock.path, file))
        };
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
        let mut here = self.sorties.iter().filter(|it| it.mission == mission);
        let settled = |it: &Sortie| matches!(it.status, "completed" | "skipped");
        let nothing = match here.clone().count() > 0 && here.all(settled) {
            true => Code::NothingLeft,
            false => Code::NothingReady,
        };
        self.claim(next.ok_or(nothing)?, me)
    }

    pub fn move_sortie(&mut self, at: usize, how: &Move, who: Option<usize>) -> Answer {
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
        let (status, mission, stuck) = (
            self.sorties[at].status,
            self.sorties[at].mission,
            self.sorties[at].errors.0 > 0,
        );
        // What is so already is no move.
        let blocked_by_word = self.sorties[at].blocked_by_word;
        if matches!(how, Move::Block) && status == "blocked" && blocked_by_word
            || matches!(
                (how, status),
                (Move::Start, "in_progress")
                    | (Move::Complete, "completed")
                    | (Move::Fail, "failed")
            )
        {
            return Ok(());
        }
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
                self.release_for(at, to);
            }
            Move::Start => {
                self.begin_mission(mission)?;
                self.sorties[at].attempts += 1;
                self.set(at, "in_progress");
            }
            Move::Block => {
                self.sorties[at].blocked_by_word = true;
                self.set(at, "blocked");
            }
            Move::Unblock | Move::Resume => self.set(at, "in_progress"),
            Move::Complete => {
                self.set(at, "completed");
                self.release_for(at, None);
                let dispatch = self.dispatch(mission);
                if who != Some(dispatch) {
                    self.post(who, &[dispatch]);
                }
            }
            Move::Fail => {
                self.set(at, "failed");
                self.release_for(at, None);
            }
            Move::Release => {
                self.sorties[at].owner = None;
                self.set(at, "pending");
                self.release_for(at, None);
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
}
