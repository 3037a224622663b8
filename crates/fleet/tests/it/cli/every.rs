//! Every command there is: it explains itself, and speaks JSON when it succeeds and when it fails. A
//! command without a case here fails the first test.

use std::collections::BTreeSet;

use crate::cli::running::Ran;
use crate::cli::stage;
use crate::cli::world::{World, time};

/// A command that succeeds on the stage, and one that does not.
struct Case {
    /// The command, without its arguments.
    name: &'static str,
    good: &'static str,
    bad: &'static str,
    /// How the bad one ends: its exit code, and the code of its error.
    exit: i32,
    code: &'static str,
}

const fn case(
    name: &'static str,
    good: &'static str,
    bad: &'static str,
    exit: i32,
    code: &'static str,
) -> Case {
    Case {
        name,
        good,
        bad,
        exit,
        code,
    }
}

#[rustfmt::skip]
const CASES: &[Case] = &[
    case("import", "import epic secondary.json", "import epic README.md", 2, "invalid_input"),
    case("conflicts list", "conflicts list", "conflicts list extra", 2, "invalid_input"),
    case("conflicts take", "conflicts take --help", "conflicts take no.json.conflict", 3, "not_found"),
    case("conflicts drop", "conflicts drop --help", "conflicts drop no.json.conflict", 3, "not_found"),
    case("export", "export epic", "export nonsense", 2, "invalid_input"),
    case("init", "init", "init --name \"\"", 2, "invalid_input"),
    case("trust", "trust", "trust --location nowhere", 3, "no_project"),
    case("setup", "setup claude --dry-run", "setup emacs", 2, "invalid_input"),
    case("prime", "prime --agent ada", "prime --mission msn-ffff", 3, "not_found"),
    case("agents-md", "agents-md", "agents-md extra", 2, "invalid_input"),
    case("run", "run --agent ada -- true", "run -- true", 2, "invalid_input"),
    case("statusline", "statusline", "statusline extra", 2, "invalid_input"),
    case("mcp", "mcp --help", "mcp --tools many", 2, "invalid_input"),
    case("hook", "hook --help", "hook claude", 2, "invalid_input"),
    case("login", "login --help", "login nowhere", 2, "invalid_input"),
    case("logout", "logout --help", "logout", 3, "not_found"),
    case("status", "status", "status --mission msn-ffff", 3, "not_found"),
    case("checkpoint", "checkpoint", "checkpoint --reason nonsense", 2, "invalid_input"),
    case("checkpoints list", "checkpoints list", "checkpoints list --limit many", 2, "invalid_input"),
    case("checkpoints show", "checkpoints show @latest --mission {Quick}", "checkpoints show chk-ffff", 3, "not_found"),
    case("checkpoints recovery-points", "checkpoints recovery-points --mission {Quick}", "checkpoints recovery-points --limit many", 2, "invalid_input"),
    case("checkpoints prune", "checkpoints prune --dry-run", "checkpoints prune --older-than soon", 2, "invalid_input"),
    case("checkpoints diff", "checkpoints diff @latest --mission {Quick}", "checkpoints diff chk-ffff", 3, "not_found"),
    case("checkpoints verify", "checkpoints verify --mission {Quick}", "checkpoints verify chk-ffff", 3, "not_found"),
    case("checkpoints pin", "checkpoints pin @latest --mission {Quick}", "checkpoints pin @latest~99 --mission {Quick}", 3, "not_found"),
    case("checkpoints unpin", "checkpoints unpin @latest --mission {Quick}", "checkpoints unpin chk-ffff", 3, "not_found"),
    case("checkpoints note", "checkpoints note @latest kept --mission {Quick}", "checkpoints note @latest \"\" --mission {Quick}", 2, "invalid_input"),
    case("checkpoints archive", "checkpoints archive @latest --mission {Quick}", "checkpoints archive chk-ffff", 3, "not_found"),
    case("checkpoints export", "checkpoints export @latest new.json --mission {Quick}", "checkpoints export @latest chk.json --mission {Quick}", 4, "already_exists"),
    case("checkpoints import", "checkpoints import chk.json", "checkpoints import README.md", 6, "integrity"),
    case("checkpoints delete", "checkpoints delete @latest -y --mission {Quick}", "checkpoints delete @latest --mission {Quick}", 2, "confirmation_needed"),
    case("detect", "detect", "detect --threshold soon", 2, "invalid_input"),
    case("resume", "resume --mission {Quick}", "resume --mission {Later}", 3, "not_found"),
    case("replay", "replay --step @latest --mission {Quick}", "replay --step chk-ffff", 3, "not_found"),
    case("undo", "undo --mission {Quick}", "undo --mission {Later}", 3, "not_found"),
    case("context", "context --agent ada", "context --ack nonsense --agent ada", 3, "not_found"),
    case("demo", "demo --in show", "demo --in .", 2, "invalid_input"),
    case("missions create", "missions create New --sortie One", "missions create \"\"", 2, "invalid_input"),
    case("missions list", "missions list", "missions list --limit many", 2, "invalid_input"),
    case("missions show", "missions show {Later}", "missions show msn-ffff", 3, "not_found"),
    case("missions edit", "missions edit {Later} --title Sooner", "missions edit --constraints-by nonsense", 2, "invalid_input"),
    case("missions start", "missions start {Later}", "missions start msn-ffff", 3, "not_found"),
    case("missions pause", "missions pause", "missions pause msn-ffff", 3, "not_found"),
    case("missions complete", "missions complete {Quick}", "missions complete {Add login}", 4, "unfinished"),
    case("missions fail", "missions fail --reason \"no time\"", "missions fail --reason \"\"", 2, "invalid_input"),
    case("missions archive", "missions archive {Later}", "missions archive nonsense", 2, "invalid_input"),
    case("missions transition", "missions transition planning", "missions transition \"not a name\"", 2, "invalid_input"),
    case("missions use", "missions use {Later}", "missions use msn-ffff", 3, "not_found"),
    case("sorties add", "sorties add New --after {Login} --file src/new.rs", "sorties add New --file ../..", 2, "invalid_input"),
    case("sorties list", "sorties list", "sorties list --status nonsense", 2, "invalid_input"),
    case("sorties show", "sorties show {Model}", "sorties show srt-ffff", 3, "not_found"),
    case("sorties ready", "sorties ready", "sorties ready --mission msn-ffff", 3, "not_found"),
    case("sorties tree", "sorties tree", "sorties tree --mission msn-ffff", 3, "not_found"),
    case("sorties edit", "sorties edit {Login} --title \"Log in\" --after {Model}", "sorties edit {Login} --after {Login}", 2, "invalid_input"),
    case("sorties cancel", "sorties cancel {Login} --reason mistake", "sorties cancel {Done}", 4, "illegal_transition"),
    case("sorties move", "sorties move {Login} --first", "sorties move {Login} --before {Login}", 2, "invalid_input"),
    case("sorties claim", "sorties claim {Login} --agent ada", "sorties claim {Model} --agent bob", 4, "already_taken"),
    case("sorties assign", "sorties assign {Login} --to bob", "sorties assign {Login} --to nobody", 3, "not_found"),
    case("sorties reassign", "sorties reassign {Model} --to bob", "sorties reassign {Model} --to old", 4, "illegal_transition"),
    case("sorties start", "sorties start {Given} --agent bob", "sorties start {Login} --agent bob", 4, "illegal_transition"),
    case("sorties update", "sorties update {Model} --note half --agent ada", "sorties update {Model} --done most", 2, "invalid_input"),
    case("sorties error", "sorties error {Model} --message boom --agent ada", "sorties error {Model}", 2, "invalid_input"),
    case("sorties block", "sorties block {Model} --reason rain --agent ada", "sorties block {Login} --reason rain", 4, "illegal_transition"),
    case("sorties unblock", "sorties unblock {Stuck} --agent ada", "sorties unblock {Model}", 4, "illegal_transition"),
    case("sorties resume", "sorties resume {Model} --agent ada", "sorties resume {Login}", 4, "illegal_transition"),
    case("sorties complete", "sorties complete {Model} --agent ada", "sorties complete {Model} --agent bob", 4, "not_yours"),
    case("sorties fail", "sorties fail {Model} --reason rain --agent ada", "sorties fail srt-ffff --reason rain", 3, "not_found"),
    case("sorties release", "sorties release {Model} --agent ada", "sorties release {Login}", 4, "illegal_transition"),
    case("sorties review", "sorties review {Done} --reviewer lead --score 9", "sorties review {Done} --reviewer lead --score high", 2, "invalid_input"),
    case("sorties approve", "sorties approve {Done}", "sorties approve {Model}", 4, "illegal_transition"),
    case("sorties reject", "sorties reject {Done} --reason slow", "sorties reject {Model} --reason slow", 4, "illegal_transition"),
    case("agents register", "agents register new", "agents register \"a b\"", 2, "invalid_input"),
    case("agents list", "agents list", "agents list ada", 2, "invalid_input"),
    case("agents show", "agents show ada", "agents show nobody", 3, "not_found"),
    case("agents update", "agents update --step plan --agent ada", "agents update ada --step plan --agent bob", 4, "not_yours"),
    case("agents retire", "agents retire idle", "agents retire ada", 4, "unfinished"),
    case("agents monitor", "agents monitor", "agents monitor --interval soon", 2, "invalid_input"),
    case("agents resume", "agents resume ada", "agents resume old", 4, "illegal_transition"),
    case("agents takeover", "agents takeover ada bob --force", "agents takeover ada ada", 2, "invalid_input"),
    case("agents restart", "agents restart ada --force -y", "agents restart ada -y --force --agent bob", 4, "not_yours"),
    case("handoff", "handoff ada", "handoff nobody", 3, "not_found"),
    case("agents end", "agents end ada", "agents end ada --agent bob", 4, "not_yours"),
    case("agents sync", "agents sync ada", "agents sync nobody", 3, "not_found"),
    case("heartbeat", "heartbeat --agent ada", "heartbeat --agent nobody", 3, "not_found"),
    case("locks acquire", "locks acquire src/b.rs --agent ada", "locks acquire src --agent bob", 4, "lock_held"),
    case("locks renew", "locks renew src/a.rs --agent ada", "locks renew src/a.rs --agent bob", 4, "fenced"),
    case("locks release", "locks release src/a.rs --agent ada", "locks release free.rs --agent ada", 3, "not_found"),
    case("locks list", "locks list", "locks list --holder nobody", 3, "not_found"),
    case("locks check", "locks check src/a.rs --agent ada", "locks check ../..", 2, "invalid_input"),
    case("locks steal", "locks steal src/a.rs --reason urgent --agent bob", "locks steal free.rs --reason urgent --agent bob", 3, "not_found"),
    case("mail send", "mail send --to ada --subject Again", "mail send --to ada --subject \"\"", 2, "invalid_input"),
    case("mail inbox", "mail inbox --agent ada", "mail inbox", 2, "invalid_input"),
    case("mail read", "mail read {Hello} --agent ada", "mail read msg-ffff --agent ada", 3, "not_found"),
    case("mail reply", "mail reply {Hello} --body Yes --agent ada", "mail reply {Hello} --body \"\" --agent ada", 2, "invalid_input"),
    case("mail ack", "mail ack {Hello} --agent ada", "mail ack msg-ffff --agent ada", 3, "not_found"),
    case("mail thread", "mail thread {Hello}", "mail thread msg-ffff", 3, "not_found"),
    case("mail requeue", "mail requeue {Hello}", "mail requeue msg-ffff", 3, "not_found"),
    case("note decision", "note decision Rust --why speed", "note decision \"\"", 2, "invalid_input"),
    case("note lesson", "note lesson Sleep", "note lesson Sleep --sortie srt-ffff", 3, "not_found"),
    case("note constraint", "note constraint Tests", "note constraint \"\"", 2, "invalid_input"),
    case("note dead-end", "note dead-end Regex", "note dead-end \"\"", 2, "invalid_input"),
    case("note artifact", "note artifact Start --path README.md", "note artifact Start --path missing.md", 3, "not_found"),
    case("note blocker", "note blocker Rain", "note blocker \"\"", 2, "invalid_input"),
    case("note next-step", "note next-step Rest", "note next-step \"\"", 2, "invalid_input"),
    case("note close", "note close {Lesson}", "note close nte-ffff", 3, "not_found"),
    case("note edit", "note edit {Lesson} \"Read all of it\"", "note edit {Lesson} \"\"", 2, "invalid_input"),
    case("note withdraw", "note withdraw {Lesson}", "note withdraw {Model}", 2, "invalid_input"),
    case("note list", "note list", "note list --kind nonsense", 2, "invalid_input"),
    case("effect begin", "effect begin release", "effect begin deploy", 4, "effect_in_doubt"),
    case("effect done", "effect done deploy", "effect done release", 3, "not_found"),
    case("effect list", "effect list", "effect list --mission msn-ffff", 3, "not_found"),
    case("events list", "events list", "events list --since lately", 2, "invalid_input"),
    case("events tail", "events tail --after 0 --limit 1", "events tail --after 999999", 4, "history_changed"),
    case("log", "log", "log --mission msn-ffff", 3, "not_found"),
    case("stats", "stats storage", "stats nonsense", 2, "invalid_input"),
    case("report", "report", "report --mission msn-ffff", 3, "not_found"),
    case("doctor", "doctor", "doctor --location nowhere", 3, "no_project"),
    case("backup", "backup new.db", "backup copy.db", 2, "invalid_input"),
    case("restore", "restore copy.db -y", "restore copy.db", 2, "confirmation_needed"),
    case("serve", "serve --addr 127.0.0.1:0 --for 0s", "serve --addr nowhere", 2, "invalid_input"),
    case("token create", "token create laptop", "token create laptop --scope nonsense", 2, "invalid_input"),
    case("token list", "token list", "token list extra", 2, "invalid_input"),
    case("token revoke", "token revoke desk", "token revoke nonsense", 3, "not_found"),
    case("config list", "config list", "config list extra", 2, "invalid_input"),
    case("config get", "config get locks.ttl", "config get nonsense", 3, "not_found"),
    case("config set", "config set locks.ttl 45m", "config set nonsense 1", 3, "not_found"),
    case("config path", "config path", "config path extra", 2, "invalid_input"),
    case("call", "call", "call nonsense", 3, "not_found"),
    case("completions", "completions bash", "completions nonsense", 2, "invalid_input"),
    case("man", "man", "man --to README.md/below", 1, "failed"),
    case("schema", "schema mission", "schema nonsense", 3, "not_found"),
    case("openapi", "openapi", "openapi extra", 2, "invalid_input"),
    case("help", "help ids", "help nonsense", 3, "not_found"),
];

