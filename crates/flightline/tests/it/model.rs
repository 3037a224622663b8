//! Random acts on SQLite, on PostgreSQL and on a model in memory: after every step all three give the
//! same answer and stand the same.
//!
//! `FLEET_MODEL_STEPS` sets how many steps are taken in all, `FLEET_MODEL_SEED` where chance begins.

use std::collections::BTreeMap;

use acts::{Act, Chance, Step};
use flightline::core::note::Note;
use flightline::core::{AgentId, Subject};
use flightline::registry::Registered;
use flightline::store::Tx;
use flightline_testkit::prelude::*;
use rules::{Answer, Model, Visible};

pub(crate) mod acts;
mod rules;
mod things;
mod work;

/// How often the doctor looks.
const VISIT: u64 = 200;

/// The ids of things, in the order they came to be.
#[derive(Default)]
struct Known {
    missions: Vec<String>,
    sorties: Vec<String>,
    messages: Vec<String>,
}

/// A store, and what was last seen of it.
struct Side<'w> {
    story: Story<'w>,
    known: Known,
}

fn all<S: Subject>(tx: &mut Tx<'_>) -> Vec<S> {
    tx.find(Find::All).unwrap()
}

impl<'w> Side<'w> {
    fn new(world: &'w World) -> Self {
        // What a rehearsal would show, it shows on one engine as well as on two.
        let story = match world.engine {
            Engine::Sqlite => Story::new(world),
            Engine::Postgres => Story::unrehearsed(world),
        };
        Self {
            story,
            known: Known::default(),
        }
    }

    fn look(&mut self) -> Visible {
        let (visible, known) = self.story.with_fleet(|fleet| {
            fleet
                .store()
                .unwrap()
                .read(|tx| {
                    let (agents, missions, sorties) =
                        (all::<Agent>(tx), all::<Mission>(tx), all::<Sortie>(tx));
                    let (messages, deliveries) = (all::<Message>(tx), all::<Delivery>(tx));
                    let name = |id: AgentId| {
                        let agent = agents.iter().find(|agent| agent.id == id);
                        agent.unwrap().name.to_string()
                    };
                    let way = |delivery: &Delivery| (name(delivery.to), delivery.state.as_str());
                    let mail = messages.iter().map(|message| {
                        let ways = deliveries.iter().filter(|one| one.message_id == message.id);
                        ways.map(way).collect()
                    });
                    let lock = |lock: Lock| {
                        (
                            lock.file.to_string(),
                            (name(lock.held_by), lock.epoch, lock.fence),
                        )
                    };
                    let effect = |effect: Effect| {
                        let mission = missions
                            .iter()
                            .position(|mission| mission.id == effect.mission_id);
                        (
                            (mission.unwrap(), effect.key.to_string()),
                            (effect.state.as_str(), effect.attempts),
                        )
                    };
                    let visible = Visible {
                        rev: tx.rev(),
                        agents: agents
                            .iter()
                            .map(|agent| {
                                (
                                    agent.name.to_string(),
                                    agent.role.as_str(),
                                    agent.epoch,
                                    agent.retired_at.is_some(),
                                )
                            })
                            .collect(),
                        missions: missions
                            .iter()
                            .map(|mission| mission.status.as_str())
                            .collect(),
                        sorties: sorties
                            .iter()
                            .map(|sortie| {
                                (
                                    sortie.status.as_str(),
                                    sortie.assigned_to.map(name),
                                    sortie.attempts,
                                )
                            })
                            .collect(),
                        locks: all::<Lock>(tx).into_iter().map(lock).collect(),
                        mail: mail.collect(),
                        effects: all::<Effect>(tx)
                            .into_iter()
                            .map(effect)
                            .collect::<BTreeMap<_, _>>(),
                        notes: all::<Note>(tx).len(),
                    };
                    let known = Known {
                        missions: missions.iter().map(Subject::key).collect(),
                        sorties: sorties.iter().map(Subject::key).collect(),
                        messages: messages.iter().map(Subject::key).collect(),
                    };
                    Ok::<_, flightline::store::StoreError>((visible, known))
                })
                .unwrap()
        });
        self.known = known;
        visible
    }

