//! Seed B as its users type it: a site's tasks under the preset `sitebuilder`.

use expect_test::expect;
use serde_json::json;

use crate::cli::care::findings;
use crate::cli::world::World;

const TASK: &str = "Convert Nature Trail PDFs to Markdown";

/// The seed's site: Riley migrates T060, T061 has not begun.
fn site() -> World {
    let world = World::empty();
    for typed in [
        "init --preset sitebuilder",
        "missions create \"Migrate the site\"",
        "sorties add \"Convert Nature Trail PDFs to Markdown\" --task-id T060 --estimate 1h --criterion 29_files_created --criterion frontmatter_valid",
        "sorties add \"Check links\" --task-id T061",
        "agents register Riley --type migration",
    ] {
        world.ok(typed);
    }
    let id = world.sortie(TASK);
    world.agent_ok("Riley", &format!("sorties claim {id}"));
    world
}

/// Riley says how far it is.
fn half_way(world: &World) -> String {
    let id = world.sortie(TASK);
    world.agent_ok(
        "Riley",
        &format!(
            "sorties update {id} --done 19/29 --subtask post-01=complete:pdfs-markdown/post-01.md --subtask post-20=in_progress \
             --subtask post-21=pending --created docs/post-01.md --met frontmatter_valid --last Post19English.pdf \
             --next Post20English.pdf --cursor-notes \"Hindi variants found\" --resume-instructions \"Continue from post-20.md\""
        ),
    );
    id
}

