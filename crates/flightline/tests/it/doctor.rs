//! The doctor, on both engines: names what is damaged and which copy is sound, repairs from the sound one
//! after a backup, and puts out of use what has none.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use flightline::checkpoint::files::{self, name_of};
use flightline::core::Subject;
use flightline::core::setting::EpochFloor;
use flightline::core::token::{Scope, Token};
use flightline::doctor::{Care, Diagnosis, attend};
use flightline::store::{ListOrder, ListScope, RowList, SubjectRow};
use flightline::token::{CreateToken, ListTokens};
use flightline_testkit::prelude::*;
use flightline_testkit::story::begin_effect;
use flightline_testkit::story::{name, note, title};

/// A mission with two checkpoints in files; what they name of one sortie is no longer its last value.
fn working(world: &World) -> (Story<'_>, CheckpointDocument, CheckpointDocument) {
    let story = Story::new(world);
    story.mission(
        "Add login",
        &["Model", "Endpoint", "Docs", "Tests", "Deploy"],
    );
    story.finish("ada", &["Model"]);
    let first = story.checkpoint();
    story.claim("bob", "Docs").unwrap();
    story.lock("bob", &["docs"]).unwrap();
    let second = story.checkpoint();
    story.settle();
    story
        .change_keeping_locks("bob", "Docs", GIVEN_BACK)
        .unwrap();
    (story, first, second)
}

fn examine(story: &Story<'_>, care: Care) -> Diagnosis {
    let folder = story.state_folder();
    story
        .with_fleet(|fleet| attend(fleet, &folder, care, "now"))
        .unwrap()
}

/// What is wrong, and nothing is changed by looking.
fn wrong(story: &Story<'_>) -> Vec<String> {
    let rev = story.rev();
    let found = examine(story, Care::Look);
    assert!(found.backup.is_none() && story.rev() == rev);
    let bad = found.checks.into_iter().filter(|check| !check.ok);
    bad.flat_map(|check| check.findings).collect()
}

/// Repairs, after which all is well. Returns what was said of it.
fn fixed(story: &Story<'_>) -> Diagnosis {
    let done = examine(story, Care::Repair);
    assert!(done.healthy, "{done:?}");
    assert_eq!(wrong(story), [] as [&str; 0]);
    done
}

fn findings(diagnosis: &Diagnosis) -> Vec<&str> {
    let all = diagnosis.checks.iter().flat_map(|check| &check.findings);
    all.map(String::as_str).collect()
}

fn old(path: &Path, now: Time) {
    let time = UNIX_EPOCH + Duration::from_millis(u64::try_from(now.as_millis()).unwrap())
        - Duration::from_secs(3_601);
    let file = fs::File::open(path).unwrap();
    file.set_modified(time).unwrap();
}

/// A fleet with something of every kind that is later than any checkpoint's file.
fn of_every_kind(world: &World) -> Story<'_> {
    let (story, ..) = working(world);
    story.finish("ada", &["Tests"]);
    story.settle();
    story.claim("carl", "Docs").unwrap();
    let lesson = AddNote::of(NoteKind::Lesson, note("Kept in mind"));
    story.run("", &lesson).unwrap();
    let token = CreateToken {
        name: name("ci"),
        scope: Scope::Read,
        agent: None,
        expires_in_ms: None,
        sha256: "ab".repeat(32),
    };
    story.run("", &token).unwrap();
    story.lock("carl", &["later"]).unwrap();
    let step = UpdateAgent {
        step: Some(title("on it")),
        ..UpdateAgent::default()
    };
    story.run("carl", &step).unwrap();
    story.run("carl", &begin_effect("publish")).unwrap();
    let finish = FinishEffect {
        key: name("publish"),
        mission: None,
        result: None,
    };
    story.run("carl", &finish).unwrap();
    story.register("erin", Role::Dispatch);
    story
        .send("ada", &["carl", "bob"], "Please review")
        .unwrap();
    story.read_mail("carl");
    story.run("carl", &brief_agent()).unwrap();
    story.resume("", vec![]).unwrap();
    story
}

