//! What a mission's work took against what it was expected to take, on both engines.

use flightline::core::sortie::TokenUsage;
use flightline::report::{Report, ShowReport};
use flightline_testkit::prelude::*;

const MINUTE: u64 = 60_000;
fn report(story: &Story<'_>) -> Report {
    story.run("", &ShowReport { mission: None }).unwrap()
}

/// Four sorties: two with an estimate, one with criteria.
fn planned(world: &World) -> Story<'_> {
    let story = Story::new(world);
    let estimated = |titled: &str, minutes: u64| NewSortie {
        estimate_ms: Some(minutes * MINUTE),
        ..sortie(titled)
    };
    let sorties = vec![
        NewSortie {
            criteria: vec![name("tests_pass"), name("docs_written")],
            task_id: Some(name("T060")),
            ..estimated("Model", 60)
        },
        estimated("Endpoint", 30),
        sortie("Tests"),
        sortie("Docs"),
    ];
    story
        .run("", &create_mission("Add login", sorties))
        .unwrap();
    story
}

both_engines! {
    fn what_it_took_is_told_against_what_was_expected(world: &World) {
        let story = planned(world);
        story.claim("ada", "Model").unwrap();
        story.pass_minutes(90);
        let spent = UpdateSortie {
            sortie: story.sortie_id("Model"), tokens_in: 1000, tokens_out: 200, criteria: [(name("tests_pass"), true)].into(), ..UpdateSortie::default()
        };
        story.run("ada", &spent).unwrap();
        let review = |reviewer: &str, score| AddReview { sortie: story.sortie_id("Model"), reviewer: Some(name(reviewer)), score, note: None };
        story.run("", &review("agent_4", Some(85))).unwrap();
        story.run("", &review("agent_5", None)).unwrap();
        story.change("ada", "Model", DONE).unwrap();
        story.claim("bob", "Endpoint").unwrap();
        story.finish("eve", &["Tests"]);
        story.pass_minutes(45);
        let report = report(&story);
        let model = &report.sorties[0];
        assert_eq!((model.estimate_ms, model.actual_ms, model.ratio, model.finished), (Some(60 * MINUTE), Some(90 * MINUTE), Some(1.5), true));
        assert_eq!((model.owner.as_deref(), model.attempts, model.tokens), (Some("ada"), 1, Some(TokenUsage { input: 1000, output: 200 })));
        let reviews: Vec<(&str, Option<i64>)> = model.reviews.iter().map(|review| (review.reviewer.as_str(), review.score)).collect();
        assert_eq!((reviews, model.unmet_criteria.clone()), (vec![("agent_4", Some(85)), ("agent_5", None)], vec![name("docs_written")]));
        let running = &report.sorties[1];
        assert_eq!((running.actual_ms, running.finished, running.ratio, running.tokens), (Some(45 * MINUTE), false, None, None), "so far, which is no result");
        let unplanned = &report.sorties[2];
        assert_eq!((unplanned.actual_ms, unplanned.finished, unplanned.ratio), (Some(0), true, None), "nobody said what was expected");
        assert_eq!((report.sorties[3].actual_ms, report.sorties[3].attempts), (None, 0));
        let totals = report.totals;
        assert_eq!((totals.sorties, totals.completed, totals.attempts, totals.unmet_criteria), (4, 2, 3, 1));
        assert_eq!((totals.estimate_ms, totals.estimated, totals.actual_ms, totals.measured), (90 * MINUTE, 2, 90 * MINUTE, 2));
        assert_eq!((totals.ratio, totals.compared), (Some(1.5), 1));
        assert_eq!((totals.tokens, totals.tokens_reported), (TokenUsage { input: 1000, output: 200 }, 1));
        assert_eq!(self::report(&story), report, "the same as long as nothing happens");
    }

    fn what_nobody_knows_is_not_guessed(world: &World) {
        let story = planned(world);
        let nothing = report(&story);
        assert!(nothing.sorties.iter().all(|line| line.actual_ms.is_none() && line.ratio.is_none() && line.tokens.is_none()));
        assert_eq!((nothing.totals.ratio, nothing.totals.measured, nothing.totals.compared), (None, 0, 0));
        story.claim("ada", "Model").unwrap();
        story.pass_minutes(10);
        story.change("ada", "Model", SortieAction::Fail { reason: note("no way") }).unwrap();
        story.claim("ada", "Endpoint").unwrap();
        story.pass_minutes(10);
        story.change("ada", "Endpoint", GIVEN_BACK).unwrap();
        story.pass_minutes(600);
        let report = report(&story);
        assert_eq!((report.sorties[0].status, report.sorties[0].actual_ms), (SortieStatus::Failed, None), "when it ended is not known");
        assert_eq!((report.sorties[1].actual_ms, report.sorties[1].attempts), (None, 1));
    }

    fn an_estimate_of_nothing_has_no_ratio(world: &World) {
        let story = Story::new(world);
        let none = NewSortie { estimate_ms: Some(0), ..sortie("Model") };
        story.run("", &create_mission("Add login", vec![none])).unwrap();
        story.finish("ada", &["Model"]);
        let report = report(&story);
        assert_eq!((report.sorties[0].ratio, report.totals.ratio, report.totals.compared), (None, None, 1));
        assert_eq!(story.run("", &ShowReport { mission: Some("msn-ffff".to_owned()) }).unwrap_err().code, Code::NotFound);
    }
}
