//! Seed D's commands: a workflow of agents, what is in the way of a recovery, and what is decided about it.

use expect_test::expect;
use serde_json::{Value, json};

use crate::cli::seed_a::fields;
use crate::cli::world::World;

/// A workflow that ended in ERROR: the planner is done, the coder failed three times, the tester waits.
fn stuck() -> World {
    let world = World::new();
    for typed in [
        "config set preset orchestrator",
        "missions create \"Ship it\" --state PLANNING:CODING --state CODING:REVIEW,ERROR --state REVIEW --state ERROR",
        "sorties add Plan",
        "sorties add Code",
        "missions transition PLANNING --reason begin",
    ] {
        world.ok(typed);
    }
    let (plan, code) = (world.sortie("Plan"), world.sortie("Code"));
    world.ok(&format!("sorties add Test --after {code}"));
    world.agent_ok("planner", &format!("sorties claim {plan}"));
    world.agent_ok("planner", &format!("sorties complete {plan}"));
    world.ok("missions transition CODING --reason \"the plan is ready\"");
    for _ in 0..3 {
        world.pass(60);
        world.agent_ok("coder", &format!("sorties claim {code}"));
        world.agent_ok(
            "coder",
            &format!("sorties fail {code} --reason \"the tests do not pass\""),
        );
    }
    world.ok("missions transition ERROR --reason \"the coder gave up\"");
    world
}

