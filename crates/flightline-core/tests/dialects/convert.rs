//! From one dialect to another: what can be said comes over, what cannot is named.

use expect_test::{Expect, expect};
use flightline_core::checkpoint::Reason;
use flightline_core::dialect::orchestrator::Id;
use flightline_core::dialect::{Dialect, Document, Fact, Given, Json, Record, Standing};
use flightline_core::time::Time;
use proptest::prelude::*;

use crate::random;

const SITEBUILDER: &str = include_str!("data/sitebuilder_schema.json");
const EPIC: &str = include_str!("data/epic_update.json");
const ORCHESTRATOR: &str = include_str!("data/orchestrator_running.json");
const RECOVERY: &str = include_str!("data/recovery_example.json");

fn given() -> Given {
    Given {
        id: Id::parse("6f9f6b52-6f55-4b38-8f0a-6c1c2b1f6e03").unwrap(),
        project: "shop".to_owned(),
    }
}

/// Says what is still missing.
fn fill(record: &mut Record, dialect: Dialect) {
    for fact in record.missing_for(dialect) {
        match fact {
            Fact::Task => record.task = Some("T1".to_owned()),
            Fact::Objective => record.objective = Some("Payments".to_owned()),
            Fact::Agent => record.agent = Some("ada".to_owned()),
            Fact::Session => record.session = Some("s1".to_owned()),
            Fact::Stage => record.stage = Some("PLANNING".to_owned()),
            Fact::Standing => record.standing = Some(Standing::InProgress),
            Fact::At => record.at = Some(Time::from_millis(1_767_540_600_000)),
            Fact::Resumable => record.resumable = Some(true),
            Fact::Reason => record.reason = Some(Reason::Manual),
            other => panic!("{other} should never be missing"),
        }
    }
    // Seed D's agents have a status, if there is one.
    if !record.missing_for(dialect).is_empty() {
        fill(record, dialect);
    }
}

fn check(text: &str, from: Dialect, to: Dialect, written: Expect, lost: Expect) {
    let document = Document::read(from, text).unwrap();
    let converted = document
        .convert(to, &given(), |record| fill(record, to))
        .unwrap();
    written.assert_eq(&converted.document.write());
    lost.assert_eq(&(converted.lost.join("\n") + "\n"));
}

