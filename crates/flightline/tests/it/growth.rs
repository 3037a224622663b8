//! What an operation reads depends on what it shows, not on how much there is beside it. Counted in queries and rows on both
//! engines; on SQLite also in steps of its machine, which counts rows that are only looked at.

use std::fmt::Debug;
use std::str::FromStr;

use flightline::agent::ListProcesses;
use flightline::core::note::Note;
use flightline::core::{Name, Subject};
use flightline::ids::ShortenIds;
use flightline::registry::{CallContext, Registered, find, value_of};
use flightline::store::{CrashPoints, OpenOptions, Reads, Store, StoreError};
use flightline::store_job::AfterWrite;
use flightline::{ListPart, Window};
use flightline_testkit::prelude::*;
use flightline_testkit::value::{agent_id, mission};
use serde_json::json;

const MANY: u64 = 200;

/// A fleet that remembers nothing and counts what it reads, as a command has it.
struct Counted {
    fleet: Fleet,
    steps: CrashPoints,
}

impl Counted {
    fn new(world: &World) -> Self {
        let steps = CrashPoints::counting();
        let options = OpenOptions {
            steps: steps.clone(),
            ..world.options()
        };
        let store = Store::open(&world.location, &world.project, options).unwrap();
        Self {
            fleet: Fleet::new(store, Policy::default()),
            steps,
        }
    }

    fn run<O: Registered>(&mut self, caller: &Caller, operation: &O) -> Reads {
        let _ = self.steps.take_reads();
        self.fleet.run(operation, caller).unwrap();
        self.steps.take_read()
    }

    /// Reads pages of a list of `all` entries: the first, and one of four in the midst, which is what counts.
    fn page(
        &mut self,
        world: &World,
        operation: &str,
        request: &serde_json::Value,
        all: u64,
    ) -> Reads {
        let about = format!("{operation} {request}");
        let mut read = |limit: u64, after: Option<&str>| {
            let window = Window::new(limit, after.map(str::to_owned));
            let caller = Caller {
                window: Some(window.clone()),
                ..caller("")
            };
            let ask = CallContext {
                caller: &caller,
                folder: world.folder(),
                rehearse: false,
            };
            let _ = self.steps.take_reads();
            let called = find(operation)
                .unwrap()
                .run(&mut self.fleet, &request.to_string(), &ask);
            let given = value_of(&called.outcome.unwrap().now().unwrap()).unwrap();
            let list = given.get("checkpoints").unwrap_or(&given);
            let at = ["/id", "/lock/id", "/message/id"];
            let id = |one: &serde_json::Value| {
                at.into_iter()
                    .find_map(|at| one.pointer(at)?.as_str().map(str::to_owned))
            };
            let ids: Vec<String> = list.as_array().unwrap().iter().filter_map(id).collect();
            (ids, window.given().unwrap(), self.steps.take_read())
        };
        let given = |more| ListPart::Given { total: all, more };
        let (whole, part, _) = read(all, None);
        assert_eq!((whole.len() as u64, part), (all, given(false)), "{about}");
        let (_, part, _) = read(4, Some("gone"));
        assert_eq!(part, ListPart::Gone, "{about}");
        let from = whole.len() / 2;
        let (page, part, reads) = read(4, Some(&whole[from - 1]));
        assert_eq!(page, whole[from..from + 4], "{about}");
        assert_eq!(part, given(true), "{about}");
        let (end, part, _) = read(4, Some(&whole[whole.len() - 4 - 1]));
        assert_eq!((end.len(), part), (4, given(false)), "{about}");
        // Four documents and what is said beside each.
        assert!(reads.queries <= 30, "{about}: {reads:?}");
        reads
    }
}