    fn take(&self, step: &Step) -> Answer {
        self.story.world.clock.advance(step.later);
        let caller = Caller {
            epoch: step.epoch,
            ..caller(step.who.unwrap_or_default())
        };
        let mission = |at: &usize| Some(self.known.missions[*at].clone());
        let sortie_id = |at: &usize| self.known.sorties[*at].clone();
        let message = |at: &usize| self.known.messages[*at].clone();
        let owned = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        match &step.act {
            Act::Create { sorties } => {
                let sorties = (0..*sorties).map(|at| sortie(&format!("Sortie {at}")));
                self.run(&caller, create_mission("Mission", sorties.collect()))
            }
            Act::Add {
                mission: at,
                needs,
                files,
                priority,
            } => {
                let new = NewSortie {
                    depends_on: needs.iter().map(sortie_id).collect(),
                    files: files.iter().map(|file| path(file)).collect(),
                    priority: *priority,
                    ..sortie("Added")
                };
                self.run(
                    &caller,
                    AddSorties {
                        mission: mission(at),
                        ..add_sorties(vec![new])
                    },
                )
            }
            Act::MoveMission { mission: at, to } => {
                let to: MissionStatus = serde_json::from_value((*to).into()).unwrap();
                self.run(
                    &caller,
                    ChangeMission {
                        mission: mission(at),
                        ..change_mission(to)
                    },
                )
            }
            Act::Claim { sortie } => self.run(
                &caller,
                ClaimSortie {
                    sortie: sortie_id(sortie),
                    lock: false,
                },
            ),
            Act::ClaimNext { mission: at } => self.run(
                &caller,
                ClaimNext {
                    mission: mission(at),
                    ..claim_next()
                },
            ),
            Act::Move { sortie, how } => {
                self.run(&caller, change_sortie(sortie_id(sortie), how.action()))
            }
            Act::Error { sortie, blocking } => {
                let error = ReportError {
                    blocking: *blocking,
                    ..report_error(sortie_id(sortie), "oops", "oops")
                };
                self.run(&caller, error)
            }
            Act::ClearErrors { sortie } => self.run(
                &caller,
                ClearErrors {
                    sortie: sortie_id(sortie),
                },
            ),
            Act::Lock { paths, ttl } => {
                let ttl_ms = ttl.map(|ttl| u64::try_from(ttl).unwrap());
                self.run(
                    &caller,
                    AcquireLocks {
                        ttl_ms,
                        ..locks_on(paths)
                    },
                )
            }
            Act::Renew { path, fence } => self.run(
                &caller,
                RenewLocks {
                    locks: owned(&[path]),
                    fence: *fence,
                    ttl_ms: None,
                },
            ),
            Act::Release { path, fence } => self.run(
                &caller,
                ReleaseLocks {
                    locks: owned(&[path]),
                    all: false,
                    fence: *fence,
                },
            ),
            Act::ReleaseAll => self.run(&caller, release_all()),
            Act::Steal { path: wanted } => self.run(
                &caller,
                StealLock {
                    path: path(wanted),
                    reason: note("urgent"),
                },
            ),
            Act::Send { mission: at, to } => {
                let send = SendMail {
                    to: owned(to),
                    subject: title("Hello"),
                    body: None,
                    mission: mission(at),
                    acknowledge_within_ms: None,
                };
                self.run(&caller, send)
            }
            Act::Inbox => self.run(&caller, open_inbox(10_000)),
            Act::Acknowledge { message: at } => self.run(&caller, acknowledge(&message(at))),
            Act::AcknowledgeAll => self.run(&caller, acknowledge_all()),
            Act::Requeue { message: at } => self.run(
                &caller,
                RequeueMail {
                    message: message(at),
                },
            ),
            Act::Reply { message: at } => self.run(
                &caller,
                ReplyMail {
                    message: message(at),
                    body: Body::parse("body", "Yes").unwrap(),
                },
            ),
            Act::Heartbeat => self.run(&caller, Heartbeat::default()),
            Act::Register { name, role } => {
                let role = role.map(|role| serde_json::from_value(role.into()).unwrap());
                self.run(
                    &caller,
                    RegisterAgent {
                        role,
                        ..registration(name)
                    },
                )
            }
            Act::Retire { name } => self.run(&caller, retire(name)),
            Act::Note { mission: at } => {
                let add = AddNote {
                    mission: mission(at),
                    ..lesson("learned")
                };
                self.run(&caller, add)
            }
            Act::Begin {
                mission: at,
                key,
                again,
            } => self.run(
                &caller,
                BeginEffect {
                    mission: mission(at),
                    again: *again,
                    ..begin_effect(key)
                },
            ),
            Act::Done { mission: at, key } => self.run(
                &caller,
                FinishEffect {
                    mission: mission(at),
                    ..finish_effect(key)
                },
            ),
        }
    }

