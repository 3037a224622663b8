//! Seed C: one checkpoint per agent.

use expect_test::expect;
use flightline_core::dialect::epic::*;
use flightline_core::dialect::{Dialect, DialectDocument};
use flightline_core::policy::Preset;
use flightline_core::time::Time;
use proptest::prelude::*;

use crate::dialects::corpus::{check_bad_files, check_refused, check_round_trip, read, time};
use crate::dialects::random;

const FORMAT: &str = include_str!("data/epic_format.json");
/// What the seed's first heredoc writes, and its second.
const FIRST: &str = include_str!("data/epic_first.json");
const UPDATE: &str = include_str!("data/epic_update.json");

fn secondary() -> DialectDocument {
    read(Dialect::Epic, UPDATE)
}

fn thresholds() -> Thresholds {
    Thresholds::from(&Preset::Epic.policy())
}

/// A point in time on the seed's day.
fn at(clock: &str) -> Time {
    time(&format!("2026-01-15T{clock}Z"))
}

#[test]
fn documents_come_back_to_the_letter() {
    for document in [FORMAT, FIRST, UPDATE] {
        assert_eq!(check_round_trip(Dialect::Epic, document), document);
    }
}

#[test]
fn bad_files_are_refused() {
    check_bad_files(Dialect::Epic, FORMAT);
    check_bad_files(Dialect::Epic, FIRST);
}

#[test]
fn wrong_types_are_refused_with_their_place() {
    let cases = [
        (
            "\"agent_id\": \"Agent-Primary\",",
            "",
            "`agent_id` is missing at `$`",
        ),
        (
            "\"last_checkpoint\": \"2026-01-15T14:30:00Z\",",
            "",
            "`last_checkpoint` is missing at `$`",
        ),
        (
            "\"last_checkpoint\": \"2026-01-15T14:30:00Z\"",
            "\"last_checkpoint\": null",
            "expected text, found null at `$.last_checkpoint`",
        ),
        (
            "\"last_checkpoint\": \"2026-01-15T14:30:00Z\"",
            "\"last_checkpoint\": \"14:30\"",
            "`14:30` is not a time such as 2026-01-04T15:30:00Z at `$.last_checkpoint`",
        ),
        (
            "\"can_resume\": true",
            "\"can_resume\": 1",
            "expected true or false, found a number at `$.can_resume`",
        ),
        (
            "\"blockers\": []",
            "\"blockers\": \"none\"",
            "expected a list, found text at `$.blockers`",
        ),
        (
            "\"EPIC_README.md\"",
            "{}",
            "expected text, found an object at `$.files_modified[2]`",
        ),
        (
            "\"unread_messages\": 0",
            "\"unread_messages\": 0.5",
            "`0.5` is not a whole number at `$.coordination_state.unread_messages`",
        ),
    ];
    check_refused(Dialect::Epic, FORMAT, &cases);
}

#[test]
fn an_agents_file_has_its_name() {
    for (agent, file) in [
        ("Agent-Primary", "primary.json"),
        ("Secondary-A", "secondary_a.json"),
        ("Secondary-B", "secondary_b.json"),
        ("agent_agent_x", "agent_x.json"),
        ("Ada Lovelace", "ada_lovelace.json"),
        ("../../etc/passwd", "______etc_passwd.json"),
        ("Ünïcode-1", "_n_code_1.json"),
        ("a.b", "a_b.json"),
        ("agent", "agent.json"),
    ] {
        assert_eq!(file_name(agent).unwrap(), file, "{agent}");
    }
    for bad in ["", "agent_", "Agent-", "___", "é", &"x".repeat(201)] {
        assert!(file_name(bad).is_err(), "{bad}");
    }
}

#[test]
fn archives_and_backups_carry_the_time() {
    let now = at("15:00:00");
    assert_eq!(
        archive_name("Secondary-A", Ended::Crashed, now).unwrap(),
        "secondary_a_crashed_1768489200.json"
    );
    assert_eq!(
        archive_name("Secondary-A", Ended::Aborted, now).unwrap(),
        "secondary_a_aborted_1768489200.json"
    );
    assert_eq!(
        backup_name("Secondary-A", now).unwrap(),
        "secondary_a_20260115_150000.json"
    );
}

