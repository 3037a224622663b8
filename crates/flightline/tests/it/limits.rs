//! Texts that are too long, empty or full of odd characters, on both engines: a clear answer, and
//! nothing lost.

use flightline::core::{JsonData, RepoPath, Title};
use flightline::registry::Registered;
use flightline_testkit::prelude::*;
use serde_json::{Value, json};

fn stage(world: &World) -> Story<'_> {
    let story = Story::new(world);
    story.register("bob", Role::Specialist);
    story.mission("Add login", &["User model"]);
    story.claim("ada", "User model").unwrap();
    story
}

fn mail(body: &str) -> Result<SendMail, serde_json::Error> {
    serde_json::from_value(json!({
        "to": ["bob"], "subject": "Long", "body": body, "mission": null, "acknowledge_within_ms": null,
    }))
}

/// Arrays within arrays, `depth` levels of them.
fn nested(depth: usize) -> String {
    format!("{}{}", "[".repeat(depth), "]".repeat(depth))
}

fn complete(story: &Story<'_>, output: JsonData) -> Result<Value, Refusal> {
    let change = change_sortie(
        story.sortie_id("User model"),
        SortieAction::Complete {
            output: Some(output),
        },
    );
    story
        .run("ada", &change)
        .map(|view| serde_json::to_value(view.sortie.output).unwrap())
}

/// Nobody and nothing can be called this.
fn odd_references() -> Vec<String> {
    vec![
        String::new(),
        "\0".to_owned(),
        "bob\0".to_owned(),
        "\u{1b}[31mbob".to_owned(),
        "bob\n".to_owned(),
        "bob'; DROP TABLE event; --".to_owned(),
        "../../etc/passwd".to_owned(),
        "%".to_owned(),
        "Zoë 🚀 \u{202e}bob".to_owned(),
        "x".repeat(10_000_000),
    ]
}

fn said<O: Registered>(story: &Story<'_>, operation: O) -> Refusal {
    match story.run("ada", &operation) {
        Ok(_) => panic!("{} took an odd reference", O::NAME),
        Err(refusal) => refusal,
    }
}

#[test]
fn empty_and_endless_texts_are_refused_with_the_field_named() {
    for nothing in ["", "   ", "\0", "\u{1b}\u{7}\n"] {
        assert_eq!(
            Title::parse("title", nothing).unwrap_err().message,
            "the title is empty",
            "{nothing:?}"
        );
        assert!(
            mail(nothing).unwrap_err().to_string().contains("is empty"),
            "{nothing:?}"
        );
    }
    let endless = "x".repeat(10_000_000);
    let refusal = Body::parse("body", &endless).unwrap_err();
    assert_eq!(
        (refusal.code, refusal.message.as_str()),
        (
            Code::TooLong,
            "the body has 10000000 bytes, and at most 65536 are allowed"
        )
    );
    assert!(mail(&endless).is_err());
    assert!(mail(&"x".repeat(65_537)).is_err());
    assert!(
        serde_json::from_value::<AddNote>(json!({ "kind": "lesson", "text": "x".repeat(8_193) }))
            .is_err()
    );
}

#[test]
fn data_is_not_bottomless() {
    for (depth, why) in [
        (33, "nested deeper than 32 levels"),
        (127, "nested deeper"),
        (100_000, "recursion limit exceeded"),
    ] {
        let refusal = JsonData::parse("output", &nested(depth)).unwrap_err();
        assert_eq!(refusal.code, Code::InvalidInput);
        assert!(refusal.message.contains(why), "{}", refusal.message);
    }
}

