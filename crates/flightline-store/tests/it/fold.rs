//! The state is the fold of the events, at every revision.

use std::collections::BTreeMap;

use flightline_core::event::{Change, EventType, sha256_hex};
use flightline_core::mission::Mission;
use flightline_core::note::Note;
use flightline_core::setting::CurrentMission;
use flightline_core::{Kind, MissionId, Subject};
use flightline_store::{EventFilter, Find, StoreError, Tx};
use flightline_testkit::value::{lesson, mission};
use flightline_testkit::{World, both_engines};
use serde_json::json;

/// What a subject is: its value, the revision that gave it, and the mission it belongs to.
#[derive(Clone, Debug, PartialEq)]
struct Value {
    text: String,
    rev: u64,
    mission: Option<MissionId>,
}

type State = BTreeMap<(Kind, String), Value>;

/// What one event did, as the test remembers it.
struct Done {
    rev: u64,
    subject: (Kind, String),
    change: Change,
    value: Option<Value>,
}

/// A row of numbers that looks random and is the same every time.
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

both_engines! {
    fn the_state_at_every_revision_is_the_fold_of_the_events_up_to_it(world: &World) {
        for seed in [0x9E37_79B9, 0xDEAD_BEEF, 0x1234_5678] {
            let world = World::new(world.engine);
            let steps = random_steps(&world, seed);
            check_every_revision(&world, &steps, seed);
            check_live_state(&world, &steps, seed);
            assert_eq!(world.problems(), [] as [&str; 0], "seed {seed}");
        }
    }

    fn a_revision_inside_a_request_counts_as_before_it(world: &World) {
        let mut store = world.store();
        let (first, second) = (mission(1, "One"), mission(2, "Two"));
        store.write(|tx| tx.set(EventType::MissionCreated, &first, &json!({}))).unwrap();
        store
            .write(|tx| {
                tx.set(EventType::MissionCreated, &second, &json!({}))?;
                tx.remove(EventType::MissionArchived, &first, &json!({}))?;
                tx.set(EventType::MissionCreated, &first, &json!({}))?;
                tx.remove(EventType::MissionArchived, &first, &json!({}))
            })
            .unwrap();
        let ids = |rev| -> Vec<String> {
            let state = world.store().read(|tx| tx.state_at(rev, None)).unwrap();
            state.into_iter().map(|value| value.id).collect()
        };
        assert_eq!(ids(0), [] as [&str; 0]);
        for inside in 1..=4 {
            assert_eq!(ids(inside), [first.key()], "revision {inside}");
        }
        for after in [5, 6, 1_000, u64::MAX] {
            assert_eq!(ids(after), [second.key()], "revision {after}");
        }
    }

    fn a_subject_that_came_back_is_gone_only_in_between(world: &World) {
        let mut store = world.store();
        let before = mission(1, "Before");
        let after = mission(1, "After");
        store.write(|tx| tx.set(EventType::MissionCreated, &before, &json!({}))).unwrap();
        store.write(|tx| tx.remove(EventType::MissionArchived, &before, &json!({}))).unwrap();
        assert_eq!(store.read(|tx| tx.get::<Mission>(&before.key())).unwrap(), None);
        assert!(store.read(|tx| tx.rows(Kind::Mission, Find::All)).unwrap().is_empty());
        store.write(|tx| tx.note(EventType::MissionTransitioned, &before, &json!({}))).unwrap();
        store.write(|tx| tx.set(EventType::MissionCreated, &after, &json!({}))).unwrap();
        let titles: Vec<Option<String>> = (0..=4)
            .map(|rev| {
                let state = store.read(|tx| tx.state_at(rev, Some(before.id))).unwrap();
                let [value] = state.as_slice() else { return None };
                let mission: Mission = serde_json::from_str(&value.text).unwrap();
                Some(mission.title.to_string())
            })
            .collect();
        assert_eq!(titles, [None, Some("Before".to_owned()), None, None, Some("After".to_owned())]);
        assert_eq!(store.read(|tx| tx.get::<Mission>(&after.key())).unwrap(), Some(after));
        assert_eq!(world.problems(), [] as [&str; 0]);
    }
}

/// Runs forty requests of up to four events each; some change their mind. Returns the events of
/// those that did not, request by request.
fn random_steps(world: &World, seed: u64) -> Vec<Vec<Done>> {
    let (mut store, mut chance) = (world.store(), Chance(seed));
    let mut ever = State::new();
    let mut steps = Vec::new();
    while steps.len() < 40 {
        let plan: Vec<(u64, u64, u64)> = (0..=chance.below(4))
            .map(|_| (chance.below(4), chance.below(8), chance.below(1_000)))
            .collect();
        let gives_up = chance.below(5) == 0;
        let known = ever.clone();
        let done = store.write(|tx| {
            let mut seen = known.clone();
            let mut events = Vec::new();
            for (act, subject, number) in &plan {
                let event = act_on(tx, &seen, *act, *subject, *number)?;
                if let Some(value) = &event.value {
                    seen.insert(event.subject.clone(), value.clone());
                }
                events.push(event);
            }
            if gives_up {
                return Err(StoreError::Missing("changed its mind".to_owned()));
            }
            Ok(events)
        });
        if let Ok(events) = done {
            for event in &events {
                if let Some(value) = &event.value {
                    ever.insert(event.subject.clone(), value.clone());
                }
            }
            steps.push(events);
        } else {
            assert!(gives_up, "seed {seed}: {:?}", done.err());
        }
    }
    steps
}

