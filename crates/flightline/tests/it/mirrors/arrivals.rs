//! When documents arrive: what is newer stays, what is being written is waited for, and nothing is lost.

use flightline::core::dialect::{Dialect, Json};
use flightline::mirror::{MirrorNotice, conflicts, drop_conflict, take_conflict, take_in};
use flightline_testkit::prelude::*;

use super::{Mirror, import, json};

const TASK: &str = "progress/checkpoints/migration-T060.json";
const SCHEMA: &str =
    include_str!("../../../../flightline-core/tests/it/dialects/data/sitebuilder_schema.json");
const AGENT: &str = "agent_checkpoints/secondary_a.json";
const FIRST: &str =
    include_str!("../../../../flightline-core/tests/it/dialects/data/epic_first.json");
const LATEST: &str = "checkpoints/latest.json";
const EXAMPLE: &str =
    include_str!("../../../../flightline-core/tests/it/dialects/data/recovery_example.json");

fn task(story: &Story<'_>) -> SortieView {
    let sortie = story.sortie_id("Convert Nature Trail PDFs to Markdown");
    story.run("", &ShowSortie { sortie }).unwrap()
}

fn trouble(said: &[MirrorNotice]) -> Vec<&str> {
    let troubles = said.iter().filter_map(|said| match said {
        MirrorNotice::Trouble(line) => Some(line.as_str()),
        MirrorNotice::Done(_) => None,
    });
    troubles.collect()
}

fn subjects(story: &Story<'_>, agent: &str) -> Vec<String> {
    let inbox = PeekInbox {
        all: true,
        ..peek_inbox(agent, 100)
    };
    let mail = story.run("", &inbox).unwrap();
    let subjects = mail.into_iter().map(|it| it.message.subject.to_string());
    subjects.collect()
}

#[test]
fn many_new_files_are_taken_in_by_several_commands() {
    let world = World::new(Engine::Sqlite);
    let story = Story::new(&world);
    let mirror = Mirror::new(&story, Dialect::Epic);
    for number in 0..230 {
        let agent = format!("agent-{number:03}");
        let file = format!("agent_checkpoints/{agent}.json");
        mirror.write(&file, &FIRST.replace("Secondary-A", &agent));
    }
    let known = || {
        story
            .run(
                "",
                &ListAgents {
                    retired: false,
                    sightings: vec![],
                },
            )
            .unwrap()
            .len()
    };
    let said = mirror.pass();
    assert_eq!(
        trouble(&said)[0],
        "agent_checkpoints holds many files that other programs wrote: the next command goes on with them"
    );
    assert_eq!(known(), 200);
    mirror.pass();
    assert_eq!(known(), 230);
}