#[test]
fn the_last_ten_backups_of_an_agent_stay() {
    let mut files: Vec<String> = (0..13)
        .map(|minute| format!("secondary_a_20260115_15{minute:02}00.json"))
        .collect();
    // Another agent's, and what is no backup at all.
    files.push("secondary_a_b_20260101_000000.json".to_owned());
    files.push("secondary_a_crashed_1768489200.json".to_owned());
    files.push("secondary_a_20260115_150000.json.tmp".to_owned());
    files.push("secondary_a.json".to_owned());
    files.reverse();
    let names = || files.iter().map(String::as_str);
    assert_eq!(
        surplus_backups("Secondary-A", names()).unwrap(),
        [
            "secondary_a_20260115_150000.json",
            "secondary_a_20260115_150100.json",
            "secondary_a_20260115_150200.json"
        ]
    );
    assert_eq!(
        latest_backup("Secondary-A", names()).unwrap(),
        Some("secondary_a_20260115_151200.json")
    );
    assert_eq!(latest_backup("Secondary-C", names()).unwrap(), None);
    assert!(
        surplus_backups("secondary-a-b", names())
            .unwrap()
            .is_empty()
    );
}

#[test]
fn the_primary_looks_at_everybody_but_itself() {
    assert!(is_monitored("Secondary-A", false) && is_monitored("ada", false));
    assert!(!is_monitored("Agent-Primary", true) && !is_monitored("Secondary", true));
    // The seed's script goes by the file alone.
    assert!(is_monitored("Secondary-P", true));
}

#[test]
fn the_presets_thresholds_are_the_seeds() {
    let Thresholds {
        expected_minutes,
        warning_minutes,
        failure_minutes,
    } = thresholds();
    assert_eq!((expected_minutes, warning_minutes), (15, 30));
    assert_eq!(failure_minutes, 60);
}

#[test]
fn silence_is_judged_in_whole_minutes_and_strictly() {
    let judged = |clock: &str| {
        let verdict = judge(&secondary(), &thresholds(), at(clock));
        (verdict.minutes, verdict.standing)
    };
    assert_eq!(judged("14:30:00"), (0, MonitorLevel::Active));
    assert_eq!(judged("15:00:59.999"), (30, MonitorLevel::Active));
    assert_eq!(judged("15:01:00"), (31, MonitorLevel::Warning));
    assert_eq!(judged("15:30:59"), (60, MonitorLevel::Warning));
    assert_eq!(judged("15:31:00"), (61, MonitorLevel::Stale));
    // A clock that is ahead is no silence.
    assert_eq!(judged("14:00:00"), (-30, MonitorLevel::Active));
}

#[test]
fn minutes_are_counted_as_the_seeds_script_does() {
    // `date +%s` drops parts of a second before the difference is taken.
    let (last, now) = (at("14:30:00.900"), at("15:01:00.100"));
    assert_eq!(age_minutes(last, now), 31);
}

#[test]
fn the_lines_of_the_report_are_the_seeds() {
    for (agent, now, line) in [
        (
            "Secondary-A",
            "14:34:00",
            "✅ Secondary-A: ACTIVE (4 min ago)",
        ),
        (
            "Secondary-B",
            "15:15:00",
            "⚠️ Secondary-B: WARNING (45 min) - May be slow",
        ),
        (
            "Secondary-C",
            "16:00:00",
            "❌ Secondary-C: STALE (90 min) - Likely crashed",
        ),
    ] {
        let mut checkpoint = secondary();
        checkpoint.set("agent_id", agent);
        let verdict = judge(&checkpoint, &thresholds(), at(now));
        assert_eq!(verdict.to_string(), line);
    }
}