/// What is typed in every case, on the stage.
pub fn lines() -> Vec<String> {
    let all = CASES.iter().flat_map(|case| [case.good, case.bad]);
    all.map(stage::named).collect()
}

/// Commands that need no fleet.
const WITHOUT_A_FLEET: [&str; 11] = [
    "demo",
    "init",
    "config list",
    "config get",
    "config path",
    "call",
    "completions",
    "man",
    "schema",
    "openapi",
    "help",
];

/// The headlines of a help text below which no commands stand.
const NO_COMMANDS: [&str; 4] = ["Arguments:", "Options:", "Everywhere:", "Examples:"];

/// The names of the commands that a help text lists, below whatever headlines.
fn listed(help: &str) -> Vec<String> {
    let (mut names, mut among_commands) = (Vec::new(), false);
    for line in help.lines() {
        if let Some(entry) = line.strip_prefix("  ") {
            if among_commands && !entry.starts_with(' ') {
                names.extend(entry.split_whitespace().next().map(str::to_owned));
            }
        } else if line.ends_with(':') {
            among_commands = !NO_COMMANDS.contains(&line);
        }
    }
    names
}

/// Every command that does something, by its whole name, and its help text.
fn leaves(world: &World) -> Vec<(String, String)> {
    let (mut open, mut leaves) = (vec![String::new()], Vec::new());
    while let Some(name) = open.pop() {
        let help = world.ok(&format!("{name} --help")).stdout;
        let below = listed(&help);
        if below.is_empty() {
            leaves.push((name.trim().to_owned(), help));
        } else {
            open.extend(below.into_iter().map(|part| format!("{name} {part}")));
        }
    }
    leaves
}

