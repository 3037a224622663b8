//! Old values leave the journal, on both engines: never one that a checkpoint needs, never the last of
//! anything, and never in anybody's way.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use flightline::checkpoint::daily::daily;
use flightline::checkpoint::thin::{ThinJournal, Thinned, ThinningPlan, thin, thin_within};
use flightline::core::event::Change;
use flightline::core::setting::LastPrune;
use flightline_testkit::outside;
use flightline_testkit::prelude::*;
use flightline_testkit::story::unrehearsed_fleet;
use flightline_testkit::{named, thinned_values};

const DAY: Duration = Duration::from_secs(86_400);

/// A mission in which much has happened: three checkpoints, work, locks, mail and notes between them.
fn eventful(world: &World) -> (Story<'_>, Vec<CheckpointId>) {
    let story = Story::new(world);
    story.mission("Add login", &["Model", "Endpoint", "Docs", "Tests"]);
    let mut taken = vec![story.checkpoint().id];
    for (agent, named) in [("ada", "Model"), ("bob", "Docs")] {
        world.pass(DAY);
        story.claim(agent, named).unwrap();
        story.lock(agent, &[&format!("src/{named}.rs")]).unwrap();
        story.send(agent, &["ada"], "a word").unwrap();
        for text in ["one", "two", "three"] {
            story.run(agent, &lesson(text)).unwrap();
            story.report(agent, named, text);
            story.report(agent, named, &format!("{text} again"));
        }
        taken.push(story.checkpoint_for(agent, Reason::Manual).unwrap().id);
        story.report(agent, named, "rain");
    }
    world.pass(DAY * 10);
    (story, taken)
}

/// Everything older than this moment goes, unless it is still needed.
fn all() -> PlanThinning {
    PlanThinning {
        older_than_ms: Some(0),
        ..PlanThinning::default()
    }
}

fn plan(story: &Story<'_>) -> ThinningPlan {
    story.run("", &all()).unwrap()
}

fn thinned(story: &Story<'_>) -> u64 {
    story.look(thinned_values)
}

/// A checkpoint with every value it names, as text.
fn whole(story: &Story<'_>, id: CheckpointId) -> String {
    let whole = story.whole(id);
    serde_json::to_string(&whole).unwrap()
}

fn state_at(story: &Story<'_>, rev: u64) -> Result<usize, Refusal> {
    let read = story.with_fleet(|fleet| fleet.store().unwrap().read(|tx| tx.state_at(rev, None)));
    read.map(|state| state.len()).map_err(Refusal::from)
}

