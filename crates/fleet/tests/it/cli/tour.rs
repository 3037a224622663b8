//! The tour of the documentation, word for word, on both engines and through every way to say where
//! the store is.

use std::fmt::Write as _;

use expect_test::expect;
use flightline_testkit::postgres_url;

use crate::cli::running::Ran;
use crate::cli::world::World;

/// What people and agents do on the tour. The first word is who does it; `-` is a person.
const TOUR: [&str; 16] = [
    "- mission create \"Implement user authentication\" --sortie \"User model\" --sortie \"Login endpoint\" --sortie Middleware --sortie Tests",
    "ada sortie claim --next",
    "ada lock acquire src/models/user.ts --purpose \"new model\"",
    "bob lock acquire src/models",
    "- note constraint \"Never log passwords, not even hashed\"",
    "ada sortie complete af9e --keep",
    "- sortie complete srt-8a44",
    "bob sortie claim --next",
    "bob sortie update 4dd5 --subtask model=complete --subtask refresh-token=in_progress",
    "-",
    "- agents list",
    "bob mail send --to ada --subject \"Need src/models\" --body \"Are you done there?\"",
    "ada mail inbox",
    "ada mail reply msg-711d --body \"Yes, take it\"",
    "ada lock release src/models/user.ts",
    "- log",
];

fn walk(world: &World) -> String {
    world.begin_at_noon();
    let mut told = String::new();
    for step in TOUR {
        let (who, typed) = step.split_once(' ').unwrap_or((step, ""));
        let (prompt, command) = match who {
            "-" => ("", world.line(typed)),
            agent => (agent, world.line(typed).agent(agent)),
        };
        let prompt = format!("{prompt}$ fleet {typed}");
        writeln!(told, "{}\n{}", prompt.trim_end(), command.run().text()).unwrap();
    }
    told
}

/// The tour on PostgreSQL says what it says in the repository.
fn check_on_postgres(world: &World) {
    let here = World::new();
    // Where the store had to be typed, hints repeat it.
    let typed = format!("--location {} ", postgres_url());
    assert_eq!(walk(world).replace(&typed, ""), walk(&here));
    assert!(!world.database().exists(), "a SQLite store beside it");
}

/// A project of its own on a server that tests share: its id must not be one that counts up.
fn init_on_postgres(world: &World) -> Ran {
    world.line("init").without("FLEET_TEST_IDS").run()
}