    fn run<O: Registered>(&self, caller: &Caller, operation: O) -> Answer {
        match self.story.run_as(caller, &operation) {
            Ok(_) => Ok(()),
            Err(refusal) => Err(refusal.code),
        }
    }
}

/// Lives one episode; says how many steps were taken and how many refused.
fn live(seed: u64, steps: u64) -> (u64, u64) {
    let worlds = [World::new(Engine::Sqlite), World::new(Engine::Postgres)];
    let mut sides = [Side::new(&worlds[0]), Side::new(&worlds[1])];
    let (mut chance, mut model) = (
        Chance::new(seed),
        Model::new(worlds[0].clock.now().as_millis()),
    );
    let (mut story, mut refused) = (Vec::new(), 0);
    for number in 1..=steps {
        let step = chance.step(&model);
        story.push(format!("{step:?}"));
        let so_far = |what: &str| {
            let last: Vec<&String> = story.iter().rev().take(12).collect();
            format!("{what}, seed {seed}, step {number}; the last steps, newest first: {last:#?}")
        };
        model.now += step.later;
        let before = model.rev;
        let answer = model.take(&step);
        refused += u64::from(answer.is_err());
        let mut revs = Vec::new();
        for side in &mut sides {
            let engine = side.story.world.engine;
            assert_eq!(
                side.take(&step),
                answer,
                "{}",
                so_far(&format!("{engine:?} answers otherwise"))
            );
            let seen = side.look();
            if revs.is_empty() {
                model.learn_fences(before, &seen);
                if let (Ok(()), Act::MoveMission { mission, to }) = (answer, &step.act)
                    && ["completed", "failed", "archived"].contains(to)
                    // One that was over already releases nothing.
                    && model.rev > before
                {
                    model.learn_releases(*mission, &seen);
                }
            }
            revs.push(seen.rev);
            // Checkpoints are no business of the model: it counts the events of the work alone.
            assert!(
                seen.rev >= model.visible().rev,
                "{}",
                so_far("events are missing")
            );
            assert_eq!(
                seen,
                Visible {
                    rev: seen.rev,
                    ..model.visible()
                },
                "{}",
                so_far(&format!("{engine:?} stands otherwise"))
            );
            if number % VISIT == 0 || number == steps {
                assert_eq!(
                    side.story.damaged_values(),
                    Vec::<String>::new(),
                    "{}",
                    so_far(&format!("{engine:?} is ill"))
                );
            }
        }
        assert_eq!(
            revs[0],
            revs[1],
            "{}",
            so_far("the engines count otherwise")
        );
        model.rev = revs[0];
    }
    (steps, refused)
}

#[expect(
    clippy::disallowed_methods,
    reason = "a longer or another run is asked for from outside"
)]
pub fn from_environment(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |text| text.parse().unwrap())
}

/// Lives every fourth episode, so that the others can be lived at the same time.
fn live_some(first: u64) {
    let (steps, seed) = (
        from_environment("FLEET_MODEL_STEPS", 2_000),
        from_environment("FLEET_MODEL_SEED", 1),
    );
    // Many short lives meet more beginnings, long ones more consequences.
    let life = if steps > 10_000 { 1_000 } else { VISIT };
    let mut all = (0, 0);
    for episode in (first..steps.div_ceil(life)).step_by(4) {
        let length = life.min(steps - episode * life);
        let (taken, refused) = live(seed + episode, length);
        all = (all.0 + taken, all.1 + refused);
    }
    assert!(
        all.0 < 100 || all.1 * 10 > all.0 && all.1 * 10 < all.0 * 8,
        "{} of {} steps were refused: too dull",
        all.1,
        all.0
    );
}

#[test]
fn three_fleets_agree_on_the_first_quarter() {
    live_some(0);
}

#[test]
fn three_fleets_agree_on_the_second_quarter() {
    live_some(1);
}

#[test]
fn three_fleets_agree_on_the_third_quarter() {
    live_some(2);
}

#[test]
fn three_fleets_agree_on_the_last_quarter() {
    live_some(3);
}
