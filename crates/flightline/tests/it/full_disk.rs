//! A disk that is full: who looks gets an answer, what ends trouble is written into the room that is kept for it, and
//! nothing else is. SQLite only; its file may have so many pages and no more.

use flightline::Error;
use flightline::context::DeliverBriefing;
use flightline::store::{OpenOptions, Store, StoreError};
use flightline_testkit::prelude::*;

/// A fleet whose disk ends after so many pages more.
fn cramped(world: &World, spare: u32) -> Fleet {
    let mut store = world.store();
    store.fold_log(true).unwrap();
    let space = store.read(|tx| tx.space()).unwrap();
    let pages = u32::try_from(space.database / 8192).unwrap();
    let options = OpenOptions {
        max_pages: Some(pages + spare),
        rehearse: false,
        ..world.options()
    };
    drop(store);
    let store = Store::open(&world.location, &world.project, options).unwrap();
    Fleet::new(store, flightline::core::policy::Policy::default())
}

fn is_full<T>(outcome: &Result<T, Error>) -> bool {
    matches!(outcome, Err(Error::Store(StoreError::Full(_))))
}

/// Writes until nothing more fits.
fn fill(fleet: &mut Fleet) {
    let mut length = 8_000;
    while length > 10 {
        let written = fleet.run(&lesson(&"x y ".repeat(length / 4)), &caller(""));
        if let Err(error) = written {
            assert!(
                matches!(error, Error::Store(StoreError::Full(_))),
                "{error}"
            );
            length /= 2;
        }
    }
}

const BEAT: Heartbeat = Heartbeat {
    step: None,
    context_percent: None,
    tokens: None,
};

#[test]
fn a_full_disk_lets_agents_look_and_end_their_trouble() {
    let world = World::new(Engine::Sqlite);
    let story = Story::unrehearsed(&world);
    story.mission("Add login", &["Model", "Docs"]);
    story.claim("ada", "Model").unwrap();
    story.lock("ada", &["src"]).unwrap();
    story.send("bob", &["ada"], "Please look").unwrap();
    let model = story.sortie_id("Model");
    drop(story);
    let reserve = world.folder().join(".flightline/reserve");
    assert_eq!(reserve.metadata().unwrap().len(), 256 * 1024);
    let mut fleet = cramped(&world, 4);
    fill(&mut fleet);
    assert!(reserve.exists(), "nobody has touched it");

    // What ends trouble is written.
    fleet.run(&release_all(), &caller("ada")).unwrap();
    for number in 0..40 {
        if reserve.exists() {
            let said = format!("{number}: {}", "and on it goes ".repeat(400));
            let report = UpdateSortie {
                sortie: model.clone(),
                note: Some(note(&said)),
                ..UpdateSortie::default()
            };
            fleet.run(&report, &caller("ada")).unwrap();
        }
    }
    assert!(!reserve.exists(), "it was given up");
    let locks = fleet.run(&ListLocks { agent: None }, &caller("")).unwrap();
    assert_eq!(locks.len(), 0);
    for _ in 0..20 {
        fleet.run(&BEAT, &caller("ada")).unwrap();
    }
    // Answers are given, and nothing of them is noted.
    let told = fleet.run(&open_inbox(10), &caller("ada")).unwrap();
    assert!(format!("{told:?}").contains("Please look"), "{told:?}");
    let brief = serde_json::from_str::<BriefAgent>("{}").unwrap();
    fleet.run(&brief, &caller("ada")).unwrap();
    let deliver = serde_json::from_str::<DeliverBriefing>(r#"{ "minimal": false }"#).unwrap();
    fleet.run(&deliver, &caller("ada")).unwrap();
    let said = fleet.take_warnings();
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].starts_with("the disk is full"), "{said:?}");
    fleet.run(&peek_inbox("ada", 10), &caller("")).unwrap();

    // Nothing else, however small.
    assert!(is_full(&fleet.run(&lesson("small"), &caller(""))));
    let status = show_status();
    let told = fleet.run(&status, &caller("")).unwrap().attention;
    let full = |told: &str| told.starts_with("the disk is full (");
    assert!(told.iter().any(|one| full(&one.what)), "{told:?}");
    drop(fleet);

    // With room again everything is as it was.
    let mut fleet = world.fleet();
    fleet.run(&lesson("small"), &caller("")).unwrap();
    assert!(reserve.exists());
    let told = fleet.run(&status, &caller("")).unwrap().attention;
    assert!(!told.iter().any(|one| full(&one.what)), "{told:?}");
    assert_eq!(world.problems(), [] as [&str; 0]);
}
