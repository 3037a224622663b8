//! Tests of each job by itself, on both engines, by a clock that stands still.
#![expect(
    clippy::disallowed_methods,
    reason = "tests spoil files as anybody could"
)]

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use flightline::core::agent::Role;
use flightline::core::policy::Policy;
use flightline::core::setting::LastPrune;
use flightline::mail::SendMail;
use flightline_testkit::story::{Story, letter, take_checkpoint};
use flightline_testkit::{Engine, World, both_engines, caller, damage};

use super::job::{self, JOBS};
use super::*;
use crate::workers::{OnCommit, Workers};

const DAY: Duration = Duration::from_secs(86_400);

/// Workers and what upkeep works with, as a server has them.
struct Bench {
    workers: Workers,
    deps: UpkeepDeps,
    fleet: Option<Fleet>,
}

impl Bench {
    fn new(world: &World) -> Self {
        let store_config = Arc::new(StoreConfig {
            location: world.location.clone(),
            project: world.project.clone(),
            options: world.options(),
            policy: Policy::default(),
            tree: None,
        });
        let workers = Workers::start(
            &store_config,
            &(Arc::new(drop) as OnCommit),
            Duration::from_secs(30),
        )
        .unwrap();
        let state = world.folder().join("state");
        fs::create_dir_all(&state).unwrap();
        let deps = UpkeepDeps {
            store_config,
            beside: SideFiles {
                mirrors: None,
                caller: caller(""),
            },
            queues: workers.queues(),
            projects: Arc::new(Projects::new(&world.project, &state)),
            health: Arc::default(),
            say: Arc::new(|_| {}),
            tracing: Tracing::default(),
            idle: false,
            folded_at: AtomicU64::new(0),
        };
        let fleet = Some(world.fleet());
        Self {
            workers,
            deps,
            fleet,
        }
    }

    /// Runs a job, and returns what went wrong.
    fn run(&mut self, name: &str) -> Option<String> {
        let job = JOBS.iter().find(|job| job.name == name).unwrap();
        run(job, &self.deps, &mut self.fleet, JobScope::Due);
        let record = self.deps.health.job_statuses.of(name).unwrap();
        record.trouble_for(&self.home()).map(str::to_owned)
    }

    fn home(&self) -> Arc<str> {
        Arc::clone(&self.deps.projects.home().id)
    }

    /// Reports the health as callers of its own project see it.
    fn report(&self) -> (u16, serde_json::Value) {
        let (status, told) = self.deps.health.report(Some(&self.home()));
        (status.as_u16(), told)
    }

    fn state(&self) -> PathBuf {
        self.deps.projects.state_of(&self.deps.projects.home().id)
    }

    fn end(self) {
        self.workers.dismiss();
    }
}

