//! How alive agents are, on both engines: a verdict from evidence, never from guessing.

use flightline::core::agent::Process;
use flightline::core::liveness::Life;
use flightline_testkit::prelude::*;
use serde_json::json;

fn life(story: &Story<'_>, sightings: Vec<Sighting>) -> (Life, String) {
    let show = ShowAgent {
        agent: Some("ada".to_owned()),
        sightings,
    };
    let seen = story.run("", &show).unwrap().liveness;
    (seen.life, seen.evidence)
}

both_engines! {
    fn silence_grows_into_a_verdict(world: &World) {
        let story = Story::new(world);
        story.register("ada", Role::Specialist);
        let mut verdicts = vec![life(&story, vec![]).0];
        for _ in 0..4 {
            story.pass_minutes(8);
            verdicts.push(life(&story, vec![]).0);
        }
        assert_eq!(
            verdicts,
            [Life::Active, Life::Quiet, Life::Warning, Life::Warning, Life::Stalled]
        );
        assert_eq!(life(&story, vec![]).1, "last sign 32m ago");
        story.beat("ada").unwrap();
        assert_eq!(life(&story, vec![]), (Life::Active, "last sign 0s ago".to_owned()));
    }

    fn a_process_that_is_gone_is_death_and_one_that_runs_is_not_a_stall(world: &World) {
        let story = Story::new(world);
        let register = RegisterAgent { process: Some(process(7)), ..registration("ada") };
        let ada = story.run("", &register).unwrap().agent.id;
        let sighting = |pid, alive| vec![Sighting::new(ada, process(pid), alive)];
        assert_eq!(life(&story, sighting(7, false)), (Life::Dead, "process 7 is gone".to_owned()));
        assert_eq!(
            life(&story, sighting(8, false)).0,
            Life::Active,
            "another process proves nothing"
        );
        story.pass_minutes(600);
        assert_eq!(life(&story, vec![]).0, Life::Stalled);
        assert_eq!(
            life(&story, sighting(7, true)),
            (Life::Warning, "last sign 10h ago, but process 7 is running".to_owned())
        );
        let all =
            story.run("", &ListAgents { retired: false, sightings: sighting(7, false) }).unwrap();
        assert_eq!(all[0].liveness.life, Life::Dead);
    }

    fn a_heartbeat_says_what_an_agent_is_at_and_leaves_no_event(world: &World) {
        let story = Story::new(world);
        story.register("ada", Role::Specialist);
        let rev = story.rev();
        story.pass_minutes(3);
        let beat = Heartbeat {
            step: Some(title("testing")),
            context_percent: None,
            tokens: Some((148_000, 200_000)),
        };
        let beaten = story.run("ada", &beat).unwrap();
        assert_eq!((beaten.epoch, beaten.at), (1, world.clock.now()));
        assert_eq!(story.rev(), rev);
        let shown = story.run("ada", &show_self()).unwrap();
        assert_eq!(
            shown.pulse,
            json!({ "step": "testing", "context_percent": 74, "tokens": { "used": 148_000, "total": 200_000 } })
        );
        assert_eq!(shown.last_sign, Some(world.clock.now()));
        story.run("ada", &locks_on(&["Cargo.lock"])).unwrap();
        let shown = story.run("ada", &show_self()).unwrap();
        assert_eq!(
            shown.pulse["step"], "testing",
            "an act is a sign of life that says nothing new"
        );
    }

    fn a_heartbeat_that_makes_no_sense_is_refused(world: &World) {
        let story = Story::new(world);
        assert_eq!(
            story.beat("ada").unwrap_err().code,
            Code::NotFound,
            "a heartbeat registers nobody"
        );
        assert_eq!(story.beat("").unwrap_err().message, "this command needs an acting agent");
        story.register("ada", Role::Specialist);
        let full = Heartbeat { context_percent: Some(101), ..Heartbeat::default() };
        assert_eq!(story.run("ada", &full).unwrap_err().message, "a context is at most 100 % full");
        let beyond = Heartbeat { tokens: Some((u64::MAX, 1)), ..Heartbeat::default() };
        assert_eq!(
            story.run("ada", &beyond).unwrap().context_percent,
            Some(100),
            "more than there is is full"
        );
        let never = Heartbeat { tokens: Some((1, 0)), ..Heartbeat::default() };
        assert_eq!(story.run("ada", &never).unwrap_err().code, Code::InvalidInput);
    }

    fn a_clock_that_goes_backwards_takes_no_sign_of_life_away(world: &World) {
        let story = Story::new(world);
        story.register("ada", Role::Specialist);
        world.clock.advance(-3_600_000);
        story.beat("ada").unwrap();
        let shown = story.run("ada", &show_self()).unwrap();
        assert_eq!(
            (shown.last_sign, shown.liveness.life),
            (Some(world.clock.now()), Life::Active),
            "a sign that lies an hour ahead was noted by a clock that was wrong"
        );
    }

    fn the_status_says_who_needs_attention(world: &World) {
        let story = Story::new(world);
        story.mission("Add login", &["User model", "Login endpoint"]);
        story.claim("ada", "User model").unwrap();
        story.lock("ada", &["src"]).unwrap();
        story.claim("bob", "Login endpoint").unwrap();
        story
            .change(
                "bob",
                "Login endpoint",
                flightline::sortie::change::SortieAction::Block { reason: note("no schema") },
            )
            .unwrap();
        story.pass_minutes(40);
        story.beat("bob").unwrap();
        let status = story.run("", &show_status()).unwrap();
        let said: Vec<String> = status.attention.into_iter().map(|one| one.what).collect();
        assert_eq!(said.len(), 3, "{said:?}");
        assert!(
            said[0].starts_with("ada is stalled (last sign 40m ago) and holds srt-")
                && said[0].ends_with(", src"),
            "{said:?}"
        );
        assert!(said[1].ends_with("is blocked: no schema"), "{said:?}");
        // That bob goes on hides nothing.
        assert_eq!(said[2], "\"Add login\" needs recovery (agent silent, quiet for 40m)");
        assert_eq!((status.locks.len(), status.rev), (1, story.rev()));
    }

    fn looking_around_sees_the_processes_of_this_machine(world: &World) {
        let story = Story::new(world);
        let this = flightline::workspace::describe(std::process::id()).unwrap();
        let before_the_reboot = Process { boot_id: "another".to_owned(), ..this.clone() };
        let elsewhere = Process { host: "elsewhere".to_owned(), ..this.clone() };
        for (agent, process) in [("ada", this), ("bob", before_the_reboot), ("eve", elsewhere)] {
            let register = RegisterAgent { process: Some(process), ..registration(agent) };
            story.run("", &register).unwrap();
        }
        story.pass_minutes(600);
        let sightings = story.with_fleet(flightline::agent::look_around).unwrap();
        let seen = story.run("", &ListAgents { retired: false, sightings }).unwrap();
        let lives: Vec<_> =
            seen.iter().map(|view| (view.agent.name.as_str(), view.liveness.life)).collect();
        assert_eq!(lives, [("ada", Life::Warning), ("bob", Life::Dead), ("eve", Life::Stalled)]);
    }
}