#[test]
fn the_warning_is_the_seeds() {
    expect![[r#"
        ## Message X (2026-01-15 15:00) ⏳ UNREAD
        **Subject:** CHECKPOINT WARNING - No Update in 30 Minutes
        **Action:** Please update your checkpoint and confirm you're still working
        **Details:** Your last checkpoint was at 14:30 (30 minutes ago)
                 Expected checkpoint every 15 minutes
                 Are you still actively working?
        **Next:** Reply "Still working" and update checkpoint ASAP
        **Acknowledge:** Reply immediately
    "#]]
    .assert_eq(&warning_message(
        &secondary(),
        "X",
        &thresholds(),
        at("15:00:00"),
    ));
}

#[test]
fn the_escalation_is_the_seeds() {
    let said = escalation(&secondary(), at("15:30:00"));
    assert_eq!(said.status, "Secondary-A: STALE (likely crashed)");
    assert_eq!(
        said.notice,
        "Secondary-A hasn't updated checkpoint in 60 minutes"
    );
}

#[test]
fn the_resume_message_is_the_seeds() {
    let mut checkpoint = secondary();
    let steps = [
        "Complete Acceptance Criteria section",
        "Finish checklist.md questions",
        "Transition to S2.P3",
    ];
    checkpoint.set("next_steps", steps.to_vec());
    let state = [
        "spec.md: 80% complete".to_owned(),
        "checklist.md: Started".to_owned(),
        "EPIC_README.md: Updated with progress".to_owned(),
    ];
    expect![[r#"
        ✅ Checkpoint found! Resuming work...

        **Previous Session:**
        - Stage: S2.P2 (Specification)
        - Last Update: 14:30 (45 minutes ago)
        - Status: IN_PROGRESS

        **Current State:**
        - spec.md: 80% complete
        - checklist.md: Started
        - EPIC_README.md: Updated with progress

        **Resuming from:** Writing Acceptance Criteria in spec.md

        **Next Steps:**
        1. Complete Acceptance Criteria section
        2. Finish checklist.md questions
        3. Transition to S2.P3

        I'll continue where I left off...
    "#]]
    .assert_eq(&resume_message(&checkpoint, &state, at("15:15:00")));
}

#[test]
fn a_resume_message_says_what_is_known() {
    let bare = r#"{"agent_id": "X", "last_checkpoint": "2026-01-15T14:30:00Z"}"#;
    let bare = read(Dialect::Epic, bare);
    expect![[r#"
        ✅ Checkpoint found! Resuming work...

        **Previous Session:**
        - Last Update: 14:30 (1 minute ago)

        I'll continue where I left off...
    "#]]
    .assert_eq(&resume_message(&bare, &[], at("14:31:00")));
    let files = resume_message(&secondary(), &[], at("14:31:00"));
    assert!(files.contains("**Current State:**\n- feature_02_team_penalty/spec.md\n"));
}

#[test]
fn the_handoff_is_the_seeds() {
    expect![[r#"
        I'm taking over feature_02_team_penalty from crashed Secondary-A.

        Checkpoint File: agent_checkpoints/secondary_a.json
        Resume from: S2.P2 Specification Phase
    "#]]
    .assert_eq(&handoff(&secondary(), "agent_checkpoints/secondary_a.json"));
    let first = handoff(&read(Dialect::Epic, FIRST), "x");
    assert!(
        first.ends_with("Resume from: S2.P1 Research Phase\n"),
        "{first}"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn any_checkpoint_comes_back_as_it_was(document in random::epic()) {
        check_round_trip(Dialect::Epic, &document.pretty(&[]));
    }

    /// Whatever an agent wrote, it has its lines and no others.
    #[test]
    fn texts_keep_their_lines(document in random::epic(), now in 0i64..4_000_000_000_000) {
        let checkpoint = read(Dialect::Epic, &document.stringify());
        let (now, thresholds) = (Time::from_millis(now), thresholds());
        let verdict = judge(&checkpoint, &thresholds, now);
        prop_assert_eq!(verdict.to_string().lines().count(), 1);
        prop_assert_eq!(warning_message(&checkpoint, "1", &thresholds, now).lines().count(), 8);
        prop_assert_eq!(handoff(&checkpoint, "x").lines().count(), 4);
        let resume = resume_message(&checkpoint, &[], now);
        prop_assert!(resume.lines().count() <= 24, "{}", resume);
        prop_assert_eq!(escalation(&checkpoint, now).notice.lines().count(), 1);
    }

    /// A file's name is one part of a path, whatever the agent is called.
    #[test]
    fn a_name_leads_nowhere_else(agent in any::<String>(), now in 0i64..4_000_000_000_000) {
        if let Ok(file) = file_name(&agent) {
            let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
            prop_assert!(file.strip_suffix(".json").unwrap().chars().all(plain), "{}", file);
            let backup = backup_name(&agent, Time::from_millis(now)).unwrap();
            prop_assert_eq!(latest_backup(&agent, [backup.as_str()]).unwrap(), Some(backup.as_str()));
        }
    }
}