#[test]
fn the_orchestrators_mailbox_has_one_line_per_task() {
    let world = site();
    let id = half_way(&world);
    world.agent_ok("Riley", &format!("sorties update {id} --done 20/29"));
    world.ok("agents register lead --role dispatch");
    world.agent_ok("Riley", &format!("sorties update {id} --done 21/29"));
    world.agent("lead", "mail inbox").expect(expect![[r#"
        ID        SENT                      FROM   SUBJECT                                 STATE
        msg-6869  2026-01-04T12:00:12.000Z  Riley  @orchestrator: Task T060 progress: 72%  lead delivered
        For your information:
          msg-a4d8  2026-01-04T12:00:12.000Z  flightline takes checkpoint chk-06a150e8 at 0 % (subtask done)
          msg-4310  2026-01-04T12:00:12.000Z  flightline writes the file of chk-06a150e8
    "#]]);
    let before = world.json("mail inbox --of dispatch");
    let before = before.as_array().unwrap().iter();
    let progress: Vec<&str> = before
        .filter(|mail| mail["message"]["kind"] == "progress")
        .map(|mail| mail["message"]["subject"].as_str().unwrap())
        .collect();
    assert_eq!(progress, ["@orchestrator: Task T060 progress: 68%"]);
}

#[test]
fn a_task_is_resumed_or_says_why_not() {
    let world = site();
    let id = half_way(&world);
    world
        .agent("Riley", &format!("sorties resume {id}"))
        .expect(expect![[r#"
            srt-1a1a  T060: Convert Nature Trail PDFs to Markdown   65 %
            Last: Post19English.pdf
            Next: Post20English.pdf
            Notes: Hindi variants found
            Resume: Continue from post-20.md
            Subtasks left: post-20, post-21, 8 that are not listed (19 done, skip them)
        "#]]);
    world
        .agent("Riley", &format!("sorties resume {id} --subtasks"))
        .expect(expect![[r#"
            srt-1a1a  T060: Convert Nature Trail PDFs to Markdown   65 %
            Last: Post19English.pdf
            Next: Post20English.pdf
            Notes: Hindi variants found
            Resume: Continue from post-20.md
            Subtasks left: post-20, post-21, 8 that are not listed (19 done, skip them)
              ● in progress  post-20
              ○ pending  post-21
        "#]]);
    let point = world.json(&format!("sorties resume {id} --agent Riley"))["resume"].clone();
    assert_eq!(
        (
            &point["skipped"],
            &point["unlisted"],
            &point["next_to_process"]
        ),
        (&json!(["post-01"]), &json!(8), &json!("Post20English.pdf"))
    );
    assert_eq!(point["left"][0]["name"], "post-20");
    let links = world.sortie("Check links");
    world
        .fleet(&format!("sorties resume {links}"))
        .expect(expect![[r#"
            [stderr]
            error: cannot resume srt-22cdf264 ("Check links"): it is pending

            hint: only a sortie that is in progress or blocked can be resumed; claim it with `fleet sorties claim srt-22cdf264 --agent NAME`, which hands over the remaining work
            [exit 4]
        "#]]);
    world.agent_ok("Riley", &format!("sorties update {id} --resumable false"));
    world
        .fleet(&format!("sorties resume {id} --json"))
        .expect(expect![[r#"
            {"error":{"code":"illegal_transition","details":{"resumable":false,"status":"in_progress"},"hint":"start over with `fleet sorties release srt-1a1a75cb`, or mark it with `fleet sorties update srt-1a1a75cb --resumable true`","message":"cannot resume srt-1a1a75cb (\"Convert Nature Trail PDFs to Markdown\"): it is marked as not resumable","retryable":false}}
            [exit 4]
        "#]]);
    world.agent_ok("Riley", &format!("sorties update {id} --resumable true"));
    world.agent_ok("Riley", &format!("sorties complete {id}"));
    world
        .fleet(&format!("sorties resume {id}"))
        .expect(expect![[r#"
            [stderr]
            error: cannot resume srt-1a1a75cb ("Convert Nature Trail PDFs to Markdown"): it is completed

            hint: only a sortie that is in progress or blocked can be resumed; send it back first with `fleet sorties reject srt-1a1a75cb --reason "…"`
            [exit 4]
        "#]]);
}

#[test]
fn a_session_timeout_is_found_and_named() {
    let world = site();
    let id = half_way(&world);
    world.fleet("detect").expect(expect![[r#"
        Nothing needs recovery.
    "#]]);
    world.pass(11 * 60);
    world.fleet("detect").expect(expect![[r#"
        Migrate the site (msn-1166) can be recovered
          Riley  warning: last sign 11m ago, keeps srt-1a1a
          quiet  for 11m
          from   chk-8abe, plus 0 events since
        Found checkpoint from 2026-01-04T12:00:09Z. Resume?
        Resume with: fleet resume --mission msn-1166          look first: fleet resume --mission msn-1166 --dry-run
        T060 (srt-1a1a75cb, "Convert Nature Trail PDFs to Markdown"): session timeout: in progress, and silent for 11m
          Next: fleet sorties resume srt-1a1a75cb --agent Riley
        [exit 5]
    "#]]);
    expect![[r#"
        ! task T060 (srt-1a1a75cb, "Convert Nature Trail PDFs to Markdown"): session timeout: in progress, and silent for 11m
               run: fleet sorties resume srt-1a1a75cb --agent Riley
        ! work Riley is warning (last sign 11m ago) and holds srt-1a1a
               run: fleet agents show Riley
        ! work "Migrate the site" needs recovery (inactivity, quiet for 11m)
               run: fleet resume --mission msn-1166
        The store is sound; the work needs attention.
        [exit 5]
    "#]].assert_eq(&findings(&world.fleet("doctor")));
    world
        .fleet("detect --json --fields evidence,tasks")
        .expect(expect![[r#"
            [{"evidence":"inactivity","tasks":[{"agent":"Riley","evidence":"in progress, and silent for 11m","mission_id":"msn-1166f932-75e9-4410-8000-0000000007d0","next":["fleet sorties resume srt-1a1a75cb --agent Riley"],"quiet_ms":664000,"scenario":"session_timeout","sortie_id":"srt-1a1a75cb-b0de-4618-8000-000000000bb8","status":"in_progress","task_id":"T060","title":"Convert Nature Trail PDFs to Markdown"}]}]
            [exit 5]
        "#]]);
    world.agent_ok("Riley", &format!("sorties resume {id}"));
    assert_eq!(world.fleet("detect").code, 0);
    expect![[r#"
        Everything is well.
    "#]]
    .assert_eq(&findings(&world.fleet("doctor")));
}

#[test]
fn an_error_in_the_way_is_cleared_and_then_resumed() {
    let world = site();
    let id = half_way(&world);
    world.agent_ok(
        "Riley",
        &format!("sorties error {id} --type dependency_missing --message \"Cannot find source PDF: Post20English.pdf\" --blocking"),
    );
    world.fleet("detect").expect(expect![[r#"
        T060 (srt-1a1a75cb, "Convert Nature Trail PDFs to Markdown"): error: blocked: Cannot find source PDF: Post20English.pdf
          Next: fleet sorties show srt-1a1a75cb
          then: fleet sorties error srt-1a1a75cb --clear
          then: fleet sorties resume srt-1a1a75cb --agent Riley
        [exit 5]
    "#]]);
    world
        .fleet("doctor --json --fields healthy,tasks")
        .expect(expect![[r#"
            {"healthy":false,"tasks":[{"agent":"Riley","errors":["Cannot find source PDF: Post20English.pdf"],"evidence":"blocked: Cannot find source PDF: Post20English.pdf","mission_id":"msn-1166f932-75e9-4410-8000-0000000007d0","next":["fleet sorties show srt-1a1a75cb","fleet sorties error srt-1a1a75cb --clear","fleet sorties resume srt-1a1a75cb --agent Riley"],"scenario":"error","sortie_id":"srt-1a1a75cb-b0de-4618-8000-000000000bb8","status":"blocked","task_id":"T060","title":"Convert Nature Trail PDFs to Markdown"}]}
            [exit 5]
        "#]]);
    world
        .agent("Riley", &format!("sorties resume {id}"))
        .expect(expect![[r#"
            [stderr]
            error: srt-1a1a75cb ("Convert Nature Trail PDFs to Markdown") still has an error blocking: Cannot find source PDF: Post20English.pdf

            hint: when it is dealt with: `fleet sorties error srt-1a1a75cb --clear`
            [exit 4]
        "#]]);
    world.ok(&format!("sorties error {id} --clear"));
    world.agent_ok("Riley", &format!("sorties resume {id}"));
    assert_eq!(world.fleet("detect").code, 0);
}

#[test]
fn a_partial_completion_names_what_is_not_met() {
    let world = site();
    let id = half_way(&world);
    world.agent_ok("Riley", &format!("sorties complete {id}"));
    world.fleet("detect").expect(expect![[r#"
        T060 (srt-1a1a75cb, "Convert Nature Trail PDFs to Markdown"): partial completion: complete, but not met: 29_files_created
          Next: fleet sorties reject srt-1a1a75cb --reason "not met: 29_files_created"
          then: fleet sorties resume srt-1a1a75cb --agent Riley
        [exit 5]
    "#]]);
    world.fleet("status").expect(expect![[r#"
        Migrate the site   msn-1166   ● in progress   50 %   ▓▓▓▓▓▓▓▓▒▒▒▒▒▒▒▒  1 of 2
          ✓ completed  srt-1a1a  T060: Convert Nature Trail PDFs to Markdown  Riley  2026-01-04T12:00:10.000Z
          ○ pending    srt-22cd  T061: Check links
        Checkpoint  chk-5702, 2026-01-04T12:00:10.000Z, Completed "Convert Nature Trail PDFs to Markdown", in the store and in its file
        Agents      Riley active (2s)
        Locks       none
        Mail        1 for dispatch
        Needs you   T060 (srt-1a1a, "Convert Nature Trail PDFs to Markdown"): partial completion: complete, but not met: 29_files_created   → fleet sorties reject srt-1a1a --reason "not met: 29_files_created"
    "#]]);
    let found = world.fleet("detect --json");
    assert_eq!(found.code, 5);
    let task = &found.json()[0]["tasks"][0];
    assert_eq!(
        (&task["scenario"], &task["unmet_criteria"], &task["task_id"]),
        (
            &json!("partial_completion"),
            &json!(["29_files_created"]),
            &json!("T060")
        )
    );
    world.ok(task["next"][0]
        .as_str()
        .unwrap()
        .trim_start_matches("fleet "));
    world.ok(task["next"][1]
        .as_str()
        .unwrap()
        .trim_start_matches("fleet "));
    world.agent_ok(
        "Riley",
        &format!("sorties update {id} --met 29_files_created"),
    );
    world.agent_ok("Riley", &format!("sorties complete {id}"));
    assert_eq!(world.fleet("detect").code, 0);
}

#[test]
fn other_presets_leave_tasks_to_their_missions_unless_asked() {
    let world = World::with_sorties(&["Model"]);
    let id = world.sortie("Model");
    world.ok(&format!("sorties claim {id} --agent ada"));
    world.ok(&format!(
        "sorties error {id} --message broken --blocking --agent ada"
    ));
    assert_eq!(
        (world.fleet("detect").code, world.fleet("doctor").code),
        (0, 0)
    );
    world.ok("config set recovery.tasks true");
    assert_eq!(
        (world.fleet("detect").code, world.fleet("doctor").code),
        (5, 5)
    );
}

#[test]
fn a_heartbeat_is_part_of_an_agent() {
    let world = site();
    world.pass(31 * 60);
    let agent = world.json("agents show Riley");
    assert_eq!(
        agent["heartbeat"],
        json!({ "last_beat": "2026-01-04T12:00:07.000Z", "interval_seconds": 300, "status": "stalled" })
    );
}

#[test]
fn fleet_report() {
    let world = site();
    world.fleet("report").expect(expect![[r#"
        Migrate the site   msn-1166   ● in progress
        SORTIE    TASK  STATUS         ESTIMATE  ACTUAL     RATIO  TRIES  TOKENS  REVIEWS  TITLE
        srt-1a1a  T060  ● in progress  1h        1s so far  -      1      -       -        Convert Nature Trail PDFs to Markdown
        srt-22cd  T061  ○ pending      -         -          -      0      -       -        Check links
        Not met of srt-1a1a: 29_files_created, frontmatter_valid
        Completed  0 of 2, in 1 attempt
        Estimated  1h (1 of 2 sorties)
        Took       not known
        Ratio      not known
        Tokens     not known
        Not met    2 criteria
    "#]]);
    let id = half_way(&world);
    world.ok(&format!(
        "sorties review {id} --reviewer agent_4 --score 85"
    ));
    world.agent_ok(
        "Riley",
        &format!("sorties update {id} --tokens-in 12000 --tokens-out 3400"),
    );
    world.pass(90 * 60);
    world.agent_ok("Riley", &format!("sorties complete {id}"));
    world.fleet("report").expect(expect![[r#"
        Migrate the site   msn-1166   ● in progress
        SORTIE    TASK  STATUS       ESTIMATE  ACTUAL  RATIO  TRIES  TOKENS              REVIEWS     TITLE
        srt-1a1a  T060  ✓ completed  1h        1h 30m  1.50   1      12000 in, 3400 out  agent_4 85  Convert Nature Trail PDFs to Markdown
        srt-22cd  T061  ○ pending    -         -       -      0      -                   -           Check links
        Not met of srt-1a1a: 29_files_created
        Completed  1 of 2, in 1 attempt
        Estimated  1h (1 of 2 sorties)
        Took       1h 30m (1 of 2 sorties)
        Ratio      1.50 of the estimate (1 of 2 sorties)
        Tokens     12000 in, 3400 out (1 of 2 sorties)
        Not met    1 criterion
    "#]]);
    let report = world.json("report");
    assert_eq!(
        (
            &report["sorties"][0]["ratio"],
            &report["totals"]["ratio"],
            &report["sorties"][1]["actual_ms"]
        ),
        (&json!(1.5), &json!(1.5), &json!(null))
    );
    world.ok("missions create Empty");
    world.fleet("report").expect(expect![[r#"
        Empty   msn-8b37   ○ pending
        No sortie yet.
    "#]]);
}

#[test]
fn the_table_of_status_md() {
    let world = site();
    half_way(&world);
    world.pass(120);
    world.fleet("report --status").expect(expect![[r#"
        <!-- flightline:active-checkpoints -->
        ## Active Checkpoints

        As of 2026-01-04T12:00:09Z

        | Agent | Task | Progress | Last Update | Status |
        |-------|------|----------|-------------|--------|
        | migration | T060 | 65% | 2026-01-04T12:00:09Z | in_progress |
        | — | T061 | 0% | — | not started |
        <!-- /flightline:active-checkpoints -->
    "#]]);
    let table = world.json("report --status");
    assert_eq!(table["tasks"][0]["task"], "T060");
    assert_eq!(table["text"].as_str().unwrap().lines().count(), 10);
    assert_eq!(world.fleet("report --status --mission msn-ffff").code, 3);
}

/// The seed's own example of a task, as a file.
const EXAMPLE: &str =
    include_str!("../../../../flightline-core/tests/it/dialects/data/sitebuilder_schema.json");

fn file(world: &World, name: &str) -> serde_json::Value {
    let path = world.repo().join("progress/checkpoints").join(name);
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

#[test]
fn a_task_is_named_by_its_own_id_everywhere() {
    let world = site();
    for typed in [
        "sorties update T060 --note \"half of it\" --subtask post-01=complete",
        "sorties error T060 --type api_error --message \"no answer\"",
        "sorties error T060 --clear",
        "locks acquire docs/post-01.md --sortie T060",
        "note decision \"Markdown, not HTML\" --sortie T060",
        "effects begin push --sortie T060",
        "sorties complete T060",
    ] {
        world.agent_ok("Riley", typed);
    }
    world.ok("sorties add \"Publish\" --task-id T062 --after T061");
    world.fleet("sorties list").expect(expect![[r#"
        ID        STATUS       OWNER  CHANGED                   TITLE
        srt-1a1a  ✓ completed  Riley  2026-01-04T12:00:14.000Z  T060: Convert Nature Trail PDFs to Markdown
        srt-22cd  ○ pending    -      2026-01-04T12:00:04.000Z  T061: Check links
        srt-8284  ○ pending    -      2026-01-04T12:00:15.000Z  T062: Publish
    "#]]);
    let ran = world.fleet("status");
    assert!(ran.stdout.contains("T061: Check links"), "{ran:?}");
    world.fleet("sorties show T061").expect(expect![[r#"
        Check links   srt-22cd   ○ pending   0 %
        Mission  msn-1166
        Task     T061
    "#]]);
    world
        .agent("Riley", "sorties claim T062")
        .expect(expect![[r#"
            [stderr]
            error: srt-82844cfa ("Publish") waits for srt-22cdf264 ("Check links"), which is pending

            hint: take the next ready one with `fleet sorties claim --next`
            [exit 4]
        "#]]);
    world.fleet("sorties show T099").expect(expect![[r#"
        [stderr]
        error: there is no sortie with the id or task id `T099`

        hint: list them with `fleet sorties list`
        [exit 3]
    "#]]);
    // Two missions may have a task of the same id: the one at hand is meant.
    world.ok("missions create \"Another site\"");
    world.ok("sorties add \"Other links\" --task-id T061");
    let shown = world.json("sorties show T061");
    assert_eq!(shown["sortie"]["title"], "Other links");
    world.ok("sorties add \"The same again\" --task-id T061");
    world.fleet("sorties show T061").expect(expect![[r#"
        [stderr]
        error: the task id `T061` names srt-22cdf264 and srt-bf6cb52b and srt-d0d3ae5d

        hint: name the sortie by its own id, or its mission with `--mission ID`
        [exit 3]
    "#]]);
}

#[test]
fn what_is_completed_counts_towards_what_was_declared() {
    let world = World::empty();
    world.ok("init --preset sitebuilder");
    world.write("progress/checkpoints/migration-T060.json", EXAMPLE);
    world.ok("status");
    assert_eq!(
        file(&world, "migration-T060.json")["subtasks"]["completed"],
        19
    );
    for part in 20..=29 {
        let typed = format!("sorties update T060 --subtask post-{part}=complete");
        world.agent_ok("Riley", &typed);
    }
    let now = file(&world, "migration-T060.json");
    assert_eq!(
        (
            &now["subtasks"]["total"],
            &now["subtasks"]["completed"],
            &now["progress_percent"]
        ),
        (&json!(29), &json!(29), &json!(100))
    );
    // One that has to be done again counts no more; saying it twice changes nothing.
    world.agent_ok("Riley", "sorties update T060 --subtask post-29=in_progress");
    world.agent_ok("Riley", "sorties update T060 --subtask post-28=complete");
    let now = file(&world, "migration-T060.json");
    assert_eq!(now["subtasks"]["completed"], 28);
}

#[test]
fn counts_alone_take_a_checkpoint() {
    let world = site();
    let before = world.json("checkpoints list").as_array().unwrap().len();
    world.agent_ok("Riley", "sorties update T060 --done 10/29");
    let taken = world.json("checkpoints list");
    assert_eq!(taken.as_array().unwrap().len(), before + 1);
    let shown = world.json("checkpoints show @latest");
    assert_eq!(shown["trigger_details"], "Completed 10 of 29 subtasks");
    world.agent_ok("Riley", "sorties update T060 --done 10/29");
    assert_eq!(
        world.json("checkpoints list").as_array().unwrap().len(),
        before + 1
    );
}

#[test]
fn a_heartbeat_is_seen_in_the_file_when_it_is_due() {
    let world = site();
    world.agent_ok("Riley", "sorties update T060 --note begun");
    let begun = file(&world, "migration-T060.json");
    world.pass(120);
    world.agent_ok("Riley", "heartbeat");
    assert_eq!(file(&world, "migration-T060.json"), begun, "not due yet");
    world.pass(300);
    world.agent_ok("Riley", "heartbeat");
    let beaten = file(&world, "migration-T060.json");
    assert_ne!(beaten["updated_at"], begun["updated_at"]);
    assert_eq!(
        beaten["heartbeat"],
        json!({ "last_beat": beaten["updated_at"], "interval_seconds": 300, "status": "alive" })
    );
    // Of what the supervisor reads, a session that is alive has not timed out.
    world.fleet("detect").expect(expect![[r#"
        Nothing needs recovery.
    "#]]);
}

#[test]
fn parts_that_an_agent_takes_out_of_its_file_are_gone() {
    let world = site();
    world.agent_ok(
        "Riley",
        "sorties update T060 --subtask post-01=complete --subtask post-02=pending",
    );
    let mut task = file(&world, "migration-T060.json");
    task["subtasks"]["items"].as_array_mut().unwrap().pop();
    task["subtasks"]["total"] = json!(1);
    task["updated_at"] = json!("2026-01-04T12:00:30Z");
    world.pass(60);
    world.write(
        "progress/checkpoints/migration-T060.json",
        &task.to_string(),
    );
    let shown = world.json("sorties show T060");
    let parts: Vec<&str> = shown["subtasks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|part| part["name"].as_str().unwrap())
        .collect();
    assert_eq!(parts, ["post-01"]);
}

#[test]
fn status_md_tells_times_that_stay_true() {
    let world = site();
    world.agent_ok("Riley", "sorties update T060 --done 19/29");
    let page = || std::fs::read_to_string(world.repo().join("progress/STATUS.md")).unwrap();
    let before = page();
    expect![[r#"
        <!-- flightline:active-checkpoints -->
        ## Active Checkpoints

        As of 2026-01-04T12:00:08Z

        | Agent | Task | Progress | Last Update | Status |
        |-------|------|----------|-------------|--------|
        | migration | T060 | 65% | 2026-01-04T12:00:08Z | in_progress |
        | — | T061 | 0% | — | not started |
        <!-- /flightline:active-checkpoints -->
    "#]]
    .assert_eq(&before);
    world.pass(3_600);
    world.ok("status");
    assert_eq!(page(), before);
}