fn newest(story: &Story<'_>, kind: Kind) -> SubjectRow {
    let rows = story.look(|tx| tx.rows(kind, Find::All));
    rows.into_iter().max_by_key(|row| row.rev).unwrap()
}

/// Damages both copies of the value of a kind that was given last.
fn lose_newest(story: &Story<'_>, world: &World, kind: Kind) -> SubjectRow {
    let row = newest(story, kind);
    lose(story, world, kind, &row.id);
    row
}

/// Damages both copies of the last value of a subject.
fn lose(story: &Story<'_>, world: &World, kind: Kind, id: &str) {
    let rows = story.look(|tx| tx.rows(kind, Find::All));
    let rev = rows.iter().find(|row| row.id == id).unwrap().rev;
    damage::live(world, kind, id);
    let sql = format!(
        "UPDATE event SET after = 'y', base = NULL WHERE project = {{project}} AND rev = {rev}"
    );
    assert_eq!(damage::raw(world, &sql), 1);
    let found = wrong(story);
    let is_lost = |said: &String| said.ends_with("the store has no other copy");
    assert!(found.iter().any(is_lost), "{kind}: {found:?}");
}

/// Asks for everything there is, and works on.
fn goes_on(story: &Story<'_>, lost: &str) {
    let asked = [
        (
            "agents",
            story
                .run(
                    "",
                    &ListAgents {
                        retired: true,
                        sightings: vec![],
                    },
                )
                .err(),
        ),
        (
            "missions",
            story
                .run(
                    "",
                    &ListMissions {
                        archived: true,
                        limit: 50,
                    },
                )
                .err(),
        ),
        ("tokens", story.run("", &ListTokens { all: true }).err()),
        (
            "candidates",
            story
                .run(
                    "",
                    &Detect {
                        threshold_ms: None,
                        sightings: vec![],
                    },
                )
                .err(),
        ),
        ("status", story.run("", &show_status()).err()),
        ("inbox", story.run("", &peek_inbox("carl", 50)).err()),
        ("briefing", story.run("carl", &brief_agent()).err()),
    ];
    for (what, refused) in asked {
        assert!(refused.is_none(), "{lost}: {what}: {refused:?}");
    }
    story.lock("dora", &["elsewhere"]).unwrap();
    story.send("dora", &["ada", "carl"], "Going on").unwrap();
    story.mission("Another", &["One"]);
    story.finish("dora", &["One"]);
    story.checkpoint();
}