/// What is measured, by name.
fn figures(world: &World, sortie: &str) -> Vec<(&'static str, Reads)> {
    let mut counted = Counted::new(world);
    let page = Caller {
        window: Some(Window::new(20, None)),
        ..caller("")
    };
    let status = show_status();
    let missions = ListMissions {
        archived: false,
        limit: 20,
    };
    let agents = ListAgents {
        retired: false,
        sightings: Vec::new(),
    };
    let update: UpdateSortie =
        serde_json::from_value(json!({ "sortie": sortie, "note": "Going on" })).unwrap();
    let take = take_checkpoint();
    let shorten = ShortenIds {
        ids: [
            sortie.to_owned(),
            sortie[..12].to_owned(),
            mission(1, "One").id.to_string(),
        ]
        .into(),
    };
    vec![
        ("short ids", counted.run(&caller(""), &shorten)),
        ("missions", counted.run(&caller(""), &missions)),
        ("a page of missions", counted.run(&page, &missions)),
        ("a page of agents", counted.run(&page, &agents)),
        ("processes", counted.run(&caller(""), &ListProcesses {})),
        ("status", counted.run(&caller(""), &status)),
        ("update", counted.run(&caller("ada"), &update)),
        ("checkpoint", counted.run(&caller("ada"), &take)),
    ]
}

fn add_missions(world: &World) {
    let added = world.store().write(|tx| {
        for number in 0..MANY {
            let one = Mission {
                status: MissionStatus::Pending,
                started_at: None,
                timeline: 0,
                ..mission(1_000 + u128::from(number), &format!("Mission {number}"))
            };
            tx.set(EventType::MissionCreated, &one, &json!({}))?;
        }
        Ok::<_, StoreError>(())
    });
    added.unwrap();
}

/// Agents like ada that do nothing.
fn add_agents(world: &World) {
    let added = world.store().write(|tx| {
        let ada = tx.find::<Agent>(Find::AgentName("ada"))?.remove(0);
        for number in 0..MANY {
            let one = Agent {
                id: agent_id(2_000 + u128::from(number)),
                name: Name::parse("agent name", &format!("idle-{number}")).unwrap(),
                ..ada.clone()
            };
            tx.set(EventType::AgentRegistered, &one, &json!({}))?;
            tx.beat(one.id, one.epoch, &json!({}))?;
        }
        Ok::<_, StoreError>(())
    });
    added.unwrap();
}

/// More of everything that is listed, each as the first of its kind.
fn add_entries(world: &World, numbers: std::ops::Range<u64>) {
    let other = mission(7, "Other");
    let first = Recovery {
        id: id("rcv", 0),
        mission_id: other.id,
        kind: RecoveryKind::RollForward,
        checkpoint_id: id("chk", 0),
        cut_rev: 1,
        before: None,
        by: "user:tester".to_owned(),
        at: other.created_at,
        undone_at: None,
        skipped: Vec::new(),
        reset_to: None,
        gone: Vec::new(),
        lost: Vec::new(),
    };
    let added = world.store().write(|tx| {
        let nothing = json!({});
        if tx.get::<Recovery>(&first.key())?.is_none() {
            tx.set(EventType::MissionCreated, &other, &nothing)?;
            tx.set(EventType::FleetRecovered, &first, &nothing)?;
        }
        let sortie = tx.find::<Sortie>(Find::All)?.remove(0);
        let lock = tx.find::<Lock>(Find::All)?.remove(0);
        let note = tx.find::<Note>(Find::All)?.remove(0);
        let effect = tx.find::<Effect>(Find::All)?.remove(0);
        let message = tx.find::<Message>(Find::All)?.remove(0);
        let checkpoint = tx.find::<Checkpoint>(Find::All)?.remove(0);
        for n in numbers.clone() {
            tx.set(
                EventType::SortieAdded,
                &Sortie {
                    id: id("srt", n),
                    ..sortie.clone()
                },
                &nothing,
            )?;
            let file = path(&format!("src/{n}.rs"));
            tx.set(
                EventType::LockAcquired,
                &Lock {
                    id: id("lck", n),
                    file,
                    ..lock.clone()
                },
                &nothing,
            )?;
            tx.set(
                EventType::NoteAdded,
                &Note {
                    id: id("nte", n),
                    ..note.clone()
                },
                &nothing,
            )?;
            let key = name(&format!("deploy-{n}"));
            tx.set(
                EventType::EffectBegun,
                &Effect {
                    id: id("eff", n),
                    key,
                    ..effect.clone()
                },
                &nothing,
            )?;
            tx.set(
                EventType::MessageSent,
                &Message {
                    id: id("msg", n),
                    ..message.clone()
                },
                &nothing,
            )?;
            tx.set(
                EventType::FleetRecovered,
                &Recovery {
                    id: id("rcv", n),
                    ..first.clone()
                },
                &nothing,
            )?;
            let checkpoint = Checkpoint {
                id: id("chk", n),
                ..checkpoint.clone()
            };
            tx.set(EventType::FleetCheckpointed, &checkpoint, &nothing)?;
        }
        Ok::<_, StoreError>(())
    });
    added.unwrap();
}

