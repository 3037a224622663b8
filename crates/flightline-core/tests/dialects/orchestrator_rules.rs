//! Seed D: what is in the way of a recovery, and triggers.

use flightline_core::checkpoint::Reason;
use flightline_core::dialect::orchestrator::*;

use crate::orchestrator::{failed, running};

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

const HAPPENINGS: [(Happening<'static>, &str); 7] = [
    (
        Happening::StateTransition {
            from: "PLANNING",
            to: "IMPLEMENTING",
            trigger: "plan_approved",
        },
        "State transition: PLANNING → IMPLEMENTING (plan_approved)",
    ),
    (
        Happening::AgentCompleted { agent: "planner" },
        "Agent planner completed",
    ),
    (
        Happening::AgentFailed { agent: "coder" },
        "Agent coder failed",
    ),
    (
        Happening::Error {
            context: "coder",
            message: "no card",
        },
        "Error in coder: no card",
    ),
    (
        Happening::Destructive {
            operation: "git_push",
            target: "origin/main",
        },
        "Before git_push: origin/main",
    ),
    (Happening::Interval, "Periodic checkpoint"),
    (Happening::Shutdown, "Shutdown checkpoint"),
];

#[test]
fn every_happening_has_the_seeds_words() {
    for (happening, reason) in HAPPENINGS {
        assert_eq!(happening.reason(), reason);
    }
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
