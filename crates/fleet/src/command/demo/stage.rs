//! Where the demo happens: a folder of its own, a repository in it, and a fleet in that.
#![expect(
    clippy::disallowed_methods,
    reason = "the demo works in a folder that it makes itself"
)]

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::Parser;
use flightline::core::{Code, Refusal};
use flightline::store::clock::Ids;

use crate::app::App;
use crate::cli::Cli;
use crate::command;
use crate::config::Environment;

/// Makes the folder, or takes the one that was named when there is nothing in it.
pub fn folder(named: Option<PathBuf>) -> Result<PathBuf, Refusal> {
    let path = match named {
        Some(path) => path,
        None => {
            let id = Ids::Random.next().simple().to_string();
            std::env::temp_dir().join(format!("flightline-demo-{}", &id[..8]))
        }
    };
    let cannot = |why: &dyn std::fmt::Display| {
        Refusal::invalid(format!("cannot use {}: {why}", path.display()))
            .hint("name another folder with `--in`")
    };
    if path.exists() {
        if !path.is_dir() {
            return Err(cannot(&"it is not a folder"));
        }
        let mut inside = fs::read_dir(&path).map_err(|error| cannot(&error))?;
        if inside.next().is_some() {
            return Err(Refusal::invalid(format!("{} is not empty", path.display()))
                .hint("name a folder that is empty or not there yet, or leave `--in` out"));
        }
    }
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&path)
        .and_then(|()| path.canonicalize())
        .map_err(|error| cannot(&error))
}

/// Makes a repository and a fleet in an empty folder.
pub fn set_up(folder: &Path, around: &Environment) -> Result<App, Refusal> {
    make_repository(folder).map_err(|error| {
        Refusal::new(
            Code::Failed,
            format!("cannot make a repository in {}: {error}", folder.display()),
        )
    })?;
    let typed = [
        "fleet".as_ref(),
        "--quiet".as_ref(),
        "-C".as_ref(),
        folder.as_os_str(),
        "init".as_ref(),
        "--here".as_ref(),
        "--name".as_ref(),
        "demo".as_ref(),
    ];
    let cli = Cli::try_parse_from(typed)
        .map_err(|error| Refusal::new(Code::Failed, error.to_string()))?;
    let ui = crate::ui::Ui::new(false, Vec::new(), true, cli.globals.color);
    // Neither the caller's environment nor the user's settings: the store is the embedded one. That it is the
    // user's own is kept where such things are kept.
    let environment = Environment {
        user: around.user.clone(),
        user_state: around.user_state.clone(),
        ..Environment::default()
    };
    let mut app = App::new(cli.globals, ui, environment)?;
    // A fleet in a folder above is none of our business.
    app.home = None;
    app.forget_config();
    command::run(cli.command, &mut app)?;
    Ok(app)
}

/// With git when it is there; else the folder by which a repository is known.
fn make_repository(folder: &Path) -> std::io::Result<()> {
    let made = Command::new("git")
        .args([
            "-c",
            "init.defaultBranch=main",
            "init",
            "--quiet",
            "--template=",
        ])
        .current_dir(folder)
        .env_remove("GIT_DIR")
        .env_remove("GIT_WORK_TREE")
        .env_remove("GIT_OBJECT_DIRECTORY")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    match made {
        Ok(status) if status.success() => Ok(()),
        Ok(_) | Err(_) => fs::create_dir_all(folder.join(".git")),
    }
}