both_engines! {
    fn an_older_copy_of_a_task_takes_nothing_back(world: &World) {
        let story = Story::new(world);
        let mirror = Mirror::new(&story, Dialect::Sitebuilder);
        mirror.write(TASK, SCHEMA);
        mirror.pass();
        let old = mirror.read(TASK);
        let sortie = story.sortie_id("Convert Nature Trail PDFs to Markdown");
        story.run("Riley", &UpdateSortie {
            subtasks: vec![subtask("post-20", SubtaskStatus::Complete)],
            criteria: [(name("29_files_created"), true)].into(),
            sortie: sortie.clone(),
            ..UpdateSortie::default()
        }).unwrap();
        story.run("", &AddReview { sortie, reviewer: Some(name("agent_4")), score: Some(85), note: None }).unwrap();
        mirror.pass();
        let new = mirror.read(TASK);
        assert_ne!(json(&new), json(&old));
        // A stale agent, or `git checkout`, puts the old one back.
        mirror.write(TASK, &old);
        let said = mirror.pass();
        assert!(matches!(trouble(&said).as_slice(), [said] if said.contains("the store has newer data") && said.contains("migration-T060.json.conflict")), "{said:?}");
        assert_eq!(json(&mirror.read(TASK)), json(&new), "the file says what is known");
        let view = task(&story);
        assert_eq!(view.reviews.iter().find(|it| it.reviewer == name("agent_4")).and_then(|it| it.score), Some(85));
        assert_eq!(view.sortie.acceptance_criteria.get(&name("29_files_created")), Some(&true));
        assert!(view.subtasks.iter().any(|it| it.name == name("post-20") && it.status == SubtaskStatus::Complete));
        // Its agent is told: in its mailbox, and with its next command, once.
        assert_eq!(subjects(&story, "Riley"), [format!("{TASK} was put aside")]);
        let heard = |agent: &str| story.with_fleet(|fleet| take_in(fleet, &mirror.mirrors, &caller(agent)).unwrap());
        assert_eq!(heard(""), []);
        let said = heard("Riley");
        assert!(matches!(trouble(&said).as_slice(), [said] if said.contains("fleet conflicts list")), "{said:?}");
        assert_eq!(heard("Riley"), []);
        // The very same once more is kept once, and no news.
        mirror.write(TASK, &old);
        mirror.pass();
        assert_eq!(mirror.files("progress/checkpoints").iter().filter(|file| file.contains(".conflict")).count(), 1);
        assert_eq!(subjects(&story, "Riley").len(), 1);
    }

    fn an_older_copy_of_a_checkpoint_for_recovery_takes_nothing_back(world: &World) {
        let story = Story::new(world);
        let mirror = Mirror::new(&story, Dialect::Recovery);
        mirror.write(LATEST, EXAMPLE);
        mirror.pass();
        let done = EXAMPLE.replace("\"T004\"]", "\"T004\", \"T005\"]").replace("\"inProgress\": \"T005\"", "\"inProgress\": []").replace("2025-10-30T15:30:00Z", "2025-10-30T16:30:00Z");
        mirror.write(LATEST, &done);
        mirror.pass();
        mirror.write(LATEST, EXAMPLE);
        let said = mirror.pass();
        assert!(trouble(&said).iter().any(|said| said.contains("the store has newer data") && said.contains("latest.json.conflict")), "{said:?}");
        let sortie = story.sortie_id("T005");
        assert_eq!(story.run("", &ShowSortie { sortie }).unwrap().sortie.status, SortieStatus::Completed);
    }

    fn what_somebody_edits_without_a_new_time_is_news(world: &World) {
        let story = Story::new(world);
        let mirror = Mirror::new(&story, Dialect::Sitebuilder);
        mirror.write(TASK, SCHEMA);
        mirror.pass();
        let text = mirror.read(TASK);
        mirror.write(TASK, &text.replace("\"frontmatter_valid\": true", "\"frontmatter_valid\": false"));
        let said = mirror.pass();
        assert_eq!(said, [MirrorNotice::Done(format!("took in {TASK} (T060 of Riley): acceptance_criteria_met.frontmatter_valid is false"))]);
        assert_eq!(task(&story).sortie.acceptance_criteria.get(&name("frontmatter_valid")), Some(&false));
    }

    fn what_is_being_written_is_waited_for(world: &World) {
        let story = Story::new(world);
        let mirror = Mirror::new(&story, Dialect::Epic);
        mirror.write(AGENT, FIRST);
        mirror.pass();
        let half = &FIRST[..FIRST.len() / 2];
        mirror.write(AGENT, half);
        assert_eq!(mirror.pass(), []);
        assert_eq!(mirror.read(AGENT), half, "nobody touches it");
        let whole = FIRST.replace("Reading S2.P1 guide", "Going on");
        mirror.write(AGENT, &whole);
        assert_eq!(mirror.pass(), [MirrorNotice::Done(format!("took in {AGENT} (Secondary-A): current_step is \"Going on\""))]);
        assert_eq!(mirror.files("agent_checkpoints").iter().filter(|file| file.contains(".conflict")).count(), 0);
    }

    fn a_conflict_that_turns_out_whole_and_newer_is_taken_in(world: &World) {
        let story = Story::new(world);
        let mirror = Mirror::new(&story, Dialect::Epic);
        mirror.write(AGENT, FIRST);
        mirror.pass();
        mirror.write(AGENT, &FIRST[..FIRST.len() / 2]);
        mirror.settle();
        let said = mirror.pass();
        assert!(matches!(trouble(&said).as_slice(), [said] if said.contains("secondary_a.json.conflict")), "{said:?}");
        // Its agent had it open all the time, and writes the rest.
        let conflict = format!("{AGENT}.conflict");
        mirror.write(&conflict, &FIRST.replace("Reading S2.P1 guide", "Going on"));
        assert_eq!(mirror.pass(), [MirrorNotice::Done(format!("took in {conflict} (Secondary-A): current_step is \"Going on\""))]);
        assert_eq!(mirror.files("agent_checkpoints").iter().filter(|file| file.contains(".conflict")).count(), 0);
        assert_eq!(json(&mirror.read(AGENT)).get("current_step"), Some(&Json::from("Going on")));
    }

    fn conflicts_say_what_differs_and_are_settled(world: &World) {
        let story = Story::new(world);
        let mirror = Mirror::new(&story, Dialect::Epic);
        mirror.write(AGENT, &FIRST.replace("2026-01-15T14:00:00Z", "2026-01-03T10:00:00Z"));
        mirror.pass();
        let old = mirror.read(AGENT);
        for number in ["one", "two"] {
            story.run("Secondary-A", &UpdateAgent { step: Some(flightline_testkit::story::title(number)), ..Default::default() }).unwrap();
            mirror.pass();
            mirror.write(AGENT, &old.replace("IN_PROGRESS", if number == "one" { "WAITING" } else { "BLOCKED" }));
            mirror.pass();
        }
        let found = conflicts(&mirror.mirrors).unwrap().0;
        assert_eq!(found.len(), 2, "{found:?}");
        assert_eq!(found[0].file, format!("{AGENT}.conflict"));
        assert!(found[0].differs.contains(&"status is \"WAITING\"".to_owned()), "{found:?}");
        assert_eq!(found[0].next, [format!("fleet conflicts take {AGENT}.conflict"), format!("fleet conflicts drop {AGENT}.conflict")]);
        drop_conflict(&mirror.mirrors, &found[0].file).unwrap();
        let taken = story.with_fleet(|fleet| take_conflict(fleet, &mirror.mirrors, &caller(""), &found[1].file)).unwrap();
        assert!(taken.changed && taken.changes.contains(&"status is \"BLOCKED\"".to_owned()), "{taken:?}");
        mirror.pass();
        assert_eq!(conflicts(&mirror.mirrors).unwrap().0, []);
        assert_eq!(json(&mirror.read(AGENT)).get("status"), Some(&Json::from("BLOCKED")));
        assert!(drop_conflict(&mirror.mirrors, &found[0].file).is_err());
    }

    fn what_a_document_tells_happened_when_it_says(world: &World) {
        let story = Story::new(world);
        import(&story, Dialect::Sitebuilder, TASK, SCHEMA);
        let view = task(&story);
        assert_eq!(view.sortie.updated_at.to_seconds(), "2025-12-08T14:52:10Z");
        assert!(view.files.iter().all(|file| file.at == view.sortie.updated_at));
        let last = story.events_after(0).into_iter().rfind(|event| event.kind == "sortie_started").unwrap();
        assert_eq!(last.happened_at(), view.sortie.updated_at);
        assert!(last.timestamp > last.happened_at());
        // A clock that is ahead is not believed.
        let now = story.with_fleet(|fleet| fleet.now()).unwrap();
        let ahead = SCHEMA.replace("\"updated_at\": \"2025-12-08T14:52:10Z\"", "\"updated_at\": \"2030-12-08T14:52:10Z\"").replace("\"completed\": 19", "\"completed\": 20");
        import(&story, Dialect::Sitebuilder, TASK, &ahead);
        let known = task(&story).sortie.updated_at;
        assert!(known >= now.minus(1_000) && known <= now.plus(60_000), "{known}");
    }
}

#[test]
fn unreadable_files_are_set_aside_by_several_commands_and_hide_no_other() {
    let world = World::new(Engine::Sqlite);
    let story = Story::new(&world);
    let mirror = Mirror::new(&story, Dialect::Epic);
    for number in 0..130 {
        mirror.write(&format!("agent_checkpoints/a-{number:03}.json"), "x");
    }
    mirror.write(
        "agent_checkpoints/secondary_z.json",
        &FIRST.replace("Secondary-A", "Secondary-Z"),
    );
    let known = || story.look(|tx| tx.rows(Kind::Agent, Find::All)).len();
    mirror.settle();
    assert_eq!(known(), 1, "what is whole is taken in at once");
    let aside = || {
        let files = mirror.files("agent_checkpoints");
        files
            .iter()
            .filter(|file| file.contains(".conflict"))
            .count()
    };
    for expected in [50, 100, 130] {
        mirror.pass();
        assert_eq!(aside(), expected);
    }
}
