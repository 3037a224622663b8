//! Seed D: recovery, triggers, and which checkpoints go.

use flightline_core::checkpoint::{CheckpointStatus, Reason};
use flightline_core::dialect::orchestrator::*;

use crate::corpus::time;
use crate::orchestrator::{RUNNING, failed, running};

#[test]
fn recovery_is_analysed_as_the_seed_does() {
    for checkpoint in [running(), failed()] {
        let analysed = analyze(&checkpoint.workflow, &checkpoint.agents);
        assert_eq!(analysed, checkpoint.recovery);
    }
    let mut checkpoint = running();
    assert!(checkpoint.recovery.can_resume);
    assert_eq!(
        checkpoint.recovery.resume_from_agent.as_deref(),
        Some("coder")
    );
    // A failed agent that can be tried again is not in the way.
    checkpoint.agents[1].status = AgentStatus::Failed;
    let analysed = analyze(&checkpoint.workflow, &checkpoint.agents);
    assert!(analysed.can_resume && analysed.blockers.is_empty());
    checkpoint.workflow.current_state = "ABORTED".to_owned();
    let analysed = analyze(&checkpoint.workflow, &checkpoint.agents);
    assert_eq!(analysed.blockers, ["Workflow in ABORTED state"]);
    assert!(!analysed.can_resume);
}

#[test]
fn what_is_in_the_way_comes_with_suggestions() {
    let status = recovery_status(Some(&failed()));
    assert!(!status.can_recover);
    assert_eq!(
        status.blockers,
        ["1 agent(s) exceeded retry limit", "Workflow in ERROR state"]
    );
    assert_eq!(
        status.suggestions,
        [
            "Use skipFailedAgent: true to skip failed agents",
            "Use resetToState to rollback to a previous state"
        ]
    );
    assert_eq!(recovery_status(None).blockers, ["Checkpoint not found"]);
    let fine = recovery_status(Some(&running()));
    assert!(fine.can_recover && fine.suggestions.is_empty());
}

#[test]
fn a_running_agent_comes_back_as_pending() {
    let outcome = recover(&running(), &Options::default(), |_| true);
    assert!(outcome.success);
    assert_eq!(outcome.restored_state, "IMPLEMENTING");
    let standing: Vec<_> = outcome
        .agents
        .iter()
        .map(|it| (it.status, it.attempts))
        .collect();
    assert_eq!(
        standing,
        [
            (AgentStatus::Completed, 1),
            (AgentStatus::Pending, 2),
            (AgentStatus::Pending, 0)
        ]
    );
}

#[test]
fn a_checkpoint_that_cannot_resume_needs_an_option() {
    let refused = recover(&failed(), &Options::default(), |_| true);
    assert!(!refused.success);
    assert_eq!(
        refused.errors,
        ["Recovery not possible: 1 agent(s) exceeded retry limit, Workflow in ERROR state"]
    );
    let skipping = Options {
        skip_failed_agent: true,
        ..Options::default()
    };
    let skipped = recover(&failed(), &skipping, |_| true);
    assert!(skipped.success);
    assert_eq!(skipped.skipped_agents, ["coder"]);
    assert_eq!(skipped.warnings, ["Skipping failed agent: coder"]);
    let resetting = Options {
        reset_to_state: Some("PLANNING".to_owned()),
        replay_mode: true,
        ..Options::default()
    };
    let reset = recover(&failed(), &resetting, |_| true);
    assert_eq!(reset.restored_state, "PLANNING");
    assert_eq!(reset.agents[0].status, AgentStatus::Failed);
    assert_eq!(
        reset.warnings,
        ["Replay mode enabled - step through with next()"]
    );
}

#[test]
fn a_dry_run_says_what_the_real_run_does() {
    let real = recover(&running(), &Options::default(), |agent| agent != "tester");
    let dry = Options {
        dry_run: true,
        ..Options::default()
    };
    let dry = recover(&running(), &dry, |agent| agent != "tester");
    assert_eq!(real.warnings, ["Agent tester not found in registry"]);
    assert_eq!(dry.agents, real.agents);
    assert_eq!(
        dry.warnings,
        [
            "Agent tester not found in registry",
            "Dry run - no changes made"
        ]
    );
}

#[test]
fn a_damaged_checkpoint_is_not_recovered_from() {
    let damaged = read(&RUNNING.replacen("\"attempts\": 2", "\"attempts\": 3", 1)).unwrap();
    let all = Options {
        skip_failed_agent: true,
        reset_to_state: Some("PLANNING".to_owned()),
        ..Options::default()
    };
    let outcome = recover(&damaged, &all, |_| true);
    assert!(!outcome.success);
    assert_eq!(outcome.errors, ["Checkpoint integrity validation failed"]);
}

#[test]
fn a_crash_is_recovered_from_the_newest_unless_all_is_done() {
    let (one, mut two) = (running(), failed());
    assert_eq!(latest([&one, &two]).unwrap().id, two.id);
    assert!(latest([]).is_none());
    assert!(needs_recovery(&two));
    two.workflow.current_state = "COMPLETE".to_owned();
    assert!(!needs_recovery(&two));
    let point = RecoveryPoint::from(&one);
    assert_eq!(
        (point.state.as_str(), point.can_resume),
        ("IMPLEMENTING", true)
    );
}