#[test]
fn a_resume_says_what_is_in_the_way_and_what_to_do() {
    let world = stuck();
    let rev = world.rev();
    world.fleet("resume").expect(expect![[r#"
        [stderr]
        error: cannot resume msn-1a1a75cb ("Ship it"): srt-2b816efe ("Code") failed after 3 attempts; the workflow is in `ERROR`, which has no next state

        hint: skip failed work: `fleet resume --skip-failed`
              retry it: `fleet sorties release srt-2b816efe`
              reset the workflow to a state that can continue: `fleet resume --reset-to CODING`
        [exit 4]
    "#]]);
    world.fleet("resume --dry-run").expect(expect![[r#"
        [stderr]
        error: cannot resume msn-1a1a75cb ("Ship it"): srt-2b816efe ("Code") failed after 3 attempts; the workflow is in `ERROR`, which has no next state

        hint: skip failed work: `fleet resume --skip-failed`
              retry it: `fleet sorties release srt-2b816efe`
              reset the workflow to a state that can continue: `fleet resume --reset-to CODING`
        [exit 4]
    "#]]);
    let refused = world.fleet("resume --json");
    let error = &refused.json()["error"];
    assert_eq!((refused.code, &error["code"]), (4, &json!("unfinished")));
    assert_eq!(error["details"]["errors"].as_array().unwrap().len(), 2);
    assert_eq!(error["details"]["suggestions"].as_array().unwrap().len(), 3);
    assert_eq!(world.rev(), rev, "nothing was written");
}

#[test]
fn what_failed_is_left_out_and_the_workflow_set_back() {
    let world = stuck();
    let dry = world.fleet("resume --skip-failed --reset-to CODING --dry-run");
    let rev = world.rev();
    dry.expect(expect![[r#"
        Resuming from checkpoint: chk-a552
        Mission: msn-1a1a - "Ship it"

        Recovery Context:
        - Last action: user:grace moved the mission to ERROR
        - Progress: 33% (1/3 sorties complete)

        Next Steps:
        1. Start "Test"

        Blockers:
        - None

        Files Modified:
        - None

        Left out, because it failed:
        - srt-2b81 (coder)

        Workflow: CODING (set back from ERROR)

        Recovery Analysis:
          Can Resume: no
          From State: ERROR
          In the Way:
            - srt-2b816efe ("Code") failed after 3 attempts
            - the workflow is in `ERROR`, which has no next state
          Suggestions:
            - skip failed work: `fleet resume --skip-failed`
            - retry it: `fleet sorties release srt-2b816efe`
            - reset the workflow to a state that can continue: `fleet resume --reset-to CODING`

        Would restore:
        - Restore 1 sortie
        - Re-acquire 0 locks
        - Requeue 0 messages

        What To Do Now:
        - no agent works on "Ship it": start one: fleet context --agent NAME

        Nothing was changed.
        [stderr]
        warning: srt-2b816efe ("Code") failed and is left out
    "#]]);
    world
        .fleet("resume --skip-failed --reset-to CODING")
        .expect(expect![[r#"
            Resuming from checkpoint: chk-a552
            Mission: msn-1a1a - "Ship it"

            Recovery Context:
            - Last action: user:grace moved the mission to ERROR
            - Progress: 33% (1/3 sorties complete)

            Next Steps:
            1. Start "Test"

            Blockers:
            - None

            Files Modified:
            - None

            Left out, because it failed:
            - srt-2b81 (coder)

            Workflow: CODING (set back from ERROR)

            Restoring state...
            - Restored 1 sortie
            - Re-acquired 0 locks
            - Requeued 0 messages

            What To Do Now:
            - no agent works on "Ship it": start one: fleet context --agent NAME

            Recovery complete. Mission resumed.
            [stderr]
            warning: srt-2b816efe ("Code") failed and is left out
        "#]]);
    assert!(world.rev() > rev);
    world.fleet("status").expect(expect![[r#"
        Ship it   msn-1a1a   ● in progress   33 %   ▓▓▓▓▓▒▒▒▒▒▒▒▒▒▒▒  1 of 3
          ✓ completed  srt-22cd  Plan  planner  2026-01-04T12:00:11.000Z
          ▪ skipped    srt-2b81  Code  coder    2026-01-04T12:03:22.000Z
          ○ pending    srt-4e4f  Test
        Checkpoint  chk-bf6c, 2026-01-04T12:03:22.000Z, Moved to CODING, in the store and in its file
        Agents      planner active (3m)   coder active (6s)
        Locks       none
        Mail        none
        Needs you   nothing
    "#]]);
    let test = world.sortie("Test");
    world.agent_ok("tester", &format!("sorties claim {test}"));
    world.fleet("sorties list").expect(expect![[r#"
        ID        STATUS         OWNER    CHANGED                   TITLE
        srt-22cd  ✓ completed    planner  2026-01-04T12:00:11.000Z  Plan
        srt-2b81  ▪ skipped      coder    2026-01-04T12:03:22.000Z  Code
        srt-4e4f  ● in progress  tester   2026-01-04T12:03:26.000Z  Test
    "#]]);
}

#[test]
fn seed_ds_answer_stands_beside_seed_as() {
    let world = stuck();
    let predicted = world.json("resume --skip-failed --reset-to PLANNING --dry-run");
    let done = world.json("resume --skip-failed --reset-to PLANNING");
    assert_eq!(
        fields(&done),
        [
            "blockers",
            "elapsed_time_ms",
            "errors",
            "files_modified",
            "last_action",
            "last_activity_at",
            "mission_summary",
            "next_steps",
            "restored_state",
            "skipped_agents",
            "warnings"
        ]
    );
    assert_eq!(
        (
            &done["skipped_agents"],
            &done["restored_state"],
            &done["errors"]
        ),
        (&json!(["coder"]), &json!("PLANNING"), &json!([]))
    );
    for field in ["warnings", "errors", "skipped_agents", "restored_state"] {
        assert_eq!(predicted[field], done[field], "{field}");
    }
    let plain = world.json("resume");
    assert_eq!(
        fields(&plain).len(),
        7,
        "who asks in seed A's words gets its answer"
    );
}

#[test]
fn a_state_that_is_not_there_is_refused_with_those_that_are() {
    let world = stuck();
    let rev = world.rev();
    world.fleet("resume --reset-to LUNCH").expect(expect![[r#"
        [stderr]
        error: `LUNCH` is not a declared state

        hint: declared states: CODING, ERROR, PLANNING, REVIEW
        [exit 4]
    "#]]);
    world
        .fleet("resume --reset-to \"not a state\"")
        .expect(expect![[r#"
            [stderr]
            error: `not a state` cannot be used as a state

            hint: use 1 to 100 letters, digits, `.`, `_`, `-` or `:`, beginning with a letter or a digit
            [exit 2]
        "#]]);
    world.fleet("resume --reset-to").expect(expect![[r#"
        [stderr]
        error: `--reset-to <STATE>` needs a value

        hint: see `fleet resume --help`
        [exit 2]
    "#]]);
    assert_eq!(world.rev(), rev);
}

#[test]
fn going_back_with_decisions_asks_first() {
    let world = stuck();
    world
        .fleet("resume --checkpoint @latest --skip-failed --reset-to CODING --force")
        .expect(expect![[r#"
            [stderr]
            error: this would go back to @latest, and needs confirmation

            hint: nothing was changed; run `fleet resume --checkpoint @latest --skip-failed --reset-to CODING --force -y`
            [exit 2]
        "#]]);
    let done = world.json("resume --checkpoint @latest --skip-failed --reset-to CODING -y");
    assert_eq!(done["skipped_agents"], json!(["coder"]));
}

#[test]
fn fleet_checkpoints_recovery_points() {
    let world = stuck();
    world
        .fleet("checkpoints recovery-points --limit 4")
        .expect(expect![[r#"
            Recovery points of mission: msn-1a1a

            ID        TIMESTAMP             REASON            STATE   PROGRESS  RESUME
            chk-a552  2026-01-04T12:03:19Z  state_transition  ERROR   33%       no
            chk-9c9e  2026-01-04T12:03:18Z  sortie_failed     CODING  33%       no
            chk-8b37  2026-01-04T12:02:16Z  sortie_failed     CODING  33%       yes
            chk-79d0  2026-01-04T12:01:14Z  sortie_failed     CODING  33%       yes

            chk-a552:
              - srt-2b816efe ("Code") failed after 3 attempts
              - the workflow is in `ERROR`, which has no next state
              → skip failed work: `fleet resume --checkpoint chk-a5523f5f --skip-failed`
              → reset the workflow to a state that can continue: `fleet resume --checkpoint chk-a5523f5f --reset-to CODING`

            chk-9c9e:
              - srt-2b816efe ("Code") failed after 3 attempts
              → skip failed work: `fleet resume --checkpoint chk-9c9ec2c6 --skip-failed`

            Total: 7 points. Look first: fleet resume --checkpoint ID --dry-run
        "#]]);
    let points = world.json("checkpoints recovery-points");
    let states: Vec<&Value> = points
        .as_array()
        .unwrap()
        .iter()
        .map(|it| &it["state"])
        .collect();
    assert_eq!(
        states.last(),
        Some(&&json!("PLANNING")),
        "newest first: {states:?}"
    );
    assert_eq!(
        fields(&points[0]),
        [
            "blockers",
            "can_resume",
            "id",
            "progress_percent",
            "reason",
            "resume_from_agent",
            "sound",
            "state",
            "suggestions",
            "timestamp",
            "trigger",
            "trigger_details"
        ]
    );
    let empty = World::new();
    empty.ok("missions create Empty");
    empty
        .fleet("checkpoints recovery-points")
        .expect(expect![[r#"
            Recovery points of mission: msn-1166

            No checkpoint yet: take one with `fleet checkpoint`
        "#]]);
}

#[test]
fn a_checkpoint_is_shown_with_its_analysis() {
    let world = stuck();
    let shown = world.fleet("checkpoints show @latest").text();
    let from = shown.find("Recovery Analysis:").expect("an analysis");
    expect![[r#"
        Recovery Analysis:
          Can Resume: no
          From State: ERROR
          In the Way:
            - srt-2b816efe ("Code") failed after 3 attempts
            - the workflow is in `ERROR`, which has no next state
          Suggestions:
            - skip failed work: `fleet resume --checkpoint chk-a5523f5f --skip-failed`
            - reset the workflow to a state that can continue: `fleet resume --checkpoint chk-a5523f5f --reset-to CODING`
    "#]].assert_eq(&shown[from..]);
    let shown = world.json("checkpoints show @latest");
    assert_eq!(shown["recovery_analysis"]["can_resume"], false);
    let plain = World::with_sorties(&["Model"]);
    plain.ok("checkpoint");
    let shown = plain.fleet("checkpoints show @latest").text();
    assert!(
        !shown.contains("Recovery Analysis"),
        "seed A's layout: {shown}"
    );
}

#[test]
fn before_something_destructive() {
    let world = stuck();
    world
        .fleet("checkpoint --before git_push --target main")
        .expect(expect![[r#"
            Checkpoint created: chk-ae05
            Mission: msn-1a1a
            Progress: 33%
            Sorties: 3 (1 completed, 1 pending, 1 failed)
            Locks: 0 active
            Messages: 0 pending
        "#]]);
    world
        .fleet("checkpoint --before git_pull")
        .expect(expect![[r#"
            No checkpoint: `git_pull` is not among the destructive operations (git_push, git_force_push, file_delete, database_migrate, deploy, publish)
        "#]]);
    let taken = world.json("checkpoint --before deploy --target production");
    assert_eq!(
        (&taken["taken"], &taken["why"]),
        (&json!(true), &Value::Null)
    );
    assert_eq!(
        (
            &taken["checkpoint"]["reason"],
            &taken["checkpoint"]["trigger_details"]
        ),
        (
            &json!("before_destructive"),
            &json!("Before deploy: production")
        )
    );
    let none = world.json("checkpoint --before lunch");
    assert_eq!(
        (&none["taken"], &none["checkpoint"]),
        (&json!(false), &Value::Null)
    );
    world.ok("config set checkpoints.destructive lunch,deploy");
    assert_eq!(world.json("checkpoint --before lunch")["taken"], true);
    assert_eq!(world.json("checkpoint --before git_push")["taken"], false);
    world.ok("config set triggers.before_destructive false");
    world.fleet("checkpoint --before lunch").expect(expect![[r#"
        No checkpoint: `triggers.before_destructive` is off
    "#]]);
    for bad in [
        "checkpoint --before \"git push\"",
        "checkpoint --before",
        "checkpoint --target main",
        "checkpoint --before deploy --reason manual",
        "config set checkpoints.destructive \"git push\"",
        "config set retention.surplus burn",
        "config set recovery.retry_limit 0",
    ] {
        assert_eq!(world.fleet(bad).code, 2, "{bad}");
    }
    let shutdown = world.json("checkpoint --reason shutdown");
    assert_eq!(
        (&shutdown["reason"], &shutdown["trigger"]),
        (&json!("shutdown"), &json!("manual"))
    );
}

#[test]
fn the_list_of_what_is_destructive_is_read_from_the_file() {
    let world = World::with_sorties(&["Model"]);
    let file = world.state().join("config.toml");
    let own = std::fs::read_to_string(&file).unwrap();
    let set =
        |text: &str| std::fs::write(&file, format!("{own}\n[checkpoints]\n{text}\n")).unwrap();
    set("destructive = [\"drop_table\"]");
    assert_eq!(world.json("checkpoint --before drop_table")["taken"], true);
    for wrong in [
        "destructive = \"drop_table\"",
        "destructive = [1]",
        "destructive = [\"a b\"]",
    ] {
        set(wrong);
        let refused = world.fleet("checkpoint --before drop_table");
        assert_eq!(refused.code, 2, "{wrong}: {refused:?}");
        assert!(
            refused.stderr.contains("`checkpoints.destructive`"),
            "{refused:?}"
        );
    }
    set("destructive = []");
    world
        .fleet("checkpoint --before drop_table")
        .expect(expect![[r#"
            No checkpoint: `drop_table` is not among the destructive operations (there is none)
        "#]]);
}

#[test]
fn too_many_checkpoints_are_archived_and_it_is_said() {
    let world = World::with_sorties(&["Model"]);
    for number in 0..5 {
        world.ok(&format!("checkpoint --note \"Number {number}\""));
    }
    world.ok("config set retention.keep 2");
    world.ok("config set retention.most 3");
    world.ok("config set retention.surplus archive");
    world
        .fleet("checkpoints prune --dry-run")
        .expect(expect![[r#"
            Pruning checkpoints older than 7 days (keeping 2 per mission)...

            No checkpoint to delete.

            Would archive, because the limit is exceeded:
              chk-1a1a  msn-1166  2026-01-04  manual
              chk-22cd  msn-1166  2026-01-04  manual

            Total: 2 checkpoints (see them with `fleet checkpoints list --archived`)
        "#]]);
    world.fleet("checkpoints prune").expect(expect![[r#"
        [stderr]
        Pruning checkpoints older than 7 days (keeping 2 per mission)...

        No checkpoint to delete.

        Would archive, because the limit is exceeded:
          chk-1a1a  msn-1166  2026-01-04  manual
          chk-22cd  msn-1166  2026-01-04  manual

        Total: 2 checkpoints (see them with `fleet checkpoints list --archived`)
        error: this would archive 2 checkpoints, and needs confirmation

        hint: nothing was changed; run `fleet checkpoints prune -y`
        [exit 2]
    "#]]);
    world.fleet("checkpoints prune -y").expect(expect![[r#"
        Pruning checkpoints older than 7 days (keeping 2 per mission)...

        No checkpoint to delete.

        Archived, because the limit is exceeded:
          chk-1a1a  msn-1166  2026-01-04  manual
          chk-22cd  msn-1166  2026-01-04  manual

        Total: 2 checkpoints (see them with `fleet checkpoints list --archived`)
    "#]]);
    assert_eq!(world.json("checkpoints list").as_array().unwrap().len(), 3);
    world
        .fleet("checkpoints list --archived")
        .expect(expect![[r#"
            Checkpoints for mission: msn-1166

            ID              TIMESTAMP                 TRIGGER    PROGRESS   REASON
            chk-3ce8        2026-01-04T12:00:07Z      manual     0%         Number 4
            chk-3434        2026-01-04T12:00:06Z      manual     0%         Number 3
            chk-2b81        2026-01-04T12:00:05Z      manual     0%         Number 2
            chk-22cd        2026-01-04T12:00:04Z      manual     0%         archived: Number 1
            chk-1a1a        2026-01-04T12:00:03Z      manual     0%         archived: Number 0

            Total: 5 checkpoints
        "#]]);
    assert_eq!(
        world.json("checkpoints prune --dry-run").get("archived"),
        None
    );
    // From now on it holds at any time.
    world.ok("checkpoint --note \"One more\"");
    assert_eq!(world.json("checkpoints list").as_array().unwrap().len(), 3);
}

#[test]
fn what_cannot_be_resumed_is_in_no_others_way() {
    let world = stuck();
    world.ok("missions create \"Write the manual\" --sortie Outline");
    let outline = world.sortie("Outline");
    world.agent_ok("writer", &format!("sorties claim {outline}"));
    world.ok("checkpoint");
    world.pass(7200);
    let ran = world.fleet("detect --auto-resume");
    assert_eq!(ran.code, 5, "one of them wants a decision");
    assert!(
        ran.stdout.contains("Write the manual") && ran.stdout.contains("Recovery complete"),
        "{ran:?}"
    );
    expect![[r#"
        warning: cannot resume msn-1a1a75cb ("Ship it"): srt-2b816efe ("Code") failed after 3 attempts; the workflow is in `ERROR`, which has no next state
        skip failed work: `fleet resume --mission msn-1a1a75cb --skip-failed`
        retry it: `fleet sorties release srt-2b816efe`
        reset the workflow to a state that can continue: `fleet resume --mission msn-1a1a75cb --reset-to CODING`
    "#]].assert_eq(&ran.stderr);
}