#[test]
fn a_task_becomes_an_agents_checkpoint() {
    check(
        SITEBUILDER,
        Dialect::Sitebuilder,
        Dialect::Epic,
        expect![[r#"
            {
              "agent_id": "migration",
              "feature": "T060",
              "last_checkpoint": "2025-12-08T14:52:10Z",
              "status": "IN_PROGRESS",
              "can_resume": true,
              "files_modified": [
                "docs/content-extraction/pdfs-markdown/MANIFEST.json"
              ],
              "recovery_instructions": "Continue from post-20.md, source: NatureTrail/NTEnglish/Text/Post20English.pdf",
              "current_step": "post-20",
              "completed_steps": [
                "post-01",
                "post-02"
              ],
              "next_steps": [
                "post-21"
              ]
            }
        "#]],
        expect![[r#"
            the objective
            the time work began
            files created
            checkpoint_id
            agent_name
            progress_percent
            subtasks.total
            subtasks.completed
            subtasks.failed
            acceptance_criteria_met.29_files_created
            acceptance_criteria_met.frontmatter_valid
            acceptance_criteria_met.manifest_updated
            context.last_processed
            context.next_to_process
            context.notes
            subtasks.items[].output
        "#]],
    );
}

#[test]
fn an_agents_checkpoint_becomes_one_for_recovery() {
    check(
        EPIC,
        Dialect::Epic,
        Dialect::Recovery,
        expect![[r#"
            {
              "version": "1.0",
              "timestamp": "2026-01-15T14:30:00Z",
              "state": {
                "inProgress": "feature_02_team_penalty",
                "currentPhase": "S2.P2"
              },
              "nextSteps": [
                "Complete Acceptance Criteria",
                "Write checklist.md questions",
                "Transition to S2.P3"
              ],
              "resumeInstructions": "Resume from S2.P2 Specification Phase. spec.md is 80% complete. Complete Acceptance Criteria section, then move to checklist.md."
            }
        "#]],
        expect![[r#"
            the agent
            the session
            the status
            files modified
            whether it can be resumed
            completed steps
            the current step
            agent_type
            phase
            next_checkpoint_expected
            coordination_state.last_inbox_check
            coordination_state.unread_messages
            coordination_state.last_epic_readme_update
            coordination_state.last_status_update
        "#]],
    );
}

#[test]
fn an_orchestrators_checkpoint_becomes_a_task() {
    let document = Document::read(Dialect::Orchestrator, ORCHESTRATOR).unwrap();
    let refusal = document
        .convert(Dialect::Sitebuilder, &given(), |_| {})
        .unwrap_err();
    assert_eq!(
        refusal.message,
        "it cannot be written as `sitebuilder`: it does not say the task"
    );
    check(
        ORCHESTRATOR,
        Dialect::Orchestrator,
        Dialect::Sitebuilder,
        expect![[r#"
            {
              "checkpoint_id": "coder-T1-20260110-092100",
              "agent": "coder",
              "task_id": "T1",
              "task_title": "Add payments\n\t\"by card\"",
              "status": "in_progress",
              "started_at": "2026-01-10T09:21:00Z",
              "updated_at": "2026-01-10T09:31:00Z",
              "files_created": [
                "src/card.ts"
              ],
              "files_modified": [
                "src/pay.ts"
              ],
              "errors": [
                {
                  "message": "Agent coder was in progress",
                  "blocking": true
                }
              ],
              "resumable": true
            }
        "#]],
        expect![[r#"
            the session
            the stage
            the reason it was taken
            id
            triggerReason
            status
            workflow.previousState
            workflow.stateHistory
            workflow.pendingTransitions
            context.projectId
            context.workBreakdown
            context.artifacts
            context.lessons
            context.decisions
            fileSystem.deletedFiles
            fileSystem.gitStatus
            recovery.resumeFromState
            agents (2 more)
            agents[].input
            agents[].output
            agents[].attempts
            agents[].tokenUsage
            fileSystem.modifiedFiles[].checksum
        "#]],
    );
}

#[test]
fn a_recovery_checkpoint_becomes_an_orchestrators() {
    check(
        RECOVERY,
        Dialect::Recovery,
        Dialect::Orchestrator,
        expect![[r#"
            {
              "id": "6f9f6b52-6f55-4b38-8f0a-6c1c2b1f6e03",
              "version": "1.0.0",
              "createdAt": "2025-10-30T15:30:00.000Z",
              "trigger": "manual",
              "triggerReason": "manual",
              "status": "valid",
              "workflow": {
                "currentState": "development",
                "stateHistory": [],
                "pendingTransitions": []
              },
              "agents": [],
              "context": {
                "projectId": "shop",
                "sessionId": "s1",
                "taskDescription": "Complete authentication system",
                "artifacts": [],
                "lessons": [],
                "decisions": []
              },
              "fileSystem": {
                "modifiedFiles": [],
                "createdFiles": [],
                "deletedFiles": []
              },
              "metadata": {
                "orchestratorVersion": "1.0.0",
                "checkpointSize": 1022,
                "compressionType": "none",
                "checksums": {
                  "workflow": "9f3b8e39c3a4e673",
                  "agents": "4f53cda18c2baa0c",
                  "context": "5b5e95769a03e867",
                  "fileSystem": "94d1dc976997ce81",
                  "overall": "3617452ae6a49d8c"
                }
              },
              "recovery": {
                "canResume": true,
                "resumeFromState": "development",
                "blockers": []
              }
            }"#]],
        expect![[r#"
            the task
            the resume instructions
            next steps
            the reason it was taken `token_critical`, for which `manual` is written
            tokenUsage.total
            tokenUsage.percentage
            tokenUsage.mode
            state.completedTasks
            state.backlogSnapshot
            context.STACK_ID
            context.currentSprint
            deltaChanges
        "#]],
    );
}

#[test]
fn what_is_unfinished_never_becomes_complete() {
    for dialect in Dialect::ALL {
        for standing in [
            Standing::Pending,
            Standing::InProgress,
            Standing::Waiting,
            Standing::Blocked,
            Standing::Failed,
            Standing::Skipped,
        ] {
            assert_ne!(standing.nearest(dialect), Standing::Complete);
        }
    }
    let record = Record {
        agent: Some("ada".to_owned()),
        standing: Some(Standing::Failed),
        ..Record::default()
    };
    let (left, lost) = record.within(Dialect::Epic);
    assert_eq!(left.standing, Some(Standing::Blocked));
    assert_eq!(
        lost,
        ["the status `failed`, for which `blocked` is written"]
    );
}

#[test]
fn every_fact_has_a_home() {
    for fact in Fact::ALL {
        let homes = Dialect::ALL.into_iter().filter(|it| it.says(fact)).count();
        assert!(homes >= 2, "{fact}");
    }
    for dialect in Dialect::ALL {
        assert_eq!(Dialect::from_word(dialect.as_str()), Some(dialect));
        assert!(dialect.needs().iter().all(|fact| dialect.says(*fact)));
    }
}

fn any_document() -> BoxedStrategy<(Dialect, Json)> {
    let of = |dialect: Dialect, json: BoxedStrategy<Json>| json.prop_map(move |it| (dialect, it));
    prop_oneof![
        of(Dialect::Sitebuilder, random::sitebuilder()),
        of(Dialect::Epic, random::epic()),
        of(Dialect::Orchestrator, random::orchestrator()),
        of(Dialect::Recovery, random::recovery()),
    ]
    .boxed()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Everything that the other dialect can say comes over, and nothing else is said there.
    #[test]
    fn only_what_cannot_be_said_is_lost((dialect, json) in any_document()) {
        let document = Document::read(dialect, &json.stringify()).unwrap();
        prop_assert_eq!(document.lost_in(dialect), Vec::<String>::new());
        for other in Dialect::ALL.into_iter().filter(|other| *other != dialect) {
            let mut record = document.record();
            if other == Dialect::Sitebuilder {
                // There, both are parts of a file's name.
                record.agent = Some("ada".to_owned());
                record.task = Some("T1".to_owned());
            }
            fill(&mut record, other);
            let (expected, lost) = record.within(other);
            let there = Document::from_record(other, &record, &given()).unwrap();
            prop_assert_eq!(there.dialect(), other);
            prop_assert_eq!(&there.record(), &expected, "{}", there.write());
            prop_assert_eq!(&Document::read(other, &there.write()).unwrap(), &there);
            for fact in Fact::ALL {
                let gone = record.says(fact) && !expected.says(fact);
                prop_assert_eq!(gone, lost.contains(&fact.to_string()), "{}", fact);
            }
            // What the document says alone is named too, by its field.
            let named = document.lost_in(other).join("\n");
            let Json::Object(fields) = &json else { panic!("not an object") };
            for (key, value) in fields {
                let unknown = key.starts_with("x_") && !value.is_empty();
                prop_assert!(!unknown || named.contains(key.as_str()), "{} in {}", key, named);
            }
        }
    }
}