fn id<T: FromStr<Err: Debug>>(prefix: &str, number: u64) -> T {
    format!("{prefix}-00000000-0000-4000-8000-{number:012x}")
        .parse()
        .unwrap()
}

/// How much more of it was read.
fn more(
    before: &[(&'static str, Reads)],
    after: &[(&'static str, Reads)],
) -> Vec<(&'static str, i64, i64, i64)> {
    let pairs = before.iter().zip(after);
    let difference = |a: u64, b: u64| i64::try_from(b).unwrap() - i64::try_from(a).unwrap();
    pairs
        .map(|((name, a), (_, b))| {
            (
                *name,
                difference(a.queries, b.queries),
                difference(a.rows, b.rows),
                difference(a.work, b.work),
            )
        })
        .collect()
}

both_engines! {
    fn many_missions_and_agents_cost_what_is_shown_of_them(world: &World) {
        world.forget();
        let story = Story::new(world);
        story.mission("Add login", &["User model", "Sign-in form"]);
        story.claim("ada", "User model").unwrap();
        let sortie = story.sortie_id("User model");
        // The first of each makes what is there afterwards.
        figures(world, &sortie);
        let few = figures(world, &sortie);
        add_missions(world);
        // Work goes on where it was.
        figures(world, &sortie);
        let many_missions = figures(world, &sortie);
        for (name, queries, rows, work) in more(&few, &many_missions) {
            let shown = if name.contains("missions") { 19 } else { 0 };
            assert!(queries <= shown + 2, "{name}: {queries} more queries with {MANY} missions");
            assert!(rows <= 3 * shown + 8, "{name}: {rows} more rows with {MANY} missions");
            // A few steps for each mission that is passed over where no index leads past it.
            if name == "short ids" {
                assert!(work <= 200, "{work} more steps to shorten three ids with {MANY} missions");
            }
            assert!(work <= 80 * i64::try_from(MANY).unwrap() + 200 * shown, "{name}: {work} more steps with {MANY} missions");
        }
        add_agents(world);
        figures(world, &sortie);
        let many_agents = figures(world, &sortie);
        let all = i64::try_from(MANY).unwrap();
        for (name, queries, rows, work) in more(&many_missions, &many_agents) {
            let (most_queries, most_rows) = match name {
                // It shows all of them, each with its sign of life.
                "status" => (4, 2 * all + 8),
                "a page of agents" => (120, 120),
                // A checkpoint names every agent of the project.
                "checkpoint" => (4, 4 * all + 8),
                _ => (2, 8),
            };
            assert!(queries <= most_queries, "{name}: {queries} more queries with {MANY} agents");
            assert!(rows <= most_rows, "{name}: {rows} more rows with {MANY} agents");
            if matches!(name, "short ids" | "missions" | "a page of missions" | "update" | "processes") {
                assert!(work <= 30 * all, "{name}: {work} more steps with {MANY} agents");
            }
        }
    }

    fn a_page_of_a_list_costs_the_same_however_long_the_list_is(world: &World) {
        world.forget();
        let story = Story::new(world);
        let of = story.mission("Add login", &["User model"]).mission.id;
        story.register("bob", Role::Specialist);
        story.lock("ada", &["src/a.rs"]).unwrap();
        story.send("ada", &["bob"], "Hello").unwrap();
        let lesson: AddNote = serde_json::from_value(json!({ "kind": "lesson", "text": "Look twice" })).unwrap();
        story.run("ada", &lesson).unwrap();
        story.run("ada", &begin_effect("deploy")).unwrap();
        story.checkpoint();
        let lists = [
            ("list_sorties", json!({ "mission": of, "limit": 9 })),
            ("list_sorties", json!({ "mission": of, "limit": 9, "status": "pending" })),
            ("list_locks", json!({})),
            ("list_locks", json!({ "agent": "ada" })),
            ("list_effects", json!({ "mission": of, "in_doubt": false })),
            ("list_effects", json!({ "mission": of, "in_doubt": true })),
            ("list_notes", json!({ "mission": of, "all": true })),
            ("list_notes", json!({ "mission": of, "all": false })),
            ("list_notes", json!({ "mission": of, "all": false, "kind": "lesson" })),
            ("list_messages", json!({ "limit": 9 })),
            ("list_messages", json!({ "limit": 9, "mission": of })),
            ("list_recoveries", json!({})),
            ("list_recoveries", json!({ "mission": mission(7, "Other").id })),
            ("list_checkpoints", json!({ "mission": of, "limit": 9, "archived": false })),
            ("list_checkpoints", json!({ "mission": of, "limit": 9, "archived": true })),
        ];
        let pages = |all: u64| {
            let mut counted = Counted::new(world);
            lists.iter().map(|(operation, request)| counted.page(world, operation, request, all)).collect::<Vec<_>>()
        };
        add_entries(world, 1..40);
        pages(40);
        let few = pages(40);
        add_entries(world, 40..800);
        pages(800);
        for ((list, few), many) in lists.iter().zip(few).zip(pages(800)) {
            assert!(many.queries <= few.queries, "{list:?}: {few:?}, then {many:?}");
            assert!(many.rows <= few.rows, "{list:?}: {few:?}, then {many:?}");
            // The engine counts the list, and puts one of all missions in order.
            assert!(many.work <= few.work + 760 * 40, "{list:?}: {few:?}, then {many:?}");
        }
        // Whom a message is to is not in a column: documents are read of the messages of the page alone, but for that.
        Counted::new(world).page(world, "list_messages", &json!({ "limit": 9, "agent": "bob" }), 800);
    }

    fn what_follows_a_write_is_one_look_when_there_is_nothing_to_do(world: &World) {
        world.forget();
        let story = Story::new(world);
        story.mission("Add login", &["User model"]);
        story.claim("ada", "User model").unwrap();
        story.checkpoint();
        let (folder, after) = (story.state_folder(), AfterWrite { heartbeat: false });
        let mut counted = Counted::new(world);
        // The file of the checkpoint is written, and dispatch is told of it.
        for _ in 0..2 {
            let followed = counted.fleet.run_job(&after, &folder, &caller("ada")).unwrap();
            assert!(followed.told.is_empty() && followed.failed.is_empty(), "{followed:?}");
        }
        let rev = story.rev();
        let _ = counted.steps.take_reads();
        counted.fleet.run_job(&after, &folder, &caller("ada")).unwrap();
        let read = counted.steps.take_read();
        assert_eq!(story.rev(), rev, "nothing was to be done");
        // Of the project, the backups that wait, the last retention, and what was told and happened since.
        assert!(read.queries <= 6, "{read:?}");
    }

    fn the_current_mission_is_the_open_one_that_was_worked_on_last(world: &World) {
        let story = Story::new(world);
        let current = || {
            let missions = story.run("", &ListMissions { archived: true, limit: 100 }).unwrap();
            missions.into_iter().find(|it| it.current).map(|it| it.title)
        };
        assert_eq!(current(), None);
        story.mission("One", &["A"]);
        story.mission("Two", &["B"]);
        assert_eq!(current().as_deref(), Some("Two"));
        story.claim("ada", "A").unwrap();
        assert_eq!(current().as_deref(), Some("One"));
        // However much happens elsewhere in the meantime.
        add_agents(world);
        add_agents(world);
        add_agents(world);
        assert_eq!(current().as_deref(), Some("One"));
        let end = |name: &str, to: &str| {
            let id = story.run("", &ListMissions { archived: true, limit: 100 }).unwrap();
            let id = id.into_iter().find(|it| it.title == name).unwrap().id;
            let change: ChangeMission =
                serde_json::from_value(json!({ "mission": id, "to": to, "reason": null })).unwrap();
            story.run("", &change).unwrap();
        };
        end("One", "failed");
        assert_eq!(current().as_deref(), Some("Two"), "one that is open comes first");
        end("Two", "failed");
        assert_eq!(current().as_deref(), Some("Two"), "else the last of all");
        end("Two", "archived");
        assert_eq!(current().as_deref(), Some("One"));
        end("One", "archived");
        assert_eq!(current(), None);
    }
}