#[test]
fn every_command_has_a_case_and_explains_itself() {
    let world = World::empty();
    let leaves = leaves(&world);
    let there: BTreeSet<&str> = leaves.iter().map(|(name, _)| name.as_str()).collect();
    let cases: BTreeSet<&str> = CASES.iter().map(|case| case.name).collect();
    assert_eq!(
        there, cases,
        "what the command line has, and what is tested here"
    );
    for (name, help) in &leaves {
        let about = help.lines().next().unwrap();
        assert!(
            about.len() >= 10 && !about.starts_with("Usage"),
            "{name} has no description"
        );
        assert!(
            help.contains(&format!("Usage: fleet {name}")),
            "{name}: {help}"
        );
        let mut lines = help.lines().peekable();
        while let Some(line) = lines.next() {
            let entry = line.trim_start();
            let explained = entry.contains("  ")
                || lines
                    .peek()
                    .is_some_and(|next| next.starts_with("          "));
            let bare = entry.starts_with(['-', '<', '['])
                && line.starts_with("  ")
                && !line.starts_with("         ");
            assert!(!bare || explained, "{name} does not explain {entry}");
        }
        // The same text by the other way to ask for it.
        assert_eq!(&world.ok(&format!("help {name}")).stdout, help, "{name}");
    }
}

