//! Settings: what they are, where they come from, and files that keep their comments.

use std::fs;

use expect_test::expect;

use crate::cli::world::World;

#[test]
fn settings_are_listed_with_their_source() {
    let world = World::new();
    let listed = world.ok("config list").stdout;
    expect![[r#"
        NAME                           VALUE                                                                SOURCE   MEANING
        project                        prj-08b37c99-3af4-4208-8000-0000000003e8                             project  the id of this repository's fleet
        location                       .flightline                                                          default  where the store is (user level only)
        mirrors.root                   .                                                                    default  the folder in the repository that holds the mirrors (project level only)
        preset                         fleet                                                                default  the preset of these settings: fleet, sitebuilder, epic, orchestrator or recovery
        liveness.quiet                 5m                                                                   default  silence after which an agent is quiet, and a mission may need recovery
        liveness.warning               10m                                                                  default  silence after which an agent needs a warning
        liveness.stalled               30m                                                                  default  silence after which an agent is stalled
        liveness.heartbeat             5m                                                                   default  how often an agent is expected to give a sign of life
        liveness.downtime              10m                                                                  default  a pause of all writing after which silence proves nothing
        locks.ttl                      30m                                                                  default  how long after its holder's last sign of life a lock lapses
        checkpoints.interval           5m                                                                   default  with `triggers.interval`: how often a changing mission gets a checkpoint
        checkpoints.valid              1d                                                                   default  older checkpoints are not resumed from automatically
        retention.older_than           7d                                                                   default  checkpoints older than this are deleted
        checkpoints.milestones         25,50,75                                                             default  percentages at which a mission gets a checkpoint
        retention.keep                 3                                                                    default  number of the newest checkpoints that a mission keeps
        retention.most                 100                                                                  default  maximum number of checkpoints of a mission
        checkpoints.significant_lines  50                                                                   default  number of changed lines above which a file has changed significantly
        recovery.retry_limit           3                                                                    default  number of attempts after which a failed sortie blocks a resume
        retention.completed            30d                                                                  default  how long a completed mission keeps its final checkpoint
        retention.history              7d                                                                   default  how long the journal keeps every value (default: as `retention.older_than`)
        retention.surplus              delete                                                               default  what to do with checkpoints above `retention.most`: delete or archive
        retention.emergencies_apart    false                                                                default  archive checkpoints of `token_critical` instead of deleting them, and do not count them
        checkpoints.destructive        git_push,git_force_push,file_delete,database_migrate,deploy,publish  default  with `triggers.before_destructive`: the destructive operations
        tokens.warning                 75                                                                   default  how full a context is, in percent, when it is saved
        tokens.critical                90                                                                   default  how full a context is, in percent, when it is saved at once and its agent told to stop
        recovery.auto_resume           false                                                                default  resume without asking, where no question can be asked
        recovery.enabled               true                                                                 default  handle full contexts and ending sessions: checkpoints, minimal mode, validation on resume
        recovery.strict                false                                                                default  refuse to resume while a blocker needs a decision
        recovery.tasks                 false                                                                default  `detect` and `doctor` name tasks that lost their session, have errors or unmet criteria
        mail.progress                  true                                                                 default  progress of a sortie is posted to the mailbox of dispatch
        hooks.lock_edits               true                                                                 default  a coding agent's hook locks each file that it edits, until the turn ends
        checkpoints.every_error        false                                                                default  with `triggers.blocker`: an error takes a checkpoint even when work can continue
        recovery.mode                  minimal                                                              default  the mode after a full context: minimal (briefings hold only the required parts) or full
        recovery.stack_id              none                                                                 default  the technology stack of the project, unless a mission names another: a session resumes on the same one
        mirrors.sitebuilder            false                                                                default  keep `progress/checkpoints/` and `progress/STATUS.md` up to date
        mirrors.epic                   false                                                                default  keep `agent_checkpoints/` up to date
        mirrors.orchestrator           false                                                                default  keep `.flightline/orchestrator/` up to date
        mirrors.recovery               false                                                                default  keep `checkpoints/` up to date
        mirrors.compression            none                                                                 default  how files in `.flightline/orchestrator/` are compressed: none, gzip, lz4 or zstd
        triggers.milestone             true                                                                 default  a checkpoint when a mission first reaches a milestone
        triggers.state_transition      false                                                                default  a checkpoint when the workflow moves to another state
        triggers.agent_complete        false                                                                default  a checkpoint when an agent finishes its work
        triggers.user_approval         false                                                                default  a checkpoint when work is approved or rejected
        triggers.interval              false                                                                default  a checkpoint when time has passed since the last one
        triggers.heartbeat             false                                                                default  a checkpoint when a heartbeat comes, and time has passed
        triggers.phase_complete        false                                                                default  a checkpoint when an agent completes a phase
        triggers.sync_point            false                                                                default  a checkpoint when an agent reaches or leaves a sync point
        triggers.subtask_done          false                                                                default  a checkpoint when a subtask is done
        triggers.file_created          false                                                                default  a checkpoint when a file is created
        triggers.file_modified         false                                                                default  a checkpoint when a file changes significantly
        triggers.review_done           false                                                                default  a checkpoint when a review is given
        triggers.task_complete         false                                                                default  a checkpoint when a sortie is completed
        triggers.sortie_failed         true                                                                 default  a checkpoint when a sortie fails
        triggers.api_error             true                                                                 default  a checkpoint when an API answers with an error
        triggers.lock_timeout          true                                                                 default  a checkpoint when a lock cannot be acquired in time
        triggers.delivery_failed       true                                                                 default  a checkpoint when a message cannot be delivered
        triggers.blocker               true                                                                 default  a checkpoint when a blocker appears
        triggers.before_destructive    true                                                                 default  a checkpoint when a destructive operation is about to run
        triggers.shutdown              true                                                                 default  a checkpoint when a server is about to stop
        triggers.pre_compact           true                                                                 default  a checkpoint when a context is about to be compacted
        triggers.token_warning         true                                                                 default  a checkpoint when a context is 75 % full
        triggers.token_critical        true                                                                 default  a checkpoint when a context is 90 % full
        triggers.session_end           true                                                                 default  a checkpoint when a session ends
    "#]].assert_eq(&listed);
    world.ok("config set locks.ttl 45m");
    world.ok("config set liveness.stalled 1h --user");
    let source = |name: &str| {
        world.json(&format!("config get {name}"))["source"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    assert_eq!(
        [
            source("locks.ttl"),
            source("liveness.stalled"),
            source("liveness.quiet")
        ],
        ["project", "user", "default"]
    );
    // The project's word goes before the user's.
    world.ok("config set locks.ttl 50m --user");
    assert_eq!(world.ok("config get locks.ttl").stdout, "45m\n");
}

#[test]
fn a_setting_that_is_set_is_obeyed() {
    let world = World::new();
    world.fleet("config set locks.ttl 45m").expect(expect![[r#"
        locks.ttl = 45m (project)
    "#]]);
    let taken = world.agent_ok("ada", "locks acquire src");
    assert!(taken.stdout.contains("lapses 45m after"), "{taken:?}");
}

#[test]
fn comments_and_order_in_the_file_survive() {
    let world = World::new();
    let file = world.state().join("config.toml");
    let own = fs::read_to_string(&file).unwrap();
    let text = format!(
        "{own}\n# how long we wait\n[liveness]\nquiet   = \"2m\"   # short\nunknown = true\n\n[locks] # ours\nttl = \"1h\"\n# the end\n"
    );
    fs::write(&file, &text).unwrap();
    world.ok("config set locks.ttl 45m");
    world.ok("config set liveness.warning 20m");
    let expected = text
        .replace("ttl = \"1h\"", "ttl = \"45m\"")
        .replace("unknown = true\n", "unknown = true\nwarning = \"20m\"\n");
    assert_eq!(fs::read_to_string(&file).unwrap(), expected);
}

#[test]
fn the_paths_of_both_files_are_shown() {
    let world = World::new();
    world.fleet("config path").expect(expect![[r#"
        project  REPO/.flightline/config.toml
        user     HOME/.config/flightline/config.toml
    "#]]);
    let elsewhere = world
        .line("config path")
        .env("XDG_CONFIG_HOME", "/xdg")
        .run();
    assert!(
        elsewhere.stdout.contains("/xdg/flightline/config.toml"),
        "{elsewhere:?}"
    );
    World::empty().fleet("config path").expect(expect![[r#"
        project  none
        user     HOME/.config/flightline/config.toml
    "#]]);
    let homeless = world
        .line("config set locks.ttl 45m --user")
        .without("HOME")
        .run();
    homeless.expect(expect![[r#"
        [stderr]
        error: there is no home folder to keep your settings in

        hint: set HOME
        [exit 2]
    "#]]);
}

#[test]
fn a_setting_that_does_not_exist_is_refused() {
    let world = World::new();
    world.fleet("config get nonsense").expect(expect![[r#"
        [stderr]
        error: there is no setting `nonsense`

        hint: settings: project, location, mirrors.root, preset, liveness.quiet, liveness.warning, liveness.stalled, liveness.heartbeat, liveness.downtime, locks.ttl, checkpoints.interval, checkpoints.valid, retention.older_than, checkpoints.milestones, retention.keep, retention.most, checkpoints.significant_lines, recovery.retry_limit, retention.completed, retention.history, retention.surplus, retention.emergencies_apart, checkpoints.destructive, tokens.warning, tokens.critical, recovery.auto_resume, recovery.enabled, recovery.strict, recovery.tasks, mail.progress, hooks.lock_edits, checkpoints.every_error, recovery.mode, recovery.stack_id, mirrors.sitebuilder, mirrors.epic, mirrors.orchestrator, mirrors.recovery, mirrors.compression, and a switch for each trigger (`fleet config list`)
        [exit 3]
    "#]]);
    world.fleet("config set nonsense 1").expect(expect![[r#"
        [stderr]
        error: there is no setting `nonsense` at project level

        hint: settings: preset, liveness.quiet, liveness.warning, liveness.stalled, liveness.heartbeat, liveness.downtime, locks.ttl, checkpoints.interval, checkpoints.valid, retention.older_than, checkpoints.milestones, retention.keep, retention.most, checkpoints.significant_lines, recovery.retry_limit, retention.completed, retention.history, retention.surplus, retention.emergencies_apart, checkpoints.destructive, tokens.warning, tokens.critical, recovery.auto_resume, recovery.enabled, recovery.strict, recovery.tasks, mail.progress, hooks.lock_edits, checkpoints.every_error, recovery.mode, recovery.stack_id, mirrors.sitebuilder, mirrors.epic, mirrors.orchestrator, mirrors.recovery, mirrors.compression, and a switch for each trigger (`fleet config list`)
        [exit 3]
    "#]]);
    for name in ["locks", "locks.ttl.x", "", "ttl", "liveness"] {
        let before = fs::read_to_string(world.state().join("config.toml")).unwrap();
        world
            .command(&["config", "set", name, "45m"])
            .run()
            .refused(3);
        assert_eq!(
            fs::read_to_string(world.state().join("config.toml")).unwrap(),
            before,
            "{name}"
        );
    }
}

#[test]
fn mirrors_are_not_kept_where_git_or_the_store_lives() {
    let world = World::new();
    for folder in [".git", ".git/hooks", "sub/.GIT", ".flightline/mirrors"] {
        let typed = format!("config set mirrors.root {folder}");
        let ran = world.fleet(&typed);
        let refused = ran.refused(2);
        assert!(refused.contains("mirrors are not kept in"), "{refused:?}");
    }
}

#[test]
fn a_value_that_makes_no_sense_is_refused_and_not_kept() {
    let world = World::new();
    world.fleet("config set locks.ttl soon").expect(expect![[r#"
        [stderr]
        error: `soon` is not a duration: write `90s`, `15m`, `12h` or `7d`
        [exit 2]
    "#]]);
    world.fleet("config set liveness.quiet 20m").expect(expect![[r#"
        [stderr]
        error: `liveness.quiet` must not be longer than `liveness.warning`, and that must be shorter than `liveness.stalled`
        [exit 2]
    "#]]);
    world.fleet("config set locks.ttl 0s").refused(2);
    // The two files are obeyed together, and must make sense together.
    world.ok("config set liveness.warning 6m --user");
    world.fleet("config set liveness.quiet 8m").refused(2);
    world.ok("status");
    assert_eq!(world.json("config get locks.ttl")["source"], "default");
}

#[test]
fn a_file_whose_settings_are_not_tables_is_refused_not_trampled() {
    let world = World::new();
    let file = world.state().join("config.toml");
    let own = fs::read_to_string(&file).unwrap();
    for wrong in [
        "locks = 5\n",
        "locks = \"x\"\n",
        "[[locks]]\nttl = \"5m\"\n",
    ] {
        fs::write(&file, format!("{own}{wrong}")).unwrap();
        let ran = world.fleet("config set locks.ttl 45m");
        assert!(
            ran.refused(2).contains("`locks` holds no settings"),
            "{wrong}: {ran:?}"
        );
        assert_eq!(fs::read_to_string(&file).unwrap(), format!("{own}{wrong}"));
    }
    // An inline table is one, too.
    fs::write(&file, format!("{own}locks = {{ ttl = \"5m\" }}\n")).unwrap();
    world.ok("config set locks.ttl 45m");
    assert_eq!(
        fs::read_to_string(&file).unwrap(),
        format!("{own}locks = {{ ttl = \"45m\" }}\n")
    );
}

#[test]
fn where_the_store_is_belongs_to_the_user() {
    let world = World::new().local_only("it is about where the store is");
    world
        .fleet("config set location relative --user")
        .expect(expect![[r#"
        [stderr]
        error: `relative` would be another folder in each project

        hint: give an absolute one
        [exit 2]
    "#]]);
    for wrong in ["", "mysql://host/x"] {
        world
            .command(&["config", "set", "location", wrong, "--user"])
            .run()
            .refused(2);
    }
    let folder = world.home().join("stores");
    let set = world
        .command(&[
            "config",
            "set",
            "location",
            folder.to_str().unwrap(),
            "--user",
        ])
        .run();
    set.expect(expect![[r#"
        location = HOME/stores (user)
    "#]]);
    world.ok("init");
    assert!(folder.join("flightline.db").is_file());
    // A flag and the environment go before it.
    let here = world.state().display().to_string();
    let there = |typed: &str| world.line(typed).env("FLEET_LOCATION", &here).run();
    world.ok("missions create InTheUsersPlace");
    assert_eq!(there("missions list --json").json(), serde_json::json!([]));
    let flag = world
        .command(&["missions", "list", "--json", "--location", &here])
        .run();
    assert_eq!(flag.json(), serde_json::json!([]));
    // A file that says nonsense is not passed over: work would go to another store.
    let file = world.home().join(".config/flightline/config.toml");
    fs::write(&file, "location = 5\n").unwrap();
    world.fleet("status").expect(expect![[r#"
        [stderr]
        error: HOME/.config/flightline/config.toml: `location`: write it as text
        [exit 2]
    "#]]);
}
