//! Notes and effects, on both engines: what must not be forgotten, and what must not be done twice.

use flightline::core::note::{Note, NoteEnding};
use flightline::note::end::{EndHow, EndNote, ReplaceNote};
use flightline_testkit::prelude::*;

fn stage(world: &World) -> Story<'_> {
    let story = Story::new(world);
    story.mission("Ship it", &["Release"]);
    story
}

fn begin(story: &Story<'_>, agent: &str, again: bool) -> Result<Effect, Refusal> {
    let begin = BeginEffect {
        what: Some(note("cargo publish")),
        again,
        ..begin_effect("publish-1.2.0")
    };
    story.run(agent, &begin)
}

fn done(story: &Story<'_>, agent: &str, result: &str) -> Result<Effect, Refusal> {
    let done = FinishEffect {
        result: Some(note(result)),
        ..finish_effect("publish-1.2.0")
    };
    story.run(agent, &done)
}

both_engines! {
    fn notes_of_every_kind_are_kept_in_order(world: &World) {
        let story = stage(world);
        let kinds = [
            NoteKind::Decision,
            NoteKind::Lesson,
            NoteKind::Constraint,
            NoteKind::DeadEnd,
            NoteKind::Blocker,
            NoteKind::NextStep,
        ];
        for kind in kinds {
            story.run("ada", &add_note(kind, kind.as_str())).unwrap();
        }
        let all = story.run("", &list_notes()).unwrap();
        assert_eq!(all.iter().map(|note| note.kind).collect::<Vec<_>>(), kinds);
        assert!(
            all.iter()
                .all(|note| note.author == "ada" && note.author_id == Some(story.agent("ada").id))
        );
        for kind in kinds {
            let some = story.run("", &ListNotes { kind: Some(kind), ..list_notes() }).unwrap();
            assert_eq!(
                some.iter().map(|note| note.text.as_str()).collect::<Vec<_>>(),
                [kind.as_str()]
            );
        }
        assert!(story.damaged_values().is_empty());
    }

    fn a_decision_keeps_its_reason_and_its_sortie(world: &World) {
        let story = stage(world);
        let decision = AddNote {
            rationale: Some(note("it is boring")),
            sortie: Some(story.sortie_id("Release")),
            ..add_note(NoteKind::Decision, "Use PostgreSQL")
        };
        let written = story.run("", &decision).unwrap();
        assert_eq!(
            (written.rationale, written.sortie_id.unwrap().to_string()),
            (Some(note("it is boring")), story.sortie_id("Release"))
        );
        assert_eq!((written.author.as_str(), written.author_id), ("user:tester", None));
        story.mission("Another", &[]);
        assert_eq!(
            story.run("", &decision).unwrap_err().code,
            Code::InvalidInput,
            "the sortie belongs to another mission"
        );
    }

    fn a_constraint_is_kept_word_for_word(world: &World) {
        let story = stage(world);
        let rule = "NEVER  push to `main`.\n\tAsk first — “always”; $HOME, %s, {x} and <b> stay as they are. 🚫";
        story.run("", &add_note(NoteKind::Constraint, rule)).unwrap();
        let kept = story
            .run("ada", &ListNotes { kind: Some(NoteKind::Constraint), ..list_notes() })
            .unwrap();
        assert_eq!(kept[0].text.as_str(), rule);
    }

    fn a_note_ends_once_and_is_kept(world: &World) {
        let story = stage(world);
        let end = |note: &Note, how: EndHow| EndNote { note: note.id.to_string(), how, reason: None };
        let blocker = story.run("ada", &add_note(NoteKind::Blocker, "no token")).unwrap();
        let closed = story.run("bob", &end(&blocker, EndHow::Closed)).unwrap();
        assert_eq!(closed.ended.as_ref().map(|it| (it.how, it.by.as_str())), Some((NoteEnding::Closed, "bob")));
        assert_eq!(story.run("eve", &end(&blocker, EndHow::Closed)).unwrap(), closed, "saying it twice is harmless");
        assert_eq!(story.run("ada", &end(&blocker, EndHow::Withdrawn)).unwrap_err().code, Code::IllegalTransition);
        let lesson = story.run("ada", &add_note(NoteKind::Lesson, "sleep")).unwrap();
        let refused = story.run("bob", &end(&lesson, EndHow::Withdrawn)).unwrap_err();
        assert_eq!((refused.code, refused.details["author"].as_str()), (Code::NotYours, Some("ada")));
        let anew = ReplaceNote { note: lesson.id.to_string(), text: note("sleep more"), rationale: None };
        let written = story.run("ada", &anew).unwrap();
        assert_eq!((written.replaces, written.kind, written.text.as_str()), (Some(lesson.id), NoteKind::Lesson, "sleep more"));
        assert_eq!(story.run("ada", &anew).unwrap_err().code, Code::IllegalTransition, "it was replaced");
        let texts = |all: bool| -> Vec<String> {
            let notes = story.run("", &ListNotes { all, ..list_notes() }).unwrap();
            notes.iter().map(|note| note.text.to_string()).collect()
        };
        assert_eq!(texts(false), ["sleep more"]);
        assert_eq!(texts(true), ["no token", "sleep", "sleep more"]);
        assert!(story.damaged_values().is_empty());
    }

    fn a_constraint_is_edited_within_the_room_that_it_frees(world: &World) {
        let story = stage(world);
        let long = |words: usize| note(&"never do this ".repeat(words));
        let rule = story.run("", &AddNote { text: long(150), ..add_note(NoteKind::Constraint, "x") }).unwrap();
        let refused = story.run("", &AddNote { text: long(30), ..add_note(NoteKind::Constraint, "x") }).unwrap_err();
        assert_eq!((refused.code, refused.details["limit_tokens"].as_u64()), (Code::TooLong, Some(800)));
        let edit = |words: usize| ReplaceNote { note: rule.id.to_string(), text: long(words), rationale: None };
        assert_eq!(story.run("", &edit(300)).unwrap_err().code, Code::TooLong);
        assert_eq!(story.run("ada", &edit(3)).unwrap_err().code, Code::NotYours, "it binds ada");
        story.run("", &edit(110)).unwrap();
        story.run("", &AddNote { text: long(30), ..add_note(NoteKind::Constraint, "x") }).unwrap();
    }

    fn an_artifact_needs_a_file_and_may_have_a_checksum(world: &World) {
        let story = stage(world);
        let refused = story.run("ada", &add_note(NoteKind::Artifact, "The report")).unwrap_err();
        assert_eq!(
            (refused.code, refused.hint.unwrap().as_str()),
            (Code::InvalidInput, "give `--path FILE`")
        );
        let artifact = AddNote {
            path: Some(path("docs/./report.md")),
            checksum: Some("ab".repeat(32)),
            artifact_type: Some(name("report")),
            ..add_note(NoteKind::Artifact, "The report")
        };
        let kept = story.run("ada", &artifact).unwrap();
        assert_eq!(
            (kept.path, kept.checksum),
            (Some(path("docs/report.md")), Some("ab".repeat(32)))
        );
        for wrong in ["", "ab", &"xy".repeat(32), &"ab".repeat(33)] {
            let wrong = AddNote { checksum: Some(wrong.to_owned()), ..artifact.clone() };
            assert_eq!(
                story.run("ada", &wrong).unwrap_err().message,
                "a checksum has 64 hexadecimal digits"
            );
        }
    }

    fn notes_belong_to_a_mission(world: &World) {
        let story = Story::new(world);
        let refused = story.run("ada", &add_note(NoteKind::Lesson, "Too early")).unwrap_err();
        assert_eq!(
            (refused.code, refused.message.as_str()),
            (Code::NotFound, "there is no mission yet")
        );
        let first = story.mission("First", &[]).mission.id;
        story.run("ada", &add_note(NoteKind::Lesson, "In the first")).unwrap();
        story.mission("Second", &[]);
        assert!(story.run("", &list_notes()).unwrap().is_empty());
        let of_first = ListNotes { mission: Some(first.to_string()), ..list_notes() };
        assert_eq!(story.run("", &of_first).unwrap().len(), 1);
    }

    fn an_effect_is_begun_and_done_once(world: &World) {
        let story = stage(world);
        let begun = begin(&story, "ada", false).unwrap();
        assert_eq!((begun.attempts, begun.by.as_str(), begun.epoch), (1, "ada", Some(1)));
        assert_eq!(begun.state, EffectState::Intent { at: world.clock.now() });
        story.pass_minutes(1);
        let finished = done(&story, "ada", "version 1.2.0 is out").unwrap();
        assert_eq!(
            finished.state,
            EffectState::Done { at: world.clock.now(), result: Some(note("version 1.2.0 is out")) }
        );
        for again in [false, true] {
            let refused = begin(&story, "bob", again).unwrap_err();
            assert_eq!(
                refused.code,
                Code::EffectDone,
                "what was done is done, asked politely or not"
            );
            assert_eq!(
                refused.message,
                "`publish-1.2.0` was already done by ada at 2026-01-04T12:01:00.000Z"
            );
        }
    }

    fn an_effect_that_nobody_finished_is_in_doubt(world: &World) {
        let story = stage(world);
        begin(&story, "ada", false).unwrap();
        for again in [false, true] {
            let refused = begin(&story, "bob", again).unwrap_err();
            assert_eq!(
                (refused.code, refused.message.as_str(), refused.retryable),
                (
                    Code::AlreadyTaken,
                    "`publish-1.2.0`: ada is doing it now (active, last sign 0s ago)",
                    true
                )
            );
        }
        story.pass_minutes(31);
        let refused = begin(&story, "bob", false).unwrap_err();
        assert_eq!(
            (refused.code, refused.message.as_str()),
            (Code::EffectInDoubt, "`publish-1.2.0` was begun by ada and never reported done")
        );
        assert!(refused.hint.unwrap().contains("`fleet effect begin publish-1.2.0 --again`"));
        assert_eq!(
            begin(&story, "ada", false).unwrap_err().code,
            Code::EffectInDoubt,
            "nor does ada know"
        );
        story.pass_minutes(31);
        let again = begin(&story, "bob", true).unwrap();
        assert_eq!(
            (again.attempts, again.by.as_str(), again.what),
            (2, "bob", Some(note("cargo publish")))
        );
        let doubtful = ListEffects { mission: None, in_doubt: true };
        assert_eq!(story.run("", &doubtful).unwrap().len(), 1);
        done(&story, "bob", "out").unwrap();
        assert!(story.run("", &doubtful).unwrap().is_empty());
        assert_eq!(
            story.run("", &ListEffects { mission: None, in_doubt: false }).unwrap().len(),
            1
        );
    }

    fn saying_twice_that_it_is_done_is_harmless(world: &World) {
        let story = stage(world);
        begin(&story, "ada", false).unwrap();
        story.pass_minutes(31);
        begin(&story, "bob", true).unwrap();
        let first = done(&story, "ada", "the truth").unwrap();
        let rev = story.rev();
        assert_eq!(done(&story, "bob", "another story").unwrap(), first, "the first report stands");
        assert_eq!(story.rev(), rev);
    }

    fn what_was_never_begun_is_not_done(world: &World) {
        let story = stage(world);
        let refused = done(&story, "ada", "surprise").unwrap_err();
        assert_eq!(
            (refused.code, refused.message.as_str()),
            (Code::NotFound, "no effect `publish-1.2.0` was begun")
        );
    }

    fn a_key_belongs_to_its_mission(world: &World) {
        let story = stage(world);
        let foreign = story.sortie_id("Release");
        begin(&story, "ada", false).unwrap();
        story.mission("Another", &[]);
        let begun = begin(&story, "ada", false).unwrap();
        assert_eq!(begun.attempts, 1, "the same key in another mission is another effect");
        let wrong = BeginEffect { sortie: Some(foreign), ..begin_effect("tag") };
        assert_eq!(
            story.run("ada", &wrong).unwrap_err().code,
            Code::InvalidInput,
            "the sortie belongs to another mission"
        );
    }
}