/// Text for people: no colours in a pipe, no blanks at the end of a line.
fn is_tidy(text: &str) -> bool {
    !text.contains('\u{1b}') && text.lines().all(|line| line.trim_end() == line)
}

fn check(noun: &str) {
    let cases: Vec<&Case> = CASES
        .iter()
        .filter(|case| case.name.split(' ').next() == Some(noun))
        .collect();
    assert!(!cases.is_empty());
    for case in cases {
        check_good(case);
        check_bad(case);
        check_fields(case);
        check_usage(case);
        check_without_a_fleet(case);
    }
}

fn check_good(case: &Case) {
    let good = stage::named(case.good);
    let said = stage::world().fleet(&good);
    assert_eq!(said.code, 0, "{good}: {said:?}");
    // A token stands alone on stdout, so that it can be kept in a file.
    assert_eq!(
        said.stderr.is_empty(),
        case.name != "token create",
        "{good}: {said:?}"
    );
    assert!(
        !said.stdout.is_empty() && is_tidy(&said.stdout),
        "{good}: {said:?}"
    );

    let json = stage::world().fleet(&format!("{good} --json"));
    assert_eq!(
        (json.code, json.stderr.as_str()),
        (0, ""),
        "{good}: {json:?}"
    );
    assert!(json.json().get("error").is_none(), "{good}: {json:?}");

    let quiet = stage::world().fleet(&format!("{good} -q"));
    let nothing = Ran {
        stdout: String::new(),
        stderr: String::new(),
        code: 0,
    };
    assert_eq!(quiet, nothing, "{good} -q");
}