both_engines! {
    fn a_sound_store_is_left_alone(world: &World) {
        let (story, ..) = working(world);
        let rev = story.rev();
        let done = fixed(&story);
        assert_eq!((done.repaired.len(), done.backup, story.rev()), (0, None, rev));
        assert!(!story.state_folder().join("backups").exists());
    }

    fn a_damaged_last_value_is_named_and_repaired_from_the_journal_after_a_backup(world: &World) {
        let (story, ..) = working(world);
        let (docs, before) = (story.sortie_id("Docs"), story.state());
        damage::live(world, Kind::Sortie, &docs);
        let said = format!("the last value of sortie {docs} does not match its checksum; the journal's is sound");
        assert_eq!(wrong(&story), std::slice::from_ref(&said));
        let done = fixed(&story);
        assert_eq!(done.repaired, [format!("{said}; repaired")]);
        assert!(story.state() == before);
        let backup = done.backup.unwrap();
        assert_eq!(backup, story.state_folder().join("backups/before-fix-now.db"));
        assert_eq!(fs::metadata(backup.parent().unwrap()).unwrap().permissions().mode() & 0o777, 0o700);
        assert!(fs::metadata(&backup).unwrap().len() > 0, "the damage can be looked at");
    }

    fn a_damaged_value_in_the_journal_is_repaired_from_the_last_value(world: &World) {
        let (story, ..) = working(world);
        let (model, before) = (story.sortie_id("Model"), story.state());
        let rev = before.iter().find(|value| value.id == model).unwrap().rev;
        damage::journal(world, Kind::Sortie, &model, rev - 1);
        let found = wrong(&story);
        assert_eq!(found, [format!("sortie {model} (revision {rev}) does not match its checksum in the journal; its last value is the same, and sound")]);
        fixed(&story);
        assert!(story.state() == before);
    }

    fn a_damaged_value_that_only_a_file_has_is_repaired_from_it(world: &World) {
        let (story, first, second) = working(world);
        let docs = story.sortie_id("Docs");
        let sql = format!("UPDATE event SET after = 'x' WHERE project = {{project}} AND subject = '{docs}' AND rev > {} AND rev <= {}", first.rev, second.rev);
        assert_eq!(damage::raw(world, &sql), 1);
        let found = wrong(&story);
        assert!(found.iter().any(|said| said.ends_with("the store has no other copy")), "{found:?}");
        assert!(found.iter().any(|said| said.starts_with(&second.id.to_string()[..12]) && said.ends_with("; its file is sound")), "{found:?}");
        fixed(&story);
    }

    fn a_value_that_no_checkpoint_names_any_more_is_repaired_from_a_file_that_has_it(world: &World) {
        let (story, first, second) = working(world);
        let aside = world.folder().join("aside.json");
        fs::copy(story.file_of(&second), &aside).unwrap();
        story.mark("", second.id, CheckpointMark::Delete).unwrap();
        let docs = story.sortie_id("Docs");
        let sql = format!("UPDATE event SET after = 'x' WHERE project = {{project}} AND subject = '{docs}' AND rev > {} AND rev <= {}", first.rev, second.rev);
        assert_eq!(damage::raw(world, &sql), 1);
        fixed(&story);
        assert!(!story.file_of(&second).exists(), "what was left of a deleted one is gone afterwards");
    }

    fn a_value_without_any_copy_is_set_aside_and_everything_goes_on(world: &World) {
        for (kind, outcome) in [
            (Kind::Sortie, "stands in its place"),
            (Kind::Lock, "set aside, and removed"),
            (Kind::Note, "set aside, and removed"),
            // Told by its columns to the letter.
            (Kind::Effect, "repaired"),
        ] {
            let world = World::new(world.engine);
            let story = of_every_kind(&world);
            let row = lose_newest(&story, &world, kind);
            let done = fixed(&story);
            assert!(done.backup.is_some() && done.set_aside == (outcome != "repaired"), "{kind}: {done:?}");
            assert!(done.repaired.iter().any(|said| said.contains(&row.id) && said.ends_with(outcome)), "{kind}: {:?}", done.repaired);
            // It is known from now on, and nothing is done about it again.
            let rev = story.rev();
            let again = fixed(&story);
            assert_eq!((again.repaired.len(), again.backup, again.set_aside, story.rev()), (0, None, done.set_aside, rev), "{kind}");
            story.lock("dora", &["elsewhere"]).unwrap();
            story.checkpoint();
            fixed(&story);
        }
    }

    fn a_damaged_status_puts_no_subject_into_another_list(world: &World) {
        let story = of_every_kind(world);
        story.run("carl", &begin_effect("announce")).unwrap();
        let page = |limit| story.look(|tx| {
            let in_doubt = RowList::new(Kind::Effect, ListScope::All, &["done"]);
            tx.some_rows(in_doubt, ListOrder::OLDEST, limit)
        });
        let names = |rows: Vec<SubjectRow>| rows.into_iter().map(|row| row.name.unwrap()).collect::<Vec<_>>();
        assert_eq!(names(page(1)), ["announce"]);
        let sql = "UPDATE subject SET status = 'donx' WHERE project = {project} AND kind = 'effect' AND status = 'done'";
        assert_eq!(damage::raw(world, sql), 1);
        assert_eq!(names(page(1)), ["announce"], "the page has what is its own");
        assert_eq!(names(page(9)), ["announce"]);
    }

    fn whatever_is_lost_in_every_copy_everything_else_goes_on(world: &World) {
        let subjects = |story: &Story<'_>| {
            let kept = |kind: &Kind| !matches!(kind, Kind::Checkpoint | Kind::Import);
            let of = |kind| story.look(|tx| tx.rows(kind, Find::All)).into_iter().map(move |row| (kind, row.id));
            Kind::ALL.into_iter().filter(kept).flat_map(of).collect::<Vec<_>>()
        };
        let mut seen = BTreeSet::new();
        let count = subjects(&of_every_kind(world)).len();
        for at in 0..count {
            let world = World::new(world.engine);
            let story = of_every_kind(&world);
            let (kind, id) = subjects(&story).swap_remove(at);
            // One subject of each kind, and every setting.
            let what = if kind == Kind::Setting { id.split('/').next().unwrap() } else { kind.as_str() };
            if !seen.insert(what.to_owned()) {
                continue;
            }
            lose(&story, &world, kind, &id);
            fixed(&story);
            goes_on(&story, what);
            fixed(&story);
        }
        for kind in ["agent", "mission", "message", "delivery", "token", "milestone", "recovery", "briefing", "secret"] {
            assert!(seen.contains(kind), "{kind}: {seen:?}");
        }
    }

    fn work_that_is_taken_or_done_is_not_given_out_again(world: &World) {
        let story = of_every_kind(world);
        story.finish("dora", &["Deploy"]);
        let [docs, deploy] = ["Docs", "Deploy"].map(|named| story.sortie_id(named));
        for id in [&docs, &deploy] {
            lose(&story, world, Kind::Sortie, id);
        }
        let publish = newest(&story, Kind::Effect).id;
        lose(&story, world, Kind::Effect, &publish);
        // A checkpoint names what is lost, and is quarantined.
        examine(&story, Care::Repair);
        assert!(story.claim("erin", "Docs").is_err());
        story.change("carl", "Docs", DONE).unwrap();
        assert_eq!(story.sortie("Deploy").sortie.status, SortieStatus::Completed);
        assert!(story.look(|tx| tx.get::<Effect>(&publish)).unwrap().is_done());
        // Nothing says how far it came: a person decides.
        lose(&story, world, Kind::Sortie, &docs);
        assert_eq!(damage::raw(world, &format!("UPDATE subject SET status = 'pending' WHERE project = {{project}} AND id = '{docs}'")), 1);
        examine(&story, Care::Repair);
        assert_eq!(story.sortie("Docs").sortie.status, SortieStatus::Failed);
    }

    fn an_agent_that_is_lost_twice_comes_back_above_every_epoch_it_had(world: &World) {
        let story = of_every_kind(world);
        let mut before = story.agent("carl").epoch;
        for _ in 0..3 {
            let carl = story.agent("carl").key();
            lose(&story, world, Kind::Agent, &carl);
            let all = format!("UPDATE event SET after = 'y', base = NULL WHERE project = {{project}} AND change = 'set' AND subject = '{carl}'");
            damage::raw(world, &all);
            fixed(&story);
            assert!(story.agent("carl").epoch > before);
            before = story.register("carl", Role::Specialist).agent.epoch;
        }
        // The floor of epochs is lost with it, and is not lowered.
        let (carl, floor) = (story.agent("carl").key(), EpochFloor::KEY);
        for (kind, id) in [(Kind::Agent, &*carl), (Kind::Setting, floor)] {
            lose(&story, world, kind, id);
        }
        let above = before - 1;
        fixed(&story);
        let kept = story.look(|tx| tx.get::<EpochFloor>(floor)).unwrap();
        assert!(kept.epoch > above && story.agent("carl").epoch > before, "{kept:?}");
    }

    fn a_mission_whose_columns_are_damaged_too_is_set_aside_in_one_go(world: &World) {
        let story = of_every_kind(world);
        story.transition("review");
        let mission = story.all::<Mission>()[0].key();
        lose(&story, world, Kind::Mission, &mission);
        let sql = format!("UPDATE subject SET name = 'Q', status = 'completed' WHERE project = {{project}} AND id = '{mission}'");
        assert_eq!(damage::raw(world, &sql), 1);
        fixed(&story);
        let kept = story.look(|tx| tx.get::<Mission>(&mission)).unwrap();
        assert_eq!((kept.title.as_str(), kept.status), ("Add login", MissionStatus::Paused));
    }

    fn the_rewind_before_a_lost_one_is_not_taken_back_in_its_place(world: &World) {
        let (story, first, second) = working(world);
        story.rewind(first.id).unwrap();
        story.rewind(second.id).unwrap();
        lose_newest(&story, world, Kind::Recovery);
        examine(&story, Care::Repair);
        let undo = Undo { mission: None, force: true, sightings: vec![] };
        let refused = story.run("", &undo).unwrap_err();
        assert_eq!(refused.code, Code::NotFound, "{refused:?}");
    }

    fn a_lost_constraint_leaves_one_that_says_so(world: &World) {
        let story = of_every_kind(world);
        let rule = AddNote::of(NoteKind::Constraint, note("Never log passwords"));
        let kept = story.run("", &rule).unwrap();
        lose(&story, world, Kind::Note, &kept.key());
        fixed(&story);
        let briefing = story.run("carl", &brief_agent()).unwrap().text;
        assert!(briefing.contains("A constraint stood here"), "{briefing}");
    }

    fn no_stand_in_allows_what_was_forbidden(world: &World) {
        let story = of_every_kind(world);
        let (carl, token) = (story.agent("carl"), newest(&story, Kind::Token));
        let session = Caller { epoch: Some(carl.epoch), ..caller("carl") };
        let lesson = AddNote::of(NoteKind::Lesson, note("Kept in mind"));
        story.run_as(&session, &lesson).unwrap();
        for (kind, id) in [(Kind::Agent, carl.key()), (Kind::Token, token.id.clone())] {
            lose(&story, world, kind, &id);
        }
        fixed(&story);
        let fenced = story.run_as(&session, &lesson).unwrap_err();
        assert_eq!(fenced.code, Code::Fenced, "{fenced:?}");
        assert!(story.agent("carl").epoch > carl.epoch + 999);
        let token = story.look(|tx| tx.get::<Token>(&token.id)).unwrap();
        assert!(token.revoked_at.is_some(), "{token:?}");
    }

    fn a_text_that_may_be_the_right_one_is_left_alone(world: &World) {
        for sql in [
            "UPDATE subject SET sha = 'ab' WHERE project = {project} AND id = '{id}'",
            "UPDATE subject SET doc = 'x' WHERE project = {project} AND id = '{id}'",
        ] {
            let world = World::new(world.engine);
            let story = of_every_kind(&world);
            let row = newest(&story, Kind::Note);
            // The text in the journal goes with the hash of the row, or the hash in the journal with the text of the row.
            let column = if sql.contains("doc") { "sha" } else { "after" };
            let journal = format!("UPDATE event SET {column} = 'y' WHERE project = {{project}} AND rev = {}", row.rev);
            assert_eq!(damage::raw(&world, &journal), 1);
            assert_eq!(damage::raw(&world, &sql.replace("{id}", &row.id)), 1);
            let rev = story.rev();
            examine(&story, Care::Repair);
            let values = story.look(|tx| tx.rows(Kind::Note, Find::All));
            assert!(values.iter().any(|it| it.id == row.id && it.rev == row.rev), "{sql}");
            assert!(story.events_after(rev).iter().all(|event| event.event_type() != Some(EventType::DamageSetAside)), "{sql}");
        }
    }

    fn rows_that_are_lost_or_differ_are_written_anew(world: &World) {
        for (sql, said) in [
            ("DELETE FROM subject WHERE project = {project} AND kind = 'lock'", "has events and no value"),
            ("UPDATE subject SET gone = rev WHERE project = {project} AND kind = 'lock'", "differs from what its events say"),
            ("UPDATE subject SET status = 'x' WHERE project = {project} AND kind = 'lock'", "is found by another status than its document says"),
            ("UPDATE subject SET name = 'x', agent = NULL, parent = 'y' WHERE project = {project} AND kind = 'lock'", "is found by another parent, agent, name than its document says"),
            ("UPDATE subject SET percent = 99 WHERE project = {project} AND kind = 'lock'", "is found by another percent than its document says"),
        ] {
            let world = World::new(world.engine);
            let (story, ..) = working(&world);
            let before = story.state();
            assert_eq!(damage::raw(&world, sql), 1);
            let found = wrong(&story);
            assert!(found.iter().any(|found| found.ends_with(said)), "{found:?}");
            fixed(&story);
            assert!(story.state() == before, "{sql}");
        }
    }

    fn a_mission_found_by_another_status_is_found_by_its_own_again(world: &World) {
        let (story, ..) = working(world);
        damage::raw(world, "UPDATE subject SET status = 'archived' WHERE project = {project} AND kind = 'mission'");
        assert!(!wrong(&story).is_empty());
        fixed(&story);
        assert!(story.resume("", vec![]).is_ok());
    }

    fn an_event_that_is_lost_is_brought_back_when_there_is_a_copy(world: &World) {
        let (story, ..) = working(world);
        let (model, before) = (story.sortie_id("Model"), story.state());
        let rev = before.iter().find(|value| value.id == model).unwrap().rev;
        assert_eq!(damage::raw(world, &format!("DELETE FROM event WHERE project = {{project}} AND rev = {rev}")), 1);
        let found = wrong(&story);
        assert!(found.contains(&format!("the event that gave sortie {model} its value (revision {rev}) is lost; its last value is sound")), "{found:?}");
        fixed(&story);
        assert!(story.state() == before);
    }

    fn of_two_sound_values_that_differ_neither_is_written_over(world: &World) {
        let (story, ..) = working(world);
        let mission = story.all::<Mission>()[0].clone();
        let forged = serde_json::to_string(&Mission { phase: Some(flightline_testkit::story::title("forged")), ..mission.clone() }).unwrap();
        let sha = flightline::core::event::sha256_hex(&forged);
        let sql = format!("UPDATE subject SET doc = '{forged}', sha = '{sha}' WHERE project = {{project}} AND kind = 'mission'");
        assert_eq!(damage::raw(world, &sql), 1);
        let said = format!("mission {} (revision {}) has two values, and both match their checksums", mission.key(), story.state().iter().find(|value| value.id == mission.key()).unwrap().rev);
        assert!(wrong(&story).contains(&said), "{:?}", wrong(&story));
        let done = examine(&story, Care::Repair);
        assert!(!done.healthy && findings(&done).contains(&said.as_str()));
        assert_eq!(story.look(|tx| tx.get::<Mission>(&mission.key())).unwrap().phase, Some(flightline_testkit::story::title("forged")));
    }

    fn a_missing_checkpoint_is_brought_back_and_a_damaged_record_repaired(world: &World) {
        let (story, first, second) = working(world);
        for table in ["event WHERE subject", "subject WHERE id", "backup WHERE checkpoint"] {
            damage::raw(world, &format!("DELETE FROM {table} = '{}' AND project = {{project}}", second.id));
        }
        damage::live(world, Kind::Checkpoint, &first.id.to_string());
        let done = examine(&story, Care::Repair);
        let said = done.repaired.join("\n");
        assert!(said.contains("was missing in the store; brought back from its file") && said.contains("was damaged in the store; repaired"), "{said}");
        for id in [first.id, second.id] {
            assert!(story.run("", &ShowCheckpoint { checkpoint: id.to_string() }).is_ok());
        }
    }

    fn what_no_copy_can_mend_is_quarantined_kept_and_not_offered(world: &World) {
        let (story, first, second) = working(world);
        let docs = story.sortie_id("Docs");
        damage::raw(world, &format!("UPDATE event SET after = 'x' WHERE project = {{project}} AND subject = '{docs}' AND rev > {} AND rev <= {}", first.rev, second.rev));
        fs::write(story.file_of(&second), "{}").unwrap();
        let done = examine(&story, Care::Repair);
        assert!(!done.healthy, "never silently fine");
        assert!(done.repaired.iter().any(|said| said.ends_with("no copy can mend it: quarantined")), "{:?}", done.repaired);
        assert!(findings(&done).iter().any(|said| said.ends_with("; it is quarantined")), "{:?}", findings(&done));
        assert_eq!(fs::read_to_string(story.file_of(&second)).unwrap(), "{}", "the bad one writes nothing");
        let kept = story.checkpoints().pop().unwrap();
        assert_eq!((kept.id, kept.status), (second.id, CheckpointStatus::Corrupted));
        let latest = ShowCheckpoint { checkpoint: "@latest".to_owned() };
        assert_eq!(story.run("", &latest).unwrap().id, first.id, "not offered");
        let list = story.run("", &ListCheckpoints { mission: None, archived: false, limit: 10 }).unwrap();
        assert_eq!(list.checkpoints[0].status, CheckpointStatus::Corrupted, "kept, and said");
        let rev = story.rev();
        let again = examine(&story, Care::Repair);
        assert_eq!((again.backup, story.rev()), (None, rev), "once");
    }

    fn files_are_made_private_again(world: &World) {
        let (story, first, _) = working(world);
        let file = story.file_of(&first);
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        fs::set_permissions(file.parent().unwrap(), fs::Permissions::from_mode(0o755)).unwrap();
        let found = wrong(&story);
        assert!(found.len() == 2 && found.iter().all(|said| said.contains("is open to others (mode ")), "{found:?}");
        fixed(&story);
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    }

    fn latest_is_put_right(world: &World) {
        let (story, first, second) = working(world);
        let link = story.file_of(&first).with_file_name("latest.json");
        for spoil in ["chk-gone.json".to_owned(), format!("{}.json", first.id)] {
            fs::remove_file(&link).unwrap();
            assert!(wrong(&story)[0].contains("is missing, and the newest file is"));
            symlink(&spoil, &link).unwrap();
            assert!(wrong(&story)[0].contains(&format!("names {spoil}, and the newest file is {}.json", second.id)));
            fixed(&story);
            assert_eq!(fs::read_link(&link).unwrap().to_str().unwrap(), format!("{}.json", second.id));
        }
        fs::remove_file(&link).unwrap();
        fs::write(&link, "somebody's").unwrap();
        assert!(!examine(&story, Care::Repair).healthy);
        assert_eq!(fs::read_to_string(&link).unwrap(), "somebody's");
    }

    fn what_dead_processes_left_is_removed_after_an_hour(world: &World) {
        let (story, first, _) = working(world);
        let (home, state) = (story.file_of(&first).parent().unwrap().to_path_buf(), story.state_folder());
        let side = state.join(".flightline-0b6ce2a6-9d6b-4a5e-8f39-d9d4f77c1c11");
        let (half, link, own) = (home.join(format!(".{}.77", first.id)), home.join(".chk-young.78"), state.join(".flightline-of-mine"));
        for folder in [&side, &own] {
            fs::create_dir_all(folder).unwrap();
            fs::write(folder.join("flightline.db"), "half").unwrap();
            old(folder, world.clock.now());
        }
        for file in [&half, &link] {
            fs::write(file, "{").unwrap();
            fs::set_permissions(file, fs::Permissions::from_mode(0o600)).unwrap();
        }
        old(&half, world.clock.now());
        let seen = examine(&story, Care::Look);
        assert!(seen.healthy && findings(&seen).iter().filter(|said| said.ends_with("was left by a process that died")).count() == 2, "{seen:?}");
        let done = fixed(&story);
        assert_eq!(findings(&done).iter().filter(|said| said.ends_with("; removed")).count(), 2);
        assert_eq!([&side, &half, &link, &own].map(|path| path.exists()), [false, false, true, true], "only what is ours, and old");
    }

    fn a_missing_note_of_a_file_is_made_good(world: &World) {
        let (story, first, _) = working(world);
        assert_eq!(damage::raw(world, &format!("DELETE FROM backup WHERE checkpoint = '{}' AND project = {{project}}", first.id)), 1);
        assert!(wrong(&story)[0].ends_with("nothing is known of its file"));
        fixed(&story);
        assert!(files::read(&story.state_folder(), &name_of(first.mission_id, first.id)).is_ok());
    }
}