both_engines! {
    fn a_command_thins_for_a_moment_and_the_next_one_goes_on(world: &World) {
        let of = flightline_testkit::value::mission(1, "Add login");
        let value = |number: u32| flightline_testkit::value::lesson(1, &of, &format!("value {number}"));
        let mut store = world.store();
        store
            .write(|tx| {
                tx.set(EventType::MissionCreated, &of, &serde_json::json!({}))?;
                for number in 0..1_300 {
                    tx.set(EventType::NoteAdded, &value(number), &serde_json::json!({}))?;
                }
                Ok::<_, flightline::store::StoreError>(())
            })
            .unwrap();
        drop(store);
        world.pass(DAY * 30);
        let mut fleet = unrehearsed_fleet(world);
        let (mut from, mut gone) = (0, Vec::new());
        loop {
            let age = fleet.policy().retention.history();
            gone.push(thin_within(&mut fleet, &caller(""), from, age, Duration::ZERO).unwrap().values);
            let last = fleet.store().unwrap().read(|tx| tx.get::<LastPrune>("last-prune")).unwrap();
            from = last.map_or(0, |last| last.thinned_to);
            if from == 0 {
                break;
            }
        }
        assert_eq!(gone, [500, 500, 299], "however much there is, a command does a part of it");
        let thinned = fleet.store().unwrap().read(thinned_values).unwrap();
        assert_eq!(thinned, 1_299);
    }

    fn what_nobody_needs_goes_and_what_checkpoints_name_stays(world: &World) {
        let (story, taken) = eventful(world);
        let before: Vec<String> = taken.iter().map(|id| whole(&story, *id)).collect();
        let (now, events, text) = (state_at(&story, story.rev()), story.events_after(0).len(), story.as_text());
        let done = story.thin_all();
        assert!(done.values > 10 && done.bytes > done.values * 50, "{done:?}");
        assert_eq!(thinned(&story), done.values);
        assert_eq!(taken.iter().map(|id| whole(&story, *id)).collect::<Vec<_>>(), before);
        assert_eq!((state_at(&story, story.rev() - 1), story.as_text()), (now, text));
        assert_eq!(story.events_after(0).len(), events + 1, "no event is gone, and one says what was done");
        assert!(story.damaged_values().is_empty(), "{:?}", story.damaged_values());
        assert_eq!(story.thin_all(), Thinned::default(), "it is done once");
    }

    fn a_checkpoint_that_goes_gives_its_values_back(world: &World) {
        let (story, taken) = eventful(world);
        story.thin_all();
        story.mark("", taken[1], CheckpointMark::Delete).unwrap();
        let more = story.thin_all();
        assert!(more.values > 0, "{more:?}");
        let (first, last) = (taken[0], taken[2]);
        for id in [first, last] {
            whole(&story, id);
        }
        assert!(story.run("", &DiffCheckpoints { a: first.to_string(), b: Some(last.to_string()) }).is_ok());
        assert!(story.damaged_values().is_empty());
    }

    fn what_happened_is_told_even_where_the_values_are_gone(world: &World) {
        let (story, _) = eventful(world);
        let told = |story: &Story<'_>| -> Vec<_> {
            story.events_after(0).into_iter().filter(|event| event.kind != "journal_thinned")
                .map(|event| (event.rev, event.kind, event.actor, event.data)).collect()
        };
        let before = told(&story);
        story.thin_all();
        assert_eq!(told(&story), before);
        assert!(story.events_after(0).iter().any(|event| event.change == Change::Thinned));
    }

    fn looking_at_a_thinned_revision_names_the_nearest_checkpoints(world: &World) {
        let (story, taken) = eventful(world);
        let cut = |at: usize| story.checkpoints()[at].cut.rev;
        let between = (cut(1) + cut(2)) / 2;
        story.thin_all();
        let refusal = state_at(&story, between).unwrap_err();
        assert_eq!((refusal.code, &refusal.details["checkpoints"]), (Code::HistoryThinned, &serde_json::json!([taken[1], taken[2]])));
        let hint = refusal.hint.unwrap();
        assert!(hint.contains(&format!("`fleet checkpoints show {}`", taken[1])) && hint.contains(&taken[2].to_string()), "{hint}");
        story.mark("", taken[1], CheckpointMark::Delete).unwrap();
        assert_eq!(state_at(&story, between).unwrap_err().details["checkpoints"], serde_json::json!([taken[0], taken[2]]));
    }

    fn the_last_days_can_be_looked_at_in_full(world: &World) {
        let story = Story::new(world);
        story.mission("Add login", &["Model"]);
        story.claim("ada", "Model").unwrap();
        world.pass(DAY * 20);
        let before = story.rev();
        // Replaced just now: until a moment ago it was so.
        story.change("ada", "Model", GIVEN_BACK).unwrap();
        story.with_fleet(|fleet| thin(fleet, &caller(""), &PlanThinning::default())).unwrap();
        assert!(state_at(&story, before).is_ok(), "what was so yesterday can be looked at");
        world.pass(DAY * 8);
        story.with_fleet(|fleet| thin(fleet, &caller(""), &PlanThinning::default())).unwrap();
        assert_eq!(state_at(&story, before).unwrap_err().code, Code::HistoryThinned);
        assert!(story.damaged_values().is_empty());
    }

    fn another_missions_checkpoint_keeps_agents_and_no_work(world: &World) {
        let (story, taken) = eventful(world);
        story.mission("Another", &["Elsewhere"]);
        let other = story.checkpoint().id;
        world.pass(DAY);
        story.claim("ada", "Elsewhere").unwrap();
        world.pass(DAY);
        for id in taken {
            story.mark("", id, CheckpointMark::Delete).unwrap();
        }
        let before = whole(&story, other);
        world.pass(DAY);
        story.thin_all();
        assert_eq!(whole(&story, other), before);
        assert!(story.run("", &back_to(other, Force::Yes)).is_ok());
    }

    fn what_is_gone_keeps_its_row_and_loses_its_text(world: &World) {
        let story = Story::new(world);
        story.mission("Add login", &["Model"]);
        story.lock("ada", &["src/a.rs"]).unwrap();
        story.run("ada", &release(&["src/a.rs"])).unwrap();
        world.pass(DAY);
        story.thin_all();
        let texts = outside::query(world, "SELECT doc FROM subject WHERE project = {project} AND kind = 'lock'");
        assert_eq!(texts, [[Some(String::new())]]);
        assert!(story.damaged_values().is_empty());
        assert!(story.lock("ada", &["src/a.rs"]).is_ok());
    }

    fn a_plan_changes_nothing_and_predicts(world: &World) {
        let (story, _) = eventful(world);
        world.pass(DAY * 10);
        let rev = story.rev();
        let request = PlanPrune { keep: Some(1), ..PlanPrune::default() };
        let planned = story.with_fleet(|fleet| plan_all(fleet, &caller(""), &request)).unwrap();
        assert_eq!((story.rev(), thinned(&story)), (rev, 0));
        assert!(planned.deleted == 2 && planned.journal.values > 0);
        let done = story.with_fleet(|fleet| apply_all(fleet, &caller(""), &request, &planned)).unwrap();
        assert_eq!((done.deleted, done.journal, done.freed_bytes), (planned.deleted, planned.journal, planned.freed_bytes));
        assert_eq!(story.events_of("journal_thinned")[0].data["values"].as_u64(), Some(done.journal.values));
    }

    fn what_is_planned_in_parts_adds_up(world: &World) {
        let (story, _) = eventful(world);
        world.pass(DAY * 10);
        let whole = story.run("", &all()).unwrap().journal;
        for revisions in [1, 2, 7] {
            let (mut part, mut values, mut bytes) = (PlanThinning { revisions: Some(revisions), ..all() }, 0, 0);
            loop {
                let plan = story.run("", &part).unwrap();
                values += plan.journal.values;
                bytes += plan.journal.bytes;
                part.from = plan.next;
                if plan.next == 0 {
                    break;
                }
            }
            assert_eq!((values, bytes), (whole.values, whole.bytes), "{revisions}");
        }
        let planned = story.with_fleet(|fleet| flightline::checkpoint::thin::plan_thinning(fleet, &caller(""), &all())).unwrap();
        assert_eq!(planned, whole);
    }

    fn one_mission_can_be_thinned_alone(world: &World) {
        let (story, _) = eventful(world);
        story.mission("Another", &["Elsewhere"]);
        story.finish("bob", &["Elsewhere"]);
        world.pass(DAY);
        let other = story.all::<Mission>()[1].id.to_string();
        let only = PlanThinning { mission: Some(other.clone()), ..all() };
        let done = story.with_fleet(|fleet| thin(fleet, &caller(""), &only)).unwrap();
        assert!(done.values > 0);
        let missions: Vec<_> = story.events_after(0).into_iter().filter(|event| event.change == Change::Thinned).map(|event| event.mission_id.unwrap().to_string()).collect();
        assert!(missions.iter().all(|mission| *mission == other), "{missions:?}");
    }

    fn many_values_go_in_batches_and_others_write_between(world: &World) {
        let story = Story::unrehearsed(world);
        story.mission("Add login", &["Model"]);
        story.claim("ada", "Model").unwrap();
        for _ in 0..300 {
            story.report("ada", "Model", "no");
            story.report("ada", "Model", "yes");
        }
        world.pass(DAY);
        let planned = plan(&story);
        assert!(planned.journal.values > 500 && planned.batches.len() >= 2, "{planned:?}");
        let (from, to) = planned.batches[0];
        let first = story.run("", &ThinJournal { mission: None, older_than_ms: Some(0), from, to: u64::MAX, force: false }).unwrap();
        assert_eq!(first.values, 500, "no transaction takes more");
        assert!(to > from);
        story.report("ada", "Model", "again");
        let rest = story.thin_all();
        assert_eq!(first.values + rest.values, planned.journal.values);
        assert!(story.damaged_values().is_empty());
    }

    fn thinning_among_writers_harms_nobody(world: &World) {
        let (story, _) = eventful(world);
        thread::scope(|scope| {
            for name in ["eve", "joe"] {
                scope.spawn(move || {
                    let mut fleet = unrehearsed_fleet(world);
                    for number in 0..12 {
                        fleet.run(&lesson(&format!("{name} {number}")), &caller(name)).unwrap();
                    }
                });
            }
            for _ in 0..2 {
                scope.spawn(move || {
                    let mut fleet = unrehearsed_fleet(world);
                    for _ in 0..4 {
                        thin(&mut fleet, &caller(""), &all()).unwrap();
                    }
                });
            }
        });
        assert!(story.damaged_values().is_empty());
        assert!(story.checkpoints().iter().all(|one| !whole(&story, one.id).is_empty()));
    }

    fn going_back_and_undoing_work_in_a_thin_journal(world: &World) {
        let (story, taken) = eventful(world);
        story.thin_all();
        for agent in ["ada", "bob"] {
            story.beat(agent).unwrap();
        }
        let before = story.as_text();
        story.force_rewind(taken[1]);
        world.pass(Duration::from_secs(1));
        story.thin_all();
        story.run("", &undo_rewind(Force::Yes)).unwrap();
        assert_eq!(story.as_text().lines().filter(|line| line.contains("sortie")).collect::<Vec<_>>(), before.lines().filter(|line| line.contains("sortie")).collect::<Vec<_>>());
        assert!(story.damaged_values().is_empty());
    }

    fn a_backup_of_a_thin_journal_can_be_restored(world: &World) {
        let (story, taken) = eventful(world);
        let gone = story.thin_all().values;
        let file = world.folder().join("copy.db");
        let copied = story.with_fleet(|fleet| flightline::backup::back_up(fleet, &file));
        assert!(copied.is_ok(), "{copied:?}");
        let back = world.folder().join("before.db");
        story.with_fleet(|fleet| flightline::backup::restore(fleet, &named(&file), &back, &caller(""))).unwrap();
        assert_eq!(thinned(&story), gone);
        for id in taken {
            whole(&story, id);
        }
        assert!(story.damaged_values().is_empty());
    }

    fn seed_as_tables_show_the_same_checkpoints(world: &World) {
        let (story, _) = eventful(world);
        let tables = || outside::query(world, "SELECT id, CAST(sorties_json AS TEXT), CAST(locks_json AS TEXT), CAST(messages_json AS TEXT) FROM checkpoints WHERE project = {project} ORDER BY id");
        let before = tables();
        story.thin_all();
        assert_eq!(tables(), before);
    }

    fn it_happens_once_a_day(world: &World) {
        let (story, _) = eventful(world);
        world.pass(DAY * 8);
        // The first one after a pause only notes the time; a day of work confirms it.
        for _ in 0..2 {
            story.with_fleet(|fleet| daily(fleet, &caller("ada"))).unwrap();
            assert_eq!(thinned(&story), 0);
            world.pass(DAY / 2);
            story.run("ada", &lesson("time passes")).unwrap();
        }
        story.with_fleet(|fleet| daily(fleet, &caller("ada"))).unwrap();
        let gone = thinned(&story);
        assert!(gone > 0);
        assert_eq!(story.events_of("journal_thinned")[0].data["values"].as_u64(), Some(gone));
        let rev = story.rev();
        story.with_fleet(|fleet| daily(fleet, &caller("ada"))).unwrap();
        assert_eq!(story.rev(), rev);
        assert!(story.damaged_values().is_empty());
    }

    fn a_little_at_a_time_comes_to_the_same(world: &World) {
        let (story, _) = eventful(world);
        let (all_of_it, mut done, mut from) = (plan(&story).journal, Thinned::default(), 0);
        loop {
            let some = PlanThinning { from, revisions: Some(7), most: Some(2), ..all() };
            let next = story.run("", &some).unwrap().next;
            let gone = story.with_fleet(|fleet| thin(fleet, &caller(""), &some)).unwrap();
            assert!(gone.values <= 2);
            (done.values, done.bytes) = (done.values + gone.values, done.bytes + gone.bytes);
            from = next;
            if from == 0 {
                break;
            }
        }
        // What this very test wrote to remember where it was can go too by now.
        assert!(done.values >= all_of_it.values, "{done:?} {all_of_it:?}");
        assert!(story.damaged_values().is_empty());
    }

    fn requests_are_forgotten_after_thirty_days(world: &World) {
        let story = Story::new(world);
        story.mission("Add login", &["Model"]);
        let once = keyed("ada", "k");
        story.run_as(&once, &lesson("once")).unwrap();
        let remembered = || outside::query(world, "SELECT key FROM request WHERE project = {project}").len();
        let a_day = || {
            world.pass(DAY);
            story.with_fleet(|fleet| daily(fleet, &caller(""))).unwrap();
        };
        (0..30).for_each(|_| a_day());
        assert_eq!(remembered(), 1);
        // Of the first day nobody is sure.
        (0..2).for_each(|_| a_day());
        assert_eq!(remembered(), 0);
    }

    fn whatever_happened_before_what_is_kept_is_sound(world: &World) {
        for seed in 1..=4_u64 {
            let world = World::new(world.engine);
            chance(&world, seed * 7_919);
        }
    }
}