fn check_bad(case: &Case) {
    let (world, bad) = (stage::world(), stage::named(case.bad));
    let before = world.rev();
    let moment = time(3600);
    let json = world.line(&format!("{bad} --json"));
    let json = json.env("FLEET_TEST_NOW", &moment).run();
    assert_eq!(
        (json.code, json.stderr.as_str()),
        (case.exit, ""),
        "{bad}: {json:?}"
    );
    assert_eq!(json.error_code(), case.code, "{bad}");

    // -q leaves errors alone.
    for quiet in ["", " -q"] {
        // At the same moment, for messages that tell how long ago something was.
        let again = world.line(&format!("{bad}{quiet}"));
        let said = again.env("FLEET_TEST_NOW", &moment).run();
        let told = said.refused(case.exit);
        assert!(is_tidy(told), "{bad}: {told}");
        let message = json.json()["error"]["message"].as_str().unwrap().to_owned();
        assert!(
            told.starts_with(&format!("error: {message}\n")),
            "{bad}: {told}"
        );
        let first = message.chars().next().unwrap();
        assert!(
            !first.is_uppercase() || message.starts_with("REPO"),
            "{bad}: {message}"
        );
        assert!(
            !message.ends_with(['.', '\n', '!', ':']),
            "{bad}: {message}"
        );
    }
    assert_eq!(world.rev(), before, "{bad} changed something");
}