/// Does one thing to one of eight subjects: two missions, four lessons, two settings.
fn act_on(
    tx: &mut Tx<'_>,
    ever: &State,
    act: u64,
    subject: u64,
    number: u64,
) -> Result<Done, StoreError> {
    let of = mission(u128::from(subject % 2) + 1, &format!("Mission {number}"));
    match subject {
        0 | 1 => change(tx, ever, act, &of),
        2..=5 => {
            let value = lesson(u128::from(subject), &of, &format!("Lesson {number}"));
            change(tx, ever, act, &value)
        }
        _ => {
            let value = CurrentMission {
                of: format!("somebody-{subject}"),
                mission_id: of.id,
            };
            change(tx, ever, act, &value)
        }
    }
}

fn change<S: Subject>(
    tx: &mut Tx<'_>,
    ever: &State,
    act: u64,
    value: &S,
) -> Result<Done, StoreError> {
    let subject = (S::KIND, value.key());
    let (change, rev) = match act {
        // What never was cannot be taken away.
        0 if ever.contains_key(&subject) => (
            Change::Gone,
            tx.remove(EventType::ValueRebuilt, value, &json!({}))?,
        ),
        1 => (
            Change::None,
            tx.note(EventType::ValueRepaired, value, &json!({}))?,
        ),
        _ => (
            Change::Set,
            tx.set(EventType::ValueRebuilt, value, &json!({}))?,
        ),
    };
    let text = serde_json::to_string(value).unwrap();
    let mission = value.keys().mission;
    let value = (change == Change::Set).then_some(Value { text, rev, mission });
    Ok(Done {
        rev,
        subject,
        change,
        value,
    })
}

fn apply(state: &mut State, event: &Done) {
    match (event.change, &event.value) {
        (Change::Set, Some(value)) => {
            state.insert(event.subject.clone(), value.clone());
        }
        (Change::Gone, _) => {
            state.remove(&event.subject);
        }
        _ => {}
    }
}

fn check_every_revision(world: &World, steps: &[Vec<Done>], seed: u64) {
    let mut store = world.store();
    let mut state = State::new();
    let mut expected = vec![state.clone()];
    for step in steps {
        // Until the last event of a request, nothing of it shows.
        expected.resize(expected.len() + step.len() - 1, state.clone());
        for event in step {
            apply(&mut state, event);
        }
        expected.push(state.clone());
    }
    let last = steps.iter().flatten().last().unwrap().rev;
    assert_eq!(expected.len() as u64, last + 1, "revisions have no gaps");
    for (rev, expected) in (0..).zip(&expected) {
        for only in [None, Some(mission(1, "x").id), Some(mission(2, "x").id)] {
            let found = store.read(|tx| tx.state_at(rev, only)).unwrap();
            let found: Vec<_> = found
                .into_iter()
                .map(|value| {
                    assert_eq!(value.sha, sha256_hex(&value.text));
                    (value.kind.as_str(), value.id, value.rev, value.text)
                })
                .collect();
            let mut wanted: Vec<_> = expected
                .iter()
                .filter(|(_, value)| only.is_none() || value.mission == only)
                .map(|((kind, id), value)| {
                    (kind.as_str(), id.clone(), value.rev, value.text.clone())
                })
                .collect();
            wanted.sort();
            assert_eq!(
                found, wanted,
                "seed {seed}, revision {rev}, mission {only:?}"
            );
        }
    }
}

/// The live values are those of the last revision, and the journal tells the same story.
fn check_live_state(world: &World, steps: &[Vec<Done>], seed: u64) {
    let mut state = State::new();
    for event in steps.iter().flatten() {
        apply(&mut state, event);
    }
    let mut store = world.store();
    let live: BTreeMap<(Kind, String), String> = store
        .read(|tx| {
            let mut live = BTreeMap::new();
            for value in tx.find::<Mission>(Find::All)? {
                live.insert((Kind::Mission, value.key()), serde_json::to_string(&value));
            }
            for value in tx.find::<Note>(Find::All)? {
                live.insert((Kind::Note, value.key()), serde_json::to_string(&value));
            }
            for value in tx.find::<CurrentMission>(Find::All)? {
                live.insert((Kind::Setting, value.key()), serde_json::to_string(&value));
            }
            Ok::<_, StoreError>(live)
        })
        .unwrap()
        .into_iter()
        .map(|(subject, text)| (subject, text.unwrap()))
        .collect();
    let folded: BTreeMap<(Kind, String), String> = state
        .into_iter()
        .map(|(subject, value)| (subject, value.text))
        .collect();
    assert_eq!(live, folded, "seed {seed}");

    let filter = EventFilter {
        limit: 10_000,
        ..EventFilter::default()
    };
    let told: Vec<_> = store
        .read(|tx| tx.events_after(0, &filter))
        .unwrap()
        .into_iter()
        .map(|event| (event.rev, event.step, event.subject, event.change))
        .collect();
    let done: Vec<_> = steps
        .iter()
        .flat_map(|step| step.iter().map(|event| (step[0].rev, event)))
        .map(|(first, event)| (event.rev, first, event.subject.1.clone(), event.change))
        .collect();
    assert_eq!(told, done, "seed {seed}");
}