fn entries(count: u64) -> Vec<IndexEntry> {
    let day = 86_400_000;
    (0..count)
        .map(|number| {
            let mut checkpoint = running();
            let text = format!("00000000-0000-4000-8000-{number:012}");
            checkpoint.id = Id::parse(&text).unwrap();
            let at = time("2026-01-01T00:00:00Z").plus(number * day);
            checkpoint.created_at = flightline_core::dialect::field::Stamp::millis(at);
            IndexEntry::of(&checkpoint, 10, String::new())
        })
        .collect()
}

#[test]
fn at_most_fifty_stay_and_the_oldest_are_archived() {
    let mut all = entries(55);
    all.reverse();
    let oldest: Vec<String> = surplus(&all, Config::default().max_checkpoints)
        .into_iter()
        .map(|id| id.as_str()[34..].to_owned())
        .collect();
    assert_eq!(oldest, ["00", "01", "02", "03", "04"]);
    // Archived ones do not count.
    for entry in &mut all[50..] {
        entry.status = CheckpointStatus::Archived;
    }
    assert!(surplus(&all, 50).is_empty());
}

#[test]
fn after_thirty_days_they_go_but_never_the_last_one() {
    let all = entries(3);
    let days = Config::default().retention_days;
    let at = |text: &str| expired(&all, days, time(text)).len();
    assert_eq!(at("2026-01-31T00:00:00Z"), 0);
    assert_eq!(at("2026-01-31T00:00:00.001Z"), 1);
    assert_eq!(at("2036-01-01T00:00:00Z"), 2);
    assert_eq!(at("2020-01-01T00:00:00Z"), 0);
}

#[test]
fn a_store_is_counted() {
    let stats_of_three = stats(&entries(3));
    assert_eq!((stats_of_three.count, stats_of_three.total_size), (3, 30));
    assert!(stats_of_three.oldest.unwrap().as_str().ends_with("00"));
    assert!(stats_of_three.newest.unwrap().as_str().ends_with("02"));
    assert_eq!(stats(&[]), Stats::default());
}

const HAPPENINGS: [(Happening<'static>, &str, &str); 10] = [
    (
        Happening::StateTransition {
            from: "PLANNING",
            to: "IMPLEMENTING",
            trigger: "plan_approved",
        },
        "state_transition",
        "State transition: PLANNING → IMPLEMENTING (plan_approved)",
    ),
    (
        Happening::AgentCompleted { agent: "planner" },
        "agent_complete",
        "Agent planner completed",
    ),
    (
        Happening::AgentFailed { agent: "coder" },
        "agent_complete",
        "Agent coder failed",
    ),
    (
        Happening::Approved {
            item_type: "plan",
            item_id: "P1",
        },
        "user_approval",
        "User approved plan: P1",
    ),
    (
        Happening::Rejected {
            item_type: "plan",
            item_id: "P1",
        },
        "user_approval",
        "User rejected plan: P1",
    ),
    (
        Happening::Error {
            context: "coder",
            message: "no card",
        },
        "error_occurred",
        "Error in coder: no card",
    ),
    (
        Happening::Destructive {
            operation: "git_push",
            target: "origin/main",
        },
        "before_destructive",
        "Before git_push: origin/main",
    ),
    (Happening::Interval, "time_interval", "Periodic checkpoint"),
    (Happening::Manual { reason: "lunch" }, "manual", "lunch"),
    (Happening::Shutdown, "manual", "Shutdown checkpoint"),
];

#[test]
fn every_happening_has_its_trigger_and_its_reason() {
    for (happening, trigger, reason) in HAPPENINGS {
        assert_eq!(happening.trigger().as_str(), trigger);
        assert_eq!(happening.reason(), reason);
        assert!(Triggers::default().fires(&happening));
    }
}

#[test]
fn each_trigger_can_be_switched_off() {
    let fires = |triggers: Triggers| {
        HAPPENINGS
            .iter()
            .filter(|(happening, ..)| triggers.fires(happening))
            .count()
    };
    let on = Triggers::default;
    assert_eq!(
        fires(Triggers {
            on_state_transition: false,
            ..on()
        }),
        9
    );
    assert_eq!(
        fires(Triggers {
            on_agent_complete: false,
            ..on()
        }),
        8
    );
    assert_eq!(
        fires(Triggers {
            on_user_approval: false,
            ..on()
        }),
        8
    );
    assert_eq!(
        fires(Triggers {
            on_error: false,
            ..on()
        }),
        9
    );
    assert_eq!(
        fires(Triggers {
            before_destructive: false,
            ..on()
        }),
        9
    );
    assert_eq!(
        fires(Triggers {
            destructive_operations: vec![],
            ..on()
        }),
        9
    );
    // Those that somebody asks for, and the clock's, which has its own switch, stay.
    assert_eq!(
        fires(Triggers {
            enabled: false,
            ..on()
        }),
        3
    );
}

#[test]
fn the_destructive_operations_are_the_seeds() {
    for operation in DESTRUCTIVE_OPERATIONS {
        let happening = Happening::Destructive {
            operation,
            target: "x",
        };
        assert!(Triggers::default().fires(&happening));
    }
    let harmless = Happening::Destructive {
        operation: "git_commit",
        target: "x",
    };
    assert!(!Triggers::default().fires(&harmless));
}

#[test]
fn triggers_and_reasons_fit_together() {
    for trigger in Trigger::ALL {
        assert_eq!(Trigger::nearest(trigger.to_reason()), *trigger);
    }
    assert_eq!(
        Trigger::nearest(Reason::LockTimeout),
        Trigger::ErrorOccurred
    );
    assert_eq!(Trigger::nearest(Reason::TokenCritical), Trigger::Manual);
}
