//! Acts as text: a test writes down what happened before it begins.

use flightline::core::Refusal;
use flightline::core::agent::Role;
use flightline::core::message::Message;
use flightline::sortie::change::SortieAction;

use super::{
    DONE, GIVEN_BACK, Story, acknowledge, add_sorties, lesson, note, open_inbox, release,
    release_all, retire, sortie,
};

impl<'w> Story<'w> {
    /// A story in `world` that begins with these acts.
    pub fn begun(world: &'w crate::World, acts: &str) -> Self {
        let story = Self::new(world);
        story.play(acts);
        story
    }

    /// Plays acts, one a line. An actor is an agent, or `user` for a person.
    ///
    /// ```text
    /// mission Add login: Model, Endpoint, Docs     ada boards 7               ada registers
    /// ada finishes Model                           ada claims Endpoint        ada completes Endpoint
    /// ada returns Endpoint                         ada blocks Endpoint: why   ada reports Endpoint: half of it
    /// ada locks src/api.rs, docs                   ada releases docs          ada releases all
    /// ada writes to bob: Review                    ada reads mail             ada acknowledges Review
    /// ada learns measure first                     user adds Extra            user retires ada
    /// ada beats                                    6 minutes pass             checkpoint
    /// ```
    pub fn play(&self, acts: &str) {
        for act in acts.lines().map(str::trim).filter(|act| !act.is_empty()) {
            if let Err(refusal) = self.act(act) {
                panic!("{act}: {refusal:?}");
            }
        }
    }

    fn act(&self, act: &str) -> Result<(), Refusal> {
        let (actor, rest) = act.split_once(' ').unwrap_or((act, ""));
        let (verb, what) = rest.split_once(' ').unwrap_or((rest, ""));
        let (thing, said) = what.split_once(": ").unwrap_or((what, ""));
        let (by, list) = (if actor == "user" { "" } else { actor }, || {
            what.split(", ")
        });
        let change = |action: SortieAction| self.change(by, thing, action).map(drop);
        match (actor, verb) {
            ("checkpoint", "") => drop(self.checkpoint()),
            ("mission", _) => {
                let (title, sorties) = rest.split_once(": ").unwrap_or((rest, ""));
                let sorties = sorties.split(", ").filter(|one| !one.is_empty());
                self.mission(title, &sorties.collect::<Vec<_>>());
            }
            (minutes, "minutes") => self.pass_minutes(minutes.parse().expect("a number")),
            (_, "boards") => {
                let pid = what.parse().expect("the number of a process");
                self.board(by, Role::Specialist, pid);
            }
            (_, "registers") => drop(self.register(by, Role::Specialist)),
            (_, "finishes") => self.finish(by, &list().collect::<Vec<_>>()),
            (_, "claims") => drop(self.claim(by, what)?),
            (_, "completes") => change(DONE)?,
            (_, "returns") => change(GIVEN_BACK)?,
            (_, "blocks") => change(SortieAction::Block { reason: note(said) })?,
            (_, "reports") => self.report(by, thing, said),
            (_, "locks") => drop(self.lock(by, &list().collect::<Vec<_>>())?),
            (_, "releases") if what == "all" => drop(self.run(by, &release_all())?),
            (_, "releases") => drop(self.run(by, &release(&list().collect::<Vec<_>>()))?),
            (_, "writes") => {
                let to = thing.strip_prefix("to ").expect("to whom");
                self.send(by, &to.split(", ").collect::<Vec<_>>(), said)?;
            }
            (_, "reads") => drop(self.run(by, &open_inbox(100))?),
            (_, "acknowledges") => {
                let all = self.all::<Message>();
                let message = all.iter().rfind(|one| one.subject.as_str() == what);
                let message = message.expect("a message").id.to_string();
                self.run(by, &acknowledge(&message))?;
            }
            (_, "learns") => drop(self.run(by, &lesson(what))?),
            (_, "adds") => drop(self.run(by, &add_sorties(list().map(sortie).collect()))?),
            (_, "retires") => drop(self.run(by, &retire(what))?),
            (_, "beats") => self.beat(by)?,
            _ => panic!("no act: {act}"),
        }
        Ok(())
    }
}