/// Work, checkpoints, deletions and thinning in a random order.
fn chance(world: &World, seed: u64) {
    let story = Story::unrehearsed(world);
    let titles = ["A", "B", "C", "D"];
    story.mission("One", &titles);
    let mut dice = seed;
    let mut roll = |sides: u64| {
        dice = dice
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (dice >> 33) % sides
    };
    let mut kept: BTreeMap<CheckpointId, String> = BTreeMap::new();
    for _ in 0..80 {
        world.pass(Duration::from_secs(3_600));
        let (agent, titled) = (
            ["ada", "bob"][usize::try_from(roll(2)).unwrap()],
            titles[usize::try_from(roll(4)).unwrap()],
        );
        // Whatever is refused is refused: only what is kept counts.
        match roll(10) {
            0 | 1 => drop(story.claim(agent, titled)),
            2 => drop(story.change(agent, titled, SortieAction::Block { reason: note("x") })),
            3 => drop(story.change(agent, titled, SortieAction::Unblock)),
            4 => drop(story.change(agent, titled, GIVEN_BACK)),
            5 => drop(story.lock(agent, &[titled])),
            6 | 7 => {
                let id = story.checkpoint_for(agent, Reason::Manual).unwrap().id;
                let text = whole(&story, id);
                kept.insert(id, text);
            }
            8 => {
                if let Some(id) = kept.keys().nth(usize::try_from(roll(5)).unwrap()).copied() {
                    story.mark("", id, CheckpointMark::Delete).unwrap();
                    kept.remove(&id);
                }
            }
            _ => drop(story.thin_all()),
        }
    }
    world.pass(Duration::from_secs(1));
    story.thin_all();
    for (id, text) in &kept {
        assert_eq!(&whole(&story, *id), text, "seed {seed}");
    }
    assert!(
        story.damaged_values().is_empty(),
        "seed {seed}: {:?}",
        story.damaged_values()
    );
    // Nothing but the last values, and what the checkpoints need, is left.
    let rows = story.look(|tx| tx.rows(Kind::Checkpoint, Find::All));
    for (row, one) in rows.iter().zip(story.checkpoints()) {
        assert_eq!(
            row.born,
            one.cut.rev + 1,
            "a record comes right after what it names"
        );
    }
}
