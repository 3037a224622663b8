//! What came too late, on both engines: it is noted and told, once, to every caller that is fenced.

use flightline::Operation;
use flightline::core::NoteId;
use flightline::core::note::Note;
use flightline::rejected_delivery::RecordRejected;
use flightline_testkit::prelude::*;

fn late(sortie: Option<String>, mission: Option<&str>) -> RecordRejected {
    RecordRejected {
        note: None,
        operation: name("update_sortie"),
        said: note("nearly done"),
        asked_at: Time::from_millis(0),
        agent: Some(name("ada")),
        mission: mission.map(str::to_owned),
        sortie,
        code: Code::Fenced,
        why: note("epoch 1 of ada is over"),
    }
}

fn record(story: &Story<'_>, key: &str, request: &RecordRejected) -> Result<Note, Refusal> {
    let caller = Caller {
        user: "grace".to_owned(),
        idempotency_key: Some(key.to_owned()),
        ..Caller::default()
    };
    story.run_as(&caller, request)
}

fn told(story: &Story<'_>) -> usize {
    let peek = PeekInbox {
        all: true,
        ..peek_inbox("dispatch", 100)
    };
    let inbox = serde_json::to_string(&story.run("dispatch", &peek).unwrap()).unwrap();
    inbox.matches("\"subject\":\"Too late from ada").count()
}

both_engines! {
    fn it_is_a_note_on_its_sortie_and_mail_to_dispatch_once(world: &World) {
        let story = Story::new(world);
        story.mission("Add login", &["Model"]);
        story.claim("ada", "Model").unwrap();
        let sortie = story.sortie_id("Model");
        let request = late(Some(sortie.clone()), None);
        let first = record(&story, "late-1", &request).unwrap();
        assert_eq!((first.kind, first.author.as_str()), (NoteKind::Late, "ada"));
        assert_eq!(first.sortie_id.unwrap().to_string(), sortie);
        assert_eq!(first.author_id, Some(story.agent("ada").id));
        assert_eq!(record(&story, "late-1", &request).unwrap(), first);
        assert_eq!(story.run("ada", &ListNotes { kind: Some(NoteKind::Late), ..list_notes() }).unwrap(), [first]);
        assert_eq!(told(&story), 1);
    }

    fn it_is_one_note_for_every_caller(world: &World) {
        let story = Story::new(world);
        story.mission("Add login", &["Model"]);
        story.claim("ada", "Model").unwrap();
        let id: NoteId = "nte-00000000-0000-4000-8000-00000000000a".parse().unwrap();
        let request = RecordRejected { note: Some(id), ..late(Some(story.sortie_id("Model")), None) };
        let first = record(&story, "late-1", &request).unwrap();
        assert_eq!(first.id, id);
        // The answer was lost; another token brings it, under another key, and words of why may differ.
        let rev = story.rev();
        let caller = Caller { user: "eve".to_owned(), idempotency_key: Some("late-2".to_owned()), ..Caller::default() };
        let again = RecordRejected { why: note("epoch 2 of ada is over"), ..request.clone() };
        assert_eq!(story.run_as(&caller, &again).unwrap(), first);
        assert_eq!((story.rev(), told(&story)), (rev, 1));
        // It takes the place of no other note.
        let other = story.run("ada", &add_note(NoteKind::Lesson, "x")).unwrap().id;
        let refused = record(&story, "late-3", &RecordRejected { note: Some(other), ..request }).unwrap_err();
        assert_eq!(refused.code, Code::InvalidInput);
    }

    fn what_is_not_there_any_more_is_noted_on_its_mission_or_the_current_one(world: &World) {
        let story = Story::new(world);
        let nowhere = record(&story, "late-1", &late(None, None)).unwrap_err();
        assert_eq!(nowhere.code, Code::NotFound);
        let one = story.mission("Add login", &["Model"]).mission.id;
        let two = story.mission("Later", &[]).mission.id;
        let gone = Some("srt-ffff".to_owned());
        let noted = record(&story, "late-2", &late(gone.clone(), Some(&one.to_string()))).unwrap();
        assert_eq!((noted.mission_id, noted.sortie_id), (one, None));
        let current = record(&story, "late-3", &late(gone, Some("msn-ffff"))).unwrap();
        assert!([one, two].contains(&current.mission_id));
    }

    fn nobody_writes_a_late_note_by_hand(world: &World) {
        let story = Story::new(world);
        story.mission("Add login", &[]);
        let refused = story.run("ada", &add_note(NoteKind::Late, "x")).unwrap_err();
        assert_eq!(refused.code, Code::InvalidInput);
    }
}

#[test]
fn a_checkpoint_for_later_says_when_it_was_asked_for() {
    let take = |details: Option<&str>, note_text: Option<&str>| {
        let take = TakeCheckpoint {
            details: details.map(note),
            note: note_text.map(note),
            ..take_checkpoint()
        };
        let kept = take.for_later(Time::from_millis(0)).unwrap();
        let kept: TakeCheckpoint = serde_json::from_str(&kept).unwrap();
        kept.details.unwrap().to_string()
    };
    let when = "asked for at 1970-01-01T00:00:00.000Z, while the server could not be reached";
    assert_eq!(take(None, None), when);
    assert_eq!(take(Some("why"), Some("note")), format!("why ({when})"));
    assert_eq!(take(None, Some("note")), format!("note ({when})"));
    let long = "x".repeat(8_190);
    assert_eq!(take(Some(&long), None), long);
}