both_engines! {
    fn every_job_runs_on_an_empty_fleet_and_on_one_at_work(world: &World) {
        let mut bench = Bench::new(world);
        for job in JOBS {
            assert_eq!(bench.run(job.name), None, "{}", job.name);
        }
        let story = Story::new(world);
        story.mission("Add login", &["Model", "Endpoint"]);
        story.claim("ada", "Model").unwrap();
        for job in JOBS {
            assert_eq!(bench.run(job.name), None, "{}", job.name);
        }
        assert_eq!(bench.report().1["status"], "ok");
        bench.end();
    }

    fn silence_is_told_to_who_coordinates_once(world: &World) {
        let (mut bench, story) = (Bench::new(world), Story::new(world));
        story.register("control", Role::Dispatch);
        story.mission("Add login", &["Model"]);
        story.claim("ada", "Model").unwrap();
        assert_eq!(bench.run("staleness"), None);
        assert_eq!(story.mail_of("control"), [] as [&str; 0]);
        // Flightline was awake meanwhile: it is no downtime of ours.
        for _ in 0..8 {
            story.pass_minutes(1);
            story.beat("control").unwrap();
        }
        assert_eq!(bench.run("staleness"), None);
        assert_eq!(bench.run("dispatch_mail"), None);
        let told = story.mail_of("control");
        assert_eq!(told.len(), 1, "{told:?}");
        assert_eq!(bench.run("staleness"), None);
        assert_eq!(bench.run("dispatch_mail"), None);
        assert_eq!(story.mail_of("control"), told);
        bench.end();
    }

    fn mail_that_nobody_acknowledged_in_time_is_told_of(world: &World) {
        let (mut bench, story) = (Bench::new(world), Story::new(world));
        story.mission("Add login", &["Model"]);
        story.register("ada", Role::Specialist);
        story.register("bob", Role::Specialist);
        let send = SendMail {
            acknowledge_within_ms: Some(60_000),
            ..letter(&["bob"], "Answer me")
        };
        story.run("ada", &send).unwrap();
        assert_eq!(bench.run("leases"), None);
        assert_eq!(story.mail_of("ada"), [] as [&str; 0]);
        story.pass_minutes(2);
        assert_eq!(bench.run("leases"), None);
        assert_eq!(story.mail_of("ada").len(), 1, "its sender is told");
        assert_eq!(bench.run("leases"), None);
        assert_eq!(story.mail_of("ada").len(), 1, "once");
        bench.end();
    }

    fn retention_is_applied_once_a_day_and_files_go_with_their_checkpoints(world: &World) {
        let (mut bench, story) = (Bench::new(world), Story::new(world));
        story.mission("Add login", &["Model"]);
        story.claim("ada", "Model").unwrap();
        for number in 0..6 {
            story.report("ada", "Model", &format!("step {number}"));
            story.run("", &take_checkpoint()).unwrap();
            story.pass_minutes(1);
        }
        assert_eq!(bench.run("backups"), None);
        assert_eq!(files(&bench), 6);
        assert_eq!(bench.run("retention"), None);
        assert_eq!(files(&bench), 6, "nothing is old");
        world.pass(DAY * 9);
        assert_eq!(bench.run("retention"), None);
        assert_eq!(files(&bench), 6, "a pause is believed when a day of work has followed");
        world.pass(DAY);
        story.report("ada", "Model", "a day later");
        assert_eq!(bench.run("retention"), None);
        assert_eq!(files(&bench), 3, "the newest three stay");
        let applied = || story.look(|tx| Ok(tx.get::<LastPrune>(LastPrune::KEY)?.unwrap().at));
        let first = applied();
        assert_eq!(bench.run("retention"), None);
        assert_eq!(applied(), first, "not again on the same day");
        bench.end();
    }

    fn old_values_leave_the_journal_a_bit_at_a_time(world: &World) {
        let (mut bench, story) = (Bench::new(world), Story::new(world));
        story.mission("Add login", &["Model"]);
        story.claim("ada", "Model").unwrap();
        for text in ["one", "two", "three", "four"] {
            story.report("ada", "Model", text);
        }
        let thinned = || story.look(|tx| Ok(tx.kind_sizes()?.iter().map(|size| size.thinned).sum::<u64>()));
        assert_eq!(bench.run("thinning"), None);
        assert_eq!(thinned(), 0);
        world.pass(DAY * 30);
        assert_eq!(bench.run("thinning"), None);
        assert_eq!(thinned(), 0, "a pause is believed when a day of work has followed");
        assert_eq!(bench.run("retention"), None);
        world.pass(DAY);
        story.report("ada", "Model", "a day later");
        assert_eq!(bench.run("retention"), None);
        assert_eq!(bench.run("thinning"), None);
        assert!(thinned() >= 3, "{}", thinned());
        assert_eq!(world.problems(), [] as [&str; 0]);
        bench.end();
    }

    fn a_copy_that_cannot_be_written_is_told_tried_again_later_and_stops_nothing_else(world: &World) {
        let (mut bench, story) = (Bench::new(world), Story::new(world));
        story.mission("Add login", &["Model"]);
        let state = bench.state();
        fs::write(state.join("checkpoints"), "in the way").unwrap();
        story.run("", &take_checkpoint()).unwrap();
        let trouble = bench.run("backups").unwrap();
        assert!(trouble.contains("cannot be written"), "{trouble}");
        let job_statuses = &bench.deps.health.job_statuses;
        assert!(job_statuses.rests("backups", &bench.home()));
        assert!(job_statuses.left("backups") > Duration::from_secs(5));
        let (status, report) = bench.report();
        assert_eq!(status, 503, "no write was tried");
        assert_eq!(bench.run(job::PROBE), None);
        let (status, told) = bench.report();
        assert_eq!((status, &told["status"]), (200, &"degraded".into()), "{told}");
        assert_ne!(report["status"], told["status"]);
        for other in ["dispatch_mail", "staleness", "retention", "wal_checkpoint"] {
            assert_eq!(bench.run(other), None, "{other}");
        }
        // A new one is tried at once, though another failed a moment ago.
        let backups = JOBS.iter().find(|job| job.name == "backups").unwrap();
        let whose_turn = |bench: &mut Bench| {
            turn(backups, &bench.deps, bench.fleet.as_mut().unwrap(), JobScope::Due).len()
        };
        assert_eq!(whose_turn(&mut bench), 0);
        story.claim("ada", "Model").unwrap();
        story.run("", &take_checkpoint()).unwrap();
        assert_eq!(whose_turn(&mut bench), 1);
        fs::remove_file(state.join("checkpoints")).unwrap();
        assert_eq!(bench.run("backups"), None);
        assert_eq!(files(&bench), 2);
        assert_eq!(bench.report().1["status"], "ok");
        bench.end();
    }
}