#[test]
fn in_the_repository() {
    let world = World::empty();
    world.fleet("init").expect(expect![[r#"
        Created .flightline/ (config.toml, sqlite store, .gitignore)
        Next: fleet missions create "…" --sortie "…"
        Connect a coding agent: fleet setup claude
    "#]]);
    expect![[r#"
        $ fleet mission create "Implement user authentication" --sortie "User model" --sortie "Login endpoint" --sortie Middleware --sortie Tests
        msn-1166  Implement user authentication
          srt-af9e  User model
          srt-4dd5  Login endpoint
          srt-ec0d  Middleware
          srt-8a44  Tests

        ada$ fleet sortie claim --next
        srt-af9e  User model   now yours (ada)

        ada$ fleet lock acquire src/models/user.ts --purpose "new model"
        Locked src/models/user.ts for ada (fence 9, lapses 30m after your last sign of life)

        bob$ fleet lock acquire src/models
        [stderr]
        error: `src/models` overlaps `src/models/user.ts`, locked by ada (srt-af9e72eb, "new model", last sign 1s ago)

        hint: wait for it with `fleet locks acquire src/models --wait 15m`
              or ask with `fleet mail send --to ada --subject "Need src/models"`
        [exit 4]

        $ fleet note constraint "Never log passwords, not even hashed"
        Noted constraint nte-3434: Never log passwords, not even hashed

        ada$ fleet sortie complete af9e --keep
        ✓ completed  srt-af9e  User model   ada   100 %   (mission 25 %)   checkpoint chk-3ce86830

        $ fleet sortie complete srt-8a44
        [stderr]
        error: cannot complete srt-8a44e018 ("Tests"): it is pending and not claimed

        hint: claim it first with `fleet sorties claim srt-8a44e018 --agent NAME`
        [exit 4]

        bob$ fleet sortie claim --next
        srt-4dd5  Login endpoint   now yours (bob)

        bob$ fleet sortie update 4dd5 --subtask model=complete --subtask refresh-token=in_progress
        ● in progress  srt-4dd5  Login endpoint   bob   50 %   (mission 25 %)

        $ fleet
        Implement user authentication   msn-1166   ● in progress   25 %   ▓▓▓▓▒▒▒▒▒▒▒▒▒▒▒▒  1 of 4
          ✓ completed    srt-af9e  User model      ada  2026-01-04T12:00:07.000Z
          ● in progress  srt-4dd5  Login endpoint  bob  subtask 2 of 2: "refresh-token"   last sign 2026-01-04T12:00:10.000Z
          ○ pending      srt-ec0d  Middleware
          ○ pending      srt-8a44  Tests
        Checkpoint  chk-3ce8, 2026-01-04T12:00:07.000Z, Reached 25% milestone, in the store and in its file
        Agents      ada active (4s)   bob active (1s)
        Locks       src/models/user.ts (ada)
        Mail        none
        Needs you   nothing

        $ fleet agents list
        NAME      ROLE        LIFE      EPOCH  UNREAD  EVIDENCE                        HOLDS
        ada       specialist  ✓ active  1      0       last sign 5s ago                src/models/user.ts
        dispatch  dispatch    ◐ quiet   0      0       never seen, only has a mailbox  -
        bob       specialist  ✓ active  1      0       last sign 2s ago                srt-4dd5

        bob$ fleet mail send --to ada --subject "Need src/models" --body "Are you done there?"
        msg-711d  sent to ada: Need src/models

        ada$ fleet mail inbox
        ID        SENT                      FROM  SUBJECT          STATE
        msg-711d  2026-01-04T12:00:13.000Z  bob   Need src/models  ada delivered

        ada$ fleet mail reply msg-711d --body "Yes, take it"
        msg-8284  sent to bob: Re: Need src/models

        ada$ fleet lock release src/models/user.ts
        Released src/models/user.ts

        $ fleet log
        2026-01-04T12:00:16.000Z  ada         releases src/models/user.ts
        2026-01-04T12:00:15.000Z  ada         writes to bob: "Re: Need src/models"
        2026-01-04T12:00:15.000Z  ada         acknowledges "Need src/models"
        2026-01-04T12:00:14.000Z  ada         reads "Need src/models"
        2026-01-04T12:00:13.000Z  bob         writes to ada: "Need src/models"
        2026-01-04T12:00:10.000Z  bob         is at 50 % of "Login endpoint"
        2026-01-04T12:00:10.000Z  bob         sets the subtask refresh-token of "Login endpoint" to in progress
        2026-01-04T12:00:10.000Z  bob         sets the subtask model of "Login endpoint" to complete
        2026-01-04T12:00:09.000Z  bob         claims "Login endpoint"
        2026-01-04T12:00:09.000Z  bob         registers
        2026-01-04T12:00:07.000Z  flightline  makes a mailbox for dispatch
        2026-01-04T12:00:07.000Z  flightline  takes checkpoint chk-3ce8 at 25 % (milestone)
        2026-01-04T12:00:07.000Z  ada         completes "User model"
        2026-01-04T12:00:06.000Z  user:grace  notes a constraint: Never log passwords, not even hashed
        2026-01-04T12:00:04.000Z  ada         locks src/models/user.ts
        2026-01-04T12:00:03.000Z  ada         claims "User model"
        2026-01-04T12:00:03.000Z  ada         starts "Implement user authentication"
        2026-01-04T12:00:03.000Z  ada         registers
        2026-01-04T12:00:02.000Z  user:grace  adds the sortie "Tests"
        2026-01-04T12:00:02.000Z  user:grace  adds the sortie "Middleware"
        2026-01-04T12:00:02.000Z  user:grace  adds the sortie "Login endpoint"
        2026-01-04T12:00:02.000Z  user:grace  adds the sortie "User model"
        2026-01-04T12:00:02.000Z  user:grace  creates the mission "Implement user authentication"

    "#]].assert_eq(&walk(&world));
}

#[test]
fn on_postgres_by_flag() {
    let mut world = World::empty();
    world.always = vec!["--location".to_owned(), postgres_url()];
    let made = init_on_postgres(&world).text();
    expect![[r#"
        Created .flightline/ (config.toml, postgres store, .gitignore)
        Every command needs that location: set FLEET_LOCATION, or save it with
          fleet config set location … --user
        Next: fleet --location URL missions create "…" --sortie "…"
        Connect a coding agent: fleet --location URL setup claude
    "#]]
    .assert_eq(&made.replace(&postgres_url(), "URL"));
    check_on_postgres(&world);
}

#[test]
fn on_postgres_by_environment() {
    let mut world = World::empty();
    world.everywhere = vec![("FLEET_LOCATION", postgres_url())];
    init_on_postgres(&world).expect(expect![[r#"
        Created .flightline/ (config.toml, postgres store, .gitignore)
        Next: fleet missions create "…" --sortie "…"
        Connect a coding agent: fleet setup claude
    "#]]);
    check_on_postgres(&world);
}

#[test]
fn on_postgres_by_the_users_settings() {
    let world = World::empty();
    let url = postgres_url();
    let set = world.command(&["config", "set", "location", &url, "--user"]);
    assert_eq!(set.run().text(), format!("location = {url} (user)\n"));
    init_on_postgres(&world).expect(expect![[r#"
        Created .flightline/ (config.toml, postgres store, .gitignore)
        Next: fleet missions create "…" --sortie "…"
        Connect a coding agent: fleet setup claude
    "#]]);
    check_on_postgres(&world);
}
