//! Dispatch and specialists in a recovery: assignments, mailbox, briefings.

use expect_test::expect;
use serde_json::{Value, json};

use super::{CONTEXT, act, fields, seed};

#[test]
fn a_recovered_assignment_says_what_is_left() {
    let world = seed();
    world.ok("checkpoint");
    // Two hours of silence: everybody is gone.
    world.pass(7200);
    world.ok("detect --auto-resume");
    let routes = world.sortie("API routes");
    world
        .agent("Specialist-3", &format!("sorties claim {routes}"))
        .expect(expect![[r#"
            srt-3434  API routes   now yours (Specialist-3)
              Resuming sortie, attempt 2 (Specialist-1 had it)
              Last action: Specialist-1 was working on "API routes"
              Next steps: Complete "API routes"
              Blockers: none
              Files: src/api/routes.ts
              Locked src/api/routes.ts (fence 77)
        "#]]);
    let again = world.line(&format!("sorties claim {routes} --json"));
    let again = again.agent("Specialist-3").run().json();
    assert_eq!(fields(&again["recovery_context"]), CONTEXT);
    act(
        &world,
        "Specialist-3",
        &format!("sorties update {routes} --note \"half of it\""),
    );
}

#[test]
fn events_reach_the_mailbox_of_dispatch() {
    let world = seed();
    act(&world, "Specialist-1", "checkpoint --note \"Halfway\"");
    act(&world, "Specialist-1", "checkpoints pin @latest");
    world
        .agent("Dispatch", "mail inbox")
        .expect(expect![[r#"
            For your information:
              msg-77be  2026-01-04T12:02:25.000Z  Specialist-1 takes checkpoint chk-d9872af6 at 50 % (manual)
              msg-15f6  2026-01-04T12:02:25.000Z  flightline writes the file of chk-d9872af6
              msg-e23a  2026-01-04T12:02:26.000Z  Specialist-1 pins chk-d9872af6
        "#]]);
    assert_eq!(
        world.agent_ok("Dispatch", "mail inbox").text(),
        "No mail.\n"
    );
}

#[test]
fn a_briefing_is_recalled_and_its_receipt_is_seen() {
    let world = seed();
    world.ok("agents register Specialist-1 --session two");
    let full = |ran: &crate::cli::running::Ran| ran.stdout.starts_with("## Recovery Context");
    let ask = |typed: &str| world.agent_ok("Specialist-1", typed);
    let status = || {
        let text = world.ok("status").stdout;
        let line = text.lines().find(|line| line.starts_with("Briefings"));
        line.unwrap_or_default().to_owned()
    };
    assert_eq!(status(), "Briefings   Specialist-1 pending");
    assert!(full(&ask("context")));
    assert_eq!(
        status(),
        "Briefings   Specialist-1 offered, not acknowledged"
    );
    assert!(full(&ask("context")));
    assert_eq!(
        status(),
        "Briefings   Specialist-1 offered 2 times, not acknowledged"
    );
    ask("context").expect(expect![[r#"
        Flightline: your briefing for `msn-1a1a75cb` is waiting: `fleet context --full --agent Specialist-1 --mission msn-1a1a75cb`
    "#]]);
    assert!(full(&ask("context --full")));
    let nonce = world
        .line("context --json")
        .agent("Specialist-1")
        .run()
        .json();
    let nonce = nonce["nonce"].as_str().unwrap().to_owned();
    ask(&format!("context --ack {nonce}")).expect(expect![[r#"
        Acknowledged. Continue the mission.
    "#]]);
    ask("context").expect(expect![[r#"
        Flightline: your briefing for `msn-1a1a75cb` is acknowledged, and here again: `fleet context --full --agent Specialist-1 --mission msn-1a1a75cb`
    "#]]);
    assert_eq!(status(), "Briefings   Specialist-1 acknowledged");
    let agents = world.json("status")["agents"].clone();
    let named = |view: &&Value| view["agent"]["name"] == "Specialist-1";
    let view = agents.as_array().unwrap().iter().find(named).unwrap();
    assert_eq!(
        (&view["briefing"]["status"], &view["briefing"]["deliveries"]),
        (&json!("acknowledged"), &json!(2))
    );
}
