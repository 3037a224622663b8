//! `fleet setup`: users' settings files are changed as shown, and given back byte for byte.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use serde_json::Value;

/// Settings files as people have them, from the tests of the editing itself.
#[path = "../../../../flightline-clients/src/setup/tests/corpus.rs"]
mod corpus;

use crate::cli::world::{World, mode};

const CLIENTS: [&str; 7] = [
    "claude", "codex", "gemini", "opencode", "copilot", "cline", "cursor",
];

fn home(world: &World, path: &str, text: &str) {
    let path = world.home().join(path);
    fs::create_dir_all(path.parent().expect("a folder")).expect("made");
    fs::write(path, text).expect("written");
}

/// Every file below a folder, with its bytes, but for our own state.
fn files(root: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    let mut open = vec![root.to_path_buf()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).expect("read") {
            let path = entry.expect("an entry").path();
            let name = path
                .strip_prefix(root)
                .expect("below")
                .display()
                .to_string();
            if name.starts_with(".local") {
                continue;
            }
            match path.is_dir() {
                true => open.push(path),
                false => found.push((name, fs::read(&path).expect("read"))),
            }
        }
    }
    found.sort();
    found
}

/// Every folder below a folder, but for our own state.
fn folders(root: &Path) -> Vec<std::path::PathBuf> {
    let (mut found, mut open) = (Vec::new(), vec![root.to_path_buf()]);
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).expect("read") {
            let path = entry.expect("an entry").path();
            if path.is_dir() && !path.ends_with(".local") {
                open.push(path.clone());
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

#[test]
fn every_client_is_set_up_and_its_files_are_given_back() {
    let world = World::new();
    home(
        &world,
        ".claude/settings.json",
        "{\n  // mine\n  \"hooks\": {\"Stop\": [{\"hooks\": [{\"type\": \"command\", \"command\": \"say done\"}]}],},\n}\n",
    );
    home(&world, ".codex/config.toml", "# mine\r\nmodel = \"x\"\r\n");
    home(
        &world,
        ".gemini/settings.json",
        "\u{feff}{\"theme\":\"dark\"}",
    );
    home(
        &world,
        ".cursor/hooks.json",
        "{\"version\":1,\"hooks\":{}}\n",
    );
    let (before, folders_before) = (files(&world.home()), folders(&world.home()));
    for client in CLIENTS {
        // Codex runs no hook without its user's consent.
        let client = if client == "codex" {
            "codex --trust-hooks"
        } else {
            client
        };
        let set = world.ok(&format!("setup {client} -y"));
        assert!(set.stdout.contains("Start a new session"), "{set:?}");
        let again = world.ok(&format!("setup {client} -y"));
        assert!(
            again.stdout.contains("Nothing is to be changed."),
            "{client}: {again:?}"
        );
        assert_eq!(world.fleet(&format!("setup {client} --check")).code, 0);
        assert_ne!(files(&world.home()), before, "{client}");
        world.ok(&format!("setup {client} --remove -y"));
        assert_eq!(files(&world.home()), before, "{client}");
        assert_eq!(folders(&world.home()), folders_before, "{client}");
        assert_eq!(world.fleet(&format!("setup {client} --check")).code, 5);
    }
    for client in CLIENTS {
        world.ok(&format!("setup {client} --project -y"));
    }
    for client in CLIENTS.iter().rev() {
        world.ok(&format!("setup {client} --project --remove -y"));
    }
    let left = files(&world.repo());
    assert!(
        left.iter()
            .all(|(name, _)| name.starts_with(".flightline/")),
        "{left:?}"
    );
}

#[test]
fn the_hook_that_setup_writes_is_the_one_that_works() {
    let world = World::new();
    world.ok("setup claude -y");
    let text = fs::read_to_string(world.home().join(".claude/settings.json")).expect("there");
    let settings: Value = serde_json::from_str(&text).expect("JSON");
    let command = &settings["hooks"]["SessionStart"][0]["hooks"][0]["command"];
    let command = command.as_str().expect("a command");
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", command]);
    let input = format!(
        "{{\"session_id\":\"one\",\"cwd\":{:?},\"source\":\"startup\"}}",
        world.repo()
    );
    let ran = world.wrapped(shell).stdin(input).run();
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{command}");
    let agents = world.json("agents list --json");
    assert_eq!(agents[0]["agent"]["name"], "claude", "{agents}");
}

#[test]
fn the_status_line_shows_the_mission_and_the_context() {
    let world = World::with_sorties(&["Model", "Docs"]);
    world.ok("setup claude -y");
    let settings = fs::read_to_string(world.home().join(".claude/settings.json")).expect("there");
    assert!(settings.contains("statusline"), "{settings}");
    world.ok("checkpoint");
    let given = format!(
        "{{\"session_id\":\"one\",\"cwd\":{:?},\"context_window\":{{\"context_window_size\":200000,\"current_usage\":{{\"input_tokens\":30000,\"cache_read_input_tokens\":20000}}}}}}",
        world.repo()
    );
    let line = world.line("statusline").stdin(given).run();
    assert_eq!(line.code, 0, "{line:?}");
    assert!(
        line.stdout.starts_with("Add login 0/2 · checkpoint ")
            && line.stdout.contains("context 25 %"),
        "{line:?}"
    );
    let nothing = World::empty().line("statusline").stdin("not json").run();
    assert_eq!((nothing.code, nothing.stdout.as_str()), (0, ""));
}

#[test]
fn a_person_sees_the_changes_first_and_nothing_changes_without_consent() {
    let world = World::new();
    let before = files(&world.home());
    let shown = world.ok("setup claude --dry-run");
    assert!(
        shown.stderr.contains("+") && shown.stderr.contains("hook claude SessionStart"),
        "{shown:?}"
    );
    assert!(shown.stdout.contains("Nothing was changed."), "{shown:?}");
    let asked = world.fleet("setup claude");
    assert_eq!(asked.code, 2, "{asked:?}");
    assert_eq!(files(&world.home()), before);
}

#[test]
fn links_modes_and_files_that_cannot_be_read_are_respected() {
    let world = World::new();
    let dotfiles = world.home().join("dotfiles");
    fs::create_dir_all(&dotfiles).expect("made");
    fs::write(dotfiles.join("claude.json"), "{}").expect("written");
    fs::set_permissions(
        dotfiles.join("claude.json"),
        PermissionsExt::from_mode(0o600),
    )
    .expect("set");
    fs::create_dir_all(world.home().join(".claude")).expect("made");
    let link = world.home().join(".claude/settings.json");
    symlink(dotfiles.join("claude.json"), &link).expect("linked");
    world.ok("setup claude -y");
    assert!(link.is_symlink(), "the link stays");
    assert!(
        fs::read_to_string(dotfiles.join("claude.json"))
            .expect("read")
            .contains("SessionStart")
    );
    assert_eq!(mode(&dotfiles.join("claude.json")), 0o600);
    world.ok("setup claude --remove -y");
    assert_eq!(
        fs::read_to_string(dotfiles.join("claude.json")).expect("read"),
        "{}"
    );
    // In a repository no link is followed.
    fs::create_dir_all(world.repo().join(".codex")).expect("made");
    symlink(
        dotfiles.join("claude.json"),
        world.repo().join(".codex/hooks.json"),
    )
    .expect("linked");
    assert_ne!(world.fleet("setup codex --project -y").code, 0);
    assert_eq!(
        fs::read_to_string(dotfiles.join("claude.json")).expect("read"),
        "{}"
    );
    home(&world, ".gemini/settings.json", "{ \"hooks\": ");
    let refused = world.fleet("setup gemini -y");
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(
        refused.stderr.contains("nothing was changed"),
        "{refused:?}"
    );
}

#[test]
fn a_repository_that_is_disconnected_leaves_the_users_own_connection() {
    let world = World::new();
    let before = "# mine\nmodel = \"x\"\n";
    home(&world, ".codex/config.toml", before);
    let config = || fs::read_to_string(world.home().join(".codex/config.toml")).expect("there");
    world.ok("setup codex --trust-hooks -y");
    let connected = config();
    world.ok("setup codex --project --trust-hooks -y");
    assert_ne!(config(), connected);
    world.ok("setup codex --project --remove -y");
    assert_eq!(config().trim_end(), connected.trim_end());
    assert_eq!(world.fleet("setup codex --check").code, 0);
    world.ok("setup codex --remove -y");
    assert_eq!(config(), before);
}

#[test]
fn a_user_who_disconnects_leaves_what_repositories_were_trusted_with() {
    // Whichever came first, and also where there was no file before.
    for before in [Some("# mine\nmodel = \"x\"\n"), None] {
        for order in [["", " --project"], [" --project", ""]] {
            let world = World::new();
            if let Some(text) = before {
                home(&world, ".codex/config.toml", text);
            }
            let config = || fs::read_to_string(world.home().join(".codex/config.toml")).ok();
            for scope in order {
                world.ok(&format!("setup codex{scope} --trust-hooks -y"));
            }
            world.ok("setup codex --remove -y");
            let left = config().expect("the trust in the repository's hooks");
            let trusted = left.matches("trusted_hash").count();
            assert_eq!(trusted, 10, "{order:?}: {left}");
            assert!(!left.contains("mcp_servers"), "{order:?}: {left}");
            assert!(left.starts_with(before.unwrap_or_default()), "{left}");
            let check = world.fleet("setup codex --project --check");
            assert_eq!(check.code, 0, "{order:?}: {check:?}");
            world.ok("setup codex --project --remove -y");
            assert_eq!(config().as_deref(), before, "{order:?}");
        }
    }
}

#[test]
fn consent_to_codex_is_written_only_when_it_is_given() {
    let world = World::new();
    let told = world.ok("setup codex -y");
    assert!(told.stdout.contains("--trust-hooks"), "{told:?}");
    let config = fs::read_to_string(world.home().join(".codex/config.toml")).expect("there");
    assert!(!config.contains("trusted_hash"), "{config}");
    assert_eq!(
        world.fleet("setup codex --check").code,
        5,
        "Codex would run none of them"
    );
    world.ok("setup codex --trust-hooks -y");
    assert_eq!(world.fleet("setup codex --check").code, 0);
    let trusted = fs::read_to_string(world.home().join(".codex/config.toml")).expect("there");
    assert!(trusted.contains("trusted_hash = \"sha256:"), "{trusted}");
    world.ok("setup codex --remove -y");
    assert!(!world.home().join(".codex/config.toml").exists());
}

/// Sets a client up and takes everything out again: whatever a file looked like, it is as it was, byte for byte.
fn there_and_back(world: &World, line: &str, shown: &str) {
    let roots = [world.home(), world.repo()];
    let all = || roots.each_ref().map(|root| files(root));
    let before = all();
    let set = world.fleet(&format!("setup {line} -y"));
    if set.code != 0 {
        assert_eq!(all(), before, "{line} was refused, and changed {shown:?}");
        return;
    }
    assert_ne!(all(), before, "{line} {shown:?}");
    world.ok(&format!("setup {line} --remove -y"));
    assert_eq!(all(), before, "{line} {shown:?}");
}

#[test]
fn settings_as_people_have_them_come_back_byte_for_byte() {
    let world = World::empty();
    for (client, file) in [
        ("claude", ".claude/settings.json"),
        ("gemini", ".gemini/settings.json"),
        ("codex", ".codex/hooks.json"),
        ("cursor", ".cursor/hooks.json"),
        ("copilot", ".copilot/hooks/flightline.json"),
    ] {
        for text in corpus::JSON {
            home(&world, file, text);
            there_and_back(&world, client, text);
        }
        fs::remove_file(world.home().join(file)).expect("removed");
    }
    for text in corpus::TOML {
        home(&world, ".codex/config.toml", text);
        there_and_back(&world, "codex --trust-hooks", text);
    }
}

#[test]
fn files_of_a_repository_come_back_byte_for_byte() {
    let world = World::empty();
    for text in corpus::MARKDOWN {
        for (client, file) in [("codex", "AGENTS.md"), ("claude", "CLAUDE.md")] {
            world.write(file, text);
            there_and_back(&world, &format!("{client} --project"), text);
        }
    }
    for text in corpus::JSON {
        world.write(".claude/settings.json", text);
        there_and_back(&world, "claude --project", text);
    }
}

#[test]
fn a_file_that_is_read_only_is_left_alone_and_so_are_the_others() {
    let world = World::empty();
    home(&world, ".claude/settings.json", "{}");
    let file = world.home().join(".claude/settings.json");
    fs::set_permissions(&file, PermissionsExt::from_mode(0o444)).expect("set");
    let before = files(&world.home());
    let refused = world.fleet("setup claude -y");
    assert_eq!(refused.code, 7, "{refused:?}");
    assert!(refused.stderr.contains("is read-only"), "{refused:?}");
    assert_eq!(files(&world.home()), before);
    fs::set_permissions(&file, PermissionsExt::from_mode(0o644)).expect("set");
    world.ok("setup claude -y");
    fs::set_permissions(&file, PermissionsExt::from_mode(0o444)).expect("set");
    let set_up = files(&world.home());
    assert_eq!(world.fleet("setup claude --remove -y").code, 7);
    assert_eq!(files(&world.home()), set_up);
    assert_eq!(mode(&file), 0o444);
}

#[test]
fn a_folder_of_dotfiles_may_be_a_link() {
    let world = World::empty();
    home(
        &world,
        "dotfiles/claude/settings.json",
        "{\r\n  // mine\r\n}\r\n",
    );
    symlink("dotfiles/claude", world.home().join(".claude")).expect("linked");
    let dotfiles = world.home().join("dotfiles");
    let before = files(&dotfiles);
    world.ok("setup claude -y");
    assert_ne!(files(&dotfiles), before);
    assert_eq!(world.fleet("setup claude --check").code, 0);
    world.ok("setup claude --remove -y");
    assert_eq!(files(&dotfiles), before);
    assert!(world.home().join(".claude").is_symlink(), "the link stays");
}

#[test]
fn the_block_for_agents_is_written_once_and_taken_out_again() {
    let world = World::new();
    let file = world.repo().join("AGENTS.md");
    assert!(
        world
            .ok("agents-md --write")
            .stdout
            .starts_with("Wrote the block")
    );
    let written = fs::read_to_string(&file).expect("there");
    assert_eq!(written.trim_end(), world.ok("agents-md").stdout.trim_end());
    let again = world.ok("agents-md --write");
    assert!(again.stdout.contains("has the block already"), "{again:?}");
    assert_eq!(fs::read_to_string(&file).expect("there"), written);
    world.ok("agents-md --remove");
    assert!(!file.exists(), "nothing else was in it");
    for text in ["# Rules\n\n- one\n", "# Rules\r\n", "# Rules"] {
        world.write("AGENTS.md", text);
        world.ok("agents-md --write");
        world.ok("agents-md --write");
        let json = world.json("agents-md --remove");
        assert_eq!(json["changed"], true, "{json}");
        assert_eq!(fs::read_to_string(&file).expect("there"), text);
        assert_eq!(world.json("agents-md --remove")["changed"], false);
    }
}

#[test]
fn a_plugin_s_folder_has_hooks_that_work() {
    let world = World::new();
    for client in ["claude", "codex"] {
        let written = world.json(&format!("setup {client} --plugin made/{client}"));
        let folder = world.repo().join("made").join(client);
        for file in written["files"].as_array().expect("a list") {
            let path = folder.join(file.as_str().expect("a path"));
            assert!(path.is_file(), "{}", path.display());
        }
        let hooks = fs::read_to_string(folder.join("flightline/hooks/hooks.json")).expect("read");
        let hooks: Value = serde_json::from_str(&hooks).expect("JSON");
        let command = &hooks["hooks"]["SessionStart"][0]["hooks"][0]["command"];
        assert_eq!(command, &format!("fleet hook {client} SessionStart"));
        // A second time it is brought up to date.
        let before = files(&folder);
        world.ok(&format!("setup {client} --plugin made/{client}"));
        assert_eq!(files(&folder), before);
    }
    let none = world.fleet("setup gemini --plugin made/gemini");
    assert_eq!(none.code, 2, "{none:?}");
    assert_eq!(world.fleet("setup claude codex --plugin made/both").code, 2);
    world.write(
        "other/.claude-plugin/marketplace.json",
        "{\"name\": \"mine\"}",
    );
    let taken = world.fleet("setup claude --plugin other");
    assert_eq!(taken.code, 4, "{taken:?}");
    assert_eq!(
        fs::read_to_string(world.repo().join("other/.claude-plugin/marketplace.json"))
            .expect("read"),
        "{\"name\": \"mine\"}"
    );
    assert!(!world.repo().join("other/flightline").exists());
}
