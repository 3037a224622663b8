//! `fleet setup CLIENT --plugin DIR`: writes a folder that the client installs our plugin from.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use flightline::core::{Code, Refusal};
use flightline_clients::Client;
use flightline_clients::setup::{plugin_commands, plugin_files};
use serde::Serialize;

use super::{self as setup, cannot_edit, read};
use crate::app::App;
use crate::command::CommandResult;

#[derive(Serialize)]
struct Written {
    client: &'static str,
    folder: PathBuf,
    files: Vec<String>,
    install: Vec<String>,
}

pub fn run(client: Client, folder: &Path, app: &App) -> CommandResult {
    let files = plugin_files(client, env!("CARGO_PKG_VERSION"))
        .map_err(|trouble| cannot_edit(folder, &trouble))?
        .ok_or_else(|| {
            Refusal::invalid(format!("{} installs no plugins", client.title()))
                .hint(format!("connect it with `fleet setup {client}`"))
        })?;
    let (folder, root) = (app.here.join(folder), app.root());
    // Other files there are not ours to replace.
    for file in &files {
        let path = folder.join(&file.path);
        let there = read(Some(&root), &path)?;
        let is_ours = |text: &String| {
            let words = ["flightline", "fleet hook "];
            text.trim().is_empty() || words.iter().any(|word| text.contains(word))
        };
        if there.is_some_and(|text| !is_ours(&text)) {
            return Err(Refusal::new(
                Code::AlreadyExists,
                format!("{} is of another plugin", path.display()),
            )
            .hint("name another folder"));
        }
    }
    let steps = app.steps()?;
    for file in &files {
        let path = folder.join(&file.path);
        let written = setup::Written {
            root: Some(&root),
            path: &path,
            mode: 0o644,
        };
        written.put(Some(&file.text), &steps)?;
    }
    let written = Written {
        client: client.as_str(),
        files: files.into_iter().map(|file| file.path).collect(),
        install: plugin_commands(client, &folder.display().to_string()),
        folder,
    };
    app.ui.answer(&written, |page| {
        for file in &written.files {
            page.line(format_args!("{}", written.folder.join(file).display()));
        }
        page.line("Its hooks run `fleet` from the PATH. Install it with:");
        for command in &written.install {
            page.line(format_args!("  {command}"));
        }
        page.line("Use either the plugin or the entries of `fleet setup`: with both, every event is reported twice.");
    })?;
    Ok(ExitCode::SUCCESS)
}