#[test]
fn a_project_that_is_damaged_is_told_to_its_own_and_holds_up_no_other() {
    let (ill, well) = (World::new(Engine::Postgres), World::new(Engine::Postgres));
    let (mut bench, story) = (Bench::new(&ill), Story::new(&well));
    bench.deps.projects.of(&well.project);
    let broken = Story::new(&ill);
    broken.mission("Broken", &["Model"]);
    broken.claim("ada", "Model").unwrap();
    damage::everything(&ill);
    story.register("control", Role::Dispatch);
    story.mission("Add login", &["Model"]);
    story.claim("ada", "Model").unwrap();
    for job in ["staleness", "integrity"] {
        let trouble = bench.run(job).unwrap();
        assert!(!trouble.contains("another project"), "{job}: {trouble}");
        let record = bench.deps.health.job_statuses.of(job).unwrap();
        let elsewhere = record.trouble_for(&well.project);
        assert_eq!(elsewhere, Some("it fails in another project"), "{job}");
    }
    // What failed waits; what did not goes on.
    for _ in 0..8 {
        for story in [&story, &broken] {
            story.pass_minutes(1);
        }
        story.beat("control").unwrap();
    }
    let runs = |bench: &Bench| bench.deps.health.job_statuses.of("staleness").unwrap().runs;
    let before = runs(&bench);
    assert!(bench.run("staleness").is_some());
    assert_eq!(runs(&bench), before + 1);
    assert_eq!(bench.run("dispatch_mail"), None);
    assert_eq!(
        story.mail_of("control").len(),
        1,
        "it is told of its silence"
    );
    bench.end();
}

#[test]
fn the_log_is_given_back_when_nobody_writes() {
    let world = World::new(Engine::Sqlite);
    let (mut bench, story) = (Bench::new(&world), Story::unrehearsed(&world));
    story.mission("Add login", &["Model"]);
    let log = || {
        let file = world.folder().join(".flightline/flightline.db-wal");
        fs::metadata(file).unwrap().len()
    };
    assert!(log() > 0);
    assert_eq!(bench.run("wal_checkpoint"), None);
    assert!(
        log() > 0,
        "something was written since it was last looked at"
    );
    assert_eq!(bench.run("wal_checkpoint"), None);
    assert_eq!(log(), 0);
    story.claim("ada", "Model").unwrap();
    assert_eq!(world.problems(), [] as [&str; 0]);
    bench.end();
}

fn files(bench: &Bench) -> usize {
    flightline::checkpoint::files::all(&bench.state()).len()
}