/// A field that the answer cannot have is refused while nothing is done.
fn check_fields(case: &Case) {
    let (world, good) = (stage::world(), stage::named(case.good));
    let before = world.rev();
    let ran = world.fleet(&format!("{good} --json --fields colour"));
    if ran.code != 0 {
        assert_eq!(
            (ran.code, ran.error_code().as_str()),
            (2, "invalid_input"),
            "{good}: {ran:?}"
        );
        assert_eq!(world.rev(), before, "{good} was done: {ran:?}");
    }
}

fn check_usage(case: &Case) {
    let world = World::empty();
    let wrong = world.fleet(&format!("{} --nonsense --json", case.name));
    assert_eq!(
        (wrong.code, wrong.error_code().as_str()),
        (2, "invalid_input"),
        "{}: {wrong:?}",
        case.name
    );
    let said = world.fleet(&format!("{} --nonsense", case.name));
    let told = said.refused(2);
    assert!(
        told.starts_with("error: there is no flag `--nonsense`\n"),
        "{}: {told}",
        case.name
    );
    assert!(
        told.contains(&format!("see `fleet {} --help`", case.name)),
        "{}: {told}",
        case.name
    );
}

fn check_without_a_fleet(case: &Case) {
    let good = stage::named(case.good);
    let world = World::empty();
    let ran = world.fleet(&format!("{good} --json"));
    if WITHOUT_A_FLEET.contains(&case.name) {
        assert_eq!(ran.code, 0, "{good}: {ran:?}");
        return;
    }
    assert_eq!(ran.code, 3, "{good}: {ran:?}");
    // A backup that is not there is missed first.
    let code = if case.name == "restore" {
        "not_found"
    } else {
        "no_project"
    };
    assert_eq!(ran.error_code(), code, "{good}");
    assert!(!world.state().exists(), "{good}");
}

#[test]
fn missions() {
    check("missions");
}

#[test]
fn sorties() {
    check("sorties");
}

#[test]
fn agents() {
    check("agents");
    check("heartbeat");
    check("handoff");
}

#[test]
fn locks() {
    check("locks");
}

#[test]
fn mail() {
    check("mail");
}

#[test]
fn notes() {
    check("note");
}

#[test]
fn effects_and_events() {
    for noun in ["effect", "events", "log"] {
        check(noun);
    }
}

#[test]
fn the_store() {
    for noun in ["init", "status", "stats", "doctor", "backup", "restore"] {
        check(noun);
    }
}

#[test]
fn the_tool_itself() {
    for noun in [
        "config",
        "call",
        "completions",
        "man",
        "schema",
        "openapi",
        "help",
    ] {
        check(noun);
    }
}

#[test]
fn the_server() {
    check("serve");
    check("token");
}

#[test]
fn checkpoint() {
    check("checkpoint");
}

#[test]
fn checkpoints() {
    check("checkpoints");
}

#[test]
fn recovery() {
    for noun in ["detect", "resume", "replay", "undo", "context"] {
        check(noun);
    }
}

#[test]
fn demo() {
    check("demo");
}
