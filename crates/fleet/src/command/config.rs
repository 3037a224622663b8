//! `fleet config`: lists, shows and changes settings.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Subcommand;
use flightline::core::{Code, Refusal};
use serde_json::json;

use super::CommandResult;
use crate::app::App;
use crate::config::{self, Level, Setting, SettingChange};
use crate::ui::Cell;

#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// List all settings and their sources
    List,
    /// Show one setting
    Get {
        /// The name of the setting, such as `locks.ttl`
        name: String,
    },
    /// Change one setting
    Set {
        /// The name of the setting, such as `locks.ttl`
        name: String,
        /// The new value, such as `45m`
        value: String,
        /// Set it for yourself, in every project
        #[arg(long)]
        user: bool,
    },
    /// Show the paths of the settings files
    Path,
}

pub fn run(command: ConfigCommand, app: &mut App) -> CommandResult {
    match command {
        ConfigCommand::List => {
            let settings = app.written_config()?.settings();
            app.ui.answer(&settings, |page| {
                let rows: Vec<Vec<Cell>> = settings
                    .iter()
                    .map(|setting| {
                        vec![
                            Cell::new(&setting.name),
                            Cell::new(&setting.value),
                            Cell::new(&setting.source),
                            Cell::dim(&setting.meaning),
                        ]
                    })
                    .collect();
                page.table(&["NAME", "VALUE", "SOURCE", "MEANING"], &rows);
            })?;
        }
        ConfigCommand::Get { name } => {
            let setting = find(app, &name)?;
            app.ui.answer(&setting, |page| page.line(&setting.value))?;
        }
        ConfigCommand::Set { name, value, user } => {
            let level = if user {
                user_file(app)?;
                Level::User
            } else {
                project_file(app)?;
                app.settings_must_be_own()?;
                Level::Project
            };
            if name == "project" && level == Level::Project {
                app.must_have_project(&value)?;
            }
            let change = SettingChange {
                name: &name,
                value: &value,
                level,
            };
            let state = app.home.as_ref().map(|home| home.state.as_path());
            config::set(&change, state, &app.env)?;
            app.forget_config();
            if level == Level::Project {
                let noted = app.note_settings().map_err(|refusal| {
                    refusal.after_a_write("the setting is written; run `fleet trust` when you can")
                });
                noted.map_err(|refusal| Refusal {
                    message: format!("the setting is written, but {}", refusal.message),
                    ..refusal
                })?;
            }
            let setting = find(app, &name)?;
            app.ui.answer(&setting, |page| {
                page.line(format_args!(
                    "{} = {} ({})",
                    setting.name, setting.value, setting.source
                ))
            })?;
        }
        ConfigCommand::Path => {
            let (project, user) = (project_file(app).ok(), app.env.user_config.clone());
            app.ui
                .answer(&json!({ "project": project, "user": user }), |page| {
                    let show = |path: Option<&PathBuf>| {
                        path.map_or_else(|| "none".to_owned(), |path| path.display().to_string())
                    };
                    page.line(format_args!("project  {}", show(project.as_ref())));
                    page.line(format_args!("user     {}", show(user.as_ref())));
                })?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn find(app: &App, name: &str) -> Result<Setting, Refusal> {
    let settings = app.written_config()?.settings();
    let known: Vec<String> = settings
        .iter()
        .map(|setting| setting.name.clone())
        .filter(|name| !name.starts_with("triggers."))
        .collect();
    settings
        .into_iter()
        .find(|setting| setting.name == name)
        .ok_or_else(|| {
            Refusal::new(Code::NotFound, format!("there is no setting `{name}`")).hint(format!(
                "settings: {}, and a switch for each trigger (`fleet config list`)",
                known.join(", ")
            ))
        })
}

fn project_file(app: &App) -> Result<PathBuf, Refusal> {
    Ok(app.home()?.state.join(config::FILE))
}

fn user_file(app: &App) -> Result<PathBuf, Refusal> {
    app.env.user_config.clone().ok_or_else(|| {
        Refusal::invalid("there is no home folder to keep your settings in").hint("set HOME")
    })
}
