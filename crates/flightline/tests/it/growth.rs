//! What an operation reads depends on what it shows, not on how much there is beside it. Counted in queries and rows on both
//! engines; on SQLite also in steps of its machine, which counts rows that are only looked at.

use flightline::agent::ListProcesses;
use flightline::core::Name;
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

    fn a_page_of_a_list_reads_the_documents_of_that_page(world: &World) {
        world.forget();
        let story = Story::new(world);
        let titles: Vec<String> = (0..40).map(|number| format!("Part {number}")).collect();
        let titles: Vec<&str> = titles.iter().map(String::as_str).collect();
        story.mission("Add login", &titles);
        story.claim("bob", "Part 0").unwrap();
        for number in 0..40 {
            story.lock("ada", &[&format!("src/{number}.rs")]).unwrap();
            let lesson: AddNote = serde_json::from_value(json!({ "kind": "lesson", "text": format!("Lesson {number}") })).unwrap();
            story.run("ada", &lesson).unwrap();
            story.send("ada", &["bob"], &format!("Message {number}")).unwrap();
        }
        let mut counted = Counted::new(world);
        let mut page = |operation: &str, request: serde_json::Value| {
            let read = |counted: &mut Counted, after: Option<String>| {
                let window = Window::new(4, after);
                let caller = Caller { window: Some(window.clone()), ..caller("") };
                let ask = CallContext { caller: &caller, folder: world.folder(), rehearse: false };
                let _ = counted.steps.take_reads();
                let called = find(operation).unwrap().run(&mut counted.fleet, &request.to_string(), &ask);
                let given = value_of(&called.outcome.unwrap().now().unwrap()).unwrap();
                (given, window.given().unwrap(), counted.steps.take_read())
            };
            let (first, part, _) = read(&mut counted, None);
            let last = &first.as_array().unwrap()[3];
            let key = ["/id", "/lock/id", "/message/id"].into_iter().find_map(|at| last.pointer(at)?.as_str());
            assert_eq!(part, ListPart::Given { total: 40, more: true }, "{operation}");
            let (second, part, reads) = read(&mut counted, key.map(str::to_owned));
            assert_eq!((second.as_array().unwrap().len(), part), (4, ListPart::Given { total: 40, more: true }), "{operation}");
            assert_ne!(first, second, "{operation}");
            let (_, part, _) = read(&mut counted, Some("gone".to_owned()));
            assert_eq!(part, ListPart::Gone, "{operation}");
            // Four documents and what is said beside each, not forty.
            assert!(reads.queries <= 30, "{operation}: {reads:?}");
        };
        page("list_sorties", json!({ "limit": 9 }));
        page("list_locks", json!({}));
        page("list_notes", json!({ "all": false }));
        page("list_notes", json!({ "all": false, "kind": "lesson" }));
        page("list_messages", json!({ "limit": 9 }));
        page("list_messages", json!({ "limit": 9, "agent": "bob" }));
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