both_engines! {
    fn the_longest_texts_are_kept(world: &World) {
        let story = stage(world);
        story.run("ada", &mail(&"x".repeat(65_536)).unwrap()).unwrap();
        let longest =
            AddNote { rationale: Some(note(&"y".repeat(8_192))), ..lesson(&"x".repeat(8_192)) };
        story.run("ada", &longest).unwrap();
        assert_eq!(story.run("ada", &list_notes()).unwrap()[0].text.len(), 8_192);
        let mission = story.mission(&"t".repeat(500), &[]);
        assert_eq!(mission.mission.title.len(), 500);
    }

    fn the_longest_message_can_be_read_whatever_it_is_made_of(world: &World) {
        let story = stage(world);
        for filling in ["\"", "\n", "\\", "é", "🚀", "<"] {
            let body = format!("a{}a", filling.repeat((65_536 - 2) / filling.len()));
            story.run("ada", &mail(&body).unwrap()).unwrap();
            let read = story.run("bob", &open_inbox(100)).unwrap();
            assert_eq!(
                read.last().unwrap().message.body.as_deref(),
                Some(body.as_str()),
                "{filling:?}"
            );
        }
        assert!(story.damaged_values().is_empty());
    }

    fn control_characters_go_and_everything_else_stays(world: &World) {
        let story = stage(world);
        let odd = "\u{feff}a\0b\u{1b}[31mc\u{7}\u{85}\r\nd\te — “ñ” 日本語 🚀 \\u0000 '; DROP TABLE event; -- %s ${HOME} \u{fffd}";
        let kept = "\u{feff}ab[31mc\nd\te — “ñ” 日本語 🚀 \\u0000 '; DROP TABLE event; -- %s ${HOME} \u{fffd}";
        story.run("ada", &mail(odd).unwrap()).unwrap();
        let read = story.run("bob", &open_inbox(1)).unwrap();
        assert_eq!(read[0].message.body.as_deref(), Some(kept));
        let update = UpdateSortie {
            sortie: story.sortie_id("User model"),
            note: Some(note(odd)),
            ..UpdateSortie::default()
        };
        assert_eq!(
            story.run("ada", &update).unwrap().sortie.progress_notes.unwrap().as_str(),
            kept
        );
        assert!(story.damaged_values().is_empty());
    }

    fn data_may_be_deep(world: &World) {
        let story = stage(world);
        let deep = JsonData::parse("output", &nested(32)).unwrap();
        assert_eq!(complete(&story, deep).unwrap().to_string(), nested(32));
        assert_eq!(
            story.sortie("User model").sortie.output,
            Some(JsonData::parse("output", &nested(32)).unwrap())
        );
    }

    fn data_is_cleaned_like_any_other_text(world: &World) {
        let story = stage(world);
        let data = JsonData::parse("output", r#"{ "a\u0000b": ["c\u001bd", 1.5, null, true], "empty": "", "big": 18446744073709551615 }"#).unwrap();
        assert_eq!(
            complete(&story, data).unwrap(),
            json!({ "ab": ["cd", 1.5, null, true], "empty": "", "big": u64::MAX })
        );
    }

    fn a_thing_that_grows_too_large_is_refused_and_stays_as_it_was(world: &World) {
        let story = stage(world);
        let large = JsonData::new(json!(vec!["x".repeat(1_000); 40])).unwrap();
        let before = story.sortie("User model").sortie;
        let refusal = complete(&story, large).unwrap_err();
        assert_eq!(refusal.code, Code::TooLong);
        assert!(
            refusal.message.starts_with("the sortie would take 4")
                && refusal.message.ends_with("at most 32768 are allowed"),
            "{}",
            refusal.message
        );
        assert_eq!(refusal.hint.unwrap(), "put the long version into a file and name the file");
        assert_eq!(story.sortie("User model").sortie, before);
        let files: Vec<RepoPath> =
            (0..40).map(|at| path(&format!("{at}/{}", "x".repeat(1_000)))).collect();
        let (rev, ada) = (story.rev(), story.agent("ada"));
        let refusal = story
            .run(
                "ada",
                &UpdateAgent { files, step: Some(title("many files")), ..UpdateAgent::default() },
            )
            .unwrap_err();
        assert_eq!((refusal.code, story.rev(), story.agent("ada")), (Code::TooLong, rev, ada));
        assert!(story.damaged_values().is_empty());
    }

    fn an_odd_reference_finds_nothing_and_breaks_nothing(world: &World) {
        let story = stage(world);
        let rev = story.rev();
        for odd in odd_references() {
            let some = Some(odd.clone());
            let reassign = SortieAction::Reassign { to: odd.clone(), reason: None };
            let all_sorties = ListSorties { mission: None, status: None, agent: some.clone(), limit: 1 };
            let refusals = [
                said(&story, ShowMission { mission: some.clone() }),
                said(&story, ShowSortie { sortie: odd.clone() }),
                said(&story, all_sorties),
                said(&story, show_agent(&odd)),
                said(&story, retire(&odd)),
                said(&story, ListLocks { agent: some }),
                said(&story, release(&[&odd])),
                said(&story, ReadMail { message: odd.clone() }),
                said(&story, peek_inbox(&odd, 1)),
                said(&story, letter(&[&odd], "Hi")),
                said(&story, change_sortie(story.sortie_id("User model"), reassign)),
            ];
            for refusal in refusals {
                assert!(matches!(refusal.code, Code::InvalidInput | Code::NotFound), "{refusal:?}");
                assert!(
                    refusal.message.len() < 400 && !refusal.message.contains(['\0', '\u{1b}']),
                    "{refusal:?}"
                );
            }
        }
        assert_eq!(story.rev(), rev);
    }

    fn an_odd_caller_is_told_so(world: &World) {
        let story = stage(world);
        for odd in odd_references().into_iter().skip(1) {
            let callers = [
                Caller { agent: Some(odd.clone()), ..caller("") },
                Caller {
                    agent: Some(odd.clone()),
                    idempotency_key: Some("k".to_owned()),
                    ..caller("")
                },
                Caller { mission: Some(odd.clone()), ..caller("ada") },
            ];
            for caller in callers {
                let refusal = story.run_as(&caller, &lesson("learned")).unwrap_err();
                assert!(matches!(refusal.code, Code::InvalidInput | Code::NotFound), "{refusal:?}");
                assert!(refusal.message.len() < 400, "{refusal:?}");
            }
        }
        let odd_user = Caller { user: "a\0da\u{1b}".to_owned(), ..Caller::default() };
        story
            .run_as(&odd_user, &flightline_testkit::story::create_mission("By an odd user", vec![]))
            .unwrap();
        assert_eq!(story.events_after(story.rev() - 1)[0].actor, "user:ada");
    }

    fn events_of_an_odd_kind_are_refused_and_of_an_odd_thing_are_none(world: &World) {
        let story = stage(world);
        for odd in odd_references() {
            let kind = ListEvents { kind: Some(odd.clone()), limit: 9, ..ListEvents::default() };
            let refused = story.run("", &kind).unwrap_err();
            assert_eq!(refused.code, Code::InvalidInput, "{odd:?}");
            let subject =
                ListEvents { subject: Some(odd.clone()), limit: 9, ..ListEvents::default() };
            assert!(story.run("", &subject).unwrap().events.is_empty());
        }
        let all = ListEvents { limit: u64::MAX, ..ListEvents::default() };
        assert_eq!(story.run("", &all).unwrap().events.len() as u64, story.rev());
    }

    fn paths_stay_inside_the_repository(world: &World) {
        let story = stage(world);
        for odd in ["", "/etc/passwd", "..", "a/../../b", "a\0b", "a\nb", &"x".repeat(1_025)] {
            assert_eq!(RepoPath::parse(odd).unwrap_err().code, Code::InvalidInput, "{odd:?}");
            let wire = json!({ "paths": [odd], "ttl_ms": null, "purpose": null, "sortie": null, "sightings": [] });
            assert!(serde_json::from_value::<AcquireLocks>(wire).is_err());
        }
        let longest = "x".repeat(1_024);
        let odd_but_fine = ["-rf", "a b", "%2e%2e", "日本", "a\\b", "~", "*", longest.as_str()];
        story.run("ada", &locks_on(&odd_but_fine)).unwrap();
        assert_eq!(story.run("", &ListLocks { agent: None }).unwrap().len(), odd_but_fine.len());
    }
}
